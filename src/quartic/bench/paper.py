"""The paper's Table 1 and Figures 1 and 2 again: its solvers and ours, under one referee."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from quartic.bench.cases import DATA, PAPER, RANKS, Case, Cell, Helix, load_cells, warm_helices
from quartic.bench.harness import Row, Run, Say, Settings, Store, measuring, take_turns
from quartic.bench.methods import GRIDS, SOLVERS, Method, edmc_solver, symnmf_solver
from quartic.bench.numbers import Number, best_of, summarise
from quartic.report.panels import Axes, Line, Panel, average

#: The paper's ε, and what it becomes where squared norms are compared, as the authors' code does.
EPSILONS = (1e-3, 0.0316)
METHODS = ("dyn-nolips", "dyn-nolips-gram", "gd", "tr", "lm", "ncg", "lbfgs", "auto")


# -- Table 1 ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table1Settings(Settings):
    """What `run_table1` runs: cells, solvers with the penalties of their grids, targets ε, and for how long.

    A run may take ``patience`` times what Dyn-NoLips took from the same start, between ``least`` and ``seconds``.
    """

    cells: tuple[Cell, ...] = tuple(Cell(data, rank) for data in DATA for rank in RANKS)
    solvers: tuple[str, ...] = SOLVERS
    epsilons: tuple[float, ...] = EPSILONS
    seconds: float = 60.0
    patience: float = 10.0
    least: float = 1.0
    grids: tuple[tuple[str, tuple[float, ...]], ...] = tuple(GRIDS.items())
    name: str = "table1"

    part = (*Settings.part, "cells", "solvers")

    @classmethod
    def quick(cls) -> Table1Settings:
        """Return a choice of about three minutes: one rank of each data set, two starts, two penalties each."""
        cells = (Cell("coil20", 20), Cell("cbcl", 10), Cell("tdt2", 10), Cell("reuters", 10))
        grids = tuple((name, (1e-2, 1e-1)) for name in GRIDS)
        return cls(cells=cells, starts=2, seconds=10.0, patience=3.0, least=0.5, grids=grids, name="table1-quick")


def with_penalties(solvers: Sequence[str], grids: dict[str, tuple[float, ...]]) -> dict[str, tuple[str, float | None]]:
    """Return the solvers under their names, tuned ones once for each penalty of their grid."""
    found = {}
    for name in solvers:
        for penalty in grids.get(name, (None,)):
            found[name if penalty is None else f"{name} {penalty:g}"] = name, penalty
    return found


def run_table1(settings: Table1Settings, folder: str | os.PathLike[str], say: Say, progress: Say) -> Store:
    """Run what is not yet there, and return the runs; several processes may do so at once."""
    store = Store(folder, settings.name)
    hardest = f"s to {min(settings.epsilons):g}"

    def measure(case: Case, method: str, name: str, penalty: float | None, seed: int) -> Row | None:
        """Run one solver on one start, for those targets that it has reached from every start before."""
        earlier = [row for row in store.find(case=str(case), method=method) if row["seed"] < seed]
        left = [e for e in settings.epsilons if all(f"s to {e:g}" in row for row in earlier)]
        base = [r[hardest] for r in store.find(case=str(case), method="dyn-nolips", seed=seed) if hardest in r]
        limit = min(settings.seconds, max(settings.least, settings.patience * base[0])) if base else settings.seconds
        return run_once(case, name, penalty, seed, left, limit, settings.threads > 1) if left else None

    with measuring(settings, store):
        entries = with_penalties(("dyn-nolips", *settings.solvers), dict(settings.grids))
        for case in load_cells(settings.cells, say):
            for name, penalty in entries.values():
                run_once(case, name, penalty, 0, [1e-9], 0.0)  # one iteration: have everything compiled
            methods = {method: partial(measure, case, method, *entry) for method, entry in entries.items()}
            take_turns(store, str(case), methods, settings.seeds(), progress, first=["dyn-nolips"])
    return store


def run_once(
    case: Case, name: str, penalty: float | None, seed: int, targets: Sequence[float], limit: float, wall: bool = False
) -> Row:
    """Run one solver from one start; the clock starts before the loss is made, so that set-up and starts count."""
    recorder = case.recorder(seed, targets, limit, wall=wall)
    symnmf_solver(name, penalty)(case, seed, 0.0, recorder)
    return {"solver": name, **recorder.finish()}


def table1_numbers(rows: Sequence[Row], section: str) -> list[Number]:
    """Return mean seconds, products and objectives of each solver, and the paper's own seconds beside them.

    A tuned solver has, in each cell and for each target, its fastest penalty by mean time.
    """
    numbers = []
    solver_of = {row["method"]: row["solver"] for row in rows}
    for target in sorted({name for row in rows for name in row if name.startswith("s to ")}):
        found = summarise(section, rows, [target.replace("s to", f"{w} to", 1) for w in ("s", "products", "objective")])
        for solver in dict.fromkeys(solver_of.values()):
            mine = [n for n in found if solver_of[n.method] == solver]
            best = best_of(mine, solver, target) if mine else []
            numbers += [n if n.measure != "which" else n._replace(measure=f"which to {target[5:]}") for n in best]
    for case in dict.fromkeys(row["case"] for row in rows):
        numbers += [Number(section, case, who, "s in the paper", s) for who, s in PAPER.get(case, {}).items()]
    return numbers


# -- figures ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FigureSettings(Settings):
    """What `run_figure` runs: cells, for the objective gap of Figure 1, or helices, for the error of Figure 2.

    Tuned solvers run with two penalties, of which the figure shows the one that ends lower. The paper has 10 % of the
    distances known, the authors' script 5 %.
    """

    cases: tuple[Cell | Helix, ...] = ()
    seconds: float = 60.0

    part = (*Settings.part, "cases")

    @classmethod
    def figure1(cls, quick: bool = False) -> FigureSettings:
        """Return the paper's four panels; quick: about three minutes, smaller ones."""
        if quick:
            return cls(1, name="figure1-quick", cases=Table1Settings.quick().cells, seconds=3.0)
        cells = (Cell("coil20", 20), Cell("cbcl", 20), Cell("tdt2", 30), Cell("reuters", 30))
        return cls(name="figure1", cases=cells, seconds=20.0)

    @classmethod
    def figure2(cls, quick: bool = False) -> FigureSettings:
        """Return the paper's helix; quick: about two minutes, n = 2000 only."""
        if quick:
            return cls(2, name="figure2-quick", cases=(Helix(2000, 0.1), Helix(2000, 0.05)), seconds=10.0)
        return cls(name="figure2", cases=(Helix(2000, 0.1), Helix(5000, 0.1), Helix(2000, 0.05), Helix(5000, 0.05)))


def run_figure(settings: FigureSettings, folder: str | os.PathLike[str], say: Say, progress: Say) -> Store:
    """Run what is not yet there, and return the runs with their curves."""
    store = Store(folder, settings.name)
    helices = [case for case in settings.cases if isinstance(case, Helix)]

    def run(case: Case | Helix, method: Method, targets: Sequence[float], limit: float, seed: int) -> Row:
        recorder = case.recorder(seed, targets, limit, wall=settings.threads > 1, curve=True)
        recorder.finish(method(case, seed, 1e-12 if targets else 1e-7, recorder).X)
        scale = float((case.matrix.data**2).sum()) if isinstance(case, Case) else 1.0
        what = "error" if targets else "objective"
        return {"curve": [(t, measured[what] / scale) for t, measured in recorder.curve or ()]}

    def compete(case: Case | Helix, methods: dict[str, Method], targets: Sequence[float]) -> None:
        for small in (case,) if isinstance(case, Case) else warm_helices():
            for method in methods.values():
                run(small, method, targets, 0.0, 0)  # one iteration: have everything compiled
        turns: dict[str, Run] = {n: partial(run, case, m, targets, settings.seconds) for n, m in methods.items()}
        take_turns(store, str(case), turns, settings.seeds(), progress)

    with measuring(settings, store):
        for helix in helices:  # until exact, or out of time
            compete(helix, {name: edmc_solver(name) for name in METHODS}, [1e-9])
        entries = with_penalties(SOLVERS, dict.fromkeys(GRIDS, (1e-2, 1e-1)))
        for case in load_cells([cell for cell in settings.cases if isinstance(cell, Cell)], say):
            compete(case, {method: symnmf_solver(*entry) for method, entry in entries.items()}, ())
    return store


def figure2_numbers(rows: Sequence[Row], section: str) -> list[Number]:
    """Return the mean seconds to three errors, where every start got there."""
    targets = {f"s to {target:g}": target for target in (1e-4, 1e-6, 1e-8)}
    found = []
    for row in rows:
        times = {name: next((t for t, error in row["curve"] if error <= e), None) for name, e in targets.items()}
        found.append({**row, **{name: t for name, t in times.items() if t is not None}})
    return summarise(section, found, list(targets))


AXES = {
    "figure1": Axes("seconds", "(f(Xᵏ) − f_min) / ‖M‖²", floor=1e-8),
    "figure2": Axes("seconds", "normalised RMSE over all distances", floor=1e-10),
}


def panels_of(name: str, rows: Sequence[Row]) -> list[Panel]:
    """Return the mean curves of a figure, one panel for each case, over the starts that all methods have."""
    panels = []
    for case in dict.fromkeys(row["case"] for row in rows):
        runs: dict[str, dict[int, list[list[float]]]] = {}
        for row in (row for row in rows if row["case"] == case):
            runs.setdefault(row["method"], {})[row["seed"]] = row["curve"]
        least = min(v for mine in runs.values() for curve in mine.values() for _, v in curve) * (name == "figure1")
        seeds = set.intersection(*map(set, runs.values())) or set.union(*map(set, runs.values()))
        lines: dict[str, Line] = {}
        for method in (m for m in runs if seeds & set(runs[m])):
            curves = [np.array(runs[method][seed]).T for seed in seeds & set(runs[method])]
            line = Line(method.split()[0], *average([(times, values - least) for times, values in curves]))
            if line.name not in lines or line.values[-1] < lines[line.name].values[-1]:
                lines[line.name] = line  # of a tuned solver, the penalty that ends lower
        order = dict.fromkeys((*SOLVERS, *METHODS))
        panels.append(Panel(f"{case}, mean of {len(seeds)} start(s)", [lines[m] for m in order if m in lines]))
    return panels
