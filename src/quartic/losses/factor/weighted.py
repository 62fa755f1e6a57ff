"""Weighted least squares on a pattern of known entries: ½ Σ w_ij (M_ij − (XXᵀ)_ij)²."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from quartic.arrays import Array, finite_matrix, working_dtype
from quartic.core.units import Units, shifted
from quartic.losses.factor.loss import nonnegative_start
from quartic.losses.factor.matrix import SparseMatrix, check_square
from quartic.losses.factor.spectrum import negative_part_of_spectrum
from quartic.losses.pairs.input import merge_duplicates
from quartic.losses.pairs.pair_squares import PairSquares


class WeightedLeastSquares(PairSquares):
    r"""Weighted least squares :math:`f(X) = \frac12\sum_{ij} w_{ij}(M_{ij} - (XX^T)_{ij})^2` on the pattern of w.

    Made by ``LeastSquares(M, weights=W)``. Entries outside the pattern of W are unknown; those inside are known, also
    where M stores nothing, which is a zero. Memory and time of a pass are in proportion to the stored weights.

    Parameters
    ----------
    M : array or sparse (n, n)
        Symmetric on the pattern; what it holds elsewhere, NaN included, does not matter.
    weights : array or sparse (n, n)
        Symmetric and nonnegative.

    Notes
    -----
    Constants. The Hessian of F is the diagonal map Y ↦ w ∘ Y, so L_F = max w and μ_F = min w if every entry is known,
    else 0. ∇F(0) = −w ∘ M. The sum runs over ordered pairs: off the diagonal each unordered one counts twice.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.losses import LeastSquares
    >>> M = np.array([[1.0, np.nan], [np.nan, 1.0]])
    >>> loss = LeastSquares(M, weights=np.eye(2))
    >>> loss.value(np.ones((2, 1)))
    0.0
    """

    difference = False

    def __init__(self, M: Any, weights: Any) -> None:
        super().__init__()
        if isinstance(M, LinearOperator):
            raise TypeError("weights need the entries of M, but M is a LinearOperator; pass an array or sparse matrix")
        if not sp.issparse(weights):
            weights = finite_matrix(weights, "weights")
        W = SparseMatrix(sp.csr_array(weights, copy=True), "weights").M
        check_square(np.shape(M), "M")
        if np.shape(M) != W.shape:
            raise ValueError(f"M and weights must have the same shape, got {np.shape(M)} and {W.shape}")
        if W.data.min(initial=0.0) < 0:
            raise ValueError(f"weights must be nonnegative, the least is {W.data.min()}")
        W.eliminate_zeros()
        if W.nnz == 0:
            raise ValueError("weights are all zero: no entry of M is known")
        self.n_points = W.shape[0]
        known = sp.triu(W, format="coo")
        i, j = known.coords
        values, mirrored = _entries(M, i, j), _entries(M, j, i)
        gap = np.abs(values - mirrored)
        if (gap > 1e-10 * np.abs(values).max(initial=0.0)).any():
            k = int(gap.argmax())
            raise ValueError(
                f"M must be symmetric where it is known, but M[{i[k]}, {j[k]}] = {values[k]} and "
                f"M[{j[k]}, {i[k]}] = {mirrored[k]}; if that is not a mistake, pass (M + M.T) / 2"
            )
        weight = known.data.astype(values.dtype) * np.where(i == j, 1, 2).astype(values.dtype)
        pairs = np.column_stack([i, j]).astype(np.int64)
        self.start, self.cols, self.target, self.weight = merge_duplicates(
            pairs, values, weight, self.n_points, diagonal=True
        )
        self._largest, self._full = float(known.data.max()), W.nnz == self.n_points**2
        self._least = float(known.data.min())

    def in_units(self, units: Units) -> Self:
        """Return the loss of 4^length · M, with the weights scaled too."""
        twin, power = super().in_units(units), units.value - self.degree * units.length
        twin._largest, twin._least = shifted(self._largest, power), shifted(self._least, power)
        return twin

    @property
    def dtype(self) -> type[np.floating[Any]]:
        """The type of M."""
        return working_dtype(self.target.dtype)

    @property
    def smoothness(self) -> float:
        """L_F = max w."""
        return self._largest

    @property
    def strong_convexity(self) -> float:
        """μ_F = min w where every entry is known, else 0."""
        return self._least if self._full else 0.0

    @cached_property
    def _gradient_at_zero(self) -> Any:
        """−∇F(0)."""
        return self._weighted_entries()

    def _weighted_entries(self) -> Any:
        """Return W ∘ M as a sparse symmetric matrix."""
        assert self.weight is not None
        upper = sp.csr_array(
            (self.target * self.weight, self.cols, self.start), shape=(self.n_points, self.n_points), dtype=np.float64
        )
        return ((upper + upper.T) * 0.5).tocsr()

    @property
    def gradient_norm_at_zero(self) -> float:
        """‖w ∘ M‖."""
        return float(np.linalg.norm(self._gradient_at_zero.data))

    @property
    def curvature_at_zero(self) -> float:
        """max(0, −λ_min(w ∘ M))."""
        if "curvature" not in self._constants:
            bound = negative_part_of_spectrum(SparseMatrix(self._gradient_at_zero), self._count)
            self._constants["curvature"] = min(bound, self.gradient_norm_at_zero)
        return self._constants["curvature"]

    @property
    def gradient_scale(self) -> float:
        """What multiplies eps·‖X‖ in the gradient's round-off: the largest row sum of w|M|, four times."""
        return 4 * float(abs(self._gradient_at_zero).sum(axis=1).max())

    def mean_entry(self) -> float:
        """Return the weighted mean of the known entries."""
        assert self.weight is not None
        return float(np.dot(self.target, self.weight) / self.weight.sum())

    def random_start(self, rank: int, nonnegative: bool, generator: np.random.Generator) -> Array:
        """Return the start of `LeastSquares`, with the mean of the known entries."""
        if nonnegative:
            assert self.weight is not None
            size = math.sqrt(2 * self.value_at_zero / float(self.weight.sum()))
            return nonnegative_start(self.n_points, rank, self.mean_entry(), size, generator)
        return self.best_scale(generator.standard_normal((self.n_points, rank)))


def _entries(M: Any, i: Any, j: Any) -> Array:
    """Return the entries M[i, j], which must be finite."""
    values = np.asarray(M.tocsr()[i, j] if sp.issparse(M) else np.asarray(M)[i, j])
    values = values.ravel().astype(working_dtype(values.dtype))
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        k = int(bad[0])
        raise ValueError(f"M[{i[k]}, {j[k]}] is {values[k]}, but weights say it is known; give it weight 0")
    return values
