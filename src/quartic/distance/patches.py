"""A start for large local graphs: small overlapping patches, each solved by itself, are registered to each other.

The graph is covered by balls of a few hundred points. Shortest paths bend little within one, so that scaling them and
minimising finds its shape. Two patches that share points are turned onto each other (Procrustes, reflections allowed),
the turns of all patches are synchronised by eigenvectors, and then patches and points are moved together. Anchors are
one patch more, whose places are known. Everything but the patches themselves is in flat arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed
from scipy.sparse.linalg import eigsh, splu

from quartic.arrays import Array
from quartic.distance.component import Component, Search, Settings
from quartic.distance.graph import Indices, Mask, PairGraph
from quartic.distance.moves import escape, fit_places, places_to_try, start_from_paths

# Points of a patch, the share of them, nearest to its centre, that need no other patch, and landmarks in it.
_SIZE, _INNER, _LANDMARKS = 250, 0.65, 16
# The tolerance within a patch; one that fits badly goes through more dimensions so often.
_TOL, _ROUNDS = 1e-6, 6
# Rounds of turning one patch onto another, and of moving all; what always counts as agreement, of the distances.
# Where no more than the last share of the places disagree, all is said.
_LINK_ROUNDS, _MOTION_ROUNDS, _AGREE, _STRAY = 4, 12, 1e-4, 1e-3
# What may be left to the run over all points, of the distances.
_ASTRAY = 0.05
# Disagreement of so many times that of nine tenths of the places has a quarter of the weight.
_USUAL = 2.0
# From so many points on patches are worth processes of their own.
_IN_PROCESSES = 200_000
# Up to this many rows an eigenproblem is solved by dense factors.
_DENSE = 60
_TINY = float(np.finfo(np.float64).tiny)

_Solved: TypeAlias = tuple[Indices, Array, int, int]


def start_from_patches(search: Search, rank: int) -> Array:
    """Return points put together from patches, in any frame."""
    component = search.component
    graph = PairGraph.from_pairs(component.pairs[component.linked], component.n_points)
    point, place = ([], []) if component.held is None else ([component.held[0]], [component.held[1]])
    for kept, Y, n_iter, n_products in _solve_all(search, _divide(search, graph)):
        point.append(kept)
        place.append(Y)
        search.n_iter, search.n_products = search.n_iter + n_iter, search.n_products + n_products
    if not point or search.effort.spent():
        return start_from_paths(search, rank)
    patch = np.repeat(np.arange(len(point)), [len(each) for each in point])
    X = register(np.concatenate(point), patch, np.concatenate(place), component.n_points, _AGREE * component.size)
    X[are_astray(component, X)] = np.nan
    return _place_rest(search, X)


def are_astray(component: Component, X: Array) -> Mask:
    """Tell which points are far from where most of their distances say: what one patch, or its rim, had wrong."""
    errors = np.nan_to_num(component.errors(X))
    outlying = component.outliers(errors) & (np.abs(errors) > _ASTRAY * component.size)
    pairs, counted = component.pairs.ravel(), np.repeat(outlying, 2)
    wrong, of = (np.bincount(pairs, weights, component.n_points) for weights in (counted, None))
    astray: Mask = wrong > 0.5 * of
    return astray


def _cover(graph: PairGraph, size: int, generator: np.random.Generator) -> Iterator[Indices]:
    """Yield balls, in whole hops from a point until there are ``size``, so that each point is in the inside of one."""
    covered, inside = np.zeros((2, graph.n_points), dtype=bool)
    for center in generator.permutation(graph.n_points):
        if covered[center]:
            continue
        inside[center] = True
        hops = [np.array([center])]
        while len(hops[-1]) and sum(map(len, hops)) < size:
            reached = graph.neighbours_of_all(hops[-1])
            hops.append(np.unique(reached[~inside[reached]]))
            inside[hops[-1]] = True
        points = np.concatenate(hops)
        inside[points] = False
        covered[points[: max(1, int(_INNER * len(points)))]] = True
        yield points


def divide(graph: PairGraph, size: int, links: int, generator: np.random.Generator) -> Iterator[Indices]:
    """Yield the points of overlapping patches: of a ball those that have enough links there, and hang together."""
    for ball in _cover(graph, size, generator):
        points = np.sort(ball)
        small = graph.restricted_to(points)
        core = np.flatnonzero(small.core(links))
        points = points[core[small.restricted_to(core).components() == 0]]
        if len(points) > links:
            yield points


def _divide(search: Search, graph: PairGraph) -> Iterator[tuple[Indices, Component, int]]:
    """Yield patches: their points, the data among them, and a seed."""
    for points in divide(graph, _SIZE, search.effort.n_components + 1, search.generator):
        if search.effort.spent():
            return
        yield points, search.component.restricted_to(points), int(search.generator.integers(2**63))


def _solve_all(search: Search, patches: Iterator[tuple[Indices, Component, int]]) -> Iterator[_Solved]:
    """Yield what `_solve` returns of each patch, in their order; of large fields in as many processes as are allowed.

    Between the short passes over a patch there is Python: threads would wait for each other.
    """
    lean = replace(search.effort, init="auto", align_to=None, signs=None, random_state=None)  # each process is sent it
    effort = replace(lean, tol=max(_TOL, search.effort.tol), verbose=False, device=None)
    if effort.n_jobs in (None, 1) or search.component.n_points < _IN_PROCESSES:
        return (_solve(effort, *patch) for patch in patches)
    workers = Parallel(n_jobs=effort.n_jobs, return_as="generator")
    solved: Iterator[_Solved] = workers(delayed(_solve)(effort, *patch) for patch in patches)
    return solved


def _solve(effort: Settings, points: Indices, inner: Component, seed: int) -> _Solved:
    """Return the points of a patch, their places in a frame of their own, and the iterations and products it took."""
    patch = Search(inner, effort, np.random.default_rng(seed))
    patch.offer(patch.run(start_from_paths(patch, effort.n_components, _LANDMARKS)))
    errors = inner.errors(patch.X)
    if not inner.are_nearly_met(errors) and inner.are_suspect(errors):
        escape(patch, _ROUNDS, patience=2)
    return points, patch.X, patch.n_iter, patch.n_products


def register(point: Indices, patch: Indices, Y: Array, n: int, agree: float) -> Array:
    r"""Return n points from their places in patches, each moved as a whole; NaN for points in none.

    .. math:: \min_{X, O, t} \sum_k \rho(\|x_{i_k} - y_k O_{p_k} - t_{p_k}\|), \qquad O_p^\top O_p = I,

    with :math:`\rho(s) = s^2/(c^2 + s^2)` (Geman and McClure), since a patch may be wrong or some of its points
    reflected; c goes with what nine tenths of the places disagree by. Row k of Y is the place of ``point[k]`` in the
    frame of ``patch[k]``; places as near as ``agree`` agree.
    """
    order = np.lexsort((patch, point))
    point, patch, Y = point[order], patch[order], Y[order]
    n_patches = int(patch.max()) + 1
    turns = _synchronise(point, patch, Y, n_patches, agree)
    weight: Array = np.ones(len(Y))
    for _ in range(_MOTION_ROUNDS):
        # the points and shifts that fit best to patches turned so: points are means, which leaves the shifts
        Z = np.einsum("kd,kde->ke", Y, turns[patch])
        at_point = np.maximum(np.bincount(point, weight, n), _TINY)
        B = sp.coo_array((weight, (patch, point)), shape=(n_patches, n)).tocsr()
        A = sp.diags_array(B.sum(axis=1)) - (B / at_point) @ B.T
        mean = _sums(point, weight, Z, n) / at_point[:, None]
        pull = _sums(patch, weight, mean[point] - Z, n_patches)
        shift = 1e-10 * float(A.diagonal().mean())
        Z += splu(sp.csc_matrix(A + shift * sp.eye_array(n_patches))).solve(pull)[patch]
        X = _sums(point, weight, Z, n) / at_point[:, None]
        off = np.linalg.norm(Z - X[point], axis=1)
        if np.count_nonzero(off > agree) <= _STRAY * len(off):
            break
        weight = _trust(off, agree)
        turns, *_ = _turn_onto(patch, weight, Y, X[point], n_patches)
    X[np.bincount(point, minlength=n) == 0] = np.nan
    return X


def _synchronise(point: Indices, patch: Indices, Y: Array, n_patches: int, agree: float) -> Array:
    """Return an orthogonal matrix for each patch that makes all agree: eigenvectors of the connection Laplacian."""
    d = Y.shape[1]
    shared = [np.flatnonzero(point[k:] == point[:-k]) for k in range(1, int(np.bincount(point).max()))]
    if not shared:
        return np.tile(np.eye(d), (n_patches, 1, 1))
    a = np.concatenate(shared)
    b = np.concatenate([at + k for k, at in enumerate(shared, start=1)])
    key, link = np.unique(patch[a] * n_patches + patch[b], return_inverse=True)
    p, q = np.divmod(key, n_patches)
    weight: Array = np.ones(len(a))
    for _ in range(_LINK_ROUNDS):
        Q, stretch, off = _turn_onto(link, weight, Y[a], Y[b], len(key))
        weight = _trust(off, agree)
    variance = _sums(link, weight, off[:, None] ** 2, len(key))[:, 0] / np.bincount(link, weight) + agree**2
    strength = (stretch[:, -1] + 1e-9 * stretch[:, 0]) / variance  # how well the overlap tells the turn
    index = np.arange(d)
    rows = np.broadcast_to(p[:, None, None] * d + index[:, None], Q.shape)
    columns = np.broadcast_to(q[:, None, None] * d + index, Q.shape)
    size = n_patches * d
    W = sp.coo_array(((strength[:, None, None] * Q).ravel(), (rows.ravel(), columns.ravel())), shape=(size, size))
    degree = np.bincount(p, strength, n_patches) + np.bincount(q, strength, n_patches)
    scale = sp.diags_array(np.repeat(np.maximum(degree, _TINY) ** -0.5, d))
    L = sp.eye_array(size) - scale @ (W + W.T) @ scale
    if size <= _DENSE:
        vectors = np.linalg.eigh(L.toarray())[1][:, :d]
    else:
        vectors = eigsh(sp.csc_matrix(L), k=d, sigma=-1e-6, v0=np.ones(size))[1]
    left, _, right = np.linalg.svd(vectors.reshape(n_patches, d, d))
    turns: Array = left @ right
    return turns


def _turn_onto(group: Indices, weight: Array, Y: Array, Z: Array, n_groups: int) -> tuple[Array, Array, Array]:
    """Return for each group the turn that brings its rows of Y nearest to those of Z, how well they tell it, and gaps.

    All are moved to their means first. How well: singular values of the cross covariance; gaps: one for each row.
    """
    total = np.maximum(np.bincount(group, weight, n_groups), _TINY)[:, None]
    U = Y - (_sums(group, weight, Y, n_groups) / total)[group]
    V = Z - (_sums(group, weight, Z, n_groups) / total)[group]
    left, stretch, right = np.linalg.svd(_sums(group, weight, U[:, :, None] * V[:, None, :], n_groups))
    Q = left @ right
    return Q, stretch, np.linalg.norm(np.einsum("kd,kde->ke", U, Q[group]) - V, axis=1)


def _trust(off: Array, agree: float) -> Array:
    """Return weights that fall with the disagreement."""
    weights: Array = (1 + (off / (_USUAL * np.quantile(off, 0.9) + agree)) ** 2) ** -2
    return weights


def _sums(group: Indices, weight: Array, values: Array, n_groups: int) -> Array:
    """Return the weighted sums of the rows of each group."""
    columns = values.reshape(len(values), -1).T
    sums: Array = np.column_stack([np.bincount(group, weight * column, n_groups) for column in columns])
    return sums.reshape(n_groups, *values.shape[1:])


def _place_rest(search: Search, X: Array) -> Array:
    """Return X with points that no patch holds placed by their neighbours, those with most of them first."""
    component, X = search.component, X.copy()
    placed: Mask = np.isfinite(X[:, 0])
    links = component.adjacency
    while not placed.all():
        waiting = np.flatnonzero(~placed)
        count = ((links > 0) @ placed)[waiting]
        if count.max() == 0:  # of a component that is all loose
            X[waiting[0]] = X[placed].mean(axis=0) if placed.any() else 0.0
            placed[waiting[0]] = True
            continue
        for v in waiting[count == count.max()]:
            row = slice(links.indptr[v], links.indptr[v + 1])
            near, which = links.indices[row], links.data[row].astype(np.int64) - 1
            Y, which = X[near[placed[near]]], which[placed[near]]
            tried = places_to_try(Y.mean(axis=0), Y, component.guess[which], search.generator)
            w = 1.0 if component.weights is None else component.weights[which]
            x, misfit = fit_places(tried, Y, component.lower[which], component.upper[which], w)
            X[v], placed[v] = x[misfit.argmin()], True
    return X
