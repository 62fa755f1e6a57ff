"""Inertial NoLips: Bregman steps from extrapolated points, with restart."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, cast

from quartic.arrays import Array
from quartic.core.problem import Problem
from quartic.losses import Point
from quartic.solvers.base import COUNT, POSITIVE, Iterations, NoProgress, Requirements, Solver, State, checked


@dataclass(frozen=True)
class InertialState(State):
    """The iterate, the one before, Nesterov's θ, the step to try next, Ψ here, and whether a trial has failed.

    ``ahead`` has at most one array, the Gram matrix of the extrapolated point, where the trial has made it on the way;
    ``replay`` the iterations recorded on a device (`quartic.losses.Loss.replay`), which no checkpoint keeps.
    """

    listed = ("ahead",)

    previous: Point = None  # type: ignore[assignment]
    theta: float = 1.0
    next_step: float = 1.0
    objective: float = math.inf
    settled: bool = False
    ahead: tuple[Array, ...] = ()
    replay: Any = None

    def check(self, shape: tuple[int, int]) -> None:
        """Raise unless the Gram matrix goes with an X of this shape."""
        if not isinstance(self.ahead, tuple) or [tuple(S.shape) for S in self.ahead] not in ([], [shape[1:] * 2]):
            raise ValueError("the Gram matrix ahead does not go with X")


@dataclass(frozen=True)
class InertialNoLips(Solver):
    """X⁺ = T_λ(Y) from the extrapolated point Y = X + β(X − X₋).

    β = (θ − 1)/θ⁺ with θ⁺ = ½(1 + √(1 + 4θ²)) (Nesterov). The step λ is good enough if
    f(X⁺) ≤ f(Y) + ⟨∇f(Y), X⁺ − Y⟩ + D_h(X⁺, Y)/λ. It begins at 1, which is always safe and mostly far too short. So
    until a trial fails it is doubled as often as the last one says is safe; after that it is halved where a trial
    fails, and grows by a little where it does not: one trial in eight or so fails, where the doubling of Dyn-NoLips
    fails every second.

    A trial that fails, or raises the objective, has been paid for. Where M is linear (least squares) the best point on
    the way to it costs no product, and is taken if it is lower than X. Else the step is made again, shorter, or from X
    itself with θ = 1. The objective never increases.

    Where the loss extrapolates for free (least squares again), an iteration costs one product.

    Parameters
    ----------
    growth : float, default=1.1
        Factor of λ after a success, once a trial has failed.
    max_halvings : int, default=100
        How often a step is halved before the run is called stalled.

    Examples
    --------
    >>> from quartic import Problem, losses, minimize, penalties
    >>> sparse = Problem(losses.LeastSquares([[3.0, 0.0], [0.0, 2.0]]), penalties.L1(0.1))
    >>> result = minimize(sparse, rank=2, solver="inertial", tol=1e-6, random_state=0)
    >>> int((result.X != 0).sum())
    2
    """

    name = "inertial"
    requires = Requirements(kernel=True)
    state = InertialState
    checks = checked(growth=POSITIVE, max_halvings=COUNT)

    growth: float = 1.1
    max_halvings: int = 100

    def init(self, problem: Problem, X0: Array) -> InertialState:
        p = problem.loss.at(X0)
        return InertialState(p, previous=p, objective=problem.objective(p))

    def step(self, problem: Problem, state: State) -> InertialState:
        s = cast(InertialState, state)
        beta, theta = _momentum(s.theta)
        if beta > 0:
            new = self._descend(problem, s, problem.loss.extrapolate(s.point, s.previous, beta, *s.ahead), theta)
            if new is not None and new.objective <= s.objective:
                return new
            between = None if new is None else problem.best_between(s.point, new.point)
            if new is not None and between is not None:
                return replace(new, point=between, objective=problem.objective(between), theta=1.0, ahead=())
            del new
        new = self._descend(problem, s, s.point, _momentum(1.0)[1])
        if new is None:
            raise NoProgress("no step decreases the objective enough")
        return new

    def advance(self, problem: Problem, state: State, most: int, target: float) -> tuple[State, Iterations]:
        s = cast(InertialState, state)
        replay = problem.loss.replay(problem, s.point, s.replay, "inertial", self.growth) if most > 1 else None
        if replay is None:
            return self.step(problem, state), ()
        replay.load(s.point, s.previous, s.theta, s.next_step, s.objective, s.settled)
        made = replay.run(most, target)
        if not made:
            return replace(self.step(problem, state), replay=replay), ()
        point, previous, theta, next_step, objective, settled = replay.state()
        new = InertialState(point, made[-1][2], previous, theta, next_step, objective, settled, replay=replay)
        return new, made

    def _descend(self, problem: Problem, s: InertialState, p: Point, theta: float) -> InertialState | None:
        """Return T_λ(p) for the first λ that decreases enough, or the best point on the way to one that does not."""
        step, settled, (ahead, _) = s.next_step, s.settled, _momentum(theta)
        for _ in range(self.max_halvings):
            trial = problem.trial(p, step, ahead)
            if trial.enough:
                growth = self.growth if settled else max(self.growth, _first_growth(trial.taken))
                objective, made = problem.objective(trial.point), () if trial.ahead is None else (trial.ahead,)
                return InertialState(trial.point, step, s.point, theta, growth * step, objective, settled, made)
            settled = True
            between = problem.best_between(s.point, trial.point)
            if between is not None:
                return InertialState(between, step, s.point, theta, step / 2, problem.objective(between), settled)
            step /= 2
            del trial  # memory is short where arrays are large
        return None


def _first_growth(taken: float) -> float:
    """Return what λ may be multiplied by, when the last step took up such a part of what it was allowed.

    A power of two, at most eight: λ must not depend on how the part was rounded.
    """
    return next((growth for growth in (8.0, 4.0, 2.0) if growth * taken <= 0.9), 1.0)


def _momentum(theta: float) -> tuple[float, float]:
    """Return Nesterov's β for this θ, and the θ after it."""
    following = 0.5 * (1 + math.sqrt(1 + 4 * theta**2))
    return (theta - 1) / following, following
