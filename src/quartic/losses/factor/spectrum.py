"""Ends of the spectrum of a symmetric matrix: bounds of its lowest and highest eigenvalue, leading eigenvectors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from scipy.special import gammaincinv

from quartic.arrays import Array, Space, norm, to_host
from quartic.arrays.subspace import FAILURE, lowest_eigenpairs
from quartic.losses.factor.matrix import Matrix

_DENSE = 300
# A bound is good enough within this share of the eigenvalue, or of a tenth of the other end of the spectrum.
_CLOSE = 0.01


def negative_part_of_spectrum(matrix: Matrix, count: Callable[[int], None]) -> float:
    """Return an upper bound of max(0, −λ_min(M)), exact for small M; see `upper_bound_of_spectrum`."""
    M = matrix.dense() if matrix.n <= _DENSE else None
    if M is not None:
        return max(0.0, -float(np.linalg.eigvalsh(M.astype(np.float64))[0]))

    def negative(V: Array) -> Array:
        count(1)
        return -matrix.product(V)

    there = called_from_host(negative, matrix.space, matrix.dtype)
    return upper_bound_of_spectrum(there, matrix.n, float(np.finfo(matrix.dtype).eps))


def called_from_host(product: Callable[[Array], Array], space: Space, dtype: Any) -> Callable[[Array], Array]:
    """Return a product with data of this type in a space as one that takes and returns NumPy arrays of float64."""
    return lambda V: np.asarray(to_host(product(space.adopt(V.astype(dtype)))), dtype=np.float64)


def signed_factors(Y: Array) -> list[tuple[float, Array]]:
    """Return factors with Y = U₊U₊ᵀ − U₋U₋ᵀ and their signs, the two parts of the spectrum of a symmetric Y."""
    values, vectors = np.linalg.eigh(Y)
    factors = vectors * np.sqrt(np.abs(values))
    parts = (1.0, factors[:, values > 0]), (-1.0, factors[:, values < 0])
    return [(sign, np.ascontiguousarray(part)) for sign, part in parts if part.size]


def upper_bound_of_spectrum(product: Callable[[Array], Array], n: int, eps: float, dense: int = _DENSE) -> float:
    """Return an upper bound of max(0, λ_max) of a symmetric operator, within a few per cent as a rule.

    Up to n = ``dense`` from all eigenvalues; above by Lanczos' method, whose bound fails with a probability of at most
    1e-6 over its first vector (`quartic.arrays.subspace`). Each product is known to ``eps`` of its size.
    """
    found = lowest_eigenpairs(
        lambda V: -product(V),
        n,
        1,
        lambda value, bound, highest: value - bound <= _CLOSE * max(abs(value), 0.1 * abs(highest)),
        np.random.default_rng(0),
        steps=100,
        dense=dense,
    )
    rounding = 8 * eps * max(abs(float(found.values[0])), abs(found.highest))
    return max(0.0, rounding - found.bound)


def collatz_wielandt(product: Callable[[Array], Array], x: Array, rounds: int) -> float:
    """Return the least bound max_i (Kx)_i / x_i of λ_max of a nonnegative matrix K, over its powers on an x > 0."""
    bound = math.inf
    for _ in range(rounds):
        Kx = product(x)
        bound = min(bound, float((Kx / x).max()))
        if not bound > 0:
            return 0.0
        # half a step towards the old x damps the slow oscillation of bipartite graphs, and keeps x positive
        x = 0.5 * (_normalized(x) + _normalized(Kx))
    return bound


def _normalized(x: Array) -> Array:
    x = x / x.max()  # so that no square overflows
    return x / float(norm(x))


def sampled_norm_bound(product: Callable[[Array], Array], n: int, samples: int) -> float:
    """Return an upper bound of the Frobenius norm of a matrix A, from its products with Gaussian vectors.

    For one row a and q Gaussian vectors Σ⟨a, g⟩² is ‖a‖² times a χ² of q degrees of freedom, and more concentrated for
    ‖A‖²: it is below the 1e-6 quantile of that with a probability of at most 1e-6.
    """
    V = np.random.default_rng(0).standard_normal((n, samples))
    AV = np.asarray(product(V), dtype=np.float64)
    return float(np.linalg.norm(AV)) / math.sqrt(least_chi_square(samples))


def least_chi_square(freedom: int) -> float:
    """Return the number below which a χ² of so many degrees of freedom is with a probability of 1e-6."""
    return 2 * float(gammaincinv(freedom / 2, FAILURE))


def lanczos_eigenpairs(
    product: Callable[[Array], Array],
    n: int,
    rank: int,
    generator: np.random.Generator,
    tol: float = 1e-3,
    dense: int = _DENSE,
) -> tuple[Array, Array]:
    """Return the ``rank`` algebraically largest eigenvalues of a symmetric matrix, falling, and their eigenvectors.

    ``product(V)`` multiplies an (n, k) array. Good to a few digits, which is what a start needs, unless ``tol`` says
    more; up to n = ``dense`` the matrix is formed.
    """
    if n <= dense or rank >= n - 1:
        N = product(np.eye(n))
        values, vectors = eigh((N + N.T) / 2, subset_by_index=(max(n - rank, 0), n - 1))
        return values[::-1], vectors[:, ::-1]
    operator = LinearOperator(
        (n, n), matvec=lambda v: product(v.reshape(-1, 1))[:, 0], matmat=product, dtype=np.float64
    )
    try:
        values, vectors = eigsh(operator, k=rank, which="LA", v0=generator.standard_normal(n), tol=tol)
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
    values, vectors = lanczos_eigenpairs(product, n, rank, generator)
    X = np.zeros((n, rank))
    if len(values) and values[0] > 0:
        X[:] = 0.1 * np.sqrt(values[0] / n) * generator.standard_normal((n, rank))
        X[:, : len(values)] = vectors * np.sqrt(np.maximum(values, 0.01 * values[0]))
    return X
