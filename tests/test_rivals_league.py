"""The league: games that all start alike, profiles that say who is how far from the best."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from command import invoke
from quartic.bench.cases import Cell, parse_case
from quartic.bench.methods import LEAGUE
from quartic.bench.sections import (
    AXES,
    SHAPES,
    choose_games,
    league_numbers,
    panels_of,
    profiles,
    run_section,
    settings_of,
)
from quartic.plots import draw


def play(folder, *games, say=print, **settings):
    """Run the league with a few games, in haste."""
    return run_section(
        replace(settings_of("league", True), cases=games, **{"seconds": 0.3, **settings}), folder, say, say
    )


def row(case, method, seconds, final=1.0, seed=0, products=None):
    """A run; what makes as many products as another, and ends there, is the same computation."""
    return {
        "case": f"symnmf {case}",
        "method": method,
        "seed": seed,
        "s to 0.001": seconds,
        "products to 0.001": sum(map(ord, method)) if products is None else products,
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


def test_the_same_computation_takes_the_same_time():
    """What parts the times of auto and of the method it chose is noise."""
    rows = [row("a", "auto", 2.0, products=7), row("a", "face-cg", 1.5, products=7), row("a", "cd", 1.0, products=9)]
    found = profiles(rows, "symnmf", 1e-3, "s")
    assert found["auto"].tolist() == found["face-cg"].tolist() == [1.5]
    rows[1]["final"] = 1.0 + 1e-9
    assert profiles(rows, "symnmf", 1e-3, "s")["auto"].tolist() == [2.0]


def test_problems_that_not_all_have_played_are_left_out():
    rows = [row("a", "auto", 2.0), row("a", "cd", 1.0), row("b", "auto", 1.0)]
    assert profiles(rows, "symnmf", 1e-3, "s")["auto"].tolist() == [2.0]


def test_games_are_drawn_alike_every_time():
    for game in choose_games(quick=True):
        if game.family != "symnmf":
            np.testing.assert_array_equal(game.load().start(0), parse_case(str(game)).load().start(0))
    for what in ("planted-90-3", "lfr-120-3", "mixture-90-3", "kernel-60-3"):
        M = Cell(what, 3, "symnmf", "random", 1).given[0]
        assert abs(M - M.T).max() < 1e-12
        other = Cell(what, 3, "symnmf", "random", 2).given[0]
        assert other.shape == M.shape
        assert abs(other - M).max() > 0
    for shape in SHAPES:
        pairs, d, X = Cell(f"{shape}-40-0.5-0.05", 3, "edmc", "random", 0).given
        assert len(X) == 40
        assert len(pairs) == len(d) == 390
        assert (d > 0).all()


def test_the_whole_league_has_what_it_says():
    games = choose_games()
    assert sum(game.family == "edmc" for game in games) == 2 * 7 * 3 * 3
    assert {game.begin for game in games} == {"random", "spectral"}
    assert len({str(game) for game in games}) == len(games)
    assert {"auto", "snmpbb", "scipy", "lai", "lvs-hals", "cocain"} <= {name.split(" ")[0] for name in LEAGUE["symnmf"]}
    assert set(LEAGUE) == {"symnmf", "edmc", "stress"}


def test_any_prefix_of_the_league_is_a_fair_sample():
    games = choose_games()
    for part in (20, 60, 120):
        for family in LEAGUE:
            share = sum(game.family == family for game in games) / len(games)
            assert abs(sum(game.family == family for game in games[:part]) - share * part) <= 1
        nmf = [game for game in games[:part] if game.family == "symnmf"]
        assert 0.2 < sum(game.begin == "random" for game in nmf) / len(nmf) < 0.8


def test_a_rival_that_breaks_down_loses_its_game_only(tmp_path, monkeypatch):
    def breaks(self, problem, state):
        raise KeyError("broken")

    monkeypatch.setattr("quartic.solvers.SMACOF.step", breaks)
    store = play(tmp_path, Cell("cloud-30-0.8-0.05", 3, "stress", "spectral"))
    assert {row["method"].split()[0] for row in store.rows if "cannot" in row} == {"smacof"}
    assert "KeyError" in store.find(method="smacof relaxation=1.9")[0]["cannot"]
    assert len(store.rows) == len(LEAGUE["stress"])


def test_a_game_that_cannot_be_drawn_is_left_out_with_the_reason(tmp_path):
    said = []
    assert not play(tmp_path, Cell("planted-2-9", 9, "symnmf", "random"), say=said.append).rows
    assert said == ["symnmf planted-2-9:9 random is left out: n_communities must be at most n = 2, got 9"]


def test_runs_are_kept_and_not_made_again(tmp_path):
    games = Cell("planted-60-3", 3, "symnmf", "random"), Cell("cloud-30-0.8-0", 3, "edmc", "spectral")
    store = play(tmp_path, *games)
    assert {row["method"] for row in store.find(case=str(games[0]))} == set(LEAGUE["symnmf"])
    found = store.find(case=str(games[0]), method="auto")[0]
    assert found["error"] <= 1e-6
    assert found["s to 0.01"] <= found["s to 1e-06"] <= found["spent"]
    assert found["final"] < found["first"]
    assert all("cannot" not in row for row in store.rows), [row for row in store.rows if "cannot" in row]
    again = play(tmp_path, *games)
    assert len(again.rows) == len(store.rows)
    assert (again.find(method="auto") or [{}])[0] == found
    drawn = draw(panels_of("league", again.rows), tmp_path / "league", AXES["league"])
    assert [path.name for path in drawn] == ["league.png", "league.pdf"]
    assert drawn[0].stat().st_size > 10_000


def test_the_command_runs_a_game_and_prints_the_profiles(tmp_path):
    words = ["league", "--case", "stress cloud-30-0.8-0.05:3 spectral", "--seconds", "0.3", "-o", str(tmp_path)]
    done = invoke("bench", *words)
    assert done.exit_code == 0, done.output
    assert "Within 1.2 of the best" in done.stdout
    assert (tmp_path / "league.png").is_file()
    assert "is no case" in invoke("bench", "league", "--case", "stress cloud", "-o", tmp_path).output


def test_every_solver_has_a_colour_of_its_own():
    from quartic.plots import OURS, RIVALS

    assert {name.split(" ")[0] for entries in LEAGUE.values() for name in entries} <= set(OURS | RIVALS)
    assert len({*OURS.values(), *RIVALS.values()}) == len(OURS) + len(RIVALS)
