"""What was tried to break it: ``python benchmarks/trust.py [CASE …] [--results results]``.

Ten thousand spoiled files of each format, runs of each solver killed fifty times and resumed, two hundred random
problems, and fits in one process for ``QUARTIC_MINUTES`` (5 if not said): every solver and both estimators on small
problems that change from round to round. That fails where memory grew: where the mean of the last quarter is more than
2 % (and 8 MiB) above that of the second, the first being the time in which code is compiled and caches fill.
"""

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
TESTS = Path(__file__).resolve().parent.parent / "tests"

sys.path.insert(0, str(TESTS))

import numpy as np
import scipy.sparse as sp

from fuzzing.mutations import FORMATS
from quartic import DistanceCompletion, Problem, SymNMF, minimize
from quartic.bench.numbers import run_script, told
from quartic.losses import Distances, LeastSquares
from quartic.penalties import Nonnegative
from quartic.solvers import SOLVERS

MINUTES = float(os.environ.get("QUARTIC_MINUTES", 5))


def answer_of(script: str, *words: str):
    """Return what a program of the tests prints as JSON."""
    done = subprocess.run([sys.executable, str(TESTS / script), *words], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def spoil(name: str):
    row = answer_of("fuzzing/harness.py", "--format", name, "--count", "10000")
    facts = {what: row[what] for what in ("tried", "read", "refused")}
    return told(f"spoiled files, {name}", **facts, other_ends=len(row["faults"]), slowest_s=row["slowest"])


def kill(solver: str):
    with tempfile.TemporaryDirectory() as folder:
        (row,) = answer_of("faults/killed_runs.py", folder, "50", "0", solver)
    facts = {"kills": row["kills"], "within a write": row["within a write"], "resumed bit for bit": row["same"]}
    return told("killed runs", solver, **facts)


def draw_problems():
    from test_random_problems import run_all

    ends, faults = run_all(range(200))
    return told("random problems", problems=200, runs=sum(ends.values()), invalid=len(faults), **ends)


def resident_mib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def fit_all(k, folder):
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
            path = Path(folder) / "run.npz" if fits % 5 == 0 else None
            try:
                result = minimize(problem, rank=3, solver=name, max_iter=15, random_state=k, checkpoint=path)
            except (TypeError, ValueError):  # the solver does not fit the problem
                continue
            assert np.isfinite(result.X).all()
            fits += 1
            if path is not None:
                path.unlink()
    SymNMF(3, random_state=k, max_iter=30).fit(A)
    DistanceCompletion(3, random_state=k, max_iter=30).fit_pairs(pairs, np.sqrt(squared), n_points=n)
    return fits + 2


def go_on():
    """Count fits, and compare the resident memory in the second and the last quarter of so many minutes of them."""
    warnings.simplefilter("ignore")  # runs cut off after a few iterations say so
    memory, fits, started = [], 0, time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        while time.perf_counter() - started < 60 * MINUTES:
            fits += fit_all(len(memory), folder)
            gc.collect()
            memory.append(resident_mib())
    quarter = max(1, len(memory) // 4)
    second, last = np.mean(memory[quarter : 2 * quarter]), np.mean(memory[-quarter:])
    assert last <= max(1.02 * second, second + 8), f"memory grew from {second:.0f} to {last:.0f} MiB"
    facts = {"MiB, second quarter": second, "MiB, last quarter": last}
    return told("fits in one process", fits=fits, minutes=MINUTES, **facts)


CASES = {**{f"spoiled {name}": partial(spoil, name) for name in FORMATS},
         **{f"killed {solver}": partial(kill, solver) for solver in SOLVERS},
         "random problems": draw_problems, "fits": go_on}  # fmt: skip

if __name__ == "__main__":
    run_script("trust", CASES)
