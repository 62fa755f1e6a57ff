"""How far the spectrum of a symmetric matrix reaches below zero."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator, eigsh

from quartic.losses.matrix import Matrix

_DENSE = 300


def negative_part_of_spectrum(matrix: Matrix, count: Callable[[int], None]) -> float:
    """Return max(0, −λ_min(M)); for large M a Lanczos estimate plus its residual.

    Lanczos comes to λ_min from above. Its residual norm bounds how far an eigenvalue is from the estimate, so that
    estimate − residual is a lower bound of the eigenvalue found.
    """
    M = matrix.dense() if matrix.n <= _DENSE else None
    if M is not None:
        return max(0.0, -float(np.linalg.eigvalsh(M.astype(np.float64))[0]))
    if matrix.n <= _DENSE:
        count(1)
        M = matrix.product(np.eye(matrix.n))
        return max(0.0, -float(np.linalg.eigvalsh(M)[0])) if np.isfinite(M).all() else float("inf")

    def product(v: np.ndarray) -> np.ndarray:
        count(1)
        return matrix.product(v.reshape(-1, 1).astype(matrix.dtype, copy=False))[:, 0].astype(np.float64)

    operator = LinearOperator((matrix.n, matrix.n), matvec=product, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(matrix.n)
    try:
        values, vectors = eigsh(operator, k=1, which="SA", v0=start, tol=1e-2, ncv=20, maxiter=30)
    except ArpackNoConvergence as stopped:
        if len(stopped.eigenvalues) == 0:
            return float("inf")
        values, vectors = stopped.eigenvalues, stopped.eigenvectors
    except ArpackError:
        return float("inf")  # the caller caps this by the Frobenius norm
    residual = np.linalg.norm(product(vectors[:, 0]) - values[0] * vectors[:, 0])
    return max(0.0, -float(values[0]) + float(residual))
