"""Which distances are known: pairs of points, at random or by nearness."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import RandomState, finite_matrix, random_generator

Pairs = NDArray[np.int64]


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
    n = checked_count(n, "n", at_least=2)
    if not 0 <= fraction <= 1:
        raise ValueError(f"fraction must lie between 0 and 1, got {fraction!r}")
    total = n * (n - 1) // 2
    return unordered_pairs(distinct_integers(total, round(fraction * total), random_generator(random_state)), n)


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
    found = cKDTree(X).query_pairs(cutoff, output_type="ndarray").astype(np.int64).reshape(-1, 2)
    found.sort(axis=1)
    ordered: Pairs = found[np.lexsort((found[:, 1], found[:, 0]))]
    return ordered


def pair_distances(X: Any, pairs: Any) -> NDArray[np.float64]:
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
    distances = np.empty(len(pairs))
    step = 1 << 20  # differences of so many pairs at a time
    for at in range(0, len(pairs), step):
        i, j = pairs[at : at + step].T
        distances[at : at + step] = np.linalg.norm(X[i] - X[j], axis=1)
    return distances


def distinct_integers(total: int, count: int, generator: np.random.Generator) -> Pairs:
    """Draw ``count`` different integers below ``total``, sorted, in memory of order ``count``."""
    if 2 * count > total:  # the ones left out are fewer
        kept = np.ones(total, dtype=bool)
        kept[distinct_integers(total, total - count, generator)] = False
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


def checked_count(value: Any, name: str, at_least: int = 1) -> int:
    """Return ``value`` as an int, or say what is wrong with it."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if value < at_least:
        raise ValueError(f"{name} must be at least {at_least}, got {value}")
    return int(value)
