"""Points that hang on neighbours lying (nearly) in one hyperplane, and so may sit on its wrong side."""

from __future__ import annotations

import numpy as np

from quartic.arrays import Array, finite_matrix
from quartic.distance.pair_graph import Indices, Mask, PairGraph, checked_pairs


def may_flip(pairs: Indices, X: Array, *, tol: float = 0.1) -> Mask:
    r"""Say for each point whether its mirror image in a plane of its neighbours fits its distances nearly as well.

    With ``c`` the centre of the neighbours ``y_j`` of ``x`` and ``e`` a principal axis of theirs, ``h = <e, x - c>``
    and ``s_j = <e, y_j - c>``, reflection moves ``x`` by ``2 |h|`` and turns each distance ``d_j`` into

    .. math:: d_j' = \sqrt{d_j^2 + 4 h s_j}.

    The point may flip when the root mean square of ``d_j' - d_j`` is at most ``tol`` times ``2 |h|``, the neighbours
    being flat in the direction ``e``, and ``2 |h|`` is more than ``tol`` times its distances, so that it matters. A
    point with exactly ``d`` neighbours always may; one with fewer is loose altogether and is not counted here.
    Points are looked at one at a time: a group that may be turned over as a whole shows in :func:`standard_errors`.

    Parameters
    ----------
    pairs : (m, 2) array of int
    X : (n, d) array
        Actual coordinates: unlike rigidity, this is a matter of where the points are.
    tol : float
        How flat is flat.

    Returns
    -------
    flips : (n,) array of bool

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.rigidity import may_flip
    >>> X = np.array([[0.0, 0.0], [1.0, 0.001], [2.0, 0.0], [1.0, 1.0]])
    >>> may_flip(np.array([[3, 0], [3, 1], [3, 2]]), X).tolist()
    [False, False, False, True]
    """
    X = finite_matrix(X, "X").astype(np.float64, copy=False)
    graph = PairGraph.from_pairs(checked_pairs(pairs, len(X)), len(X))
    return flips_in_graph(graph, X, tol)


def flips_in_graph(graph: PairGraph, X: Array, tol: float, *, chunk: int = 20_000) -> Mask:
    """Do the work of ``may_flip``, a block of points at a time, so that memory stays small."""
    n, d = X.shape
    flips = np.zeros(n, dtype=bool)
    enough = np.flatnonzero(graph.degrees >= d)
    for start in range(0, len(enough), chunk):
        points = enough[start : start + chunk]
        counts = graph.degrees[points]
        owner = np.repeat(np.arange(len(points)), counts)
        Y = X[graph.neighbours_of_all(points)]
        first = np.cumsum(counts) - counts

        def mean(values: Array, first: Indices = first, counts: Indices = counts) -> Array:
            total: Array = np.add.reduceat(values, first, axis=0)
            return total / counts.reshape(-1, *(1,) * (values.ndim - 1))

        center = mean(Y)
        offset = Y - center[owner]
        _, axes = np.linalg.eigh(mean(offset[:, :, None] * offset[:, None, :]))  # columns: principal axes
        height = np.einsum("na,nak->nk", X[points] - center, axes)
        thickness = np.einsum("ma,mak->mk", offset, axes[owner])
        squared = np.sum((X[points][owner] - Y) ** 2, axis=1)
        flipped = np.sqrt(np.maximum(squared[:, None] + 4 * height[owner] * thickness, 0.0))
        change = np.sqrt(mean((flipped - np.sqrt(squared)[:, None]) ** 2))
        distance = np.sqrt(mean(squared))[:, None]
        moved = 2 * np.abs(height)
        flips[points] = np.any((change <= tol * moved) & (moved > tol * distance), axis=1)
    return flips
