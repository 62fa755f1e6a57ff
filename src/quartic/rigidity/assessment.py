"""What a set of distances fixes: components, rigid parts and flips, brought together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quartic.arrays import Array, RandomState, finite_matrix, random_generator
from quartic.rigidity.anchors import checked_anchors, spanning_anchors
from quartic.rigidity.determination import Determination
from quartic.rigidity.flips import flips_in_graph
from quartic.rigidity.generic import generic_parts
from quartic.rigidity.pair_graph import Indices, PairGraph, checked_pairs
from quartic.rigidity.reduction import skeleton


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
