"""ADMM: the nonconvex splitting of Lu, Hong and Wang 2017 for symmetric NMF."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from quartic.arrays import Array, check_number, gram, inner, norm, trace_inner
from quartic.baselines.splitting import typical_eigenvalue, with_weight
from quartic.core.problem import Problem
from quartic.core.units import Units
from quartic.losses import LeastSquares
from quartic.losses.factor.loss import LeastSquaresPoint
from quartic.solvers.base import Requirements, Solver, State

# ρ, where none is given, beside the scale of M.
_DEFAULT_RHO = 0.2
# It is doubled where ‖X − Y‖ has not come down by this factor for so many iterations, unless it is negligible.
_NEARER, _PATIENCE, _TOGETHER = 0.9, 50, 1e-8


@dataclass(frozen=True, kw_only=True)
class ADMMState(State):
    """Y ≥ 0 (the point, which is the symmetric answer), its twin X of free sign, the multipliers Λ, and ρ in use.

    Attributes
    ----------
    apart : float
        The least ‖X − Y‖ under this ρ.
    waited : int
        For how many iterations it has not shrunk.
    """

    X: Array
    dual: Array
    rho: float
    apart: float = math.inf
    waited: int = 0


@dataclass(frozen=True)
class ADMM(Solver):
    """Minimise ½‖M − XYᵀ‖² over Y ≥ 0 and X = Y by alternating directions, with multipliers Λ for X = Y.

    | X ← (MY + ρY + Λ)(YᵀY + ρI)⁻¹
    | Λ ← Λ + ρ(Y − X)
    | Y ← argmin over Y ≥ 0 of ½‖M − XYᵀ‖² + ½ρ‖Y − X + Λ/ρ‖² + ½γ‖Y − Y_old‖²,  γ = (6ξ/ρ)‖M − XY_oldᵀ‖²

    The update of Y is a nonnegative least-squares problem, solved exactly. Y is the symmetric answer, judged on
    ½‖M − YYᵀ‖², which may go up and down on the way. Two products an iteration, MX and MY.

    Parameters
    ----------
    rho : float, optional
        ρ > 0. The default is 0.2 times ⟨MX₀, X₀⟩/‖X₀‖², which follows the scale of M, and is doubled where X and Y do
        not draw nearer for long, as they do not where M has strongly negative eigenvalues.
    proximal : float, default=0.0
        ξ ≥ 0, the share of the proximal weight. The authors' proof of convergence takes ξ = 1 (together with a bound on
        the rows of Y and a ρ that grows with n, both left out here); steps are then too short to be of use.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic import Problem, minimize
    >>> from quartic.losses import LeastSquares
    >>> from quartic.penalties import Nonnegative
    >>> M = np.kron(np.eye(2), np.ones((3, 3)))
    >>> result = minimize(Problem(LeastSquares(M), Nonnegative()), rank=2, solver="admm", random_state=0)
    >>> bool(result.objective < 1e-3)
    True
    """

    name = "admm"
    requires = Requirements(("on_host", "point_from"), ("only X ≥ 0",))
    state = ADMMState

    rho: float | None = None
    proximal: float = 0.0

    def __post_init__(self) -> None:
        if self.rho is not None:
            check_number(self.rho, "rho")
        check_number(self.proximal, "proximal", zero=True)

    def in_units(self, units: Units, problem: Problem) -> ADMM:
        """Return the solver with ρ, the weight of a square, scaled."""
        return with_weight(self, "rho", units)

    def init(self, problem: Problem, X0: Array) -> ADMMState:
        """Return the state X = Y = X0, Λ = 0."""
        p = cast(LeastSquaresPoint, problem.loss.at(X0))
        rho = _DEFAULT_RHO * typical_eigenvalue(p) if self.rho is None else float(self.rho)
        return ADMMState(point=p, X=X0, dual=np.zeros_like(X0), rho=rho)

    def step(self, problem: Problem, state: State) -> ADMMState:
        """Return the state after updates of X, Λ and Y."""
        from quartic.baselines.nnls import solve_nnls

        state = cast(ADMMState, state)
        loss, p, rho = cast(LeastSquares, problem.loss), cast(LeastSquaresPoint, state.point), state.rho
        X = _solve_shifted(p.gram, rho, p.MX + rho * p.X + state.dual)
        dual = state.dual + rho * (p.X - X)
        gamma, S = self._proximal_weight(p, X, rho), gram(X)
        C = loss.product(X) + rho * X - dual + gamma * p.X
        Y = solve_nnls(S + (rho + gamma) * np.eye(len(S)), C, p.X)
        return self._watched(state, ADMMState(point=loss.at(Y), X=X, dual=dual, rho=rho))

    def _watched(self, before: ADMMState, state: ADMMState) -> ADMMState:
        """Return the state with ρ doubled where X and Y have not drawn nearer for long.

        With ρ below the negative curvature of ½‖M − XYᵀ‖² the iteration goes round in circles. A ρ that was asked for
        stays.
        """
        if self.rho is not None:
            return state
        apart = norm(state.X - state.point.X)
        if apart <= _NEARER * before.apart or apart <= _TOGETHER * norm(state.X):
            return replace(state, apart=apart)
        if before.waited < _PATIENCE:
            return replace(state, apart=before.apart, waited=before.waited + 1)
        return replace(state, rho=2 * state.rho)

    def _proximal_weight(self, p: LeastSquaresPoint, X: Array, rho: float) -> float:
        """Return (6ξ/ρ)‖M − XYᵀ‖², Y the point's."""
        if self.proximal == 0:
            return 0.0
        fit = p.loss.matrix.squared_norm - 2 * inner(p.MX, X) + trace_inner(gram(X), p.gram)
        return 6 * self.proximal / rho * max(fit, 0.0)


def _solve_shifted(S: Array, rho: float, C: Array) -> Array:
    """Return C(S + ρI)⁻¹ by eigenvalues: S is a Gram matrix, so the inverse is bounded by 1/ρ whatever its rank."""
    values, Q = np.linalg.eigh(S)
    inverse = (Q / (np.maximum(values, 0) + rho)) @ Q.T
    X: Array = C @ inverse.astype(C.dtype, copy=False)
    return X
