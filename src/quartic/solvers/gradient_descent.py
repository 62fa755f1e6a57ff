"""Gradients with Armijo's rule: descent, and along the projection arc (Lin 2007; Kuang, Yun and Park 2015)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from quartic.arrays import Array, inner, is_zero, norm
from quartic.core.problem import Problem
from quartic.losses import Point
from quartic.solvers.base import COUNT, NoProgress, Requirements, Solver, State, below, checked
from quartic.solvers.nolips import DynState


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
    checks = checked(sufficient_decrease=below(1.0), max_halvings=COUNT)

    sufficient_decrease: float = 1e-4
    max_halvings: int = 100

    def step(self, problem: Problem, state: State) -> DynState:
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


@dataclass(frozen=True)
class ProjectedGradient(AlongGradient):
    """X⁺ = max(X − t∇f(X), 0), with Ψ(X⁺) − Ψ(X) ≤ σ(⟨∇f(X), X⁺ − X⟩ + g(X⁺) − g(X)).

    The step starts where the last one ended. While the condition holds, t grows by 1/β; as soon as it fails, the last
    good step is taken. If it fails at once, t shrinks by β until it holds.

    Parameters
    ----------
    beta : float, default=0.1
        Factor between the steps tried.
    sigma : float, default=0.01
        The share of the predicted decrease that must be seen.
    max_trials : int, default=60
        Steps tried before the run is called stalled.

    Examples
    --------
    >>> from quartic import SymNMF, datasets, solvers
    >>> model = SymNMF(2, solver=solvers.ProjectedGradient(beta=0.5), random_state=0)
    >>> model.fit(datasets.karate().adjacency).result_.success
    True
    """

    name = "pg"
    requires = Requirements(penalty=("nonnegative",))
    checks = checked(beta=below(1.0), sigma=below(1.0), max_trials=COUNT)

    beta: float = 0.1
    sigma: float = 0.01
    max_trials: int = 60

    def step(self, problem: Problem, state: State) -> DynState:
        p, step = state.point, cast(DynState, state).next_step
        found = self._try(problem, p, step)
        growing = found is not None
        for _ in range(self.max_trials):
            trial = step / self.beta if growing else step * self.beta
            following = self._try(problem, p, trial)
            if growing and (following is None or (found is not None and bool((following.X == found.X).all()))):
                break
            step, found = trial, following
            if not growing and found is not None:
                break
        if found is None:
            raise NoProgress(f"no step down to {step:.1e} along the projected gradient decreases the objective")
        return DynState(found, step=step, next_step=step)

    def _try(self, problem: Problem, p: Point, step: float) -> Point | None:
        """Return the point at this step if it decreases enough.

        A long step may cut every entry off. From a large start that is a decrease, but 0 is a saddle, which no step
        leaves, unless the penalty pulls towards it.
        """
        X = problem.penalty.prox(p.X - step * p.gradient, step)
        move, cut_off = problem.move(p, X), is_zero(X)
        predicted = inner(p.gradient, move.D) + problem.penalty.change(p.X, X)
        if not move.remainder <= (self.sigma - 1) * predicted + move.allowance:
            return None
        return None if cut_off and is_zero(problem.penalty.smooth_gradient(X, X)) else move.point
