"""Figure 1 again: the normalised objective gap (f(Xᵏ) − f_min)/‖M‖² against time, four panels, mean over starts."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from quartic.bench.contestants import GRIDS, SOLVERS, contestant
from quartic.bench.curves import Thinning, average, complete, curves_of
from quartic.bench.from_starts import FromStarts
from quartic.bench.plots import Axes, Line, Panel, draw
from quartic.bench.store import Row, Store
from quartic.bench.symnmf import COLUMNS as TABLE_COLUMNS
from quartic.bench.symnmf import KEY, Case, Cell, Contestant, loaded, warm_up
from quartic.bench.table1 import Table1Settings, cells_of
from quartic.bench.tuning import tune
from quartic.bench.turns import Entry, Say, measuring, take_turns
from quartic.bench.watch import Watch
from quartic.core.loop import Progress, minimize, referee
from quartic.init import random_start, spectral_start

PANELS = (Cell("coil20", 20), Cell("cbcl", 20), Cell("tdt2", 30), Cell("reuters", 30))
COLUMNS = ("data", "rank", "solver", "parameter", "seed", "seconds", "objective", "norm", "n")
AXES = Axes("seconds", "(f(Xᵏ) − f_min) / ‖M‖²", floor=1e-8)


@dataclass(frozen=True)
class Figure1Settings(FromStarts):
    """What `run_figure1` runs.

    Parameters
    ----------
    cells : tuple of Cell
        Panels.
    solvers : tuple of str
        Curves.
    starts, first_start : int
        Random starts, and the seed of the first.
    seconds : float
        How long each run goes on.
    table : Table1Settings
        How penalties are tuned: for ε = 1e-3, as in Table 1, whose tuning runs are used where they are there.
    name : str
        Of the files.

    Examples
    --------
    >>> from quartic.bench import Figure1Settings
    >>> len(Figure1Settings().cells)
    4
    """

    part = ("cells", "solvers")

    cells: tuple[Cell, ...] = PANELS
    solvers: tuple[str, ...] = SOLVERS
    seconds: float = 20.0
    table: Table1Settings = field(default_factory=Table1Settings)
    name: str = "figure1"

    @classmethod
    def quick(cls) -> Figure1Settings:
        """Return a choice of about three minutes: one start, and the cells and penalties of the quick table."""
        table = Table1Settings.quick()
        return cls(cells=table.cells, starts=1, seconds=3.0, table=table, name="figure1-quick")

    def must_agree(self) -> Figure1Settings:
        """Return what rows of one figure share, the settings of the tuning included."""
        return replace(super().must_agree(), table=self.table.must_agree())


def run_figure1(
    settings: Figure1Settings, folder: str | os.PathLike[str], say: Say = print, progress: Say = lambda _: None
) -> list[Path]:
    """Run what is not yet there, and draw; return the files made.

    Parameters
    ----------
    settings : Figure1Settings
        What to run.
    folder : path
        Where results are kept; an interrupted run goes on from there.
    say, progress : callable
        Take lines for the user, and words on what is being run.
    """
    store = measure_figure1(settings, folder, say, progress)
    store.export()
    return draw(panels_of(store.rows), folder, settings.name, AXES)


def measure_figure1(
    settings: Figure1Settings, folder: str | os.PathLike[str], say: Say = print, progress: Say = lambda _: None
) -> Store:
    """Run what is not yet there; several processes may do so at once, each its own cells or starts."""
    table = settings.table
    store = Store(folder, settings.name, COLUMNS, KEY)
    tuning = Store(folder, f"{table.name}-tuning", TABLE_COLUMNS, KEY)
    with measuring(table.threads, (store, settings.must_agree()), (tuning, table.must_agree())):
        for case in loaded(settings.cells, say):
            entries = []
            for name in settings.solvers:
                chosen = tune(case, name, tuning, table, say, progress) if name in GRIDS else {}
                if name in GRIDS and not chosen:
                    continue
                who = contestant(name, chosen[min(chosen)] if chosen else None)
                warm_up(case, who)
                entries.append(Entry(name, who.key, partial(_run, case, who, settings.seconds, table.threads > 1)))
            take_turns(store, case.cell.title, case.cell.key, entries, settings.seeds(), progress)
    return store


def _run(case: Case, who: Contestant, limit: float, wall: bool, seed: int) -> list[dict[str, Any]]:
    watch = Watch(wall)
    problem = case.problem()
    curve = Thinning(watch, lambda X: referee(case.judge, X)[0])

    def callback(progress: Progress) -> None:
        curve.see(progress.X)
        if curve.watch.seconds() > limit:
            raise StopIteration

    start = spectral_start if who.spectral else random_start
    result = minimize(
        problem, start, rank=case.cell.rank, solver=who.solver, tol=1e-7, max_iter=10**9, callback=callback,
        random_state=seed,
    )  # fmt: skip
    if result.status == "interrupted":
        raise KeyboardInterrupt
    curve.last(result.X)
    common = {"norm": float(np.sqrt((case.matrix.data**2).sum())), "n": case.matrix.shape[0]}
    return [{**common, "seconds": t, "objective": value} for t, value in curve.points]


def panels_of(rows: list[Row]) -> list[Panel]:
    """Return what the rows hold as panels of curves, in the paper's order."""
    panels = []
    for data, rank in ((cell.data, str(cell.rank)) for cell in cells_of(rows)):
        here = complete([row for row in rows if (row["data"], row["rank"]) == (data, rank)], "solver")
        least = min(float(row["objective"]) for row in here)
        norm = float(here[0]["norm"])
        lines = []
        found = curves_of(here, ["solver"], "objective")
        for solver in SOLVERS:
            if (solver,) in found:
                runs = [(times, (values - least) / norm**2) for times, values in found[solver,]]
                times, values = average(runs)
                lines.append(Line(solver, times, values))
        starts = len({row["seed"] for row in here})
        panels.append(Panel(f"{data}, n = {here[0]['n']}, r = {rank}, mean of {starts} start(s)", lines))
    return panels
