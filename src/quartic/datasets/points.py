"""Points in space and the pairs of them whose distance is known: curves, proteins, sensor fields."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import RandomState, check_count, finite_matrix, random_generator
from quartic.datasets.stored import data_file, read_stored
from quartic.io import FileFormatError, Structure, read_pdb
from quartic.io.files import read_lines

Floats = NDArray[np.float64]
Pairs = NDArray[np.int64]


def helix(n: int, random_state: RandomState = None) -> Floats:
    r"""Draw points on the paper's helix, :math:`x_i = (\cos 3t_i, \sin 3t_i, 2t_i)`, :math:`t_i` uniform in [0, 2π].

    Parameters
    ----------
    n : int
        Number of points.
    random_state : int, Generator, RandomState or None
        Seed.

    Returns
    -------
    ndarray (n, 3)
        The points.

    Examples
    --------
    >>> from quartic.datasets import helix
    >>> helix(100, random_state=0).shape
    (100, 3)
    """
    t = random_generator(random_state).uniform(0.0, 2 * np.pi, check_count(n, "n"))
    return np.column_stack([np.cos(3 * t), np.sin(3 * t), 2 * t])


def swiss_roll(n: int, random_state: RandomState = None) -> Floats:
    r"""Draw points on the swiss roll, :math:`(t \cos t, h, t \sin t)`, t uniform in [3π/2, 9π/2], h in [0, 21].

    Arguments and answer are those of `helix`.
    """
    generator = random_generator(random_state)
    t = generator.uniform(1.5 * np.pi, 4.5 * np.pi, check_count(n, "n"))
    return np.column_stack([t * np.cos(t), generator.uniform(0.0, 21.0, n), t * np.sin(t)])


def protein(path_or_name: str | Path) -> Structure:
    """Read a protein from a PDB file.

    Parameters
    ----------
    path_or_name : str or Path
        A file, or the name of one in the data folder: ``"1ptq"``, ``"1pht"``, ``"1ax8"``, ``"1rgs"``, ``"1crn"``.

    Returns
    -------
    Structure
        Atoms of the first model; ``coordinates`` in Å.
    """
    path = Path(path_or_name)
    if path.suffix or path.is_file():
        return read_pdb(path)
    return read_pdb(data_file(f"protein {path_or_name}", f"proteins/{str(path_or_name).lower()}.pdb"))


def load_points(name: str) -> Floats:
    """Load a point set: ``"uscities"`` (2920 x 2, longitude and latitude) or ``"cow"`` (2601 x 3, a surface)."""
    if name == "uscities":
        (cities,) = read_stored(name, "points/UScities.mat", "spt")
        return np.array(cities[:, :2], dtype=np.float64)
    if name == "cow":
        lines = read_lines(data_file(name, "points/cow.off"))
        try:
            n = int(lines[1].split()[0])
            return np.array([line.split() for line in lines[2 : 2 + n]], dtype=np.float64)
        except (IndexError, ValueError) as error:
            raise FileFormatError(f"points/cow.off: not a file of points ({error})") from None
    raise ValueError(f"name must be uscities or cow, got {name!r}")


def random_pairs(n: int, fraction: float, random_state: RandomState = None) -> Pairs:
    """Draw a share of all unordered pairs of ``n`` points, uniformly and without repetition.

    Parameters
    ----------
    n : int
        Number of points.
    fraction : float
        Share of the n(n − 1)/2 pairs, between 0 and 1; the number drawn is rounded to the nearest integer.
    random_state : int, Generator, RandomState or None
        Seed.

    Returns
    -------
    ndarray of int64 (m, 2)
        Pairs (i, j) with i < j, in lexicographic order. Memory is of order m.

    Examples
    --------
    >>> from quartic.datasets import random_pairs
    >>> random_pairs(2000, 0.1, random_state=0).shape
    (199900, 2)
    """
    n = check_count(n, "n", at_least=2)
    check_probability(fraction, "fraction")
    total = n * (n - 1) // 2
    return unordered_pairs(draw_distinct(total, round(fraction * total), random_generator(random_state)), n)


def pairs_within(X: Any, cutoff: float) -> Pairs:
    """Return all pairs of rows of ``X`` at most ``cutoff`` apart.

    Parameters
    ----------
    X : array (n, d)
        Points.
    cutoff : float
        The largest distance, in the units of ``X``.

    Returns
    -------
    ndarray of int64 (m, 2)
        Pairs (i, j) with i < j, in lexicographic order.

    Examples
    --------
    >>> from quartic.datasets import pairs_within
    >>> pairs_within([[0.0], [1.0], [3.0]], 2.0)
    array([[0, 1],
           [1, 2]])
    """
    from scipy.spatial import cKDTree

    X = finite_matrix(X, "X")
    if not 0 <= cutoff < np.inf:
        raise ValueError(f"cutoff must be a nonnegative finite distance, got {cutoff!r}")
    return _sort_pairs(cKDTree(X).query_pairs(cutoff, output_type="ndarray"))


def pair_distances(X: Any, pairs: Any) -> Floats:
    r"""Return the distances :math:`\|x_i - x_j\|` of given pairs of rows.

    Parameters
    ----------
    X : array (n, d)
        Points.
    pairs : array of int (m, 2)
        Which rows.

    Returns
    -------
    ndarray (m,)
        The distances.

    Examples
    --------
    >>> from quartic.datasets import pair_distances
    >>> pair_distances([[0.0, 0.0], [3.0, 4.0]], [[0, 1]])
    array([5.])
    """
    X = np.asarray(finite_matrix(X, "X"), dtype=np.float64)
    pairs = np.asarray(pairs)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise ValueError(f"pairs must be integers of shape (m, 2), got {pairs.dtype} of shape {pairs.shape}")
    wrong = ((pairs < 0) | (pairs >= len(X))).any(axis=1)
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise ValueError(f"pairs[{at}] is {pairs[at].tolist()}, but X has rows 0 to {len(X) - 1}")
    return lengths_between(X, pairs)


# Pairs that stay in the cache, looked at together.
_AT_A_TIME = 1 << 14


def lengths_between(X: NDArray[Any], pairs: NDArray[np.int64]) -> Floats:
    """Return the distances of pairs that are known to be rows of X."""
    lengths = np.zeros(len(pairs))
    columns = np.array(X.T, dtype=np.float64)
    for at in range(0, len(pairs), _AT_A_TIME):
        i, j = np.ascontiguousarray(pairs[at : at + _AT_A_TIME].T)
        squares = lengths[at : at + _AT_A_TIME]
        for x in columns:
            u = x.take(i)
            u -= x.take(j)
            u *= u
            squares += u
    return np.sqrt(lengths, out=lengths)


def draw_distinct(total: int, count: int, generator: np.random.Generator) -> Pairs:
    """Draw ``count`` different integers below ``total``, sorted, in memory of order ``count``."""
    if 2 * count > total:  # the ones left out are fewer
        kept = np.ones(total, dtype=bool)
        kept[draw_distinct(total, total - count, generator)] = False
        return np.flatnonzero(kept)
    drawn = np.empty(0, dtype=np.int64)
    while len(drawn) < count:
        missing = count - len(drawn)
        more = generator.integers(total, size=missing + missing * missing // total + 8)
        drawn = np.sort(np.concatenate([drawn, more]))  # faster than np.unique
        drawn = drawn[np.diff(drawn, prepend=-1) > 0]
    if len(drawn) > count:  # any subset is as likely as any other, so the surplus may be any too
        drawn = np.delete(drawn, generator.choice(len(drawn), len(drawn) - count, replace=False, shuffle=False))
    return drawn


def unordered_pairs(index: Pairs, n: int) -> Pairs:
    """Return the pairs (i, j), i < j < n, that stand at the places ``index`` of their lexicographic order."""
    # Rows counted from the end: the last r rows hold r(r + 1)/2 pairs.
    back = n * (n - 1) // 2 - 1 - index
    rows = ((np.sqrt(8.0 * back + 1.0) - 1.0) / 2.0).astype(np.int64)
    rows -= rows * (rows + 1) // 2 > back  # the square root may be off by one
    rows += (rows + 1) * (rows + 2) // 2 <= back
    i = n - 2 - rows
    j = n - 1 - (back - rows * (rows + 1) // 2)
    return np.column_stack([i, j])


def check_probability(value: float, name: str) -> None:
    """Raise unless ``value`` lies between 0 and 1."""
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must lie between 0 and 1, got {value!r}")


@dataclass(frozen=True, eq=False)
class SensorField:
    """Points with some of their distances.

    Attributes
    ----------
    coordinates : ndarray (n, d)
        True positions.
    pairs : ndarray of int64 (m, 2)
        Pairs (i, j), i < j, in lexicographic order.
    distances : ndarray (m,)
        Their distances, as measured.
    anchors : dict of int to ndarray (d,)
        Points of known position, as `DistanceCompletion` takes them; they are the last ones.
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
    r"""Draw points in the unit square or cube; the distances of pairs closer than a radius are known.

    The radius is the one that gives the wanted average degree. Measured distances are
    :math:`d_{ij} |1 + \text{noise} \cdot \varepsilon_{ij}|` with standard normal :math:`\varepsilon`.

    Parameters
    ----------
    n : int
        Number of points.
    degree : float
        Average number of known distances of a point.
    dimension : int
        Dimension of the space.
    shape : {"square", "c"}
        ``"c"`` leaves out the points with x > 1/3 and 1/3 < y < 2/3, which makes the field a letter C.
    n_anchors : int
        Number of points, the last ones, whose positions are known.
    noise : float
        Relative standard deviation of the distances.
    random_state : int, Generator, RandomState or None
        Seed.

    Returns
    -------
    SensorField
        Positions, pairs, distances and anchors.

    Examples
    --------
    >>> from quartic.datasets import sensor_field
    >>> field = sensor_field(500, degree=12, random_state=0)
    >>> field.coordinates.shape, field.pairs.shape
    ((500, 2), (3000, 2))
    """
    n = check_count(n, "n", at_least=2)
    dimension = check_count(dimension, "dimension")
    n_anchors = check_count(n_anchors, "n_anchors", at_least=0)
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


def load_sensor_field() -> SensorField:
    """Load the Stanford benchmark ``test10-500``: 500 points in the plane, the last 10 are anchors, 10 % noise."""
    from scipy.sparse import csr_array, triu

    places, distances, n_anchors = read_stored("test10-500", "snl/test10-500.mat", "PP", "dd", "m")
    coordinates = np.ascontiguousarray(places.T, dtype=np.float64)
    upper = csr_array(triu(distances, 1), dtype=np.float64)
    upper.sort_indices()
    pairs = np.column_stack(upper.tocoo().coords).astype(np.int64)
    n, m = len(coordinates), int(n_anchors.item())
    return SensorField(coordinates, pairs, upper.data, {i: coordinates[i].copy() for i in range(n - m, n)})


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

    n, dimension = X.shape
    tree, radius = cKDTree(X), (count / n**2) ** (1 / dimension)  # nearly enough in the unit square or cube
    while len(pairs := tree.query_pairs(radius, output_type="ndarray")) < count:
        radius *= 1.2
    if len(pairs) > count:
        pairs = pairs[np.argpartition(pair_distances(X, pairs), count - 1)[:count]]
    return _sort_pairs(pairs)


def _sort_pairs(pairs: Any) -> Pairs:
    """Return pairs with i < j in lexicographic order."""
    pairs = np.sort(pairs.astype(np.int64).reshape(-1, 2), axis=1)
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
