"""ADMM: the nonconvex splitting of Lu, Hong and Wang 2017 for symmetric NMF."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import numpy as np
import scipy.linalg

from quartic.arrays import Array
from quartic.losses import LeastSquares
from quartic.losses.least_squares import LeastSquaresPoint
from quartic.ops import gram, inner, trace_inner
from quartic.problem import Problem
from quartic.solvers.base import Requirements, Solver, State
from quartic.solvers.splitting import check_weight, typical_eigenvalue

@dataclass(frozen=True)
class ADMMState(State):
    """Y ≥ 0 (the point, which is the symmetric answer), its twin X, the multipliers Λ, ρ, and the proximal weight."""

    X: Array = cast(Array, None)
    dual: Array = cast(Array, None)
    rho: float = math.nan
    proximal: float = 0.0


@dataclass(frozen=True)
class ADMM(Solver):
    """Minimise ½‖M − XYᵀ‖² over Y ≥ 0 and X = Y by alternating directions, with multipliers Λ for X = Y.

    X ← (MY + ρY + Λ)(YᵀY + ρI)⁻¹,  Λ ← Λ + ρ(Y − X),  then
    Y ← argmin over Y ≥ 0 of ½‖M − XYᵀ‖² + ½ρ‖Y − X + Λ/ρ‖² + ½γ‖Y − Y_old‖²,  with γ = (6ξ/ρ)‖M − XYᵀ‖².

    Y is the symmetric answer, judged on ½‖M − YYᵀ‖². Two products an iteration. Neither loss is monotone.
    """

    name = "admm"
    requires = Requirements(products=True, nonnegative=True, plain=True)
    state = ADMMState

    rho: float | None = None
    proximal: float = 0.0

    def __post_init__(self) -> None:
        check_weight(self.rho, "rho", zero=False)
        check_weight(self.proximal, "proximal", zero=True)

    def init(self, problem: Problem, X0: Array) -> ADMMState:
        """Return the state X = Y = X0, Λ = 0."""
        p = cast(LeastSquaresPoint, problem.loss.at(X0))
        rho = 1.0 * typical_eigenvalue(p) if self.rho is None else float(self.rho)
        return ADMMState(p, X=X0, dual=np.zeros_like(X0), rho=rho, proximal=self._proximal(p, X0, rho))

    def step(self, problem: Problem, state: State) -> ADMMState:
        """Return the state after updates of X, Λ and Y."""
        from quartic.ops.nnls import solve_nnls

        state = cast(ADMMState, state)
        loss, p = cast(LeastSquares, problem.loss), cast(LeastSquaresPoint, state.point)
        rho, Y, eye = state.rho, p.X, np.eye(p.X.shape[1])
        X = scipy.linalg.solve(p.gram + rho * eye, (p.MX + rho * Y + state.dual).T, assume_a="pos").T
        X = np.ascontiguousarray(X, dtype=Y.dtype)
        dual = state.dual + rho * (Y - X)
        gamma = self._proximal(p, X, rho)
        MX = loss.product(X)
        Y = solve_nnls(gram(X) + (rho + gamma) * eye, MX + rho * X - dual + gamma * Y, Y)
        return ADMMState(loss.at(Y), X=X, dual=dual, rho=rho, proximal=gamma)

    def _proximal(self, p: LeastSquaresPoint, X: Array, rho: float) -> float:
        """Return (6ξ/ρ)‖M − XYᵀ‖², Y the point's."""
        fit = p.loss.matrix.squared_norm - 2 * inner(p.MX, X) + trace_inner(gram(X), p.gram)
        return 6 * self.proximal / rho * max(fit, 0.0)
