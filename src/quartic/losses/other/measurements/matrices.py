"""Maps by matrices: 𝒜(Y)_k = ⟨A_k, Y⟩."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from quartic.arrays import Array, working_dtype
from quartic.losses.other.measurements.base import Measurements, row_sums

# Matrices whose pattern fills more than this share of n × n are multiplied as dense ones.
_FULL = 0.1


class Matrices(Measurements):
    """𝒜(Y)_k = ⟨A_k, Y⟩ for symmetric A_k, dense or sparse: T y with y the entries of Y that any A_k touches.

    Parameters
    ----------
    stack : array or sparse (m, n²)
        Row k is A_k, row after row.
    n : int
    """

    def __init__(self, stack: Any, n: int) -> None:
        self.n, self.m = n, stack.shape[0]
        self.dtype = working_dtype(np.dtype(stack.dtype))
        if sp.issparse(stack):
            columns = sp.coo_array(stack)
            i, j = np.divmod(columns.coords[1].astype(np.int64), n)
            place = np.minimum(i, j) * n + np.maximum(i, j)
            kept, where = np.unique(place, return_inverse=True)
            # A_ij and A_ji fall on one place and add up
            T = sp.csr_array((columns.data, (columns.coords[0], where)), shape=(self.m, len(kept)), dtype=self.dtype)
            self.rows, self.cols = kept // n, kept % n
        else:
            self.rows, self.cols = np.triu_indices(n)
            A = stack.reshape(self.m, n, n)
            T = np.ascontiguousarray(A[:, self.rows, self.cols] + A[:, self.cols, self.rows], dtype=self.dtype)
            T[:, self.rows == self.cols] *= 0.5
        self.T = T
        self._half = np.where(self.rows == self.cols, 1.0, 0.5).astype(self.dtype)

    def image(self, X: Array) -> Array:
        """Return X."""
        return X

    def polars(self, *pairs: tuple[Array, Array]) -> Array:
        """Return T y for each pair."""
        Y = np.stack([self._touched(X, D) for X, D in pairs], axis=1)
        q: Array = self.T @ Y
        return q

    def _touched(self, X: Array, D: Array) -> Array:
        i, j = self.rows, self.cols
        y: Array
        if self._is_full:
            Y = X @ D.T
            y = Y[i, j] if D is X else 0.5 * (Y[i, j] + Y[j, i])
        else:
            y = row_sums(X[i], D[j])
            y = y if D is X else 0.5 * (y + row_sums(X[j], D[i]))
        return y

    @property
    def _is_full(self) -> bool:
        return len(self.rows) > _FULL * self.n**2

    def adjoint(self, y: Array, image: Array) -> Array:
        """Return 𝒜*(y) X."""
        N = self.matrix(y.astype(self.dtype, copy=False))
        return np.ascontiguousarray(N @ image, dtype=image.dtype)

    def matrix(self, y: Array) -> Any:
        """Return 𝒜*(y), dense or sparse."""
        c = (self.T.T @ y) * self._half
        if self._is_full:
            N = np.zeros((self.n, self.n), dtype=c.dtype)
            N[self.rows, self.cols] = N[self.cols, self.rows] = c
            return N
        off = self.rows != self.cols
        i = np.concatenate([self.rows, self.cols[off]])
        j = np.concatenate([self.cols, self.rows[off]])
        return sp.csr_array((np.concatenate([c, c[off]]), (i, j)), shape=(self.n, self.n))

    @property
    def work(self) -> float:
        """The entries stored."""
        return float(self.T.nnz if sp.issparse(self.T) else self.T.size)

    def gram_product(self, y: Array) -> Array:
        """Return T diag(½ off the diagonal, 1 on it) Tᵀ y."""
        K: Array = self.T @ (self._half * (self.T.T @ y))
        return K

    def adjoint_matrix(self, y: Array) -> Array:
        """Return 𝒜*(y) as an n × n array."""
        N = self.matrix(y)
        return N.toarray() if sp.issparse(N) else N  # type: ignore[no-any-return]
