"""Flat cuts: pieces of the answer that can be reflected in the hyperplane of the points they hang on.

Generic theorems know nothing of where points are. Two bodies that share three points on a line (in the plane), or four
in a plane (in space), fit in two ways although their graph is globally rigid; and where those points lie nearly so, the
wrong way fits nearly as well. Here such pieces are looked for in the coordinates that were found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Any

import numpy as np

from quartic.arrays import Array, finite_matrix
from quartic.distance.graph import Indices, Mask, PairGraph, check_indices, grow_bodies, mask_of

# Points lie flat where their thinnest standard deviation is at most this share of the distances to them.
FLAT = 0.1
# Pieces and hyperplanes looked at; hyperplanes through all sets of d points up to so many points.
_PIECES, _PLANES, _ENUMERATED = 2000, 3000, 40
# A point with more than so many times d + 1 distances is not looked at by itself.
_HANGS = 4
# Points lie within a smaller space where they extend beyond it by no more than this share.
_NO_EXTENT = 1e-9
# Points in a hyperplane of a well-linked graph are looked for if they are this share of all: among so many points, in
# so many hyperplanes. Exact ones lie in a slab of the first thickness (a smooth curve has few of its points in it),
# noisy ones in one of up to the second, which is also how thin a flat set for one point is.
_CROWD, _SEEN, _LOOKS, _PLANES_KEPT, SLAB, THIN = 0.1, 160, 3000, 12, 2e-3, 1e-2

# Points whose neighbours are asked, about how many are listed, how often some are drawn, and of them so many beside the
# d of a hyperplane; points with few neighbours that are looked at; how thin hyperplanes are for exact distances.
_ASKED, _LISTED, _DRAWN, _OTHERS, _FEW, _THINNEST = 400, 24, 8, 5, 64, 1e-5


@dataclass(frozen=True, eq=False)
class Cut:
    """A piece and the hyperplane in which it may be reflected: the best for its ``boundary``, what it is linked to.

    ``change`` is the sum of the squares by which reflection changes the known distances, ``moved`` how far each point
    of the piece is moved.
    """

    piece: Indices
    center: Array
    normal: Array
    change: float
    moved: Array
    boundary: Indices

    def reflect(self, X: Array) -> Array:
        """Return X with the piece on the other side."""
        Y = X.copy()
        Y[self.piece] -= 2 * np.outer((X[self.piece] - self.center) @ self.normal, self.normal)
        return Y

    def sides(self, X: Array, least: float) -> tuple[Indices, Indices]:
        """Return the piece, and the points that may be elsewhere against it: all but those it turns about.

        Another piece may be reflected first, which moves the hyperplane: only those that this one is linked to stay.
        """
        free = np.ones(len(X), dtype=bool)
        free[self.boundary] = 2 * np.abs((X[self.boundary] - self.center) @ self.normal) > least
        free[self.piece] = False
        return self.piece, np.flatnonzero(free)

    @property
    def slope(self) -> float:
        """The change of the distances for each unit of movement: small where the cut is flat."""
        return float(np.sqrt(self.change) / max(float(np.linalg.norm(self.moved)), 1e-300))


@dataclass(frozen=True, eq=False)
class OtherAnswer:
    """Another answer that fits as well as the ``best``: its ``places`` of the points, and which lie beyond a cut.

    Points are elsewhere if that is by more than ``least``; if any is, and ``folded``, no point is sure.
    """

    best: Array
    places: Array
    least: float
    points: Indices
    piece: Mask
    folded: bool = False

    def sides(self, among: Mask, anchors: Indices) -> tuple[Indices, Indices]:
        """Return which points ``among`` all are elsewhere, and the others, which lie alike; or all and none.

        Those that lie alike are looked for among those on the side with more anchors, or with more points.
        """
        known, among = mask_of(anchors, len(among))[self.points], among[self.points]
        X, Y = self.best, self.places

        def near(some: Mask) -> Mask:
            """Return the points that stay where ``some`` are moved onto their places in X."""
            Q, y, x = rigid_motion(Y[some], X[some])
            close: Mask = among & (np.linalg.norm((Y - y) @ Q + x - X, axis=1) <= self.least)
            return close

        if np.count_nonzero(among) < 2 or near(among).sum() == among.sum():
            return self.points[among & False], self.points[among]
        if self.folded:
            return self.points[among], self.points[among & False]
        sides = among & ~self.piece, among & self.piece
        stay = kept = max(sides, key=lambda side: (np.count_nonzero(side & known), np.count_nonzero(side)))
        for _ in range(len(X)):
            before, stay = stay, near(stay)
            if (stay == before).all() or np.count_nonzero(stay) <= X.shape[1]:
                break
        if not stay[before].all():
            stay = stay & False
        elif self.piece.any():  # on the other side of the cut noise moves points too, by less than the reflected ones
            stay = stay | kept
        return self.points[among & ~stay], self.points[stay]


def rigid_motion(X: Array, onto: Array) -> tuple[Array, Array, Array]:
    """Return Q, x̄ and ȳ of the motion x ↦ (x − x̄)Q + ȳ that brings X nearest to ``onto``; Q may reflect."""
    x, y = X.mean(axis=0), onto.mean(axis=0)
    U, _, V = np.linalg.svd((X - x).T @ (onto - y))
    return U @ V, x, y


def find_cuts(graph: PairGraph, X: Array, rng: np.random.Generator) -> list[Cut]:
    """Return pieces that hang on the others by points lying nearly in a hyperplane, the flattest first."""
    n, d = X.shape
    bodies = stable_bodies(graph, X, rng)
    if n <= d + 1 or (bodies and bodies[0].all()):
        return []
    seen: set[bytes] = set()
    cuts = []
    _, extent, axes = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    k = max(1, int(np.count_nonzero(extent > _NO_EXTENT * extent[0])))
    within = X if k == d else X @ axes[:k].T  # flat points may turn about walls of their space
    for mask in islice(_pieces(graph, within, bodies), _PIECES):
        mask = mask if 2 * np.count_nonzero(mask) <= n else ~mask
        key = np.packbits(mask).tobytes()
        if key not in seen and mask.any():
            seen.add(key)
            cut = _cut(graph, X, mask)
            if cut is not None:
                cuts.append(cut)
    return sorted(cuts, key=lambda cut: cut.slope)


def stable_bodies(graph: PairGraph, X: Array, rng: np.random.Generator) -> list[Mask]:
    """Return bodies grown by trilateration from points that do not lie flat where they are, the largest first."""

    d = X.shape[1]

    def grown(body: Mask) -> Mask:
        flat = np.count_nonzero(body) == d + 1 and is_flat(X[body], X[body])
        return np.zeros_like(body) if flat else grow_in_place(graph, X, body)

    def may_join(body: Mask, other: Mask) -> bool:
        shared = body & other
        return np.count_nonzero(shared) > d and not is_flat(X[shared], X[body | other])

    return grow_bodies(graph, d, rng, grown, may_join)


def grow_in_place(graph: PairGraph, X: Array, start: Mask) -> Mask:
    """Return ``start`` and every point reached from it by trilateration from points that do not lie flat."""
    n, d = X.shape
    centred = X - X.mean(axis=0)
    features = np.column_stack([np.ones(n), centred, (centred[:, :, None] * centred[:, None, :]).reshape(n, d * d)])
    sums = np.zeros_like(features)
    inside, marked = start.copy(), np.zeros(n, dtype=bool)
    frontier, number = np.flatnonzero(inside), np.empty(n, dtype=np.int64)
    while len(frontier):  # each round costs what it touches, but for a glance at all marks
        near, owner = graph.neighbours_of_all(frontier), np.repeat(frontier, graph.degrees_of(frontier))
        outside = ~inside[near]
        near, owner = near[outside], owner[outside]
        marked[near] = True
        touched = np.flatnonzero(marked)
        marked[touched], number[touched] = False, np.arange(len(touched))
        for column, feature in zip(sums.T, features.T, strict=True):
            column[touched] += np.bincount(number[near], feature[owner], len(touched))
        ready = touched[sums[touched, 0] > d]
        mean = sums[ready, 1:] / sums[ready, :1]
        center, second = mean[:, :d], mean[:, d:].reshape(-1, d, d)
        values, _ = np.linalg.eigh(second - center[:, :, None] * center[:, None, :])
        reach = values.sum(axis=1) + np.sum((centred[ready] - center) ** 2, axis=1)
        frontier = ready[values[:, 0] > FLAT**2 * reach]
        inside[frontier] = True
    return inside


def find_crowded_planes(X: Array, thickness: float = SLAB) -> list[Mask]:
    """Return sets of points in one hyperplane that are a tenth of all or more, as far as a sample shows.

    Hyperplanes are laid through d points of it again and again. The thickness is relative to the extent of X.
    """
    (n, d), rng, Y = X.shape, np.random.default_rng(0), _whiten(X)
    if Y is None:
        return []
    some = Y[rng.choice(n, min(n, _SEEN), replace=False)]
    steps = rng.integers(1, max(len(some) // d, 1) + 1, size=(_LOOKS, d))  # d points that differ
    *_, on_plane = _lay_planes(some[None], np.cumsum(steps, axis=1) % len(some), 3 * thickness)
    count = np.count_nonzero(on_plane[0], axis=0)
    found: list[Mask] = []
    for at in np.argsort(-count, kind="stable")[:_PLANES_KEPT]:
        if count[at] < max(_CROWD * len(some), d + 2):
            break
        mask = _points_near_plane(Y, some[on_plane[0, :, at]], thickness)
        if np.count_nonzero(mask) >= _CROWD * n and not any((mask == other).all() for other in found):
            found.append(mask)
    return found


def _lay_planes(groups: Array, subsets: Any, thickness: float) -> tuple[Array, Array, Mask]:
    """Return normals and offsets of hyperplanes through subsets of d points of each group, and which of it lie there.

    Groups are (g, k, d), subsets (s, d), and what is returned is (g, s, d), (g, s) and (g, k, s).
    """
    base = groups[:, subsets]
    normals = find_normals(base[..., 1:, :] - base[..., :1, :])
    offsets = np.sum(normals * base[..., 0, :], axis=-1)
    return normals, offsets, np.abs(groups @ np.swapaxes(normals, 1, 2) - offsets[:, None]) <= thickness


def _whiten(X: Array) -> Array | None:
    """Return points as wide in all directions; None where they lie in a hyperplane: reflection moves nothing there."""
    Y = X - X.mean(axis=0)
    scale, axes = np.linalg.eigh(Y.T @ Y / len(X))
    white: Array | None = Y @ (axes / np.sqrt(scale)) if scale[0] > THIN**4 * scale[-1] else None
    return white


def _points_near_plane(X: Array, some: Array, thickness: float) -> Mask:
    """Return the points in the hyperplane that most of ``some`` lie in."""
    for _ in range(3):  # those that lie elsewhere by chance are left out
        center = np.median(some, axis=0)
        normal = np.linalg.svd(some - center)[2][-1]
        off = np.abs((some - center) @ normal)
        some = some[off <= max(float(np.median(off)) * 3, THIN**2)]
    center = some.mean(axis=0)
    mask: Mask = np.abs((X - center) @ np.linalg.svd(some - center)[2][-1]) <= thickness
    return mask


def find_planes_of_neighbours(pairs: Indices, X: Array, misfit: float = 0.0) -> Iterator[Mask]:
    """Yield the points in hyperplanes that hold d + 2 neighbours of a point, as a sample shows; of few, all are seen.

    The misfit is relative to the distances: a piece beyond a thicker set fits on one side only.
    """
    (n, d), rng, thickness = X.shape, np.random.default_rng(0), float(np.clip(30 * misfit, _THINNEST, SLAB))
    Y = _whiten(X)
    if d == 1 or Y is None:
        return
    asked = rng.permutation(n) < _ASKED
    some = pairs[:: max(1, len(pairs) // (_LISTED * n))]
    ends = np.concatenate([some[asked[some[:, 0]]], some[asked[some[:, 1]]][:, ::-1]])
    ends = ends[np.argsort(ends[:, 0])]
    start, each = np.searchsorted(ends[:, 0], np.arange(n + 1)), d + _OTHERS
    degree = np.diff(start)

    def shared(near: Array, subsets: list[Any]) -> Iterator[Mask]:
        normals, offsets, on_plane = _lay_planes(near, subsets, thickness)
        for at in zip(*np.nonzero(np.count_nonzero(on_plane, axis=1) >= d + 2), strict=True):
            yield np.abs(Y @ normals[at] - offsets[at]) <= thickness

    for v in np.flatnonzero((degree > d + 1) & (degree < 2 * each))[:_FEW]:
        yield from shared(Y[ends[start[v] : start[v + 1], 1]][None], list(combinations(range(degree[v]), d)))
    rows = np.flatnonzero(degree >= 2 * each)
    for _ in range(_DRAWN):
        # spread over each point's list, in an order of their own: neighbours next to each other may be so in space
        at = (rng.permutation(each) + rng.random((len(rows), 1))) * (degree[rows] / each)[:, None]
        yield from shared(Y[ends[start[rows][:, None] + at.astype(np.int64), 1]], [list(range(d))])


def find_normals(edges: Array) -> Array:
    """Return the unit normals of hyperplanes spanned by d - 1 vectors each, (..., d - 1, d); NaN where these vanish."""
    d = edges.shape[-1]
    if d not in (2, 3):  # where a formula would be long
        normals: Array = np.linalg.svd(edges, full_matrices=True)[2][..., -1, :]
        return normals
    normals = edges[..., 0, ::-1] * [1.0, -1.0] if d == 2 else np.cross(edges[..., 0, :], edges[..., 1, :])
    length = np.linalg.norm(normals, axis=-1, keepdims=True)
    return normals / np.where(length > 0, length, np.nan)


def is_flat(Y: Array, around: Array, flat: float = FLAT) -> bool:
    """Tell whether Y is thin in some direction, for points at the distances of those ``around`` it."""
    if len(Y) <= Y.shape[1]:
        return True
    center = Y.mean(axis=0)
    values = np.linalg.svd(Y - center, compute_uv=False)
    reach = np.sqrt(np.mean(np.sum((around - center) ** 2, axis=1)))
    return bool(values[-1] <= flat * reach * np.sqrt(len(Y)))


def _pieces(graph: PairGraph, X: Array, bodies: list[Mask]) -> Iterator[Mask]:
    """Yield sets of points that may hang on the others by a flat set."""
    n, d = X.shape
    for body in bodies:
        rim = body & (graph.matrix @ ~body > 0)
        yield body
        yield body & ~rim
        yield from _components(graph, ~body)
    if n <= _ENUMERATED:
        yield from _beside_planes(graph, X)
    else:
        found = islice(find_planes_of_neighbours(graph.pairs, X), _SEEN)
        near = {plane.tobytes(): plane for plane in found}
        for plane in [*find_crowded_planes(X), *list(near.values())[:_PLANES_KEPT]]:
            yield from _components(graph, ~plane)
    single = np.ones(n, dtype=bool)
    if bodies:
        single = ~bodies[0]
    few = (graph.degrees >= d) & (graph.degrees <= _HANGS * (d + 1))
    for v in np.flatnonzero(single & few):
        yield mask_of(v, n)


def _components(graph: PairGraph, among: Mask) -> Iterator[Mask]:
    points = np.flatnonzero(among)
    labels = graph.restricted_to(points).components()
    for label in range(labels.max(initial=-1) + 1):
        yield mask_of(points[labels == label], len(among))


def _beside_planes(graph: PairGraph, X: Array) -> Iterator[Mask]:
    """Yield what is left in several components when the points near a hyperplane through d points are taken out."""
    n, d = X.shape
    size = float(np.sqrt(np.mean(np.sum((X - X.mean(axis=0)) ** 2, axis=1))))
    subsets = np.array(list(combinations(range(n), d)))
    if len(subsets) > _PLANES:
        subsets = subsets[np.linspace(0, len(subsets) - 1, _PLANES).astype(int)]
    normals = find_normals(X[subsets[:, 1:]] - X[subsets[:, :1]])
    heights = np.abs(np.einsum("knd,kd->kn", X[None] - X[subsets[:, :1]], normals))
    slab, plane = heights <= FLAT * size, heights <= THIN**3 * size  # the piece itself may be no larger than a slab
    near = np.concatenate([slab, plane[np.count_nonzero(plane, axis=1) > d]])
    near = np.unique(near[np.count_nonzero(near, axis=1) < n - 1], axis=0)
    left, linked = ~near, (graph.matrix.toarray() > 0).astype(np.float32)
    reached, more = left & False, left & (np.cumsum(left, axis=1) == 1)  # from the first that is left
    while (more != reached).any():
        reached, more = more, more | (left & (more @ linked > 0))
    for one, others in zip(reached, left & ~reached, strict=True):
        if others.any():
            yield one
            yield from _components(graph, others)


def _cut(graph: PairGraph, X: Array, mask: Mask) -> Cut | None:
    """Return the piece with the hyperplane that fits best to what it is linked to."""
    d = X.shape[1]
    piece = np.flatnonzero(mask)
    ends = graph.neighbours_of_all(piece)
    owner = np.repeat(np.arange(len(piece)), graph.degrees[piece])
    crossing = ~mask[ends]
    ends, owner = ends[crossing], owner[crossing]
    boundary = np.unique(ends)
    if len(boundary) < d:
        return None
    center = X[boundary].mean(axis=0)
    _, extent, axes = np.linalg.svd(X[boundary] - center)
    normal, across = axes[-1], axes[np.count_nonzero(extent > _NO_EXTENT * extent[0]) :]
    if len(across) > 1:  # the piece turns about the boundary: of all its hyperplanes that which moves most
        normal = np.linalg.svd((X[piece] - center) @ across.T)[2][0] @ across
    height = (X[piece] - center) @ normal
    thickness = (X[ends] - center) @ normal
    squared = np.sum((X[piece[owner]] - X[ends]) ** 2, axis=1)
    change = np.sqrt(np.maximum(squared + 4 * height[owner] * thickness, 0.0)) - np.sqrt(squared)
    return Cut(piece, center, normal, float(change @ change), 2 * np.abs(height), boundary)


def may_flip(pairs: Indices, X: Array, *, tol: float = 0.1) -> Mask:
    r"""Say for each point whether its mirror image in a plane of its neighbours fits its distances nearly as well.

    With ``c`` the centre of the neighbours ``y_j`` of ``x`` and ``e`` a principal axis of theirs, ``h = <e, x - c>``
    and ``s_j = <e, y_j - c>``, reflection moves ``x`` by ``2 |h|`` and turns each distance ``d_j`` into

    .. math:: d_j' = \sqrt{d_j^2 + 4 h s_j}.

    The point may flip when the root mean square of ``d_j' - d_j`` is at most ``tol`` times ``2 |h|``, the neighbours
    being flat in the direction ``e``, and ``2 |h|`` is more than ``tol`` times its distances, so that it matters. A
    point with exactly ``d`` neighbours always may; one with fewer is loose altogether and is not counted here, nor is
    one whose component has no more than ``d + 1`` points: its mirror image is that of the whole.
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
    graph = PairGraph.from_pairs(check_indices(pairs, len(X)), len(X))
    return flips_in_graph(graph, X, tol) & is_larger_than_a_simplex(graph.components(), X.shape[1])


def is_larger_than_a_simplex(component: Indices, d: int) -> Mask:
    """Tell of each point whether its component has more than d + 1 points."""
    larger: Mask = np.bincount(component)[component] > d + 1
    return larger


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
