"""Planted graphs of 10⁴ to 10⁶ nodes, r = 32, on one core and on many: ``python benchmarks/cores.py 1 12``.

A line of JSON for each size and number of threads: the least and the first of the wall-clock seconds of some fits,
taken in turn after others that have everything compiled, and the least of processor seconds; how many times as fast as
on the first number of threads, the exponent of growth since the first size, and a checksum of X, which is the same on
any number of threads.
"""

import json
import math
import os
import sys
import time
import zlib

from quartic import Problem, minimize
from quartic.arrays.threads import limited_to
from quartic.datasets import planted_graph
from quartic.init import random_start, spectral_start
from quartic.losses import LeastSquares
from quartic.penalties import Nonnegative

RANK, ROUNDS = 32, 2
# The second of those that only compile is large enough to be treated as large ones are.
WARM, SIZES = (5_000, 110_000), (10_000, 100_000, 1_000_000)


def fit(problem: Problem, threads: int) -> tuple[float, float, int, int]:
    """Return seconds on the wall and of all processors, products, and a checksum of X."""
    began, used = time.perf_counter(), time.process_time()
    with limited_to(threads):
        result = minimize(problem, spectral_start, rank=RANK, reference=random_start, tol=1e-3, random_state=0)
    seconds = time.perf_counter() - began, time.process_time() - used
    return *seconds, result.n_products, zlib.crc32(result.X.tobytes())


if __name__ == "__main__":
    counts = [int(count) for count in sys.argv[1:]] or [1, os.cpu_count() or 1]
    least: dict[tuple[int, int], float] = {}
    for n in (*WARM, *SIZES):
        problem = Problem(LeastSquares(planted_graph(n, RANK, random_state=0)[0]), Nonnegative())
        if n in WARM:
            fit(problem, max(counts))
            continue
        rounds = [[fit(problem, threads) for threads in counts] for _ in range(ROUNDS)]
        for k, threads in enumerate(counts):
            walls, processor, products, sums = zip(*(runs[k] for runs in rounds), strict=True)
            seconds = least[n, threads] = min(walls)
            growth = math.log(seconds / least[SIZES[0], threads]) / math.log(n / SIZES[0]) if n > SIZES[0] else None
            told = {"nodes": n, "threads": threads, "seconds": seconds, "first": walls[0], "processor": min(processor)}
            told |= {"times as fast": least[n, counts[0]] / seconds, "exponent": growth, "products": products[0]}
            print(json.dumps(told | {"X": sorted(set(sums))}), flush=True)
