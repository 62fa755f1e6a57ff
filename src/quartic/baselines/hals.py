"""SymHALS: hierarchical alternating least squares on the penalised problem (Zhu, Li, Liu and Li 2018)."""

from __future__ import annotations

from dataclasses import dataclass

from quartic.arrays import Array, space_of
from quartic.baselines.splitting import PenalisedSolver


@dataclass(frozen=True)
class SymHALS(PenalisedSolver):
    """Minimise ½‖M − XYᵀ‖² + μ‖X − Y‖² over X, Y ≥ 0, one column after the other, once each for Y and for X.

    x_k ← max(0, (MY + 2μY − Σ_{l≠k} x_l (YᵀY)_lk)_k / ((YᵀY)_kk + 2μ)) for k = 1 … r, and the same for Y. The penalised
    objective never rises. X is the symmetric answer, judged on ½‖M − XXᵀ‖².

    Parameters
    ----------
    mu : float, optional
        μ ≥ 0. The default is 0.1 times ⟨MX₀, X₀⟩/‖X₀‖², which follows the scale of M, and is doubled where the
        iteration comes to rest with X ≠ Y, as it does where M has strongly negative eigenvalues. With μ = 0 nothing
        draws X and Y together, and the limit is as a rule not stationary for the symmetric problem; a large μ makes
        short steps.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic import Problem, minimize
    >>> from quartic.losses import LeastSquares
    >>> from quartic.penalties import Nonnegative
    >>> M = np.kron(np.eye(2), np.ones((3, 3)))
    >>> result = minimize(Problem(LeastSquares(M), Nonnegative()), rank=2, solver="hals", random_state=0)
    >>> bool(result.objective < 1e-3)
    True
    """

    name = "hals"

    mu: float | None = None

    def _minimize_rows(self, G: Array, C: Array, X: Array) -> Array:
        space = space_of(X)
        X = space.copy(X)
        space.sweep_rows(X, G, C)
        return X
