"""A rectangular matrix A as the losses see it: dense or sparse, known by its products with tall matrices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from quartic.arrays import Array, first_not_finite, working_dtype
from quartic.core.units import shifted
from quartic.losses.factor.spectrum import upper_bound_of_spectrum


class RectangularMatrix(ABC):
    """An m × n matrix: its shape, its squared norm, its products."""

    shape: tuple[int, int]
    dtype: type[np.floating[Any]]
    squared_norm: float

    @abstractmethod
    def products(self, U: Array, V: Array, out: Array) -> None:
        """Write AV above AᵀU into ``out``."""

    @abstractmethod
    def mean(self) -> float:
        """Return the mean of all mn entries."""

    @abstractmethod
    def entries_per_row(self) -> float:
        """Return about how many entries a product touches for each row of [U; V]."""

    @abstractmethod
    def entries(self) -> Array:
        """Return an array of the entries that are not zero."""

    @abstractmethod
    def scaled(self, power: int) -> RectangularMatrix:
        """Return 2^power · A."""

    def checksum(self) -> float:
        """Return ⟨u, Av⟩ for fixed vectors."""
        u, v = (np.cos(np.arange(k, dtype=self.dtype))[:, None] + self.dtype(0.5) for k in self.shape)
        out = np.empty((sum(self.shape), 1), self.dtype)
        self.products(u, v, out)
        return float(np.vdot(u, out[: self.shape[0]]))


class DenseRectangular(RectangularMatrix):
    """A NumPy array."""

    def __init__(self, A: Array) -> None:
        self.A = A
        self.shape = (A.shape[0], A.shape[1])
        self.dtype = working_dtype(A.dtype)
        self.squared_norm = float(np.square(A, dtype=np.float64).sum())

    def products(self, U: Array, V: Array, out: Array) -> None:
        """Two products of BLAS."""
        m = self.shape[0]
        np.matmul(self.A, V, out=out[:m])
        np.matmul(self.A.T, U, out=out[m:])

    def mean(self) -> float:
        """Return the mean of all entries."""
        return float(self.A.mean(dtype=np.float64))

    def entries_per_row(self) -> float:
        """Return 2mn/(m + n)."""
        m, n = self.shape
        return 2.0 * m * n / (m + n)

    def entries(self) -> Array:
        """Return A."""
        return self.A

    def scaled(self, power: int) -> DenseRectangular:
        """Return 2^power · A."""
        return DenseRectangular(shifted(self.A, power))


class SparseRectangular(RectangularMatrix):
    """Any SciPy sparse format; A and Aᵀ are both kept by rows, since products with a transpose are slower."""

    def __init__(self, A: Any) -> None:
        self.A = A
        self.transpose = A.T.tocsr()
        self.shape = A.shape
        self.dtype = working_dtype(A.dtype)
        self.squared_norm = float(np.square(A.data, dtype=np.float64).sum())

    def products(self, U: Array, V: Array, out: Array) -> None:
        """Two sparse products."""
        m = self.shape[0]
        out[:m] = self.A @ V
        out[m:] = self.transpose @ U

    def mean(self) -> float:
        """Return the mean of all mn entries."""
        return float(self.A.data.sum(dtype=np.float64)) / (self.shape[0] * self.shape[1])

    def entries_per_row(self) -> float:
        """Return the mean number of stored entries, each used twice."""
        return float(2 * self.A.nnz / sum(self.shape))

    def entries(self) -> Array:
        """Return the stored entries."""
        stored: Array = self.A.data
        return stored

    def scaled(self, power: int) -> SparseRectangular:
        """Return 2^power · A."""
        A = self.A
        return SparseRectangular(sp.csr_array((shifted(A.data, power), A.indices, A.indptr), shape=A.shape))


def as_rectangular(A: Any) -> RectangularMatrix:
    """Return A as a `RectangularMatrix`, or raise an error that says what is wrong with it."""
    if isinstance(A, LinearOperator):
        raise TypeError("A must be an array or a sparse matrix, got a LinearOperator")
    if not sp.issparse(A):
        A = np.asarray(A)
    if A.dtype.kind not in "fiub":
        raise TypeError(f"A must be real numbers, got dtype {A.dtype}")
    if A.ndim != 2 or 0 in A.shape:
        raise ValueError(f"A must be a 2-D array with at least one row and one column, got shape {A.shape}")
    dtype = working_dtype(A.dtype)
    if not sp.issparse(A):
        dense: Array = np.ascontiguousarray(A, dtype=dtype)
        _refuse_not_finite(dense, "; if that means unknown, pass weights=np.isfinite(A)")
        return DenseRectangular(dense)
    sparse = sp.csr_array(A, dtype=dtype)
    if not sparse.has_canonical_format:
        sparse = sparse.copy()
        sparse.sum_duplicates()
    _refuse_not_finite(sparse, "")
    return SparseRectangular(sparse)


def _refuse_not_finite(A: Any, cure: str) -> None:
    fault = first_not_finite(A)
    if fault is not None:
        i, j, value = fault
        raise ValueError(f"A must be finite, but A[{i}, {j}] is {value}{cure}")


def balanced_factors(
    bordered: Callable[[Array], Array],
    shape: tuple[int, int],
    rank: int,
    generator: np.random.Generator,
    n_rounds: int = 4,
    n_extra: int = 8,
) -> Array:
    """Return [U√σ; V√σ] of the leading singular triplets of A, at most ``rank`` columns, by subspace iteration.

    ``bordered`` multiplies by [0, A; Aᵀ, 0]. The columns are balanced: both halves of X have the Gram matrix diag(σ).
    """
    m, n = shape
    columns = min(rank + n_extra, m, n)
    V = np.zeros((m + n, columns))
    V[m:] = np.linalg.qr(generator.standard_normal((n, columns)))[0]
    for _ in range(n_rounds):
        U = np.zeros_like(V)
        U[:m] = np.linalg.qr(bordered(V)[:m])[0]
        V = np.zeros_like(V)
        V[m:], R = np.linalg.qr(bordered(U)[m:])
    left, sigma, right = np.linalg.svd(R.T)  # UᵀA = (VR)ᵀ = RᵀVᵀ
    kept = min(rank, columns)
    roots = np.sqrt(sigma[:kept])
    return np.vstack([U[:m] @ (left[:, :kept] * roots), V[m:] @ (right[:kept].T * roots)])


def largest_singular_value(matrix: RectangularMatrix, count: Callable[[int], None]) -> float:
    """Return an upper bound of σ₁(A), the largest eigenvalue of [0, A; Aᵀ, 0]; see `upper_bound_of_spectrum`."""
    m = matrix.shape[0]

    def bordered(Z: Array) -> Array:
        count(1)
        Z = Z.astype(matrix.dtype)
        out = np.empty_like(Z)
        matrix.products(Z[:m], Z[m:], out)
        return out.astype(np.float64)

    return upper_bound_of_spectrum(bordered, sum(matrix.shape), float(np.finfo(matrix.dtype).eps))
