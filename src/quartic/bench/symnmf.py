"""One cell of Table 1: a similarity matrix and a rank, and how one run on it is timed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from quartic.bench.paper_numbers import DATA
from quartic.bench.watch import Watch
from quartic.core.loop import Progress, minimize, referee
from quartic.core.problem import Problem
from quartic.init import random_start, spectral_start
from quartic.losses import LeastSquares
from quartic.penalties import Nonnegative
from quartic.solvers import Solver

COLUMNS = ("data", "rank", "solver", "parameter", "seed", "epsilon", "seconds", "products", "iterations", "objective",
           "least", "status", "spent")  # fmt: skip
KEY = ("data", "rank", "solver", "parameter", "seed")

# An iterate whose stationarity, as the run saw it, is within this factor of the target is measured by the referee.
_NEAR = 1.25


@dataclass(frozen=True)
class Cell:
    """A data set and a rank.

    Parameters
    ----------
    data : str
        A name of `quartic.datasets.load_similarity`, or ``planted-<n>-<communities>`` for a planted graph.
    rank : int
        r.

    Examples
    --------
    >>> from quartic.bench import Cell
    >>> Cell("planted-200-3", 3).load().matrix.shape
    (200, 200)
    """

    data: str
    rank: int

    def load(self) -> Case:
        """Return the cell with its matrix; `quartic.datasets.DatasetNotFound` where that is not there."""
        from quartic.datasets import load_similarity, planted_graph

        if self.data.startswith("planted-"):
            _, n, communities = self.data.split("-")
            matrix, labels = planted_graph(int(n), int(communities), random_state=0)
            return Case(self, matrix, labels)
        found = load_similarity(self.data)
        return Case(self, found.matrix, found.labels)

    @property
    def title(self) -> str:
        """Its name for people."""
        return f"{self.data} r={self.rank}"

    @property
    def key(self) -> dict[str, Any]:
        """The columns that name it."""
        return {"data": self.data, "rank": self.rank}

    @classmethod
    def parse(cls, text: str) -> Cell:
        """Return the cell written ``data:rank``, as on the command line.

        Examples
        --------
        >>> from quartic.bench import Cell
        >>> Cell.parse("tdt2:20")
        Cell(data='tdt2', rank=20)
        """
        data, _, rank = text.partition(":")
        planted = re.fullmatch(r"planted-[1-9]\d*-[1-9]\d*", data)
        if (data not in DATA and not planted) or not re.fullmatch(r"[1-9]\d*", rank):
            raise ValueError(f"{text!r} is not a cell: write data:rank, as in tdt2:20; data sets: {', '.join(DATA)}")
        return cls(data, int(rank))


def loaded(cells: Iterable[Cell], say: Callable[[str], object]) -> Iterator[Case]:
    """Yield the cells with their matrices; say once of each data set that it is missing, and go on without it."""
    from quartic.datasets import DatasetNotFound

    absent: set[str] = set()
    for cell in cells:
        if cell.data in absent:
            continue
        try:
            yield cell.load()
        except DatasetNotFound as error:
            absent.add(cell.data)
            say(str(error))


@dataclass(frozen=True, eq=False)
class Case:
    """A cell with its matrix, and the labels where there are any."""

    cell: Cell
    matrix: Any
    labels: Any = None

    def problem(self) -> Problem:
        """Return the problem with a loss of its own: constants that one run works out are not free for the next."""
        return Problem(LeastSquares(self.matrix), Nonnegative())

    @cached_property
    def judge(self) -> Problem:
        """The referee's own problem."""
        return self.problem()

    def reference(self, seed: int) -> float:
        """Return ‖projected gradient‖ at the paper's start for a seed."""
        X0 = random_start(self.judge, self.cell.rank, np.random.default_rng(seed))
        return referee(self.judge, X0)[1]


@dataclass(frozen=True)
class Contestant:
    """A solver as it enters the table.

    ``parameter`` is the penalty of a tuned solver; ``spectral`` says that it makes a start of its own, as
    `quartic.SymNMF` does, whose time counts; else it begins at the paper's.
    """

    name: str
    solver: str | Solver
    parameter: float | None = None
    spectral: bool = False

    @property
    def key(self) -> dict[str, Any]:
        """The columns that name it."""
        return {"solver": self.name, "parameter": "" if self.parameter is None else float(self.parameter)}


@dataclass
class Marks:
    """The callback that notes when each target is reached, measured anew from the iterate, off the clock."""

    case: Case
    reference: float
    targets: list[float]
    watch: Watch
    limit: float
    reached: dict[float, dict[str, Any]] = field(default_factory=dict)
    least: float = np.inf

    def __call__(self, progress: Progress) -> None:
        """Look at an iterate."""
        now = self.watch.seconds()
        with self.watch.paused():
            share = progress.stationarity / self.reference
            waiting = [e for e in self.targets if e not in self.reached]
            if waiting and share <= _NEAR * max(waiting):
                objective, stationarity = referee(self.case.judge, progress.X)
                share = stationarity / self.reference
                for epsilon in waiting:
                    if share <= epsilon:
                        self.reached[epsilon] = {
                            "seconds": now,
                            "products": progress.n_products,
                            "iterations": progress.n_iter,
                            "objective": objective,
                        }
            self.least = min(self.least, share)
        if len(self.reached) == len(self.targets):
            raise StopIteration("all targets reached")
        if now > self.limit:
            raise StopIteration("out of time")


def run_once(
    case: Case, contestant: Contestant, seed: int, targets: list[float], limit: float, wall: bool = False
) -> list[dict[str, Any]]:
    """Run one solver from one start and return a row for each target; empty seconds where it was not reached.

    The clock starts before the loss is made of the matrix, so that set-up and starts count.
    """
    reference = case.reference(seed)
    watch = Watch(wall)
    marks = Marks(case, reference, sorted(targets, reverse=True), watch, limit)
    result = minimize(
        case.problem(), spectral_start if contestant.spectral else random_start, rank=case.cell.rank,
        solver=contestant.solver, tol=0.0, reference=reference, max_iter=10**9, callback=marks, random_state=seed,
    )  # fmt: skip
    if result.status == "interrupted":
        raise KeyboardInterrupt  # the loop takes Ctrl-C for the end of its run; here it means all of them
    spent = watch.seconds()
    if len(marks.reached) == len(targets):
        status = "reached"
    else:
        status = "out of time" if result.status == "callback" else str(result.status)
    common = {**case.cell.key, **contestant.key, "seed": seed, "least": marks.least, "status": status, "spent": spent}
    return [{**common, "epsilon": epsilon, **marks.reached.get(epsilon, {})} for epsilon in targets]


def warm_up(case: Case, contestant: Contestant) -> None:
    """Have everything compiled."""
    start: Callable[..., Any] = spectral_start if contestant.spectral else random_start
    minimize(case.problem(), start, rank=case.cell.rank, solver=contestant.solver, max_iter=2, random_state=0)
