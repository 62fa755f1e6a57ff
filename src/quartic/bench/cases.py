"""The problems, and what records a run on them: the cells of the paper's Table 1, its helix, those of the league."""

from __future__ import annotations

import csv
import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib import resources
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from quartic.arrays import Array
from quartic.bench.harness import Row, Watch
from quartic.core.loop import minimize, referee
from quartic.core.problem import Problem
from quartic.datasets import helix, load_graph, load_similarity, pair_distances, planted_graph, random_pairs, swiss_roll
from quartic.graphs import similarity
from quartic.init import random_start, shortest_path_start, spectral_start
from quartic.losses import Distances, LeastSquares, RawStress
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
    when all ``targets`` are reached, or when ``limit`` seconds are over. ``curve``: measure at times that grow by a
    constant factor, and keep the points. ``reference``: stationarity of the start, where errors are shares of it; a
    run's own then tells which iterates are worth measuring. Else iterates are kept, and judged when the run has ended.
    """

    def __init__(
        self, measure: Callable[[Array], Row], targets: Sequence[float] = (), limit: float = np.inf,
        curve: bool = False, reference: float = 0.0,
    ) -> None:  # fmt: skip
        self.measure, self.targets, self.limit, self.reference = measure, targets, limit, reference
        self.curve: list[tuple[float, Row]] | None = [] if curve else None
        self.kept: list[tuple[float, Array, Row]] = []
        self.found: Row = {}
        self.watch = Watch()

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
    """A problem and who judges its runs.

    ``data`` is a data set, or drawn: planted-n-k, …, or for distances shape-n-known-noise. A cell of the paper's table
    has a ``rank``; a game of the league has a ``family`` and one kind of start for all, ``begin``, too. The error of a
    run is its stationarity, as a share of what it is at the paper's random start; of the paper's helix, which is no
    game, the normalised RMSE over all distances, known or not.
    """

    data: str
    rank: int
    family: str = "symnmf"
    begin: str = ""
    seed: int = 0

    @classmethod
    def helix(cls, n: int, known: float = 0.1, noise: float = 0.0) -> Cell:
        """Return n points of the paper's helix, a share of whose distances is known, maybe with relative noise."""
        return cls(f"helix-{n}-{known:g}-{noise:g}", 3, "edmc")

    @property
    def is_helix(self) -> bool:
        """Whether the true points are known to the referee."""
        return self.family == "edmc" and not self.begin

    def __str__(self) -> str:
        if self.is_helix:
            return self.data.removesuffix("-0").replace("-", " ", 1).replace("-", ":")
        return f"{self.family} {self.data}:{self.rank} {self.begin}" if self.begin else f"{self.data}:{self.rank}"

    def load(self) -> Cell:
        """Return the cell with data and start made, off the clock."""
        cell = replace(self)
        cell.start(self.seed)
        return cell

    @cached_property
    def given(self) -> Any:
        """The matrix and the labels, if any; or pairs, distances and the points."""
        rng = np.random.default_rng(self.seed)
        return load_matrix(self.data, rng) if self.family == "symnmf" else _distances(self.data, rng)

    def problem(self) -> Problem:
        """Return the problem with a loss of its own: constants that one run works out are not free for the next."""
        if self.family == "symnmf":
            return Problem(LeastSquares(self.given[0]), Nonnegative())
        pairs, d, X = self.given
        loss = RawStress(pairs, d, n_points=len(X)) if self.family == "stress" else Distances(pairs, d**2, len(X))
        return Problem(loss)

    @cached_property
    def judge(self) -> Problem:
        """The referee's own problem."""
        return self.problem()

    @property
    def smalls(self) -> Sequence[Cell]:
        """What methods are run on, so that all is compiled when they are timed; of a game it depends on the data.

        Of the small helices the second has pairs enough for a core, the third for chunks of rows. The small graph has
        too many rows for the sweeps that `auto` makes over few.
        """
        if self.is_helix:
            return Cell.helix(60, 0.5), Cell.helix(300, 1.0), Cell.helix(1000, 0.2)
        return (self if self.begin else Cell("planted-200-3", 3).load(),)

    def random(self, seed: int) -> Array:
        """Return the paper's random start, at which ε refers to stationarity, whatever start is then used."""
        rng = np.random.default_rng(seed)
        if self.family == "symnmf":
            return random_start(self.judge, self.rank, rng)
        return self.judge.loss.random_start(self.rank, False, rng)

    def start(self, seed: int) -> Array:
        """Return where rivals start: at random, or at a spectral start (for distances, scaled shortest paths)."""
        return self._spectral if self.begin == "spectral" else self.random(seed)

    @cached_property
    def _spectral(self) -> Array:
        rng = np.random.default_rng(self.seed)
        if self.family == "symnmf":
            return spectral_start(self.judge, self.rank, rng)
        pairs, d, X = self.given
        return shortest_path_start(pairs, d, len(X), self.rank, rng)

    def measure(self, X: Array) -> Row:
        """Return objective and stationarity by the referee; of the helix the error over all distances."""
        if self.is_helix:
            return {"error": float(normalized_rmse(X, self.given[2]))}
        objective, stationarity = referee(self.judge, X)
        return {"objective": objective, "error": stationarity}

    @cached_property
    def target(self) -> float:
        """The error to be reached on a helix: 1e-6 where distances are exact, else 1.01 times the minimiser's."""
        if self.data.endswith("-0"):
            return 1e-6
        best = minimize(self.problem(), self.given[2], solver="lm", tol=1e-8).X
        return 1.01 * float(self.measure(best)["error"])

    def recorder(self, seed: int, targets: Sequence[float] = (), limit: float = np.inf, **how: bool) -> Recorder:
        """Return what watches a run, whose error is 1 at the random start where it is one of stationarity."""
        if self.is_helix:
            _ = self.given  # made now, off the clock
            return Recorder(self.measure, targets, limit, **how)
        reference = self.measure(self.random(seed))["error"]

        def measure(X: Array) -> Row:
            found = self.measure(X)
            return {**found, "error": found["error"] / reference}

        return Recorder(measure, targets, limit, reference=reference, **how)


def parse_case(text: str) -> Cell:
    """Return the case written ``data:rank``, ``points:share[:noise]`` for a helix, or ``family what:rank start``."""
    if found := re.fullmatch(r"(?:helix )?(\d+):(0?\.\d+|1)(?::(0?\.\d+))?", text):
        return Cell.helix(int(found[1]), float(found[2]), float(found[3] or 0))
    if found := re.fullmatch(r"(symnmf|edmc|stress) (\S+):([1-9]\d*) (random|spectral)", text):
        return Cell(found[2], int(found[3]), found[1], found[4])
    if found := re.fullmatch(rf"({'|'.join(DATA)}|planted-[1-9]\d*-[1-9]\d*):([1-9]\d*)", text):
        return Cell(found[1], int(found[2]))
    raise ValueError(
        f"{text!r} is no case: write data:rank, as in tdt2:20 (data sets: {', '.join(DATA)}), points:share known of a "
        "helix, as in 5000:0.1, or family data:rank start, as in 'symnmf karate:2 random'"
    )


def load_matrix(what: str, rng: Any = None) -> tuple[Any, Any]:
    """Return matrix and labels of a data set, or drawn: planted-n-k, lfr-n-k, mixture-n-k, kernel-n-k (dense)."""
    kind, *sizes = what.split("-")
    if what in DATA or what == "orl":
        found = load_similarity(what)
        return found.matrix, found.labels
    if not sizes or not sizes[-1].isdigit():
        graph = load_graph(what)
        return graph.adjacency, graph.labels
    n, k = map(int, sizes)
    if kind == "planted":
        return planted_graph(n, k, random_state=rng)
    if kind == "lfr":
        return uneven_graph(n, k, 14, 0.7, 0.0, rng)
    labels = rng.integers(k, size=n)
    points = rng.standard_normal((n, 5)) + 4 * rng.standard_normal((k, 5))[labels]
    if kind == "mixture":
        return similarity(points, "self_tuning"), labels
    squares = ((points[:, None] - points) ** 2).sum(axis=2)
    K = np.exp(-squares / np.median(squares))
    return K / np.sqrt(np.outer(K.sum(axis=1), K.sum(axis=1))), labels


def uneven_graph(
    n: int, k: int, degree: float, within: float, spread: float, rng: np.random.Generator
) -> tuple[sp.csr_array, NDArray[np.int64]]:
    """Return a degree-corrected block model and its labels: unequal communities, degrees from a power law.

    ``within`` is the share of edges that stay inside; ``spread`` how unequal those between communities are.
    """
    labels = np.sort(rng.choice(k, n, p=rng.dirichlet(np.full(k, 4.0))))
    pull = rng.pareto(2.5, n) + 0.3
    pull = np.minimum(pull, 15 * pull.mean())
    total = np.bincount(labels, pull, k) / pull.sum()
    between = np.exp(spread * rng.standard_normal((k, k)))
    between = np.sqrt(between * between.T) * np.outer(total, total)
    counts = rng.poisson(n * degree / 2 * ((1 - within) * between / between.sum() + np.diag(within * total)))
    ends: list[list[NDArray[np.int64]]] = [[], []]
    for pair in np.argwhere(counts):
        for side, block in zip(ends, pair, strict=True):
            nodes = np.flatnonzero(labels == block)
            side.append(rng.choice(nodes, counts[tuple(pair)], p=pull[nodes] / pull[nodes].sum()))
    i, j = (np.concatenate(side) for side in ends)
    A = sp.csr_array((np.ones((i != j).sum()), (i[i != j], j[i != j])), shape=(n, n))
    A = sp.csr_array(A + A.T)
    A.data[:] = 1.0
    return A, labels


def _distances(what: str, rng: np.random.Generator) -> tuple[Any, Array, Array]:
    """Return pairs and distances of a shape written shape-n-known-noise, and its points."""
    shape, size, known, noise = what.split("-")
    n = int(size)
    X: Array = rng.standard_normal((n, 3))
    if shape == "helix":
        X = helix(n, random_state=rng)
    elif shape == "swiss":
        X = swiss_roll(n, random_state=rng)
    elif shape == "sphere":
        X = X / np.linalg.norm(X, axis=1, keepdims=True)
    elif shape == "cube":
        X = rng.random((n, 3))
    elif shape == "clusters":
        X = 0.2 * X + rng.standard_normal((5, 3))[rng.integers(5, size=n)]
    elif shape == "field":
        X = rng.random((n, 2))
    pairs = random_pairs(n, float(known), random_state=rng)
    exact = pair_distances(X, pairs)
    return pairs, exact * np.abs(1 + float(noise) * rng.standard_normal(len(pairs))), X
