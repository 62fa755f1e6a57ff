"""Symmetric NMF on the sixteen cells of the paper's Table 1: how many times faster is ``auto``?

For each data set and rank, from the same random starts (the paper's), each solver runs until the projected gradient is
ε of its norm at that start. The solvers take turns, start by start, so that a drift of the machine hits all alike; one
thread each; compiled code is warmed up and not timed. SymHALS is given the best μ of the grid, cell by cell, by mean
time over the starts (a μ that needs over forty times what ``auto`` took is out). ``auto`` is what `SymNMF` does by
default: it makes a start of its own, a spectral one, whose time and products count; ε still refers to the random start.
The inertial method from the random start itself is shown beside it.

    python benchmarks/symnmf_cells.py [--quick] [--data coil20 cbcl tdt2 reuters] [--ranks 10 20 30 40]

Needs the data sets (see quartic.datasets). Prints ratios, and writes them as Markdown with --out FILE.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_variable] = "1"  # before NumPy is imported

import numpy as np
import scipy

import quartic
from quartic import Problem, minimize
from quartic.datasets import DatasetNotFound, load_similarity
from quartic.init import spectral_start
from quartic.losses import LeastSquares
from quartic.penalties import Nonnegative
from quartic.solvers import SymHALS

MU = (1e-3, 1e-2, 1e-1, 1.0)


def contestants() -> dict[str, object]:
    return {"auto": "auto", "inertial": "inertial", "dyn-nolips": "dyn-nolips"} | {
        f"hals μ={mu:g}": SymHALS(mu=mu) for mu in MU
    }


def run_cell(problem: Problem, rank: int, seeds: range, tol: float) -> dict[str, list[quartic.Result]]:
    """Return the results of every contestant on every start, measured in turns."""
    solvers = contestants()
    for solver in solvers.values():  # compile
        minimize(problem, rank=rank, solver=solver, max_iter=2, random_state=0)
    results: dict[str, list[quartic.Result]] = {name: [] for name in solvers}
    for seed in seeds:
        X0 = problem.loss.random_start(rank, True, np.random.default_rng(seed))
        reference = problem.stationarity(problem.loss.at(X0))
        others = list(solvers)[1:]
        np.random.default_rng(seed).shuffle(others)
        for name in ["auto", *others]:
            if any(not r.success for r in results[name]):
                continue  # it is out of the running in this cell
            limit = 60.0 if name == "auto" else max(1.0, 40 * results["auto"][0].time)
            result = minimize(
                problem, spectral_start if name == "auto" else X0, rank=rank, solver=solvers[name], tol=tol,
                reference=reference, max_time=limit, max_iter=10**6, random_state=seed,
            )  # fmt: skip
            results[name].append(result)
    return results


def summary(results: dict[str, list[quartic.Result]]) -> dict[str, tuple[float, float, float]]:
    """Return mean time, products and objective of those that converged on every start."""
    n = max(len(r) for r in results.values())
    return {
        name: tuple(float(np.mean([getattr(r, key) for r in rs])) for key in ("time", "n_products", "objective"))
        for name, rs in results.items()
        if len(rs) == n and all(r.success for r in rs)
    }  # type: ignore[return-value]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=["coil20", "cbcl", "tdt2", "reuters"])
    parser.add_argument("--ranks", nargs="+", type=int, default=[10, 20, 30, 40])
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--quick", action="store_true", help="two data sets, two ranks, two starts")
    parser.add_argument("--out", help="append the table to this file")
    options = parser.parse_args()
    if options.quick:
        options.data, options.ranks, options.starts = ["coil20", "reuters"], [10, 30], 2
    lines = [
        f"quartic {quartic.__version__}, NumPy {np.__version__}, SciPy {scipy.__version__}, Python "
        f"{platform.python_version()}, {platform.machine()}, one thread, ε = {options.tol:g}, "
        f"{options.starts} starts",
        "",
        "| data | r | hals (best μ) / auto | dyn-nolips / auto | inertial / auto | products auto, inertial, hals, dyn "
        "| objective over the best |",
        "|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines), flush=True)
    ratios = []
    for name in options.data:
        try:
            matrix = load_similarity(name).matrix
        except DatasetNotFound as missing:
            print(missing, file=sys.stderr)
            continue
        for rank in options.ranks:
            problem = Problem(LeastSquares(matrix), Nonnegative())
            found = summary(run_cell(problem, rank, range(options.starts), options.tol))
            hals = min((k for k in found if k.startswith("hals")), key=lambda k: found[k][0], default=None)
            if hals is None or "auto" not in found or "dyn-nolips" not in found:
                line = f"| {name} | {rank} | did not converge: {', '.join(set(contestants()) - set(found))} | | | | |"
            else:
                auto, dyn, inertial = found["auto"], found["dyn-nolips"], found["inertial"]
                over = auto[2] / min(v[2] for v in found.values()) - 1
                ratios.append((found[hals][0] / auto[0], dyn[0] / auto[0], over))
                line = (
                    f"| {name} | {rank} | {ratios[-1][0]:.1f} ({hals[5:]}) | {ratios[-1][1]:.1f} | "
                    f"{inertial[0] / auto[0]:.1f} | {auto[1]:.0f}, {inertial[1]:.0f}, {found[hals][1]:.0f}, "
                    f"{dyn[1]:.0f} | {100 * over:+.3f} % |"
                )
            lines.append(line)
            print(line, flush=True)
    if ratios:
        mean, least = np.mean(ratios, axis=0), np.min(ratios, axis=0)
        worst = 100 * max(r[2] for r in ratios)
        lines.append(
            f"| **all** | | **mean {mean[0]:.1f}, least {least[0]:.1f}** | **mean {mean[1]:.1f}, "
            f"least {least[1]:.1f}** | | | at most {worst:+.3f} % |"
        )
        print(lines[-1])
    if options.out:
        with open(options.out, "a", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n\n")


if __name__ == "__main__":
    main()
