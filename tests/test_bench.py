"""The harness on tiny cases, through the same code as the full runs."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from quartic.bench import (
    Cell,
    Figure1Settings,
    Figure2Settings,
    Helix,
    PeersSettings,
    Store,
    Table1Settings,
    run_figure1,
    run_figure2,
    run_peers,
    run_table1,
    write_page,
)
from quartic.bench import table1 as table1_module
from quartic.bench.commands import bench, paper
from quartic.bench.contestants import GRIDS, PAPER_NAMES, SOLVERS, contestant
from quartic.bench.edmc import METHODS, run_method
from quartic.bench.figure2 import times_to
from quartic.bench.floor import FloorSettings
from quartic.bench.growth import GrowthSettings
from quartic.bench.paper_numbers import DATA, RANKS, in_paper, paper_seconds
from quartic.bench.peers_edmc import Keeper
from quartic.bench.record import describe_machine
from quartic.bench.speed import SpeedSettings
from quartic.bench.store import SettingsChanged
from quartic.bench.symnmf import Marks, run_once
from quartic.bench.table1 import cells_of, complete_starts, mean_seconds
from quartic.bench.table1_text import comparison, fastest, penalties_table, ratio_table, seconds_table
from quartic.bench.tuning import Limits, best_penalties
from quartic.bench.watch import Watch
from quartic.core.loop import Progress, referee

TINY = Table1Settings(
    cells=(Cell("planted-150-3", 3),),
    starts=2,
    limits=Limits(most=2.0, patience=50.0, least=0.3),
    grids=(("hals", (1e-2, 1e-1)), ("anls", (1e-1,)), ("admm", (1e-1, 1.0))),
)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    return run_table1(TINY, folder, say=lambda _: None), folder


# -- the referee and the clock ---------------------------------------------------------------------------------------


def test_watch_stands_still_while_paused():
    watch = Watch()
    with watch.paused():
        np.linalg.svd(np.random.default_rng(0).standard_normal((200, 200)))
    assert watch.pause > 0
    assert watch.seconds() < watch.pause


def test_referee_does_not_believe_what_a_run_says_of_itself():
    case = Cell("planted-150-3", 3).load()
    X = np.random.default_rng(0).random((150, 3))
    marks = Marks(case, reference=1.0, targets=[1e-3], watch=Watch(), limit=10.0)
    marks(Progress(1, X, 0.0, 1e-9, 1, 0.0, 1.0, 0.0))  # claims to be stationary
    assert not marks.reached
    assert marks.least == pytest.approx(referee(case.judge, X)[1])


def test_time_to_the_looser_target_comes_first_and_objectives_are_the_referees():
    case = Cell("planted-150-3", 3).load()
    tight, loose = run_once(case, contestant("dyn-nolips"), 0, [1e-3, 0.0316], limit=10.0)
    assert loose["seconds"] <= tight["seconds"]
    assert loose["products"] < tight["products"]
    assert tight["least"] <= 1e-3
    assert tight["objective"] <= loose["objective"]


def test_a_run_out_of_time_has_no_seconds():
    case = Cell("planted-150-3", 3).load()
    (row,) = run_once(case, contestant("pg"), 0, [1e-12], limit=1e-4)
    assert "seconds" not in row
    assert row["status"] == "out of time"


def test_ctrl_c_within_a_run_ends_the_whole():
    case = Cell("planted-150-3", 3).load()

    class Interrupted(Watch):
        def seconds(self):
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("quartic.bench.symnmf.Watch", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            run_once(case, contestant("inertial"), 0, [1e-3], limit=1.0)


# -- the store -------------------------------------------------------------------------------------------------------


def _store(folder):
    return Store(folder, "t", ["solver", "seed", "seconds"], key=["solver", "seed"])


def test_a_block_cut_short_is_run_again(tmp_path):
    store = _store(tmp_path)
    store.open({"limit": 1}, {"machine": "m", "date": "1"})
    for seed in (0, 1):
        store.add([{"solver": "pg", "seed": seed, "seconds": t} for t in (0.1, 0.2, 0.3)])
    text = store.path.read_text()
    for cut in (10, len("pg,1,0.3,0,0\n"), len("pg,1,0.2,0,1\npg,1,0.3,0,0\n") + 3):
        store.path.write_text(text[:-cut])
        again = _store(tmp_path)
        again.open({"limit": 1}, {"machine": "m", "date": "2"})
        assert again.has(solver="pg", seed=0)
        assert not again.has(solver="pg", seed=1)
        again.add([{"solver": "pg", "seed": 1, "seconds": t} for t in (0.1, 0.2, 0.3)])
        assert again.path.read_text() == text


def test_results_of_other_settings_are_not_mixed(tmp_path):
    store = _store(tmp_path)
    store.open({"limit": 1}, {"machine": "m", "date": "1"})
    store.add([{"solver": "pg", "seed": 0, "seconds": 1.0}])
    with pytest.raises(SettingsChanged, match=r"limit = 1.*delete it"):
        _store(tmp_path).open({"limit": 2}, {"machine": "m", "date": "1"})


def test_rows_know_the_run_that_made_them(tmp_path):
    for machine in ("one", "other"):
        store = _store(tmp_path)
        store.open({}, {"machine": machine, "date": "1"})
        store.add([{"solver": machine, "seed": 0, "seconds": 1.0}])
    kept = store.read()
    assert [kept.records[int(row["run"])]["machine"] for row in kept.rows] == ["one", "other"]


def test_a_column_that_is_not_there_is_an_error(tmp_path):
    store = _store(tmp_path)
    store.open({}, {"date": "1"})
    with pytest.raises(ValueError, match="no column speed"):
        store.add([{"solver": "pg", "seed": 0, "speed": 1.0}])


# -- table 1 ---------------------------------------------------------------------------------------------------------


def test_table1_has_every_solver_at_both_targets(table):
    rows = table[0].rows
    for epsilon in TINY.epsilons:
        for solver in SOLVERS:
            if solver == "beta":  # multiplicative updates do not arrive in the time given
                continue
            assert mean_seconds(rows, TINY.cells[0], solver, epsilon) is not None, solver
    assert complete_starts(rows, TINY.cells[0]) == {"0", "1"}


def test_what_is_there_is_not_run_again(table, monkeypatch):
    first, folder = table
    before = (folder / "table1.csv").read_text()

    def forbidden(*args, **kwargs):
        raise AssertionError("ran something that was there")

    rows = {(row["solver"], row["seed"]) for row in first.rows}
    failed = {row["solver"] for row in first.rows if not row["seconds"]}
    assert failed <= {"beta"}
    monkeypatch.setattr(table1_module, "run_once", forbidden)
    settings = replace(TINY, solvers=tuple(s for s in SOLVERS if s not in failed))
    again = run_table1(settings, folder, say=lambda _: None)
    assert {(row["solver"], row["seed"]) for row in again.rows} == rows
    assert (folder / "table1.csv").read_text() == before


def test_an_interrupted_run_goes_on(tmp_path, monkeypatch):
    settings = replace(TINY, solvers=("dyn-nolips", "inertial", "cd"))
    real, calls = table1_module.run_once, []

    def stopping(case, who, seed, *rest):
        if len(calls) == 2:
            raise KeyboardInterrupt
        calls.append((who.name, seed))
        return real(case, who, seed, *rest)

    monkeypatch.setattr(table1_module, "run_once", stopping)
    with pytest.raises(KeyboardInterrupt):
        run_table1(settings, tmp_path, say=lambda _: None)
    done = list(calls)
    monkeypatch.setattr(table1_module, "run_once", lambda *a: calls.append((a[1].name, a[2])) or real(*a))
    result = run_table1(settings, tmp_path, say=lambda _: None)
    assert calls[:2] == done
    assert len(calls) == len(set(calls)) == 6
    assert {(row["solver"], int(row["seed"])) for row in result.rows} == set(calls)


def test_deleting_the_results_makes_them_anew(tmp_path):
    settings = replace(TINY, solvers=("dyn-nolips", "cd"), starts=1)
    for _ in range(2):
        rows = run_table1(settings, tmp_path, say=lambda _: None).rows
        for file in tmp_path.iterdir():
            file.unlink()
        assert {row["solver"] for row in rows} == {"dyn-nolips", "cd"}
        products = {(row["solver"], row["epsilon"], row["products"]) for row in rows}
    assert products == {(row["solver"], row["epsilon"], row["products"]) for row in rows}


def test_missing_data_are_named_in_one_line_and_the_rest_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("QUARTIC_DATA", str(tmp_path / "nowhere"))
    said = []
    settings = replace(TINY, cells=(Cell("tdt2", 10), Cell("tdt2", 20), *TINY.cells), solvers=("dyn-nolips",), starts=1)
    result = run_table1(settings, tmp_path / "results", say=said.append)
    (line,) = [words for words in said if "missing" in words]
    assert "'tdt2'" in line
    assert "QUARTIC_DATA" in line
    assert "\n" not in line
    assert cells_of(result.rows) == list(TINY.cells)


def test_a_solver_that_failed_once_is_not_tried_again(tmp_path):
    settings = replace(TINY, solvers=("dyn-nolips", "pg"), epsilons=(1e-12, 0.0316), starts=2)
    settings = replace(settings, limits=Limits(most=1.0, patience=1.0, least=0.2))
    rows = run_table1(settings, tmp_path, say=lambda _: None).rows
    for solver in ("dyn-nolips", "pg"):
        mine = [row for row in rows if row["solver"] == solver]
        if any(not row["seconds"] for row in mine if row["seed"] == "0" and row["epsilon"] == "1e-12"):
            assert [row["epsilon"] for row in mine if row["seed"] == "1"] == ["0.0316"]


def test_penalties_are_the_fastest_of_those_that_arrive_from_every_start():
    rows = []
    for parameter, seed, seconds in [
        (0.1, 1000, "3"), (0.1, 1001, "3"), (0.01, 1000, "1"), (0.01, 1001, ""), (1.0, 1000, "4"), (1.0, 1001, "1"),
    ]:  # fmt: skip
        rows.append({"parameter": str(parameter), "seed": str(seed), "epsilon": "0.001", "seconds": seconds})
    assert best_penalties(rows, [1e-3], n_starts=2) == {1e-3: 1.0}
    assert best_penalties(rows, [1e-3], n_starts=1) == {1e-3: 0.01}
    assert best_penalties(rows, [0.0316], n_starts=2) == {}


def test_the_papers_table():
    cells = [(data, rank) for data in DATA for rank in RANKS]
    # 16 cells, of which Beta and ADMM fill one each, CD fourteen, SymANLS twelve
    counts = {s: sum(paper_seconds(d, r, s) is not None for d, r in cells) for s in PAPER_NAMES}
    assert counts == {"dyn-nolips": 16, "pg": 16, "beta": 1, "cd": 14, "hals": 16, "anls": 12, "admm": 1}
    assert all(paper_seconds(d, r, "hals") < paper_seconds(d, r, "dyn-nolips") < paper_seconds(d, r, "pg")
               for d, r in cells)  # fmt: skip
    assert in_paper("tdt2", 30, "cd")
    assert not in_paper("tdt2", 30, "auto")


def test_markdown_tables_are_square(table):
    result, _ = table
    for text in (
        seconds_table(result.rows, 1e-3),
        ratio_table(result.rows, 1e-3),
        comparison(result.rows, 1e-3),
        fastest(result.rows, 1e-3),
        penalties_table(result.tuning, list(TINY.epsilons), TINY.tuning_starts),
    ):
        assert len({line.count("|") for line in text.splitlines()}) == 1, text


def test_a_table_under_way_does_not_take_what_is_to_come_for_failure(table):
    cell = TINY.cells[0]
    rows = [row for row in table[0].rows if row["solver"] == "dyn-nolips" or row["seed"] == "0"]
    assert complete_starts(rows, cell) == {"0"}
    assert mean_seconds(rows, cell, "cd", 1e-3) is not None
    assert "not run" in seconds_table([*rows, {**rows[0], "data": "planted-9-9"}], 1e-3)


def test_grids_are_those_printed():
    assert GRIDS["hals"] == (0.0, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
    words = Table1Settings().in_words()
    assert "hals {0, 0.0001, 0.001, 0.01, 0.1, 1}" in words


# -- figures ---------------------------------------------------------------------------------------------------------


def test_figure1(tmp_path):
    table = replace(TINY, solvers=())
    settings = Figure1Settings(TINY.cells, ("dyn-nolips", "inertial", "hals"), starts=2, seconds=0.2, table=table)
    made = run_figure1(settings, tmp_path, say=lambda _: None)
    assert {path.suffix for path in made} == {".png", ".pdf", ".html"}
    assert all(path.stat().st_size > 1000 for path in made)
    before = (tmp_path / "figure1.csv").read_text()
    run_figure1(settings, tmp_path, say=lambda _: None)
    assert (tmp_path / "figure1.csv").read_text() == before


def test_figure2_recovers_the_helix_and_its_page_needs_no_network(tmp_path):
    settings = Figure2Settings(cases=((100, 0.4),), starts=1, seconds=4.0)
    made = run_figure2(settings, tmp_path, say=lambda _: None)
    rows = Store(tmp_path, "figure2", ("n", "known", "method", "seed", "seconds", "rmse"), ("n",)).read().rows
    for method in METHODS:
        assert times_to(rows, "100", "0.4", method, 1e-4)[0] is not None, method
    page = next(path for path in made if path.suffix == ".html").read_text(encoding="utf-8")
    assert "<script src=" not in page
    assert '<link rel="stylesheet"' not in page


def test_a_curve_ends_where_the_answer_is():
    case = Helix(60, 0.5)
    points = run_method(case, "lm", 0, limit=2.0)
    assert points[-1][1] < 1e-6
    times = [t for t, _ in points]
    assert times == sorted(times)


# -- peers and the page ----------------------------------------------------------------------------------------------


def test_peers_say_what_they_cannot_do_and_agree_on_what_they_can(tmp_path):
    settings = PeersSettings((Cell("planted-150-3", 3),), ((80, 0.4), (40, 1.0)), starts=1, seconds=3.0)
    rows = run_peers(settings, tmp_path, say=lambda _: None)
    found = {(row["case"], row["peer"]): row for row in rows}
    assert "needs all distances" in found["helix n=80, 40% known", "scikit-learn MDS (SMACOF)"]["cannot"]
    assert "X ≥ 0" in found["planted-150-3 r=3", "pymanopt"]["cannot"]
    for peer in ("quartic auto", "scipy L-BFGS-B, our gradient", "scipy L-BFGS-B, NumPy gradient"):
        assert float(found["helix n=80, 40% known", peer]["rmse"]) < 1e-6
    assert float(found["helix n=40, 100% known", "scikit-learn MDS (SMACOF)"]["rmse"]) < 1e-2
    assert float(found["planted-150-3 r=3", "quartic.SymNMF"]["share"]) <= 1e-3 * (1 + 1e-6)
    assert float(found["planted-150-3 r=3", "quartic.SymNMF"]["nmi"]) > 0.9


def test_keeper_measures_only_what_it_must():
    case, keeper, seen = Helix(40, 1.0), Keeper(np.inf, False), []
    for scale in np.linspace(2, 1, 65):
        keeper.keep(scale * case.truth)

    def error(X):
        seen.append(1)
        return case.error(X)

    assert keeper.first_below(0.5, error) == keeper.kept[32][0]
    assert len(seen) < 10
    assert keeper.first_below(-1.0, error) is None


def test_the_page_shows_what_is_there(table, tmp_path):
    _, folder = table
    notes = tmp_path / "notes.md"
    notes.write_text("## Remarks\n\nNone.\n")
    page = write_page(folder, tmp_path / "RESULTS.md", notes).read_text(encoding="utf-8")
    for words in ("machine:", "versions:", "threads:", "commit:", "ε = 0.001", "ε = 0.0316", "## Remarks",
                  "### Where we are not the fastest", "hals: {0.01, 0.1}"):  # fmt: skip
        assert words in page


# -- the command line ------------------------------------------------------------------------------------------------


def test_commands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QUARTIC_DATA", str(tmp_path / "nowhere"))
    words = ["table1", "--data", "planted-100-2", "--rank", "2", "--solver", "cd", "--starts", "1", "--seconds", "2"]
    done = CliRunner().invoke(paper, words)
    assert done.exit_code == 0, done.output
    assert "planted-100-2" in done.stdout
    assert Path("results/table1.csv").is_file()
    rows = json.loads(CliRunner().invoke(paper, [*words, "--json"]).stdout)
    assert {row["solver"] for row in rows} == {"dyn-nolips", "cd"}
    assert CliRunner().invoke(paper, [*words[:-1], "3"]).exit_code == 2  # another limit
    assert CliRunner().invoke(paper, ["table1", "--solver", "nobody"]).exit_code == 2
    assert CliRunner().invoke(paper, ["table1", "--data", "coil20", "--results", "other"]).exit_code == 1
    assert CliRunner().invoke(bench, ["page", "-o", "page.md"]).exit_code == 0
    assert "planted-100-2" in Path("page.md").read_text(encoding="utf-8")


SMALL = {
    "floor": (FloorSettings, {"graphs": (200,), "data": (), "points": ((60, 600),), "threads": (1,), "repeats": 2}),
    "growth": (GrowthSettings, {"nodes": (300, 600), "pairs": (3000, 6000), "rank": 2, "repeats": 2}),
    "speed": (SpeedSettings, {"data": ("planted-100-2",), "ranks": (2,), "helices": (), "starts": 1}),
}


@pytest.mark.parametrize("name", SMALL)
def test_what_is_measured_on_the_spot_goes_to_a_page(name, tmp_path, monkeypatch):
    pytest.importorskip("plotly", reason="needs plotly")
    kind, settings = SMALL[name]
    monkeypatch.setattr(kind, "quick", classmethod(lambda cls: cls(**settings)))
    page = tmp_path / "page.html"
    done = CliRunner().invoke(bench, [name, "--quick", "--report", str(page), "--json"])
    assert done.exit_code == 0, done.output
    rows, text = json.loads(done.stdout), page.read_text(encoding="utf-8")
    assert rows
    for row in rows:  # every row of the table, the machine, the command
        assert f"<td>{row['kind' if name == 'growth' else 'case']}</td>" in text
    assert "<h3></h3>" not in text
    assert describe_machine()["machine"] in text
    assert "The command" in text
    if name == "growth":
        assert "time grows like size^" in text
    refused = CliRunner().invoke(bench, [name, "--quick", "--report", str(tmp_path / "page.txt")])
    assert refused.exit_code == 2
    assert "must end in one of .html" in refused.output


def test_importing_the_harness_brings_neither_typer_nor_matplotlib():
    names = ("typer", "matplotlib", "plotly", "pymanopt")
    code = f"import sys, quartic.bench; print([name for name in {names} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
