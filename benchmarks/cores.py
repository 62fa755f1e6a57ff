"""Planted graphs of 10⁴ to 10⁶ nodes, r = 32, on one core and on many: ``python benchmarks/cores.py 1 12``.

Seconds on the wall of each fit, in a process of its own after a small one that has everything compiled; speed-ups over
the first number of threads, and the exponent of growth.
"""

import math
import os
import subprocess
import sys
import time

SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)


def fit(n: int, rank: int = 32) -> None:
    from quartic import Problem, minimize
    from quartic.datasets import planted_graph
    from quartic.init import random_start, spectral_start
    from quartic.losses import LeastSquares
    from quartic.penalties import Nonnegative

    for size in (5_000, n):
        problem = Problem(LeastSquares(planted_graph(size, rank, random_state=0)[0]), Nonnegative())
        began = time.perf_counter()
        result = minimize(problem, spectral_start, rank=rank, reference=random_start, tol=1e-3, random_state=0)
        seconds = time.perf_counter() - began
    print(seconds, result.n_products)


if sys.argv[1:2] == ["fit"]:
    fit(int(sys.argv[2]))
else:
    once: dict[int, float] = {}
    for threads in sys.argv[1:] or ["1", str(os.cpu_count())]:
        told = dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), threads)
        took: dict[int, float] = {}
        for n in SIZES:
            command = [sys.executable, __file__, "fit", str(n)]
            done = subprocess.run(command, env={**os.environ, **told}, stdout=subprocess.PIPE, text=True, check=True)
            seconds, products = map(float, done.stdout.split())
            took[n], gain = seconds, once.setdefault(n, seconds) / seconds
            power = math.log(seconds / took[SIZES[0]]) / math.log(n / SIZES[0]) if n > SIZES[0] else math.nan
            print(f"{n:>9,} nodes, {threads} threads: {seconds:.3g} s, {products:g} products, {gain:.2f} times as "
                  f"fast; exponent {power:.3f}", flush=True)  # fmt: skip
