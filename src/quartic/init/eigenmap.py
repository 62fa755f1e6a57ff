"""Start from the slowest vibrations of the graph: eigenvectors of its Laplacian, fitted to the distances."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from quartic.arrays import Array, RandomState, random_generator
from quartic.distance.framework import elimination_is_cheap, factorised, preconditioned_cg
from quartic.init.components import distance_graph, start_by_component

DENSE_LIMIT = 300


def eigenmap_start(
    pairs: NDArray[np.int64],
    distances: Array,
    n_points: int,
    n_components: int = 3,
    random_state: RandomState = 0,
    *,
    power: float = 0.0,
) -> Array:
    r"""Return coordinates by a linear map of the smoothest functions on the graph of known distances.

    With ``U`` the eigenvectors of the ``n_components`` smallest nonzero eigenvalues of the graph Laplacian with weights
    :math:`d^{-p}`, the map ``X = U A`` comes from the least-squares fit of squared distances

    .. math:: \min_{M = M^\top} \sum_{ij} \bigl((u_i - u_j)^\top M (u_i - u_j) - d_{ij}^2\bigr)^2,

    a linear system in the few entries of ``M``, whose eigenpairs give ``M = A A^T``. A constant factor then fits the
    squared distances once more. Cruder than shortest paths (it draws the rim of the shape in), but it unfolds graphs
    whose paths bend. Connected components are started each on its own and placed apart.

    Parameters
    ----------
    pairs : (m, 2) array of int
    distances : (m,) array
        Distances, not squares.
    n_points : int
    n_components : int
        The dimension of the coordinates.
    random_state : int, Generator or None
        For the start of the eigensolver.
    power : float
        The exponent p of the Laplacian's weights: 0 for equal ones, 2 for inverse squares.

    Returns
    -------
    X : (n_points, n_components) array

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.init.eigenmap import eigenmap_start
    >>> ring = np.column_stack([np.arange(12), np.roll(np.arange(12), -1)])
    >>> X = eigenmap_start(ring, np.ones(12), 12, n_components=2)
    >>> radius = np.linalg.norm(X - X.mean(axis=0), axis=1)
    >>> bool(np.ptp(radius) < 1e-6 * radius.mean())
    True
    """
    if n_components < 1:
        raise ValueError(f"n_components must be at least 1, got {n_components}")
    rng = random_generator(random_state)

    def start(graph: Any) -> Array:
        U = smallest_eigenvectors(graph, n_components, rng, power=power)
        return _fitted(U, graph, n_components, rng)

    return start_by_component(distance_graph(pairs, distances, n_points), n_components, start)


def smallest_eigenvectors(graph: Any, k: int, rng: np.random.Generator, *, power: float = 0.0) -> Array:
    """Return eigenvectors of the k smallest nonzero eigenvalues of the Laplacian of a connected graph of distances.

    Weights are the distances to the power ``-power``.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.init.components import distance_graph
    >>> from quartic.init.eigenmap import smallest_eigenvectors
    >>> path = distance_graph(np.array([[0, 1], [1, 2]]), np.ones(2), 3)
    >>> u = smallest_eigenvectors(path, 1, np.random.default_rng(0))[:, 0]
    >>> np.abs(u / u[0]).round(6).tolist()
    [1.0, 0.0, 1.0]
    """
    n = graph.shape[0]
    k = min(k, n - 1)
    W = graph.copy()
    floor = 0.1 * float(np.sqrt(np.mean(graph.data**2)))  # a pair of points nearly in one place must not rule all
    W.data = np.maximum(graph.data / max(floor, float(np.finfo(float).tiny)), 1.0) ** -power
    degree = np.asarray(W.sum(axis=1)).ravel()
    L = sp.csr_array(sp.diags_array(degree) - W)
    if n <= DENSE_LIMIT or k >= n // 3:
        _, U = scipy.linalg.eigh(L.toarray(), subset_by_index=(1, k))
        return np.asarray(U)
    shift = 1e-9 * float(degree.mean())
    if elimination_is_cheap(W, 1):
        solve = factorised(L + shift * sp.eye_array(n))
    else:

        def solve(B: Array) -> Array:
            return preconditioned_cg(
                lambda Z: L @ Z + shift * Z, lambda Z: Z / degree[:, None], B, tol=1e-3, max_iter=5000
            )

    # Inverse iteration on a block somewhat larger than asked for; a start needs a few digits, not all.
    Z: Array = rng.standard_normal((n, k + 4))
    for _ in range(8):
        Z, _ = np.linalg.qr(Z - Z.mean(axis=0))
        Z = solve(Z)
    Z, _ = np.linalg.qr(Z - Z.mean(axis=0))
    _, rotation = np.linalg.eigh(Z.T @ (L @ Z))
    U = Z @ rotation[:, :k]
    return np.asarray(U)


def _fitted(U: Array, graph: Any, n_components: int, rng: np.random.Generator) -> Array:
    """Return U A with A fitted to the squared distances."""
    rows = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
    once = np.flatnonzero(rows < graph.indices)
    if len(once) > 50_000:  # a sample settles the few unknowns
        once = np.sort(rng.choice(once, 50_000, replace=False))
    d = graph.data[once]
    V = U[rows[once]] - U[graph.indices[once]]
    squares = d**2
    first, second = np.triu_indices(U.shape[1])
    design = V[:, first] * V[:, second] * np.where(first == second, 1.0, 2.0)
    norms = np.linalg.norm(design, axis=0)
    norms[norms == 0] = 1.0
    entries = np.linalg.lstsq(design / norms, squares)[0] / norms
    M = np.zeros((U.shape[1], U.shape[1]))
    M[first, second] = M[second, first] = entries
    values, vectors = np.linalg.eigh(M)
    k = min(n_components, len(values))
    values, vectors = values[::-1][:k], vectors[:, ::-1][:, :k]
    # A direction the fit would take out altogether is kept small rather than lost: solvers cannot leave a subspace.
    values = np.maximum(values, 0.01 * max(float(values[0]), float(np.finfo(float).tiny)))
    A = vectors * np.sqrt(values)
    fitted = np.sum((V @ A) ** 2, axis=1)
    factor = np.sum(fitted * squares) / max(np.sum(fitted**2), float(np.finfo(float).tiny))
    X = np.zeros((len(U), n_components))
    X[:, :k] = U @ A * np.sqrt(max(float(factor), 0.0))
    centred: Array = X - X.mean(axis=0)
    return centred
