"""Hundreds of clusters: a start that is nearly the answer, found with X sparse."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from quartic.arrays import Array
from quartic.compiled.clock import solving_time
from quartic.core.problem import Problem
from quartic.init import random_start, spectral_start
from quartic.losses.factor.loss import FullLeastSquares
from quartic.losses.factor.matrix import StoredMatrix

# Fewer columns are as quick dense; of a row so many nonzeros are kept; sweeps for each column, since columns make an
# iteration longer but no sweep; and rounds in a row at each.
_MANY, _ROOM, _SWEEPS, _ROUNDS = 100, 256, 0.25, 2


def start_of_many(
    problem: Problem, rank: int, generator: np.random.Generator, *, tol: float, max_time: float | None = None
) -> Array:
    r"""Return a start of :math:`\tfrac12\|M - XX^\top\|^2`, X ≥ 0: the spectral one and, of many columns, its descent.

    A product of a sparse M with r columns takes time in proportion to r, but few entries of a row of X are not zero.
    From the labels of `quartic.init.spectral_start`, one nonzero a row, rows are made best in turn
    (`quartic.compiled.graphs`), each in time in proportion to the nonzeros of its neighbours, until the projected
    gradient is ``tol`` times that at a random start, or after ``max_time`` seconds, or after r/4 sweeps: from
    there on iterations with dense rows are quicker, the more so the fewer the columns.
    """
    began = solving_time()
    X = spectral_start(problem, rank, generator)
    loss = problem.loss
    matrix = loss.matrix if isinstance(loss, FullLeastSquares) else None
    M: Any = matrix.M if isinstance(matrix, StoredMatrix) else None
    if rank < _MANY or not sp.issparse(M) or problem.penalty.cut(1.0) != (True, 0.0, 0.0):
        return X
    from quartic.compiled.graphs import descend_rows

    reference = problem.stationarity(loss.at(random_start(problem, rank, generator)))
    n, labels = len(X), X.argmax(axis=1)
    P = sp.csr_array((np.ones(n), (np.arange(n), labels)), shape=(n, rank))
    # the best multiple of P for all rows, and then of each
    MP = M @ P
    loss.count_products()
    between, size = P.T @ MP, np.bincount(labels, minlength=rank)
    scale = np.sqrt(max(between.trace(), 0.0) / np.square(size, dtype=float).sum())
    if not scale > 0:  # no edges within clusters, as where every node is one
        return X
    values = np.zeros((n, min(rank, _ROOM)))
    values[:, 0] = np.maximum(np.asarray(MP[np.arange(n), labels]), 0) / (scale * size[labels])
    columns, count = np.zeros(values.shape, np.int64), (values[:, 0] > 0).astype(np.int64)
    columns[:, 0] = labels
    G = np.diag(np.bincount(labels, values[:, 0] ** 2, rank))
    graph = M.indptr.astype(np.int64), M.indices.astype(np.int64), M.data.astype(np.float64)
    for _ in range(int(_SWEEPS * rank)):
        loss.count_products()  # a sweep looks at every entry of M, as a product does
        squares = descend_rows(*graph, generator.permutation(n), columns, values, count, G, _ROUNDS)
        if np.sqrt(squares) <= tol * reference or (max_time is not None and solving_time() - began >= max_time):
            break
    X[:] = 0
    some = np.arange(values.shape[1]) < count[:, None]
    X[np.nonzero(some)[0], columns[some]] = values[some]
    return X
