"""A planted graph, r = 32, on one core and on more: ``python benchmarks/cores.py [NODES] [THREADS …]``.

For each number of threads: the least wall-clock seconds of two fits, made in turn after one that compiles, how many
times as fast as on the first number, products, and a checksum of X, the same on any number of threads.
"""

import sys
import time
import zlib

from quartic import Problem, minimize
from quartic.arrays.threads import limited_to
from quartic.datasets import planted_graph
from quartic.init import random_start, spectral_start
from quartic.losses import LeastSquares
from quartic.penalties import Nonnegative

nodes, *threads = [int(word) for word in sys.argv[1:]] or [1_000_000, 1, 2]
problem = Problem(LeastSquares(planted_graph(nodes, 32, random_state=0)[0]), Nonnegative())
seconds: dict[int, float] = {}
for used in (threads[-1], *threads, *threads):
    began = time.perf_counter()
    with limited_to(used):
        result = minimize(problem, spectral_start, rank=32, reference=random_start, tol=1e-3, random_state=0)
    s = seconds[used] = min(time.perf_counter() - began, seconds.get(used, 1e9))
    print(f"{used} threads: {s:.3g} s, {result.n_products} products, X {zlib.crc32(result.X.tobytes())}", flush=True)
print(*(f"{used} threads: {seconds[threads[0]] / seconds[used]:.2f} times as fast" for used in threads), sep="\n")
