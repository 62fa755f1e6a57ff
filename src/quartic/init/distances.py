"""Starts for distances: from all of them, from shortest paths along known ones, from eigenvectors of their graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components, dijkstra

from quartic.arrays import Array, RandomState, check_count, finite_matrix, random_generator
from quartic.distance.framework import elimination_is_cheap, factorised, preconditioned_cg
from quartic.losses.factor.spectrum import lanczos_eigenpairs
from quartic.losses.pairs.input import check_pairs, each_once

# Up to so many points all eigenvectors are worked out.
DENSE_LIMIT = 300


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
    >>> from quartic.init import classical_mds
    >>> D = np.array([[0.0, 3.0, 5.0], [3.0, 0.0, 4.0], [5.0, 4.0, 0.0]])
    >>> X = classical_mds(D, 2)
    >>> np.linalg.norm(X[:, None] - X[None], axis=2).round(9).tolist()
    [[0.0, 3.0, 5.0], [3.0, 0.0, 4.0], [5.0, 4.0, 0.0]]
    """
    D = finite_matrix(D, "D")
    n = len(D)
    if D.shape[0] != D.shape[1]:
        raise ValueError(f"D must be square, one row and one column per point, got shape {D.shape}")
    check_count(n_components, "n_components")
    X = np.zeros((n, n_components))
    k = min(n_components, n - 1)
    if k < 1:
        return X
    generator, dense = random_generator(random_state), max(100, 4 * k)
    values, vectors = lanczos_eigenpairs(lambda V: _centred_product(D, V), n, k, generator, 1e-10, dense)
    k = len(values)
    # signs that do not depend on the eigensolver
    vectors = vectors * np.where(vectors[np.abs(vectors).argmax(axis=0), np.arange(k)] < 0, -1.0, 1.0)
    X[:, :k] = vectors * np.sqrt(np.where(values > 1e-12 * values.max(initial=0.0), values, 0.0))
    return X


def _centred_product(D: Array, V: Array) -> Array:
    V = V - V.mean(axis=0)
    product: Array = np.empty_like(V)
    rows = max(1, 2**18 // len(V))  # a block stays in cache between squaring and multiplying
    for first in range(0, len(V), rows):
        np.matmul(np.square(D[first : first + rows], dtype=np.float64), V, out=product[first : first + rows])
    product -= product.mean(axis=0)
    return -0.5 * product


# -- of a graph of known distances -------------------------------------------------------------------------------------


def shortest_path_start(
    pairs: NDArray[np.int64],
    distances: Array,
    n_points: int,
    n_components: int = 3,
    random_state: RandomState = 0,
    *,
    n_landmarks: int | None = 50,
) -> Array:
    r"""Return coordinates by multidimensional scaling of shortest-path distances.

    With landmarks (de Silva and Tenenbaum 2004) only paths from them are computed, classical scaling places the
    landmarks, and every other point is triangulated from its squared path lengths :math:`\delta_i` to these:

    .. math:: x_i = -\tfrac12 \Lambda^{-1/2} V^\top (\delta_i - \bar\delta).

    Good where pairs are local (sensor fields, proteins); the farther paths bend, the worse. Connected components are
    started each on its own and placed apart.

    Parameters
    ----------
    pairs : (m, 2) array of int
    distances : (m,) array
        Distances, not squares.
    n_points : int
    n_components : int
        The dimension of the coordinates.
    random_state : int, Generator or None
        For the first landmark.
    n_landmarks : int or None
        Landmarks of each component, each as far as can be from those before it; None for paths between all points
        (memory n²: for a few thousand points).

    Returns
    -------
    X : (n_points, n_components) array

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.init import shortest_path_start
    >>> X = shortest_path_start(np.array([[0, 1], [1, 2]]), np.array([1.0, 2.0]), 3, n_components=1)
    >>> np.abs(np.diff(X[:, 0])).round(9).tolist()
    [1.0, 2.0]
    """
    check_count(n_components, "n_components")
    if n_landmarks is not None and n_landmarks <= n_components:
        raise ValueError(
            f"n_landmarks must be more than n_components = {n_components}, or None for all points, got {n_landmarks}"
        )
    rng = random_generator(random_state)

    def start(graph: Any) -> Array:
        if n_landmarks is None or graph.shape[0] <= 2 * n_landmarks:
            return classical_mds(dijkstra(graph, directed=True), n_components, random_state=rng)
        return _triangulated(_landmark_paths(graph, n_landmarks, rng), n_components)

    return start_by_component(distance_graph(pairs, distances, n_points), n_components, start)


def _landmark_paths(graph: Any, n_landmarks: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], Array]:
    """Return landmarks, each farthest from those before, and the path lengths from each to all points."""
    landmarks = np.empty(n_landmarks, dtype=np.int64)
    paths = np.empty((n_landmarks, graph.shape[0]))
    # The point farthest from a random one lies on the rim, where a first landmark serves best.
    landmarks[0] = int(np.argmax(dijkstra(graph, directed=True, indices=int(rng.integers(graph.shape[0])))))
    nearest = np.full(graph.shape[0], np.inf)
    for k in range(n_landmarks):
        paths[k] = dijkstra(graph, directed=True, indices=landmarks[k])
        np.minimum(nearest, paths[k], out=nearest)
        if k + 1 < n_landmarks:
            landmarks[k + 1] = int(np.argmax(nearest))
    return landmarks, paths


def _triangulated(landmark_paths: tuple[NDArray[np.int64], Array], n_components: int) -> Array:
    landmarks, paths = landmark_paths
    squares, inner = paths**2, paths[:, landmarks]
    L = classical_mds((inner + inner.T) / 2, n_components)
    extent = np.sum(L**2, axis=0)  # the eigenvalues: V Λ^-1/2 = L Λ^-1
    off = squares - squares[:, landmarks].mean(axis=1, keepdims=True)
    X: Array = -0.5 * off.T @ (L / np.where(extent > 0, extent, np.inf))
    X -= X.mean(axis=0)
    return X


def eigenmap_start(
    pairs: NDArray[np.int64], distances: Array, n_points: int, n_components: int = 3, random_state: RandomState = 0
) -> Array:
    r"""Return coordinates by a linear map of the smoothest functions on the graph of known distances.

    With ``U`` the eigenvectors of the ``n_components`` smallest nonzero eigenvalues of the graph Laplacian, the map
    ``X = U A`` comes from the least-squares fit of squared distances

    .. math:: \min_{M = M^\top} \sum_{ij} \bigl((u_i - u_j)^\top M (u_i - u_j) - d_{ij}^2\bigr)^2,

    a linear system in the few entries of ``M``, whose eigenpairs give ``M = A A^T``. A constant factor then fits the
    squared distances once more. Cruder than shortest paths (it draws the rim of the shape in), but it unfolds graphs
    whose paths bend. Connected components are started each on its own and placed apart.

    Parameters
    ----------
    pairs, distances, n_points, n_components, random_state
        As in `shortest_path_start`, and so is what is returned.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.init import eigenmap_start
    >>> ring = np.column_stack([np.arange(12), np.roll(np.arange(12), -1)])
    >>> X = eigenmap_start(ring, np.ones(12), 12, n_components=2)
    >>> radius = np.linalg.norm(X - X.mean(axis=0), axis=1)
    >>> bool(np.ptp(radius) < 1e-6 * radius.mean())
    True
    """
    check_count(n_components, "n_components")
    rng = random_generator(random_state)

    def start(graph: Any) -> Array:
        return _fitted(smallest_eigenvectors(graph, n_components, rng), graph, n_components, rng)

    return start_by_component(distance_graph(pairs, distances, n_points), n_components, start)


def smallest_eigenvectors(graph: Any, k: int, rng: np.random.Generator) -> Array:
    """Return eigenvectors of the k smallest nonzero eigenvalues of the Laplacian of a connected graph."""
    n = graph.shape[0]
    k = min(k, n - 1)
    W = graph.copy()
    W.data = np.ones(len(W.data))
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
    entries = np.linalg.lstsq(design / norms, squares, rcond=None)[0] / norms
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


# -- connected components, each with a start of its own ----------------------------------------------------------------


def distance_graph(pairs: NDArray[np.int64], distances: Array, n_points: int) -> Any:
    """Return the symmetric sparse matrix of known distances (CSR); of a repeated pair the smallest is kept.

    Zero distances become a tiny positive one, since a stored zero means "no edge" to graph algorithms.
    """
    pairs, distances = np.asarray(pairs), np.asarray(distances, dtype=np.float64)
    if pairs.size == 0:
        return sp.csr_array((n_points, n_points))
    pairs, distances, _, _ = check_pairs(pairs, distances, n_points, None, "distances")
    positive = np.maximum(distances, 1e-12 * distances.max(initial=0.0) + np.finfo(float).tiny)
    low, high = pairs.min(axis=1), pairs.max(axis=1)
    rows = np.argsort(positive, kind="stable")
    rows = rows[low[rows] != high[rows]]
    kept = rows[each_once(low[rows], high[rows], n_points, {})]
    upper = sp.csr_array((positive[kept], (low[kept], high[kept])), shape=(n_points, n_points))
    return sp.csr_array(upper + upper.T)


def start_by_component(graph: Any, n_components: int, start: Callable[[Any], Array]) -> Array:
    """Apply ``start`` to each connected component of ``graph`` and put the results side by side.

    ``start`` takes the graph of one component, at least two points, and returns its coordinates.
    """
    n = graph.shape[0]
    X = np.zeros((n, n_components))
    if n == 0:
        return X
    n_labels, labels = connected_components(graph, directed=False)
    if n_labels == 1:
        return start(graph) if n > 1 else X
    members = np.split(np.argsort(labels, kind="stable"), np.cumsum(np.bincount(labels))[:-1])
    for points in members:
        if len(points) > 1:
            X[points] = start(graph[points][:, points])
    gap = float(graph.data.mean()) if graph.nnz else 1.0
    return place_apart(X, labels, gap=gap)


def place_apart(X: Array, labels: NDArray[np.integer[Any]], *, gap: float) -> Array:
    """Move the groups of points given by ``labels`` so that their boxes lie side by side, ``gap`` apart.

    The largest box comes first, at the origin; in two dimensions and more the others follow on shelves.
    """
    n_labels = int(labels.max()) + 1
    low = np.full((n_labels, X.shape[1]), np.inf)
    high = np.full((n_labels, X.shape[1]), -np.inf)
    np.minimum.at(low, labels, X)
    np.maximum.at(high, labels, X)
    size = high - low + gap
    order = np.argsort(-size.max(axis=1), kind="stable")
    across = size[:, 1] if X.shape[1] > 1 else np.zeros(n_labels)
    width = max(float(size[order[0], 0]), float(np.sqrt(np.sum(size[:, 0] * across)))) if X.shape[1] > 1 else np.inf
    corner = np.zeros_like(low)
    x = y = shelf = 0.0
    for k in order:
        if x > 0 and x + size[k, 0] > width:
            x, y, shelf = 0.0, y + shelf, 0.0
        corner[k, 0] = x
        if X.shape[1] > 1:
            corner[k, 1] = y
        x, shelf = x + float(size[k, 0]), max(shelf, float(across[k]))
    moved: Array = X + (corner - low)[labels]
    return moved
