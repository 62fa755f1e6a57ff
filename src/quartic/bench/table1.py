"""Table 1 again: sixteen cells, the paper's solvers and ours, time to ε of the start's projected gradient."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import partial
from statistics import mean
from typing import Any

from quartic.bench.contestants import GRIDS, SOLVERS, contestant
from quartic.bench.from_starts import FromStarts
from quartic.bench.paper_numbers import DATA, RANKS
from quartic.bench.store import Row, Store
from quartic.bench.symnmf import COLUMNS, KEY, Case, Cell, Contestant, loaded, run_once, warm_up
from quartic.bench.tuning import Limits, seconds_of, tune
from quartic.bench.turns import Entry, Say, measuring, take_turns

#: The paper's ε, and what it becomes where squared norms are compared, as the authors' code does.
EPSILONS = (1e-3, 0.0316)


@dataclass(frozen=True)
class Table1Settings(FromStarts):
    """What `run_table1` runs.

    Parameters
    ----------
    data : tuple of str
        Data sets.
    ranks : tuple of int
        r; ``cells``, where given, names the cells themselves instead.
    cells : tuple of Cell, optional
        Cells.
    solvers : tuple of str
        Columns.
    starts, first_start : int
        Random starts, and the seed of the first; with no start, penalties are tuned and that is all.
    epsilons : tuple of float
        Targets, all from one run.
    limits : Limits
        On the time of a run.
    tuning_starts : int
        Starts for the choice of penalties; seeds of their own.
    grids : dict
        Penalties tried.
    threads : int
        With one, times are those of the processor; with more, those of the clock on the wall.

    Examples
    --------
    >>> from quartic.bench import Table1Settings
    >>> len(Table1Settings().all_cells()), len(Table1Settings.quick().all_cells())
    (16, 4)
    """

    part = ("data", "ranks", "cells", "solvers")

    data: tuple[str, ...] = DATA
    ranks: tuple[int, ...] = RANKS
    cells: tuple[Cell, ...] = ()
    solvers: tuple[str, ...] = SOLVERS
    epsilons: tuple[float, ...] = EPSILONS
    limits: Limits = field(default_factory=Limits)
    tuning_starts: int = 1
    grids: tuple[tuple[str, tuple[float, ...]], ...] = tuple(GRIDS.items())
    threads: int = 1
    name: str = "table1"

    @classmethod
    def quick(cls) -> Table1Settings:
        """Return a choice that takes about three minutes: one rank of each data set, two starts, two penalties each."""
        return cls(
            cells=(Cell("coil20", 20), Cell("cbcl", 10), Cell("tdt2", 10), Cell("reuters", 10)),
            starts=2,
            limits=Limits(most=10.0, patience=3.0, least=0.5),
            grids=(("hals", (1e-2, 1e-1)), ("anls", (1e-2, 1e-1)), ("admm", (1e-2, 1e-1))),
            name="table1-quick",
        )

    def all_cells(self) -> tuple[Cell, ...]:
        """Return the cells."""
        return self.cells or tuple(Cell(data, rank) for data in self.data for rank in self.ranks)

    def in_words(self) -> str:
        """Return a sentence that says what is run."""
        cells = ", ".join(f"{cell.data} r={cell.rank}" for cell in self.all_cells())
        grids = "; ".join(f"{name} {{{', '.join(f'{p:g}' for p in grid)}}}" for name, grid in self.grids)
        return (
            f"cells: {cells}; {self.starts} starts; ε = {', '.join(f'{e:g}' for e in self.epsilons)}; a run may take "
            f"{self.limits.patience:g} times what dyn-nolips took on the same start, at least {self.limits.least:g} s "
            f"and at most {self.limits.most:g} s; penalties tuned on {self.tuning_starts} other start(s) over: {grids}"
        )


@dataclass(frozen=True)
class Table1:
    """What there is after a run: the settings, rows of measured runs and of tuning."""

    settings: Table1Settings
    rows: list[Row]
    tuning: list[Row]


def stores(folder: str | os.PathLike[str], name: str = "table1") -> tuple[Store, Store]:
    """Return the tables of measured runs and of tuning runs."""
    return Store(folder, name, COLUMNS, KEY), Store(folder, f"{name}-tuning", COLUMNS, KEY)


def run_table1(
    settings: Table1Settings,
    folder: str | os.PathLike[str],
    say: Say = print,
    progress: Say = lambda _: None,
) -> Table1:
    """Run what is not yet there and return the rows; a copy as parquet is made where that can be written.

    Parameters
    ----------
    settings : Table1Settings
        What to run.
    folder : path
        Where results are kept; an interrupted run goes on from there.
    say : callable
        Takes lines for the user: missing data sets, penalties chosen.
    progress : callable
        Takes a few words on what is being run.

    Returns
    -------
    Table1
    """
    table = measure_table1(settings, folder, say, progress)
    for store in stores(folder, settings.name):
        store.export()
    return table


def measure_table1(
    settings: Table1Settings, folder: str | os.PathLike[str], say: Say = print, progress: Say = lambda _: None
) -> Table1:
    """Run what is not yet there; several processes may do so at once, each its own cells or starts."""
    measured, tuning = stores(folder, settings.name)
    with measuring(settings.threads, (measured, settings.must_agree()), (tuning, settings.must_agree())):
        for case in loaded(settings.all_cells(), say):
            _run_cell(case, settings, measured, tuning, say, progress)
    return Table1(settings, measured.rows, tuning.rows)


def _run_cell(case: Case, settings: Table1Settings, measured: Store, tuning: Store, say: Say, progress: Say) -> None:
    targets = list(settings.epsilons)
    base = contestant("dyn-nolips")
    entries: list[tuple[Contestant, list[float]]] = []
    for name in settings.solvers:
        if name in GRIDS:
            chosen = tune(case, name, tuning, settings, say, progress)
            for parameter in sorted(set(chosen.values())):
                entries.append((contestant(name, parameter), [e for e in targets if chosen.get(e) == parameter]))
        elif name != base.name:
            entries.append((contestant(name), targets))
    if not settings.starts:
        return
    for who in (base, *(who for who, _ in entries)):
        warm_up(case, who)

    def entry(who: Contestant, aims: list[float]) -> Entry:
        return Entry(who.name, who.key, partial(_measure, case, who, aims, settings, measured))

    first = [entry(base, targets)]
    take_turns(
        measured, case.cell.title, case.cell.key, [entry(*each) for each in entries], settings.seeds(), progress, first
    )


def _measure(
    case: Case, who: Contestant, targets: list[float], settings: Table1Settings, store: Store, seed: int
) -> list[dict[str, Any]]:
    """Run one solver on one start, for those targets it has reached from every start before."""
    earlier = [row for row in store.find(**case.cell.key, **who.key) if int(row["seed"]) < seed]
    failed = {float(row["epsilon"]) for row in earlier if not row["seconds"]}
    left = [epsilon for epsilon in targets if epsilon not in failed]
    if not left:
        return []
    limit = settings.limits.most
    if who.name != "dyn-nolips":
        base = store.find(**case.cell.key, solver="dyn-nolips", seed=seed)
        limit = settings.limits.against(seconds_of(base, min(settings.epsilons)))
    return run_once(case, who, seed, left, limit, settings.threads > 1)


def rows_of(rows: list[Row], cell: Cell) -> list[Row]:
    """Return the rows of a cell."""
    return [row for row in rows if row["data"] == cell.data and int(row["rank"]) == cell.rank]


def complete_starts(rows: list[Row], cell: Cell) -> set[str]:
    """Return the starts of a cell from which everyone has been run, but for those who were out of the running."""
    seeds: dict[tuple[str, str], set[str]] = {}
    out = set()
    for row in rows_of(rows, cell):
        who = row["solver"], row["parameter"]
        seeds.setdefault(who, set()).add(row["seed"])
        if not row["seconds"]:
            out.add(who)
    starts = set().union(*(found for (name, _), found in seeds.items() if name == "dyn-nolips"))
    return starts.intersection(*(found for who, found in seeds.items() if who not in out))


def was_run(rows: list[Row], cell: Cell, solver: str) -> bool:
    """Tell whether a solver was run in a cell; one whose penalties all failed in tuning was, when others were."""
    there = {row["solver"] for row in rows_of(rows, cell)}
    return solver in there or (solver in GRIDS and bool(there - {"dyn-nolips", *GRIDS}))


def mean_seconds(rows: list[Row], cell: Cell, solver: str, epsilon: float) -> float | None:
    """Return the mean seconds to a target over the complete starts of a cell; None unless it was reached from all."""
    starts = complete_starts(rows, cell)
    times = {
        row["seed"]: float(row["seconds"])
        for row in rows_of(rows, cell)
        if row["solver"] == solver and float(row["epsilon"]) == epsilon and row["seconds"]
    }
    return mean(times[seed] for seed in starts) if starts and starts <= set(times) else None


def cells_of(rows: list[Row]) -> list[Cell]:
    """Return the cells the rows are of, in the paper's order."""
    found = {Cell(row["data"], int(row["rank"])) for row in rows}
    order = {name: at for at, name in enumerate(DATA)}
    return sorted(found, key=lambda cell: (order.get(cell.data, len(order)), cell.data, cell.rank))
