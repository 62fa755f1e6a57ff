"""Ends of the spectrum of a symmetric matrix: how far it reaches below zero, and its leading eigenvectors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator, eigsh

from quartic.arrays import Array
from quartic.losses.factor.matrix import Matrix

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


def leading_eigenpairs(
    product: Callable[[Array], Array], n: int, rank: int, generator: np.random.Generator
) -> tuple[Array, Array]:
    """Return the ``rank`` algebraically largest eigenvalues of a symmetric matrix, falling, and their eigenvectors.

    ``product(V)`` multiplies an (n, k) array. Good to a few digits, which is what a start needs.
    """
    if n <= _DENSE or rank >= n - 1:
        N = product(np.eye(n))
        values, vectors = np.linalg.eigh((N + N.T) / 2)
        return values[::-1][:rank], vectors[:, ::-1][:, :rank]
    operator = LinearOperator(
        (n, n), matvec=lambda v: product(v.reshape(-1, 1))[:, 0], matmat=product, dtype=np.float64
    )
    try:
        values, vectors = eigsh(operator, k=rank, which="LA", v0=generator.standard_normal(n), tol=1e-3)
    except ArpackNoConvergence as stopped:
        values, vectors = stopped.eigenvalues, stopped.eigenvectors
    order = np.argsort(values)[::-1]
    return values[order], vectors[:, order]


def factor_of_positive_part(
    product: Callable[[Array], Array], n: int, rank: int, generator: np.random.Generator
) -> Array:
    """Return X (n, rank) with XXᵀ near the positive part of a symmetric matrix; all zero where there is none.

    A column whose eigenvalue is small or negative is kept at a tenth of the largest: a column of zeros would stay zero,
    for the gradient vanishes there.
    """
    values, vectors = leading_eigenpairs(product, n, rank, generator)
    X = np.zeros((n, rank))
    if len(values) and values[0] > 0:
        X[:] = 0.1 * np.sqrt(values[0] / n) * generator.standard_normal((n, rank))
        X[:, : len(values)] = vectors * np.sqrt(np.maximum(values, 0.01 * values[0]))
    return X
