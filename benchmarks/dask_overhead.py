"""What Dask costs: iterations on two workers against one process with two threads, all on this machine, in turns.

python benchmarks/dask_overhead.py [--results results]
"""

from __future__ import annotations

import logging
import statistics
from functools import partial

import dask
import numpy as np
from distributed import Client, LocalCluster

from quartic import Problem, minimize
from quartic.bench.numbers import record, run_script
from quartic.datasets import planted_graph
from quartic.distributed import in_blocks
from quartic.losses import DaskMatrix, LeastSquares
from quartic.penalties import Nonnegative

WORKERS, REPEATS, RANK = 2, 3, 20


def measure(n, per_row):
    local = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": logging.CRITICAL}
    # neighbours are drawn from all nodes, the worst case for the cache
    M = planted_graph(n, 1, per_row // 2, p_within=1.0, random_state=0)[0]
    X = 0.1 * np.random.default_rng(1).random((n, RANK))
    with LocalCluster(n_workers=WORKERS, threads_per_worker=1, **local) as cluster, Client(cluster) as client:
        pieces = in_blocks(M, 2 * WORKERS)
        with dask.config.set(num_workers=WORKERS):
            here = LeastSquares(DaskMatrix(pieces, client=False, keep=True))
        there = LeastSquares(DaskMatrix(pieces, client=client))
        times: dict[LeastSquares, list[float]] = {here: [], there: []}
        for loss in (here, there) * REPEATS:
            result = minimize(Problem(loss, Nonnegative()), X, solver="inertial", tol=0, max_iter=3)
            times[loss] += np.diff(result.history.time).tolist()
    one, several = statistics.median(times[here]), statistics.median(times[there])
    facts = {"iteration, 1 process": one, "iteration, Dask": several, "ratio": several / one}
    return record(f"n = {n:,}, {per_row} entries a row, r = {RANK}", **facts)


CASES = {f"{n}:{per_row}": partial(measure, n, per_row)
         for n, per_row in ((20_000, 20), (200_000, 20), (200_000, 100))}  # fmt: skip

if __name__ == "__main__":
    run_script("dask", CASES)
