"""Fits in one process for minutes (``QUARTIC_MINUTES``): memory does not grow."""

import gc
import os
import time
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from quartic import DistanceCompletion, Problem, SymNMF, minimize
from quartic.losses import Distances, LeastSquares
from quartic.penalties import Nonnegative
from quartic.solvers import SOLVERS


def fit_all(k, path):
    """Run everything once; the sizes change, so that nothing fits into the last round's holes by luck."""
    rng = np.random.default_rng(k)
    n = int(rng.integers(40, 200))
    A = rng.random((n, n))
    A = (A + A.T) * (A + A.T > 1.2)
    X = rng.standard_normal((n, 3))
    pairs = np.array(np.triu_indices(n, 1)).T
    pairs = pairs[rng.random(len(pairs)) < 0.4]
    squared = ((X[pairs[:, 0]] - X[pairs[:, 1]]) ** 2).sum(axis=1)
    factor = [Problem(LeastSquares(M), penalty) for M in (A, sp.csr_array(A)) for penalty in (Nonnegative(), None)]
    fits = 0
    for problem in (*factor, Problem(Distances(pairs, squared, n))):
        for name in SOLVERS:
            kept = path if fits % 5 == 0 else None
            try:
                result = minimize(problem, rank=3, solver=name, max_iter=15, random_state=k, checkpoint=kept)
            except (TypeError, ValueError):  # the solver does not fit the problem
                continue
            assert np.isfinite(result.X).all()
            fits += 1
            if kept is not None:
                kept.unlink()
    SymNMF(3, random_state=k, max_iter=30).fit(A)
    DistanceCompletion(3, random_state=k, max_iter=30).fit_pairs(pairs, np.sqrt(squared), n_points=n)


def resident_mib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="resident memory is read from /proc")
def test_memory_does_not_grow(tmp_path):
    """By at most 2 % (and 8 MiB) from the second quarter to the last: in the first code is compiled and caches fill."""
    memory, started = [], time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # runs cut off after a few iterations say so
        while len(memory) < 8 or time.perf_counter() - started < 60 * float(os.environ.get("QUARTIC_MINUTES", 3)):
            fit_all(len(memory), tmp_path / "run.npz")
            gc.collect()
            memory.append(resident_mib())
    quarter = len(memory) // 4
    second, last = np.mean(memory[quarter : 2 * quarter]), np.mean(memory[-quarter:])
    assert last <= max(1.02 * second, second + 8), f"memory grew from {second:.0f} to {last:.0f} MiB"
