"""Figure 1 again: the normalised objective gap (f(Xᵏ) − f_min)/‖M‖² against time, four panels, mean over starts."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from quartic.bench.contestants import GRIDS, SOLVERS, contestant
from quartic.bench.curves import Thinning, average, curves_of
from quartic.bench.plots import Line, Panel, draw
from quartic.bench.record import describe_machine
from quartic.bench.store import Row, Store
from quartic.bench.symnmf import COLUMNS as TABLE_COLUMNS
from quartic.bench.symnmf import KEY, Case, Cell, Contestant, warm_up
from quartic.bench.table1 import Table1Settings
from quartic.bench.threads import fixed_threads
from quartic.bench.tuning import tune
from quartic.bench.watch import Watch
from quartic.datasets import DatasetNotFound
from quartic.init import random_start, spectral_start
from quartic.loop import Progress, minimize, referee

PANELS = (Cell("coil20", 20), Cell("cbcl", 20), Cell("tdt2", 30), Cell("reuters", 30))
COLUMNS = ("data", "rank", "solver", "parameter", "seed", "seconds", "objective", "norm", "n")


@dataclass(frozen=True)
class Figure1Settings:
    """What `run_figure1` runs.

    Parameters
    ----------
    cells : tuple of Cell
        Panels.
    solvers : tuple of str
        Curves.
    starts : int
        Random starts.
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

    cells: tuple[Cell, ...] = PANELS
    solvers: tuple[str, ...] = SOLVERS
    starts: int = 10
    seconds: float = 20.0
    table: Table1Settings = field(default_factory=Table1Settings)
    name: str = "figure1"

    @classmethod
    def quick(cls) -> Figure1Settings:
        """Return a choice of about three minutes: one start, and the cells and penalties of the quick table."""
        table = Table1Settings.quick()
        return cls(cells=table.cells, starts=1, seconds=3.0, table=table, name="figure1-quick")


def run_figure1(
    settings: Figure1Settings,
    folder: str | os.PathLike[str],
    say: Callable[[str], object] = print,
    progress: Callable[[str], object] = lambda _: None,
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
    store = Store(folder, settings.name, COLUMNS, KEY)
    tuning = Store(folder, f"{settings.table.name}-tuning", TABLE_COLUMNS, KEY)
    table, wall = settings.table, settings.table.threads > 1
    with fixed_threads(table.threads) as threads:
        record = describe_machine(threads)
        store.open(replace(settings, cells=(), solvers=(), starts=0), record)
        tuning.open(replace(table, data=(), ranks=(), cells=(), solvers=(), starts=0), record)
        for cell in settings.cells:
            try:
                case = cell.load()
            except DatasetNotFound as error:
                say(str(error))
                continue
            entries = []
            for name in settings.solvers:
                if name not in GRIDS:
                    entries.append(contestant(name))
                    continue
                progress(f"{cell.data} r={cell.rank}: tuning {name}")
                grid = dict(table.grids)[name]
                targets = list(table.epsilons)
                chosen = tune(case, name, tuning, targets, table.limits, table.tuning_starts, grid, wall, say)
                if chosen:
                    entries.append(contestant(name, chosen[min(chosen)]))
            for seed in range(settings.starts):
                turn = list(entries)
                random.Random(seed).shuffle(turn)
                for who in turn:
                    if not store.has(data=cell.data, rank=cell.rank, **who.key, seed=seed):
                        progress(f"{cell.data} r={cell.rank}: {who.name}, start {seed + 1}")
                        warm_up(case, who)
                        store.add(_run(case, who, seed, settings.seconds, wall))
    store.export()
    return draw_figure1(store.rows, folder, settings.name)


def _run(case: Case, who: Contestant, seed: int, limit: float, wall: bool) -> list[dict[str, Any]]:
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
    common = {"data": case.cell.data, "rank": case.cell.rank, **who.key, "seed": seed}
    common |= {"norm": float(np.sqrt((case.matrix.data**2).sum())), "n": case.matrix.shape[0]}
    return [{**common, "seconds": t, "objective": value} for t, value in curve.points]


def draw_figure1(rows: list[Row], folder: str | os.PathLike[str], name: str) -> list[Path]:
    """Draw what the rows hold."""
    panels = []
    for data, rank in dict.fromkeys((row["data"], row["rank"]) for row in rows):
        here = [row for row in rows if (row["data"], row["rank"]) == (data, rank)]
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
    if not panels:
        return []
    return draw(panels, folder, name, "seconds", "(f(Xᵏ) − f_min) / ‖M‖²", floor=1e-8)
