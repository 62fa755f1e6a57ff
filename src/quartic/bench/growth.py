"""How an iteration compares with its one unavoidable product, and how its time and memory grow with the data."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from quartic.bench.cases import Cell
from quartic.bench.harness import one_thread
from quartic.bench.numbers import Cases, record
from quartic.solvers import LBFGS, DynNoLips, InertialNoLips

# Iterations timed together: one alone would find the arrays of a run pushed out of the cache by what was timed before.
_TOGETHER = 5
_NODES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)  # 20 neighbours, 20 columns
_PAIRS = (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)  # 20 a point, three columns
_DATA = tuple(Cell(name, rank) for name in ("tdt2", "reuters") for rank in (10, 20, 30, 40))


def growth_cases(quick: bool = False, repeats: int = 9) -> Cases:
    """Return the measurements of one thread: nanoseconds, the ratio to bare products, peak memory in arrays like X.

    Sizes are nodes of planted graphs and numbers of pairs on the paper's helix; data sets follow.
    """
    kinds: dict[str, tuple[Any, Any]] = {
        "graph, inertial": (_NODES, InertialNoLips()),
        "graph, lbfgs with 7 pairs": (_NODES, LBFGS(7)),
        "pairs, dyn-nolips": (_PAIRS, DynNoLips()),
    }
    cases: dict[str, Any] = {
        kind: partial(_grow, kind, sizes[: 3 if quick else None], solver, repeats)
        for kind, (sizes, solver) in kinds.items()
    }
    for cell in () if quick else _DATA:
        case = f"{cell.data}, r = {cell.rank}"
        cases[case] = partial(_on_data, case, cell, repeats)
    return cases


def _grow(kind: str, sizes: Sequence[int], solver: Any, repeats: int) -> Iterator[Any]:
    """Measure a solver at each size; last the exponent p of the fit seconds ≈ c·sizeᵖ."""
    times = []
    for size in sizes:
        n = size // 10  # a pair belongs to two points
        graph = kind.startswith("graph")
        cell = Cell(f"planted-{size}-20", 20) if graph else Cell.helix(n, 2 * size / (n * (n - 1)))
        found = _measure(cell, solver, repeats)
        times.append(found.pop("s"))
        yield from record(f"{size:,}", kind, ns_a_product_and_size=1e9 * times[-1] / size, **found)
    if len(sizes) > 1:
        yield "all", kind, "exponent", float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def _on_data(case: str, cell: Cell, repeats: int) -> list[Any]:
    found = _measure(cell, InertialNoLips(), repeats)
    del found["s"]
    return record(case, "graph, inertial", **found)


def _measure(cell: Cell, solver: Any, repeats: int) -> dict[str, float]:
    """Return seconds of a product within an iteration, beside the bare product (ours and SciPy's), and its memory."""
    problem, rank = cell.problem(), cell.rank
    loss: Any = problem.loss
    if not isinstance(solver, LBFGS):
        problem = problem.with_kernel(tight=False)
    X = loss.random_start(rank, problem.penalty.nonnegative, np.random.default_rng(0))
    jobs: dict[str, Callable[[], object]] = {"product": lambda: loss.at(X)}
    if rank > 3:
        M, out = loss.matrix.M, np.empty_like(X)
        jobs = {"product": lambda: loss.matrix.product(X, out), "SciPy": lambda: M @ X}
    with one_thread():
        step = Stepping(problem, solver, X, _TOGETHER)
        seconds = in_turns({**jobs, "iteration": step}, repeats)
        each = seconds["iteration"] * step.calls / step.products  # one whose first step was too long makes two
        found = {"s": float(np.median(each)), "iteration / product": float(np.median(each / seconds["product"]))}
        if "SciPy" in jobs:  # ratios round by round, which drift of the machine leaves alone
            found["SciPy / ours"] = float(np.median(seconds["SciPy"] / seconds["product"]))
        del step
        getattr(loss, "_layout", []).clear()  # what passes keep for the next is to be counted
        gc.collect()
        return {**found, "arrays like X": peak_memory(problem, solver, X, 12 + 7) / X.nbytes}


def in_turns(jobs: Mapping[str, Callable[[], object]], repeats: int, least: float = 0.002) -> dict[str, Any]:
    """Return the seconds of each job in each of each round; a turn is ``least`` seconds or more."""

    def measure(job: Callable[[], object], times: int = 1) -> float:
        began = time.thread_time()
        for _ in range(times):
            job()
        return (time.thread_time() - began) / times

    times = {
        name: max(1, min(1000, round(least / max(min(measure(job), measure(job)), 1e-9)))) for name, job in jobs.items()
    }
    rounds = [[measure(job, times[name]) for name, job in jobs.items()] for _ in range(repeats)]
    return dict(zip(jobs, np.array(rounds).T, strict=True))


class Stepping:
    """A solver that goes on by so many iterations when called; it counts their products."""

    def __init__(self, problem: Any, solver: Any, X: Any, together: int = 1) -> None:
        self.problem, self.solver, self.together = problem.counted(), solver, together
        self.state = solver.init(self.problem, X)
        self.products = self.calls = 0
        for _ in range(-(-10 // together)):  # past the first iterations, whose steps are still being found
            self()
        self.products = self.calls = 0

    def __call__(self) -> None:
        """Go on, as the loop does: a step, the objective, the stationarity."""
        before = self.problem.loss.n_products
        for _ in range(self.together):
            self.state = self.solver.step(self.problem, self.state)
            self.problem.objective(self.state.point)
            self.problem.stationarity(self.state.point)
        self.products += self.problem.loss.n_products - before
        self.calls += 1


def peak_memory(problem: Any, solver: Any, X: Any, iterations: int) -> int:
    """Return the most bytes that a run holds besides its input, its start X among them."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        step = Stepping(problem, solver, X.copy())
        for _ in range(iterations):
            step()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
