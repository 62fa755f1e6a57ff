"""Symmetric NMF: the inertial method beside L-BFGS, from the same spectral start, in turns; one thread.

    python benchmarks/lbfgs_inertial.py DATA RANK [RANK ...]

DATA is a similarity of `quartic.datasets.load_similarity`. For ε = 1e-3 and 1e-6, against the random start: time of the
inertial method over that of L-BFGS, start included, products of both, and the objective of L-BFGS over the other's;
means of three seeds on which nothing was tuned. What is compiled is compiled before.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from quartic import Problem, minimize
from quartic.arrays.threads import limited_to
from quartic.datasets import load_similarity
from quartic.init import random_start, spectral_start
from quartic.losses import LeastSquares
from quartic.penalties import Nonnegative

SOLVERS, SEEDS = ("inertial", "lbfgs"), (100, 101, 102)


def compare(problem: Problem, rank: int, tol: float) -> str:
    """Return a line: ratio of times, products, ratio of objectives."""
    found: dict[str, list[tuple[float, int, float]]] = {name: [] for name in SOLVERS}
    for seed in SEEDS:
        for name in SOLVERS:
            began = time.perf_counter()
            result = minimize(
                problem, spectral_start, rank=rank, reference=random_start, solver=name, tol=tol, random_state=seed
            )
            found[name].append((time.perf_counter() - began, result.n_products, result.objective))
    inertial, lbfgs = (np.mean(found[name], axis=0) for name in SOLVERS)
    return (
        f"r = {rank}, ε = {tol:g}: inertial / lbfgs {inertial[0] / lbfgs[0]:.2f}, products {inertial[1]:.0f} and "
        f"{lbfgs[1]:.0f}, objective {lbfgs[2] / inertial[2]:.6f}"
    )


def main() -> None:
    name, *ranks = sys.argv[1:]
    problem = Problem(LeastSquares(load_similarity(name).matrix), Nonnegative())
    with limited_to(1):
        for rank in map(int, ranks):
            for solver in SOLVERS:
                minimize(problem, spectral_start, rank=rank, solver=solver, max_iter=30, random_state=1)
            for tol in (1e-3, 1e-6):
                print(name, compare(problem, rank, tol), flush=True)


if __name__ == "__main__":
    main()
