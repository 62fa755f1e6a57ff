"""When a run has come to its end, and what it says then."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from quartic.arrays import float_type, is_zero
from quartic.core.problem import Problem
from quartic.core.rays import find_endless_fall, objective_falls_for_ever, objective_falls_from_zero
from quartic.core.result import Status
from quartic.core.run_log import RunLog
from quartic.core.units import Units
from quartic.losses import Point
from quartic.solvers.base import State

# Stationarity within this factor of the gradient's round-off cannot be told from zero.
_ROUND_OFF = 4.0
# A solver that can go no further within this factor of it has come as far as its own arithmetic allows. In single
# precision a thousand times round-off would be a ten-thousandth of the gradient, which others still bring down.
_ROUND_OFF_OF_SOLVER = {np.float64: 1000.0, np.float32: 16.0}
# A fall by so many times the first objective, and by every doubling after, asks whether there is an end to it.
_DEEP = 10.0
# A run is stalled when neither objective nor stationarity has improved for so many iterations.
_PATIENCE = 500


@dataclass(frozen=True)
class End:
    """Why a run ends.

    A claim to have converged is only believed if fresh stationarity is within ``bound``; ``judged`` is the final point
    evaluated afresh, where that was done.
    """

    status: Status
    message: str
    bound: float = math.inf
    judged: Point | None = None


class Stopping:
    """Judges the latest iterate of a run by its tolerance and its limits."""

    def __init__(
        self, problem: Problem, units: Units, log: RunLog, tol: float, max_iter: int, max_time: float | None
    ) -> None:
        self.problem, self.units, self.log, self.tol = problem, units, log, tol
        self.max_iter, self.max_time = max_iter, math.inf if max_time is None else max_time
        self._depth = math.nan  # the objective below which to look next whether it falls for ever

    @property
    def target(self) -> float:
        """The stationarity at which the run has converged."""
        return self.tol * self.log.reference

    def in_time(self) -> int:
        """Return how many iterations, one at least, fit into the time that is left, by those made so far."""
        if math.isinf(self.max_time):
            return _PATIENCE
        done, spent = self.log.n_iter, self.log.latest.time
        return max(1, min(_PATIENCE, int(done * (self.max_time / spent - 1)))) if done and spent > 0 else 1

    def reason(self, state: State) -> End | None:
        """Return why the run ends at this state, the last in the log; None where it goes on."""
        log, (elapsed, objective, stationarity, _, _) = self.log, self.log.latest
        if not (math.isfinite(objective) and math.isfinite(stationarity)):
            return self._non_finite(objective)
        if self._is_deep(objective):
            if objective_falls_for_ever(self.problem, state.point.X):
                return self.unbounded()
            if self._has_no_minimiser:
                return self.unbounded("elsewhere")
        target, floor = self.target, _ROUND_OFF * state.point.rounding
        claims = log.doubted != log.n_iter and stationarity <= max(target, floor) and not self._at_saddle(state.point)
        if claims and self._has_no_minimiser:
            return self.unbounded("elsewhere")
        if claims and stationarity <= target:
            share = stationarity / log.reference if log.reference > 0 else 0.0  # the same in all units
            words = f"converged: stationarity is {share:.3e} of the reference (tol = {self.tol:g})"
            return End(Status.CONVERGED, words, target * (1 + 1e-6))
        if claims:
            return End(Status.CONVERGED, self._at_round_off(stationarity), 4 * floor)
        if log.n_iter >= self.max_iter:
            return End(Status.MAX_ITER, f"stopped at max_iter = {self.max_iter}{self._distance(stationarity)}")
        if elapsed >= self.max_time:
            return End(Status.MAX_TIME, f"stopped at max_time{self._distance(stationarity)}")
        if log.n_iter - log.last_gain >= _PATIENCE:
            return self.stalled(state, f": no gain in {_PATIENCE} iterations")
        return None

    @np.errstate(over="ignore", invalid="ignore")
    def stalled(self, state: State, words: str) -> End:
        """Tell why there was no progress; where a product made anew is not finite, no trial could have been better."""
        fresh = self.problem.loss.at(state.point.X)
        objective, stationarity = self.problem.objective(fresh), self.log.latest.stationarity
        if not (math.isfinite(objective) and math.isfinite(self.problem.stationarity(fresh))):
            return self._non_finite(objective, fresh)
        if self._at_saddle(state.point):
            words = "stalled at X = 0, a saddle from which the objective falls; try another start or solver"
            return End(Status.STALLED, words, judged=fresh)
        if objective_falls_for_ever(self.problem, fresh.X):
            return self.unbounded()
        bound = _ROUND_OFF_OF_SOLVER[float_type(fresh.X)] * state.point.rounding
        if stationarity <= bound and self.log.doubted != self.log.n_iter:
            return End(Status.CONVERGED, self._at_round_off(stationarity), 4 * bound, fresh)
        cure = self.problem.loss.advice or "try another solver or start"
        return End(Status.STALLED, f"stalled{words}{self._distance(stationarity, cure)}", judged=fresh)

    def unbounded(self, where: str = "along t·X") -> End:
        """Return the end of a run whose objective has no minimiser."""
        lowest = self.units.objective(self.log.best_objective)
        words = f"unbounded: the objective, {lowest:.3e} in iteration {self.log.n_iter}, falls without end {where}; "
        return End(Status.UNBOUNDED, words + "there is no minimiser: check the signs of the data, or add a penalty")

    def above_best(self, stationarity: float, objective: float, lowest: float) -> End:
        """Return the end at a stationary point that is higher than one seen before."""
        here, best, size = (
            self.units.objective(objective),
            self.units.objective(lowest),
            self.units.gradient(stationarity),
        )
        words = f"stalled: stationarity is down to {size:.3e}, but the objective there, {here:.6e}, is above the "
        return End(Status.STALLED, words + f"{best:.6e} of the best point seen, which is returned; try another solver")

    def interrupted(self) -> End:
        """Return the end by Ctrl-C."""
        words = f"interrupted in iteration {self.log.n_iter}; the best point so far is returned"
        return End(Status.INTERRUPTED, words)

    def by_callback(self, stop: StopIteration) -> End:
        """Return the end by the callback, with its words where it has some."""
        words = f": {stop}" if str(stop) else ""
        return End(Status.CALLBACK, f"stopped by the callback in iteration {self.log.n_iter}{words}")

    def _is_deep(self, objective: float) -> bool:
        """Tell whether it is time to look if the objective falls for ever: when it has doubled since the last time."""
        if self.problem.loss.infimum > -math.inf:
            return False
        if math.isnan(self._depth):
            first = self.log.rows[0].objective
            self._depth = first - _DEEP * abs(first)
        if not objective < self._depth:
            return False
        self._depth = objective - abs(objective)
        return True

    def _non_finite(self, objective: float, judged: Point | None = None) -> End:
        if objective_falls_for_ever(self.problem, self.log.best.X):
            return self.unbounded()
        what = "objective" if not math.isfinite(objective) else "gradient"
        where = f"the {what} became non-finite in iteration {self.log.n_iter}; the best point before it is returned"
        where += f"; {self.problem.loss.advice}" if self.problem.loss.advice else ""
        return End(Status.NON_FINITE, where, judged=judged)

    def _at_saddle(self, point: Point) -> bool:
        """Tell whether the point is zero and no answer: stationarity vanishes there whatever the data."""
        return is_zero(point.X) and self._falls_from_zero

    @cached_property
    def _has_no_minimiser(self) -> bool:
        loss = self.problem.loss
        may = loss.quadratic and loss.infimum == -math.inf
        return may and find_endless_fall(self.problem, self.log.best.X.shape[1])

    @cached_property
    def _falls_from_zero(self) -> bool:
        return objective_falls_from_zero(self.problem)

    def _at_round_off(self, stationarity: float) -> str:
        return f"converged: stationarity {self.units.gradient(stationarity):.3e} is at round-off"

    def _distance(self, stationarity: float, cure: str = "raise the limit or tol") -> str:
        share = stationarity / self.log.reference if self.log.reference > 0 else math.inf
        return f", with stationarity at {share:.1e} of the reference (tol = {self.tol:g}); {cure}"
