"""Is a change of the code faster? Two checkouts, run side by side in fresh processes that take turns.

    python benchmarks/side_by_side.py OLD/src NEW/src
    python benchmarks/side_by_side.py OLD/src NEW/src --rows symnmf --cells tdt2:10 coil20:20 --rounds 5
    python benchmarks/side_by_side.py OLD/src NEW/src --rows edmc floor cold --json rows.jsonl

A is the older checkout, B the newer. For each row the processes run A, B, A, B, …, on one thread each; a process reads
the row's data, which A made once for both, runs the job briefly to load compiled code, and then measures it. Only
public names of the library are called, so that commits far apart can be compared.

symnmf    the paper's cells, ε = 1e-3: `SymNMF` as a user calls it, the inertial method and Dyn-NoLips from the paper's
          random start. Processor time, the making of the loss and of the start included.
floor     the time of one product within a run (an iteration makes one, sometimes two), divided by that of SciPy's
          product of the same size: M X, or for distances the matrix with the pattern of the pairs times X
edmc      the paper's helix: solvers from the random start to a gradient of 1e-8 of the start's, and the estimator with
          exact distances and with 5 % noise
cold      the first fit with empty caches, compiling included; and the same in a new process with the caches filled

Printed for each row: seconds of A and B (median over the rounds, or the least), B/A, iterations, products and objective
of each, and last the geometric mean of B/A for each kind of row.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

CELLS = [f"{data}:{rank}" for data in ("coil20", "cbcl", "tdt2", "reuters") for rank in (10, 20, 30, 40)]
HELICES = ("2000:0.1", "2000:0.05", "5000:0.1", "5000:0.05")
METHODS = {
    "symnmf": ("SymNMF", "inertial", "dyn-nolips"),
    "edmc": ("auto", "lm", "lbfgs", "dyn-nolips-gram", "fit_pairs", "fit_pairs-noise"),
    "floor": ("inertial", "dyn-nolips-gram"),
    "cold": ("cluster", "locate"),
}
FLOORS = ("planted-2000:20", "planted-20000:20", "tdt2:20", "reuters:20", *HELICES[::2])
SHORT = 0.3  # seconds for which a short job is repeated within a process


# -- the process that measures ----------------------------------------------------------------------------------------


def make_data(folder: Path, name: str) -> None:
    """Write the matrix or the distances of a case to a file that both checkouts read."""
    import numpy as np
    import scipy.sparse as sp

    from quartic import datasets

    what = name.split(":")[0]
    if what.isdigit():
        n, known = int(what), float(name.split(":")[1])
        truth, pairs = datasets.helix(n, random_state=0), datasets.random_pairs(n, known, random_state=1)
        np.savez(folder / f"{name}.npz", truth=truth, pairs=pairs, distances=datasets.pair_distances(truth, pairs))
        return
    if what.startswith("planted-"):
        M = datasets.planted_graph(int(what.split("-")[1]), 20, random_state=0)[0]
    else:
        M = datasets.load_similarity(what).matrix
    sp.save_npz(folder / f"{what}.npz", sp.csr_matrix(M))


def measure(folder: Path, kind: str, case: str, method: str, seeds: list[int]) -> dict[str, Any]:
    """Return what a row needs: mean seconds over the starts, and iterations, products and objective of the runs."""
    warnings.simplefilter("ignore")  # the short runs that load compiled code do not converge
    if kind == "cold":
        return measure_first_fit(folder, method)
    job = (edmc_job if case[0].isdigit() else symnmf_job)(folder, case, method)
    if kind == "floor":
        return measure_floor(job)
    job(seeds[0], 3)
    rows = []
    for seed in seeds:
        best, began = math.inf, time.perf_counter()
        while best == math.inf or time.perf_counter() - began < SHORT:
            clock = time.process_time()
            found = job(seed, 100_000)
            best = min(best, time.process_time() - clock)
        result = found["result"]
        rows.append(
            {
                "seconds": best,
                "iterations": result.n_iter,
                "products": result.n_products,
                "objective": float(result.objective),
                "success": bool(result.success),
                **({"rmse": found["rmse"]()} if "rmse" in found else {}),
            }
        )
    return {key: statistics.fmean(row[key] for row in rows) for key in rows[0]}


def symnmf_job(folder: Path, case: str, method: str) -> Any:
    """Return a job that factorises the matrix of a cell."""
    import numpy as np
    import scipy.sparse as sp

    from quartic import Problem, SymNMF, minimize
    from quartic.losses import LeastSquares
    from quartic.penalties import Nonnegative

    data, rank = case.split(":")[0], int(case.split(":")[1])
    M = sp.load_npz(folder / f"{data}.npz")

    def start(seed: int) -> Any:  # that of the paper
        high = math.sqrt(M.mean() / rank)
        return 2 * np.random.default_rng(seed).uniform(1e-5, high, (M.shape[0], rank))

    def run(seed: int, max_iter: int, tol: float = 1e-3) -> dict[str, Any]:
        if method == "SymNMF":
            return {"result": SymNMF(rank, max_iter=max_iter, random_state=seed).fit(M).result_}
        problem = Problem(LeastSquares(M), Nonnegative())
        return {"result": minimize(problem, start(seed), solver=method, tol=tol, max_iter=max_iter)}

    run.product = (M, start(0))  # type: ignore[attr-defined]
    return run


def edmc_job(folder: Path, case: str, method: str) -> Any:
    """Return a job that locates the points of a helix."""
    import numpy as np
    import scipy.sparse as sp

    from quartic import DistanceCompletion, Problem, minimize
    from quartic.kernels import GramKernel
    from quartic.losses import Distances
    from quartic.metrics import normalized_rmse

    with np.load(folder / f"{case}.npz") as kept:
        truth, pairs, distances = kept["truth"], kept["pairs"], kept["distances"]
    if method == "fit_pairs-noise":
        distances = distances * np.abs(1 + 0.05 * np.random.default_rng(2).standard_normal(len(distances)))

    def run(seed: int, max_iter: int, tol: float = 1e-8) -> dict[str, Any]:
        if method.startswith("fit_pairs"):
            model = DistanceCompletion(3, max_iter=max_iter, random_state=seed)
            result = model.fit_pairs(pairs, distances, n_points=len(truth)).result_
            X = model.embedding_
        else:
            loss = Distances(pairs, distances**2, n_points=len(truth))
            gram = method == "dyn-nolips-gram"
            problem = Problem(loss, kernel=GramKernel.for_loss(loss, tight=False) if gram else None)
            solver = "dyn-nolips" if gram else method
            result = minimize(problem, rank=3, solver=solver, tol=tol, max_iter=max_iter, random_state=seed)
            X = result.X
        return {"result": result, "rmse": lambda: float(normalized_rmse(X, truth))}

    i, j = np.concatenate([pairs, pairs[:, ::-1]]).T
    pattern = sp.csr_matrix((np.ones(len(i)), (i, j)), shape=(len(truth), len(truth)))
    run.product = (pattern, truth)  # type: ignore[attr-defined]
    return run


def measure_floor(job: Any) -> dict[str, Any]:
    """Return the time of one product within a run in units of SciPy's product; rounds of both take turns.

    Lower quartiles, since what else runs on the machine only ever adds to a time.
    """
    import numpy as np

    matrix, X = job.product
    ours: list[float] = []
    bare: list[float] = []
    for _ in range(5):
        for _ in range(max(5, int(2e7 / (matrix.nnz * X.shape[1])))):
            began = time.perf_counter()
            _ = matrix @ X
            bare.append(time.perf_counter() - began)
        history = job(0, 60, 0.0)["result"].history
        # past the first iterations, whose steps are still being found
        made, took = np.diff(np.asarray(history.n_products))[15:], np.diff(np.asarray(history.time))[15:]
        ours += (took[made > 0] / made[made > 0]).tolist()
    unit = statistics.quantiles(bare, n=4)[0]
    return {"seconds": statistics.quantiles(ours, n=4)[0] / unit, "product": unit}


def measure_first_fit(folder: Path, method: str) -> dict[str, Any]:
    """Return the processor seconds of one fit, the first in this process: compiling is on one thread, too."""
    import numpy as np
    import scipy.sparse as sp

    from quartic import DistanceCompletion, SymNMF

    M = sp.load_npz(folder / "planted-2000.npz")
    with np.load(folder / "2000:0.05.npz") as kept:
        pairs, distances = kept["pairs"], kept["distances"]
    began = time.process_time()
    if method == "cluster":
        result = SymNMF(20, random_state=0).fit(M).result_
    else:
        result = DistanceCompletion(3, random_state=0).fit_pairs(pairs, distances).result_
    seconds = time.process_time() - began
    return {"seconds": seconds, "iterations": result.n_iter, "products": result.n_products,
            "objective": float(result.objective), "success": bool(result.success)}  # fmt: skip


# -- the process that compares ----------------------------------------------------------------------------------------


def child(source: Path, cache: Path, *words: str) -> Any:
    """Run this file in a new process that imports the library from ``source``; return what it prints, or why not."""
    threads = dict.fromkeys(
        ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "QUARTIC_NUM_THREADS"), "1"
    )
    caches = {"NUMBA_CACHE_DIR": str(cache / "numba"), "XDG_CACHE_HOME": str(cache)}
    environment = {
        **os.environ,
        **threads,
        **caches,
        "PYTHONPATH": str(source),
        "PYTHONPYCACHEPREFIX": str(cache / "pyc"),
    }
    done = subprocess.run([sys.executable, __file__, *words], env=environment, capture_output=True, text=True)
    if done.returncode:
        return {"error": (done.stderr.strip() or "no message").splitlines()[-1]}
    return json.loads(done.stdout.splitlines()[-1])


def rows_asked(kinds: list[str], cells: list[str], helices: list[str], methods: list[str]) -> list[tuple[str, ...]]:
    """Return kind, case and method of every row."""
    cases = {"symnmf": cells, "edmc": helices, "floor": FLOORS, "cold": ("first", "again")}
    found = []
    for kind in kinds:
        for case in cases[kind]:
            names = METHODS[kind] if kind != "floor" else METHODS[kind][1:] if case[0].isdigit() else METHODS[kind][:1]
            found += [(kind, case, name) for name in names if not methods or name in methods]
    return found


def compare(options: argparse.Namespace, caches: Path, empty: Path) -> list[dict[str, Any]]:
    """Run all rows, print each as it is done, and return them."""
    sources = {"A": options.a.resolve(), "B": options.b.resolve()}
    seeds = [str(100 + k) for k in range(options.starts)]
    found, absent = [], set()
    (data := caches / "data").mkdir(parents=True, exist_ok=True)
    print(f"{'row':44}{'A':>10}{'B':>10}{'B/A':>8}   iterations A, B; products A, B; objective B − A, relative")
    for kind, case, method in rows_asked(options.rows, options.cells, options.helices, options.methods):
        for name in ("planted-2000:20", "2000:0.05") if kind == "cold" else (case,):
            file = data / f"{name if name[0].isdigit() else name.split(':')[0]}.npz"
            if not file.exists() and name not in absent:
                made = child(sources["A"], caches / "A", "--make", str(data), name)
                if "error" in made:
                    print(f"{name} is left out: {made['error']}")
                    absent.add(name)
        if case in absent:
            continue
        runs: dict[str, list[dict[str, Any]]] = {"A": [], "B": []}
        for round_ in range(options.rounds):
            for side in runs:
                cache = caches / side
                if kind == "cold":
                    cache = empty / f"{side}-{method}-{round_}"  # "first" finds it empty, "again" filled by that
                runs[side].append(
                    child(sources[side], cache, "--measure", str(data), kind, case, method, *seeds)
                )  # fmt: skip
        row = {"kind": kind, "case": case, "method": method, **summarise(runs, options.statistic)}
        found.append(row)
        print(line(row), flush=True)
        if options.json:
            with options.json.open("a", encoding="utf-8") as file:
                file.write(json.dumps({**row, "runs": runs}) + "\n")
    return found


def summarise(runs: dict[str, list[dict[str, Any]]], statistic: str) -> dict[str, Any]:
    """Return for each side the median or least seconds, and the rest of its last run; or the error that ended it."""
    row: dict[str, Any] = {}
    for side, mine in runs.items():
        failed = next((run for run in mine if "error" in run), None)
        if failed:
            return {"error": f"{side}: {failed['error']}"}
        seconds = [run["seconds"] for run in mine]
        row[side] = {**mine[-1], "seconds": min(seconds) if statistic == "min" else statistics.median(seconds)}
    row["ratio"] = row["B"]["seconds"] / row["A"]["seconds"]
    return row


def line(row: dict[str, Any]) -> str:
    """Return a row for people."""
    name = f"{row['kind']} {row['case']} {row['method']}"
    if "error" in row:
        return f"{name:44}{row['error']}"
    a, b = row["A"], row["B"]
    words = f"{name:44}{a['seconds']:10.4g}{b['seconds']:10.4g}{row['ratio']:8.3f}   "
    if "objective" not in a:
        return words
    change = (b["objective"] - a["objective"]) / max(abs(a["objective"]), 1e-300)
    words += f"{a['iterations']:.4g}, {b['iterations']:.4g}; {a['products']:.4g}, {b['products']:.4g}; "
    words += f"{a['objective']:.3e}, {b['objective']:.3e}" if "rmse" in a else f"{change:+.1e}"
    words += f"; rmse {a['rmse']:.1e}, {b['rmse']:.1e}" if "rmse" in a else ""
    return words + "".join(f"; {side} did not converge" for side in "AB" if row[side]["success"] < 1)


def report(rows: list[dict[str, Any]]) -> None:
    """Print the geometric mean of each kind of row, and what a first fit costs over a later one."""
    good = [row for row in rows if "ratio" in row]
    groups: dict[str, list[float]] = {}
    for row in good:
        what = f"{row['kind']} {row['case'] if row['kind'] == 'cold' else row['method']}"
        groups.setdefault(what, []).append(row["ratio"])
    for first in (row for row in good if row["case"] == "first"):
        again = next((r for r in good if r["case"] == "again" and r["method"] == first["method"]), None)
        if again:
            a, b = (first[side]["seconds"] / again[side]["seconds"] for side in "AB")
            print(f"{'first fit over a later one, ' + first['method']:44}{a:10.4g}{b:10.4g}{b / a:8.3f}")
    print("\ngeometric mean of B/A")
    for what, ratios in [*groups.items(), ("all but cold", [r["ratio"] for r in good if r["kind"] != "cold"])]:
        if ratios:
            print(f"{what:34}{statistics.geometric_mean(ratios):8.3f}   ({len(ratios)} rows)")


def main() -> int:
    """Compare two checkouts, or be one of the processes that do the measuring."""
    if sys.argv[1:2] == ["--make"]:
        make_data(Path(sys.argv[2]), sys.argv[3])
        print("{}")
        return 0
    if sys.argv[1:2] == ["--measure"]:
        folder, kind, case, method, *seeds = sys.argv[2:]
        print(json.dumps(measure(Path(folder), kind, case, method, [int(seed) for seed in seeds])))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("a", type=Path, metavar="A", help="src folder of the older checkout")
    parser.add_argument("b", type=Path, metavar="B", help="src folder of the newer checkout")
    parser.add_argument("--rows", nargs="+", choices=METHODS, default=list(METHODS), help="kinds of rows")
    parser.add_argument("--cells", nargs="+", default=CELLS, metavar="DATA:RANK", help="cells of symnmf")
    parser.add_argument("--helices", nargs="+", default=list(HELICES), metavar="POINTS:SHARE", help="cases of edmc")
    parser.add_argument("--methods", nargs="+", default=[], help="only these methods")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each side for each row")
    parser.add_argument("--starts", type=int, default=1, help="random starts, within a process")
    parser.add_argument("--statistic", choices=("median", "min"), default="median", help="over the rounds")
    parser.add_argument("--cache", type=Path, help="folder to keep compiled code and data in, for the next call")
    parser.add_argument("--json", type=Path, help="file to which each row, with all its runs, is appended as JSON")
    options = parser.parse_args()
    for source in (options.a, options.b):
        if not (source / "quartic" / "__init__.py").is_file():
            parser.error(f"{source} has no quartic/__init__.py: give the src folder of a checkout")
    with tempfile.TemporaryDirectory() as folder:
        rows = compare(options, (options.cache or Path(folder)).resolve(), Path(folder) / "cold")
    report(rows)
    return 1 if any("error" in row for row in rows) or not rows else 0


if __name__ == "__main__":
    raise SystemExit(main())
