"""Least squares ½‖M − XXᵀ‖²: of all entries of M, or weighted on a pattern of known ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from quartic.arrays import Array, Space, finite_csr, finite_matrix, real_array, working_dtype
from quartic.distributed.inputs import is_dask_array
from quartic.losses.devices import brought_here
from quartic.losses.factor.loss import FullLeastSquares
from quartic.losses.factor.matrix import ASYMMETRY, SparseMatrix, check_square, refuse
from quartic.losses.pairs.completion import KnownEntries
from quartic.losses.pairs.input import place_pairs, sort_pairs
from quartic.losses.pairs.pairs import ENTRIES


def LeastSquares(M: Any, *, weights: Any = None, squared_norm: float | None = None) -> Any:
    r"""Least squares :math:`f(X) = \frac12\|M - XX^T\|^2`, so :math:`F(Y) = \frac12\|M - Y\|^2`.

    Parameters
    ----------
    M : array, sparse matrix or array, LinearOperator, or Dask array of row blocks, (n, n)
        Symmetric. Only its products with tall matrices are used. See `quartic.losses.DaskMatrix`.
    weights : array or sparse (n, n), optional
        Weights of the known entries, symmetric and nonnegative. Entries outside their pattern are unknown, and M may
        hold anything there, NaN included; those inside are known, also where M stores nothing, which is a zero.
    squared_norm : float, optional
        ‖M‖²; needed for a LinearOperator, worked out otherwise.

    Returns
    -------
    FullLeastSquares or WeightedLeastSquares
        The loss.

    Notes
    -----
    Constants. ∇F(Y) = Y − M, so L_F = μ_F = 1 and ‖∇F(0)‖ = ‖M‖. For any U, ⟨∇F(0), UUᵀ⟩ = −⟨M, UUᵀ⟩ ≤
    −λ_min(M)‖U‖², which makes ``curvature_at_zero`` = max(0, −λ_min(M)): for a normalised graph at most 1, where ‖M‖
    is in the tens. It is exact for small matrices; for large ones a bound by Lanczos' method that fails with a
    probability of at most 1e-6, never more than ‖M‖.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.losses import LeastSquares
    >>> loss = LeastSquares(np.array([[1.0, 0.5], [0.5, 1.0]]))
    >>> loss.value(np.eye(2))
    0.25
    """
    if weights is None:
        return FullLeastSquares(M, squared_norm)
    if is_dask_array(M):
        raise TypeError("weights are for matrices in memory, but M is in Dask's blocks; leave weights out")
    return WeightedLeastSquares(M, weights)


class WeightedLeastSquares(KnownEntries):
    r"""Weighted least squares :math:`f(X) = \frac12\sum_{ij} w_{ij}(M_{ij} - (XX^T)_{ij})^2` on the pattern of w.

    Made by ``LeastSquares(M, weights=W)``; ``space`` is where the passes are made, if not where the data are. With a
    tensor among these all is done on its device, once the host has looked them over. Memory and time of a pass are in
    proportion to the stored weights.

    Constants. The Hessian of F is the diagonal map Y ↦ w ∘ Y, so L_F = max w and μ_F = min w if every entry is known,
    else 0. ∇F(0) = −w ∘ M. The sum runs over ordered pairs: off the diagonal each unordered one counts twice.
    """

    name = "LeastSquares with weights"

    def __init__(self, M: Any, weights: Any, space: Space | None = None) -> None:
        found, (M, weights) = brought_here(M=M, weights=weights)
        W = check_weights(weights, M, "M")
        check_square(W.shape, "M")
        known = sp.triu(SparseMatrix(W, "weights").M, format="coo")
        i, j = known.coords
        values, mirrored = known_entries(M, i, j, "M"), known_entries(M, j, i, "M")
        gap = np.abs(values - mirrored)
        if (gap > ASYMMETRY[values.dtype.type] * np.abs(values).max(initial=0.0)).any():
            k = int(gap.argmax())
            refuse(i[k], j[k], values[k], mirrored[k], "M", " where it is known")
        weight = known.data.astype(values.dtype) * np.where(i == j, 1, 2).astype(values.dtype)
        pairs = np.column_stack([i, j]).astype(np.int64)
        listed = sort_pairs(ENTRIES, pairs, values, weight, W.shape[0], diagonal=True)
        super().__init__(place_pairs(listed, found if space is None else space))


def check_weights(weights: Any, M: Any, name: str) -> sp.csr_array:
    """Return the weights of the known entries of a matrix, sparse and positive, or raise what is wrong with them."""
    if isinstance(M, LinearOperator):
        raise TypeError(
            f"weights need the entries of {name}, but {name} is a LinearOperator; pass an array or sparse matrix"
        )
    W = sp.csr_array(weights if sp.issparse(weights) else finite_matrix(weights, "weights"), copy=True)
    W = finite_csr(W, "weights")
    if np.shape(M) != W.shape:
        raise ValueError(f"{name} and weights must be 2-D and of the same shape, got {np.shape(M)} and {W.shape}")
    if W.data.min(initial=0.0) < 0:
        raise ValueError(f"weights must be nonnegative, the least is {W.data.min()}")
    W.eliminate_zeros()
    if W.nnz == 0:
        raise ValueError(f"weights are all zero: no entry of {name} is known")
    return W


def known_entries(M: Any, i: Any, j: Any, name: str) -> Array:
    """Return the entries M[i, j], which must be finite."""
    values = real_array((M.tocsr() if sp.issparse(M) else np.asanyarray(M))[i, j], name)
    values = values.ravel().astype(working_dtype(values.dtype))
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        k = int(bad[0])
        raise ValueError(f"{name}[{i[k]}, {j[k]}] is {values[k]}, but weights say it is known; give it weight 0")
    return values
