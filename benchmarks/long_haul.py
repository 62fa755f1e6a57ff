"""Fits in a loop, in one process, for an hour: is memory flat?

``python benchmarks/long_haul.py --minutes 60`` runs every solver and both estimators on small problems that change from
round to round, with checkpoints, and notes the resident memory after each round. It writes ``trust/long_haul.json`` and
a plot, and fails where memory grew: where the mean of the last quarter is more than 2 % (and 8 MiB) above that of the
second, the first being the time in which code is compiled and caches fill.
"""

import argparse
import gc
import json
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import scipy.sparse as sp

from quartic import DistanceCompletion, Problem, SymNMF, minimize
from quartic.losses import Distances, LeastSquares
from quartic.penalties import Nonnegative
from quartic.solvers import SOLVERS
from quartic.solvers.registry import why_not

FOLDER = Path(__file__).parent / "trust"


def resident_mib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def one_round(k, folder):
    """Run everything once; the sizes change, so that nothing fits into the last round's holes by luck."""
    rng = np.random.default_rng(k)
    n = int(rng.integers(40, 200))
    A = rng.random((n, n))
    A = (A + A.T) * (A + A.T > 1.2)
    X = rng.standard_normal((n, 3))
    pairs = np.array(np.triu_indices(n, 1)).T
    pairs = pairs[rng.random(len(pairs)) < 0.4]
    squared = ((X[pairs[:, 0]] - X[pairs[:, 1]]) ** 2).sum(axis=1)
    fits = 0
    for M in (A, sp.csr_array(A)):
        for problem in (
            Problem(LeastSquares(M), Nonnegative()),
            Problem(LeastSquares(M)),
            Problem(Distances(pairs, squared, n)),
        ):
            for name in SOLVERS:
                if why_not(SOLVERS[name](), problem) is None:
                    path = Path(folder) / f"run-{fits}.npz" if fits % 5 == 0 else None
                    result = minimize(problem, rank=3, solver=name, max_iter=15, random_state=k, checkpoint=path)
                    assert np.isfinite(result.X).all()
                    fits += 1
                    if path is not None:
                        path.unlink()
    SymNMF(3, random_state=k, max_iter=30).fit(A)
    DistanceCompletion(3, random_state=k, max_iter=30).fit_pairs(pairs, np.sqrt(squared), n_points=n)
    return fits + 2


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--out", type=Path, default=FOLDER)
    given = parser.parse_args()
    given.out.mkdir(exist_ok=True)
    warnings.simplefilter("ignore")  # runs cut off after a few iterations say so
    rows, fits, started = [], 0, time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        while (elapsed := time.perf_counter() - started) < 60 * given.minutes:
            fits += one_round(len(rows), folder)
            gc.collect()
            rows.append((round(elapsed, 2), fits, round(resident_mib(), 3)))
            if len(rows) % 10 == 0:
                _write(given.out, rows)
    _write(given.out, rows)
    _plot(given.out, rows)
    second, last = _quarters(rows)
    print(f"{fits} fits in {rows[-1][0] / 60:.1f} minutes; resident memory {second:.1f} MiB in the second quarter, "
          f"{last:.1f} MiB in the last")  # fmt: skip
    sys.exit(last > max(1.02 * second, second + 8))


def _quarters(rows):
    memory = np.array([row[2] for row in rows])
    quarter = max(1, len(memory) // 4)
    return float(memory[quarter : 2 * quarter].mean()), float(memory[-quarter:].mean())


def _write(folder, rows):
    second, last = _quarters(rows)
    told = {
        "minutes": round(rows[-1][0] / 60, 1), "rounds": len(rows), "fits": rows[-1][1],
        "second_quarter_mib": round(second, 1), "last_quarter_mib": round(last, 1), "rows": rows,
    }  # fmt: skip
    (folder / "long_haul.json").write_text(json.dumps(told) + "\n")


def _plot(folder, rows):
    """Draw the figure; only at the end, since matplotlib takes memory of its own."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        return
    time_, _, memory = np.array(rows).T
    figure, axes = plt.subplots(figsize=(7, 3))
    axes.plot(time_ / 60, memory, color="#0072B2", linewidth=1)
    axes.set(xlabel="minutes", ylabel="resident memory (MiB)", ylim=(0, 1.2 * memory.max()))
    axes.set_title(f"{rows[-1][1]} fits in one process", fontsize=10)
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(folder / "long_haul.png", dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    main()
