"""Symmetric normalisation of a graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from quartic.arrays import finite_matrix


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
    scale = np.zeros_like(degree)
    np.divide(1.0, np.sqrt(degree), out=scale, where=degree > 0)
    # s_i s_j first: the product is then the same for (i, j) and (j, i), to the last bit.
    W.data *= np.repeat(scale, np.diff(W.indptr)) * scale[W.indices]
    return W
