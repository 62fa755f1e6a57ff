"""Rows of a factor: those of new nodes, and which of their entries are more than noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from quartic.arrays import Array
from quartic.baselines.nnls import solve_nnls
from quartic.distributed.inputs import is_dask_array

_ROWS = 1 << 14  # rows placed at a time


def place(S: Any, X: Array) -> Array:
    """Return, row by row, argmin over y ≥ 0 of ‖s − yXᵀ‖ for similarities S (m, n) and the factor X (n, r).

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.clustering.placing import place
    >>> X = np.kron(np.eye(2), np.ones((3, 1)))
    >>> place(np.array([[1.0, 1, 1, 0, 0, 0], [0, 0, 0, 2, 2, 2]]), X)
    array([[1., 0.],
           [0., 2.]])
    """
    G = X.T.astype(np.float64) @ X
    S = sp.csr_array(S) if sp.issparse(S) else np.asarray(S)
    blocks = []
    for at in range(0, S.shape[0], _ROWS):
        C = np.asarray(S[at : at + _ROWS] @ X, dtype=np.float64)
        largest = C.max(axis=1, keepdims=True)  # the cluster a node begins with
        blocks.append(solve_nnls(G, C, np.where(largest == C, np.maximum(C, 0), 0.0)))
    rows: Array = np.vstack(blocks).astype(X.dtype, copy=False)
    return rows


def above_noise(M: Any, X: Array) -> NDArray[np.bool_]:
    """Return which entries of X are more than noise, as `SymNMF.communities_` has it."""
    if is_dask_array(M):
        raise TypeError("communities_ are for matrices in memory, but M is in Dask's blocks; see memberships_")
    n, rank = X.shape
    X = X.astype(np.float64)
    G = X.T @ X
    squares = np.asarray((M * M).sum(axis=1) if not sp.issparse(M) else M.multiply(M).sum(axis=1)).ravel()
    residual = squares - 2 * np.einsum("ik,ik->i", np.asarray(M @ X), X) + np.einsum("ik,kl,il->i", X, G, X)
    deviation = np.sqrt(np.maximum(residual, 0) / max(n - rank, 1))
    error = np.sqrt(np.maximum(np.diag(np.linalg.pinv(G)), 0))
    bound = math.sqrt(2 * math.log(max(n * rank, 2))) * deviation[:, None] * error
    inside: NDArray[np.bool_] = np.maximum(bound, 1e-6 * X.max(axis=1, keepdims=True)) < X
    return inside
