"""The league: games that all start alike, profiles that say who is how far from the best."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from quartic.bench.league import (
    METHODS,
    SHAPES,
    Game,
    LeagueSettings,
    entries_of,
    league_numbers,
    main,
    profiles,
    run_league,
)


def row(case, method, seconds, final=1.0, seed=0):
    return {
        "case": f"symnmf {case}",
        "method": method,
        "seed": seed,
        "s to 0.001": seconds,
        "first": 10.0,
        "final": final,
    }


def test_profiles_are_ratios_to_the_best_and_the_best_of_a_grid_counts():
    rows = [
        row("a", "auto", 2.0), row("a", "hals mu=1", 8.0), row("a", "hals mu=0.1", 1.0), row("a", "cd", 3.0),
        row("b", "auto", 1.0), row("b", "hals mu=1", 5.0), row("b", "hals mu=0.1", 9.0), row("b", "cd", 0.5, final=2.0),
    ]  # fmt: skip
    found = profiles(rows, "symnmf", 1e-3, "s")
    assert found["auto"].tolist() == [2.0, 1.0]
    assert found["hals"].tolist() == [1.0, 5.0]
    assert found["cd"].tolist() == [3.0, math.inf]  # the sooner, the higher: that is no answer
    numbers = {
        (n.method, n.measure): n.value for n in league_numbers(rows, "league") if "time" in n.case and "0.001" in n.case
    }
    assert numbers["auto", "within 1.2"] == 0.5
    assert numbers["auto", "within 2"] == 1.0
    assert numbers["hals", "over auto's"] == pytest.approx(math.sqrt(0.5 * 5.0))
    assert numbers["cd", "at worst"] == 3.0


def test_problems_that_not_all_have_played_are_left_out():
    rows = [row("a", "auto", 2.0), row("a", "cd", 1.0), row("b", "auto", 1.0)]
    assert profiles(rows, "symnmf", 1e-3, "s")["auto"].tolist() == [2.0]


def test_games_are_drawn_alike_every_time():
    for game in LeagueSettings.choose(quick=True, only="edmc").games:
        again = Game(game.family, game.what, game.rank, game.start, game.seed)
        np.testing.assert_array_equal(game.X0, again.X0)
    for what in ("planted-90-3", "lfr-120-3", "mixture-90-3", "kernel-60-3"):
        M = Game("symnmf", what, 3, "random", 1).data
        assert abs(M - M.T).max() < 1e-12
        other = Game("symnmf", what, 3, "random", 2).data
        assert other.shape == M.shape
        assert abs(other - M).max() > 0
    for shape in SHAPES:
        pairs, d, n = Game("edmc", f"{shape}-40-0.5-0.05", 3, "random", 0).data
        assert n == 40
        assert len(pairs) == len(d) == 390
        assert (d > 0).all()


def test_the_whole_league_has_what_it_says():
    games = LeagueSettings.choose().games
    assert sum(game.family == "edmc" for game in games) == 2 * 7 * 3 * 3
    assert {game.start for game in games} == {"random", "spectral"}
    assert len({str(game) for game in games}) == len(games)
    assert {"auto", "snmpbb", "scipy", "lai", "cocain"} <= {name.split(" ")[0] for name in entries_of("symnmf")}
    assert set(METHODS) == {"symnmf", "edmc", "stress"}


def test_any_prefix_of_the_league_is_a_fair_sample():
    games = LeagueSettings.choose().games
    for part in (20, 60, 120):
        for family in METHODS:
            share = sum(game.family == family for game in games) / len(games)
            assert abs(sum(game.family == family for game in games[:part]) - share * part) <= 1
        nmf = [game for game in games[:part] if game.family == "symnmf"]
        assert 0.2 < sum(game.start == "random" for game in nmf) / len(nmf) < 0.8


def test_when_time_is_over_whole_runs_are_kept_and_nothing_is_begun(tmp_path):
    games = LeagueSettings.choose(quick=True, only="edmc").games
    store = run_league(LeagueSettings(games=games, budget=0.0), tmp_path, print, print)
    assert not store.rows
    taken = []
    none = run_league(LeagueSettings(games=games), tmp_path, print, print, claim=lambda k: taken.append(k) or False)
    assert not none.rows
    assert taken == list(range(len(games)))


def test_a_rival_that_breaks_down_loses_its_game_only(tmp_path, monkeypatch):
    def breaks(self, problem, state):
        raise KeyError("broken")

    monkeypatch.setattr("quartic.solvers.SMACOF.step", breaks)
    games = (Game("stress", "cloud-30-0.8-0.05", 3, "spectral", 0),)
    store = run_league(LeagueSettings(games=games, seconds=0.3), tmp_path, print, print)
    assert {row["method"].split()[0] for row in store.rows if "cannot" in row} == {"smacof"}
    assert "KeyError" in store.find(method="smacof relaxation=1.9")[0]["cannot"]
    assert len(store.rows) == len(entries_of("stress"))


def test_runs_are_kept_and_not_made_again(tmp_path):
    games = (Game("symnmf", "planted-60-3", 3, "random", 0), Game("edmc", "cloud-30-0.8-0", 3, "spectral", 0))
    settings = LeagueSettings(games=games, seconds=0.3, name="league-quick")
    said = []
    store = run_league(settings, tmp_path, said.append, said.append)
    assert {row["method"] for row in store.find(case=str(games[0]))} == set(entries_of("symnmf"))
    found = store.find(case=str(games[0]), method="auto")[0]
    assert found["error"] <= 1e-6
    assert found["s to 0.01"] <= found["s to 1e-06"] <= found["spent"]
    assert all("cannot" not in row for row in store.rows), [row for row in store.rows if "cannot" in row]
    again = run_league(settings, tmp_path, said.append, said.append)
    assert len(again.rows) == len(store.rows)
    assert (again.find(method="auto") or [{}])[0] == found


def test_the_module_writes_its_table(tmp_path, monkeypatch, capsys):
    small = LeagueSettings(games=(Game("stress", "cloud-30-0.8-0.05", 3, "spectral", 0),), seconds=0.3)
    monkeypatch.setattr(LeagueSettings, "choose", classmethod(lambda cls, *a: small))
    main(["--results", str(tmp_path), "--seconds", "0.3"])
    text = (tmp_path / "league.csv").read_text(encoding="utf-8")
    assert "smacof,within 2" in text
    assert "auto,at worst" in text
    assert "over auto's" in capsys.readouterr().out


def test_processes_share_the_games_and_end_in_time(tmp_path):
    words = ["--quick", "--only", "stress", "--processes", "2", "--seconds", "0.2", "--results", str(tmp_path)]
    began = time.monotonic()
    main([*words, "--budget", "40"])
    assert time.monotonic() - began < 60
    assert "auto,within 1.2" in (tmp_path / "league.csv").read_text(encoding="utf-8")
    lines = (tmp_path / "league-quick.jsonl").read_text(encoding="utf-8").splitlines()
    assert sum("stress cloud" in line for line in lines) == len(entries_of("stress"))
