"""How far a whole iteration is from its one unavoidable product, and how far that is from copying memory.

``quartic bench floor``, or ``python -m quartic.bench.floor``, which needs no more than NumPy, SciPy and numba.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quartic.bench.record import describe_machine
from quartic.bench.timing import Spread, in_turns, ratios, threads_fixed

Row = dict[str, Any]

# Iterations timed together: one alone would find the arrays of a run pushed out of the cache by what was timed before.
_TOGETHER = 5


@dataclass(frozen=True)
class FloorSettings:
    """What is measured.

    ``graphs``: sizes of planted graphs, 20 neighbours, factorised with 20 columns. ``data``: data sets, each with the
    ranks 10 to 40, where they are found. ``points``: pairs (number of points, number of pairs) of distances in three
    dimensions, the first two being the paper's helix at 10 %.
    """

    graphs: tuple[int, ...] = (2_000, 20_000, 200_000)
    data: tuple[str, ...] = ("tdt2", "reuters")
    ranks: tuple[int, ...] = (10, 20, 30, 40)
    points: tuple[tuple[int, int], ...] = ((2_000, 199_900), (5_000, 1_249_750), (400_000, 4_000_000))
    threads: tuple[int, ...] = (1, 2)
    repeats: int = 15
    dtypes: tuple[Any, ...] = field(default=(np.float64, np.float32))

    @classmethod
    def quick(cls) -> FloorSettings:
        """Return settings for a first look: half a minute, most of it compiling."""
        return cls(graphs=(2_000,), data=(), points=((2_000, 199_900),), repeats=5)


def copy_speed(threads: int, repeats: int = 5) -> float:
    """Return the gigabytes a second that are read and written when 256 MB are copied."""
    from quartic.arrays.threads import spread

    A, B = np.ones(1 << 25), np.empty(1 << 25)
    piece = len(A) // 64

    def work(first: int, last: int) -> None:
        np.copyto(B[first * piece : last * piece], A[first * piece : last * piece])

    seconds = in_turns({"copy": lambda: spread(work, 64, 1e12)}, threads, repeats)["copy"]
    return 2e-9 * A.nbytes / float(np.median(seconds))


def run_floor(settings: FloorSettings, say: Callable[[str], None]) -> list[Row]:
    """Measure, and return a row for each case, type and number of threads."""
    rows: list[Row] = []
    for threads in settings.threads:
        with threads_fixed(threads):
            rows.append({"case": "copy of 256 MB", "threads": threads, "GB/s": copy_speed(threads)})
            for name, make in _cases(settings):
                data = make()
                if data is None:
                    say(f"{name} is left out: the data set is not there")
                    continue
                for dtype in settings.dtypes:
                    for case, loss, rank in data(dtype):
                        say(f"{case}, {np.dtype(dtype).name}, {threads} threads")
                        measure = _factorisation if rank > 3 else _distances
                        row = measure(loss, rank, threads, settings.repeats)
                        rows.append({"case": case, "type": np.dtype(dtype).name, "threads": threads, **row})
    return rows


def _cases(settings: FloorSettings) -> Any:
    from quartic.datasets import DatasetNotFound, load_similarity, planted_graph
    from quartic.losses import Distances, LeastSquares

    def of_matrix(name: str, M: Any, ranks: tuple[int, ...]) -> Any:
        return lambda dtype: ((f"{name}, r = {r}", LeastSquares(M.astype(dtype)), r) for r in ranks)

    def graph(n: int) -> Any:
        M, _ = planted_graph(n, 20, random_state=0)
        return of_matrix(f"graph, n = {n:,}", M, (20,))

    def stored(name: str) -> Any:
        try:
            return of_matrix(name, load_similarity(name).matrix, settings.ranks)
        except (DatasetNotFound, ImportError):
            return None

    def pairs(n: int, m: int) -> Any:
        def make(dtype: Any) -> Any:
            chosen, squared = helix_pairs(n, m)
            yield f"distances, n = {n:,}, {m:,} pairs", Distances(chosen, squared.astype(dtype), n), 3

        return make

    for n in settings.graphs:
        yield f"graph, n = {n:,}", lambda n=n: graph(n)
    for name in settings.data:
        yield name, lambda name=name: stored(name)
    for n, m in settings.points:
        yield f"distances, n = {n:,}", lambda n=n, m=m: pairs(n, m)


def helix_pairs(n: int, m: int) -> tuple[Any, Any]:
    """Return m different pairs of n points on the paper's helix, and their squared distances."""
    from quartic.datasets import helix

    X = helix(n)
    X /= np.linalg.norm(X)
    generator = np.random.default_rng(0)
    found = np.empty(0, np.int64)
    while len(found) < m:
        i, j = generator.integers(n, size=(2, m + m // 4))
        codes = np.minimum(i, j) * n + np.maximum(i, j)
        found = np.unique(np.concatenate([found, codes[i != j]]))
    found = np.sort(generator.permutation(found)[:m])
    pairs = np.column_stack(np.divmod(found, n))
    return pairs, np.square(X[pairs[:, 0]] - X[pairs[:, 1]]).sum(axis=1)


def _factorisation(loss: Any, rank: int, threads: int, repeats: int) -> Row:
    """Time the inertial method on ½‖M − XXᵀ‖², X ≥ 0, beside the bare product, ours and SciPy's."""
    from quartic.core.problem import Problem
    from quartic.penalties import Nonnegative
    from quartic.solvers import InertialNoLips

    problem = Problem(loss, Nonnegative()).counted().with_kernel(tight=False)
    X = problem.loss.random_start(rank, True, np.random.default_rng(0)).astype(loss.dtype)
    M, out = loss.matrix.M, np.empty_like(X)
    step = _Stepping(problem, InertialNoLips(), X, _TOGETHER)
    seconds = in_turns(
        {"product": lambda: loss.matrix.product(X, out), "SciPy": lambda: M @ X, "iteration": step}, threads, repeats
    )
    return {
        "bare": float(np.median(seconds["product"])),
        "GB/s": _traffic(M, X) / float(np.median(seconds["product"])) * 1e-9,
        "SciPy / ours": ratios(seconds["SciPy"], seconds["product"]),
        "iteration / ours": ratios(step.each(seconds["iteration"]), seconds["product"]),
        "iteration / SciPy": ratios(step.each(seconds["iteration"]), seconds["SciPy"]),
    }


def _distances(loss: Any, rank: int, threads: int, repeats: int) -> Row:
    """Time Dyn-NoLips with the Gram kernel beside the pass of its step, and the bare pass for value and gradient."""
    from quartic.core.problem import Problem
    from quartic.solvers import DynNoLips

    problem = Problem(loss).counted().with_kernel(tight=False)
    X = problem.loss.random_start(rank, False, np.random.default_rng(0)).astype(loss.dtype)
    p, Y = loss.at(X), (X * loss.dtype(1.001)).astype(loss.dtype)
    step = _Stepping(problem, DynNoLips(), X, _TOGETHER)
    seconds = in_turns(
        {"pass": lambda: loss.at(X), "its pass": lambda: loss.move(p, Y), "iteration": step}, threads, repeats
    )
    bytes_read = loss.cols.nbytes + loss.target.nbytes + loss.start.nbytes + 3 * X.nbytes
    return {
        "bare": float(np.median(seconds["pass"])),
        "GB/s": bytes_read / float(np.median(seconds["pass"])) * 1e-9,
        "iteration / ours": ratios(step.each(seconds["iteration"]), seconds["pass"]),
        "iteration / its pass": ratios(step.each(seconds["iteration"]), seconds["its pass"]),
    }


def _traffic(M: Any, X: Any) -> float:
    """Return the bytes that a product must at least move: M once, X and the result once."""
    return float(M.data.nbytes + M.indices.nbytes + M.indptr.nbytes + 2 * X.nbytes)


class _Stepping:
    """A solver that goes on by so many iterations when called; it counts their products."""

    def __init__(self, problem: Any, solver: Any, X: Any, together: int = 1) -> None:
        self.problem, self.solver, self.X, self.together = problem, solver, X, together
        self.state = solver.init(problem, X)
        self.products, self.calls = 0, 0
        for _ in range(-(-10 // together)):  # past the first iterations, whose steps are still being found
            self()
        self.products, self.calls = 0, 0

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


def floor_table(rows: list[Row]) -> str:
    """Return the rows as a Markdown table."""
    columns = ("SciPy / ours", "iteration / ours", "iteration / SciPy", "iteration / its pass")
    lines = [f"| case | type | threads | bare, ms | GB/s | {' | '.join(columns)} |", "|---" * 9 + "|"]
    for row in rows:
        bare = f"{1e3 * row['bare']:.3g}" if "bare" in row else ""
        cells = [row["case"], row.get("type", ""), str(row["threads"]), bare, f"{row['GB/s']:.1f}"]
        lines.append(f"| {' | '.join(cells + [str(row.get(name, '')) for name in columns])} |")
    return "\n".join(lines)


def plain(rows: list[Row]) -> list[Row]:
    """Return the rows with nothing but numbers and words, for JSON."""
    return [{k: vars(v) if isinstance(v, Spread) else v for k, v in row.items()} for row in rows]


def main() -> None:
    """Run from ``python -m quartic.bench.floor``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", type=int, nargs="+", default=None)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    settings = FloorSettings.quick() if options.quick else FloorSettings()
    if options.threads:
        settings = FloorSettings(**{**vars(settings), "threads": tuple(options.threads)})
    rows = run_floor(settings, lambda line: None if options.json else print(f"  {line}", flush=True))
    print(json.dumps(plain(rows)) if options.json else "\n".join([*describe_machine().values(), "", floor_table(rows)]))


if __name__ == "__main__":
    main()
