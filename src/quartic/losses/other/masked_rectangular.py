"""Known entries of a rectangular matrix, weighted, fitted by UVᵀ."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from quartic.arrays import Array, finite_matrix
from quartic.losses.factor.weighted import WeightedLeastSquares
from quartic.losses.other.rectangular_matrix import balanced_factors
from quartic.losses.other.stacked_factors import in_two, rectangular_random, split_factors
from quartic.losses.point import Point


class MaskedRectangular(WeightedLeastSquares):
    r"""Weighted fit of known entries, :math:`f(X) = \frac12\sum_{ij} w_{ij}(A_{ij} - (UV^T)_{ij})^2`, X = [U; V].

    Made by ``Rectangular(A, weights=W)``, whose notes have the constants. It is `WeightedLeastSquares` of the
    bordered matrix [0, A; Aᵀ, 0], of which each entry counts twice and so has half its weight.

    Parameters
    ----------
    A : array or sparse (m, n)
        What it holds outside the pattern of the weights does not matter.
    weights : array or sparse (m, n)
        Nonnegative.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.losses import Rectangular
    >>> A = np.array([[1.0, np.nan], [2.0, 4.0]])
    >>> loss = Rectangular(A, weights=np.isfinite(A))
    >>> loss.value(np.array([[1.0], [2.0], [1.0], [2.0]]))
    0.0
    """

    def __init__(self, A: Any, weights: Any) -> None:
        if isinstance(A, LinearOperator):
            raise TypeError("weights need the entries of A, but A is a LinearOperator; pass an array or sparse matrix")
        W = sp.csr_array(weights if sp.issparse(weights) else finite_matrix(weights, "weights")).tocoo()
        if len(np.shape(A)) != 2 or np.shape(A) != W.shape:
            raise ValueError(f"A and weights must be 2-D and of the same shape, got {np.shape(A)} and {W.shape}")
        i, j = W.coords
        values = np.asarray(A.tocsr()[i, j] if sp.issparse(A) else np.asarray(A)[i, j]).ravel()
        known = (W.data != 0) & ~np.isfinite(values)
        if known.any():
            k = int(known.argmax())
            raise ValueError(f"A[{i[k]}, {j[k]}] is {values[k]}, but weights say it is known; give it weight 0")
        values = np.where(W.data != 0, values, 0)
        m, n = W.shape
        self.shape = (m, n)
        dtype = np.float32 if values.dtype == np.float32 else np.float64
        super().__init__(
            _bordered(values.astype(dtype), i, j, m, n), _bordered(0.5 * W.data.astype(np.float64), i, j, m, n)
        )

    def factors(self, X: Array) -> tuple[Array, Array]:
        """Return U (m, r) and V (n, r) of X."""
        return split_factors(X, self.shape)

    def curvature_diagonal(self, p: Point) -> Array:
        """Return Σ_j w_ij · mean_j(v_jk²) for the rows of U, and likewise for those of V: exact if all w are equal."""
        m = self.shape[0]
        U, V = p.X[:m], p.X[m:]
        mean_u, mean_v = ((np.square(Z, dtype=np.float64).mean(axis=0)) for Z in (U, V))
        return in_two(p.X, m, np.outer(self._degrees[:m], mean_v), np.outer(self._degrees[m:], mean_u))

    @cached_property
    def _degrees(self) -> Array:
        """Σ_j w_ij for each row of U, Σ_i w_ij for each row of V."""
        assert self.weight is not None
        degrees = np.bincount(self.rows, self.weight, self.n_points) + np.bincount(
            self.cols, self.weight, self.n_points
        )
        floored: Array = np.maximum(degrees, 1e-3 * degrees.mean())
        return floored

    def default_start(self, rank: int, nonnegative: bool, generator: np.random.Generator) -> Array:
        """Return the leading singular vectors of A filled with zeros, scaled to fit what is known; random if X ≥ 0."""
        if nonnegative:
            return self.random_start(rank, True, generator)

        def product(V: Array) -> Array:
            self._count()
            NV: Array = self._gradient_at_zero @ V  # ½[0, w∘A; (w∘A)ᵀ, 0]
            return NV

        X = balanced_factors(product, self.shape, rank, generator)
        noise = 0.1 * math.sqrt(float(np.square(X).mean())) * generator.standard_normal((self.n_points, rank))
        noise[:, : X.shape[1]] = X  # columns beyond min(m, n) are small, not zero: zero would stay zero
        return self.best_scale(noise) if X.any() else self.random_start(rank, False, generator)

    def random_start(self, rank: int, nonnegative: bool, generator: np.random.Generator) -> Array:
        """Return a random X of the scale of the known entries."""
        assert self.weight is not None
        size = math.sqrt(2 * self.value_at_zero / float(self.weight.sum()))
        return rectangular_random(self.n_points, rank, nonnegative, self.mean_entry(), size, generator)


def _bordered(values: Array, i: Any, j: Any, m: int, n: int) -> Any:
    """Return the symmetric matrix with these entries (i, m + j)."""
    rows, cols = np.concatenate([i, m + j]), np.concatenate([m + j, i])
    return sp.coo_array((np.concatenate([values, values]), (rows, cols)), shape=(m + n, m + n)).tocsr()
