"""Symmetric NMF on the sixteen cells of the paper's Table 1: how many times faster is ``auto``?

Table 1 itself is ``quartic paper table1``; this looks at four of its columns by the same harness, and chooses μ of
SymHALS in another way: every μ of the grid runs from every start, and the best by mean time counts. ``auto`` is what
`SymNMF` does by default: it makes a start of its own, a spectral one, whose time and products count; ε still refers to
the random start. The inertial method from the random start itself is shown beside it. Solvers take turns, start by
start; one thread; compiled code is warmed up; a method that needs over forty times what ``auto`` took is out.

    python benchmarks/symnmf_cells.py [--quick] [--data coil20 cbcl tdt2 reuters] [--ranks 10 20 30 40]

Needs the data sets (see quartic.datasets). Prints ratios, and adds them as Markdown to --out FILE. Runs are kept in
the folder --results: what is there is not run again, and several processes may share it (--measure: print no table;
--show: run nothing).
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import Any

import numpy as np

from quartic.bench import Cell, Store
from quartic.bench.contestants import contestant
from quartic.bench.store import Kept, Row
from quartic.bench.symnmf import COLUMNS, KEY, Case, Contestant, loaded, run_once, warm_up
from quartic.bench.table1 import cells_of, rows_of
from quartic.bench.tuning import seconds_of
from quartic.bench.turns import Entry, measuring, take_turns

MU = (1e-3, 1e-2, 1e-1, 1.0)
SOLVERS = {name: contestant(name) for name in ("auto", "inertial", "dyn-nolips")} | {
    f"hals μ={mu:g}": contestant("hals", mu) for mu in MU
}
PATIENCE, MOST, LEAST = 40.0, 60.0, 1.0


def measure(store: Store, case: Case, seeds: range, tol: float) -> None:
    """Run every solver in turns, ``auto``, which limits the others, first."""
    for who in SOLVERS.values():
        warm_up(case, who)

    def run(who: Contestant, seed: int) -> list[dict[str, Any]]:
        if any(not row["seconds"] for row in store.find(**case.cell.key, **who.key)):
            return []  # failed once
        limit = MOST
        if who.name != "auto":
            auto = seconds_of(store.find(**case.cell.key, solver="auto", seed=seed), tol)
            limit = max(LEAST, PATIENCE * (MOST if auto is None else auto))
        return run_once(case, who, seed, [tol], limit)

    entries = [Entry(name, who.key, partial(run, who)) for name, who in SOLVERS.items()]
    take_turns(store, case.cell.title, case.cell.key, entries[1:], seeds, first=entries[:1])


def summary(rows: list[Row]) -> tuple[int, dict[str, tuple[float, ...]]]:
    """Return the number of starts that all have run, and of those who always arrived mean time, products, objective."""
    times: dict[str, dict[str, Row]] = {
        name: {row["seed"]: row for row in rows if (row["solver"], row["parameter"]) == _words(who)}
        for name, who in SOLVERS.items()
    }
    whole = {name: mine for name, mine in times.items() if mine and all(row["seconds"] for row in mine.values())}
    starts = set.intersection(*(set(mine) for mine in whole.values())) if whole else set()
    means = {
        name: tuple(
            float(np.mean([float(mine[seed][column]) for seed in starts]))
            for column in ("seconds", "products", "objective")
        )
        for name, mine in whole.items()
        if starts
    }
    return len(starts), means


def _words(who: Contestant) -> tuple[str, str]:
    return who.name, "" if who.parameter is None else f"{who.parameter:.10g}"


def table(kept: Kept) -> list[str]:
    """Return the table in Markdown."""
    lines = [f"{'; '.join(record.values())}" for record in kept.records]
    lines += [
        "",
        f"ε = {kept.settings['tol']:g}",
        "",
        "| data | r | starts | hals (best μ) / auto | dyn-nolips / auto | inertial / auto "
        "| products auto, inertial, hals, dyn | objective over the best |",
        "|---|---|---|---|---|---|---|---|",
    ]
    ratios = []
    for cell in cells_of(kept.rows):
        starts, found = summary(rows_of(kept.rows, cell))
        hals = min((k for k in found if k.startswith("hals")), key=lambda k: found[k][0], default=None)
        if hals is None or not {"auto", "dyn-nolips", "inertial"} <= set(found):
            gone = ", ".join(name for name in SOLVERS if name not in found)
            lines.append(f"| {cell.data} | {cell.rank} | {starts} | did not arrive: {gone} | | | | |")
            continue
        auto, dyn, inertial = found["auto"], found["dyn-nolips"], found["inertial"]
        over = auto[2] / min(v[2] for v in found.values()) - 1
        ratios.append((found[hals][0] / auto[0], dyn[0] / auto[0], over))
        lines.append(
            f"| {cell.data} | {cell.rank} | {starts} | {ratios[-1][0]:.1f} ({hals[5:]}) | {ratios[-1][1]:.1f} | "
            f"{inertial[0] / auto[0]:.1f} | {auto[1]:.0f}, {inertial[1]:.0f}, {found[hals][1]:.0f}, {dyn[1]:.0f} | "
            f"{100 * over:+.3f} % |"
        )
    if ratios:
        mean, least = np.mean(ratios, axis=0), np.min(ratios, axis=0)
        worst = 100 * max(r[2] for r in ratios)
        lines.append(
            f"| **all** | | | **mean {mean[0]:.1f}, least {least[0]:.1f}** | **mean {mean[1]:.1f}, "
            f"least {least[1]:.1f}** | | | at most {worst:+.3f} % |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=["coil20", "cbcl", "tdt2", "reuters"])
    parser.add_argument("--ranks", nargs="+", type=int, default=[10, 20, 30, 40])
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=100, help="the spectral start was tuned on seeds 0 to 9")
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--quick", action="store_true", help="two data sets, two ranks, two starts")
    parser.add_argument("--results", default="results", help="folder for results")
    parser.add_argument("--measure", action="store_true", help="print no table")
    parser.add_argument("--show", action="store_true", help="run nothing, print what is there")
    parser.add_argument("--out", help="add the table to this file")
    options = parser.parse_args()
    if options.quick:
        options.data, options.ranks, options.starts = ["coil20", "reuters"], [10, 30], 2
    store = Store(options.results, f"symnmf-cells{'-quick' * options.quick}", COLUMNS, KEY)
    if not options.show:
        cells = [Cell(name, rank) for name in options.data for rank in options.ranks]
        with measuring(1, (store, {"tol": options.tol, "limits": [PATIENCE, MOST, LEAST]})):
            for case in loaded(cells, partial(print, file=sys.stderr)):
                measure(store, case, range(options.first_seed, options.first_seed + options.starts), options.tol)
    kept = store.read()
    if options.measure:
        return
    lines = table(kept) if kept is not None and kept.rows else ["nothing was run yet"]
    print("\n".join(lines))
    if options.out:
        with open(options.out, "a", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n\n")


if __name__ == "__main__":
    main()
