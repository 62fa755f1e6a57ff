"""Rows of a factor: those of new nodes, how well they predict, and which entries are more than noise."""

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
_FRINGE = 0.15  # of what a member has, is none: between planted overlaps and single edges


def lifted(X: Array) -> Array:
    """Return a start with zeros lifted to a hundredth of a typical entry: no method is locked there."""
    start: Array = np.maximum(X, 0.01 * np.sqrt(np.mean(X**2)))
    return start


def place(S: Any, X: Array) -> Array:
    """Return, row by row, argmin over y ≥ 0 of ‖s − yXᵀ‖ for similarities S (m, n) and the factor X (n, r)."""
    G = X.T.astype(np.float64) @ X
    S = sp.csr_array(S) if sp.issparse(S) else np.asarray(S)
    blocks = []
    for at in range(0, S.shape[0], _ROWS):
        C = np.asarray(S[at : at + _ROWS] @ X, dtype=np.float64)
        largest = C.max(axis=1, keepdims=True)  # the cluster a node begins with
        blocks.append(solve_nnls(G, C, np.where(largest == C, np.maximum(C, 0), 0.0)))
    rows: Array = np.vstack(blocks).astype(X.dtype, copy=False)
    return rows


def held_out_fit(S: Any, X: Array) -> float:
    r"""Return the share of the similarities S (m, n) of new nodes that the factor X (n, r) predicts: at most 1.

    The n known nodes are cut in two halves at random. A new node's row y of the factor follows from its similarities to
    one half, and is judged by those to the other:

    .. math:: 1 - \frac{\sum \|s_B - y X_B^\top\|^2}{\sum \|s_B\|^2}, \qquad
              y = \operatorname{argmin}_{y \ge 0} \|s_A - y X_A^\top\|,

    both ways round (bi-cross-validation, Owen and Perry 2009). Unlike the error of the fit, it gets worse again when r
    is too large. No m × n matrix is made.
    """
    n, rank = X.shape
    X = X.astype(np.float64, copy=False)
    order = np.random.default_rng(0).permutation(n)
    S = sp.csc_array(S) if sp.issparse(S) else np.asarray(S)
    error = size = 0.0
    for A, B in ((order[: n // 2], order[n // 2 :]), (order[n // 2 :], order[: n // 2])):
        Y = solve_nnls(X[A].T @ X[A], np.asarray(S[:, A] @ X[A]), np.zeros((S.shape[0], rank)))
        seen = S[:, B]
        square = float(np.square(seen.data if sp.issparse(seen) else seen, dtype=np.float64).sum())
        fit = float((np.asarray(seen @ X[B]) * Y).sum())
        error += square - 2 * fit + float(((Y.T @ Y) * (X[B].T @ X[B])).sum())
        size += square
    return 1 - error / size if size > 0 else 0.0


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
    member = (X**3).sum(axis=0) / np.maximum((X**2).sum(axis=0), np.finfo(float).tiny)
    inside: NDArray[np.bool_] = np.maximum(bound, _FRINGE * member) < X
    return inside
