"""What the hand-written vectors of `quartic.compiled.vectors` gain over plain numba, on whole iterations.

    python benchmarks/vectors.py [--results results]

Processes take turns. One is as it is; in the others a part is replaced by the same loops in plain numba, compiled into
a cache of their own. Each makes iterations on TDT2 (``inertial``) or on the paper's helix (``lbfgs``) from one start,
on one thread. Processor seconds, the least of all; the numbers are how many times as long plain numba takes.
"""

import sys
import tempfile
import time
from functools import partial

import numpy as np
from side_by_side import in_process

GRAPH, PAIRS = ("sparse product", "blocks of rows"), ("rows of pairs", "asking ahead")
CASES = {f"TDT2, r = {rank}": GRAPH for rank in (10, 20, 40)}
CASES |= {f"helix of {n:,} points, r = {rank}": PAIRS for n, rank in ((5000, 3), (5000, 8), (200_000, 3))}
ROUNDS, REPEATS, ITERATIONS = 4, 5, 20


def replace(part: str) -> None:
    """Put loops of plain numba in place of a part, before what uses it is imported."""
    from quartic.compiled import vectors
    from quartic.compiled.flags import FLAGS, njit

    @njit(**FLAGS)
    def sparse_row(lanes, cols, values, X, Y, i, first, last):
        y = Y[i]
        y[:] = 0
        for p in range(first, last):
            value, x = values[p], X[np.uint64(cols[p])]
            for k in range(len(lanes)):
                y[k] += value * x[k]

    @njit(**FLAGS)
    def block_times_small(rows, Y, A, W):
        for i in range(rows):
            w = W[i]
            w[:] = 0
            for k in range(len(w)):
                for c in range(len(w)):
                    w[c] += Y[i, k] * A[k, c]

    @njit(**FLAGS)
    def add_upper_gram(rows, Y, S):
        for i in range(rows):
            y = Y[i]
            for k in range(len(y)):
                for c in range(len(y)):
                    S[k, c] += np.float64(y[k]) * np.float64(y[c])

    @njit(**FLAGS)
    def pair_rows(mode, kind, lanes, tiles, two, W, at, far, first, last, start, cols, target, upper, weight):
        """The values (mode 0) and lines of squared distances without weights, the sums of a row in an array."""
        width, line = len(lanes), len(mode) > 0
        sums, n1, n2, n3, n4 = np.zeros((3, width)), 0.0, 0.0, 0.0, 0.0
        for i in range(first, last):
            sums[:] = 0.0
            x, d = W[i, at : at + width], W[i, at + width : at + 2 * width]
            for p in range(np.uint64(start[i]), np.uint64(start[i + 1])):
                if far:
                    ask_ahead(W, cols, p)
                other = W[np.uint64(cols[p])]
                q, b, c = 0.0, 0.0, 0.0
                for k in range(width):
                    u = x[k] - other[at + k]
                    q += u * u
                    if line:
                        v = d[k] - other[at + width + k]
                        b, c = b + 2 * u * v, c + v * v
                e = q - np.float64(target[p])
                n1, n2, n3, n4 = n1 + e * (b if line else e), n2 + 0.5 * b * b + e * c, n3 + b * c, n4 + 0.5 * c * c
                for k in range(width):
                    u = x[k] - other[at + k]
                    g = 2 * e * u
                    if line:
                        v = d[k] - other[at + width + k]
                        g, g2, g3 = 2 * (e * v + b * u), 2 * (b * v + c * u), 2 * c * v
                        sums[1, k], sums[2, k] = sums[1, k] + g2, sums[2, k] + g3
                        other[width + k] -= g2
                        other[2 * width + k] -= g3
                    sums[0, k] += g
                    other[k] -= g
            for h in range(3 if line else 1):
                for k in range(width):
                    W[i, h * width + k] += sums[h, k]
        return n1, n2, n3, n4

    if part == "sparse product":
        vectors.sparse_row = sparse_row
    elif part == "blocks of rows":
        from quartic.losses.factor import numba

        numba.block_times_small, numba.add_upper_gram = block_times_small, add_upper_gram
    elif part == "asking ahead":
        vectors.prefetch = njit(**FLAGS)(lambda A, i, at: None)
    elif part:
        from quartic.losses.pairs import numba

        ask_ahead, numba.pair_rows = numba.ask_ahead, pair_rows


def run(case: str) -> float:
    """Return the least processor seconds of some iterations on a case."""
    from quartic import Problem, datasets, minimize
    from quartic.losses import Distances, LeastSquares
    from quartic.penalties import Nonnegative

    rank = int(case.rpartition(" ")[2])
    if case.startswith("TDT2"):
        problem, solver = Problem(LeastSquares(datasets.load_similarity("tdt2").matrix), Nonnegative()), "inertial"
    else:
        n, solver = int(case.split()[2].replace(",", "")), "lbfgs"
        pairs = datasets.random_pairs(n, 100 / n if n < 10_000 else 20 / n, random_state=1)
        squares = datasets.pair_distances(datasets.helix(n, random_state=0), pairs) ** 2
        problem = Problem(Distances(pairs, squares, n_points=n))
    X = problem.loss.random_start(rank, problem.penalty.nonnegative, np.random.default_rng(0))
    times = [time.process_time()]
    for _ in range(REPEATS):
        minimize(problem, X, solver=solver, tol=0.0, max_iter=ITERATIONS)
        times.append(time.process_time())
    return np.diff(times).min()


def measure(case: str, parts: tuple[str, ...]):
    """Measure a case as it is and with each part replaced, in turn."""
    least = dict.fromkeys(("", *parts), np.inf)
    with tempfile.TemporaryDirectory() as folder:
        for part in ("", *parts) * ROUNDS:
            seconds = in_process(__file__, "run", part, case, NUMBA_CACHE_DIR=f"{folder}/{part or 'ours'}")
            least[part] = min(seconds, least[part])
    return [(case, part, "plain / ours", least[part] / least[""]) for part in parts]


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        replace(sys.argv[2])
        print(run(sys.argv[3]))
    else:
        from quartic.bench.numbers import run_script

        run_script("vectors", {case: partial(measure, case, parts) for case, parts in CASES.items()})
