"""What a set of distances fixes, point by point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quartic.arrays import Array, RandomState, finite_matrix, random_generator
from quartic.rigidity.flips import flips_in_graph
from quartic.rigidity.growth import find_clique, grow, merge_bodies, trilaterated_bodies
from quartic.rigidity.null_space import DENSE_LIMIT, Undecided, elimination_is_cheap
from quartic.rigidity.pair_graph import Indices, Mask, PairGraph, checked_pairs
from quartic.rigidity.parts import GenericFramework
from quartic.rigidity.reduction import reduced_graph, skeleton


@dataclass(frozen=True, eq=False)
class Determination:
    """An account of what a set of distances fixes and what it leaves open.

    Attributes
    ----------
    determined : (n,) array of bool
        The point lies in the largest globally rigid part, or, with anchors, in the part tied to them.
    component : (n,) array of int
        Connected component, 0 for the largest. Anchors are linked to each other: their distances are known.
    part : (n,) array of int
        Globally rigid part, 0 for the one that is called determined, then by size; -1 for none. A point shared by
        several parts (a hinge) counts with the first of them.
    locally_rigid : (n,) array of bool
        The point cannot move continuously against part 0 (or, without parts, against the largest locally rigid set).
    may_flip : (n,) array of bool
        The mirror image of the point in a plane of its neighbours fits nearly as well, at the coordinates given.
    too_few : array of int
        Points that are not determined and have fewer than d + 1 distances.
    isolated : array of int
        Points without any distance that are not anchors.
    n_dimensions, n_anchors : int
    anchors_span : bool
        Whether there are d + 1 anchors in general position, so that the answer is fixed in space; otherwise it is fixed
        only up to the motions and reflections that leave the anchors where they are.
    complete : bool
        False where the stress test was given up as too large: then more points may be determined than are said to be.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.rigidity import assess
    >>> K4 = np.column_stack(np.triu_indices(4, 1))
    >>> X = np.array([[0.0, 0.0], [1.0, 0.2], [0.3, 1.0], [1.0, 1.4], [2.0, 2.0]])
    >>> print(assess(np.concatenate([K4, [[4, 3]]]), X).summary())
    4 of 5 points are determined up to a rigid motion and a reflection of the whole. 1 hangs on too few distances (fewer
    than 3): 4. 1 can still move continuously.
    """

    determined: Mask
    component: Indices
    part: Indices
    locally_rigid: Mask
    may_flip: Mask
    too_few: Indices = field(repr=False)
    isolated: Indices = field(repr=False)
    n_dimensions: int
    n_anchors: int
    anchors_span: bool
    complete: bool

    @property
    def n_points(self) -> int:
        """The number of points."""
        return len(self.determined)

    @property
    def n_determined(self) -> int:
        """The number of determined points."""
        return int(np.count_nonzero(self.determined))

    @property
    def n_components(self) -> int:
        """The number of connected components, isolated points included."""
        return int(self.component.max(initial=-1)) + 1

    @property
    def n_parts(self) -> int:
        """The number of globally rigid parts found."""
        return int(self.part.max(initial=-1)) + 1

    def summary(self, *, max_listed: int = 8) -> str:
        """Return one paragraph in words, with counts, and the indices of at most ``max_listed`` points of each kind."""
        return self.in_words(str, max_listed)

    def in_words(self, name: Callable[[int], str], max_listed: int = 8) -> str:
        """Return `summary` with points called as ``name`` calls them."""

        def named(points: Indices) -> str:
            text = ", ".join(name(int(k)) for k in points[:max_listed])
            return f"{text}, ..." if len(points) > max_listed else text

        sentences = [f"{self.n_determined:,} of {self.n_points:,} points are determined{self._frame()}."]
        if len(self.isolated):
            verb = "has" if len(self.isolated) == 1 else "have"
            sentences.append(f"{len(self.isolated):,} {verb} no distance at all: {named(self.isolated)}.")
        hanging = np.setdiff1d(self.too_few, self.isolated, assume_unique=True)
        if len(hanging):
            verb = "hangs" if len(hanging) == 1 else "hang"
            sentences.append(
                f"{len(hanging):,} {verb} on too few distances (fewer than {self.n_dimensions + 1}): {named(hanging)}."
            )
        moving = np.flatnonzero(~self.locally_rigid)
        if len(moving):
            sentences.append(f"{len(moving):,} can still move continuously.")
        turning = np.flatnonzero(self.locally_rigid & ~self.determined)
        if len(turning):
            sentences.append(
                f"{len(turning):,} cannot move but may sit elsewhere, as after a flip across a hinge: {named(turning)}."
            )
        apart = np.flatnonzero(self.part > 0)
        if len(apart):
            others = self.n_parts - 1
            noun = "part" if others == 1 else "parts"
            sentences.append(
                f"{len(apart):,} of the others lie in {others:,} smaller {noun}, fixed within but not against the rest."
            )
        if self.n_components > 1:
            sizes = np.bincount(self.component)
            listed = ", ".join(f"{int(size):,}" for size in sizes[:max_listed])
            more = ", ..." if len(sizes) > max_listed else ""
            sentences.append(
                f"{self.n_components:,} components have no distance between them (sizes {listed}{more}): "
                "their places against each other are arbitrary."
            )
        flipping = np.flatnonzero(self.may_flip & self.determined)
        if len(flipping):
            verb = "hangs" if len(flipping) == 1 else "hang"
            sentences.append(
                f"{len(flipping):,} determined in theory {verb} on neighbours that lie nearly in one "
                f"{'line' if self.n_dimensions == 2 else 'plane'} and may be flipped: {named(flipping)}."
            )
        if not self.complete:
            sentences.append(
                "The test was cut short as too large: more points may be determined than are counted here."
            )
        return " ".join(sentences)

    def _frame(self) -> str:
        if self.anchors_span:
            return " in the frame of the anchors"
        if self.n_anchors == 0:
            return " up to a rigid motion and a reflection of the whole"
        noun = "anchor fixes" if self.n_anchors == 1 else "anchors fix"
        return (
            f", but {self.n_anchors} {noun} the frame only in part (it takes {self.n_dimensions + 1} in general "
            "position): the whole may still be turned or reflected about them"
        )


def assess(
    pairs: Indices,
    X: Array,
    *,
    anchors: Sequence[int] | Indices | None = None,
    n_points: int | None = None,
    flip_tol: float = 0.1,
    random_state: RandomState = 0,
) -> Determination:
    r"""Say which points a set of distances determines.

    Points are called determined when this is proved for generic positions: by trilateration, or by the kernel of a
    random equilibrium stress being affine on them (:func:`stress_matrix`). Both are statements about the graph of the
    pairs, true for all positions but a set of measure zero; the random numbers make a wrong answer an event of
    probability zero, up to rounding. ``may_flip`` alone looks at the coordinates.

    Parameters
    ----------
    pairs : (m, 2) array of int
        The pairs whose distance is known. Repetitions do no harm.
    X : (n, d) array
        Coordinates: a solution. Only ``may_flip`` depends on them, and whether the anchors are in general position.
    anchors : sequence of int, optional
        Points whose coordinates are known, and stand in X.
    n_points : int, optional
        Checked against the rows of X.
    flip_tol : float
        Flatness below which neighbours count as coplanar, see :func:`may_flip`.
    random_state : int, Generator or None
        For the random frameworks.

    Returns
    -------
    Determination

    Examples
    --------
    A square with one diagonal cannot move, but a corner may be folded over:

    >>> import numpy as np
    >>> from quartic.rigidity import assess
    >>> X = np.array([[0.0, 0.0], [1.0, 0.1], [1.2, 1.0], [0.0, 1.0]])
    >>> square = np.array([[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]])
    >>> result = assess(square, X)
    >>> result.determined.tolist(), result.locally_rigid.tolist()
    ([True, True, True, False], [True, True, True, True])
    >>> bool(assess(np.concatenate([square, [[1, 3]]]), X).determined.all())
    True
    """
    X = finite_matrix(X, "X").astype(np.float64, copy=False)
    n, d = X.shape
    if n_points is not None and n_points != n:
        raise ValueError(f"n_points is {n_points} but X has {n} rows; they must agree")
    pairs = checked_pairs(pairs, n)
    known = checked_anchors(anchors, n)
    rng = random_generator(random_state)
    ties = spanning_anchors(X, known)
    anchors_span = len(ties) == d + 1

    measured = PairGraph.from_pairs(pairs, n)
    linked = PairGraph.from_pairs(np.concatenate([pairs, skeleton(known, d)]), n)
    component = linked.components()
    # Anchors in special position (on one line, say) prove less than their number: only independent ones are linked.
    graph = linked if anchors_span else PairGraph.from_pairs(np.concatenate([pairs, skeleton(ties, d)]), n)
    parts, locally_rigid, complete = generic_parts(graph, d, rng, given=known if anchors_span else None)

    label = np.full(n, -1, dtype=np.int64)
    for k, part in enumerate(parts):
        label[part & (label < 0)] = k
    _, dense = np.unique(label[label >= 0], return_inverse=True)
    label[label >= 0] = dense
    determined = label == 0
    determined[known] = True
    locally_rigid = locally_rigid | determined
    flips = flips_in_graph(measured, X, flip_tol)
    flips[known] = False
    few = ~determined & (measured.degrees <= d)
    alone = measured.degrees == 0
    alone[known] = False
    return Determination(
        determined=determined,
        component=component,
        part=label,
        locally_rigid=locally_rigid,
        may_flip=flips,
        too_few=np.flatnonzero(few),
        isolated=np.flatnonzero(alone) if n > 1 else np.empty(0, dtype=np.int64),
        n_dimensions=d,
        n_anchors=len(known),
        anchors_span=anchors_span,
        complete=complete,
    )


def checked_anchors(anchors: Any, n_points: int) -> Indices:
    """Return anchors as sorted distinct indices, or say which is wrong."""
    if anchors is None:
        return np.empty(0, dtype=np.int64)
    known = np.asarray(list(anchors) if not isinstance(anchors, np.ndarray) else anchors)
    if known.size == 0:
        return np.empty(0, dtype=np.int64)
    if known.dtype.kind not in "iu" or known.ndim != 1:
        raise TypeError("anchors must be a sequence of point indices; their coordinates are read from X")
    if known.min() < 0 or known.max() >= n_points:
        worst = int(known.min() if known.min() < 0 else known.max())
        raise ValueError(f"anchor {worst} is outside 0..{n_points - 1}")
    if len(np.unique(known)) < len(known):
        values, counts = np.unique(known, return_counts=True)
        raise ValueError(f"anchor {int(values[counts > 1][0])} is listed twice")
    return np.sort(known.astype(np.int64))


def spanning_anchors(X: Array, known: Indices) -> Indices:
    """Return affinely independent anchors, at most d + 1, chosen far apart."""
    if len(known) == 0:
        return known
    A = X[known] - X[known].mean(axis=0)
    chosen = [int(np.argmax(np.sum(A**2, axis=1)))]
    A = A - A[chosen[0]]
    scale = np.sqrt(np.sum(A**2, axis=1).max())
    for _ in range(X.shape[1]):
        lengths = np.sqrt(np.sum(A**2, axis=1))
        best = int(np.argmax(lengths))
        if lengths[best] <= 1e-6 * scale:
            break
        chosen.append(best)
        direction = A[best] / lengths[best]
        A = A - np.outer(A @ direction, direction)
    result: Indices = np.sort(known[chosen])
    return result


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
