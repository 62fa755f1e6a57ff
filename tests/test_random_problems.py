"""Random problems, every solver: no result is invalid. Twenty in ``make test``, two hundred in ``make test-slow``."""

import math
from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp

from quartic import Problem, minimize
from quartic.core.result import Status
from quartic.losses import BoundedDistances, Distances, LeastSquares
from quartic.penalties import L0, L1, Nonnegative, NonnegativeL1, NonnegativeRidge, Ridge, Zero
from quartic.solvers import SOLVERS
from quartic.solvers.registry import why_not


def random_matrix(rng, n):
    """A symmetric matrix of some kind: random, low rank, a graph in pieces, indefinite, nearly zero, of odd scale."""
    A = rng.standard_normal((n, n))
    kind = int(rng.integers(7))
    if kind == 0:
        M = A + A.T
    elif kind == 1:
        B = rng.standard_normal((n, max(1, n // 3)))
        M = B @ B.T
    elif kind == 2:
        M = (np.abs(A + A.T) > 1.5).astype(float)
    elif kind == 3:
        M = -np.abs(A + A.T)
    elif kind == 4:
        M = np.kron(np.eye(max(1, n // 4)), np.ones((4, 4)))[:n, :n]
        M = np.pad(M, (0, n - len(M)))
    elif kind == 5:
        M = np.diag(rng.standard_normal(n) * (rng.random(n) < 0.5))
    else:
        M = np.abs(A + A.T) ** 4
    return M * 10.0 ** int(rng.integers(-150, 150)) if rng.random() < 0.3 else M


def random_problem(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.choice([1, 2, 3, 5, 8, 13, 25]))
    rank = int(rng.integers(1, min(n, 5) + 1))
    if n > 2 and rng.random() < 0.4:
        X = rng.standard_normal((n, rank)) * 10.0 ** int(rng.integers(-60, 60) if rng.random() < 0.3 else 0)
        X[rng.random(n) < 0.2] = X[0]  # points that coincide
        pairs = np.array(np.triu_indices(n, 1)).T
        kept = rng.random(len(pairs)) < rng.uniform(0.2, 1)
        kept[0] = True
        pairs = pairs[kept]
        squared = ((X[pairs[:, 0]] - X[pairs[:, 1]]) ** 2).sum(axis=1) * (1 + 0.3 * rng.random(len(pairs)))
        weights = rng.random(len(pairs)) if rng.random() < 0.3 else None
        if rng.random() < 0.25:
            return Problem(BoundedDistances(pairs, 0.5 * squared, squared, n, weights)), rank
        return Problem(Distances(pairs, squared, n, weights)), rank
    M = random_matrix(rng, n)
    size = float(np.abs(M).max()) or 1.0
    weight = math.sqrt(size) * size * 10.0 ** rng.uniform(-3, 0)
    penalties = [Zero(), Nonnegative(), Nonnegative(), L1(weight), NonnegativeL1(weight), L0(size * size),
                 Ridge(size * 0.1), NonnegativeRidge(size * 0.1)]  # fmt: skip
    penalty = penalties[int(rng.integers(len(penalties)))]
    form = sp.csr_array(M) if rng.random() < 0.4 else M.astype(np.float32) if size < 1e15 and rng.random() < 0.2 else M
    return Problem(LeastSquares(form), penalty), rank


def faults_of(problem, result):
    """Return what is invalid in a result: nothing, as it should be."""
    found = []
    X = result.X
    if not np.isfinite(X).all():
        found.append("X is not finite")
    if problem.penalty.nonnegative and (X < 0).any():
        found.append("X is negative")
    if result.status not in set(Status) or result.success != (result.status == "converged") or not result.message:
        found.append("status")
    if len(result.history) != result.n_iter + 1 or result.n_products < 0:
        found.append("history")
    first = result.history.objective[0]
    worse = math.isfinite(first) and not result.objective <= first * (1 + 1e-6)
    if worse and result.status != "converged":  # the best point so far is no worse than the start
        found.append(f"objective {result.objective} above the start's {first}")
    if result.success and not X.any() and problem.loss.gradient_norm_at_zero > 0:
        from quartic.core.stopping import objective_falls_from_zero

        if objective_falls_from_zero(problem.in_good_units()[0]):
            found.append("converged at zero, a saddle")
    if result.success and not math.isfinite(result.stationarity):
        found.append("converged without stationarity")
    return found


def run_all(seeds):
    """Return how the runs ended, and every fault."""
    ends, faults = Counter(), []
    for seed in seeds:
        problem, rank = random_problem(seed)
        for name in SOLVERS:
            if why_not(SOLVERS[name](), problem) is not None:
                continue
            result = minimize(problem, rank=rank, solver=name, tol=1e-5, max_iter=300, max_time=20, random_state=seed)
            ends[str(result.status)] += 1
            faults += [f"seed {seed}, {name}: {fault}" for fault in faults_of(problem, result)]
    return ends, faults


def test_twenty_random_problems():
    ends, faults = run_all(range(20))
    assert faults == []
    assert sum(ends.values()) > 60


@pytest.mark.slow
def test_two_hundred_random_problems():
    ends, faults = run_all(range(200))
    assert faults == []
    assert ends["converged"] > 0.5 * sum(ends.values())
