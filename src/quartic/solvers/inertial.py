"""Inertial NoLips: Bregman steps from extrapolated points, with restart."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

from quartic.arrays import Array, check_count, check_number
from quartic.losses import Point
from quartic.problem import Problem
from quartic.solvers.base import NoProgress, Requirements, Solver, State


@dataclass(frozen=True)
class InertialState(State):
    """The iterate, the one before it, Nesterov's θ, the step to try next, and the objective here."""

    previous: Point = None  # type: ignore[assignment]
    theta: float = 1.0
    next_step: float = 1.0
    objective: float = math.inf


@dataclass(frozen=True)
class InertialNoLips(Solver):
    """X⁺ = T_λ(Y) from the extrapolated point Y = X + β(X − X₋).

    β = (θ − 1)/θ⁺ with θ⁺ = ½(1 + √(1 + 4θ²)) (Nesterov). The step λ is halved until
    f(X⁺) ≤ f(Y) + ⟨∇f(Y), X⁺ − Y⟩ + D_h(X⁺, Y)/λ, and grows by a little after a success: one trial in seven or so
    fails, where the doubling of Dyn-NoLips fails every second. When the objective rises the step is taken again from
    X itself, with θ = 1, which keeps the objective from ever increasing.

    Where the loss extrapolates for free (least squares: M Y is linear), an iteration costs one product.

    Parameters
    ----------
    growth : float, default=1.1
        Factor of λ after a success.
    max_halvings : int, default=100
        How often a step is halved before the run is called stalled.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic import Problem, minimize
    >>> from quartic.losses import LeastSquares
    >>> from quartic.penalties import Nonnegative
    >>> M = np.kron(np.eye(2), np.ones((3, 3)))
    >>> problem = Problem(LeastSquares(M), Nonnegative())
    >>> minimize(problem, rank=2, solver="inertial", random_state=0).success
    True
    """

    name = "inertial"
    requires = Requirements(kernel=True)
    state = InertialState

    growth: float = 1.1
    max_halvings: int = 100

    def __post_init__(self) -> None:
        check_number(self.growth, "growth")
        check_count(self.max_halvings, "max_halvings")

    def init(self, problem: Problem, X0: Array) -> InertialState:
        """Return the state at X0."""
        p = problem.loss.at(X0)
        return InertialState(p, previous=p, objective=problem.objective(p))

    def step(self, problem: Problem, state: State) -> InertialState:
        """Return one step from the extrapolated point, or from X if that rises."""
        s = cast(InertialState, state)
        beta, theta = _momentum(s.theta)
        if beta > 0:
            origin = problem.loss.extrapolate(s.point, s.previous, beta)
            new = self._descend(problem, origin, s.next_step, theta)
            if new is not None and problem.objective(new[0]) <= s.objective:
                return self._after(problem, s, *new, theta)
        _, theta = _momentum(1.0)
        new = self._descend(problem, s.point, s.next_step, theta)
        if new is None:
            raise NoProgress("no step decreases the objective enough")
        return self._after(problem, s, *new, theta)

    def _descend(self, problem: Problem, p: Point, step: float, theta: float) -> tuple[Point, float] | None:
        """Return T_λ(p) for the first λ that decreases enough, and that λ; θ is for what comes after it."""
        ahead, _ = _momentum(theta)
        for _ in range(self.max_halvings):
            move = problem.bregman_move(p, step, ahead)
            if problem.sufficient_decrease(move, step):
                return move.point, step
            step /= 2
        return None

    def _after(self, problem: Problem, s: InertialState, new: Point, step: float, theta: float) -> InertialState:
        return InertialState(new, step, s.point, theta, self.growth * step, problem.objective(new))


def _momentum(theta: float) -> tuple[float, float]:
    """Return Nesterov's β for this θ, and the θ after it."""
    following = 0.5 * (1 + math.sqrt(1 + 4 * theta**2))
    return (theta - 1) / following, following
