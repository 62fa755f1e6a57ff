"""Everything that fills the results table, at one commit, by one command, within a given time.

    python benchmarks/all.py --out OUT --budget 560 --processes 16 [--only speed sdp] [--skip gpu] [--quick]

Each measurement is a process of its own, pinned to a core (some to two or four), with one thread; the most telling ones
come first. What is measured when the time is over is kept: ``OUT/results`` holds the runs (what is there already is not
run again), ``OUT/results.csv`` and ``OUT/RESULTS.md`` are made of them at the end, and ``OUT/log.txt`` says what became
of each process. ``cp -r OUT/results . && make results`` then updates table, page and documents.

Needs NumPy, SciPy, numba, scikit-learn, and what a section is about: torch and triton for gpu, dask for dask, networkx
and pymanopt for peers. What lacks its package or its data is left out, and the log says so. Data sets are looked for in
``$QUARTIC_DATA``, or in ``shared/data`` beside this folder.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
SCRIPTS = {"gpu": ("gpu.py", 2), "dask": ("dask_overhead.py", 4), "first": ("first_fits.py", 1)}  # each in one process
BY_CASE = {"sdp": "sdp.py", "acceptance": "distance_acceptance.py", "estimator": "distance_estimator.py",
           "clustering": "clustering.py", "losses": "losses.py"}  # fmt: skip
RACES = ("speed", "peers", "figure2", "figure1", "table1", "league")
#: One start of each case first; further ones, and what takes hours, when all else is under way.
ORDER = ("gpu", "growth", "speed", "first", "acceptance", "peers", "sdp", "floor", "dask", "estimator", "clustering",
         "losses", "figure2", "speed again", "figure1", "league", "table1", "peers again", "table1 again",
         "figure2 again", "figure1 again")  # fmt: skip


class Task(NamedTuple):
    """One process: words for this script or another, the section it is of, and how many cores it takes."""

    section: str
    words: tuple[str, ...]
    cores: int = 1


# -- what there is to do ----------------------------------------------------------------------------------------------


def list_tasks(quick: bool) -> dict[str, list[Task]]:
    """Return the processes of each section; those of further starts are sections of their own, called "again"."""
    from quartic.bench.floor import cases_of
    from quartic.bench.sections import settings_of

    tasks: dict[str, list[Task]] = {name: [] for name in ORDER}
    for name in RACES:
        settings = settings_of(name, quick)
        for start in range(min(settings.starts, 3)):
            part = name if start == 0 else f"{name} again"
            seed = str(settings.first_start + start)
            tasks[part].extend(Task(name, ("race", name, str(case), seed)) for case in settings.cases)
    for name in ("floor", "growth"):
        tasks[name] = [Task(name, (name, case), 2 if "2 threads" in case else 1) for case in cases_of(name, quick)]
    for name, (script, cores) in SCRIPTS.items():
        tasks[name] = [Task(name, (script,), cores)]
    for name, script in BY_CASE.items():
        cases = list(import_module(script.removesuffix(".py")).CASES)
        tasks[name] = [Task(name, (script, case)) for case in cases[: 2 if quick else None]]
    return tasks


def do_task(words: list[str], runs: str, quick: bool) -> None:
    """Be one of the processes: run a race's case from one start, or a case of floor or growth."""
    from quartic.bench.floor import cases_of
    from quartic.bench.numbers import measure_cases
    from quartic.bench.sections import run_section, settings_of

    kind, *words = words
    if kind == "race":
        settings = settings_of(words[0], quick)
        cases = tuple(case for case in settings.cases if str(case) == words[1])
        run_section(replace(settings, cases=cases, first_start=int(words[2]), starts=1), runs, print, print)
    else:
        cases = {words[0]: cases_of(kind, quick)[words[0]]}
        measure_cases(runs, kind + "-quick" * quick, cases, print, command=f"quartic bench {kind}")


# -- running ----------------------------------------------------------------------------------------------------------


def run_all(tasks: list[Task], runs: Path, out: Path, asked: argparse.Namespace, end: float) -> None:
    """Start the tasks in their order as cores become free, until all are done or the time is over."""
    free = sorted(os.sched_getaffinity(0))[: asked.processes]
    waiting = [task._replace(cores=min(task.cores, len(free))) for task in tasks]
    running: list[tuple[Task, subprocess.Popen[bytes], list[int], float]] = []
    with (out / "log.txt").open("ab", buffering=0) as log:

        def tell(task: Task, what: str) -> None:
            log.write(f"{time.strftime('%H:%M:%S')} {' '.join(task.words)}: {what}\n".encode())

        while waiting or running:
            late = time.monotonic() > end
            for one in list(running):
                task, process, cores, began = one
                if process.poll() is None and late:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                if process.poll() is not None:
                    running.remove(one)
                    free = sorted([*free, *cores])
                    code = "out of time" if late else f"exit {process.returncode}"
                    tell(task, f"{code} after {time.monotonic() - began:.0f} s")
            for task in list(waiting):
                if late:
                    tell(task, "not begun: out of time")
                    waiting.remove(task)
                elif task.cores <= len(free):
                    waiting.remove(task)
                    cores, free = free[: task.cores], free[task.cores :]
                    running.append((task, start(task, cores, runs, asked, log), cores, time.monotonic()))
                if not free:
                    break
            time.sleep(0.1)


def start(task: Task, cores: list[int], runs: Path, asked: argparse.Namespace, log) -> subprocess.Popen[bytes]:
    """Start a task on its cores."""
    words = [str(HERE / task.words[0]), *task.words[1:], "--results", str(runs)]
    if not task.words[0].endswith(".py"):
        words = [str(HERE / "all.py"), "--out", str(runs), *["--quick"] * asked.quick, "--task", *task.words]
    threads = "2" if task.section == "floor" and task.cores > 1 else "1"
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS")
    told = {**dict.fromkeys(names, threads), "QUARTIC_PROCESSES": str(asked.processes), "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        [sys.executable, *words], env={**os.environ, **told}, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        cwd=ROOT, start_new_session=True, preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )  # fmt: skip


def main() -> None:
    """Run what is asked for, and write table and page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for what comes of it")
    parser.add_argument("--budget", type=float, default=560.0, help="seconds in all")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--only", nargs="*", default=ORDER, help=f"of {', '.join(ORDER)}")
    parser.add_argument("--skip", nargs="*", default=[])
    parser.add_argument("--commit", default="", help="where there is no git to ask")
    parser.add_argument("--quick", action="store_true", help="small cases, to see that all runs")
    parser.add_argument("--task", nargs="+", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    began = time.monotonic()
    sys.path.insert(0, str(ROOT / "src"))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    if asked.task:
        do_task(asked.task, str(asked.out), asked.quick)
        return
    if (data := ROOT / "shared" / "data").is_dir():
        os.environ.setdefault("QUARTIC_DATA", str(data))
    if asked.commit:
        os.environ["QUARTIC_COMMIT"] = asked.commit
    runs = (asked.out / "results").resolve()
    runs.mkdir(parents=True, exist_ok=True)
    found = list_tasks(asked.quick)
    tasks = [task for name in ORDER if name in asked.only and name not in asked.skip for task in found[name]]
    run_all(tasks, runs, asked.out, asked, began + asked.budget - 8)
    from quartic.bench.page import write_results

    write_results(runs, asked.out / "RESULTS.md")
    print(f"{time.monotonic() - began:.0f} s; {asked.out}: results, results.csv, RESULTS.md, log.txt")


if __name__ == "__main__":
    main()
