"""How many products with the data each idea needs, to ε = 1e-3 and 1e-6 of the start's stationarity.

Ideas for needing fewer (`product_ideas/tried.py`): rules for step, restart and momentum, memory, metrics, starts. Each
is tried on seven similarity matrices or three sets of distances, from several starts. What helps on most is what the
solvers do by default; what does not is in the table all the same.

    python benchmarks/products.py --jobs 16 --out build/products     # a file a cell; goes on where it was
    python benchmarks/products.py --table build/products             # writes products.md
    python benchmarks/products.py --quick --out build/quick          # one small data set of each kind, one start
    python benchmarks/products.py --out build/products --data orl --group spectral --only restart

Products are counted, seconds are not: but for rounding, which may end a run a few products sooner or later, the table
is the same on any machine, busy or not. Those of the start count.
"""

from __future__ import annotations

import os

for _threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_threads] = "1"  # a process for each core instead; inherited by the workers

import argparse
import contextlib
import itertools
import json
import math
import multiprocessing
import re
import sys
import time
import traceback
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from product_ideas.cases import CASES, DISTANCES, SLOWEST_FIRST, load
from product_ideas.tried import GROUPS, Idea

from quartic import Problem
from quartic.init import random_start
from quartic.solvers.base import NoProgress

HERE = Path(__file__).parent
TOLERANCES = (1e-3, 1e-6)
MOST = (2000, 4000)
FIRST_SEED = 100


# -- one cell -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, order=True)
class Cell:
    """An idea of a group, on a data set, from a seed."""

    data: str
    group: str
    idea: str
    seed: int

    def file(self, folder: Path) -> Path:
        """Return where its result is kept."""
        return folder / self.group / self.data / f"{slug(self.idea)}-{self.seed}.json"

    @property
    def settings(self) -> str:
        """All that its result depends on besides the data, the seed and the code."""
        return f"{GROUPS[self.group].ideas[self.idea]}; {TOLERANCES}, {MOST}"

    def result(self, folder: Path) -> dict[str, Any] | None:
        """Return what is kept, if it was made with the settings of today."""
        try:
            kept: dict[str, Any] = json.loads(self.file(folder).read_text(encoding="utf-8"))
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        return kept if kept.get("settings") == self.settings else None


def slug(words: str) -> str:
    """Return the words as part of a file's name."""
    plain = words.replace("λ", "step").replace("×", "x").replace("θ", "theta").replace("Xᵀ", "Xt").replace("σ", "sigma")
    return re.sub(r"[^A-Za-z0-9.=+]+", "-", plain.replace("Ψ", "f").replace("β", "beta")).strip("-")


def products(problem: Problem, rank: int, idea: Idea, seed: int) -> dict[str, Any]:
    """Return the products to each tolerance, measured afresh, the objective there, and that at the end."""
    reference = problem.stationarity(
        problem.loss.at(random_start(problem, rank, np.random.default_rng(seed)).astype(problem.loss.dtype))
    )
    problem = problem.counted()
    if idea.kernel is not None:
        problem = Problem(problem.loss, problem.penalty, idea.kernel(problem.loss))
    elif problem.penalty.nonnegative or idea.solver.requires.kernel:
        problem = problem.with_kernel(tight=False)
    state = idea.solver.init(problem, idea.start(problem, rank, np.random.default_rng(seed)))
    found: list[int | None] = [None] * len(TOLERANCES)
    objectives: list[float | None] = [None] * len(TOLERANCES)
    at_start, stalled = problem.loss.n_products, False
    while True:
        share = problem.stationarity(state.point) / reference
        for k, tol in enumerate(TOLERANCES):
            if share <= tol and found[k] is None:
                fresh = problem.stationarity(problem.counted().loss.at(state.point.X))
                if fresh <= tol * reference * (1 + 1e-6):
                    found[k], objectives[k] = problem.loss.n_products, problem.objective(state.point)
        used = problem.loss.n_products
        given_up = any(products is None and used > most for products, most in zip(found, MOST, strict=True))
        if stalled or given_up or found[-1] is not None or not math.isfinite(share):
            return {
                "products": found,
                "objectives": objectives,
                "objective": problem.objective(state.point),
                "products_of_start": at_start,
                "failed_trials": getattr(state, "failed", None),
                "stationarity": share,
            }
        try:
            state = idea.solver.step(problem, state)
        except NoProgress:
            stalled = True


def run(cell: Cell, folder: Path) -> str:
    """Work out a cell and keep its result; one line on it."""
    begun = time.perf_counter()
    try:
        found = products(load(cell.data), CASES[cell.data][1], GROUPS[cell.group].ideas[cell.idea], cell.seed)
    except Exception:  # one idea that breaks on one data set must not end all others
        found = {"products": [None] * len(TOLERANCES), "objective": None, "error": traceback.format_exc()}
    seconds = time.perf_counter() - begun
    text = json.dumps({**vars(cell), "settings": cell.settings, **found, "seconds": round(seconds, 2)}, indent=1)
    path = cell.file(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(f".{os.getpid()}.part")
    aside.write_text(text + "\n", encoding="utf-8")
    aside.replace(path)  # whole or not at all
    error = " ERROR" if "error" in found else ""
    return f"{cell.data} · {cell.group} · {cell.idea} · {cell.seed}: {found['products']} in {seconds:.1f} s{error}"


# -- all cells ------------------------------------------------------------------------------------------------------


def cells(data: list[str], groups: list[str], only: list[str], seeds: range) -> list[Cell]:
    """Return the cells asked for: seed by seed, so that there is a whole table early; the slowest data first."""
    return [
        Cell(name, group, idea, seed)
        for seed in seeds
        for name in SLOWEST_FIRST
        if name in data
        for group in groups
        if name in GROUPS[group].data
        for idea in GROUPS[group].ideas
        if not only or any(part in idea for part in only)
    ]


def run_all(wanted: list[Cell], folder: Path, jobs: int, minutes: float) -> int:
    """Run what is not there yet, in so many processes and for so long; return how many cells are left."""
    left = [cell for cell in wanted if cell.result(folder) is None]
    print(f"{len(wanted)} cells, {len(wanted) - len(left)} are there", flush=True)
    until = time.monotonic() + 60 * minutes
    for name in dict.fromkeys(cell.data for cell in left):
        load(name)  # graphs that are built are kept on disk, once
    if jobs == 1:
        for done, cell in enumerate(left):
            if time.monotonic() > until:
                return len(left) - done
            print(run(cell, folder), flush=True)
        return 0
    warm_up(left)
    queue, done = iter(left), 0
    # A fresh interpreter each: compiled code and threads are not for forking.
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        pending = {pool.submit(run, cell, folder) for cell in itertools.islice(queue, 2 * jobs)}
        while pending:
            finished, pending = wait(pending, timeout=max(0.0, until - time.monotonic()), return_when=FIRST_COMPLETED)
            for future in finished:
                done += 1
                print(f"{done}/{len(left)} {future.result()}", flush=True)
            if time.monotonic() >= until:
                stop(pool)
                break
            pending |= {pool.submit(run, cell, folder) for cell in itertools.islice(queue, len(finished))}
    return sum(cell.result(folder) is None for cell in left)


def stop(pool: ProcessPoolExecutor) -> None:
    """End the workers now: what they have not written will be done next time."""
    workers = list((getattr(pool, "_processes", None) or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for worker in workers:
        worker.terminate()


def warm_up(left: list[Cell]) -> None:
    """Run each kind of solver for a moment on the quickest data, and the first of each group on all.

    Passes are compiled for each rank and kept on disk: the workers then find them there, and compile nothing.
    """
    quickest: dict[Any, Cell] = {}
    for cell in left:
        idea = GROUPS[cell.group].ideas[cell.idea]
        kind = (type(idea.solver), getattr(idea.solver, "metric", None), cell.data in DISTANCES)
        quickest[kind] = max(quickest.get(kind, cell), cell, key=lambda cell: SLOWEST_FIRST.index(cell.data))
        quickest.setdefault((cell.group, cell.data), cell)
    for cell in dict.fromkeys(quickest.values()):
        problem, rank = load(cell.data).counted().with_kernel(tight=False), CASES[cell.data][1]
        idea = GROUPS[cell.group].ideas[cell.idea]
        with contextlib.suppress(NoProgress):
            state = idea.solver.init(problem, idea.start(problem, rank, np.random.default_rng(0)))
            for _ in range(3):
                state = idea.solver.step(problem, state)


# -- the page -------------------------------------------------------------------------------------------------------

HEAD = """# Products to ε = 1e-3 and 1e-6, idea by idea

Made by `benchmarks/products.py --jobs 16 --out FOLDER` and `--table FOLDER`: products with the data until the
stationarity, measured afresh, is ε times that of the random start of the same seed; means of as many starts as the
head of the column says (seeds from {first}), products of the start itself included; in brackets the mean objective at
the end. A dash: not reached from one of the starts within {most[0]} and {most[1]} products. The last column is the
geometric mean over the data sets of the ratio to the first row, for each ε, and that of the objectives. Products are
counted, seconds are not.
"""


def table(folder: Path, name: str, seeds: range) -> list[str]:
    """Return the lines of the table of a group; a cell without results is left empty."""
    group = GROUPS[name]
    per_column = {data: seeds[: n_starts(folder, data, name, seeds)] for data in group.data}
    heads = [f"{data}, r = {CASES[data][1]}, {_starts(len(per_column[data]))}" for data in group.data]
    similarities = name != "distances"
    last = "ratio to the first; objective" if similarities else "ratio to the first"
    lines = [f"| idea | {' | '.join(heads)} | {last} |", "|---" * (len(heads) + 2) + "|"]
    base: dict[str, tuple[list[float], float]] = {}
    for idea in group.ideas:
        shown, ratios, heights, missed, absent = [], ([], []), [], 0, 0
        for data in group.data:
            kept = [Cell(data, name, idea, seed).result(folder) for seed in per_column[data]]
            if not kept or any(row is None for row in kept):
                shown.append("")
                absent += 1
                continue
            means = [mean([row["products"][k] for row in kept]) for k in range(len(TOLERANCES))]
            height = mean([row["objective"] for row in kept])
            first = base.setdefault(data, (means, height))
            for k, value in enumerate(means):
                ratio = value / first[0][k]
                if math.isfinite(ratio):
                    ratios[k].append(ratio)
                else:
                    missed += 1
            if similarities and math.isfinite(height):
                heights.append(height / first[1])
            words = " / ".join("–" if math.isinf(value) else f"{value:.0f}" for value in means)
            shown.append(f"{words} ({height:.5g})" if math.isfinite(height) else words)
        summary = " / ".join(f"{geometric_mean(r):.2f}" if r else "–" for r in ratios)
        if heights:
            summary += f"; {geometric_mean(heights):.4f}"
        if missed:
            summary += f"; {missed} not reached"
        if absent:
            summary += f"; {absent} not run"
        if absent < len(group.data):
            lines.append(f"| {idea} | {' | '.join(shown)} | {summary} |")
    return lines


def n_starts(folder: Path, data: str, group: str, seeds: range) -> int:
    """Return of how many seeds, from the first, all ideas tried on a data set have results: its column shows those."""
    had = []
    for idea in GROUPS[group].ideas:
        kept = (Cell(data, group, idea, seed).result(folder) for seed in seeds)
        had.append(sum(1 for _ in itertools.takewhile(lambda result: result is not None, kept)))
    return min((number for number in had if number), default=0)


def _starts(number: int) -> str:
    return f"{number} start" if number == 1 else f"{number} starts"


def mean(values: list[float | None]) -> float:
    """Return the mean; infinity where one is missing."""
    return math.inf if any(value is None for value in values) else float(np.mean(values))


def geometric_mean(values: list[float]) -> float:
    """Return the geometric mean of positive numbers."""
    return math.exp(float(np.mean(np.log(values))))


def page(folder: Path, seeds: range) -> str:
    """Return products.md: a table for each group, and what the notes beside it say."""
    lines = [HEAD.format(first=seeds[0], most=MOST)]
    for name, group in GROUPS.items():
        rows = table(folder, name, seeds)
        if len(rows) > 2:
            lines += [f"## {group.title}", "", *rows, ""]
    notes = HERE / "products_notes.md"
    if notes.is_file():
        lines.append(notes.read_text(encoding="utf-8").rstrip())
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--group", nargs="+", default=list(GROUPS), choices=list(GROUPS))
    parser.add_argument("--only", nargs="*", default=[], help="ideas whose name contains one of these")
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so long; run again to go on")
    parser.add_argument("--out", type=Path, help="folder of results, one file a cell")
    parser.add_argument("--table", type=Path, metavar="FOLDER", help="write the page of these results")
    parser.add_argument("--page", type=Path, default=HERE / "products.md", help="where --table writes")
    parser.add_argument("--quick", action="store_true", help="orl and 1rgs, one start")
    options = parser.parse_args()
    if options.quick:
        options.data, options.starts = ["orl", "1rgs"], 1
    seeds = range(FIRST_SEED, FIRST_SEED + options.starts)
    if options.out is None and options.table is None:
        parser.error("say where results go with --out FOLDER, or make the page of them with --table FOLDER")
    if options.out is not None:
        wanted = cells(options.data, options.group, options.only, seeds)
        left = run_all(wanted, options.out, options.jobs, options.minutes)
        print(f"{left} cells left" if left else "all cells are there")
    if options.table is not None:
        options.page.write_text(page(options.table, seeds), encoding="utf-8")
        print(f"wrote {options.page}")


if __name__ == "__main__":
    main()
