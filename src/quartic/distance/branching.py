"""Bounds met by building the points up one at a time: branch over where the next may be, prune what breaks bounds.

As in branch and prune for molecules (Liberti, Lavor, Mucherino), but with any order of the points, distances drawn
within their bounds, a limited number of partial answers side by side, and repair by a run where all of them break some.
"""

from __future__ import annotations

import numpy as np

from quartic.arrays import Array
from quartic.distance.component import Component, Search
from quartic.distance.graph import Indices, PairGraph, find_clique
from quartic.init import classical_mds

# Partial answers side by side, places tried for a point in each, and steps to each place.
_WIDTH, _TRIES, _STEPS = 48, 8, 8
# Misfits below this share of the squared distances count as none; places this near to each other are one.
_NONE, _SAME = 1e-5, 0.05
# Partial answers that are repaired where none meets the bounds, and steps for each.
_REPAIRED, _REPAIR_STEPS = 12, 40


def build_up(search: Search) -> bool:
    """Offer answers built up point by point; tell whether one is lower than the best so far by at least a hundredth."""
    component, generator, d = search.component, search.generator, search.effort.rank
    before = search.best_objective
    order, near = _order(component, d, generator)
    if len(order) < component.n:
        return False
    first = order[: d + 1]
    X: Array = np.zeros((1, component.n, d))
    misfit: Array = np.zeros(1)
    X[0, first] = classical_mds(_distances_among(component, first), d)
    for k in range(d + 1, component.n):
        if search.effort.spent():
            return False
        X, misfit = _branch(component, X, misfit, order[k], near[k], generator)
        if misfit.min() > _NONE * component.size**2:
            X, misfit = _repair(search, X, misfit, np.sort(order[: k + 1]))
    for each in X[np.argsort(misfit)[:_REPAIRED]]:
        if not search.done():
            search.offer(search.run(each))
    return search.best_objective < 0.99 * before


def _order(component: Component, d: int, generator: np.random.Generator) -> tuple[Indices, list[Indices]]:
    """Return the points, each with as many and as tight bounds to those before as can be, and the numbers of these."""
    A = component.adjacency
    width = np.minimum(component.upper, 10 * component.size) - component.lower
    worth = component.size / (component.size + 5 * width)
    graph = PairGraph.from_pairs(component.pairs[component.links], component.n)
    everyone = np.ones(component.n, dtype=bool)
    seeds = [find_clique(graph, int(v), d + 1, everyone, generator) for v in generator.permutation(component.n)[:20]]
    cliques = [seed for seed in seeds if seed is not None]
    if not cliques:
        return np.empty(0, dtype=np.int64), []

    def tightness(clique: Indices) -> float:
        return float(worth[A[clique][:, clique].data.astype(np.int64) - 1].sum())

    order = max(cliques, key=tightness).tolist()
    near: list[Indices] = [np.empty(0, dtype=np.int64)] * len(order)
    score, placed = np.zeros(component.n), np.zeros(component.n, dtype=bool)
    for k in range(component.n):
        v = order[k]
        placed[v] = True
        row = slice(A.indptr[v], A.indptr[v + 1])
        score[A.indices[row]] += worth[A.data[row].astype(np.int64) - 1]
        if len(order) == k + 1:
            following = int(np.argmax(np.where(placed, -1.0, score)))
            if placed.all() or score[following] == 0:
                break
            row = slice(A.indptr[following], A.indptr[following + 1])
            before = placed[A.indices[row]]
            order.append(following)
            near.append(A.data[row][before].astype(np.int64) - 1)
    return np.array(order), near


def _distances_among(component: Component, points: Indices) -> Array:
    number = component.adjacency[points][:, points].toarray().astype(np.int64)
    distances: Array = np.where(number > 0, component.guess[number - 1], 0.0)
    return distances


def _branch(
    component: Component, X: Array, misfit: Array, v: int, numbers: Indices, generator: np.random.Generator
) -> tuple[Array, Array]:
    """Return the best of the partial answers with point v added, at several places to each."""
    pairs = component.pairs[numbers]
    ends = pairs.sum(axis=1) - v
    low, high = component.lower[numbers], np.minimum(component.upper[numbers], 10 * component.size)
    shape = (len(X), _TRIES, len(ends))
    Y = X[:, None, ends]
    drawn = generator.uniform(low, high, shape) ** 2
    x = Y.mean(axis=2) + np.sqrt(drawn.mean(axis=2))[..., None] * generator.standard_normal((*shape[:2], X.shape[2]))
    x = _fit(x, Y, drawn)
    q = np.sum((x[:, :, None] - Y) ** 2, axis=3)
    own = np.sum(((q - np.clip(q, low**2, high**2)) / component.size) ** 2, axis=2)
    total = misfit[:, None] + own
    # one of places that are the same, the best; what meets all bounds comes in any order
    gap = np.linalg.norm(x[:, :, None] - x[:, None], axis=3) < _SAME * component.size
    earlier = np.tril(gap, -1)
    total[earlier.any(axis=2)] = np.inf
    score = np.maximum(total, _NONE * component.size**2) * (1 + 1e-6 * generator.random(total.shape))
    best = np.argsort(score, axis=None)[:_WIDTH]
    best = best[np.isfinite(total.ravel()[best])]
    parent, way = np.divmod(best, _TRIES)
    X = X[parent]
    X[:, v] = x[parent, way]
    return X, total[parent, way]


def _fit(x: Array, Y: Array, squares: Array) -> Array:
    """Return places at these squared distances to the points Y, as nearly as a few damped steps bring them."""
    identity = np.eye(x.shape[-1])
    for k in range(_STEPS):
        U = x[:, :, None] - Y
        e = np.sum(U**2, axis=3) - squares
        H = np.einsum("btki,btkj->btij", U, U)
        H += (10.0 ** -(k + 1) * np.trace(H, axis1=2, axis2=3) + 1e-12)[..., None, None] * identity
        x = x - 0.5 * np.linalg.solve(H, np.einsum("btki,btk->bti", U, e)[..., None])[..., 0]
    return x


def _repair(search: Search, X: Array, misfit: Array, placed: Indices) -> tuple[Array, Array]:
    """Return the best partial answers after a run over all bounds among their points, and their misfits."""
    part = search.component.restricted_to(placed)
    few = Search(part, search.effort, search.generator)
    best = np.argsort(misfit)[:_REPAIRED]
    X = X[best]
    left = np.empty(len(best))
    for k, each in enumerate(X):
        each[placed] = few.run(each[placed], max_iter=_REPAIR_STEPS, tol=1e-6).X
        q = np.sum((each[placed][part.pairs[:, 0]] - each[placed][part.pairs[:, 1]]) ** 2, axis=1)
        left[k] = np.sum(((q - np.clip(q, part.lower**2, part.upper**2)) / part.size) ** 2)
    search.n_iter, search.n_products = search.n_iter + few.n_iter, search.n_products + few.n_products
    return X, left
