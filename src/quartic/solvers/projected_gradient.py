"""Projected gradient with Armijo's rule along the projection arc (Lin 2007; Kuang, Yun and Park 2015)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from quartic.arrays import check_count, check_number, inner, is_zero
from quartic.core.problem import Problem
from quartic.losses import Point
from quartic.solvers.base import NoProgress, Requirements, State
from quartic.solvers.dyn_nolips import DynState
from quartic.solvers.gradient_descent import AlongGradient


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

    beta: float = 0.1
    sigma: float = 0.01
    max_trials: int = 60

    def __post_init__(self) -> None:
        check_number(self.beta, "beta", below=1.0)
        check_number(self.sigma, "sigma", below=1.0)
        check_count(self.max_trials, "max_trials")

    def step(self, problem: Problem, state: State) -> DynState:
        """Return the point of the search."""
        p, step = state.point, cast(DynState, state).next_step
        found = self._try(problem, p, step)
        growing = found is not None
        for _ in range(self.max_trials):
            trial = step / self.beta if growing else step * self.beta
            following = self._try(problem, p, trial)
            if growing and (
                following is None or (found is not None and problem.loss.space.equal(following.X, found.X))
            ):
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
