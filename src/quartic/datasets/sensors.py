"""Sensor fields: points that know their distances to the points near them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import RandomState, random_generator
from quartic.datasets.pairs import Pairs, checked_count, pair_distances
from quartic.datasets.stored import stored_arrays

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SensorField:
    """Points with some of their distances.

    Attributes
    ----------
    coordinates : ndarray (n, d)
        The true places.
    pairs : ndarray of int64 (m, 2)
        Pairs (i, j), i < j, in lexicographic order.
    distances : ndarray (m,)
        Their distances, as measured.
    anchors : dict of int to ndarray (d,)
        Points whose places are known, as `DistanceCompletion` takes them; they are the last ones.

    Examples
    --------
    >>> from quartic.datasets import sensor_field
    >>> sorted(sensor_field(50, degree=8, n_anchors=3, random_state=0).anchors)
    [47, 48, 49]
    """

    coordinates: Floats
    pairs: Pairs
    distances: Floats
    anchors: dict[int, Floats]


def sensor_field(
    n: int,
    degree: float,
    dimension: int = 2,
    shape: Literal["square", "c"] = "square",
    n_anchors: int = 0,
    noise: float = 0.0,
    random_state: RandomState = None,
) -> SensorField:
    r"""Scatter points in the unit square or cube; those nearer than a radius know their distance.

    The radius is the one that gives the wanted average degree. Measured distances are
    :math:`d_{ij} |1 + \text{noise} \cdot \varepsilon_{ij}|` with standard normal :math:`\varepsilon`.

    Parameters
    ----------
    n : int
        Number of points.
    degree : float
        Average number of known distances of a point.
    dimension : int
        Of the space.
    shape : {"square", "c"}
        ``"c"`` leaves out the points with x > 1/3 and 1/3 < y < 2/3, which makes the field a letter C.
    n_anchors : int
        Number of points, the last ones, whose places are known.
    noise : float
        Relative standard deviation of the distances.
    random_state : int, Generator, RandomState or None
        Seed.

    Returns
    -------
    SensorField
        Places, pairs, distances and anchors.

    Examples
    --------
    >>> from quartic.datasets import sensor_field
    >>> field = sensor_field(500, degree=12, random_state=0)
    >>> field.coordinates.shape, field.pairs.shape
    ((500, 2), (3000, 2))
    """
    n = checked_count(n, "n", at_least=2)
    dimension = checked_count(dimension, "dimension")
    n_anchors = checked_count(n_anchors, "n_anchors", at_least=0)
    if shape not in ("square", "c"):
        raise ValueError(f"shape must be 'square' or 'c', got {shape!r}")
    if shape == "c" and dimension < 2:
        raise ValueError(f"the shape 'c' needs at least 2 dimensions, got {dimension}")
    if not 0 < degree <= n - 1:
        raise ValueError(f"degree must be positive and at most n - 1 = {n - 1}, got {degree!r}")
    if n_anchors > n:
        raise ValueError(f"n_anchors must be at most n = {n}, got {n_anchors}")
    if not 0 <= noise < np.inf:
        raise ValueError(f"noise must be a nonnegative number, got {noise!r}")
    generator = random_generator(random_state)
    coordinates = _scatter(n, dimension, shape, generator)
    pairs = _closest_pairs(coordinates, max(1, round(n * degree / 2)))
    distances = pair_distances(coordinates, pairs)
    if noise > 0:
        distances *= np.abs(1.0 + noise * generator.standard_normal(len(distances)))
    anchors = {i: coordinates[i].copy() for i in range(n - n_anchors, n)}
    return SensorField(coordinates, pairs, distances, anchors)


def load_sensor_field(name: str = "test10-500") -> SensorField:
    """Load the Stanford benchmark: 500 points in the plane, the last 10 are anchors, 10 % noise.

    Parameters
    ----------
    name : {"test10-500"}
        Which.

    Returns
    -------
    SensorField
        Places, pairs, distances and anchors.

    Examples
    --------
    >>> from quartic.datasets import load_sensor_field
    >>> load_sensor_field().distances.size  # doctest: +SKIP
    3537
    """
    if name != "test10-500":
        raise ValueError(f"name must be 'test10-500', got {name!r}")
    from scipy.sparse import coo_array, triu

    places, distances, n_anchors = stored_arrays(name, f"snl/{name}.mat", "PP", "dd", "m")
    coordinates = np.ascontiguousarray(places.T, dtype=np.float64)
    upper = coo_array(triu(distances, 1))
    pairs = np.column_stack([upper.row, upper.col]).astype(np.int64)
    order = np.lexsort((pairs[:, 1], pairs[:, 0]))
    n, m = len(coordinates), int(n_anchors.item())
    anchors = {i: coordinates[i].copy() for i in range(n - m, n)}
    return SensorField(coordinates, pairs[order], upper.data[order].astype(np.float64), anchors)


def _scatter(n: int, dimension: int, shape: str, generator: np.random.Generator) -> Floats:
    found = np.empty((0, dimension))
    while len(found) < n:
        more = generator.random((n, dimension))
        if shape == "c":
            more = more[~((more[:, 0] > 1 / 3) & (abs(more[:, 1] - 0.5) < 1 / 6))]
        found = np.concatenate([found, more])[:n]
    return found


def _closest_pairs(X: Floats, count: int) -> Pairs:
    """Return the ``count`` closest pairs, in lexicographic order."""
    from scipy.spatial import cKDTree
    from scipy.special import gammaln

    n, dimension = X.shape
    tree = cKDTree(X)
    # A ball of this radius inside the unit cube holds the wanted number on average; those at the rim need more.
    log_ball = dimension / 2 * np.log(np.pi) - gammaln(dimension / 2 + 1)
    radius = np.exp((np.log(2 * count / n / n) - log_ball) / dimension)
    while True:
        pairs = tree.query_pairs(radius, output_type="ndarray").astype(np.int64).reshape(-1, 2)
        if len(pairs) >= count:
            break
        radius *= 1.2
    if len(pairs) > count:
        nearest = np.argpartition(pair_distances(X, pairs), count - 1)[:count]
        pairs = pairs[nearest]
    pairs.sort(axis=1)
    ordered: Pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    return ordered
