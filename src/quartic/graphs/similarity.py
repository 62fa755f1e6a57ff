"""The similarity matrices of the paper's clustering experiments, and the normalisation of a graph."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from quartic.arrays import finite_matrix, is_torch
from quartic.distributed.inputs import is_dask_array
from quartic.graphs.neighbors import (
    SIGMA_NEIGHBOR,
    Floats,
    check_features,
    find_neighbors,
    inverse_roots,
    measure_scales,
    powers_of_two,
    read_heap,
    row_maxima,
    scale_rows,
    square_rows,
)

KINDS = ("cosine", "self_tuning")
# Similarities of new points are made this many at a time; a squared distance below this share of the norm is zero.
_CELLS = 1 << 22
_COPY = 1e-13
_EQUAL = 1 - 1e-9  # weights that differ by less are equal, but for round-off


def similarity(
    X: Any,
    kind: Literal["cosine", "self_tuning"] = "cosine",
    n_neighbors: int | Literal["auto"] | None = "auto",
    normalize: bool = True,
) -> Any:
    r"""Build a sparse similarity graph of the rows of ``X``.

    ``"cosine"`` (documents):

    .. math:: W_{ij} = \max\Bigl(0, \frac{\langle x_i, x_j\rangle}{\|x_i\|\,\|x_j\|}\Bigr),

    ``"self_tuning"`` (images, and features in general), a Gaussian whose width follows the local density:

    .. math:: W_{ij} = \exp\Bigl(-\frac{\|x_i - x_j\|^2}{\sigma_i \sigma_j}\Bigr),

    with :math:`\sigma_i` the seventh smallest distance from :math:`x_i`, including the point itself. Each row keeps its
    ``n_neighbors`` largest weights (including the point itself, ties to the lowest index), an edge stays if either end
    kept it, and the graph is normalised to :math:`D^{-1/2} W D^{-1/2}`. The diagonal stays.

    Parameters
    ----------
    X : array, sparse matrix or Dask array (n_points, n_features)
        Features, taken as they are: term counts need no tf-idf, images no scaling. A Dask array of row blocks, dense or
        sparse, makes a Dask array of the same graph, built where the features are.
    kind : {"cosine", "self_tuning"}
        The weight.
    n_neighbors : int, "auto" or None
        Neighbours kept per sample, including the sample itself; ``"auto"`` is :math:`\lfloor\log_2 n\rfloor + 1`.
        ``None`` keeps all, which takes memory of order n². Otherwise memory is of order n · n_neighbors.
    normalize : bool
        Whether to scale by :math:`D^{-1/2}` on both sides.

    Returns
    -------
    csr_array, or Dask array of csr_array row blocks (n_points, n_points)
        Symmetric, float64, nonnegative, sorted indices, no stored zeros.

    Notes
    -----
    A zero row (an empty document) has no cosine and becomes an isolated node, a zero row of the graph. Seven or more
    copies of a point would have :math:`\sigma = 0`; they use the distance to the nearest point that differs. With fewer
    than seven points, :math:`\sigma` is the largest distance.

    Examples
    --------
    >>> from quartic.graphs import similarity
    >>> documents = [[2, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 3], [0, 0, 1, 1]]
    >>> similarity(documents, n_neighbors=2, normalize=False).toarray().round(2)
    array([[1.  , 0.95, 0.  , 0.  ],
           [0.95, 1.  , 0.  , 0.  ],
           [0.  , 0.  , 1.  , 0.89],
           [0.  , 0.  , 0.89, 1.  ]])
    >>> points = [[0.0], [0.1], [5.0], [5.1]]
    >>> W = similarity(points, "self_tuning", n_neighbors=2)
    >>> W.nnz, bool(abs(W - W.T).max() == 0)
    (8, True)
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(map(repr, KINDS))}, got {kind!r}")
    if not isinstance(normalize, bool | np.bool_):
        raise TypeError(f"normalize must be True or False, got {normalize!r}")
    _check_neighbors(n_neighbors)
    if is_torch(X):
        from quartic.graphs.torch_similarity import torch_similarity

        return torch_similarity(X, kind, lambda n: _kept(n_neighbors, n), bool(normalize))
    if is_dask_array(X):
        from quartic.graphs.dask_similarity import similarity_in_blocks

        return similarity_in_blocks(X, kind == "cosine", _kept(n_neighbors, int(X.shape[0])), bool(normalize))
    W = SimilarityGraph(X, kind, n_neighbors).weights
    if normalize:
        factors = inverse_roots(W.sum(axis=1))
        scale_both_sides(W, factors, factors)
    return W


class SimilarityGraph:
    """The similarity graph of features in memory, not normalised, and what new points need to be compared with it."""

    def __init__(self, X: Any, kind: str, n_neighbors: Any) -> None:
        self.cosine, X = kind == "cosine", check_features(X)
        largest = row_maxima(X)
        self.unit = powers_of_two(largest if self.cosine else largest.max())
        self.X = scale_rows(X, self.unit)
        n = X.shape[0]
        self.kept = _kept(n_neighbors, n)
        self.squares = square_rows(self.X)
        self.scales = self.squares if self.cosine else measure_scales(self.X)
        row, column, value = read_heap(find_neighbors(self.X, self.scales, self.kept, self.cosine))
        weights = weigh(value, self.scales[row], self.scales[column], self.cosine)
        kept = sp.csr_array((weights, (row, column)), shape=(n, n))
        self.weights = unite(kept, kept.T.tocsr())

    def rows(self, new: Any) -> sp.csr_array:
        """Return the rows (m, n) that new points would have in the normalised graph.

        Old points keep their σ, their degrees and the least weight of those that they keep themselves: one of them that
        is handed in again gets its own row. This takes products with all old points, a block of new ones at a time, and
        no search among the old.
        """
        new = check_features(new)
        new = scale_rows(new, powers_of_two(row_maxima(new)) if self.cosine else self.unit)
        squares, least, size = square_rows(new), self._least_kept(), max(1, _CELLS // len(self.squares))
        blocks = []
        for at in range(0, new.shape[0], size):
            dots = new[at : at + size] @ self.X.T
            W = self._weights(dots.toarray() if sp.issparse(dots) else dots, squares[at : at + size, None])
            own = -np.partition(-W, self.kept - 1, axis=1)[:, self.kept - 1, None]
            blocks.append(sp.csr_array(np.where(_EQUAL * np.minimum(own, least) <= W, W, 0.0)))
        S = sp.csr_array(sp.vstack(blocks, format="csr"))
        scale_both_sides(S, inverse_roots(S.sum(axis=1)), inverse_roots(self.weights.sum(axis=1)))
        return S

    def _weights(self, dots: Floats, squares: Floats) -> Floats:
        if self.cosine:
            lengths = np.sqrt(squares * self.squares)
            return np.clip(np.divide(dots, lengths, out=np.zeros_like(dots), where=lengths > 0), 0, 1)
        distances = np.maximum(squares + self.squares - 2 * dots, 0)
        distances[distances < _COPY * squares] = 0  # round-off between a point and its copy
        nearest = min(SIGMA_NEIGHBOR, len(self.squares)) - 1
        widths = np.partition(distances, nearest, axis=1)[:, nearest, None]
        other = np.where(distances > 0, distances, np.inf).min(axis=1, keepdims=True)
        widths = np.where(widths > 0, widths, np.where(np.isfinite(other), other, 1.0))
        weights: Floats = np.exp(-distances / (np.sqrt(widths) * np.sqrt(self.scales)))
        return weights

    def _least_kept(self) -> Floats:
        """Return the least weight that each old point keeps itself: entries that only the other end kept are below."""
        W = self.weights
        order = np.lexsort((-W.data, np.repeat(np.arange(W.shape[0]), np.diff(W.indptr))))
        last = np.minimum(W.indptr[:-1] + self.kept, W.indptr[1:]) - 1
        full = np.diff(W.indptr) >= self.kept
        least: Floats = np.where(full, W.data[order][np.maximum(last, 0)], np.finfo(np.float64).tiny)
        return least


def normalize(W: Any) -> sp.csr_array:
    r"""Return :math:`D^{-1/2} W D^{-1/2}`, where :math:`D` holds the row sums of :math:`W` on its diagonal.

    Nodes without edges stay zero. A symmetric ``W`` gives an exactly symmetric answer.

    Parameters
    ----------
    W : array or sparse matrix (n, n)
        Weights. No row may have a negative sum.

    Returns
    -------
    csr_array (n, n)
        A new float64 matrix with sorted indices.

    Examples
    --------
    >>> from quartic.graphs import normalize
    >>> normalize([[1, 1, 0], [1, 3, 0], [0, 0, 0]]).toarray().round(3)
    array([[0.5  , 0.354, 0.   ],
           [0.354, 0.75 , 0.   ],
           [0.   , 0.   , 0.   ]])
    """
    W = sp.csr_array(W if sp.issparse(W) else finite_matrix(W, "W"), dtype=np.float64, copy=True)
    if W.shape[0] != W.shape[1]:
        raise ValueError(f"W must be square, got shape {W.shape}; build a graph from features with graphs.similarity")
    W.sum_duplicates()
    degree = W.sum(axis=1)
    if not np.isfinite(degree).all():
        row = int(np.flatnonzero(~np.isfinite(degree))[0])
        raise ValueError(f"W must be finite, but row {row} of W sums to {degree[row]}; drop or replace that entry")
    if (degree < 0).any():
        row = int(np.flatnonzero(degree < 0)[0])
        raise ValueError(f"row {row} of W sums to {degree[row]:g} and has no square root; clip negative weights first")
    factors = inverse_roots(degree)
    scale_both_sides(W, factors, factors)
    return W


def _check_neighbors(n_neighbors: Any) -> None:
    if n_neighbors is None or (isinstance(n_neighbors, str) and n_neighbors == "auto"):
        return
    if isinstance(n_neighbors, bool) or not isinstance(n_neighbors, Integral):
        raise TypeError(f'n_neighbors must be an integer, "auto" or None (the full graph), got {n_neighbors!r}')
    if n_neighbors < 1:
        raise ValueError(f"n_neighbors must be at least 1 (the point itself counts), got {n_neighbors}")


def _kept(n_neighbors: Any, n: int) -> int:
    if n_neighbors is None:
        return n
    return n.bit_length() if n_neighbors == "auto" else min(int(n_neighbors), n)  # bit_length is ⌊log2 n⌋ + 1


def weigh(value: Floats, scale: Floats, other: Floats, cosine: bool) -> Floats:
    """Return weights from dot products and the ends' squared norms, or from squared distances and the ends' σ²."""
    if cosine:  # √(‖a‖²‖b‖²) rather than ‖a‖‖b‖: the diagonal is then 1 exactly
        weights: Floats = np.minimum(value / np.sqrt(scale * other), 1.0)
    else:
        weights = np.exp(-value / (np.sqrt(scale) * np.sqrt(other)))
    return weights


def unite(kept: sp.csr_array, kept_by: sp.csr_array) -> sp.csr_array:
    """Return the edges that either end kept, each with the larger weight."""
    W = sp.csr_array(kept.maximum(kept_by))
    W.eliminate_zeros()
    W.sort_indices()
    if max(W.nnz, *W.shape) < 2**31:  # scikit-learn insists on the shorter indices
        W.indices, W.indptr = W.indices.astype(np.int32), W.indptr.astype(np.int32)
    return W


def scale_both_sides(W: sp.csr_array, mine: Floats, theirs: Floats) -> None:
    """Multiply each weight by the factors of both ends, of its row and its column, in place."""
    # s_i s_j first: the product is then the same for (i, j) and (j, i), to the last bit.
    W.data *= np.repeat(mine, np.diff(W.indptr)) * theirs[W.indices]
