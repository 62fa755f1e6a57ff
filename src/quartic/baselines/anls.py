"""SymANLS: alternating nonnegative least squares on the penalised problem (Zhu, Li, Liu and Li 2018)."""

from __future__ import annotations

from dataclasses import dataclass

from quartic.arrays import Array
from quartic.baselines.splitting import PenalisedSolver
from quartic.solvers.base import Requirements


@dataclass(frozen=True)
class SymANLS(PenalisedSolver):
    """Minimise ½‖M − XYᵀ‖² + μ‖X − Y‖² over Y ≥ 0, exactly, then over X ≥ 0.

    Each half is a nonnegative least-squares problem with n right-hand sides, solved by block principal pivoting from
    the last passive sets. The penalised objective never rises. X is the symmetric answer, judged on ½‖M − XXᵀ‖².

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
    >>> result = minimize(Problem(LeastSquares(M), Nonnegative()), rank=2, solver="anls", random_state=0)
    >>> bool(result.objective < 1e-3)
    True
    """

    name = "anls"
    requires = Requirements(("on_host", "point_from"), ("only X ≥ 0",))

    mu: float | None = None

    def _minimize_rows(self, G: Array, C: Array, X: Array) -> Array:
        from quartic.baselines.nnls import solve_nnls

        return solve_nnls(G, C, X)
