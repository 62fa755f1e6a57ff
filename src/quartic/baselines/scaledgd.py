"""ScaledGD: gradients in the metric of the factorisation (Tong, Ma and Chi 2021), damped where the rank is too high."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import numpy as np

from quartic.arrays import Array, inner, on_host, times
from quartic.core.problem import Problem
from quartic.losses import Point
from quartic.solvers.base import NONNEGATIVE, POSITIVE, NoProgress, Requirements, Solver, State, checked
from quartic.solvers.nolips import DynState


@dataclass(frozen=True)
class ScaledGD(Solver):
    """X⁺ = X − t∇Ψ(X)(XᵀX + λI)⁻¹, whose rate does not depend on the condition of the truth.

    With rank above the truth's XᵀX becomes singular, and λ > 0 is needed. As in preconditioned gradient descent
    (Zhang, Fattahi and Zhang 2023) it is in proportion to the error that is left, λ = damping · (f(X)/f(X₀))^½ ‖XᵀX‖.

    Parameters
    ----------
    step_size : float, optional
        t, fixed, as a multiple of 1/L_F: 0.5 in the papers. When left out the best t on the line is taken.
    damping : float, default=1.0
        What λ is multiplied by; 0 for plain ScaledGD.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic import Problem, minimize
    >>> from quartic.losses import LeastSquares
    >>> A = np.arange(12.0).reshape(6, 2)
    >>> minimize(Problem(LeastSquares(A @ A.T)), rank=3, solver="scaledgd", random_state=0).success
    True
    """

    name = "scaledgd"
    requires = Requirements(("along",), ("smooth", "on_line"))
    state = DynState
    step_unit = (4, 1)
    checks = checked(step_size=POSITIVE, damping=NONNEGATIVE)

    step_size: float | None = None
    damping: float = 1.0

    def init(self, problem: Problem, X0: Array) -> DynState:
        """Return the state at X0, with the value there to measure errors by."""
        p = problem.loss.at(X0)
        return DynState(p, next_step=float(p.value))

    def step(self, problem: Problem, state: State) -> DynState:
        p, first = state.point, cast(DynState, state).next_step
        G = problem.penalty.stationarity(p.X, p.gradient)  # ∇Ψ, since the penalty is smooth
        D = -times(G, self._inverse(p, float(p.value) / first if first > 0 else 0.0))
        found = self._along(problem, p, D)
        if found is None or not inner(G, D) < 0:
            raise NoProgress("no step along the scaled gradient decreases the objective: round-off is reached")
        return DynState(found[0], step=found[1], next_step=first)

    def _inverse(self, p: Point, left: float) -> Array:
        """Return (XᵀX + λI)⁻¹, where ``left`` is the share of the loss that is left."""
        values, Q = np.linalg.eigh(on_host(p.gram))
        least = self.damping * math.sqrt(min(max(left, 0.0), 1.0)) + float(np.finfo(np.float64).eps)
        shifted = np.maximum(values, 0) + least * values[-1]
        return (Q / shifted) @ Q.T

    def _along(self, problem: Problem, p: Point, D: Array) -> tuple[Point, float] | None:
        if self.step_size is not None:
            t = self.step_size / problem.loss.smoothness
            return problem.loss.at(p.X + t * D), t
        t = problem.loss.along(p, D).minimizer_with(*problem.penalty.on_line(p.X, D))
        return (problem.loss.at(p.X + t * D), t) if t > 0 else None
