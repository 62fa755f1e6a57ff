"""Ways out of a local minimum: through more dimensions, point by point, piece by piece."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import Array
from quartic.core.result import Result
from quartic.locating.part import Part, Search, principal_axes

# Points that are re-solved one at a time in one go, the worst first.
_MOST_POINTS = 500
# A place is taken over if it lowers the point's own misfit to this share.
_LOWER = 0.7
# Pieces are shaken until so many times nothing was gained, fewer where a run takes longer; and at most so many times.
_PATIENCE, _FEWEST, _MOST_SHAKES = 200, 20, 2000


def through_more_dimensions(search: Search, extra: int, spread: float, steps: int) -> bool:
    """Shake the best points into ``extra`` dimensions more, minimise there, come back; tell whether that helped.

    Where all is well there is no force and nothing moves. A piece that lies on its wrong side is under strain, and
    turns over through the new dimensions, in which no wall stands between the two sides.
    """
    X, rank = search.X, search.effort.rank
    shake = spread * search.part.size * search.generator.standard_normal((len(X), extra))
    lifted = search.run(np.hstack([X, shake]), tol=1e-6, max_iter=steps)
    return search.offer(search.run(principal_axes(lifted.X, rank)))


def rounds_of_escape(search: Search, rounds: int, patience: int) -> int:
    """Go through more dimensions, in turn by one and by two, until nothing is gained; return how often."""
    idle = 0
    for k in range(rounds):
        if search.done() or idle >= patience:
            return k
        spread = (0.3, 0.1, 1.0)[k // 2 % 3]
        helped = through_more_dimensions(search, 1 + k % 2, spread, 20 if k % 2 == 0 else 60)
        idle = 0 if helped else idle + 1
    return rounds


def resolve_points(search: Search) -> int:
    """Place badly fitted points anew, one at a time, from their neighbours; return how many found a better place."""
    part, X = search.part, search.X.copy()
    bad = np.unique(part.pairs[part.outliers(X)])
    if len(bad) == 0:
        return 0
    squares = part.errors(X) ** 2
    misfit = np.bincount(part.pairs.ravel(), np.repeat(squares, 2), part.n)
    moved = 0
    for i in bad[np.argsort(-misfit[bad])][:_MOST_POINTS]:
        place = _better_place(part, X, int(i), search.generator)
        if place is not None:
            X[i] = place
            moved += 1
    if moved:
        search.offer(search.run(X))
    return moved


def _better_place(part: Part, X: Array, i: int, generator: np.random.Generator) -> Array | None:
    """Return a place for point i that fits its own distances better, others held, or None."""
    A = part.adjacency
    row = slice(A.indptr[i], A.indptr[i + 1])
    Y, which = X[A.indices[row]], A.data[row].astype(np.int64) - 1
    if len(Y) == 0:
        return None
    low, high = part.lower[which], part.upper[which]
    w = np.ones(len(Y)) if part.weights is None else part.weights[which]
    here = _own_misfit(X[i], Y, low, high, w)
    best, place = _LOWER * here, None
    for start in _places_to_try(X[i], Y, part.guess[which], generator):
        x, value = _placed(start, Y, low, high, w)
        if value < best:
            best, place = value, x
    return place


def _places_to_try(x: Array, Y: Array, d: Array, generator: np.random.Generator) -> list[Array]:
    """Return the least-squares place, the mirror images in the planes of the neighbours, and two at random."""
    center = Y.mean(axis=0)
    offset = Y - center
    right = 0.5 * (np.sum(Y**2, axis=1) - d**2)
    linear = np.linalg.lstsq(offset, right - right.mean(), rcond=1e-6)[0]
    _, axes = np.linalg.eigh(offset.T @ offset)
    tries = [linear + center * 0.0] if np.isfinite(linear).all() else []
    for k in range(axes.shape[1]):
        tries.append(x - 2 * float((x - center) @ axes[:, k]) * axes[:, k])
    tries += [center + float(d.mean()) * generator.standard_normal(len(x)) for _ in range(2)]
    return tries


def _own_misfit(x: Array, Y: Array, low: Array, high: Array, w: Array) -> float:
    q = np.sum((x - Y) ** 2, axis=1)
    return float(w @ (q - np.clip(q, low**2, high**2)) ** 2)


def _placed(x: Array, Y: Array, low: Array, high: Array, w: Array) -> tuple[Array, float]:
    """Return a minimiser of one point's misfit, by a few damped Gauss–Newton steps, and the misfit there."""
    value, damping = _own_misfit(x, Y, low, high, w), 1e-3
    for _ in range(15):
        u = x - Y
        q = np.sum(u**2, axis=1)
        e = q - np.clip(q, low**2, high**2)
        active = w * (e != 0)
        H = 4 * (u * active[:, None]).T @ u
        H += damping * (np.trace(H) + 1e-300) * np.eye(len(x))
        step = -np.linalg.solve(H, 2 * u.T @ (w * e)) if np.trace(H) > 1e-290 else np.zeros_like(x)
        new = _own_misfit(x + step, Y, low, high, w)
        if new < value:
            stop = new > 0.999 * value
            x, value, damping = x + step, new, damping / 5
            if stop:
                break
        else:
            damping *= 10
            if damping > 1e6:
                break
    return x, value


def shake_pieces(search: Search) -> int:
    """Reflect, scatter or lift small pieces where the fit is bad, again and again; return how often that helped.

    A piece is a ball in the graph about an end of a badly met pair. It is reflected in a plane of the points around it,
    scattered, or shaken into one or two dimensions more; a run from there either leads lower or is soon given up.
    """
    part, generator = search.part, search.generator
    patience = int(np.clip(_PATIENCE * 250 / part.n, _FEWEST, _PATIENCE))
    idle = helped = 0
    for _ in range(_MOST_SHAKES):
        if search.done() or idle >= patience:
            break
        best = search.X
        errors = np.abs(part.misses(best)) ** generator.integers(1, 3)
        pair = part.pairs[generator.choice(len(errors), p=errors / errors.sum())]
        size = 1 + int(np.exp(generator.uniform(0, np.log(max(part.n / 2, 2)))))
        piece = _ball(part, int(pair[generator.integers(2)]), size, generator)
        found = _shaken(search, best.copy(), piece, search.best_objective)
        idle += 1
        if found.objective < 0.999 * search.best_objective:
            search.offer(search.run(found.X))
            idle, helped = 0, helped + 1
    return helped


def _shaken(search: Search, X: Array, piece: NDArray[np.int64], beat: float) -> Result:
    """Return where a run leads after the piece is moved in one of four ways."""
    part, generator, rank = search.part, search.generator, X.shape[1]
    way, spread = int(generator.integers(4)), float(generator.uniform(0.2, 1.5)) * part.size
    if way == 0:
        X[piece] = _reflected(part, X, piece, generator)
    elif way == 1:
        X[piece] += spread * generator.standard_normal((len(piece), rank))
    else:
        extra = np.zeros((len(X), way - 1))
        extra[piece] = spread * generator.standard_normal((len(piece), way - 1))
        steps = 20 * int(generator.integers(1, 4))
        X = principal_axes(search.run(np.hstack([X, extra]), tol=1e-6, max_iter=steps, beat=0.1 * beat).X, rank)
    return search.run(X, max_iter=150, beat=beat)


def _reflected(part: Part, X: Array, piece: NDArray[np.int64], generator: np.random.Generator) -> Array:
    """Return the mirror image of a piece in a plane of its neighbours, mostly the one in which they lie best."""
    A = part.adjacency
    around = np.unique(np.concatenate([A.indices[A.indptr[i] : A.indptr[i + 1]] for i in piece]))
    around = np.setdiff1d(around, piece)
    Y = X[around if len(around) > 1 else piece]
    center = Y.mean(axis=0)
    _, axes = np.linalg.eigh((Y - center).T @ (Y - center))
    axis = axes[:, int(generator.integers(X.shape[1])) if generator.random() < 0.5 else 0]
    mirrored: Array = X[piece] - 2 * np.outer((X[piece] - center) @ axis, axis)
    return mirrored


def _ball(part: Part, center: int, size: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Return about ``size`` points around one, nearest in the graph first."""
    A = part.adjacency
    found, inside = [center], {center}
    for i in found:
        for j in generator.permutation(A.indices[A.indptr[i] : A.indptr[i + 1]]).tolist():
            if len(found) >= size:
                return np.array(found)
            if j not in inside:
                inside.add(j)
                found.append(j)
    return np.array(found)
