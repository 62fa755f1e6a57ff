"""Is a change of the code faster? Two checkouts, run side by side in fresh processes that take turns.

    python benchmarks/side_by_side.py OLD/src NEW/src
    python benchmarks/side_by_side.py OLD/src NEW/src symnmf:tdt2:10:SymNMF edmc:2000:0.1:lm --rounds 5

A is the older checkout, B the newer. For each row the processes run A, B, A, B, …, on one thread each; a process makes
the row's data, runs the job briefly to load compiled code, and measures it from two starts. Only public names of the
library are used, so that commits far apart can be compared. Rows are chosen by how they begin:

symnmf:DATA:RANK:METHOD    ε = 1e-3: SymNMF as a user calls it, or a solver from the paper's random start;
                           DATA is a data set, or series-N, dense correlations of N series in 50 groups
gpu:NODES:RANK:METHOD      a planted graph in float32 on a GPU, 30 iterations of a solver; wants torch
edmc:POINTS:SHARE:METHOD   the paper's helix: a solver to a gradient of 1e-8 of the start's, or the estimator

Least processor seconds over the rounds, B/A, products, objective; last the geometric mean of B/A. What compiling takes
is measured by ``first_fits.py``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

SHORT = 0.3  # seconds for which a short job is repeated within a process
STARTS = 100, 101
ROWS = [
    *(f"symnmf:{data}:{rank}:{method}" for data in ("coil20", "cbcl", "tdt2", "reuters") for rank in (10, 20, 30, 40)
      for method in ("SymNMF", "inertial", "dyn-nolips")),
    "symnmf:series-2000:20:SymNMF", "symnmf:series-2000:50:SymNMF",
    *(f"gpu:{n}:32:{method}" for n in (20_000, 1_000_000)
      for method in ("inertial", "dyn-nolips", "lbfgs", "hals", "pg", "auto")),
    *(f"edmc:{n}:{share}:{method}" for n in (400, 2000, 5000) for share in (0.1, 0.05)
      for method in ("auto", "lm", "lbfgs", "fit_pairs", "fit_pairs-noise")),
]  # fmt: skip


def in_process(script: str, *words: str, **env: str):
    """Return what a script prints as JSON in a new process on one thread; its last words where it fails."""
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    command = [sys.executable, script, *words]
    done = subprocess.run(command, env={**os.environ, **threads, **env}, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError((done.stderr.strip() or "no message").splitlines()[-1])
    return json.loads(done.stdout.splitlines()[-1])


def correlations(n: int):
    """Return a dense matrix with one eigenvalue far above the fifty that matter, and noise."""
    import numpy as np

    rng = np.random.default_rng(0)
    W = rng.random((n, 50)) ** 4
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    noise = 0.29 * rng.random((n, n))
    return W @ W.T + (noise + noise.T) / 2


def job_of(kind: str, data: str, size: str, method: str):
    """Return a job, called with seed and number of iterations: the words are those of a row."""
    import numpy as np

    from quartic import DistanceCompletion, Problem, SymNMF, datasets, minimize
    from quartic.losses import Distances, LeastSquares
    from quartic.penalties import Nonnegative

    if kind == "symnmf":
        rank = int(size)
        M = correlations(int(data[7:])) if data.startswith("series-") else datasets.load_similarity(data).matrix

        def factorise(seed: int, max_iter: int):
            if method == "SymNMF":
                return SymNMF(rank, max_iter=max_iter, random_state=seed).fit(M).result_
            start = 2 * np.random.default_rng(seed).uniform(1e-5, (M.mean() / rank) ** 0.5, (M.shape[0], rank))
            return minimize(Problem(LeastSquares(M), Nonnegative()), start, solver=method, tol=1e-3, max_iter=max_iter)

        return factorise
    if kind == "gpu":
        import torch

        device = "cuda" if torch.cuda.is_available() else "cpu"
        graph, rank = datasets.planted_graph(int(data), 2 * int(size), random_state=0)[0], int(size)
        parts = (torch.as_tensor(A) for A in (graph.indptr, graph.indices, graph.data.astype(np.float32)))
        M = torch.sparse_csr_tensor(*parts, graph.shape).to(device)

        def iterate(seed: int, max_iter: int):
            X0 = torch.as_tensor(0.01 * np.random.default_rng(seed).random((len(M), rank), np.float32)).to(device)
            problem = Problem(LeastSquares(M), Nonnegative())
            return minimize(problem, X0, solver=method, tol=0.0, max_iter=min(max_iter, 30))

        return iterate
    n = int(data)
    pairs = datasets.random_pairs(n, float(size), random_state=1)
    d = datasets.pair_distances(datasets.helix(n, random_state=0), pairs)
    if method == "fit_pairs-noise":
        d = d * np.abs(1 + 0.05 * np.random.default_rng(2).standard_normal(len(d)))

    def locate(seed: int, max_iter: int):
        if method.startswith("fit_pairs"):
            return DistanceCompletion(3, max_iter=max_iter, random_state=seed).fit_pairs(pairs, d, n_points=n).result_
        problem = Problem(Distances(pairs, d**2, n_points=n))
        return minimize(problem, rank=3, solver=method, tol=1e-8, max_iter=max_iter, random_state=seed)

    return locate


def measure(row: str) -> dict[str, float]:
    """Return mean seconds over the starts, and products and objective of the runs."""
    warnings.simplefilter("ignore")  # the short runs that load compiled code do not converge
    job = job_of(*row.split(":"))
    job(STARTS[0], 3)
    found = []
    for seed in STARTS:
        times, began = [], time.perf_counter()
        while not times or time.perf_counter() - began < SHORT:
            clock = time.process_time()
            result = job(seed, 100_000)
            times.append(time.process_time() - clock)
        found.append((min(times), result.n_products, float(result.objective), bool(result.success)))
    means = map(statistics.fmean, zip(*found, strict=True))
    return dict(zip(("s", "products", "objective", "success"), means, strict=True))


def compare(row: str, sources: dict[str, Path], rounds: int, caches: str) -> float:
    """Run both checkouts in turn, print the row, and return B/A."""
    runs: dict[str, list[dict]] = {"A": [], "B": []}
    for side in ("A", "B") * rounds:
        cache = f"{caches}/{side}"
        where = {"PYTHONPATH": str(sources[side]), "NUMBA_CACHE_DIR": cache, "PYTHONPYCACHEPREFIX": cache}
        runs[side].append(in_process(__file__, "measure", row, **where))
    (a, b), (first, last) = ([min(run["s"] for run in mine) for mine in runs.values()], [r[-1] for r in runs.values()])
    change = (last["objective"] - first["objective"]) / max(abs(first["objective"]), 1e-300)
    missed = "".join(f"; {side} did not converge" for side in "AB" if runs[side][-1]["success"] < 1)
    products = f"products {first['products']:.4g}, {last['products']:.4g}"
    print(f"{row:36}{a:10.4g}{b:10.4g}{b / a:8.3f}   {products}; objective {change:+.1e}{missed}", flush=True)
    return b / a


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("a", type=Path, help="src folder of the older checkout")
    parser.add_argument("b", type=Path, help="src folder of the newer checkout")
    parser.add_argument("rows", nargs="*", help="how the rows to run begin; all but gpu when left out")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    for source in (asked.a, asked.b):
        if not (source / "quartic" / "__init__.py").is_file():
            parser.error(f"{source} has no quartic/__init__.py: give the src folders of two checkouts")
    groups: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for row in (row for row in ROWS if row.startswith(tuple(asked.rows or ["symnmf", "edmc"]))):
            try:
                ratio = compare(row, {"A": asked.a.resolve(), "B": asked.b.resolve()}, asked.rounds, folder)
                groups.setdefault(f"{row.split(':')[0]} {row.split(':')[-1]}", []).append(ratio)
            except RuntimeError as error:
                print(f"{row:36}{error}", flush=True)
    for name, ratios in groups.items():
        print(f"{name:36}geometric mean of B/A {statistics.geometric_mean(ratios):.3f} ({len(ratios)} rows)")
    return 0 if groups else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        print(json.dumps(measure(sys.argv[2])))
    else:
        raise SystemExit(main())
