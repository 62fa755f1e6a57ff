"""Which points form globally rigid bodies in generic position, the cheap proofs first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import eigsh

from quartic.arrays import Array
from quartic.distance.cuts import SLAB, THIN, find_crowded_planes, find_planes_of_neighbours
from quartic.distance.framework import (
    DENSE_LIMIT,
    GenericFramework,
    Undecided,
    elimination_is_cheap,
    gram_iteration,
    moving_as_one,
    orthonormal_columns,
    preconditioned_cg,
    rigidity_matrix,
    shell,
    stress_matrix,
    sum_squares,
)
from quartic.distance.graph import (
    Indices,
    Mask,
    PairGraph,
    grow,
    grow_bodies,
    is_local,
    mask_of,
    merge_bodies,
    reduce_graph,
    sharing,
)
from quartic.losses.pairs.placement import choose_core


def find_generic_bodies(
    graph: PairGraph, d: int, rng: np.random.Generator, *, given: Indices | None = None
) -> tuple[list[Mask], Mask, bool]:
    """Return the globally rigid bodies, the mask of the locally rigid points, and whether all was tested.

    The largest body comes first. ``given`` are points whose mutual distances are known (anchors in general position);
    the body that holds them then is the first.
    """
    n = graph.n_points
    first = None if given is None else np.isin(np.arange(n), given)
    grown = grow_bodies(graph, d, rng, _trilateration(graph, d), sharing(d + 1), first)
    small, points, rims = reduce_graph(graph, grown, d)
    if small.n_points > DENSE_LIMIT and not elimination_is_cheap(small.matrix, d):
        grown = _with_dense_core(graph, small, points, grown, d, rng)
        small, points, rims = reduce_graph(graph, grown, d)
    bodies, framework, complete = grown, None, True
    if small.n_points > d + 1:
        try:
            framework = GenericFramework(small, d, rng)
        except Undecided:
            complete = False
    if framework is not None:
        found = [mask_of(points[inside], n) for inside in framework.find_bodies(rims)]
        bodies = _close(graph, [*grown, *found], d)
    if 0 < n <= d and (graph.degrees == n - 1).all():  # so is a triangle in space
        bodies = [np.ones(n, dtype=bool)]
    if given is not None:  # the body tied to the anchors comes first, whatever its size
        bodies.sort(key=lambda body: -np.count_nonzero(body[given]))
    # a complete graph on d + 1 points is a body by itself, but where it only hangs on another
    kept: list[Mask] = []
    for body in bodies:
        if np.count_nonzero(body) > d + 1 or not any((body & other).any() for other in kept):
            kept.append(body)
    bodies = kept
    rigid = np.zeros(n, dtype=bool)
    if bodies:
        rigid |= bodies[0]
    if framework is not None:
        held = np.flatnonzero(rigid[points])
        rigid[points] |= moving_as_one(framework.P, framework.motions, small, held, rng)
    elif not bodies and n <= d:
        rigid[:] = graph.degrees == n - 1
    if n > d and np.count_nonzero(rigid) <= d:  # two ends of one bar are no body to speak of
        rigid[:] = False
    before = 0
    while d <= np.count_nonzero(rigid) != before:
        before = int(np.count_nonzero(rigid))
        rigid = grow(graph, np.flatnonzero(rigid), d)
        for body in bodies:  # d points that stand still hold the body they are in
            if np.count_nonzero(body & rigid) >= d:
                rigid |= body
    return bodies, rigid, complete


def _close(graph: PairGraph, bodies: list[Mask], d: int) -> list[Mask]:
    """Join bodies that share d + 1 points and grow them by trilateration, until nothing changes."""
    grown = _trilateration(graph, d)
    return merge_bodies([grown(body) for body in bodies], sharing(d + 1), grown)


def _trilateration(graph: PairGraph, d: int) -> Callable[[Mask], Mask]:
    return lambda body: grow(graph, np.flatnonzero(body), d + 1)


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
        inner = GenericFramework(small.restricted_to(core), d, rng).find_bodies([])
    except Undecided:
        return bodies
    return _close(graph, [*bodies, *(mask_of(points[core][inside], graph.n_points) for inside in inner)], d)


# So many points are drawn that each is linked to this many times d + 1 of them; the fewest for which it is worth it.
_EACH, _FEWEST = (6, 12), 100
# Points with fewer than this share of the mean number of pairs follow by trilateration: with them the stress matrix
# would be indefinite.
_CORE = 0.6
# Steps of the two iterations, their tolerances, and how much larger than its right-hand side the second solution may
# be. A kernel that is too large shows in a random right-hand side with a share of n^-1/2, far above the second: to meet
# it, eigenvalues no larger than the first would take a solution beyond the last.
_STEPS, _STRESS, _KERNEL, _GROWN = 120, 1e-7, 1e-4, 1e3
# The second eigenvalue of a random graph of 24 pairs a point is 0.4, that of one which a tenth of its points parts 0.8.
_LEAST_DEGREE, _MIXING = 24, 0.6
# In a well-linked graph all points follow in so many rounds.
_ROUNDS = 12


@dataclass(frozen=True, eq=False)
class ProvingCore:
    """Points of a well-linked graph that prove all its points determined in generic position.

    Stresses prove it for those ``inside`` (n,); by the ``ties`` (v, u) the others follow by trilateration: v from
    several u before it.
    """

    inside: Mask
    ties: Indices

    def stands_in_place(self, X: Array, pairs: Indices, misfit: float = 0.0) -> bool:
        """Tell that, where the points are, no piece of them can be reflected.

        The core mixes, so that only a hyperplane with a good part of its points could cut it in two; a small piece
        would have most of its links with one hyperplane; each other point must not rest on a flat set. Those that do by
        their ties alone are looked at with all their pairs. The ``misfit`` is relative to the distances.
        """
        if find_crowded_planes(X, float(np.clip(misfit, SLAB, THIN))):
            return False
        if any(True for _ in find_planes_of_neighbours(pairs, X, misfit)):
            return False
        flat = _rest_on_flat_sets(self.ties, X, ~self.inside)
        if flat.any():
            one = flat[pairs[:, 0]] != flat[pairs[:, 1]]
            ends = pairs[one]
            ends = np.where(flat[ends[:, :1]], ends, ends[:, ::-1])
            flat = _rest_on_flat_sets(ends, X, flat)
        return not flat.any()


def _rest_on_flat_sets(ties: Indices, X: Array, among: Mask) -> Mask:
    """Return which of the points ``among`` which ties (v, u) give a v have all their u in a thin slab."""
    n, d = len(X), X.shape[1]
    points = np.flatnonzero(among)
    k = len(points)
    number = np.empty(n, dtype=np.int64)
    number[points] = np.arange(k)
    v, Y = number[ties[:, 0]], X[ties[:, 1]]
    count = np.maximum(np.bincount(v, minlength=k), 1)
    center = np.column_stack([np.bincount(v, y, k) for y in Y.T]) / count[:, None]
    spread = sum_squares(v, Y - center[v], k) / count[:, None, None]
    total = np.trace(spread, axis1=1, axis2=2)
    reach = total + np.sum((X[points] - center) ** 2, axis=1)
    # the determinant over the largest that the product of the other axes can be: no more than the thinnest
    thinnest = np.linalg.det(spread) / np.maximum(total / max(d - 1, 1), 1e-300) ** (d - 1)
    flat = np.zeros(n, dtype=bool)
    flat[points] = ~(thinnest > THIN**2 * reach)
    return flat


def find_proving_core(pairs: Indices, n: int, d: int, rng: np.random.Generator) -> ProvingCore | None:
    """Return points drawn at random that prove all n determined in generic position, or None where they do not.

    Pairs are i < j, sorted by i.
    """
    if n < _FEWEST or len(pairs) < (d + 1) * n:
        return None
    start = np.searchsorted(pairs[:, 0], np.arange(n + 1))
    if 2 * _EACH[0] * (d + 1) * n > 2 * len(pairs):  # nearly all would be drawn: in vain, if only near ones are linked
        ahead = sp.csr_array((np.ones(len(pairs)), pairs[:, 1], start), shape=(n, n))
        if is_local(ahead, rng):
            return None
    for each in _EACH:  # denser only where fewer do not suffice
        try:
            core = _prove_by_some(pairs, start, d, max(each * (d + 1), _LEAST_DEGREE), rng)
            if core is not None:
                return core
        except Undecided:
            pass
        if each * (d + 1) * n > 2 * len(pairs):
            break
    return None


def _prove_by_some(pairs: Indices, start: Indices, d: int, degree: int, rng: np.random.Generator) -> ProvingCore | None:
    """Return points drawn so that each is linked to ``degree`` others if they prove all points determined."""
    n, ends = len(start) - 1, np.ascontiguousarray(pairs[:, 1])
    share = min(max(degree * n / (2 * len(pairs)), _FEWEST / n), 1.0)
    inside, _, among = choose_core(start, ends, share, max(d + 2, int(_CORE * share * 2 * len(pairs) / n)))
    n_inside = int(np.count_nonzero(inside))
    ties = _grow_to_all(pairs, inside, d) if n_inside > d + 1 else None
    if ties is None:
        return None
    core = (np.cumsum(inside) - 1)[pairs[among]]
    proved = _mixes(core, n_inside) and _has_small_stress_kernel(core, n_inside, d, rng)
    return ProvingCore(inside, ties) if proved else None


def _mixes(pairs: Indices, n: int) -> bool:
    """Tell that no few points part the others: the second eigenvalue of D^-1/2 A D^-1/2 is that of a random graph.

    Shares a and b of the points that are linked only through the rest make it at least (ab / ((1 - a)(1 - b)))^1/2
    (Haemers): 0.82 for halves beside a tenth, which may lie in a hyperplane.
    """
    scale = np.bincount(pairs.ravel(), minlength=n) ** -0.5
    one_way = sp.csr_array((scale[pairs].prod(axis=1), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    values = eigsh(one_way + one_way.T, k=2, which="LA", tol=0.1, v0=np.ones(n), return_eigenvectors=False)
    return bool(values.min() <= _MIXING)


def _grow_to_all(pairs: Indices, inside: Mask, d: int) -> Indices | None:
    """Return pairs by which all other points follow by trilateration from those inside; None where some do not.

    Half of the pairs are enough for nearly all points, and are looked at first.
    """
    placed, ties = inside, []
    for some in (pairs[::2], *[pairs] * _ROUNDS):
        ends = some[np.flatnonzero(placed[some[:, 0]] != placed[some[:, 1]])]
        ends = np.where(placed[ends[:, :1]], ends[:, ::-1], ends)
        ready = np.bincount(ends[:, 0], minlength=len(inside)) > d
        ties.append(ends[ready[ends[:, 0]]])
        placed = placed | ready
        if placed.all():
            return np.concatenate(ties)
    return None


def _has_small_stress_kernel(pairs: Indices, n: int, d: int, rng: np.random.Generator) -> bool:
    """Tell whether a random stress at random positions has an affine kernel; raise Undecided where it is not seen."""
    P = shell(n, d, rng)
    R = rigidity_matrix(pairs, P)
    stress: Array = 1.0 + 0.1 * rng.standard_normal(len(pairs))
    U = R.data.reshape(-1, d)
    balance = gram_iteration(R, sum_squares(pairs.ravel(), U, n), tol=_STRESS, max_iter=_STEPS)
    stress -= R @ balance(R.T @ stress)
    Omega = stress_matrix(pairs, stress, n)
    diagonal = Omega.diagonal()
    if diagonal.min() <= 0:
        return False
    affine = orthonormal_columns(np.column_stack([np.ones(n), P]))
    b: Array = rng.standard_normal(n)
    b -= affine @ (affine.T @ b)
    x = preconditioned_cg(lambda V: Omega @ V, lambda V: V / diagonal, b, tol=_KERNEL, max_iter=_STEPS)
    return bool(np.linalg.norm(diagonal * x) <= _GROWN * np.linalg.norm(b))
