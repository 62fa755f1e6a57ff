"""Connected components: each gets a start of its own, and they are placed apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from quartic.arrays import Array
from quartic.losses.pairs.input import check_pairs, each_once


def distance_graph(pairs: NDArray[np.int64], distances: Array, n_points: int) -> Any:
    """Return the symmetric sparse matrix of known distances (CSR); of a repeated pair the smallest is kept.

    Zero distances become a tiny positive one, since a stored zero means "no edge" to graph algorithms.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.init.components import distance_graph
    >>> distance_graph(np.array([[0, 1], [1, 0], [2, 1]]), np.array([2.0, 1.0, 5.0]), 3).toarray().tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 5.0], [0.0, 5.0, 0.0]]
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

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.init.components import distance_graph, start_by_component
    >>> graph = distance_graph(np.array([[0, 1], [2, 3]]), np.ones(2), 5)
    >>> X = start_by_component(graph, 2, lambda part: np.array([[0.0, 0.0], [1.0, 0.0]]))
    >>> len(np.unique(X, axis=0))
    5
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

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.init.components import place_apart
    >>> place_apart(np.array([[0.0], [2.0], [0.0], [1.0]]), np.array([0, 0, 1, 1]), gap=0.5).ravel().tolist()
    [0.0, 2.0, 2.5, 3.5]
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
