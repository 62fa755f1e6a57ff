"""The cases, and who watches a run on them: the cells of the paper's Table 1, and its helix, exact or with noise."""

from __future__ import annotations

import csv
import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import Array
from quartic.bench.harness import Row, Watch
from quartic.core.loop import minimize, referee
from quartic.core.problem import Problem
from quartic.datasets import helix, load_similarity, pair_distances, planted_graph, random_pairs
from quartic.init import random_start
from quartic.losses import Distances, LeastSquares
from quartic.metrics import normalized_rmse
from quartic.penalties import Nonnegative

DATA = ("coil20", "cbcl", "tdt2", "reuters")
RANKS = (10, 20, 30, 40)

#: Table 1 of the paper: seconds to ε = 1e-3, mean of ten starts, on the authors' machine; nothing where it has a dash.
with resources.files(__package__).joinpath("paper_table1.csv").open(encoding="utf-8") as _file:
    PAPER = {row.pop("case"): {name: float(s) for name, s in row.items() if s} for row in csv.DictReader(_file)}

_NEAR = 1.25  # an iterate whose error, as the run saw it, is within this factor of a target is measured by the referee


class Enough(StopIteration):
    """Raised within a run to end it, as `quartic.minimize` lets callbacks do."""


class Recorder:
    """Watches a run: notes, off the clock, when each target was reached, or the error along the way.

    ``measure`` takes X and returns a row with its ``error``, by the referee, not by what the run believes. The run ends
    when all ``targets`` are reached or ``limit`` seconds are over. ``curve``: measure at times that grow by a constant
    factor, and keep the points. ``reference``: stationarity of the start, where errors are shares of it; a run's own
    then tells which iterates are worth measuring. Else iterates are kept, and judged when the run has ended.
    """

    def __init__(
        self, measure: Callable[[Array], Row], targets: Sequence[float] = (), limit: float = np.inf,
        wall: bool = False, curve: bool = False, reference: float = 0.0,
    ) -> None:  # fmt: skip
        self.measure, self.targets, self.limit, self.reference = measure, targets, limit, reference
        self.curve: list[tuple[float, Row]] | None = [] if curve else None
        self.kept: list[tuple[float, Array, Row]] = []
        self.found: Row = {}
        self.watch = Watch(wall)

    def see(self, X: Array, stationarity: float = 0.0, **facts: Any) -> None:
        """Look at an iterate, and note the facts with a target; raise `Enough` when all is reached or time is up."""
        now = self.watch.seconds()
        with self.watch.paused():
            if self.curve is not None:
                if not self.curve or now >= 1.08 * self.curve[-1][0]:
                    self.curve.append((now, self.measure(X)))
                    self._note(*self.curve[-1], facts)
            elif not self.reference:
                self.kept.append((now, np.array(X, copy=True), facts))
            elif any(stationarity <= _NEAR * target * self.reference for target in self._waiting()):
                self._note(now, self.measure(X), facts)
        if now > self.limit or (self.targets and not self._waiting()):
            raise Enough

    def __call__(self, progress: Any) -> None:
        """Be the callback of `quartic.minimize`."""
        self.see(progress.X, progress.stationarity, products=progress.n_products, iterations=progress.n_iter)

    def finish(self, X: Array | None = None) -> Row:
        """Return what was reached and when; ``X`` is the answer, if any, which may not be among the iterates seen."""
        spent = self.watch.seconds()
        error = cache(lambda k: self.measure(self.kept[k][1])["error"])
        for target in self._waiting():  # the first at it of those kept, if any: errors fall along a run
            at = bisect_left(range(len(self.kept)), -target, key=lambda k: -error(k))
            if at < len(self.kept):
                now, iterate, facts = self.kept[at]
                self._note(now, self.measure(iterate), facts)
        if X is None and self.kept:
            X = self.kept[-1][1]
        if X is not None:
            measured = self.measure(X)
            self._note(spent, measured, {})
            if self.curve is not None:
                self.curve.append((spent, measured))
            self.found["error"] = measured["error"]
        return {**self.found, "spent": spent}

    def _waiting(self) -> list[float]:
        return [target for target in self.targets if f"s to {target:g}" not in self.found]

    def _note(self, now: float, measured: Row, facts: Mapping[str, Any]) -> None:
        self.found["error"] = measured["error"]
        for target in self._waiting():
            if measured["error"] <= target:
                row = {"s": now, **facts, **{k: v for k, v in measured.items() if k != "error"}}
                self.found |= {f"{name} to {target:g}": value for name, value in row.items()}


@dataclass(frozen=True)
class Cell:
    """A similarity matrix and a rank; ``data`` may also be ``planted-<n>-<communities>``."""

    data: str
    rank: int

    def __str__(self) -> str:
        return f"{self.data}:{self.rank}"

    @classmethod
    def parse(cls, text: str) -> Cell:
        """Return the cell written ``data:rank``."""
        found = re.fullmatch(rf"({'|'.join(DATA)}|planted-[1-9]\d*-[1-9]\d*):([1-9]\d*)", text)
        if not found:
            raise ValueError(f"{text!r} is not a cell: write data:rank, as in tdt2:20; data sets: {', '.join(DATA)}")
        return cls(found[1], int(found[2]))

    def load(self) -> Case:
        """Return the cell with its matrix; `quartic.datasets.DatasetNotFound` where that is not there."""
        if self.data.startswith("planted-"):
            _, n, communities = self.data.split("-")
            return Case(self.data, self.rank, *planted_graph(int(n), int(communities), random_state=0))
        found = load_similarity(self.data)
        return Case(self.data, self.rank, found.matrix, found.labels)


@dataclass(frozen=True, eq=False)
class Case(Cell):
    """A cell with its matrix, and the labels where there are any."""

    matrix: Any
    labels: Any = None

    def problem(self) -> Problem:
        """Return the problem with a loss of its own: constants that one run works out are not free for the next."""
        return Problem(LeastSquares(self.matrix), Nonnegative())

    @cached_property
    def judge(self) -> Problem:
        """The referee's own problem."""
        return self.problem()

    def start(self, seed: int) -> Array:
        """Return the paper's random start, at which ε refers to the projected gradient, whatever start is then used."""
        return random_start(self.judge, self.rank, np.random.default_rng(seed))

    def recorder(self, seed: int, targets: Sequence[float] = (), limit: float = np.inf, **how: bool) -> Recorder:
        """Return what watches a run: ``error`` is the share of the start's projected gradient that is left."""
        reference = referee(self.judge, self.start(seed))[1]

        def measure(X: Array) -> Row:
            objective, stationarity = referee(self.judge, X)
            return {"error": stationarity / reference, "objective": objective}

        return Recorder(measure, targets, limit, reference=reference, **how)


@dataclass(frozen=True)
class Helix:
    """n points of the paper's helix, a share of whose distances is known, maybe with relative noise."""

    n: int
    known: float = 0.1
    noise: float = 0.0

    rank = 3

    def __str__(self) -> str:
        return f"helix {self.n}:{self.known:g}" + (f":{self.noise:g}" if self.noise else "")

    @classmethod
    def parse(cls, text: str) -> Helix:
        """Return the helix written ``points:share`` or ``points:share:noise``."""
        try:
            points, *shares = text.split(":")
            found = cls(int(points), *map(float, shares))
            if not shares or found.n < 4 or not 0 < found.known <= 1:
                raise ValueError
        except (ValueError, TypeError):
            raise ValueError(f"{text!r} is not a helix: write points:share known, as in 5000:0.1") from None
        return found

    def load(self) -> Helix:
        """Return itself: it is made, not read."""
        return self

    @cached_property
    def truth(self) -> NDArray[np.float64]:
        """The points."""
        return helix(self.n, random_state=0)

    @cached_property
    def pairs(self) -> NDArray[np.int64]:
        """Pairs whose distance is known."""
        return random_pairs(self.n, self.known, random_state=1)

    @cached_property
    def distances(self) -> NDArray[np.float64]:
        """Their distances, as measured."""
        exact: NDArray[np.float64] = pair_distances(self.truth, self.pairs)
        return exact * np.abs(1 + self.noise * np.random.default_rng(2).standard_normal(len(exact)))

    def problem(self) -> Problem:
        """Return a new problem; sorting the pairs is part of what is timed."""
        return Problem(Distances(self.pairs, self.distances**2, n_points=self.n))

    def measure(self, X: Array) -> Row:
        """Return the normalised RMSE over all distances, known or not."""
        return {"error": float(normalized_rmse(X, self.truth))}

    @cached_property
    def target(self) -> float:
        """The error to be reached: 1e-6 where distances are exact, else 1.01 times that of the minimiser."""
        best = minimize(self.problem(), self.truth, solver="lm", tol=1e-8).X if self.noise else self.truth
        return 1.01 * float(self.measure(best)["error"]) if self.noise else 1e-6

    def recorder(self, seed: int, targets: Sequence[float] = (), limit: float = np.inf, **how: bool) -> Recorder:
        """Return what watches a run; what would be made at first use is made now, off the clock."""
        _ = self.distances
        return Recorder(self.measure, targets, limit, **how)


def parse_case(text: str) -> Cell | Helix:
    """Return the case written ``data:rank``, or ``points:share[:noise]`` for a helix.

    Examples
    --------
    >>> from quartic.bench.cases import parse_case
    >>> str(parse_case("tdt2:20")), str(parse_case("5000:0.1"))
    ('tdt2:20', 'helix 5000:0.1')
    """
    text = text.removeprefix("helix ")
    return Helix.parse(text) if text[:1].isdigit() else Cell.parse(text)
