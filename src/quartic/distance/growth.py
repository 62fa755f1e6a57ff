"""Globally rigid bodies by trilateration: the cheap proof that settles most points.

A point with ``d + 1`` distances to a body whose shape is fixed has, for generic positions, one possible place. So a
complete graph on ``d + 1`` points, and all that can be added to it in this way one point after another, is generically
globally rigid. Two bodies that share ``d + 1`` points are one body.
"""

from __future__ import annotations

import numpy as np

from quartic.distance.pair_graph import Indices, Mask, PairGraph


def grow(graph: PairGraph, start: Indices, threshold: int) -> Mask:
    """Return the mask of ``start`` and of every point reached by adding points with ``threshold`` neighbours inside.

    With ``threshold = d + 1`` global rigidity of ``start`` passes on to the result, with ``threshold = d`` local
    rigidity does (both for generic positions).

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.distance.growth import grow
    >>> from quartic.distance.pair_graph import PairGraph
    >>> pairs = np.array([[0, 1], [0, 2], [1, 2], [3, 0], [3, 1], [3, 2], [4, 0]])
    >>> grow(PairGraph.from_pairs(pairs, 5), np.array([0, 1, 2]), 3).tolist()
    [True, True, True, True, False]
    """
    inside = np.zeros(graph.n_points, dtype=bool)
    inside[start] = True
    count = np.zeros(graph.n_points, dtype=np.int64)
    frontier = np.flatnonzero(inside)
    while len(frontier):
        touched, gains = graph.touched_by(frontier)
        count[touched] += gains
        frontier = touched[~inside[touched] & (count[touched] >= threshold)]
        inside[frontier] = True
    return inside


def find_clique(graph: PairGraph, v: int, size: int, allowed: Mask, rng: np.random.Generator) -> Indices | None:
    """Return ``size`` mutually linked points, ``v`` among them, or None when a greedy search finds none.

    Each step takes, of a few candidates drawn at random, the one that leaves most candidates over.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.distance.growth import find_clique
    >>> from quartic.distance.pair_graph import PairGraph
    >>> graph = PairGraph.from_pairs(np.array([[0, 1], [1, 2], [0, 2], [2, 3]]), 4)
    >>> find_clique(graph, 0, 3, np.ones(4, dtype=bool), np.random.default_rng(0)).tolist()
    [0, 1, 2]
    """
    clique = [v]
    candidates = graph.neighbours(v)
    candidates = candidates[allowed[candidates]]
    while len(clique) < size:
        if len(candidates) < size - len(clique):
            return None
        tried = candidates if len(candidates) <= 24 else rng.choice(candidates, 24, replace=False)
        common = [np.intersect1d(candidates, graph.neighbours(int(u)), assume_unique=True) for u in tried]
        best = int(np.argmax([len(c) for c in common]))
        clique.append(int(tried[best]))
        candidates = common[best]
    return np.sort(np.array(clique, dtype=np.int64))


def merge_bodies(bodies: list[Mask], n_shared: int) -> list[Mask]:
    """Join bodies that share at least ``n_shared`` points until no two do; the largest comes first.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.distance.growth import merge_bodies
    >>> bodies = [np.arange(6) < 4, np.arange(6) >= 1]
    >>> len(merge_bodies(bodies, 3)), len(merge_bodies(bodies, 4))
    (1, 2)
    """
    merged: list[Mask] = []
    waiting = list(bodies)
    while waiting:
        body = waiting.pop()
        partner = next((k for k, other in enumerate(merged) if np.count_nonzero(body & other) >= n_shared), None)
        if partner is None:
            merged.append(body)
        else:
            waiting.append(body | merged.pop(partner))
    return sorted(merged, key=lambda body: (-np.count_nonzero(body), int(np.argmax(body))))


def trilaterated_bodies(
    graph: PairGraph, d: int, rng: np.random.Generator, *, given: Indices | None = None, max_seeds: int = 60
) -> list[Mask]:
    """Return bodies grown by trilateration from complete graphs on ``d + 1`` points, largest first.

    Parameters
    ----------
    given : array of int, optional
        Points whose mutual distances are all known (anchors): the first seed.
    max_seeds : int
        Seeds tried. Fewer bodies than there are is no error: the stress test decides about the rest.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.distance.growth import trilaterated_bodies
    >>> from quartic.distance.pair_graph import PairGraph
    >>> K5 = np.column_stack(np.triu_indices(5, 1))
    >>> bodies = trilaterated_bodies(PairGraph.from_pairs(K5, 6), 2, np.random.default_rng(0))
    >>> [body.tolist() for body in bodies]
    [[True, True, True, True, True, False]]
    """
    bodies: list[Mask] = []
    core = graph.core(d + 1)
    covered = np.zeros(graph.n_points, dtype=bool)

    def accept(seed: Indices) -> None:
        nonlocal bodies, covered
        body = grow(graph, seed, d + 1)
        if np.count_nonzero(body) < d + 2:
            return
        before = len(bodies) + 1
        bodies = merge_bodies([*bodies, body], d + 1)
        while len(bodies) < before:  # a union may reach points that neither body reached
            before = len(bodies)
            bodies = merge_bodies([grow(graph, np.flatnonzero(b), d + 1) for b in bodies], d + 1)
        covered = np.any(bodies, axis=0)

    if given is not None:
        body = grow(graph, given, d + 1)
        bodies, covered = [body], body
    n_tried = 0
    for v in rng.permutation(np.flatnonzero(core)):  # at random, so that the seeds lie apart
        if n_tried == max_seeds:
            break
        if not covered[v]:
            n_tried += 1
            seed = find_clique(graph, int(v), d + 1, core, rng)
            if seed is not None:
                accept(seed)
    return bodies
