"""The harness shared out: one loop, several processes in one folder, no packages but the necessary, pages."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from quartic.bench import Cell, Figure2Settings, Store, Table1Settings, run_figure2, run_table1, write_page
from quartic.bench.__main__ import _parser, main
from quartic.bench.choice import cells_asked, helices_asked, solvers_asked
from quartic.bench.commands import bench, paper
from quartic.bench.report import write_report
from quartic.bench.table1 import complete_starts, stores
from quartic.bench.turns import Entry, take_turns

ROOT = Path(__file__).parents[1]
NEEDLESS = ("typer", "rich", "click", "sklearn", "joblib", "threadpoolctl", "pandas", "pyarrow", "plotly", "matplotlib",
            "networkx", "pymanopt")  # fmt: skip
WITHOUT = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {NEEDLESS!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
from quartic.bench.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


def _environment(**more):
    one = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    return {**os.environ, **one, **more}


def _start(*words, **more):
    return subprocess.Popen([sys.executable, *words], env=_environment(**more), stderr=subprocess.PIPE, text=True)


# -- the loop --------------------------------------------------------------------------------------------------------


def _opened(folder):
    store = Store(folder, "t", ["case", "solver", "seed", "seconds"], key=["case", "solver", "seed"])
    store.open({}, {"date": "1"})
    return store


def test_everyone_runs_from_a_start_before_anyone_runs_from_the_next(tmp_path):
    order = []

    def entry(name):
        return Entry(name, {"solver": name}, lambda seed: order.append((name, seed)) or [{"seconds": 0.0}])

    names = ["a", "b", "c", "d", "e"]
    take_turns(_opened(tmp_path), "t", {"case": 1}, [entry(n) for n in names], range(3), first=[entry("base")])
    rounds = [order[k : k + 6] for k in (0, 6, 12)]
    for seed, turn in enumerate(rounds):
        assert turn[0] == ("base", seed)
        assert sorted(turn[1:]) == [(name, seed) for name in names]
    assert len({tuple(name for name, _ in turn) for turn in rounds}) > 1  # not always in the same order


def test_the_loop_goes_on_where_it_was_stopped(tmp_path):
    seen = []

    def run(name, stop, seed):
        if len(seen) == stop:
            raise KeyboardInterrupt
        seen.append((name, seed))
        return [{"seconds": 1.0}] if name != "nothing" else []

    def loop(stop=None):
        entries = [Entry(n, {"solver": n}, lambda seed, n=n: run(n, stop, seed)) for n in ("a", "b", "nothing")]
        take_turns(_opened(tmp_path), "t", {"case": 1}, entries, range(4))

    with pytest.raises(KeyboardInterrupt):
        loop(stop=5)
    loop()
    kept = [each for each in seen if each[0] != "nothing"]
    assert sorted(kept) == sorted((n, s) for n in "ab" for s in range(4))
    assert len(_opened(tmp_path).rows) == 8  # who returns nothing leaves nothing


# -- several processes -----------------------------------------------------------------------------------------------

_WRITER = """
import sys
from quartic.bench import Store
folder, who = sys.argv[1:]
store = Store(folder, "t", ["case", "solver", "seed", "seconds"], key=["case", "solver", "seed"])
store.open({}, {"machine": who, "date": "1"})
for seed in range(40):
    store.add([{"case": who, "solver": "own", "seed": seed, "seconds": t} for t in (1.0, 2.0, 3.0)])
    store.add([{"case": 0, "solver": "same", "seed": seed, "seconds": 1.0}])
"""


def test_processes_share_a_table(tmp_path):
    writers = [_start("-c", _WRITER, str(tmp_path), who) for who in ("one", "two", "three")]
    assert [(writer.communicate()[1], writer.returncode) for writer in writers] == [("", 0)] * 3
    kept = _opened(tmp_path).read()
    for who in ("one", "two", "three"):
        mine = [row for row in kept.rows if row["case"] == who]
        assert [row["seconds"] for row in mine] == ["1", "2", "3"] * 40  # blocks whole, in order
        assert {kept.records[int(row["run"])]["machine"] for row in mine} == {who}
    # what all of them wrote is there once
    assert sorted(int(row["seed"]) for row in kept.rows if row["solver"] == "same") == list(range(40))


def test_a_writer_that_was_killed_leaves_no_half_of_a_block_to_the_next(tmp_path):
    mine, other = _opened(tmp_path), _opened(tmp_path)
    mine.add([{"case": 1, "solver": "a", "seed": 0, "seconds": t} for t in (1.0, 2.0, 3.0)])
    whole = mine.path.read_text()
    mine.path.write_text(whole + "1,b,0,1,0,2\n1,b,0,2,0,1\n1,b")
    other.add([{"case": 1, "solver": "c", "seed": 0, "seconds": 9.0}])
    assert mine.path.read_text() == whole + "1,c,0,9,0,0\n"
    assert not other.has(case=1, solver="b", seed=0)


def test_cells_and_starts_by_processes_of_their_own_make_one_table(tmp_path):
    common = [
        "-m",
        "quartic.bench",
        "table1",
        "--quick",
        "--cell",
        "planted-100-2:2",
        "--solver",
        "cd",
        "--solver",
        "hals",
    ]
    jobs = [
        _start(*common, *words, "-o", str(tmp_path))
        for words in (["--starts", "0"], ["--starts", "1"], ["--starts", "2", "--first-start", "1"])
    ]
    for job in jobs:
        said = job.communicate()[1]
        assert job.returncode == 0, said
    measured, tuning = (store.read() for store in stores(tmp_path, "table1-quick"))
    cell = Cell("planted-100-2", 2)
    assert complete_starts(measured.rows, cell) == {"0", "1", "2"}
    keys = [(row["solver"], row["parameter"], row["seed"], row["epsilon"]) for row in measured.rows + tuning.rows]
    assert len(keys) == len(set(keys))  # whoever came second to tune waited, and ran nothing again


def test_measuring_needs_nothing_but_numpy_scipy_and_numba(tmp_path):
    for words in (
        ["table1", "--quick", "--cell", "planted-100-2:2", "--starts", "1"],
        ["figure1", "--quick", "--cell", "planted-100-2:2", "--starts", "1", "--seconds", "0.1"],
        ["figure2", "--quick", "--helix", "60:0.5", "--starts", "1", "--seconds", "1"],
    ):
        done = _start("-c", WITHOUT, *words, "-o", str(tmp_path))
        said = done.communicate()[1]
        assert done.returncode == 0, said
        assert len((tmp_path / f"{words[0]}-quick.csv").read_text().splitlines()) > 5
    record = json.loads((tmp_path / "table1-quick.json").read_text())["runs"][0]
    assert record["threads"] == "OMP_NUM_THREADS 1, OPENBLAS_NUM_THREADS 1, numba 1"
    # nobody could hold BLAS to one thread then
    done = _start("-c", WITHOUT, "figure2", "--quick", "-o", str(tmp_path), OPENBLAS_NUM_THREADS="2")
    assert "OPENBLAS_NUM_THREADS=1" in done.communicate()[1]
    assert done.returncode == 2


def test_peers_that_are_not_installed_are_left_out_and_named(tmp_path):
    words = ["peers", "--quick", "--helix", "60:0.5", "-o", str(tmp_path)]
    done = _start("-c", WITHOUT, *words)
    lines = done.communicate()[1].splitlines()
    assert done.returncode == 0
    assert sum(line.startswith("pymanopt Euclidean, CG is left out") for line in lines) == 1
    rows = (tmp_path / "peers-quick.csv").read_text()
    assert "quartic auto" in rows
    assert "pymanopt" not in rows  # it may be there another time


@pytest.mark.skipif(not shutil.which("taskset"), reason="taskset is not installed")
def test_the_full_run_asks_for_what_there_is_and_ends_in_time(tmp_path):
    script = str(ROOT / "benchmarks" / "full_run.sh")
    environment = _environment(PYTHON=sys.executable, QUARTIC_DATA=str(tmp_path / "nowhere"))
    shown = subprocess.run(
        ["bash", script, "2", "results", "9"], env={**environment, "QUEUE": "show"}, capture_output=True, text=True
    ).stdout.splitlines()
    jobs = [line.split()[2:] for line in shown if line.startswith("-m quartic.bench ")]
    asked = [_parser().parse_args(words) for words in jobs]
    table = [(cell, g.first_start + k) for g in asked if g.what == "table1" for cell in g.cell for k in range(g.starts)]
    assert set(table) == {(f"{c.data}:{c.rank}", seed) for c in Table1Settings().all_cells() for seed in range(10)}
    assert len(table) == 160
    helices = {(helix, g.first_start) for g in asked if g.what == "figure2" for helix in helices_asked(g.helix)}
    assert helices == {(helix, seed) for helix in Figure2Settings().cases for seed in range(5)}
    ours = {tuple(line.split()[1:5]) for line in shown if "symnmf_cells.py" in line}
    assert len(ours) == 16
    began = time.monotonic()
    words = ["bash", script, "1", str(tmp_path / "r"), "9"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began < 30  # the machine may be busy
    assert re.match(r"\d+ s, exit \d+: -m quartic\.bench table1", (tmp_path / "r" / "logs" / "jobs.txt").read_text())


# -- what is asked for -----------------------------------------------------------------------------------------------


def test_what_is_asked_for():
    assert cells_asked(["tdt2:20", "planted-50-2:2"]) == (Cell("tdt2", 20), Cell("planted-50-2", 2))
    assert helices_asked(["5000:0.05"]) == ((5000, 0.05),)
    assert solvers_asked(["cd"]) == ("dyn-nolips", "cd")
    for wrong in ("tdt2", "tdt2:", "tdt2:0", "tdt2:x", "nothing:3", "planted-0-2:2", "planted-2:2"):
        with pytest.raises(ValueError, match="as in tdt2:20"):
            cells_asked([wrong])
    for wrong in ("5000", "5000:0", "5000:2", "x:0.1", "2:0.5", "100:nan"):
        with pytest.raises(ValueError, match=r"as in 5000:0\.1"):
            helices_asked([wrong])
    with pytest.raises(ValueError, match="not one of"):
        solvers_asked(["nobody"])


def test_faults_of_the_user_are_one_line(tmp_path, capsys):
    assert main(["table1", "--cell", "tdt2", "-o", str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "'tdt2' is not a cell" in line
    for command, words in (
        (paper, ["table1", "--cell", "tdt2"]),
        (paper, ["figure1", "--cell", "nothing:3"]),
        (paper, ["figure2", "--report", "report.pdf"]),
        (bench, ["peers", "--report", str(tmp_path / "nowhere" / "report.html")]),
        (bench, ["page", "--report", str(tmp_path)]),
    ):
        done = CliRunner().invoke(command, [*words, *(["-o", str(tmp_path / "r")] if words[0] != "page" else [])])
        assert done.exit_code == 2, words
        assert len(done.stderr.splitlines()) == 1
        assert done.stdout == ""
    assert not (tmp_path / "r").exists()


# -- pages -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    settings = replace(
        Table1Settings.quick(), cells=(Cell("planted-100-2", 2),), solvers=("dyn-nolips", "cd", "auto"), starts=1
    )
    run_table1(settings, folder, say=lambda _: None)
    run_figure2(replace(Figure2Settings.quick(), cases=((60, 0.5),), starts=1, seconds=1.0), folder, say=lambda _: None)
    return folder


def test_reports_hold_tables_figures_conditions_and_the_command(results, tmp_path):
    page = tmp_path / "report.html"
    write_report(page, results, ["table1-quick", "figure2-quick", "peers"], "quartic paper <all>")
    text = page.read_text(encoding="utf-8")
    for words in ("Table 1, quick run", "Figure 2, quick run", "beside the paper", "numba 1", "planted-100-2",
                  "quartic paper &lt;all&gt;", "Where the curves end: dyn-nolips"):  # fmt: skip
        assert words in text, words
    assert "Peers" not in text  # was not run
    assert text.count('role="img"') == 1


def test_every_command_writes_a_report_and_json(results, tmp_path):
    common = ["--starts", "1", "--quick", "-o", str(results), "--json", "--report"]
    page = tmp_path / "page.html"
    for command, words in (
        (paper, ["table1", "--cell", "planted-100-2:2", "--solver", "cd", "--solver", "auto"]),
        (paper, ["figure2", "-n", "60", "--known", "0.5", "--seconds", "1"]),
    ):
        done = CliRunner().invoke(command, [*words, *common, str(page)])
        assert done.exit_code == 0, done.output
        assert {"seed", "seconds"} <= set(json.loads(done.stdout)[0])
        assert "</html>" in page.read_text(encoding="utf-8")
        page.unlink()
    out = tmp_path / "RESULTS.md"
    done = CliRunner().invoke(
        bench, ["page", "-o", str(out), "--results", str(results), "--json", "--report", str(page)]
    )
    assert json.loads(done.stdout) == {"written": [str(out), str(page)]}
    assert "Figure 2, quick run" in page.read_text(encoding="utf-8")


def test_the_page_draws_figures_that_were_only_measured(results, tmp_path):
    pytest.importorskip("matplotlib")
    for made in results.glob("figure2-quick.p*"):
        if made.suffix in (".png", ".pdf"):
            made.unlink()
    write_page(results, tmp_path / "RESULTS.md")
    assert (tmp_path / "figures" / "figure2-quick.png").is_file()
