"""The paper's Table 1 and Figures 1 and 2 again: its solvers and ours, under one referee."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

import numpy as np

from quartic.bench.cases import DATA, PAPER_SECONDS, PAPER_SOLVERS, RANKS, Case, Cell, Helix, load_cells, warm_helices
from quartic.bench.harness import Row, Run, Say, Settings, Store, measuring, take_turns
from quartic.bench.methods import GRIDS, SOLVERS, Method, edmc_solver, symnmf_solver
from quartic.bench.numbers import Number, summarise
from quartic.bench.plots import Axes, Line, Panel, average

#: The paper's ε, and what it becomes where squared norms are compared, as the authors' code does.
EPSILONS = (1e-3, 0.0316)
METHODS = ("dyn-nolips", "dyn-nolips-gram", "gd", "tr", "lm", "ncg", "lbfgs", "auto")
# Seeds of the starts that serve for tuning only.
FIRST_TUNING_SEED = 1000
# While a grid is gone through, a penalty may take so many times what the best of it took so far.
_RACE = 2.0


# -- Table 1 ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table1Settings(Settings):
    """What `run_table1` runs: cells, solvers, targets ε, and how long a run may take.

    A run may take ``patience`` times what Dyn-NoLips took, between ``least`` and ``seconds``. Penalties are the best of
    a grid on starts that are not measured afterwards. With no starts penalties are tuned, and that is all.

    Examples
    --------
    >>> from quartic.bench import Table1Settings
    >>> len(Table1Settings().cells), len(Table1Settings.quick().cells)
    (16, 4)
    """

    cells: tuple[Cell, ...] = tuple(Cell(data, rank) for data in DATA for rank in RANKS)
    solvers: tuple[str, ...] = SOLVERS
    epsilons: tuple[float, ...] = EPSILONS
    seconds: float = 60.0
    patience: float = 10.0
    least: float = 1.0
    tuning_starts: int = 1
    grids: tuple[tuple[str, tuple[float, ...]], ...] = tuple(GRIDS.items())
    name: str = "table1"

    part = (*Settings.part, "cells", "solvers")

    @classmethod
    def quick(cls) -> Table1Settings:
        """Return a choice of about three minutes: one rank of each data set, two starts, two penalties each."""
        cells = (Cell("coil20", 20), Cell("cbcl", 10), Cell("tdt2", 10), Cell("reuters", 10))
        grids = tuple((name, (1e-2, 1e-1)) for name in GRIDS)
        return cls(cells=cells, starts=2, seconds=10.0, patience=3.0, least=0.5, grids=grids, name="table1-quick")

    def limit(self, base: Sequence[Row]) -> float:
        """Return the limit on a run, given those of Dyn-NoLips from the same start."""
        took = [row[f"s to {min(self.epsilons):g}"] for row in base if f"s to {min(self.epsilons):g}" in row]
        return min(self.seconds, max(self.least, self.patience * took[0])) if took else self.seconds


def run_table1(settings: Table1Settings, folder: str | os.PathLike[str], say: Say, progress: Say) -> Store:
    """Run what is not yet there, and return the runs; several processes may do so at once."""
    store, tuning = Store(folder, settings.name), Store(folder, f"{settings.name}-tuning")

    def measure(case: Case, name: str, penalty: float | None, targets: Sequence[float], seed: int) -> Row | None:
        """Run one solver on one start, for those targets that it has reached from every start before."""
        earlier = [r for r in store.find(case=str(case), solver=name, penalty=penalty) if r["seed"] < seed]
        left = [e for e in targets if all(f"s to {e:g}" in row for row in earlier)]
        base = [] if name == "dyn-nolips" else store.find(case=str(case), method="dyn-nolips", seed=seed)
        return run_once(case, name, penalty, seed, left, settings.limit(base), settings.threads > 1) if left else None

    with measuring(settings, store, tuning):
        for case in load_cells(settings.cells, say):
            entries = {"dyn-nolips": ("dyn-nolips", None, settings.epsilons)}
            for name in settings.solvers:
                chosen = tune(case, name, tuning, settings, say, progress) if name in GRIDS else {}
                for penalty in dict.fromkeys(chosen.values() if name in GRIDS else [None]):
                    aims = tuple(e for e in settings.epsilons if penalty is None or chosen.get(e) == penalty)
                    entries[name if penalty is None else f"{name} {penalty:g}"] = name, penalty, aims
            for name, penalty, _ in entries.values() if settings.starts else ():
                run_once(case, name, penalty, 0, [1e-9], 0.0)  # one iteration: have everything compiled
            methods = {key: partial(measure, case, *entry) for key, entry in entries.items()}
            take_turns(store, str(case), methods, settings.seeds(), progress, first=["dyn-nolips"])
    return store


def run_once(
    case: Case, name: str, penalty: float | None, seed: int, targets: Sequence[float], limit: float, wall: bool = False
) -> Row:
    """Run one solver from one start; the clock starts before the loss is made, so that set-up and starts count."""
    recorder = case.recorder(seed, targets, limit, wall=wall)
    symnmf_solver(name, penalty)(case, seed, 0.0, recorder)
    return {"solver": name, "penalty": penalty, **recorder.finish()}


def tune(case: Case, name: str, store: Store, settings: Table1Settings, say: Say, progress: Say) -> dict[float, float]:
    """Return the penalty that reaches each target first by mean time; a target that none reached is left out.

    The grid is gone through from its middle, and a penalty that takes over twice what the best took so far is given up.
    """
    grid, hardest = dict(settings.grids)[name], f"s to {min(settings.epsilons):g}"

    def race(solver: str, penalty: float | None, seed: int) -> Row:
        times = [r[hardest] for r in store.find(case=str(case), solver=name, seed=seed) if hardest in r]
        limit = settings.limit(store.find(case=str(case), method="dyn-nolips", seed=seed))
        limit = min(limit, max(settings.least, _RACE * min(times, default=math.inf)))
        run_once(case, solver, penalty, seed, [1e-9], 0.0)
        return run_once(case, solver, penalty, seed, settings.epsilons, limit, settings.threads > 1)

    def from_the_middle(penalty: float) -> float:
        """Penalties around 0.03 win as a rule; 0 comes last."""
        return math.inf if penalty == 0 else abs(math.log10(penalty) + 1.5)

    methods: dict[str, Run] = {"dyn-nolips": partial(race, "dyn-nolips", None)}
    methods |= {f"{name} {p:g}": partial(race, name, p) for p in sorted(grid, key=from_the_middle)}
    seeds = range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + settings.tuning_starts)
    take_turns(store, str(case), methods, seeds, progress, first=list(methods))
    chosen = best_penalties(store.find(case=str(case), solver=name), settings.epsilons, settings.tuning_starts)
    words = ", ".join(f"{penalty:g} for ε = {epsilon:g}" for epsilon, penalty in chosen.items())
    say(f"{case}: {name} tuned over {{{', '.join(f'{p:g}' for p in grid)}}}: {words or 'none reaches a target'}")
    return chosen


def best_penalties(rows: Sequence[Row], targets: Sequence[float], n_starts: int) -> dict[float, float]:
    """Return the penalty with the least mean time to each target, of those that reached it from every tuning start."""
    chosen = {}
    for epsilon in targets:
        times: dict[float, list[float]] = {}
        for row in rows:
            if f"s to {epsilon:g}" in row and row["seed"] < FIRST_TUNING_SEED + n_starts:
                times.setdefault(row["penalty"], []).append(row[f"s to {epsilon:g}"])
        whole = {penalty: fmean(found) for penalty, found in times.items() if len(found) == n_starts}
        if whole:
            chosen[epsilon] = min(whole, key=whole.__getitem__)
    return chosen


def table1_numbers(rows: Sequence[Row], section: str) -> list[Number]:
    """Return mean seconds, products and objectives of each solver, and the paper's own seconds beside them."""
    numbers = []
    for target in sorted({name for row in rows for name in row if name.startswith("s to ")}):
        for measure in (target.replace("s to", f"{what} to", 1) for what in ("s", "products", "objective")):
            # A tuned solver may run with another penalty for each target: the run that aimed at it counts.
            mine = [{**row, "method": row["solver"]} for row in rows if measure in row or row["penalty"] is None]
            numbers += summarise(section, mine, [measure])
    for case in dict.fromkeys(row["case"] for row in rows):
        for solver, seconds in zip(PAPER_SOLVERS, PAPER_SECONDS.get(case, ()), strict=False):
            numbers += [Number(section, case, solver, "s in the paper", seconds)] if seconds else []
    return numbers


# -- figures ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FigureSettings(Settings):
    """What `run_figure` runs: cells, for the objective gap of Figure 1, or helices, for the error of Figure 2.

    Penalties are those of Table 1 for ε = 1e-3, whose tuning runs are used where they are there. The paper has 10 % of
    the distances known, the authors' script 5 %.
    """

    cases: tuple[Cell | Helix, ...] = ()
    seconds: float = 60.0
    table: Table1Settings = Table1Settings()

    part = (*Settings.part, "cases", "table")

    @classmethod
    def figure1(cls, quick: bool = False) -> FigureSettings:
        """Return the paper's four panels; quick: about three minutes, the cells and penalties of the quick table."""
        if quick:
            table = Table1Settings.quick()
            return cls(1, name="figure1-quick", cases=table.cells, seconds=3.0, table=table)
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
    table = replace(settings.table, threads=settings.threads)
    store, tuning = Store(folder, settings.name), Store(folder, f"{table.name}-tuning")
    helices = [case for case in settings.cases if isinstance(case, Helix)]

    def run(case: Case | Helix, method: Method, targets: Sequence[float], limit: float, seed: int) -> Row:
        recorder = case.recorder(seed, targets, limit, wall=settings.threads > 1, curve=True)
        recorder.finish(method(case, seed, 1e-12 if targets else 1e-7, recorder).X)
        scale = float((case.matrix.data**2).sum()) if isinstance(case, Case) else 1.0
        points = [(t, measured.get("objective", measured["error"]) / scale) for t, measured in recorder.curve or ()]
        return {"curve": points}

    with measuring(settings, store), measuring(table, *() if helices else (tuning,)):
        for small in warm_helices() if helices else ():
            for name in METHODS:
                run(small, edmc_solver(name), [1e-9], 0.2, 0)
        for helix in helices:  # until exact, or out of time
            edmc: dict[str, Run] = {m: partial(run, helix, edmc_solver(m), [1e-9], settings.seconds) for m in METHODS}
            take_turns(store, str(helix), edmc, settings.seeds(), progress)
        for case in load_cells([cell for cell in settings.cases if isinstance(cell, Cell)], say):
            symnmf: dict[str, Run] = {}
            for name in SOLVERS:
                chosen = tune(case, name, tuning, table, say, progress) if name in GRIDS else {}
                if chosen or name not in GRIDS:
                    method = symnmf_solver(name, chosen[min(chosen)] if chosen else None)
                    run(case, method, (), 0.0, 0)
                    symnmf[name] = partial(run, case, method, (), settings.seconds)
            take_turns(store, str(case), symnmf, settings.seeds(), progress)
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
        lines = []
        for method in (m for m in dict.fromkeys((*SOLVERS, *METHODS)) if seeds & set(runs.get(m, ()))):
            curves = [np.array(runs[method][seed]).T for seed in seeds & set(runs[method])]
            lines.append(Line(method, *average([(times, values - least) for times, values in curves])))
        panels.append(Panel(f"{case}, mean of {len(seeds)} start(s)", lines))
    return panels
