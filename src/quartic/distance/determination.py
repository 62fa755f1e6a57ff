"""What a set of distances fixes and what it leaves open, point by point, and in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.linalg

from quartic.arrays import Array, RandomState, finite_matrix, random_generator
from quartic.distance.bodies import ProvingCore, find_generic_bodies, find_proving_core
from quartic.distance.cuts import find_cuts, flips_in_graph, is_larger_than_a_simplex
from quartic.distance.graph import Indices, Mask, PairGraph, check_indices, mask_of, skeleton


@dataclass(frozen=True, eq=False)
class Determination:
    """An account of what a set of distances fixes and what it leaves open.

    Attributes
    ----------
    determined : (n,) array of bool
        The point lies in the largest globally rigid body, or, with anchors, in the one tied to them.
    component : (n,) array of int
        Connected component, 0 for the largest. Anchors are linked to each other: their distances are known.
    body : (n,) array of int
        Globally rigid body, 0 for the one that is called determined, then by size; -1 for none. A point shared by
        several bodies (a hinge) counts with the first of them.
    locally_rigid : (n,) array of bool
        The point cannot move continuously against body 0 (or, without bodies, against the largest locally rigid set).
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
    in_doubt : (n,) array of bool
        The point is not called determined because the distances are missed by more than noise or round-off.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.rigidity import assess
    >>> K4 = np.column_stack(np.triu_indices(4, 1))
    >>> X = np.array([[0.0, 0.0], [1.0, 0.2], [0.3, 1.0], [1.0, 1.4], [2.0, 2.0]])
    >>> print(assess(np.concatenate([K4, [[4, 3]]]), X).summary())
    4 of 5 points are determined up to a rigid motion and a reflection of the whole. 1 point has fewer than 3
    distances: point 4. 1 can still move continuously.
    """

    determined: Mask
    component: Indices
    body: Indices
    locally_rigid: Mask
    may_flip: Mask
    too_few: Indices = field(repr=False)
    isolated: Indices = field(repr=False)
    n_dimensions: int
    n_anchors: int
    anchors_span: bool
    complete: bool
    in_doubt: Mask

    @classmethod
    def of_all(cls, flips: Mask, d: int, n_anchors: int = 0, anchors_span: bool = False) -> Determination:
        """Return the account of points that are all determined; some may flip nearly."""
        one, no_one, everyone = np.zeros(len(flips), dtype=np.int64), np.empty(0, dtype=np.int64), np.ones_like(flips)
        nowhere = np.zeros_like(flips)
        return cls(everyone, one, one, everyone, flips, no_one, no_one, d, n_anchors, anchors_span, True, nowhere)

    def doubting(self, misfit: Mask, anchors: Indices) -> Determination:
        """Return the account with points in doubt whose misfit is no noise; anchors stand where they were said to."""
        in_doubt = misfit & self.determined & ~mask_of(anchors, self.n_points)
        return replace(self, determined=self.determined & ~in_doubt, in_doubt=in_doubt)

    def without(self, sides: list[tuple[Indices, Indices]], anchors: Indices) -> Determination:
        """Return the account with points that may be elsewhere no longer determined.

        Each item of ``sides`` is two sets of points that fit each other in two ways. The one with anchors stays
        determined, else the larger; where both have anchors, these decide. Where the second is empty none stays.
        """
        determined, body, flips = self.determined.copy(), self.body.copy(), self.may_flip.copy()
        known = mask_of(anchors, self.n_points)
        for here, there in sides:
            keep, lose = sorted((here, there), key=lambda side: (-known[side].sum(), -determined[side].sum()))
            if len(there) == 0:
                lose = here[~known[here]]
            elif known[lose].any() or not determined[keep].any():
                continue
            lost = lose[determined[lose]]
            flips[lost] = True
            determined[lost] = False
            body[lost] = body.max(initial=-1) + 1
        _, numbers = np.unique(body[body >= 0], return_inverse=True)
        body[body >= 0] = numbers
        return replace(self, determined=determined, body=body, may_flip=flips)

    def proved_by_itself(
        self, before: Mask, pairs: Indices, anchors: Indices, place: Indices | None = None
    ) -> Determination:
        """Return the account with those alone determined that are so by the pairs among themselves.

        What was proved with the help of points that were called determined ``before``, and may be elsewhere, is not.
        Points in one ``place`` count as one: what hangs on d places may be reflected, however many points lie there.
        """
        place = np.arange(self.n_points) if place is None else place
        if place.max(initial=-1) + 1 == self.n_points and (self.determined == before).all():
            return self
        d, kept = self.n_dimensions, self.determined.copy()
        kept[anchors] = True
        points, number = np.flatnonzero(kept), np.zeros_like(self.body)
        places, number[points] = np.unique(place[points], return_inverse=True)
        inner = np.concatenate([number[pairs[kept[pairs].all(axis=1)]], skeleton(number[anchors], d)])
        inner = inner[inner[:, 0] != inner[:, 1]]
        found = find_generic_bodies(PairGraph.from_pairs(inner, len(places)), d, np.random.default_rng(0))[0]
        bodies = [inside[number] & kept for inside in found]
        bodies.sort(key=lambda inside: (-np.count_nonzero(inside[anchors]), -np.count_nonzero(inside)))
        if not bodies or not bodies[0][anchors].all():  # what holds some of the anchors turns about them
            bodies.insert(0, np.zeros_like(kept))
        body, first = self.body.copy(), int(self.body.max(initial=0))
        body[points] = -1
        for k in range(len(bodies) - 1, -1, -1):
            body[bodies[k]] = first + k if k else 0
        determined = body == 0
        determined[anchors] = True
        return replace(self, determined=determined, body=body)

    def spread(self, label: Indices, component: Indices) -> Determination:
        """Return the account of points of which several may be one here: point k is ``label[k]``."""
        several = np.bincount(label)[label] > 1
        return replace(
            self, determined=self.determined[label], body=self.body[label], locally_rigid=self.locally_rigid[label],
            may_flip=self.may_flip[label], in_doubt=self.in_doubt[label], component=component,
            too_few=np.flatnonzero(np.isin(label, self.too_few)),
            isolated=np.flatnonzero(np.isin(label, self.isolated) & ~several),
        )  # fmt: skip

    @property
    def n_points(self) -> int:
        """The number of points."""
        return len(self.determined)

    @property
    def n_determined(self) -> int:
        """The number of determined points."""
        return int(np.count_nonzero(self.determined))

    @property
    def unexplained(self) -> bool:
        """Whether points are in doubt."""
        return bool(self.in_doubt.any())

    @property
    def n_components(self) -> int:
        """The number of connected components, isolated points included."""
        return int(self.component.max(initial=-1)) + 1

    @property
    def n_bodies(self) -> int:
        """The number of globally rigid bodies found."""
        return int(self.body.max(initial=-1)) + 1

    def summary(self, *, max_listed: int = 8) -> str:
        """Return one paragraph in words, with counts, and the indices of at most ``max_listed`` points of each kind."""
        return self.in_words(str, max_listed)

    def in_words(self, name: Callable[[int], str], max_listed: int = 8) -> str:
        """Return `summary` with points called as ``name`` calls them."""

        def named(points: Indices) -> str:
            text = ", ".join(name(int(k)) for k in points[:max_listed])
            return f"{text}, ..." if len(points) > max_listed else text

        def told(points: Any, one: str, several: str) -> None:
            """Add a sentence about points, where there are any: of one, or of several."""
            if np.any(points):
                points = np.flatnonzero(points)
                text = one if len(points) == 1 else several
                sentences.append(text.format(n=f"{len(points):,}", named=named(points)))

        verb, least = "is" if self.n_determined == 1 else "are", self.n_dimensions + 1
        sentences = [f"{self.n_determined:,} of {self.n_points:,} points {verb} determined{self._frame()}."]
        alone, others = mask_of(self.isolated, self.n_points), self.n_bodies - 1
        told(alone, "{n} has no distance at all: {named}.", "{n} have no distance at all: {named}.")
        told(
            mask_of(self.too_few, self.n_points) & ~alone,
            f"{{n}} point has fewer than {least} distances: point {{named}}.",
            f"{{n}} points have fewer than {least} distances: points {{named}}.",
        )
        told(~self.locally_rigid, *["{n} can still move continuously."] * 2)
        turning = "{n} cannot move but may sit elsewhere, as after a flip across a hinge: {named}."
        told(self.locally_rigid & ~self.determined & ~self.in_doubt, turning, turning)
        apart = f"in {others:,} smaller {'body' if others == 1 else 'bodies'}, fixed within but not against the rest."
        told(self.body > 0, f"{{n}} of the others lies {apart}", f"{{n}} of the others lie {apart}")
        if self.n_components > 1:
            sizes = np.bincount(self.component)
            listed = ", ".join(f"{int(size):,}" for size in sizes[:max_listed])
            more = ", ..." if len(sizes) > max_listed else ""
            sentences.append(
                f"{self.n_components:,} components have no distance between them (sizes {listed}{more}): "
                "their places against each other are arbitrary."
            )
        wall = "line" if self.n_dimensions == 2 else "plane"
        flat = (
            f"counted as determined, but with neighbours so nearly in one {wall} that small errors may reflect them "
            "through it: {named}."
        )
        told(self.may_flip & self.determined, f"{{n}} point {flat}", f"{{n}} points {flat}")
        doubt = "The distances are missed by more than noise or round-off, which puts {n} in doubt: {named}."
        told(self.in_doubt, doubt, doubt)
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


def check_anchor_indices(anchors: Any, n_points: int) -> Indices:
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
    first = int(np.argmax(np.sum(A**2, axis=1)))
    R, order = scipy.linalg.qr((A - A[first]).T, mode="r", pivoting=True)
    extent = np.abs(np.diagonal(R))
    others = order[: len(extent)][extent > 1e-6 * extent.max(initial=0.0)]
    result: Indices = np.sort(known[[first, *others]])
    return result


# Relative change of a distance that is round-off; what twice the logarithms of two likelihoods may differ by; and by
# which share of the whole a point must move to be elsewhere (a dimension that is not needed shrinks only as the root of
# the misfit).
ROUND_OFF, LIKELY, MOVED = 1e-9, 12.0, 1e-4
# A point with at most so many times d + 1 distances may hang on a flat set of neighbours by chance.
FEW = 4


def assess(
    pairs: Indices,
    X: Array,
    *,
    anchors: Sequence[int] | Indices | None = None,
    n_points: int | None = None,
    flip_tol: float = 0.1,
    noise: float = 0.0,
    bounded: Indices | None = None,
    random_state: RandomState = 0,
) -> Determination:
    r"""Say which points a set of distances determines.

    Points are called determined when this is proved for generic positions: by trilateration, or by the kernel of a
    random equilibrium stress being affine on them (:func:`stress_matrix`). Both are statements about the graph of the
    pairs, true for all positions but a set of measure zero; the random numbers make a wrong answer an event of
    probability zero, up to rounding. Then the coordinates are looked at: a piece that can be reflected in the
    hyperplane of the points it hangs on without changing a distance by more than round-off, or ``noise``, is not
    determined, and ``may_flip`` says so.

    Parameters
    ----------
    pairs : (m, 2) array of int
        The pairs whose distance is known. Repetitions do no harm.
    X : (n, d) array
        Coordinates: a solution.
    anchors : sequence of int, optional
        Points whose coordinates are known, and stand in X.
    n_points : int, optional
        Checked against the rows of X.
    flip_tol : float
        Flatness below which neighbours count as coplanar, see :func:`may_flip`.
    noise : float
        Standard deviation of the noise on the distances: reflections that change them by no more than it are possible.
    bounded : (k, 2) array of int, optional
        Pairs of which only bounds are known. They link their points and prove nothing.
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
    ([True, False, True, True], [True, True, True, True])
    >>> bool(assess(np.concatenate([square, [[1, 3]]]), X).determined.all())
    True
    """
    X = finite_matrix(X, "X").astype(np.float64, copy=False)
    n, d = X.shape
    if n_points is not None and n_points != n:
        raise ValueError(f"n_points is {n_points} but X has {n} rows; they must agree")
    pairs = check_indices(pairs, n)
    known = check_anchor_indices(anchors, n)
    rng = random_generator(random_state)
    room = None if bounded is None else check_indices(bounded, n)
    pairs = PairGraph.from_pairs(pairs, n).pairs
    return assess_at(pairs, X, known, room, find_proving_core(pairs, n, d, rng), rng, flip_tol=flip_tol, noise=noise)


def assess_at(
    pairs: Indices, X: Array, known: Indices, room: Indices | None, core: ProvingCore | None,
    rng: np.random.Generator, *, in_place: bool | None = None, flip_tol: float = 0.1, noise: float = 0.0,
) -> Determination:  # fmt: skip
    """Do the work of `assess` on checked input; ``core`` and ``in_place`` are what is known of a well-linked graph."""
    n, d = X.shape
    ties = spanning_anchors(X, known)
    if core is None:
        graph, found = _account_of_bodies(pairs, X, known, ties, room, rng, flip_tol)
    else:
        few = np.bincount(pairs.ravel(), minlength=n) <= FEW * (d + 1)
        flips = np.zeros(n, dtype=bool)
        if few.any():
            flips = few & flips_in_graph(PairGraph.from_pairs(pairs[few[pairs].any(axis=1)], n), X, flip_tol)
            flips[known] = False
        found = Determination.of_all(flips, d, len(known), len(ties) == d + 1)
        if core.stands_in_place(X, pairs) if in_place is None else in_place:
            return found
        graph = PairGraph.from_pairs(np.concatenate([pairs, skeleton(known, d)]), n)
    determined = found.determined
    found = found.without(_reflections(graph, X, np.flatnonzero(determined), noise), known)
    found = found.proved_by_itself(determined, pairs, known)
    return found.proved_by_itself(found.determined, pairs, known, _number_places(X))


def _account_of_bodies(
    pairs: Indices, X: Array, known: Indices, ties: Indices, room: Indices | None, rng: np.random.Generator,
    flip_tol: float,
) -> tuple[PairGraph, Determination]:  # fmt: skip
    """Return the account for generic positions, and the graph that it is of."""
    n, d = X.shape
    anchors_span = len(ties) == d + 1
    measured = PairGraph.from_pairs(pairs, n)
    fixing = PairGraph.from_pairs(np.concatenate([pairs, skeleton(known, d)]), n)
    linked = fixing if room is None or len(room) == 0 else PairGraph.from_pairs(np.concatenate([fixing.pairs, room]), n)
    component = linked.components()
    # Anchors in special position (on one line, say) prove less than their number: only independent ones are linked.
    graph = fixing if anchors_span else PairGraph.from_pairs(np.concatenate([pairs, skeleton(ties, d)]), n)
    bodies, locally_rigid, complete = find_generic_bodies(graph, d, rng, given=known if anchors_span else None)
    if len(known) and not anchors_span:
        bodies = _anchors_first(bodies, known, ties, n)

    label = np.full(n, -1, dtype=np.int64)
    for k, body in enumerate(bodies):
        label[body & (label < 0)] = k
    _, dense = np.unique(label[label >= 0], return_inverse=True)
    label[label >= 0] = dense
    determined = label == 0
    determined[known] = True
    locally_rigid = locally_rigid | determined
    flips = flips_in_graph(measured, X, flip_tol) & is_larger_than_a_simplex(component, d)
    flips[known] = False
    few = ~determined & (linked.degrees <= d)
    alone = (linked.degrees == 0) & (n > 1)
    alone[known] = False
    return graph, replace(
        Determination.of_all(flips, d, len(known), anchors_span),
        determined=determined, component=component, body=label, locally_rigid=locally_rigid,
        too_few=np.flatnonzero(few), isolated=np.flatnonzero(alone), complete=complete,
    )  # fmt: skip


def _number_places(X: Array) -> Indices:
    """Return numbers of the points' places from 0 on, the same for points in one place up to round-off."""
    along: Array = X @ np.random.default_rng(0).standard_normal(X.shape[1])  # none lies between two in one place
    order, tolerance = np.argsort(along), ROUND_OFF * (along.max(initial=-np.inf) - along.min(initial=np.inf))
    number = np.empty(len(X), dtype=np.int64)
    number[order] = np.cumsum(np.r_[False, np.abs(np.diff(X[order], axis=0)).max(axis=1) > tolerance][: len(X)])
    return number


def _anchors_first(bodies: list[Mask], known: Indices, ties: Indices, n: int) -> list[Mask]:
    """Return the bodies, first the one that holds all anchors; where none does, the anchors by themselves.

    A body that holds fewer turns about these, and so is not fixed against the others.
    """
    anchors = mask_of(known, n)
    at = next((k for k, body in enumerate(bodies) if body[ties].all()), None)
    first = anchors if at is None else anchors | bodies[at]
    return [first, *(body for k, body in enumerate(bodies) if k != at)]


def _reflections(graph: PairGraph, X: Array, points: Indices, noise: float) -> list[tuple[Indices, Indices]]:
    """Return the two sides of cuts where reflection changes no distance by more than round-off, or noise.

    Only the ``points`` that are determined so far count: others may follow a piece somehow. A piece that is tied to
    them by no more than d points is held by more than pairs with them.
    """
    size = float(np.sqrt(np.mean(np.sum((X - X.mean(axis=0)) ** 2, axis=1)))) if len(X) else 0.0
    allowed = LIKELY * noise**2 + (ROUND_OFF * size) ** 2 * len(graph.indices)
    graph, X = (graph, X) if len(points) == len(X) else (graph.restricted_to(points), X[points])
    cuts = find_cuts(graph, X, np.random.default_rng(0))
    cuts = [cut for cut in cuts if cut.change <= allowed and len(cut.boundary) > X.shape[1]]
    least = max(LIKELY**0.5 * noise, MOVED * size)
    if all(cut.moved.max() <= least for cut in cuts):  # of points that all lie flat: there is no first one to move
        return []
    return [(points[here], points[there]) for here, there in (cut.sides(X, least) for cut in cuts)]
