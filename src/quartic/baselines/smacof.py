"""SMACOF: raw stress by majorisation (de Leeuw 1977), also with few distances known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from quartic.core.problem import Problem
from quartic.losses import RawStress
from quartic.solvers.base import Requirements, Solver, State, below, checked


@dataclass(frozen=True)
class SMACOF(Solver):
    """X⁺ = X − ω V⁺∇f(X), with V the graph Laplacian of the weights, and V⁺ its pseudo-inverse.

    V bounds raw stress from above: f(Y) ≤ f(X) + ⟨∇f(X), Y − X⟩ + ½⟨Y − X, V(Y − X)⟩ for all X and Y, since
    ‖y_i − y_j‖ is at least the length of its projection to the old direction. Its minimiser is Guttman's transform,
    ω = 1; f falls for every ω below 2, and near 2 it falls fastest (de Leeuw and Heiser 1980).

    Parameters
    ----------
    relaxation : float, default=1.0
        ω, above 0 and below 2.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic import Problem, minimize
    >>> from quartic.losses import RawStress
    >>> loss = RawStress([[0, 1], [1, 2], [0, 2]], [3.0, 4.0, 5.0])
    >>> minimize(Problem(loss), rank=2, solver="smacof", tol=1e-6, random_state=0).objective < 1e-9
    True
    """

    name = "smacof"
    requires = Requirements(("laplacian_solve",), ("none",))
    checks = checked(relaxation=below(2.0))

    relaxation: float = 1.0

    def step(self, problem: Problem, state: State) -> State:
        p = state.point
        D = -cast(RawStress, problem.loss).laplacian_solve(p.gradient)
        return State(problem.loss.at(p.X + self.relaxation * D), step=self.relaxation)
