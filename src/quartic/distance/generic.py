"""Parts of a graph that are globally rigid in generic position, and the points that stand still beside the first."""

from __future__ import annotations

import numpy as np

from quartic.distance.growth import find_clique, grow, merge_bodies, trilaterated_bodies
from quartic.distance.null_space import DENSE_LIMIT, Undecided, elimination_is_cheap
from quartic.distance.pair_graph import Indices, Mask, PairGraph
from quartic.distance.parts import GenericFramework
from quartic.distance.reduction import reduced_graph


def generic_parts(
    graph: PairGraph, d: int, rng: np.random.Generator, *, given: Indices | None = None
) -> tuple[list[Mask], Mask, bool]:
    """Return the globally rigid parts, the mask of the locally rigid points, and whether all was tested.

    The largest part comes first. ``given`` are points whose mutual distances are known (anchors in general position);
    the part that holds them then is the first.
    """
    n = graph.n_points
    bodies = trilaterated_bodies(graph, d, rng, given=given)
    small, points, rims = reduced_graph(graph, bodies, d)
    if small.n_points > DENSE_LIMIT and not elimination_is_cheap(small.matrix(), d):
        bodies = _with_dense_core(graph, small, points, bodies, d, rng)
        small, points, rims = reduced_graph(graph, bodies, d)
    parts, framework, complete = bodies, None, True
    if small.n_points > d + 1:
        try:
            framework = GenericFramework(small, d, rng)
        except Undecided:
            complete = False
    if framework is not None:
        found = [_lifted(inside, points, n) for inside in framework.global_parts(rims)]
        parts = _closed(graph, [*bodies, *found], d)
    parts += _simplices(graph, d, parts, rng)
    if given is not None:  # the part tied to the anchors comes first, whatever its size
        parts.sort(key=lambda part: -np.count_nonzero(part[given]))
    rigid = np.zeros(n, dtype=bool)
    if parts:
        rigid |= parts[0]
    if framework is not None:
        rigid[points] |= _moving_as_one(framework, np.flatnonzero(rigid[points]))
    elif not parts and n <= d:
        rigid[:] = graph.degrees == n - 1
    if n > d and np.count_nonzero(rigid) <= d:  # two ends of one bar are no body to speak of
        rigid[:] = False
    before = 0
    while d <= np.count_nonzero(rigid) != before:
        before = int(np.count_nonzero(rigid))
        rigid = grow(graph, np.flatnonzero(rigid), d)
        for part in parts:  # d points that stand still hold the part they are in
            if np.count_nonzero(part & rigid) >= d:
                rigid |= part
    return parts, rigid, complete


def _lifted(inside: Mask, points: Indices, n: int) -> Mask:
    mask = np.zeros(n, dtype=bool)
    mask[points[inside]] = True
    return mask


def _closed(graph: PairGraph, bodies: list[Mask], d: int) -> list[Mask]:
    """Join bodies that share d + 1 points and grow them by trilateration, until nothing changes."""
    before = -1
    while len(bodies) != before:
        before = len(bodies)
        bodies = merge_bodies([grow(graph, np.flatnonzero(body), d + 1) for body in bodies], d + 1)
    return bodies


def _with_dense_core(
    graph: PairGraph, small: PairGraph, points: Indices, bodies: list[Mask], d: int, rng: np.random.Generator
) -> list[Mask]:
    """Add the bodies found in the well-linked core of a large random-looking graph.

    The iteration in place of a factorisation converges fast there, and points of few distances then follow by
    trilateration; with them in the graph from the start it may not converge at all.
    """
    core = np.flatnonzero(small.core(int(0.6 * small.degrees.mean())))
    if len(core) <= d + 1:
        return bodies
    try:
        parts = GenericFramework(small.restricted_to(core), d, rng).global_parts([])
    except Undecided:
        return bodies
    return _closed(graph, [*bodies, *(_lifted(inside, points[core], graph.n_points) for inside in parts)], d)


def _simplices(graph: PairGraph, d: int, parts: list[Mask], rng: np.random.Generator) -> list[Mask]:
    """Return disjoint complete graphs on d + 1 points outside all parts; all of a complete graph on fewer points."""
    n = graph.n_points
    if n <= d:
        return [np.ones(n, dtype=bool)] if n and (graph.degrees == n - 1).all() else []
    free = ~np.any(parts, axis=0) if parts else np.ones(n, dtype=bool)
    candidates = np.flatnonzero(free & (graph.degrees >= d))
    found = []
    for v in candidates[:2000]:
        clique = find_clique(graph, int(v), d + 1, free, rng) if free[v] else None
        if clique is not None:
            simplex = np.zeros(n, dtype=bool)
            simplex[clique] = True
            free[clique] = False
            found.append(simplex)
    return found


def _moving_as_one(framework: GenericFramework, seed: Indices) -> Mask:
    """Return the points that move rigidly with ``seed``, or the largest such set where the seed is too small."""
    if len(seed) >= framework.d:
        return framework.moving_with(seed)
    best = np.zeros(framework.graph.n_points, dtype=bool)
    for trial in framework.rigid_seeds():
        moving = framework.moving_with(trial)
        if np.count_nonzero(moving) > np.count_nonzero(best):
            best = moving
        if 2 * np.count_nonzero(best) > len(best):
            break
    return best
