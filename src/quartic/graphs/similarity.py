"""The similarity matrices of the paper's clustering experiments."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from quartic.arrays import is_torch
from quartic.distributed.inputs import is_dask_array
from quartic.graphs.features import cosine_features, distance_features
from quartic.graphs.neighbors import Neighbors, largest_cosines, local_scales, smallest_scaled_distances
from quartic.graphs.normalization import normalize as normalized

KINDS = ("cosine", "self_tuning")


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
        Weights kept by a row; ``"auto"`` is :math:`\lfloor\log_2 n\rfloor + 1`. ``None`` keeps them all, which takes
        memory of order n². Otherwise memory is of order n · n_neighbors.
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
    if kind == "cosine":
        features = cosine_features(X)
        pairs = largest_cosines(features, _kept(n_neighbors, features.n))
        squares = features.squares
        # √(‖a‖²‖b‖²) rather than ‖a‖‖b‖: the diagonal is then 1 exactly.
        weights = np.minimum(pairs.value / np.sqrt(squares[pairs.row] * squares[pairs.column]), 1.0)
    else:
        features = distance_features(X)
        scales = local_scales(features)
        pairs = smallest_scaled_distances(features, scales, _kept(n_neighbors, features.n))
        sigma = np.sqrt(scales)
        weights = np.exp(-pairs.value / (sigma[pairs.row] * sigma[pairs.column]))
    W = _union(pairs, weights, features.n)
    return normalized(W) if normalize else W


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


def _union(pairs: Neighbors, weights: Any, n: int) -> sp.csr_array:
    kept = sp.csr_array((weights, (pairs.row, pairs.column)), shape=(n, n))
    W = sp.csr_array(kept.maximum(kept.T.tocsr()))
    W.eliminate_zeros()
    W.sort_indices()
    return W
