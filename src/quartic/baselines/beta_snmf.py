"""β-SNMF: the multiplicative update of He, Xie, Zdunek, Zhou and Cichocki 2011, kept from going up."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import numpy as np

from quartic.arrays import Array, check_number, inner, norm, trace_inner
from quartic.core.problem import Problem
from quartic.losses.factor.loss import LeastSquaresPoint
from quartic.losses.point import Line
from quartic.solvers.base import NoProgress, Requirements, Solver, State


@dataclass(frozen=True)
class BetaSNMF(Solver):
    """X⁺ = X ∘ (1 − β + β MX / (X XᵀX)), entrywise; where that raises the loss, the best point on the way to it.

    X⁺ − X has the sign of −∇f in every entry, so it is a direction of descent, but for β near 1 the full update may
    overshoot. The loss on the line is a quartic whose coefficients the product MX⁺ gives, and with it the product at
    the point taken: one product an iteration in any case. Entries that are 0 stay 0, as in every multiplicative
    method: start from X₀ > 0.

    Parameters
    ----------
    beta : float, default=0.99
        β, between 0 and 1 (1 is allowed).

    Examples
    --------
    >>> import numpy as np
    >>> from quartic import Problem, losses, minimize, penalties, solvers
    >>> problem = Problem(losses.LeastSquares(np.kron(np.eye(2), np.ones((3, 3)))), penalties.Nonnegative())
    >>> result = minimize(problem, rank=2, solver=solvers.BetaSNMF(beta=0.5), random_state=0)
    >>> result.success, result.objective < 1e-3
    (True, True)
    """

    name = "beta"
    requires = Requirements(("on_host", "point_from"), ("only X ≥ 0",))

    beta: float = 0.99

    def __post_init__(self) -> None:
        check_number(self.beta, "beta", zero=True)
        if not 0 < self.beta <= 1:
            raise ValueError(f"beta must be positive and at most 1, got {self.beta!r}")

    def step(self, problem: Problem, state: State) -> State:
        p = cast(LeastSquaresPoint, state.point)
        move = problem.loss.move(p, self._update(p))
        new, slope = move.point, inner(p.gradient, move.D)
        # the quartic on the line, from what the step already knows: c₂ + c₃ + c₄ is its remainder
        c3, c4 = 2 * trace_inner(move.T, move.C), 0.5 * trace_inner(move.C, move.C)
        quartic = slope, move.remainder - c3 - c4, c3, c4
        line = Line(p, quartic, lambda t: problem.loss.extrapolate(new, p, t - 1))
        t = 1.0 if slope + move.remainder < 0 else line.minimizer(1.0)
        if not line.change(t) < 0:
            raise NoProgress("the multiplicative update does not decrease the loss; entries that are 0 stay 0")
        return State(new if t == 1.0 else line.point(t), step=t)

    def _update(self, p: LeastSquaresPoint) -> Array:
        size = p.X @ p.gram.astype(p.X.dtype, copy=False)
        # X / (X XᵀX) ≤ 1 / (XᵀX)_kk stays bounded where X is tiny; it is 0 where X is 0, whatever the denominator
        ratio = np.divide(p.X, size, out=np.zeros_like(p.X), where=size > 0)
        X: Array = np.maximum((1 - self.beta) * p.X + self.beta * ratio * p.MX, 0)
        # an entry on its way to 0 would never arrive; below round-off beside the others it is there
        negligible = float(np.finfo(X.dtype).eps) * norm(X) / math.sqrt(X.size)
        X[(negligible > X) & (size > p.MX)] = 0
        return X
