"""What a run has seen so far: a row an iteration, the best point, and when anything last got better."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from quartic.compiled.clock import solving_time
from quartic.core.problem import Problem
from quartic.core.result import History
from quartic.core.units import Units
from quartic.losses import Point
from quartic.solvers.base import Iterations, Solver, State


class Row(NamedTuple):
    """One iteration, in the run's own units."""

    time: float
    objective: float
    stationarity: float
    n_products: int
    step: float


class RunLog:
    """The record of one run, that of the runs it goes on from included (``earlier_time``, ``earlier_products``).

    ``rows`` are the start's, then one an iteration; ``best`` is the finite point of least objective, ``least`` the
    least stationarity, and in iteration ``last_gain`` it or the objective last fell. ``reference`` is the
    stationarity that tol is a share of. In iteration ``doubted`` convergence was last claimed and not believed.
    """

    best: Point
    best_objective: float
    reference: float

    def __init__(self, problem: Problem, started: float) -> None:
        self.problem, self.started = problem, started
        self.rows: list[Row] = []
        self.least, self.last_gain, self.doubted = math.inf, 0, -1
        self.earlier_time, self.earlier_products = 0.0, 0

    @property
    def n_iter(self) -> int:
        """Iterations done: the rows but for the start's."""
        return len(self.rows) - 1

    @property
    def latest(self) -> Row:
        """The last row."""
        return self.rows[-1]

    def begin(self, state: State, reference: float | None) -> None:
        """Take note of the start; without a reference its stationarity is the one."""
        self.best, self.best_objective = state.point, math.inf
        self.reference = self.problem.stationarity(state.point) if reference is None else float(reference)
        self.record(state)
        self.least = self.latest.stationarity

    def record(self, state: State, made: Iterations = ()) -> None:
        """Take note of an iterate, and of those before it that were made together, each below the last."""
        point = state.point
        if len(made) > 1:
            since, now, products = self.latest.time, self.elapsed(), self.latest.n_products
            for k, (objective, stationarity, step, passes) in enumerate(made[:-1], 1):
                seconds, products = since + k / len(made) * (now - since), products + passes
                self.rows.append(Row(seconds, objective, stationarity, products, step))
        self.problem.begin(point)
        objective, stationarity = self.problem.objective(point), self.problem.stationarity(point)
        self.rows.append(Row(self.elapsed(), objective, stationarity, self.products(), state.step))
        if objective < self.best_objective and math.isfinite(objective) and math.isfinite(stationarity):
            self.best, self.best_objective = point, objective
            self.last_gain = self.n_iter
        if self.n_iter and stationarity < self.least:
            self.least, self.last_gain = stationarity, self.n_iter

    def correct(self, stationarity: float) -> None:
        """Put in place of the last stationarity one that was measured afresh."""
        self.rows[-1] = self.latest._replace(stationarity=stationarity)

    def elapsed(self) -> float:
        """Return the seconds so far, without those of compiling."""
        return self.earlier_time + solving_time() - self.started

    def products(self) -> int:
        """Return the products so far."""
        return self.earlier_products + self.problem.loss.n_products

    def history(self, units: Units, solver: Solver) -> History:
        """Return the rows as columns, in the user's units."""
        seconds, objective, stationarity, products, step = (np.array(column) for column in zip(*self.rows, strict=True))
        return History(
            seconds,
            units.objective(objective),
            units.gradient(stationarity),
            products.astype(np.int64),
            units.step(step, solver.unit_of_step(self.problem)),
        )
