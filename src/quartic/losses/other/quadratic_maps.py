"""Self-adjoint linear maps 𝒜 on symmetric matrices, used through the factors of XXᵀ: the quadratic part of F."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from quartic.arrays import Array, finite_matrix, gram, norm, working_dtype
from quartic.core.units import shifted
from quartic.losses.factor.matrix import SparseMatrix
from quartic.losses.factor.spectrum import upper_bound_of_spectrum

#: N₁, N₂, N₃ of 𝒜((X + tD)(X + tD)ᵀ)(X + tD) = 𝒜(XXᵀ)X + tN₁ + t²N₂ + t³N₃
Expansion = tuple[Array, Array, Array]

# Up to so many coordinates of symmetric matrices ‖𝒜‖ comes from all eigenvalues.
_DENSE = 20
# Matrices of 𝒜 up to this many rows have all their eigenvalues worked out.
_SMALL = 1500


class QuadraticMap(ABC):
    """𝒜, with 0 ≤ μ_F ≤ 𝒜 ≤ L_F on symmetric matrices."""

    #: how many applications of 𝒜 a call of ``expand`` makes
    expansion_cost = 1
    dtype: type[np.floating[Any]] = np.float64
    #: whether hardly more entries of Y are weighed than it has rows
    weighs_few: bool = False

    @abstractmethod
    def product(self, X: Array) -> Array:
        """Return 𝒜(XXᵀ)X."""

    @abstractmethod
    def expand(self, X: Array, D: Array) -> Expansion:
        """Return N₁ = 𝒜(XXᵀ)D + 𝒜(P)X, N₂ = 𝒜(P)D + 𝒜(DDᵀ)X and N₃ = 𝒜(DDᵀ)D, with P = XDᵀ + DXᵀ."""

    @abstractmethod
    def largest(self) -> float:
        """Return L_F, or a bound of it."""

    def least(self) -> float:
        """Return μ_F, or 0."""
        return 0.0

    def least_on_diagonal(self) -> float:
        """Return a μ ≥ 0 with ⟨𝒜Y, Y⟩ ≥ μ Σ Y_ii²."""
        return self.least()


class Scaled(QuadraticMap):
    """2^power · 𝒜."""

    def __init__(self, whole: QuadraticMap, power: int) -> None:
        self.whole, self.power, self.dtype = whole, power, whole.dtype
        self.expansion_cost, self.weighs_few = whole.expansion_cost, whole.weighs_few

    def product(self, X: Array) -> Array:
        """Return 2^power · 𝒜(XXᵀ)X."""
        return shifted(self.whole.product(X), self.power)

    def expand(self, X: Array, D: Array) -> Expansion:
        """Return the three matrices of 𝒜, scaled."""
        N1, N2, N3 = self.whole.expand(X, D)
        return shifted(N1, self.power), shifted(N2, self.power), shifted(N3, self.power)

    def largest(self) -> float:
        """Return that of 𝒜, scaled."""
        return shifted(self.whole.largest(), self.power)

    def least(self) -> float:
        """Return that of 𝒜, scaled."""
        return shifted(self.whole.least(), self.power)

    def least_on_diagonal(self) -> float:
        """Return that of 𝒜, scaled."""
        return shifted(self.whole.least_on_diagonal(), self.power)


class Identity(QuadraticMap):
    """𝒜Y = Y, through r × r Gram matrices."""

    def product(self, X: Array) -> Array:
        """Return X XᵀX."""
        XS: Array = X @ gram(X).astype(X.dtype)
        return XS

    def expand(self, X: Array, D: Array) -> Expansion:
        """Return the three matrices, from S = XᵀX, T = XᵀD, C = DᵀD."""
        S, T, C = (M.astype(X.dtype) for M in (gram(X), gram(X, D), gram(D)))
        return D @ S + X @ (T + T.T), X @ C + D @ (T + T.T), D @ C

    def largest(self) -> float:
        """Return 1."""
        return 1.0

    def least(self) -> float:
        """Return 1."""
        return 1.0


class DenseWeights(QuadraticMap):
    """𝒜Y = A ∘ Y, entrywise, for a nonnegative symmetric array A."""

    def __init__(self, A: Array) -> None:
        self.A, self.dtype = A, working_dtype(A.dtype)

    def product(self, X: Array) -> Array:
        """Return (A ∘ XXᵀ)X."""
        N: Array = (self.A * (X @ X.T)) @ X
        return N

    def expand(self, X: Array, D: Array) -> Expansion:
        """Return the three matrices."""
        XD = X @ D.T
        Y, P, S = (self.A * M for M in (X @ X.T, XD + XD.T, D @ D.T))
        return Y @ D + P @ X, P @ D + S @ X, S @ D

    def largest(self) -> float:
        """Return max A."""
        return float(self.A.max())

    def least(self) -> float:
        """Return min A."""
        return float(self.A.min())

    def least_on_diagonal(self) -> float:
        """Return the least A_ii."""
        return float(self.A.diagonal().min())


class SparseWeights(QuadraticMap):
    """𝒜Y = A ∘ Y for a sparse nonnegative A: only the entries of Y on its pattern are ever made."""

    def __init__(self, A: Any) -> None:
        self.A, self.dtype = A, working_dtype(A.dtype)
        self.rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
        self.weighs_few = A.nnz <= 2 * A.shape[0]

    def _on_pattern(self, entries: Array) -> Any:
        return sp.csr_array((self.A.data * entries, self.A.indices, self.A.indptr), shape=self.A.shape)

    def product(self, X: Array) -> Array:
        """Return (A ∘ XXᵀ)X."""
        N: Array = self._on_pattern(np.einsum("pk,pk->p", X[self.rows], X[self.A.indices])) @ X
        return N

    def expand(self, X: Array, D: Array) -> Expansion:
        """Return the three matrices."""
        Xi, Xj, Di, Dj = X[self.rows], X[self.A.indices], D[self.rows], D[self.A.indices]
        y, s = np.einsum("pk,pk->p", Xi, Xj), np.einsum("pk,pk->p", Di, Dj)
        p = np.einsum("pk,pk->p", Xi, Dj) + np.einsum("pk,pk->p", Di, Xj)
        Y, P, S = self._on_pattern(y), self._on_pattern(p), self._on_pattern(s)
        return Y @ D + P @ X, P @ D + S @ X, S @ D

    def largest(self) -> float:
        """Return max A."""
        return float(self.A.data.max(initial=0.0))

    def least(self) -> float:
        """Return min A, 0 where the pattern has a gap."""
        return float(self.A.data.min()) if self.A.nnz == self.A.shape[0] ** 2 else 0.0

    def least_on_diagonal(self) -> float:
        """Return the least A_ii."""
        return float(self.A.diagonal().min())


class OnProducts(QuadraticMap):
    """𝒜 known by ``apply(X, Z)`` = 𝒜(XXᵀ)Z alone."""

    expansion_cost = 4

    def __init__(self, apply: Callable[[Array, Array], Any], n: int) -> None:
        self.apply, self.n = apply, n

    def _apply(self, X: Array, Z: Array) -> Array:
        N: Array = np.asarray(self.apply(X, Z), dtype=Z.dtype)
        if N.shape != Z.shape:
            raise ValueError(f"A(X, Z) must return 𝒜(XXᵀ)Z, of Z's shape {Z.shape}, got {N.shape}")
        return N

    def product(self, X: Array) -> Array:
        """Return 𝒜(XXᵀ)X."""
        return self._apply(X, X)

    def expand(self, X: Array, D: Array) -> Expansion:
        """Return the three matrices; 𝒜(P) from X ± sD, s such that both are equally long and no digit is lost."""
        size, length = norm(X), norm(D)
        s = size / length if size > 0 and length > 0 else 1.0
        both = np.hstack([X, D])
        r = X.shape[1]
        P = (self._apply(X + s * D, both) - self._apply(X - s * D, both)) / (2 * s)
        YD, S = self._apply(X, D), self._apply(D, both)
        return YD + P[:, :r], P[:, r:] + S[:, :r], S[:, r:]

    def largest(self) -> float:
        """Return a bound of ‖𝒜‖ by Lanczos iterations; each costs like two products with n columns."""
        return _largest_of(self._on_symmetric, self.n)

    def _on_symmetric(self, Y: Array) -> Array:
        values, vectors = np.linalg.eigh(Y)
        factors, eye = vectors * np.sqrt(np.abs(values)), np.eye(self.n)
        total = np.zeros((self.n, self.n))
        for sign, part in ((1, factors[:, values > 0]), (-1, factors[:, values < 0])):
            if part.size:
                total += sign * self._apply(np.ascontiguousarray(part), eye)
        return total


class OnEntries(OnProducts):
    """𝒜 as an (n², n²) matrix, dense or sparse, that maps Y, row after row, to 𝒜Y."""

    expansion_cost = 1

    def __init__(self, A: Any, n: int) -> None:
        self.A, self.n, self.dtype = A, n, working_dtype(A.dtype)

    def _map(self, Y: Array) -> Array:
        N = np.asarray(self.A @ Y.reshape(self.n**2)).reshape(self.n, self.n)
        M: Array = (N + N.T) / 2
        return M

    def _apply(self, X: Array, Z: Array) -> Array:
        return self._map(X @ X.T) @ Z

    def expand(self, X: Array, D: Array) -> Expansion:
        """Return the three matrices."""
        XD = X @ D.T
        Y, P, S = (self._map(M) for M in (X @ X.T, XD + XD.T, D @ D.T))
        return Y @ D + P @ X, P @ D + S @ X, S @ D

    def _on_symmetric(self, Y: Array) -> Array:
        return self._map(Y)


def _largest_of(on_symmetric: Callable[[Array], Array], n: int) -> float:
    """Return a bound of λ_max, on the n(n + 1)/2 coordinates of symmetric matrices in which ‖Y‖ is their norm."""
    i, j = np.triu_indices(n)
    weight = np.where(i == j, 1.0, math.sqrt(2.0))

    def product(V: Array) -> Array:
        out = np.empty_like(V)
        for k, y in enumerate(V.T):
            Y = np.zeros((n, n))
            Y[i, j] = Y[j, i] = y / weight
            out[:, k] = on_symmetric(Y)[i, j] * weight
        return out

    return upper_bound_of_spectrum(product, len(i), float(np.finfo(np.float64).eps), _DENSE)


def as_map(A: Any, n: int) -> QuadraticMap:
    """Return the map that A describes (see `quartic.losses.Quadratic`), or raise an error that says what is wrong."""
    if A is None:
        return Identity()
    if callable(A) and not isinstance(A, LinearOperator):
        return OnProducts(A, n)
    if isinstance(A, LinearOperator):
        raise TypeError(
            "A must be an array, a sparse matrix, None or a function A(X, Z) = 𝒜(XXᵀ)Z, got a LinearOperator"
        )
    if not sp.issparse(A):
        A = finite_matrix(A, "A")
    if A.shape == (n, n):
        return _weights(A)
    if A.shape == (n * n, n * n):
        return _on_entries(A, n)
    raise ValueError(
        f"A must have the shape of B, ({n}, {n}), for weights of the entries of XXᵀ, or ({n * n}, {n * n}) for a map "
        f"of all of them, got {A.shape}"
    )


def _weights(A: Any) -> QuadraticMap:
    clean = SparseMatrix(sp.csr_array(A), "A").M
    if clean.data.min(initial=0.0) < 0:
        k = int(clean.data.argmin())
        row = int(np.searchsorted(clean.indptr, k, side="right")) - 1
        raise ValueError(
            f"A[{row}, {clean.indices[k]}] = {clean.data[k]} is negative: F would not be convex, nor bounded below"
        )
    return SparseWeights(clean) if sp.issparse(A) else DenseWeights(A)


def _on_entries(A: Any, n: int) -> QuadraticMap:
    gap = abs(A - A.T)
    if gap.max() > 1e-8 * abs(A).max():
        raise ValueError(f"A must be self-adjoint, but A − Aᵀ has an entry of size {gap.max():.1e}; pass (A + A.T) / 2")
    if n * n <= _SMALL:
        values = np.linalg.eigvalsh(A.toarray() if sp.issparse(A) else A)
        if values[0] < -1e-8 * max(abs(values[-1]), abs(values[0])):
            raise ValueError(
                f"A must be positive semidefinite for F to be convex, but has the eigenvalue {values[0]:.3e}"
            )
    return OnEntries(sp.csr_array(A) if sp.issparse(A) else A, n)
