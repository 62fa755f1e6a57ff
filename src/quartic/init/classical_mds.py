"""Classical multidimensional scaling: coordinates from a complete matrix of distances."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import LinearOperator, eigsh

from quartic.arrays import Array, RandomState, finite_matrix, random_generator


def classical_mds(D: Array, n_components: int = 3, *, random_state: RandomState = 0) -> Array:
    r"""Return the coordinates whose inner products fit a complete matrix of distances best.

    .. math:: B = -\tfrac12 \Pi (D \circ D) \Pi, \quad \Pi = I - \tfrac1n 11^\top, \qquad X = V \Lambda_+^{1/2}

    with the ``n_components`` largest eigenpairs of B. Exact for Euclidean distances. B is never formed: Lanczos
    iterations square and centre D on the fly, a block of rows at a time, so that nothing of size n × n is stored
    besides D itself.

    Parameters
    ----------
    D : (n, n) array
        Distances (not squares), symmetric, all of them.
    n_components : int
    random_state : int, Generator or None
        For the start of the Lanczos iteration.

    Returns
    -------
    X : (n, n_components) array
        Centred, along principal axes; directions in which the distances have no extent are zero.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.init.classical_mds import classical_mds
    >>> D = np.array([[0.0, 3.0, 5.0], [3.0, 0.0, 4.0], [5.0, 4.0, 0.0]])
    >>> X = classical_mds(D, 2)
    >>> np.linalg.norm(X[:, None] - X[None], axis=2).round(9).tolist()
    [[0.0, 3.0, 5.0], [3.0, 0.0, 4.0], [5.0, 4.0, 0.0]]
    """
    D = finite_matrix(D, "D")
    n = len(D)
    if D.shape[0] != D.shape[1]:
        raise ValueError(f"D must be square, one row and one column per point, got shape {D.shape}")
    if n_components < 1:
        raise ValueError(f"n_components must be at least 1, got {n_components}")
    X = np.zeros((n, n_components))
    k = min(n_components, n - 1)
    if k < 1:
        return X
    if n <= 100 or k > n // 4:
        B = -0.5 * D.astype(np.float64) ** 2
        B -= B.mean(axis=0)
        B -= B.mean(axis=1, keepdims=True)
        values, vectors = scipy.linalg.eigh((B + B.T) / 2, subset_by_index=(n - k, n - 1))
    else:
        start = random_generator(random_state).standard_normal(n)
        operator = LinearOperator((n, n), matvec=lambda v: _centred_product(D, v), dtype=np.float64)
        values, vectors = eigsh(operator, k=k, which="LA", v0=start, tol=1e-10)
    return _coordinates(values, vectors, n_components)


def _centred_product(D: Array, v: Array) -> Array:
    v = np.ravel(v) - np.mean(v)
    product = np.empty(len(v))
    rows = max(1, 2**19 // len(v))  # 4 MB a block stays in cache between squaring and multiplying
    for first in range(0, len(v), rows):
        block = D[first : first + rows]
        np.einsum("ij,ij,j->i", block, block, v, out=product[first : first + rows])
    product -= product.mean()
    return -0.5 * product


def _coordinates(values: Array, vectors: Array, n_components: int) -> Array:
    """Scale eigenvectors to coordinates, the largest first, with signs that do not depend on the eigensolver."""
    X = np.zeros((len(vectors), n_components))
    order = np.argsort(values)[::-1]
    values, vectors = values[order], vectors[:, order]
    vectors = vectors * np.where(vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])] < 0, -1.0, 1.0)
    real = values > 1e-12 * values.max(initial=0.0)
    X[:, : len(values)] = vectors * np.sqrt(np.where(real, values, 0.0))
    return X
