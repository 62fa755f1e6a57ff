"""The harness on tiny cases, through the same code as the full runs."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from command import invoke
from quartic.bench import Cell, Store, describe_machine, run_section, settings_of
from quartic.bench import sections as sections_module
from quartic.bench.cases import DATA, PAPER, RANKS, Enough, Recorder
from quartic.bench.commands import fill_tables, numbers_of
from quartic.bench.growth import growth_cases
from quartic.bench.harness import Watch, one_thread, take_turns
from quartic.bench.methods import GRIDS, METHODS, SOLVERS, pymanopt_edmc, symnmf_solver
from quartic.bench.numbers import (
    PROVENANCE,
    Number,
    as_markdown,
    best_of,
    fill_table,
    headline,
    measure_cases,
    ratios,
    read_numbers,
    summarise,
    write_numbers,
)
from quartic.bench.sections import OURS, panels_of, run_method, section_numbers, with_penalties
from quartic.core.loop import referee
from quartic.plots import average

GRAPH = Cell("planted-150-3", 3)
TUNED = {"hals": (1e-2, 1e-1), "anls": (1e-1,), "admm": (1e-1, 1.0)}
TINY = replace(
    settings_of("table1"), cases=(GRAPH,), starts=2, seconds=2.0, patience=50.0, least=0.3,
    methods=tuple(name for solver in SOLVERS for name in with_penalties([solver], TUNED.get(solver, ()))),
)  # fmt: skip


def quiet(_):
    pass


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    return run_section(TINY, folder, quiet, quiet), folder


@pytest.fixture(scope="module")
def case():
    return GRAPH.load()


def run_once(case, name, targets, limit):
    recorder = case.recorder(0, targets, limit)
    run_method(case, name, symnmf_solver(name), 0, 0.0, recorder)
    return recorder.finish()


# -- the referee and the clock ---------------------------------------------------------------------------------------


def test_watch_leaves_out_what_happens_while_paused(monkeypatch):
    now = iter([0.0, 1.0, 5.0, 7.0])
    monkeypatch.setattr("time.process_time", lambda: next(now))
    watch = Watch()
    with watch.paused():
        pass
    assert watch.seconds() == 3.0  # 7 s since the start, of which 4 were paused


def test_referee_does_not_believe_what_a_run_says_of_itself(case):
    X = np.random.default_rng(0).random((150, 3))
    recorder = case.recorder(0, [1e-3])
    recorder.see(X, stationarity=0.0)  # claims to be stationary
    found = recorder.finish()
    assert "s to 0.001" not in found
    assert found["error"] == pytest.approx(referee(case.judge, X)[1] / recorder.reference)


def test_time_to_the_looser_target_comes_first_and_objectives_are_the_referees(case):
    row = run_once(case, "dyn-nolips", [1e-3, 0.0316], limit=10.0)
    assert row["s to 0.0316"] <= row["s to 0.001"]
    assert row["products to 0.0316"] < row["products to 0.001"]
    assert row["objective to 0.001"] <= row["objective to 0.0316"]
    assert row["error"] <= 1e-3


def test_a_run_out_of_time_has_no_seconds(case):
    row = run_once(case, "pg", [1e-12], limit=1e-4)
    assert "s to 1e-12" not in row
    assert row["spent"] > 1e-4


def test_ctrl_c_within_a_run_ends_the_whole(case):
    class Interrupted(Recorder):
        def see(self, *args, **facts):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        symnmf_solver("inertial")(case, 0, 1e-3, Interrupted(lambda X: {"error": 1.0}))


def test_iterates_that_are_kept_are_measured_only_where_they_must():
    truth, seen = Cell.helix(40, 1.0).given[2], []

    def measure(X):
        seen.append(1)
        return {"error": float(np.linalg.norm(X - truth))}

    recorder = Recorder(measure, [float(np.linalg.norm(0.5 * truth)) * (1 + 1e-9)], limit=np.inf)
    for scale in np.linspace(2, 1, 65):
        recorder.see(scale * truth, products=round(64 * (2 - scale)))
    (name,) = [name for name in recorder.finish() if name.startswith("products to")]
    assert recorder.found[name] == 32
    assert len(seen) < 12
    with pytest.raises(Enough):
        Recorder(measure, [0.0], limit=0.0).see(truth)


def test_threads_are_fixed_and_given_back():
    import numba

    before = numba.get_num_threads()
    with one_thread() as found:
        assert set(found.values()) == {1}
    assert numba.get_num_threads() == before
    assert describe_machine({"numba": 1})["threads"] == "numba 1"


# -- the store and the loop --------------------------------------------------------------------------------------------


def test_a_line_cut_short_is_run_again_and_spoils_no_other(tmp_path):
    store = Store(tmp_path, "t").open({"limit": 1}, {"machine": "m", "date": "1"})
    for seed in (0, 1):
        store.add("c", "pg", seed, {"s": 0.1, "curve": [[0.1, 1.0]] * 20})
    text = store.path.read_bytes()
    for cut in (1, 10, 200):
        store.path.write_bytes(text[:-cut])
        again = Store(tmp_path, "t").open({"limit": 1}, {"machine": "m", "date": "2"})
        assert again.find(method="pg", seed=0)
        assert bool(again.find(method="pg", seed=1)) == (cut == 1)  # but for the end of its line it is whole
        again.add("c", "pg", 1, {"s": 0.1})
        assert [row["seed"] for row in Store(tmp_path, "t").rows] == [0, 1]


def test_results_of_other_settings_are_not_mixed(tmp_path):
    Store(tmp_path, "t").open({"limit": 1}, {}).add("c", "pg", 0, {"s": 1.0})
    with pytest.raises(ValueError, match=r"limit = 1.*delete it"):
        Store(tmp_path, "t").open({"limit": 2}, {})


def test_runs_know_the_session_that_made_them(tmp_path):
    for machine in ("one", "other", "one"):
        store = Store(tmp_path, "t").open({}, {"machine": machine, "date": machine * 2})
        store.add("c", machine, len(store.rows), {"s": 1.0})
    assert [store.sessions[row["session"]]["machine"] for row in store.rows] == ["one", "other", "one"]
    assert len(store.sessions) == 2


def test_two_processes_share_a_file(tmp_path):
    """Both add the same runs at the same time; each run is there once, and none is torn."""
    code = (
        "import sys; from quartic.bench.harness import Store\n"
        f"store = Store({str(tmp_path)!r}, 't').open({{}}, {{'machine': 'm'}})\n"
        "for seed in range(40): store.add('c', 'pg', seed, {'curve': [[seed, 0.5]] * 200})\n"
    )
    both = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
    assert [process.wait(timeout=300) for process in both] == [0, 0]
    store = Store(tmp_path, "t")
    assert [row["seed"] for row in store.rows] == list(range(40))
    assert all(len(row["curve"]) == 200 for row in store.rows)


def test_methods_take_turns_in_another_order_for_each_start(tmp_path):
    store, order = Store(tmp_path, "t").open({}, {}), []
    methods = {name: lambda seed, name=name: order.append((seed, name)) or {"s": 1.0} for name in "abcdef"}
    take_turns(store, "c", methods, range(6), quiet, first=["a"])
    rounds = [[name for seed, name in order if seed == k] for k in range(6)]
    assert all(one[0] == "a" and sorted(one) == list("abcdef") for one in rounds)
    assert len(set(map(tuple, rounds))) > 1
    take_turns(store, "c", methods, range(6), quiet)
    assert len(order) == 36  # what is there is not run again


# -- table 1 ----------------------------------------------------------------------------------------------------------


def test_table1_has_every_solver_at_both_targets(table):
    store, _ = table
    numbers = section_numbers(store.rows, "table1")
    for epsilon in TINY.targets:
        found = {n.method for n in numbers if n.measure == f"s to {epsilon:g}"}
        assert found >= set(SOLVERS) - {"beta"}  # multiplicative updates do not arrive in the time given
    tables = fill_tables("table1", numbers)
    assert len(tables) == 3  # the paper has no planted graph
    for _, header, rows in tables:
        assert {len(header)} == {len(row) for row in rows}


def _with_runs_told(monkeypatch, tell):
    """Have ``tell`` called before each run that is no warm-up, with the method and the seed."""
    real = sections_module.run_method

    def told(case, name, method, seed, tol, recorder):
        if str(case) == str(GRAPH):
            tell(name, seed)
        return real(case, name, method, seed, tol, recorder)

    monkeypatch.setattr(sections_module, "run_method", told)


def test_what_is_there_is_not_run_again(table, monkeypatch):
    store, folder = table
    failed = {row["method"] for row in store.rows if "s to 0.001" not in row}
    before, ran = store.path.read_bytes(), []
    _with_runs_told(monkeypatch, lambda *run: ran.append(run))
    run_section(replace(TINY, methods=tuple(set(TINY.methods) - failed)), folder, quiet, quiet)
    assert ran == []
    assert store.path.read_bytes() == before


def test_an_interrupted_run_goes_on(tmp_path, monkeypatch):
    settings = replace(TINY, methods=("dyn-nolips", "inertial", "cd"))
    calls, stop = [], [2]

    def tell(*run):
        if len(calls) == stop[0]:
            raise KeyboardInterrupt
        calls.append(run)

    _with_runs_told(monkeypatch, tell)
    with pytest.raises(KeyboardInterrupt):
        run_section(settings, tmp_path, quiet, quiet)
    done, stop[0] = list(calls), -1
    store = run_section(settings, tmp_path, quiet, quiet)
    assert calls[:2] == done
    assert len(calls) == len(set(calls)) == 6
    assert {(row["method"], row["seed"]) for row in store.rows} == set(calls)


def test_missing_data_are_named_in_one_line_and_the_rest_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("QUARTIC_DATA", str(tmp_path / "nowhere"))
    said = []
    settings = replace(TINY, cases=(Cell("tdt2", 10), Cell("tdt2", 20), GRAPH), methods=("dyn-nolips",), starts=1)
    store = run_section(settings, tmp_path / "results", said.append, quiet)
    (line,) = [words for words in said if "missing" in words]
    assert "'tdt2'" in line
    assert "QUARTIC_DATA" in line
    assert "\n" not in line
    assert {row["case"] for row in store.rows} == {str(GRAPH)}


def test_a_target_missed_once_is_not_tried_again(tmp_path):
    settings = replace(TINY, methods=("dyn-nolips", "pg"), targets=(1e-30, 0.0316), seconds=0.3, least=0.2)
    rows = run_section(settings, tmp_path, quiet, quiet).rows
    pg = {row["seed"]: row for row in rows if row["method"] == "pg"}
    assert "s to 1e-30" not in pg[0]  # below round-off: nobody gets there
    assert pg[1]["spent"] < pg[0]["spent"]
    assert "s to 0.0316" in pg[1]


def test_penalties_are_the_fastest_of_those_that_arrive_from_every_start():
    tried = [(0.1, 0, 3.0), (0.1, 1, 3.0), (0.01, 0, 1.0), (0.01, 1, None), (1.0, 0, 4.0), (1.0, 1, 1.0)]
    rows = [{"case": "c", "method": f"hals {p:g}", "seed": seed, **({"s to 0.001": s} if s else {})}
            for p, seed, s in tried]  # fmt: skip
    found = {n.measure: n.value for n in section_numbers(rows, "table1")}
    assert found == {"s to 0.001": 2.5, "which to 0.001": "hals 1"}


def test_the_papers_table():
    assert set(PAPER) == {f"{data}:{rank}" for data in DATA for rank in RANKS}
    # 16 cells, of which Beta and ADMM fill one each, CD fourteen, SymANLS twelve
    counts = {s: sum(s in row for row in PAPER.values()) for s in SOLVERS[:7]}
    assert counts == {"dyn-nolips": 16, "pg": 16, "beta": 1, "cd": 14, "hals": 16, "anls": 12, "admm": 1}
    assert all(row["hals"] < row["dyn-nolips"] < row["pg"] for row in PAPER.values())
    assert GRIDS["hals"] == (0.0, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)


# -- figures ----------------------------------------------------------------------------------------------------------


def test_figure1_falls_to_the_least_value_met(tmp_path):
    settings = replace(settings_of("figure1"), cases=(GRAPH,), starts=1, seconds=0.2)
    store = run_section(settings, tmp_path, quiet, quiet)
    (panel,) = panels_of("figure1", store.rows)
    # it has no numbers, but the page must say of which commit it is
    assert {n.measure for n in numbers_of(store)} == set(PROVENANCE)
    assert {line.name for line in panel.lines} == set(SOLVERS)
    ends = {line.name: line.values[-1] for line in panel.lines}
    assert min(ends.values()) < 1e-14  # but for the round-off between the least value and the last one
    assert all(line.values[0] >= line.values[-1] for line in panel.lines if line.name in ("inertial", "pg", "cd"))
    before = store.path.read_bytes()
    run_section(settings, tmp_path, quiet, quiet)
    assert store.path.read_bytes() == before


def test_figure2_recovers_the_helix(tmp_path):
    settings = replace(settings_of("figure2"), cases=(Cell.helix(100, 0.4),), starts=1, seconds=6.0)
    store = run_section(settings, tmp_path, quiet, quiet)
    found = {n.method for n in section_numbers(store.rows, "figure2") if n.measure == "s to 0.0001"}
    assert found == set(METHODS)
    for row in store.rows:
        times = [t for t, _ in row["curve"]]
        assert times == sorted(times)


def test_the_mean_curve_is_that_of_the_last_values_seen():
    a, b = (np.array([1.0, 2.0]), np.array([4.0, 2.0])), (np.array([1.0, 4.0]), np.array([8.0, 0.0]))
    times, values = average([a, b], n_times=3)
    assert times.tolist() == [1, 2, 4]
    assert values.tolist() == [6, 5, 1]


# -- peers ------------------------------------------------------------------------------------------------------------


def test_peers_say_what_they_cannot_do_and_agree_on_what_they_can(tmp_path):
    cases = (GRAPH, Cell.helix(80, 0.4), Cell.helix(40, 1.0))
    # no haste: compiling with an empty cache takes longer than a hundred times the quickest run
    settings = replace(settings_of("peers"), starts=1, first_start=0, seconds=60.0, patience=0.0, cases=cases)
    store = run_section(settings, tmp_path, quiet, quiet)
    found = {(row["case"], row["method"]): row for row in store.rows}
    assert "needs all distances" in found["helix 80:0.4", "scikit-learn MDS (SMACOF)"]["cannot"]
    for method in ("minimize, auto", "SciPy L-BFGS-B", "DistanceCompletion.fit_pairs", "quartic locate"):
        assert found["helix 80:0.4", method]["error"] < 1e-6
    assert found["helix 40:1", "scikit-learn MDS (SMACOF)"]["error"] < 1e-2
    for method in ("SymNMF.fit", "quartic cluster", "scikit-learn SpectralClustering", "NetworkX Louvain"):
        assert found[str(GRAPH), method]["nmi"] > 0.9
        assert found[str(GRAPH), method]["s"] > 0
    assert found[str(GRAPH), "SymNMF.fit"]["error"] <= 1e-3 * (1 + 1e-6)
    assert found[str(GRAPH), "SciPy L-BFGS-B"]["error"] <= 1e-3
    numbers = section_numbers(store.rows, "peers")
    assert [n.value for n in numbers if n.measure == "cannot"] == ["scikit-learn's MDS (SMACOF) needs all distances"]


def test_speed_has_the_paper_solvers_from_both_starts_and_noise_has_a_target_of_its_own(tmp_path):
    noisy = Cell.helix(80, 0.5, 0.05)
    settings = replace(settings_of("speed"), starts=1, seconds=5.0, cases=(GRAPH, noisy))
    rows = run_section(settings, tmp_path, quiet, quiet).rows
    numbers = section_numbers(rows, "speed")
    seconds = {n.method for n in numbers if n.measure == "s" and n.section == "symnmf"}
    assert seconds >= {
        OURS[0],
        "Dyn-NoLips",
        "Dyn-NoLips, spectral start",
        "SymHALS, best",
        "SymHALS, spectral start, best",
    }
    assert 1e-3 < noisy.target < 0.2
    errors = {row["method"]: row["error"] for row in rows if row["case"] == str(noisy)}
    for method in ("minimize, auto", "Dyn-NoLips (Gram)", "SciPy L-BFGS-B"):
        assert errors[method] <= noisy.target
    # with noise the ratios are not part of the headline, which is about exact distances
    assert {n.method for n in numbers if n.case == "all" and n.measure == "mean"} == seconds - {OURS[0]}
    assert not any(n.case == "all helices" for n in numbers)


@pytest.mark.parametrize("optimizer", ["ConjugateGradient", "TrustRegions"])
def test_pymanopt_does_not_repeat_a_pass_at_the_same_point(optimizer, monkeypatch):
    pytest.importorskip("pymanopt")
    from quartic.losses import Distances

    seen, real = [], Distances.at
    monkeypatch.setattr(Distances, "at", lambda loss, X: seen.append(np.array(X)) or real(loss, X))
    helix = Cell.helix(60, 0.5)
    recorder = helix.recorder(0, [1e-6], 20.0)
    pymanopt_edmc("Euclidean", optimizer, helix, 0, 1e-8, recorder)
    assert recorder.finish()["error"] < 1e-6
    repeated = sum(np.array_equal(a, b) for a, b in pairwise(seen))
    assert repeated == 0
    assert len(seen) < 2.5 * len(recorder.kept)  # a gradient at each, and the trials of its line searches


def test_a_package_that_is_missing_leaves_its_peer_out(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pymanopt", None)
    said = []
    settings = replace(settings_of("peers"), starts=2, seconds=3.0, cases=(Cell.helix(60, 0.5),))
    rows = run_section(settings, tmp_path, said.append, quiet).rows
    assert not any(row["method"].startswith("pymanopt") for row in rows)
    assert sum("quartic[bench]" in line for line in said) == 4


# -- growth -----------------------------------------------------------------------------------------------------------


def test_growth_needs_no_extras():
    """It runs where rich and pandas cannot be imported; memory is bounded."""
    script = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("rich", "pandas"):
            raise ImportError(name)
sys.meta_path.insert(0, Missing())
import quartic.bench.growth as growth
growth._NODES, growth._PAIRS, growth._DATA = (2000, 4000), (20000, 40000), ()
found = [n for measure in growth.growth_cases(repeats=2).values() for n in measure()]
arrays = {(case, kind): value for case, kind, measure, value in found if measure == "arrays like X"}
assert all(value <= (26.5 if "lbfgs" in kind else 12.5) for (_, kind), value in arrays.items()), arrays
assert len([n for n in found if n[2] == "exponent"]) == 3
ratios = {kind: value for case, kind, measure, value in found if measure == "iteration / product" and case == "4,000"}
assert all(0.5 < value < 50 for value in ratios.values()), ratios
assert {kind for _, kind, measure, _ in found if measure == "SciPy / ours"} == set(ratios) - {"pairs, dyn-nolips"}
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


def test_growth_leaves_out_data_that_are_not_there(tmp_path, monkeypatch):
    monkeypatch.setenv("QUARTIC_DATA", str(tmp_path))
    said = []
    cases = {name: measure for name, measure in growth_cases().items() if name.startswith("tdt2")}
    store = measure_cases(tmp_path / "results", "growth", cases, said.append, command="quartic bench growth")
    assert store.rows == []
    assert sum("tdt2, r = 10 is left out: " in line for line in said) == 1


def test_numbers_of_a_case_are_kept_when_it_is_done_and_not_measured_again(tmp_path):
    def fail():
        yield "a", "", "s", 1.0
        raise KeyboardInterrupt

    made = []
    cases = {"first": lambda: made.append(1) or [("a", "m", "s", 1.0), ("b", "m", "s", 2.0)], "second": fail}
    with pytest.raises(KeyboardInterrupt):
        measure_cases(tmp_path, "losses", cases, quiet, command="python x.py --results /there")
    store = measure_cases(tmp_path, "losses", {"first": cases["first"]}, quiet, command="python x.py")
    assert made == [1]
    numbers = numbers_of(store)
    assert [n[:] for n in numbers if n.case] == [("losses", "a", "m", "s", 1.0), ("losses", "b", "m", "s", 2.0)]
    assert next(n.value for n in numbers if n.measure == "command") == "python x.py"


# -- numbers ----------------------------------------------------------------------------------------------------------


def test_a_mean_is_over_the_starts_that_all_who_arrive_share():
    rows = [{"case": "c", "method": m, "seed": seed, **({"s": s} if s else {})} for m, seed, s in [
        ("a", 0, 1.0), ("a", 1, 3.0), ("b", 0, 5.0), ("x", 0, 9.0), ("x", 1, None),
    ]]  # fmt: skip
    values = {n.method: n.value for n in summarise("t", rows, ["s"])}
    assert values == {"a": 1.0, "b": 5.0}  # b is under way: start 1 does not count; x missed one: no mean


def test_ratios_best_and_headline():
    numbers = [Number("t", case, m, "s", v) for case, m, v in [
        ("c", "ours", 1.0), ("c", "hals 1", 8.0), ("c", "hals 2", 4.0), ("d", "ours", 2.0), ("d", "hals 1", 2.0),
    ]]  # fmt: skip
    assert ratios(numbers, "s", "ours") == {"hals 1": {"c": 8.0, "d": 1.0}, "hals 2": {"c": 4.0}}
    best = best_of([n for n in numbers if n.method != "ours"], "best", "s")
    assert [(n.case, n.measure, n.value) for n in best] == [
        ("c", "s", 4.0), ("d", "s", 2.0), ("c", "which", "hals 2"), ("d", "which", "hals 1"),
    ]  # fmt: skip
    found = {n.measure: n.value for n in headline("t", [*numbers, *best], "s", "ours") if n.method == "best"}
    assert found == {"mean": 2.0, "least": 1.0, "largest": 4.0}
    header, rows = fill_table(numbers, "s", "ours", ".0f")
    assert as_markdown(header, rows) == "| case | hals 1 | hals 2 |\n| --- | --- | --- |\n| c | 8 | 4 |\n| d | 1 | – |"


@pytest.mark.parametrize("command", ["paper table1", "paper figure2", "bench speed", "bench league --quick"])
def test_a_section_names_the_command_that_makes_it(tmp_path, command):
    store = Store(tmp_path, command.split()[1] + "-quick" * command.endswith("quick"))
    assert (
        next(n.value for n in numbers_of(store, [{"numbers": [["c", "m", "s", 1.0]]}]) if n.measure == "command")
        == f"quartic {command}"
    )


# -- the command line -------------------------------------------------------------------------------------------------


def test_the_commands_and_their_pages(tmp_path):
    report = tmp_path / "report.html"
    words = ["--quick", "--case", "planted-100-2:2", "--starts", "1", "--solver", "cd", "-o", tmp_path]
    done = invoke("paper", "table1", *words, "--report", report)
    assert done.exit_code == 0, done.output
    assert "cd" in done.stdout
    assert str(tmp_path / "table1-quick.jsonl") in done.stdout
    assert "Table 1 of the paper" in report.read_text(encoding="utf-8")
    rows = json.loads(invoke("paper", "table1", *words, "--json").stdout)
    assert {row["method"] for row in rows} == {"dyn-nolips", "cd"}
    words = ["--quick", "--case", "60:0.5", "--starts", "1", "--seconds", "2", "-o", tmp_path]
    done = invoke("paper", "figure2", *words)
    assert done.exit_code == 0, done.output
    made = {path.suffix for path in tmp_path.glob("figure2-quick.*")}
    assert made == {".png", ".pdf", ".jsonl"}
    done = invoke("bench", "page", "--results", tmp_path, "-o", tmp_path / "out" / "RESULTS.md", "--report", report)
    assert done.exit_code == 0, done.output
    text = (tmp_path / "out" / "RESULTS.md").read_text(encoding="utf-8")
    for words in (
        "## Table 1 of the paper",
        "## Figure 2 of the paper",
        "; commit ",
        "; machine ",
        "| planted-100-2:2 |",
    ):
        assert words in text
    page = report.read_text(encoding="utf-8")
    assert "<script src=" not in page
    assert page.count('<img src="data:image/png;base64,') == 1


def test_a_page_of_nothing(tmp_path):
    done = invoke(
        "bench", "page", "--results", tmp_path, "-o", tmp_path / "R.md", "--report", tmp_path / "r.html", "--json"
    )
    assert json.loads(done.stdout) == {"written": [str(tmp_path / "R.md"), str(tmp_path / "r.html")]}
    assert "Nothing was run yet" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_documents_are_updated_together_or_not_at_all(tmp_path):
    write_numbers(tmp_path / "results.csv", [Number("gpu", "graph", "float32", "s", 2.0)])
    good, bad = tmp_path / "good.md", tmp_path / "bad.md"
    good.write_text("1.0<!--gpu.graph.float32.s--> s")
    bad.write_text("1.0<!--gpu.a.s--> and 1.0<!--gpu.b.s-->")
    both = ("--document", good, "--document", bad)
    done = invoke("bench", "page", "--results", tmp_path, "-o", tmp_path / "R.md", *both)
    assert done.exit_code == 2
    assert "no number 'gpu.a.s', 'gpu.b.s' in the results table" in done.stderr
    assert good.read_text().startswith("1.0<")
    assert invoke("bench", "page", "--results", tmp_path, "-o", tmp_path / "R.md", *both[:2]).exit_code == 0
    assert good.read_text().startswith("2.0<")


@pytest.mark.parametrize(
    ("app", "words", "said"),
    [
        ("paper", "table1 --case tdt2", "is no case"),
        ("paper", "table1 --solver fast", "is not one of dyn-nolips"),
        ("bench", "speed --case 5", "is no case"),
        ("bench", "speed --case 100:2", "is no case"),
        ("bench", "peers --only all", "--only: invalid choice: 'all' (choose from "),
        ("paper", "figure1 --report x.txt", "must end in one of .html"),
    ],
)
def test_faults_in_the_call_are_one_line(app, words, said, tmp_path):
    done = invoke(app, *words.split(), *([] if "--report" in words else ["-o", tmp_path]))
    assert done.exit_code == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


# -- all of it at once ------------------------------------------------------------------------------------------------

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
MISSING = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("rich", "pandas", "pyarrow", "openpyxl", "cvxpy", "plotly", "jinja2"):
            raise ImportError(name)
sys.meta_path.insert(0, Missing())
"""


@pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="the benchmarks are in the repository, not in packages made of it")
def test_one_script_measures_without_the_extras_and_keeps_what_it_has(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(MISSING)
    out, words = tmp_path / "out", ["--quick", "--only", "losses", "--processes", "1", "--commit", "abc1234"]
    command = [sys.executable, str(BENCHMARKS / "all.py"), "--out", str(out), *words]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([*command, "--budget", "300"], env=environment, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in out.iterdir()} == {"results", "results.csv", "RESULTS.md", "log.txt"}
    assert (out / "log.txt").read_text().count(": exit 0 after") == 2
    numbers = [n for n in read_numbers(out / "results.csv") if n.section == "losses"]
    assert {n.value for n in numbers if n.measure == "commit"} == {"abc1234"}
    assert {n.case for n in numbers if n.measure == "s"} == {
        "completion, n = 2000, r = 5, 3 %", "completion, 10 % noise",
    }  # fmt: skip
    done = subprocess.run([*command, "--budget", "9"], env=environment, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    assert "out of time" in (out / "log.txt").read_text()


@pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="the benchmarks are in the repository, not in packages made of it")
def test_two_checkouts_are_compared_by_their_own_scripts(tmp_path):
    """Each has a script of its own, here one that writes what it is told; the least of the rounds counts."""
    for side, seconds in (("old", 2.0), ("new", 0.5)):
        (tmp_path / side / "src" / "quartic").mkdir(parents=True)
        (tmp_path / side / "src" / "quartic" / "__init__.py").touch()
        (tmp_path / side / "benchmarks").mkdir()
        (tmp_path / side / "benchmarks" / "fake.py").write_text(f"""
import json, os, sys
assert sys.argv[1] == "a case" and os.environ["PYTHONPATH"].endswith("{side}/src")
numbers = [["c", "m", "s", {seconds}], ["c", "m", "products", 7.0]]
row = {{"case": "a case", "method": "", "seed": 0, "numbers": numbers}}
with open(sys.argv[sys.argv.index("--results") + 1] + "/fake.jsonl", "w") as file:
    print("", json.dumps(row), "", sep="\\n", file=file)
print("done")
""")
    script = [sys.executable, str(BENCHMARKS / "side_by_side.py")]
    call = [*script, str(tmp_path / "old"), str(tmp_path / "new"), "fake.py", "a case", "--rounds", "2"]
    done = subprocess.run(call, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].split() == ["c;", "m;", "s", "2", "0.5", "0.250"]
    assert done.stdout.splitlines()[-1] == "geometric mean of B/A: 0.250 (1 rows)"
    done = subprocess.run([*script, str(tmp_path), str(tmp_path / "new"), "fake.py"], capture_output=True, text=True)
    assert "give the folders of two checkouts" in done.stderr
