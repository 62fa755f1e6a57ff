"""Table 1 again: sixteen cells, the paper's solvers and ours, time to ε of the start's projected gradient."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from statistics import mean

from quartic.bench.contestants import GRIDS, SOLVERS, contestant
from quartic.bench.paper_numbers import DATA, RANKS
from quartic.bench.record import describe_machine
from quartic.bench.store import Row, Store
from quartic.bench.symnmf import COLUMNS, KEY, Case, Cell, Contestant, run_once, warm_up
from quartic.bench.threads import fixed_threads
from quartic.bench.tuning import Limits, seconds_of, tune
from quartic.datasets import DatasetNotFound

#: The paper's ε, and what it becomes where squared norms are compared, as the authors' code does.
EPSILONS = (1e-3, 0.0316)


@dataclass(frozen=True)
class Table1Settings:
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
    starts : int
        Random starts, seeds 0, 1, …
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

    data: tuple[str, ...] = DATA
    ranks: tuple[int, ...] = RANKS
    cells: tuple[Cell, ...] = ()
    solvers: tuple[str, ...] = SOLVERS
    starts: int = 10
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
    """What there is after a run: rows of measured runs and of tuning, the settings, and data sets that are missing."""

    settings: Table1Settings
    rows: list[Row]
    tuning: list[Row]
    missing: list[str]


def stores(folder: str | os.PathLike[str], name: str = "table1") -> tuple[Store, Store]:
    """Return the tables of measured runs and of tuning runs."""
    return Store(folder, name, COLUMNS, KEY), Store(folder, f"{name}-tuning", COLUMNS, KEY)


def run_table1(
    settings: Table1Settings,
    folder: str | os.PathLike[str],
    say: Callable[[str], object] = print,
    progress: Callable[[str], object] = lambda _: None,
) -> Table1:
    """Run what is not yet there and return the rows.

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
    measured, tuning = stores(folder, settings.name)
    missing: list[str] = []
    absent: set[str] = set()
    with fixed_threads(settings.threads) as threads:
        record = describe_machine(threads)
        for store in (measured, tuning):
            store.open(_must_agree(settings), record)
        for cell in settings.all_cells():
            if cell.data in absent:
                continue
            try:
                case = cell.load()
            except DatasetNotFound as error:
                absent.add(cell.data)
                missing.append(str(error))
                say(str(error))
                continue
            _run_cell(case, settings, measured, tuning, say, progress)
    for store in (measured, tuning):
        store.export()
    return Table1(settings, measured.rows, tuning.rows, missing)


def _must_agree(settings: Table1Settings) -> Table1Settings:
    """Rows belong together whatever cells, solvers and number of starts were asked for."""
    return replace(settings, data=(), ranks=(), cells=(), solvers=(), starts=0)


def _run_cell(
    case: Case,
    settings: Table1Settings,
    measured: Store,
    tuning: Store,
    say: Callable[[str], object],
    progress: Callable[[str], object],
) -> None:
    cell, targets, wall = case.cell, list(settings.epsilons), settings.threads > 1
    entries: list[tuple[Contestant, list[float]]] = []
    for name in settings.solvers:
        if name == "dyn-nolips":
            continue
        if name not in GRIDS:
            entries.append((contestant(name), targets))
            continue
        progress(f"{cell.data} r={cell.rank}: tuning {name}")
        grid = dict(settings.grids)[name]
        chosen = tune(case, name, tuning, targets, settings.limits, settings.tuning_starts, grid, wall, say)
        for parameter in sorted(set(chosen.values())):
            entries.append((contestant(name, parameter), [e for e in targets if chosen.get(e) == parameter]))
    base = contestant("dyn-nolips")
    for who, _ in [(base, targets), *entries]:
        warm_up(case, who)
    for seed in range(settings.starts):
        rows = _measure(case, base, seed, targets, settings.limits.most, measured, wall, progress)
        limit = settings.limits.against(seconds_of(rows, min(targets)))
        # Solvers take turns, in another order for each start: the machine's drift hits all alike.
        turn = list(entries)
        random.Random(seed).shuffle(turn)
        for who, aims in turn:
            _measure(case, who, seed, aims, limit, measured, wall, progress)


def _measure(
    case: Case,
    who: Contestant,
    seed: int,
    targets: list[float],
    limit: float,
    store: Store,
    wall: bool,
    progress: Callable[[str], object],
) -> list[Row]:
    """Run one solver on one start, for those targets it has reached from every start before."""
    key = {"data": case.cell.data, "rank": case.cell.rank, **who.key}
    if not store.has(**key, seed=seed):
        earlier = [row for row in store.find(**key) if int(row["seed"]) < seed]
        failed = {float(row["epsilon"]) for row in earlier if not row["seconds"]}
        left = [epsilon for epsilon in targets if epsilon not in failed]
        if not left:
            return []
        progress(f"{case.cell.data} r={case.cell.rank}: {who.name}, start {seed + 1}")
        store.add(run_once(case, who, seed, left, limit, wall))
    return store.find(**key, seed=seed)


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
