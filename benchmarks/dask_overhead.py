"""What Dask costs: iterations on two workers against one process with two threads, all on this machine, in turns.

python benchmarks/dask_overhead.py [--results results]
"""

from __future__ import annotations

import logging
import os
import statistics
from functools import partial

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import dask
import numpy as np
import scipy.sparse as sp
from distributed import Client, LocalCluster

from quartic import Problem, minimize
from quartic.bench.harness import in_turns
from quartic.bench.numbers import run_script
from quartic.distributed import in_blocks
from quartic.losses import DaskMatrix, LeastSquares
from quartic.penalties import Nonnegative

WORKERS = 2


def graph(n: int, per_row: int, seed: int = 0) -> sp.csr_array:
    """Return a random symmetric matrix with about ``per_row`` entries a row, the worst case for the cache."""
    rng = np.random.default_rng(seed)
    half = per_row // 2
    rows = np.repeat(np.arange(n, dtype=np.int32), half)
    A = sp.csr_array((rng.random(n * half), (rows, rng.integers(0, n, n * half, dtype=np.int32))), shape=(n, n))
    return sp.csr_array(A + A.T)


def iterate(loss: LeastSquares, X: np.ndarray) -> list[float]:
    """Return the seconds of three iterations of the inertial method."""
    result = minimize(Problem(loss, Nonnegative()), X, solver="inertial", tol=0, max_iter=3)
    return np.diff(result.history.time).tolist()


def measure(n, per_row, rank, repeats=3):
    local = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": logging.CRITICAL}
    with LocalCluster(n_workers=WORKERS, threads_per_worker=1, **local) as cluster, Client(cluster) as client:
        M = graph(n, per_row)
        X = 0.1 * np.random.default_rng(1).random((n, rank))
        pieces = in_blocks(M, 2 * WORKERS)
        there = LeastSquares(DaskMatrix(pieces, client=client))
        with dask.config.set(num_workers=WORKERS):
            here = LeastSquares(DaskMatrix(pieces, client=False, keep=True))
        jobs = {
            "product, 1 thread": lambda: M @ X,
            "product, 2 threads": lambda: here.product(X),
            "product, Dask": lambda: there.product(X),
        }
        found = {name: statistics.median(times) for name, times in in_turns(jobs, WORKERS, repeats).items()}
        turns = [(iterate(here, X), iterate(there, X)) for _ in range(repeats)]
    one, several = (statistics.median(s for turn in turns for s in turn[side]) for side in (0, 1))
    found |= {"iteration, 1 process": one, "iteration, Dask": several, "ratio": several / one}
    return [(f"n = {n:,}, {M.nnz:,} entries, r = {rank}", "", *each) for each in found.items()]


CASES = {f"{n}:{per_row}": partial(measure, n, per_row, 20)
         for n, per_row in ((20_000, 20), (200_000, 20), (200_000, 100))}  # fmt: skip

if __name__ == "__main__":
    run_script("dask", CASES)
