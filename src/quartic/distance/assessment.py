"""What a set of distances fixes: components, rigid parts and flips, brought together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quartic.arrays import Array, RandomState, finite_matrix, random_generator
from quartic.distance.anchors import checked_anchors, spanning_anchors
from quartic.distance.cuts import find_cuts
from quartic.distance.determination import Determination
from quartic.distance.flips import flips_in_graph
from quartic.distance.generic import generic_parts
from quartic.distance.pair_graph import Indices, PairGraph, checked_pairs
from quartic.distance.reduction import skeleton
from quartic.distance.well_linked import is_well_linked

# Relative change of a distance that is round-off; what twice the logarithms of two likelihoods may differ by; and by
# which share of the whole a point must move to be elsewhere (a dimension that is not needed shrinks only as the root of
# the misfit).
ROUND_OFF, LIKELY, MOVED = 1e-9, 10.0, 1e-3
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
    well_linked: bool | None = None,
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
    well_linked : bool, optional
        Whether :func:`~quartic.distance.well_linked.is_well_linked` says so of the pairs, where it was asked already.
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
    if is_well_linked(pairs, n, d, rng) if well_linked is None else well_linked:
        return _account_of_well_linked(pairs, X, known, len(ties) == d + 1, flip_tol)
    anchors_span = len(ties) == d + 1

    measured = PairGraph.from_pairs(pairs, n)
    fixing = PairGraph.from_pairs(np.concatenate([pairs, skeleton(known, d)]), n)
    room = np.empty((0, 2), dtype=np.int64) if bounded is None else checked_pairs(bounded, n)
    linked = fixing if len(room) == 0 else PairGraph.from_pairs(np.concatenate([fixing.pairs, room]), n)
    component = linked.components()
    # Anchors in special position (on one line, say) prove less than their number: only independent ones are linked.
    graph = fixing if anchors_span else PairGraph.from_pairs(np.concatenate([pairs, skeleton(ties, d)]), n)
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
    few = ~determined & (linked.degrees <= d)
    alone = linked.degrees == 0
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
    ).without(_reflections(graph, X, noise), anchors=known)


def _account_of_well_linked(
    pairs: Indices, X: Array, known: Indices, anchors_span: bool, flip_tol: float
) -> Determination:
    """Return the account of points that are all determined, but for single ones that hang on a flat set."""
    n, d = X.shape
    few = np.bincount(pairs.ravel(), minlength=n) <= FEW * (d + 1)
    graph = PairGraph.from_pairs(pairs[few[pairs[:, 0]] | few[pairs[:, 1]]], n)
    flips = few & flips_in_graph(graph, X, flip_tol)
    exactly = flips & flips_in_graph(graph, X, 1e2 * ROUND_OFF)
    flips[known] = exactly[known] = False
    one, no_one, everyone = np.zeros(n, dtype=np.int64), np.empty(0, dtype=np.int64), np.ones(n, dtype=bool)
    found = Determination(
        everyone, one, one, everyone, flips, no_one, no_one, d, len(known), anchors_span, complete=True
    )
    rest = np.flatnonzero(~exactly)
    return found.without([(np.array([k]), rest) for k in np.flatnonzero(exactly)])


def _reflections(graph: PairGraph, X: Array, noise: float) -> list[tuple[Indices, Indices]]:
    """Return the two sides of cuts where reflection changes no distance by more than round-off, or noise."""
    size = float(np.sqrt(np.mean(np.sum((X - X.mean(axis=0)) ** 2, axis=1)))) if len(X) else 0.0
    sides = []
    for cut in find_cuts(graph, X, np.random.default_rng(0)):
        if cut.change <= LIKELY * noise**2 + (ROUND_OFF * size) ** 2 * len(graph.indices):
            sides.append(cut.sides(X, max(LIKELY**0.5 * noise, MOVED * size)))
    return sides
