"""Planted graphs of 10⁴ to 10⁶ nodes, r = 32, on one core and on many: seconds of a fit, the speed-up, the exponent.

    python benchmarks/cores.py --threads 1 12

Every fit runs in a process of its own, after a small one that has everything compiled. Seconds are those on the wall,
without the making of the graph.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import time


def fit(n: int, rank: int) -> dict[str, float]:
    """Fit once, and tell the seconds of start and solver apart."""
    from quartic import Problem, minimize
    from quartic.datasets import planted_graph
    from quartic.init import random_start, spectral_start
    from quartic.losses import LeastSquares
    from quartic.metrics import clustering_accuracy
    from quartic.penalties import Nonnegative

    for size in (5_000, n):
        M, labels = planted_graph(size, rank, random_state=0)
        began, start = time.perf_counter(), []

        def timed(*args, begun=began, start=start):
            X = spectral_start(*args)
            start.append(time.perf_counter() - begun)
            return X

        problem = Problem(LeastSquares(M), Nonnegative())
        result = minimize(problem, timed, rank=rank, reference=random_start, tol=1e-3, random_state=0)
        seconds = time.perf_counter() - began
    accuracy = clustering_accuracy(labels, result.X.argmax(axis=1))
    return {"seconds": seconds, "start": start[0], "products": result.n_products, "accuracy": accuracy}


def main() -> None:
    """Run all sizes and numbers of threads, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=(10_000, 30_000, 100_000, 300_000, 1_000_000))
    parser.add_argument("--threads", type=int, nargs="+", default=[1, os.cpu_count() or 1])
    parser.add_argument("--rank", type=int, default=32)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(fit(given.one, given.rank)))
        return
    one: dict[int, float] = {}
    for threads in given.threads:
        names, took = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), []
        for n in given.sizes:
            command = [sys.executable, __file__, "--one", str(n), "--rank", str(given.rank)]
            environment = {**os.environ, **dict.fromkeys(names, str(threads))}
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            found = json.loads(done.stdout.splitlines()[-1])
            took.append(found["seconds"])
            told = ", ".join(f"{name} {value:.4g}" for name, value in found.items())
            gain = one.setdefault(n, took[-1]) / took[-1]
            print(f"{n:>9,} nodes, {threads:>2} threads: {told}; {gain:.2f} times as fast", flush=True)
        if len(took) > 1:
            power = math.log(took[-1] / took[0]) / math.log(given.sizes[-1] / given.sizes[0])
            print(f"{threads} threads: exponent from {given.sizes[0]:,} to {given.sizes[-1]:,}: {power:.3f}")


if __name__ == "__main__":
    main()
