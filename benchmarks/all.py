"""Everything that fills the results table, at one commit, by one command, within a given time.

    python benchmarks/all.py --out OUT --budget 560 --processes 16 [--only speed sdp] [--skip gpu] [--quick]

Each measurement is a process of its own, pinned to a core (gpu, dask and first are not), with one thread; the most
telling ones come first. What is measured when the time is over is kept: ``OUT/results`` holds the runs (what is there
already is not run again), ``OUT/results.csv`` and ``OUT/RESULTS.md`` are made of them at the end, and ``OUT/log.txt``
says what became of each process. ``cp -r OUT/results . && make results`` then updates table, page and documents.

Needs NumPy, SciPy, numba, scikit-learn, and what a section is about: torch and triton for gpu, dask for dask, networkx
and pymanopt for peers. What lacks its package or its data is left out, and the log says so. Data sets are looked for in
``$QUARTIC_DATA``, or in ``shared/data`` beside this folder.
"""

from __future__ import annotations

import argparse
import os
import queue
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
SCRIPTS = {"gpu": "gpu.py", "dask": "dask_overhead.py", "first": "first_fits.py"}  # each in one process, on all cores
BY_CASE = {"sdp": "sdp.py", "acceptance": "distance_acceptance.py", "estimator": "distance_estimator.py",
           "clustering": "clustering.py", "losses": "losses.py"}  # fmt: skip
RACES = ("speed", "peers", "figure2", "figure1", "table1", "league")
#: One start of each case first; further ones, and what takes hours, when all else is under way.
ORDER = ("gpu", "growth", "speed", "first", "acceptance", "peers", "sdp", "dask", "estimator", "clustering", "losses",
         "figure2", "speed again", "figure1", "league", "table1", "peers again", "table1 again", "figure2 again",
         "figure1 again")  # fmt: skip
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS")


def list_tasks(quick: bool) -> dict[str, list[tuple[str, ...]]]:
    """Return the words of each section's processes; those of further starts are sections of their own, "again"."""
    from quartic.bench.growth import growth_cases
    from quartic.bench.sections import settings_of

    tasks: dict[str, list[tuple[str, ...]]] = {name: [] for name in ORDER}
    for name in RACES:
        settings = settings_of(name, quick)
        for start in range(min(settings.starts, 3)):
            part, seed = name if start == 0 else f"{name} again", str(settings.first_start + start)
            tasks[part] += [("race", name, str(case), seed) for case in settings.cases]
    tasks["growth"] = [("growth", case) for case in growth_cases(quick)]
    for name, script in SCRIPTS.items():
        tasks[name] = [(script,)]
    for name, script in BY_CASE.items():
        cases = list(import_module(script.removesuffix(".py")).CASES)
        tasks[name] = [(script, case) for case in cases[: 2 if quick else None]]
    return tasks


def do_task(words: list[str], runs: str, quick: bool) -> None:
    """Be one of the processes: run a race's case from one start, or a case of growth."""
    from quartic.bench.growth import growth_cases
    from quartic.bench.numbers import measure_cases
    from quartic.bench.sections import run_section, settings_of

    if words[0] == "race":
        settings = settings_of(words[1], quick)
        cases = tuple(case for case in settings.cases if str(case) == words[2])
        run_section(replace(settings, cases=cases, first_start=int(words[3]), starts=1), runs, print, print)
    else:
        case = {words[1]: growth_cases(quick)[words[1]]}
        measure_cases(runs, "growth" + "-quick" * quick, case, print, command="quartic bench growth")


def run_task(
    words: tuple[str, ...], cores: queue.Queue, runs: Path, asked: argparse.Namespace, end: float, log
) -> None:
    """Run a process on the next core that is free, until it is done or the time is over, and say what became of it."""
    core, began, what = cores.get(), time.monotonic(), "not begun: out of time"
    if began < end:
        command = [str(HERE / words[0]), *words[1:], "--results", str(runs)]
        if not words[0].endswith(".py"):
            command = [str(HERE / "all.py"), "--out", str(runs), *["--quick"] * asked.quick, "--task", *words]
        told = {**dict.fromkeys(THREADS, "1"), "QUARTIC_PROCESSES": str(asked.processes), "PYTHONUNBUFFERED": "1"}
        pin = None if words[0] in SCRIPTS.values() else partial(os.sched_setaffinity, 0, [core])
        process = subprocess.Popen(
            [sys.executable, *command], env={**os.environ, **told}, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            cwd=ROOT, start_new_session=True, preexec_fn=pin,
        )  # fmt: skip
        try:
            what = f"exit {process.wait(end - began)}"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            what = f"out of time, exit {process.wait()}"
        what += f" after {time.monotonic() - began:.0f} s"
    cores.put(core)
    log.write(f"{time.strftime('%H:%M:%S')} {' '.join(words)}: {what}\n".encode())


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
    cores: queue.Queue = queue.Queue()
    for core in sorted(os.sched_getaffinity(0))[: asked.processes]:
        cores.put(core)
    with (asked.out / "log.txt").open("ab", buffering=0) as log, ThreadPoolExecutor(cores.qsize()) as pool:
        end = began + asked.budget - 8
        list(pool.map(partial(run_task, cores=cores, runs=runs, asked=asked, end=end, log=log), tasks))
    from quartic.bench.commands import write_results

    write_results(runs, asked.out / "RESULTS.md")
    print(f"{time.monotonic() - began:.0f} s; {asked.out}: results, results.csv, RESULTS.md, log.txt")


if __name__ == "__main__":
    main()
