"""What the estimator costs beside the bare solver: ``python benchmarks/distance_estimator.py [most_points]``.

`DistanceCompletion.fit_pairs` (input checks, search, what is determined) and `minimize` with ``auto`` on one helix, in
turn in one process; then SciPy's L-BFGS-B with our gradient beside the estimator. Medians, and their ratios.
"""

from __future__ import annotations

import statistics
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize as scipy_minimize

from quartic import DistanceCompletion, Problem, minimize
from quartic.datasets import helix, pair_distances, random_pairs
from quartic.losses import Distances

HELIX = {1000: 0.1, 2000: 0.1, 5000: 0.05, 20_000: 0.005, 100_000: 0.0004}


def seconds(job: Callable[[], Any]) -> float:
    """Return how long a job takes."""
    began = time.perf_counter()
    job()
    return time.perf_counter() - began


def in_turn(jobs: list[Callable[[], Any]], rounds: int) -> list[float]:
    """Return the median seconds of each job, all done once a round, after a round that is not counted."""
    for job in jobs:
        job()
    times = [[seconds(job) for job in jobs] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*times, strict=True)]


def clouds(n: int) -> dict[str, np.ndarray]:
    """Return the shapes that L-BFGS-B is compared on."""
    g = np.random.default_rng(0)
    t, u = 1.5 * np.pi * (1 + 2 * g.random(n)), g.standard_normal((n, 3))
    return {
        "helix": helix(n, random_state=0),
        "swiss roll": np.column_stack([t * np.cos(t), 21 * g.random(n), t * np.sin(t)]),
        "sphere": u / np.linalg.norm(u, axis=1, keepdims=True),
        "gauss": u,
    }


def beside_minimize(most: int) -> None:
    """Print the estimator beside `minimize` on helices."""
    for n, share in HELIX.items():
        if n > most:
            continue
        X = helix(n, random_state=0)
        pairs = random_pairs(n, share, random_state=0)
        d = pair_distances(X, pairs)
        jobs = [
            lambda pairs=pairs, d=d: DistanceCompletion(random_state=0).fit_pairs(pairs, d),
            lambda pairs=pairs, d=d, n=n: minimize(
                Problem(Distances(pairs, d**2, n)), rank=3, tol=1e-8, random_state=0
            ),
        ]
        ours, bare = in_turn(jobs, 7 if n <= 5000 else 3)
        print(
            f"helix n = {n:6d}, {len(pairs):8,d} pairs: estimator {1e3 * ours:8.1f} ms, minimize {1e3 * bare:8.1f} ms, "
            f"allowed {3e3 * bare + 20:8.1f} ms, ratio {ours / bare:.2f}",
            flush=True,
        )


def beside_scipy(n: int) -> None:
    """Print SciPy's L-BFGS-B, with our gradient, beside the estimator."""
    for name, X in clouds(n).items():
        for share in (0.05, 0.1):
            pairs = random_pairs(n, share, random_state=0)
            d = pair_distances(X, pairs)

            def peer(pairs: np.ndarray = pairs, d: np.ndarray = d) -> None:
                loss = Distances(pairs, d**2, n)
                start = loss.random_start(3, False, np.random.default_rng(0))

                def value_and_gradient(x: np.ndarray) -> tuple[float, np.ndarray]:
                    p = loss.at(x.reshape(n, 3))
                    return p.value, p.gradient.ravel()

                goal = 1e-8 * float(np.linalg.norm(loss.at(start).gradient))
                scipy_minimize(
                    value_and_gradient, start.ravel(), jac=True, method="L-BFGS-B",
                    options={"gtol": goal / np.sqrt(3 * n), "ftol": 0.0, "maxiter": 10_000, "maxfun": 20_000},
                )  # fmt: skip

            jobs = [lambda pairs=pairs, d=d: DistanceCompletion(random_state=0).fit_pairs(pairs, d), peer]
            ours, theirs = in_turn(jobs, 3)
            print(
                f"{name:10s} {share:4.0%}: estimator {1e3 * ours:7.1f} ms, L-BFGS-B {1e3 * theirs:7.1f} ms, "
                f"{theirs / ours:.2f} times as long",
                flush=True,
            )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    beside_minimize(most)
    beside_scipy(min(most, 3000))
