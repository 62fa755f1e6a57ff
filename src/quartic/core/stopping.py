"""When a run has come to its end, and what it says then."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from quartic.arrays import Array, astype, check_number, float_type, inner, norm, to_host
from quartic.arrays.checks import check_integer
from quartic.core.problem import Problem
from quartic.core.result import Status
from quartic.core.run_log import RunLog
from quartic.core.units import Units
from quartic.losses import Loss, Point
from quartic.solvers.base import NoProgress, State

# Stationarity within this factor of the gradient's round-off cannot be told from zero.
_ROUND_OFF = 4.0
# A solver that can go no further within this factor of it has come as far as its own arithmetic allows. In single
# precision a thousand times round-off would be a ten-thousandth of the gradient, which others still bring down.
_ROUND_OFF_OF_SOLVER = {np.float64: 1000.0, np.float32: 16.0}
# A fall by so many times the first objective, and by every doubling after, asks whether there is an end to it.
_DEEP = 10.0
# A run is stalled when neither objective nor stationarity has improved for so many iterations.
_PATIENCE = 500
# X = t·u is this small beside the X that the data ask for: what f has beyond its square there is below round-off.
_SMALL = 2.0**-27
_STARTS, _STEPS = 5, 40
# Where ⟨∇F(0), XXᵀ⟩ is less than this share of f, a gradient of at least this share of ‖∇F(0)‖‖X‖, and growing, is that
# of a saddle at 0.
_NEAR, _AS_LINEAR = 1e-2, 1e-3
# a bend below zero by less than this, beside ‖∇F(0)‖, may be round-off
_CLEAR = {np.float64: 1e-9, np.float32: 1e-5}
# To find a ray on which Ψ falls for ever, it is minimised from so many starts, so much larger than usual.
_FAR_STARTS, _LARGER, _FAR_STEPS = 6, 30.0, 30
# Ψ falls for ever if it falls by the square of t at this t, from a drop of so many times ‖∇F(0)‖²/L_F.
_FAR, _DROP = 2.0**23, 100.0


def check_limits(max_iter: Any, max_time: Any, callback: Any) -> None:
    """Raise unless these can limit iterations and seconds, and watch a run."""
    if not isinstance(max_iter, int | np.integer) or isinstance(max_iter, bool) or max_iter < 0:
        raise ValueError(f"max_iter must be a nonnegative integer, got {max_iter!r}")
    if max_time is not None and max_time != math.inf:
        check_number(max_time, "max_time", cure="; None is no limit")
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be a function of one argument, or None, got {callback!r}")


def check_estimator(model: Any) -> None:
    """Raise an error that names the first of the settings that all estimators have which makes no sense."""
    check_integer(model.n_components, "n_components", 1)
    check_integer(model.n_init, "n_init", 1)
    jobs = model.n_jobs
    if jobs is not None and (isinstance(jobs, bool) or not isinstance(jobs, int | np.integer) or jobs == 0):
        raise ValueError(f"n_jobs must be an integer, or None, and not 0, got {jobs!r}")
    check_number(model.tol, "tol", zero=True)
    check_limits(model.max_iter, model.max_time, model.callback)


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
        if not self.log.n_iter:
            where = f"the {what} is not finite at the start (iteration 0); give another X0"
        where += f"; {self.problem.loss.advice}" if self.problem.loss.advice else ""
        return End(Status.NON_FINITE, where, judged=judged)

    def _at_saddle(self, point: Point) -> bool:
        """Tell whether X is no answer, being zero or next to nothing: stationarity vanishes at 0 whatever the data."""
        loss, length, value = self.problem.loss, norm(point.X), abs(float(point.value))
        gradient, half = loss.gradient_norm_at_zero * length, loss.degree // 2
        linear = gradient * length ** (half - 1)  # bounds |⟨∇F(0), XXᵀ⟩|, or the slope at a kink times ‖X‖
        # on the way out the gradient is 2∇F(0)X, unless F has a kink at 0 as raw stress has: it is small since X is
        rows = self.log.rows
        leaves = len(rows) < 2 or rows[-1].stationarity > rows[-2].stationarity
        near = loss.degree > 2 and linear <= _NEAR * value and rows[-1].stationarity >= _AS_LINEAR * gradient
        return ((near and leaves) or linear <= _SMALL**half * value) and self._falls_from_zero

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


# -- what Ψ does on rays from X = 0: whether it falls there, so that 0 is no answer, or for ever -----------------------


def objective_falls_from_zero(problem: Problem) -> bool:
    """Tell whether some feasible direction u was found in which Ψ falls from 0: then 0 is no answer but a saddle.

    f(tu) − f(0) = t²⟨∇F(0), uuᵀ⟩ + O(t⁴), so for a penalty that is no more than quadratic at 0 the question is whether
    ∇F(0) has a negative eigenvalue, or uᵀ∇F(0)u < 0 for some u ≥ 0. u is sought by power iterations, projected where
    X ≥ 0. A penalty with a kink at 0, such as ℓ1, holds X there, and 0 is a local minimum. For X ≥ 0 deciding this
    for certain is as hard as telling whether a matrix is copositive; a few starts are tried.
    """
    loss, penalty = problem.loss, problem.penalty
    size = loss.gradient_norm_at_zero
    if not loss.rotations or not (0 < size < np.inf):
        return False
    generator = np.random.default_rng(0)
    length = _SMALL * norm(to_host(loss.random_start(1, penalty.nonnegative, generator)))
    if not length > 0:
        return False
    for _ in range(_STARTS):
        u = generator.standard_normal((loss.n_points, 1))
        u = np.abs(u) if penalty.nonnegative else u
        for _ in range(_STEPS):
            u = (u / norm(u)).astype(loss.dtype, copy=False)
            product = _product(loss, u, length)
            bend = inner(u, product) + (penalty.value(length * u) - penalty.value(0 * u)) / length**2
            if bend < -_CLEAR[loss.dtype] * size:
                return True
            u = size * u - product
            u = np.maximum(u, 0) if penalty.nonnegative else u
            if not (np.isfinite(u).all() and u.any()):
                break
    return False


def _product(loss: Loss, u: Array, length: float) -> Array:
    """Return ∇F(0)u, from the gradient 2∇F(t²uuᵀ)tu close to 0."""
    there = loss.space.adopt(np.ascontiguousarray(loss.dtype(length) * u))
    return to_host(loss.at(there).gradient) / (2 * length)


def objective_falls_for_ever(problem: Problem, X: Array) -> bool:
    """Tell whether Ψ(tX) falls without end, to working precision: then it has no minimiser.

    F(Y) ≥ F(0) + ⟨∇F(0), Y⟩ + ½μ‖Y‖² ≥ F(0) − ‖∇F(0)‖²/(2μ) wherever F curves by μ or more. On the ray through XXᵀ a
    loss with F quadratic is F(0) − bt² + at⁴. Where bt² is still all there is at t = 2²³, after a drop b of a hundred
    times ‖∇F(0)‖²/L_F, the curvature of F along the ray is below eps·L_F: as good as none. In float64, two or three
    products.
    """
    loss = problem.loss
    if loss.infimum > -math.inf:
        return False
    X = astype(X, np.float64)
    origin = problem.objective(loss.at(0 * X))
    drop = origin - problem.objective(loss.at(X))
    scale = loss.gradient_norm_at_zero**2 / loss.smoothness
    if not (drop > _DROP * scale and math.isfinite(drop)):
        return False
    if drop > scale / (2 * float(np.finfo(np.float64).eps)):
        return True
    fall = origin - problem.objective(loss.at(_FAR * X))
    return bool(fall >= 0.25 * _FAR**2 * drop)


def find_endless_fall(problem: Problem, rank: int) -> bool:
    """Tell whether Ψ was found to fall for ever somewhere, though a run has come to rest.

    For quadratic F without a known infimum: far out the quartic term rules, and a descent leads to where it
    vanishes, if there is such a place.
    """
    from quartic.solvers.lbfgs import LBFGS

    loss, penalty, solver = problem.loss, problem.penalty, LBFGS()
    if solver.requires.unmet(problem) is not None:
        return False
    generator = np.random.default_rng(0)
    for _ in range(_FAR_STARTS):
        start = loss.random_start(rank, penalty.nonnegative, generator)
        state = solver.init(problem, astype(_LARGER * start, loss.dtype))
        try:
            for _ in range(_FAR_STEPS):
                if not state.point.rounding < problem.stationarity(state.point) < math.inf:
                    break
                state = solver.step(problem, state)
        except NoProgress:
            pass
        if objective_falls_for_ever(problem, state.point.X):
            return True
    return False
