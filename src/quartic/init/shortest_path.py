"""Start from shortest paths: a distance that is unknown is taken to be the shortest way along known ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse.csgraph import dijkstra

from quartic.arrays import Array, RandomState, random_generator
from quartic.init.classical_mds import classical_mds
from quartic.init.components import distance_graph, start_by_component


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
    >>> from quartic.init.shortest_path import shortest_path_start
    >>> X = shortest_path_start(np.array([[0, 1], [1, 2]]), np.array([1.0, 2.0]), 3, n_components=1)
    >>> np.abs(np.diff(X[:, 0])).round(9).tolist()
    [1.0, 2.0]
    """
    if n_components < 1:
        raise ValueError(f"n_components must be at least 1, got {n_components}")
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
    squares = paths**2
    inner = squares[:, landmarks]
    mean = inner.mean(axis=1)
    B = -0.5 * (inner - mean[:, None] - mean + mean.mean())
    k = min(n_components, len(landmarks) - 1)
    values, vectors = scipy.linalg.eigh((B + B.T) / 2, subset_by_index=(len(B) - k, len(B) - 1))
    values, vectors = values[::-1], vectors[:, ::-1]
    vectors = vectors * np.where(vectors[np.abs(vectors).argmax(axis=0), np.arange(k)] < 0, -1.0, 1.0)
    real = values > 1e-12 * values.max(initial=0.0)
    scale = np.where(real, 1 / np.sqrt(np.where(real, values, 1.0)), 0.0)
    X = np.zeros((paths.shape[1], n_components))
    X[:, :k] = -0.5 * (squares - mean[:, None]).T @ (vectors * scale)
    centred: Array = X - X.mean(axis=0)
    return centred
