"""Where a search begins, and its ways out of a local minimum: more dimensions, moving pieces, building up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from quartic.arrays import Array
from quartic.distance.component import Component, Search
from quartic.distance.cuts import is_flat
from quartic.distance.findings import DistanceWarning, UndeterminedWarning, mark
from quartic.distance.graph import Indices, Mask, PairGraph, find_clique, mask_of
from quartic.init import classical_mds, eigenmap_start, shortest_path_start

# Shortest paths between all points are stored up to this many of them; else from so many.
_ALL_PATHS, LANDMARKS = 3000, 50
# Steps in the larger space, and the tolerance there, also where all points are well linked: it is a way, not an aim.
_STEPS, _LOOSE, _WELL_LINKED = 100, 1e-5, 1e-3


def start_from_paths(search: Search, rank: int, n_landmarks: int | None = LANDMARKS) -> Array:
    """Return multidimensional scaling of shortest paths, from landmarks or between all points, rescaled."""
    component = search.component
    if n_landmarks is None and component.n_points > _ALL_PATHS:
        n_landmarks = LANDMARKS
    known = component.pairs[component.linked], component.guess[component.linked], component.n_points
    X = shortest_path_start(*known, rank, search.generator, n_landmarks=n_landmarks)
    return component.loss.best_scale(search.usable(X))


def start_from_eigenmap(search: Search, rank: int) -> Array:
    """Return the smoothest functions on the graph, fitted to the distances, rescaled."""
    component = search.component
    known = component.pairs[component.linked], component.guess[component.linked], component.n_points
    X = eigenmap_start(*known, rank, search.generator)
    return component.loss.best_scale(search.usable(X))


def start_relaxed(search: Search, rank: int, first: Array | None = None) -> Array:
    """Return the principal axes of a solution in two dimensions more, where there are fewer local minima."""
    component = search.component
    X = component.loss.random_start(rank + 2, False, search.generator) if first is None else first
    tol = _LOOSE if component.core is None else _WELL_LINKED
    return search.flatten(search.run(X, tol=tol, max_iter=_STEPS).X, rank)


# Bounds are approached from outside, where the gradient vanishes with the misfit, and points that may nearly move are
# reached slowly: this much less of the gradient is asked for, in so many steps.
RIM, RIM_STEPS = 1e-5, 2000
# Pieces are shaken until so many times nothing was gained, fewer where a run takes longer; and at most so many times.
_PATIENCE, _FEWEST, _MOST_SHAKES = 120, 20, 2000
# A shaken piece has so many steps to settle.
_SHORT = 50


def approach(search: Search) -> None:
    """Go on where distances are nearly met, to see whether they can be."""
    component = search.component
    if not search.done() and component.are_nearly_met(search.errors):
        search.lie_flat()
    if not search.done() and component.are_nearly_met(search.errors):
        search.offer(
            search.run(search.X, tol=RIM * search.effort.tol, max_iter=RIM_STEPS if component.bounded else 200)
        )


def escape(search: Search, rounds: int, patience: int) -> int:
    """Shake the best points into one and two dimensions more in turn, minimise there and come back; return how often.

    It ends when nothing is gained any more.
    """
    idle = 0
    for k in range(rounds):
        if search.done() or idle >= patience:
            return k
        spread, steps = (0.3, 0.1, 1.0)[k // 2 % 3] * search.component.size, 20 if k % 2 == 0 else 60
        shake = spread * search.generator.standard_normal((search.component.n_points, 1 + k % 2))
        lifted = search.run(np.hstack([search.X, shake]), tol=1e-6, max_iter=steps)
        helped = search.offer(search.run(search.flatten(lifted.X, search.effort.n_components)))
        idle = 0 if helped else idle + 1
    return rounds


def shake_pieces(search: Search) -> int:
    """Reflect, scatter or lift a piece where the fit is bad, again and again; return how often that helped."""
    patience = int(np.clip(_PATIENCE * 250 / search.component.n_points, _FEWEST, _PATIENCE))
    idle = helped = 0
    for _ in range(_MOST_SHAKES):
        if search.done() or idle >= patience:
            break
        found = search.run(_shake(search, _choose_piece(search)), max_iter=_SHORT)
        idle += 1
        if found.objective < 0.999 * search.best_objective:
            search.offer(search.run(found.X))
            idle, helped = 0, helped + 1
    return helped


def _shake(search: Search, piece: Mask) -> Array:
    """Return the best points with a piece mirrored, scattered, or taken through one or two dimensions more."""
    component, generator, X = search.component, search.generator, search.X.copy()
    rank, way, spread = X.shape[1], int(generator.integers(4)), float(generator.uniform(0.2, 1.5)) * component.size
    if way == 0:
        around = (component.adjacency[piece].sum(axis=0) > 0) & ~piece
        images = mirror_images(X[piece], X[around if np.count_nonzero(around) > 1 else piece])
        X[piece] = images[int(generator.integers(rank)) if generator.random() < 0.5 else 0]
    elif way == 1:
        X[piece] += spread * generator.standard_normal((np.count_nonzero(piece), rank))
    else:
        extra = spread * piece[:, None] * generator.standard_normal((len(X), way - 1))
        steps = 20 * int(generator.integers(1, 4))
        X = search.flatten(search.run(np.hstack([X, extra]), tol=1e-6, max_iter=steps).X, rank)
    return X


def _choose_piece(search: Search) -> Mask:
    """Return some points around one that fits badly, nearest in the graph first."""
    component, generator = search.component, search.generator
    errors = np.abs(component.that_count(search.errors)) ** generator.integers(1, 3)
    center = component.pairs[generator.choice(len(errors), p=errors / errors.sum()), generator.integers(2)]
    size = 1 + int(np.exp(generator.uniform(0, np.log(max(component.n_points / 2, 2)))))
    piece = mask_of(center, component.n_points)
    links = component.adjacency > 0
    while np.count_nonzero(piece) < size and (more := (links @ piece > 0) & ~piece).any():
        reached = generator.permutation(np.flatnonzero(more))
        piece[reached[: size - np.count_nonzero(piece)]] = True
    return piece


def places_to_try(x: Array, Y: Array, d: Array, generator: np.random.Generator) -> Array:
    """Return the least-squares place, the mirror images in the planes of the neighbours, and two at random."""
    center = Y.mean(axis=0)
    right = 0.5 * (np.sum(Y**2, axis=1) - d**2)
    linear = np.linalg.lstsq(Y - center, right - right.mean(), rcond=1e-6)[0]
    drawn = center + float(d.mean()) * generator.standard_normal((2, len(x)))
    return np.vstack([linear, mirror_images(x[None], Y)[:, 0], drawn])


def mirror_images(x: Array, Y: Array) -> Array:
    """Return points x reflected in each of the planes through the centre of Y along its principal axes: (d, …, d)."""
    center = Y.mean(axis=0)
    _, axes = np.linalg.eigh((Y - center).T @ (Y - center))
    images: Array = x - 2 * ((x - center) @ axes).T[..., None] * axes.T[:, None]
    return images


def fit_places(
    x: Array, Y: Array, low: Array, high: Array, w: Array | float = 1.0, *, steps: int = 15
) -> tuple[Array, Array]:
    """Return places (…, d) that fit distances to the points Y (…, k, d), from x, and Σ w e² of squares there."""

    def look(x: Array) -> tuple[Array, Array]:
        U = x[..., None, :] - Y
        q = np.sum(U**2, axis=-1)
        e = root * (q - np.clip(q, low**2, high**2))
        return e, (2 * root * (e != 0))[..., None] * U

    root = np.sqrt(w)
    x, e = take_damped_steps(look, x, steps)
    return x, np.sum(e**2, axis=-1)


# Steps are damped by this share of the trace at least: a Hessian may be singular, round-off not be seen beside it.
_LEAST_SHIFT = 1e-12


def take_damped_steps(look: Callable[[Array], tuple[Array, Array]], x: Array, steps: int) -> tuple[Array, Array]:
    """Return where Levenberg–Marquardt steps on many small problems at once lead, and the residuals there.

    ``look`` returns residuals (…, m) and their Jacobians (…, m, k) at unknowns (…, k).
    """
    e, J = look(x)
    shift, identity = np.full(x.shape[:-1], 1e-3), np.eye(x.shape[-1])
    for _ in range(steps):
        turned = np.swapaxes(J, -1, -2)
        H = turned @ J
        H += (shift * np.trace(H, axis1=-2, axis2=-1) + 1e-300)[..., None, None] * identity
        y = x - np.linalg.solve(H, turned @ e[..., None])[..., 0]
        f, K = look(y)
        better = np.sum(f**2, axis=-1) < np.sum(e**2, axis=-1)
        x, e = np.where(better[..., None], y, x), np.where(better[..., None], f, e)
        J = np.where(better[..., None, None], K, J)
        shift = np.where(better, np.maximum(shift / 5, _LEAST_SHIFT), np.minimum(shift * 10, 1e6))
    return x, e


# -- bounds met by building up: branch over where the next point may be, prune what breaks bounds ----------
# As in branch and prune for molecules (Liberti, Lavor, Mucherino), but with any order of the points, distances drawn
# within their bounds, a limited number of partial answers side by side, and repair by a run where all break some.

# Partial answers side by side, places tried for a point in each, and steps to each place.
_WIDTH, _TRIES, _PLACE_STEPS = 48, 8, 8
# Misfits below this share of the squared distances count as none; places this near to each other are one.
_NONE, _SAME = 1e-5, 0.05
# Partial answers that are repaired where none meets the bounds, and steps for each.
_REPAIRED, _REPAIR_STEPS = 12, 40


def build_up(search: Search) -> bool:
    """Offer answers built up point by point; tell whether one is lower than the best so far by at least a hundredth."""
    component, generator, d = search.component, search.generator, search.effort.n_components
    before = search.best_objective
    order, near = _order(component, d, generator)
    if len(order) < component.n_points:
        return False
    first = order[: d + 1]
    X: Array = np.zeros((1, component.n_points, d))
    misfit: Array = np.zeros(1)
    number = component.adjacency[first][:, first].toarray().astype(np.int64)
    X[0, first] = classical_mds(np.where(number > 0, component.guess[number - 1], 0.0), d)
    for k in range(d + 1, component.n_points):
        if search.effort.spent():
            return False
        X, misfit = _branch(component, X, misfit, order[k], near[k], generator)
        if misfit.min() > _NONE * component.size**2:
            X, misfit = _repair(search, X, misfit, np.sort(order[: k + 1]))
    for each in X[np.argsort(misfit)[:_REPAIRED]]:
        if not search.done() and search.offer(search.run(each)):
            approach(search)
    return search.best_objective < 0.99 * before


def _order(component: Component, d: int, generator: np.random.Generator) -> tuple[Indices, list[Indices]]:
    """Return the points, each with as many and as tight bounds to those before as can be, and the numbers of these."""
    A = component.adjacency
    width = np.minimum(component.upper, 10 * component.size) - component.lower
    worth = component.size / (component.size + 5 * width)
    graph = PairGraph.from_pairs(component.pairs[component.linked], component.n_points)
    everyone = np.ones(component.n_points, dtype=bool)
    seeds = [
        find_clique(graph, int(v), d + 1, everyone, generator) for v in generator.permutation(component.n_points)[:20]
    ]
    cliques = [seed for seed in seeds if seed is not None]
    if not cliques:
        return np.empty(0, dtype=np.int64), []

    def tightness(clique: Indices) -> float:
        return float(worth[A[clique][:, clique].data.astype(np.int64) - 1].sum())

    order = max(cliques, key=tightness).tolist()
    near: list[Indices] = [np.empty(0, dtype=np.int64)] * len(order)
    score, placed = np.zeros(component.n_points), np.zeros(component.n_points, dtype=bool)
    for k in range(component.n_points):
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


def _branch(
    component: Component, X: Array, misfit: Array, v: int, numbers: Indices, generator: np.random.Generator
) -> tuple[Array, Array]:
    """Return the best of the partial answers with point v added, at several places to each."""
    pairs = component.pairs[numbers]
    ends = pairs.sum(axis=1) - v
    low, high = component.lower[numbers], np.minimum(component.upper[numbers], 10 * component.size)
    shape = (len(X), _TRIES, len(ends))
    Y = X[:, None, ends]
    drawn = generator.uniform(low, high, shape)
    x = Y.mean(axis=2) + drawn.mean(axis=2)[..., None] * generator.standard_normal((*shape[:2], X.shape[2]))
    x, _ = fit_places(x, Y, drawn, drawn, steps=_PLACE_STEPS)
    total = misfit[:, None] + fit_places(x, Y, low, high, steps=0)[1] / component.size**2
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


# -- points added to an answer: each is placed from its distances to points that stay where they are -------------------

# Distances agree with a place where they differ by this share of the largest; neighbours so thin leave a mirror image.
_AGREES, _FLAT = 1e-6, 1e-4


def place_new_points(
    embedding: Array, D: Any, lower: Any = None, upper: Any = None
) -> tuple[Array, list[DistanceWarning]]:
    r"""Return places for new points, and a warning of those that their distances leave open.

    Each minimises :math:`\sum_j (\|x - y_j\|^2 - d_j^2)^2` over its known distances to the n fitted points (rows of D
    and bounds are the new ones), for a pair with bounds the square of by how much the squared distance leaves them.
    Tried are the place of linear least squares and its mirror images in the planes of the neighbours; the lowest
    counts. A point at distance 0 from a fitted one is where that is, unless its other distances contradict that.
    """
    n, rank = embedding.shape
    m = D.shape[0]
    columns = [_dense_row_reader(given, (m, n), name) for name, given in (("lower", lower), ("upper", upper))]
    row_of = _dense_row_reader(D, (m, n), "X")
    X = np.empty((m, rank))
    open_ones = []
    for k in range(m):
        d, low, high = row_of(k), columns[0](k), columns[1](k)
        bounded = ~(np.isnan(low) & np.isnan(high))
        known = np.flatnonzero(bounded | ~np.isnan(d))
        if len(known) == 0:
            raise ValueError(f"row {k} holds no known distance or bound; a new point needs {rank + 1} to be placed")
        low = np.where(bounded, np.nan_to_num(low), d)[known]
        high = np.where(bounded, np.where(np.isnan(high), np.inf, high), d)[known]
        if (low < 0).any() or (low > high).any():
            j = int(known[np.argmax((low < 0) | (low > high))])
            raise ValueError(f"X[{k}, {j}]: distances must not be negative, and bounds need lower <= upper")
        Y = embedding[known]
        at_zero = np.flatnonzero(high == 0)
        if len(at_zero):
            there = np.linalg.norm(Y - Y[at_zero[0]], axis=1)
            if (np.abs(there - np.clip(there, low, high)) <= _AGREES * there.max()).all():
                X[k] = Y[at_zero[0]]
                continue
        middle = (low + np.where(np.isinf(high), low, high)) / 2
        guess = np.where(np.isnan(d[known]), middle, d[known])
        starts = places_to_try(Y.mean(axis=0), Y, guess, np.random.default_rng(0))
        tries = np.vstack([starts, *mirror_images(starts, Y)])
        x, misfit = fit_places(tries, Y, low, high, steps=25)
        X[k] = x[misfit.argmin()]
        near = Y[low == high]
        if is_flat(near, np.vstack([near, X[k]]), _FLAT):
            open_ones.append(k)
    if not open_ones:
        return X, []
    shown = ", ".join(mark(k) for k in open_ones[:8]) + (", ..." if len(open_ones) > 8 else "")
    few = f"fewer than {rank + 1} exact distances, or neighbours that lie nearly flat"
    return X, [
        UndeterminedWarning(f"{len(open_ones):,} of {m:,} new points have {few}: {shown}; they may sit elsewhere")
    ]


def _dense_row_reader(given: Any, shape: tuple[int, int], name: str) -> Any:
    """Return a function that reads a row as an array with NaN where nothing is known."""
    if given is None:
        return lambda k: np.full(shape[1], np.nan)
    if given.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, one column for each fitted point, got {given.shape}")
    if not sp.issparse(given):
        return lambda k: np.asarray(given[k], dtype=np.float64)
    rows = sp.csr_array(given)

    def read(k: int) -> Array:
        row = np.full(shape[1], np.nan)
        inside = slice(rows.indptr[k], rows.indptr[k + 1])
        row[rows.indices[inside]] = rows.data[inside]
        return row

    return read
