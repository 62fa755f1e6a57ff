"""What the estimator costs beside the bare solver: ``python benchmarks/distance_estimator.py [CASE …]``.

`DistanceCompletion.fit_pairs` (input checks, search, what is determined) and `minimize` with ``auto`` on one helix, in
turn in one process; then SciPy's L-BFGS-B with our gradient beside the estimator. Medians, and their ratios.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from quartic import DistanceCompletion, Problem, minimize
from quartic.bench.cases import Enough
from quartic.bench.methods import with_scipy
from quartic.bench.numbers import run_script
from quartic.datasets import helix, pair_distances, random_pairs, swiss_roll
from quartic.losses import Distances

HELIX = {1000: 0.1, 2000: 0.1, 5000: 0.05, 20_000: 0.005, 100_000: 0.0004}


SHAPES = ("helix", "swiss roll", "sphere", "gauss")


def in_turn(jobs: list[Callable[[], Any]], rounds: int) -> list[float]:
    """Return the median seconds of each job, all done once a round, after a round that is not counted."""
    times: list[list[float]] = [[] for _ in jobs]
    warnings.simplefilter("ignore")
    for _ in range(rounds + 1):
        for job, mine in zip(jobs, times, strict=True):
            began = time.perf_counter()
            job()
            mine.append(time.perf_counter() - began)
    return [statistics.median(mine[1:]) for mine in times]


def draw(shape: str, n: int) -> np.ndarray:
    """Return the points of a shape."""
    if shape == "helix":
        return helix(n, random_state=0)
    if shape == "swiss roll":
        return swiss_roll(n, random_state=0)
    u = np.random.default_rng(0).standard_normal((n, 3))
    return u / np.linalg.norm(u, axis=1, keepdims=True) if shape == "sphere" else u


def beside_minimize(n: int, share: float):
    """Measure the estimator beside `minimize` on a helix."""
    pairs = random_pairs(n, share, random_state=0)
    d = pair_distances(helix(n, random_state=0), pairs)

    def bare() -> None:
        minimize(Problem(Distances(pairs, d**2, n)), rank=3, tol=1e-8, random_state=0)

    def ours() -> None:
        DistanceCompletion(random_state=0).fit_pairs(pairs, d)

    whole, alone = in_turn([ours, bare], 7 if n <= 5000 else 3)
    case, facts = f"helix, n = {n:,}, {len(pairs):,} pairs", {"ms": 1e3 * whole, "ratio": whole / alone}
    yield from (
        (case, "DistanceCompletion", *one) for one in {**facts, "3 times minimize + 20 ms": 3e3 * alone + 20}.items()
    )
    yield case, "minimize", "ms", 1e3 * alone


def beside_scipy(shape: str, share: float, n: int = 3000):
    """Measure SciPy's L-BFGS-B, with our gradient, beside the estimator."""
    pairs = random_pairs(n, share, random_state=0)
    d = pair_distances(draw(shape, n), pairs)

    def ours() -> None:
        DistanceCompletion(random_state=0).fit_pairs(pairs, d)

    def theirs() -> None:
        loss = Distances(pairs, d**2, n)
        start = loss.random_start(3, False, np.random.default_rng(0))
        goal = 1e-8 * float(np.linalg.norm(loss.at(start).gradient))

        def function(X: np.ndarray) -> tuple[float, np.ndarray]:
            p = loss.at(X)
            if np.linalg.norm(p.gradient) < goal:
                raise Enough
            return p.value, p.gradient

        with_scipy(function, start, lambda X: None)

    mine, peer = in_turn([ours, theirs], 3)
    case = f"{shape}, n = {n:,}, {share:.0%}"
    return [(case, "DistanceCompletion", "ms", 1e3 * mine), (case, "SciPy L-BFGS-B", "ms", 1e3 * peer),
            (case, "SciPy L-BFGS-B", "ratio", peer / mine)]  # fmt: skip


CASES = {f"{n}": partial(beside_minimize, n, share) for n, share in HELIX.items()}
CASES |= {f"{shape} {share}": partial(beside_scipy, shape, share) for shape in SHAPES for share in (0.05, 0.1)}

if __name__ == "__main__":
    run_script("estimator", CASES)
