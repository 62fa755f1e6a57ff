"""How time and memory grow with the data: linearly, which the fitted exponents show.

``quartic bench growth``, or ``python -m quartic.bench.growth``, which needs no more than NumPy, SciPy and numba.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from quartic.bench.floor import _Stepping, helix_pairs
from quartic.bench.record import describe_machine
from quartic.bench.timing import in_turns, threads_fixed

Row = dict[str, Any]


@dataclass(frozen=True)
class GrowthSettings:
    """Sizes: nodes of planted graphs (20 neighbours, 20 columns), and numbers of pairs (20 a point, three columns)."""

    nodes: tuple[int, ...] = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
    pairs: tuple[int, ...] = (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
    rank: int = 20
    memory: int = 7
    repeats: int = 5

    @classmethod
    def quick(cls) -> GrowthSettings:
        """Return smaller sizes."""
        return cls(nodes=(1_000, 3_000, 10_000, 30_000), pairs=(100_000, 300_000, 1_000_000), repeats=3)


def run_growth(settings: GrowthSettings, say: Callable[[str], None]) -> list[Row]:
    """Measure seconds a product and peak memory, on one thread."""
    rows = []
    with threads_fixed(1):
        for kind, size, problem, rank, solver in _cases(settings):
            say(f"{kind}, {size:,}")
            X = problem.loss.random_start(rank, problem.penalty.nonnegative, np.random.default_rng(0))
            step = _Stepping(problem.counted(), solver, X)
            seconds = step.each(in_turns({"iteration": step}, 1, settings.repeats, least=0.01)["iteration"])
            del step
            getattr(problem.loss, "_layout", []).clear()  # what passes keep for the next is to be counted
            gc.collect()
            matrices = peak_memory(problem, solver, X, 12 + settings.memory) / X.nbytes
            allowed = 12 + 2 * getattr(solver, "memory", 0)
            rows.append(
                {"kind": kind, "size": size, "seconds": float(np.median(seconds)), "matrices": matrices,
                 "allowed": allowed}
            )  # fmt: skip
    return rows


def peak_memory(problem: Any, solver: Any, X: Any, iterations: int) -> int:
    """Return the most bytes that a run holds besides its input, its start X among them."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        step = _Stepping(problem.counted(), solver, X.copy())
        for _ in range(iterations):
            step()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def _cases(settings: GrowthSettings) -> Iterator[tuple[str, int, Any, int, Any]]:
    from quartic.core.problem import Problem
    from quartic.datasets import planted_graph
    from quartic.losses import Distances, LeastSquares
    from quartic.penalties import Nonnegative
    from quartic.solvers import LBFGS, DynNoLips, InertialNoLips

    for n in settings.nodes:
        problem = Problem(LeastSquares(planted_graph(n, 20, random_state=0)[0]), Nonnegative())
        yield "graph, inertial", n, problem.with_kernel(tight=False), settings.rank, InertialNoLips()
        yield f"graph, lbfgs with {settings.memory} pairs", n, problem, settings.rank, LBFGS(settings.memory)
    for m in settings.pairs:
        n = m // 10  # a pair belongs to two points: 20 pairs a point
        pairs, squared = helix_pairs(n, m)
        problem = Problem(Distances(pairs, squared, n))
        yield "pairs, dyn-nolips", m, problem.with_kernel(tight=False), 3, DynNoLips()


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """Return p of the fit seconds ≈ c·sizeᵖ.

    Examples
    --------
    >>> from quartic.bench.growth import exponent
    >>> round(exponent([10, 100, 1000], [1.0, 10.0, 100.0]), 6)
    1.0
    """
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def growth_table(rows: list[Row]) -> str:
    """Return the rows as a Markdown table, with the exponents below."""
    lines = ["| kind | size | ms a product | ns a product and size | matrices n × r | allowed |", "|---" * 6 + "|"]
    for row in rows:
        each = 1e9 * row["seconds"] / row["size"]
        lines.append(
            f"| {row['kind']} | {row['size']:,} | {1e3 * row['seconds']:.3g} | {each:.3g} | {row['matrices']:.1f} | "
            f"{row['allowed']} |"
        )
    lines.append("")
    for kind in dict.fromkeys(row["kind"] for row in rows):
        mine = [row for row in rows if row["kind"] == kind]
        lines.append(f"{kind}: {_fits([row['size'] for row in mine], [row['seconds'] for row in mine])}")
    return "\n".join(lines)


def _fits(sizes: list[int], seconds: list[float]) -> str:
    whole = f"time grows like size^{exponent(sizes, seconds):.2f}"
    half = len(sizes) // 2
    if len(sizes) - half < 2:
        return whole
    return f"{whole}, over the larger half like size^{exponent(sizes[half:], seconds[half:]):.2f}"


def main() -> None:
    """Run from ``python -m quartic.bench.growth``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--most", type=int, default=None, help="leave out larger sizes")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    settings = at_most(GrowthSettings.quick() if options.quick else GrowthSettings(), options.most)
    rows = run_growth(settings, lambda line: None if options.json else print(f"  {line}", flush=True))
    print(json.dumps(rows) if options.json else "\n".join([*describe_machine().values(), "", growth_table(rows)]))


def at_most(settings: GrowthSettings, most: int | None) -> GrowthSettings:
    """Return the settings without sizes above ``most``."""
    limit = math.inf if most is None else most
    return GrowthSettings(
        tuple(n for n in settings.nodes if n <= limit),
        tuple(m for m in settings.pairs if m <= limit),
        settings.rank,
        settings.memory,
        settings.repeats,
    )


if __name__ == "__main__":
    main()
