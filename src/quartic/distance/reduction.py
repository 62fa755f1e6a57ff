"""Make the graph small before any matrix is factorised: rigid bodies become skeletons, loose ends come off."""

from __future__ import annotations

import numpy as np

from quartic.distance.pair_graph import Indices, Mask, PairGraph


def skeleton(points: Indices, d: int) -> Indices:
    """Return pairs that fix the shape of ``points``: a complete graph on the first d + 1, the others linked to those.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.distance.reduction import skeleton
    >>> skeleton(np.array([3, 5, 8]), 1).tolist()
    [[3, 5], [3, 8], [5, 8]]
    """
    core, rest = points[: d + 1], points[d + 1 :]
    first, second = np.triu_indices(len(core), 1)
    inner = np.column_stack([core[first], core[second]])
    outer = np.column_stack([np.repeat(core, len(rest)), np.tile(rest, len(core))])
    return np.concatenate([inner, outer]) if len(rest) else inner


def reduced_graph(graph: PairGraph, bodies: list[Mask], d: int) -> tuple[PairGraph, Indices, list[Indices]]:
    """Return a smaller graph in which the same points are tied to each other, its points, and the bodies' rims.

    Of each body (a set of points whose mutual distances are fixed) only the rim stays, the points linked to others,
    held together by a skeleton; then all but the d-core comes off, since a point of fewer than ``d`` distances ties
    nothing.

    Returns
    -------
    small : PairGraph
    points : array of int
        The points of ``graph`` that the points of ``small`` are.
    rims : list of arrays
        For each body the points of ``small`` that belong to it.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.distance.pair_graph import PairGraph
    >>> from quartic.distance.reduction import reduced_graph
    >>> K6 = np.column_stack(np.triu_indices(6, 1))
    >>> pairs = np.concatenate([K6, [[6, 0], [6, 1], [7, 2], [7, 6]]])
    >>> small, points, rims = reduced_graph(PairGraph.from_pairs(pairs, 8), [np.arange(8) < 6], 2)
    >>> points.tolist(), rims[0].tolist()
    ([0, 1, 2, 6, 7], [0, 1, 2])
    """
    n = graph.n_points
    pairs = graph.pairs
    for body in bodies:
        inside = body[pairs[:, 0]] & body[pairs[:, 1]]
        rim = np.zeros(n, dtype=bool)
        leaving = pairs[body[pairs[:, 0]] != body[pairs[:, 1]]].ravel()
        rim[leaving[body[leaving]]] = True
        pairs = np.concatenate([pairs[~inside], skeleton(np.flatnonzero(rim), d)])
    trimmed = PairGraph.from_pairs(pairs, n)
    points = np.flatnonzero(trimmed.core(d))
    position = np.full(n, -1, dtype=np.int64)
    position[points] = np.arange(len(points))
    rims = [position[body & (position >= 0)] for body in bodies]
    return trimmed.restricted_to(points), points, rims
