"""The matrices of a framework (points joined by bars): rigidity matrix, rigid motions, stress matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from quartic.arrays import Array
from quartic.distance.pair_graph import Indices


def rigidity_matrix(pairs: Indices, X: Array, *, unit: bool = False) -> Any:
    r"""Return the sparse rigidity matrix R, one row per pair, ``d`` columns per point.

    .. math:: R_{ij} = (\ldots,\ x_i - x_j,\ \ldots,\ x_j - x_i,\ \ldots)

    ``R v = 0`` says that the velocities ``v`` change no length to first order. Generic positions are locally rigid
    exactly when ``rank R = n d - d (d + 1) / 2``.

    Parameters
    ----------
    pairs : (m, 2) array of int
    X : (n, d) array
    unit : bool
        Divide each row by its length, which gives the Jacobian of the distances. Points that coincide give a zero row.

    Returns
    -------
    R : (m, n d) scipy.sparse.csr_array

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.rigidity import rigidity_matrix
    >>> triangle = np.array([[0, 1], [1, 2], [0, 2]])
    >>> R = rigidity_matrix(triangle, np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    >>> int(np.linalg.matrix_rank(R.toarray()))
    3
    """
    n, d = X.shape
    m = len(pairs)
    U = (X[pairs[:, 0]] - X[pairs[:, 1]]).astype(np.float64)
    if unit:
        length = np.linalg.norm(U, axis=1, keepdims=True)
        U /= np.where(length > 0, length, 1.0)
    columns = (pairs[:, :, None] * d + np.arange(d)).reshape(m, 2 * d)
    data = np.concatenate([U, -U], axis=1)
    indptr = np.arange(0, 2 * d * m + 1, 2 * d)
    return sp.csr_array((data.ravel(), columns.ravel(), indptr), shape=(m, n * d))


def rigid_motions(X: Array) -> Array:
    r"""Return the velocities of the translations and rotations of ``X``, columns of length ``n d``.

    .. math:: v_i = t + S x_i, \qquad S = -S^\top

    The ``d (d + 1) / 2`` columns are not made orthogonal; on degenerate points they may be dependent.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.distance.framework import rigid_motions
    >>> rigid_motions(np.array([[1.0, 3.0], [-1.0, 2.0]])).tolist()
    [[1.0, 0.0, 3.0], [0.0, 1.0, -1.0], [1.0, 0.0, 2.0], [0.0, 1.0, 1.0]]
    """
    n, d = X.shape
    first, second = np.triu_indices(d, 1)
    motions = np.zeros((n, d, d + len(first)))
    motions[:, np.arange(d), np.arange(d)] = 1.0
    for k, (a, b) in enumerate(zip(first, second, strict=True), start=d):
        motions[:, a, k] = X[:, b]
        motions[:, b, k] = -X[:, a]
    return motions.reshape(n * d, -1)


def orthonormal_columns(A: Array) -> Array:
    """Return an orthonormal basis of the column space of a thin matrix (dependent columns are dropped).

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.distance.framework import orthonormal_columns
    >>> orthonormal_columns(np.array([[1.0, 2.0], [0.0, 0.0], [1.0, 2.0]])).shape
    (3, 1)
    """
    U, s, _ = np.linalg.svd(A, full_matrices=False)
    basis: Array = U[:, s > 1e-12 * s.max(initial=0.0)]
    return basis


def stress_matrix(pairs: Indices, stress: Array, n_points: int) -> Any:
    r"""Return the sparse stress matrix, the graph Laplacian whose weights are the stresses (of either sign).

    .. math:: \Omega = \sum_{ij} \omega_{ij} (e_i - e_j)(e_i - e_j)^\top

    For an equilibrium stress, ``R^T omega = 0``, the constant vector and the columns of X lie in its kernel. A graph on
    ``n >= d + 2`` points is generically globally rigid exactly when the kernel of a random equilibrium stress of a
    random framework is no larger than that, dimension ``d + 1`` (Gortler, Healy and Thurston 2010).

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.rigidity import stress_matrix
    >>> stress_matrix(np.array([[0, 1], [1, 2]]), np.array([1.0, -1.0]), 3).toarray().tolist()
    [[1.0, -1.0, 0.0], [-1.0, 0.0, 1.0], [0.0, 1.0, -1.0]]
    """
    i, j = pairs[:, 0], pairs[:, 1]
    rows, columns = np.concatenate([i, j, i, j]), np.concatenate([j, i, i, j])
    values = np.concatenate([-stress, -stress, stress, stress])
    return sp.csr_array((values, (rows, columns)), shape=(n_points, n_points))
