"""How far an iteration is from its one unavoidable product, and how time and memory grow with the data."""

from __future__ import annotations

import gc
import math
import statistics
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from quartic.bench.harness import Jobs, fixed_threads, in_turns, median_ratio
from quartic.bench.numbers import Cases
from quartic.core.problem import Problem
from quartic.datasets import helix, load_similarity, planted_graph
from quartic.losses import Distances, LeastSquares
from quartic.penalties import Nonnegative
from quartic.solvers import LBFGS, DynNoLips, InertialNoLips

# Iterations timed together: one alone would find the arrays of a run pushed out of the cache by what was timed before.
_TOGETHER = 5


_QUICK: dict[str, dict[str, Any]] = {
    "floor": {"graphs": (2_000,), "data": (), "points": ((2_000, 199_900),), "repeats": 5},
    "growth": {"nodes": (1_000, 3_000, 10_000, 30_000), "pairs": (100_000, 300_000, 1_000_000), "repeats": 3},
}


def cases_of(section: str, quick: bool = False, **settings: Any) -> Cases:
    """Return the measurements of ``floor`` or ``growth``, whole or for a first look."""
    make = floor_cases if section == "floor" else growth_cases
    return make(**{**(_QUICK[section] if quick else {}), **settings})


def floor_cases(
    graphs: Sequence[int] = (2_000, 20_000, 200_000), data: Sequence[str] = ("tdt2", "reuters"),
    ranks: Sequence[int] = (10, 20, 30, 40),
    points: Sequence[tuple[int, int]] = ((2_000, 199_900), (5_000, 1_249_750), (400_000, 4_000_000)),
    threads: Sequence[int] = (1, 2), repeats: int = 15, dtypes: Sequence[Any] = (np.float64, np.float32),
) -> Cases:  # fmt: skip
    """Return the measurements of iterations beside bare products, for each case and number of threads.

    ``graphs``: sizes of planted graphs, 20 neighbours, factorised with 20 columns. ``data``: data sets, each with the
    given ranks, where they are found. ``points``: numbers of points and of pairs of distances in three dimensions, the
    first two being the paper's helix at 10 %.
    """
    made: list[tuple[str, int, Callable[[], Any]]] = [
        *((f"graph, n = {n:,}, r = 20", 20, partial(_graph, n)) for n in graphs),
        *((f"{name}, r = {rank}", rank, partial(_similarity, name)) for name in data for rank in ranks),
        *((f"distances, n = {n:,}, {m:,} pairs", 3, partial(helix_pairs, n, m)) for n, m in points),
    ]
    return {
        f"{case}, {count} threads": partial(_floor, case, rank, make, count, repeats, dtypes)
        for count in threads
        for case, rank, make in made
    }


def _floor(
    case: str, rank: int, make: Callable[[], Any], threads: int, repeats: int, dtypes: Sequence[Any]
) -> Iterator[Any]:
    with fixed_threads(threads):
        data = make()
        for kind in map(np.dtype, dtypes):
            found = _time_iteration(data, kind, rank, threads, repeats)
            yield from ((case, f"{kind.name} {threads}", *one) for one in found.items())


def _graph(n: int) -> Any:
    return planted_graph(n, 20, random_state=0)[0]


def _similarity(data: str) -> Any:
    return load_similarity(data).matrix


def helix_pairs(n: int, m: int) -> tuple[Any, Any, int]:
    """Return m different pairs of n points on the paper's helix, scaled to norm 1, their squared distances, and n."""
    X = helix(n)
    X /= np.linalg.norm(X)
    generator = np.random.default_rng(0)
    found = np.empty(0, np.int64)
    while len(found) < m:
        i, j = generator.integers(n, size=(2, m + m // 4))
        found = np.unique(np.concatenate([found, (np.minimum(i, j) * n + np.maximum(i, j))[i != j]]))
    pairs = np.column_stack(np.divmod(np.sort(generator.permutation(found)[:m]), n))
    return pairs, np.square(X[pairs[:, 0]] - X[pairs[:, 1]]).sum(axis=1), n


def _time_iteration(data: Any, kind: Any, rank: int, threads: int, repeats: int) -> dict[str, float]:
    """Time an iteration beside the bare product or pass for value and gradient.

    On a matrix, ½‖M − XXᵀ‖² over X ≥ 0: the inertial method, beside SciPy's product too. On pairs: Dyn-NoLips with the
    Gram kernel, beside the pass of its step too.
    """
    loss: Any
    solver: Any
    if rank > 3:
        loss = LeastSquares(data.astype(kind))
        X = loss.random_start(rank, True, np.random.default_rng(0)).astype(loss.dtype)
        M, out = loss.matrix.M, np.empty_like(X)
        problem, solver = Problem(loss, Nonnegative()), InertialNoLips()
        jobs: Jobs = {"ours": lambda: loss.matrix.product(X, out), "SciPy": lambda: M @ X}
    else:
        pairs, squared, n = data
        loss = Distances(pairs, squared.astype(kind), n)
        X = loss.random_start(rank, False, np.random.default_rng(0)).astype(loss.dtype)
        p, Y = loss.at(X), (X * loss.dtype(1.001)).astype(loss.dtype)
        problem, solver = Problem(loss), DynNoLips()
        jobs = {"ours": lambda: loss.at(X), "its pass": lambda: loss.move(p, Y)}
    step = Stepping(problem.with_kernel(tight=False), solver, X, _TOGETHER)
    seconds = in_turns({**jobs, "iteration": step}, threads, repeats)
    iteration = step.each(seconds["iteration"])
    found = {"bare, ms": 1e3 * statistics.median(seconds["ours"])}
    if "SciPy" in jobs:
        found["SciPy / ours"] = median_ratio(seconds["SciPy"], seconds["ours"])
    return found | {f"iteration / {name}": median_ratio(iteration, seconds[name]) for name in jobs}


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

    def each(self, seconds: list[float]) -> list[float]:
        """Return seconds for each product: an iteration whose first step was too long makes two."""
        return [s * self.calls / self.products for s in seconds]


# -- growth -----------------------------------------------------------------------------------------------------------


def growth_cases(
    nodes: Sequence[int] = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000),
    pairs: Sequence[int] = (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000), most: float = math.inf,
    repeats: int = 5,
) -> Cases:  # fmt: skip
    """Return the measurements of nanoseconds a product and node or pair, and of peak memory in arrays like X.

    Sizes are nodes of planted graphs (20 neighbours, 20 columns), and numbers of pairs (20 a point, three columns).
    """
    makers = {
        "graph, inertial": (nodes, 20, InertialNoLips()),
        "graph, lbfgs with 7 pairs": (nodes, 20, LBFGS(7)),
        "pairs, dyn-nolips": (pairs, 3, DynNoLips()),
    }
    return {
        kind: partial(_growth, kind, [n for n in sizes if n <= most], rank, solver, repeats)
        for kind, (sizes, rank, solver) in makers.items()
        if min(sizes) <= most
    }


def _growth(kind: str, sizes: list[int], rank: int, solver: Any, repeats: int) -> Iterator[Any]:
    """Measure a solver at each size, on one thread; last the exponent p of the fit seconds ≈ c·sizeᵖ."""
    times = []
    with fixed_threads(1):
        for size in sizes:
            if rank > 3:
                problem = Problem(LeastSquares(_graph(size)), Nonnegative())
            else:
                problem = Problem(Distances(*helix_pairs(size // 10, size)))  # a pair belongs to two points
            if not isinstance(solver, LBFGS):
                problem = problem.with_kernel(tight=False)
            X = problem.loss.random_start(rank, problem.penalty.nonnegative, np.random.default_rng(0))
            step = Stepping(problem, solver, X)
            seconds = step.each(in_turns({"iteration": step}, 1, repeats, least=0.01)["iteration"])
            del step
            getattr(problem.loss, "_layout", []).clear()  # what passes keep for the next is to be counted
            gc.collect()
            times.append(statistics.median(seconds))
            yield f"{size:,}", kind, "ns a product and size", 1e9 * times[-1] / size
            yield f"{size:,}", kind, "arrays like X", peak_memory(problem, solver, X, 12 + 7) / X.nbytes
    if len(sizes) > 1:
        yield "all", kind, "exponent", float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


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
