"""Gradient descent with Armijo's rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from quartic.arrays import Array, check_count, check_number, inner, norm
from quartic.core.problem import Problem
from quartic.solvers.base import NoProgress, Requirements, Solver, State
from quartic.solvers.dyn_nolips import DynState


class AlongGradient(Solver):
    """What searches along the gradient begin with."""

    state = DynState
    step_unit = (2, 1)

    def init(self, problem: Problem, X0: Array) -> DynState:
        """Return the state at X0; the first step is as long as X0."""
        p = problem.loss.at(X0)
        slope = problem.stationarity(p)
        return DynState(p, next_step=float(norm(X0)) / slope if slope > 0 else 1.0)


@dataclass(frozen=True)
class GradientDescent(AlongGradient):
    """X⁺ = X − t∇Ψ(X), with t halved until Ψ(X⁺) ≤ Ψ(X) − c·t‖∇Ψ(X)‖², then doubled for the next iteration.

    Parameters
    ----------
    sufficient_decrease : float, default=1e-4
        c.
    max_halvings : int, default=100
        How often a step is halved before the run is called stalled.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic import Problem, minimize
    >>> from quartic.losses import LeastSquares
    >>> minimize(Problem(LeastSquares(np.eye(4))), rank=2, solver="gd", random_state=0).success
    True
    """

    name = "gd"
    requires = Requirements(penalty=("smooth",))

    sufficient_decrease: float = 1e-4
    max_halvings: int = 100

    def __post_init__(self) -> None:
        check_number(self.sufficient_decrease, "sufficient_decrease", below=1.0)
        check_count(self.max_halvings, "max_halvings")

    def step(self, problem: Problem, state: State) -> DynState:
        """Return the first X − t∇Ψ(X) that decreases enough."""
        p, step = state.point, cast(DynState, state).next_step
        G = problem.penalty.stationarity(p.X, p.gradient)  # ∇Ψ, since the penalty is smooth
        slope = inner(G, G)
        for _ in range(self.max_halvings):
            X = p.X - step * G
            move = problem.move(p, X)
            change = inner(p.gradient, move.D) + move.remainder + problem.penalty.change(p.X, X)
            if change <= -self.sufficient_decrease * step * slope + move.allowance:
                return DynState(move.point, step=step, next_step=2 * step)
            step /= 2
        raise NoProgress(f"no step down to {step:.1e} along the negative gradient decreases the objective")
