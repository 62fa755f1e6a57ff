"""What was tried to break it: ``python benchmarks/trust.py [--minutes 60]`` fills the section ``trust`` of the results.

Read from ``results/trust``: ``fuzz.json`` of ``make fuzz``, ``killed.json`` of ``tests/faults/killed_runs.py`` and
``random_problems.json`` of ``pytest -m slow tests/test_random_problems.py``, what there is of them. With ``--minutes``
it first runs every solver and both estimators in a loop, on small problems that change from round to round, and fails
where memory grew: where the mean of the last quarter is more than 2 % (and 8 MiB) above that of the second, the first
being the time in which code is compiled and caches fill.
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
from quartic.bench.harness import Store
from quartic.bench.numbers import measure_cases
from quartic.losses import Distances, LeastSquares
from quartic.penalties import Nonnegative
from quartic.solvers import SOLVERS


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


def haul(minutes):
    """Return fits and the resident memory in the second and the last quarter of so many minutes of fits."""
    warnings.simplefilter("ignore")  # runs cut off after a few iterations say so
    memory, fits, started = [], 0, time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        while time.perf_counter() - started < 60 * minutes:
            fits += fit_all(len(memory), folder)
            gc.collect()
            memory.append(resident_mib())
    quarter = max(1, len(memory) // 4)
    second, last = np.mean(memory[quarter : 2 * quarter]), np.mean(memory[-quarter:])
    return {"fits": fits, "minutes": minutes, "MiB, second quarter": second, "MiB, last quarter": last}


def summaries(folder):
    """Yield what the other runs left, in numbers."""
    found = {path.stem: json.loads(path.read_text()) for path in Path(folder).glob("*.json")}
    if rows := found.get("fuzz"):
        total = {name: sum(row[name] for row in rows) for name in ("tried", "read", "refused")}
        yield "spoiled files", {**total, "formats": len(rows), "other ends": sum(len(row["faults"]) for row in rows)}
    if rows := found.get("killed"):
        kills = {name: sum(row[name] for row in rows) for name in ("kills", "within a write")}
        yield "killed runs", {**kills, "runs": len(rows), "resumed bit for bit": sum(row["same"] for row in rows)}
    if told := found.get("random_problems"):
        counts = {"problems": told["problems"], "runs": told["runs"], "invalid": len(told["faults"])}
        yield "random problems", {**counts, **told["ends"]}
    if told := found.get("long_haul"):
        yield "hour of fits", told


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--results", type=Path, default=Path("results"))
    options = parser.parse_args()
    folder = options.results / "trust"
    folder.mkdir(parents=True, exist_ok=True)
    told = haul(options.minutes) if options.minutes else {}
    if told:
        (folder / "long_haul.json").write_text(json.dumps(told) + "\n")
    numbers = [(case, "", name, float(v)) for case, row in summaries(folder) for name, v in row.items()]
    Store(options.results, "trust").path.unlink(missing_ok=True)
    print(measure_cases(options.results, "trust", {"all": lambda: numbers}, print, command="make trust").path)
    second, last = told.get("MiB, second quarter", 0), told.get("MiB, last quarter", 0)
    sys.exit(bool(last > max(1.02 * second, second + 8)))


if __name__ == "__main__":
    main()
