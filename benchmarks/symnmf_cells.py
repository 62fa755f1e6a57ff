"""Symmetric NMF on the sixteen cells of the paper's Table 1: how many times faster is ``auto``?

Table 1 itself is ``quartic paper table1``; this looks at four of its columns by the same harness, and chooses μ of
SymHALS in another way: every μ of the grid runs from every start, and the best by mean time counts. ``auto`` is what
`SymNMF` does by default: it makes a start of its own, a spectral one, whose time and products count; ε still refers to
the random start. The inertial method from the random start itself is shown beside it. Solvers take turns, start by
start; one thread; compiled code is warmed up; a method that needs over forty times what ``auto`` took is out.

    python benchmarks/symnmf_cells.py [--quick] [--data coil20 cbcl tdt2 reuters] [--ranks 10 20 30 40]

Needs the data sets (see quartic.datasets). Prints ratios, and writes them as Markdown with --out FILE.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

from quartic.bench import Cell, describe_machine
from quartic.bench.contestants import contestant
from quartic.bench.symnmf import Case, run_once, warm_up
from quartic.bench.threads import fixed_threads
from quartic.datasets import DatasetNotFound

MU = (1e-3, 1e-2, 1e-1, 1.0)
SOLVERS = {name: contestant(name) for name in ("auto", "inertial", "dyn-nolips")} | {
    f"hals μ={mu:g}": contestant("hals", mu) for mu in MU
}


def run_cell(case: Case, seeds: range, tol: float) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of every solver, measured in turns; those that failed once are left out from then on."""
    for who in SOLVERS.values():
        warm_up(case, who)
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in SOLVERS}
    for seed in seeds:
        others = list(SOLVERS)[1:]
        np.random.default_rng(seed).shuffle(others)
        for name in ["auto", *others]:
            if any("seconds" not in row for row in rows[name]):
                continue
            limit = 60.0 if name == "auto" else max(1.0, 40 * rows["auto"][0].get("seconds", 60.0))
            rows[name] += run_once(case, SOLVERS[name], seed, [tol], limit)
    return rows


def summary(rows: dict[str, list[dict[str, Any]]], n: int) -> dict[str, tuple[float, ...]]:
    """Return mean time, products and objective of those that arrived from every start."""
    return {
        name: tuple(float(np.mean([row[key] for row in mine])) for key in ("seconds", "products", "objective"))
        for name, mine in rows.items()
        if len(mine) == n and all("seconds" in row for row in mine)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=["coil20", "cbcl", "tdt2", "reuters"])
    parser.add_argument("--ranks", nargs="+", type=int, default=[10, 20, 30, 40])
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=100, help="the spectral start was tuned on seeds 0 to 9")
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--quick", action="store_true", help="two data sets, two ranks, two starts")
    parser.add_argument("--out", help="append the table to this file")
    options = parser.parse_args()
    if options.quick:
        options.data, options.ranks, options.starts = ["coil20", "reuters"], [10, 30], 2
    with fixed_threads(1) as threads:
        lines = [
            f"{'; '.join(describe_machine(threads).values())}; ε = {options.tol:g}, {options.starts} starts, "
            f"seeds from {options.first_seed}",
            "",
            "| data | r | hals (best μ) / auto | dyn-nolips / auto | inertial / auto "
            "| products auto, inertial, hals, dyn | objective over the best |",
            "|---|---|---|---|---|---|---|",
        ]
        print("\n".join(lines), flush=True)
        ratios = []
        for name in options.data:
            for rank in options.ranks:
                try:
                    case = Cell(name, rank).load()
                except DatasetNotFound as missing:
                    print(missing, file=sys.stderr)
                    break
                found = summary(
                    run_cell(case, range(options.first_seed, options.first_seed + options.starts), options.tol),
                    options.starts,
                )
                hals = min((k for k in found if k.startswith("hals")), key=lambda k: found[k][0], default=None)
                if hals is None or not {"auto", "dyn-nolips", "inertial"} <= set(found):
                    line = f"| {name} | {rank} | did not converge: {', '.join(set(SOLVERS) - set(found))} | | | | |"
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
