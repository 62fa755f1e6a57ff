"""What distances fix: checked against theorems, brute force, second solutions and Monte Carlo."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import least_squares
from scipy.spatial import cKDTree

from quartic.datasets import pair_distances, random_pairs
from quartic.distance import framework
from quartic.distance import noise as noise_of
from quartic.distance.framework import GenericFramework, moving_with
from quartic.distance.graph import PairGraph, grow, merge_bodies, sharing
from quartic.metrics import align
from quartic.rigidity import assess, may_flip, rigidity_matrix, standard_errors, stress_matrix


def complete(points):
    return list(itertools.combinations(points, 2))


def bipartite(a, b):
    return [(i, a + j) for i in range(a) for j in range(b)]


def banana(a, b, inner):
    return [pair for pair in complete([a, b, *inner]) if set(pair) != {a, b}]


def sensor_field(n, degree, d, seed):
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    radius = np.sqrt(degree / n / np.pi) if d == 2 else (degree / n * 0.75 / np.pi) ** (1 / 3)
    return cKDTree(X).query_pairs(radius, output_type="ndarray"), X


def generic(n, d, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


# name, dimension, points, pairs, determined points (None: any of that number), locally rigid points
CASES = [
    ("triangle", 2, 3, complete(range(3)), 3, 3),
    ("triangle in space", 3, 3, complete(range(3)), 3, 3),
    ("one pair", 2, 2, [(0, 1)], 2, 2),
    ("two loose points", 2, 2, [], 0, 0),
    ("path", 2, 3, [(0, 1), (1, 2)], 0, 0),
    ("quadrilateral", 2, 4, [(0, 1), (1, 2), (2, 3), (3, 0)], 0, 0),
    ("square with a diagonal", 2, 4, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)], 3, 4),
    ("K4 in the plane", 2, 4, complete(range(4)), 4, 4),
    ("K4 in space", 3, 4, complete(range(4)), 4, 4),
    ("K5 in space", 3, 5, complete(range(5)), 5, 5),
    ("K5 less a pair in space", 3, 5, complete(range(5))[1:], 4, 5),
    ("K33: rigid, no stress", 2, 6, bipartite(3, 3), 0, 6),
    ("K44 in the plane", 2, 8, bipartite(4, 4), 8, 8),
    ("K55 in space: stressed and 5-connected, yet not unique", 3, 10, bipartite(5, 5), 0, 10),
    ("K66 in space", 3, 12, bipartite(6, 6), 12, 12),
    ("wheel", 2, 6, [(0, k) for k in range(1, 6)] + [(k, k % 5 + 1) for k in range(1, 6)], 6, 6),
    ("prism: rigid, no stress", 2, 6, [*complete(range(3)), *complete(range(3, 6)), (0, 3), (1, 4), (2, 5)], 3, 6),
    ("two K5 sharing one point", 2, 9, complete(range(5)) + complete(range(4, 9)), 5, 5),
    ("two K5 sharing two points", 2, 8, complete(range(5)) + complete(range(3, 8)), 5, 8),
    ("two K5 sharing three points", 2, 7, complete(range(5)) + complete(range(2, 7)), 7, 7),
    ("two K6 sharing three points in space", 3, 9, complete(range(6)) + complete(range(3, 9)), 6, 9),
    ("two K4 joined by three bars", 2, 8, [*complete(range(4)), *complete(range(4, 8)), (0, 4), (1, 5), (2, 6)], 4, 8),
    (
        "two K4 joined by four bars",
        2,
        8,
        [*complete(range(4)), *complete(range(4, 8)), (0, 4), (1, 5), (2, 6), (3, 7)],
        8,
        8,
    ),
    ("K4 with a tail", 2, 6, [*complete(range(4)), (3, 4), (4, 5)], 4, 4),
    # Each banana by itself may flip, but then the distance of its ends no longer suits the other one.
    ("double banana", 3, 8, banana(0, 1, [2, 3, 4]) + banana(0, 1, [5, 6, 7]), 5, 5),
    ("one banana", 3, 5, banana(0, 1, [2, 3, 4]), 4, 5),
    ("cycle on the line", 1, 4, [(0, 1), (1, 2), (2, 3), (3, 0)], 4, 4),
    ("path on the line", 1, 3, [(0, 1), (1, 2)], 2, 3),
]


@pytest.mark.parametrize(
    ("d", "n", "pairs", "n_determined", "n_rigid"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_known_graphs(d, n, pairs, n_determined, n_rigid):
    result = assess(np.array(pairs, dtype=int).reshape(-1, 2), generic(n, d))
    assert np.count_nonzero(result.determined) == n_determined
    assert np.count_nonzero(result.locally_rigid) == n_rigid
    assert not (result.determined & ~result.locally_rigid).any()
    assert result.complete


def connected(n, pairs, removed=()):
    left = [v for v in range(n) if v not in removed]
    reached, edge = {left[0]}, {left[0]}
    while edge:
        edge = {b for a, b in [*pairs, *((b, a) for a, b in pairs)] if a in edge and b not in removed} - reached
        reached |= edge
    return len(reached) == len(left)


def unique_in_the_plane(n, pairs):
    """Jackson and Jordán (2005): 3-connected, and rigid after the loss of any one pair."""
    if n <= 3:
        return len(pairs) == n * (n - 1) // 2
    P = generic(n, 2, seed=99)

    def rank(kept):
        return np.linalg.matrix_rank(rigidity_matrix(np.array(kept), P).toarray(), tol=1e-9)

    redundant = all(rank(pairs[:k] + pairs[k + 1 :]) == 2 * n - 3 for k in range(len(pairs)))
    return redundant and all(connected(n, pairs, set(cut)) for cut in itertools.combinations(range(n), 2))


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.integers(4, 8), st.floats(0.4, 1.0), st.integers(0, 10_000))
def test_plane_against_the_combinatorial_theorem(n, density, seed):
    rng = np.random.default_rng(seed)
    pairs = [pair for pair in complete(range(n)) if rng.random() < density]
    if len(pairs) < 2:
        return
    result = assess(np.array(pairs), generic(n, 2, seed))
    assert result.determined.all() == unique_in_the_plane(n, pairs)
    rank = np.linalg.matrix_rank(rigidity_matrix(np.array(pairs), generic(n, 2, seed)).toarray())
    assert result.locally_rigid.all() == (rank == 2 * n - 3)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(5, 8), st.integers(2, 3), st.floats(0.5, 0.95), st.integers(0, 10_000))
def test_no_other_solution_moves_a_determined_point(n, d, density, seed):
    rng = np.random.default_rng(seed)
    pairs = np.array([pair for pair in complete(range(n)) if rng.random() < density]).reshape(-1, 2)
    X = rng.standard_normal((n, d))
    result = assess(pairs, X)
    if not result.determined.any():
        return
    goal = pair_distances(X, pairs) ** 2
    fixed = np.array(complete(np.flatnonzero(result.determined)))

    def residual(x):
        return pair_distances(x.reshape(n, d), pairs) ** 2 - goal

    for _ in range(8):
        other = least_squares(residual, rng.standard_normal(n * d), xtol=1e-15, ftol=1e-15, gtol=1e-15)
        if other.cost < 1e-22:
            np.testing.assert_allclose(
                pair_distances(other.x.reshape(n, d), fixed), pair_distances(X, fixed), atol=1e-5
            )


@pytest.mark.parametrize("d", [2, 3])
def test_a_flip_across_a_hinge_is_another_solution_and_is_reported(d):
    # Two complete graphs share d points; the second is mirrored in the hyperplane through these.
    n, size = 14, 7 + d // 2
    X = generic(n, d)
    hinge = np.arange(size - d, size)
    pairs = np.array(complete(range(size)) + complete(range(size - d, n)))
    normal = np.linalg.svd(X[hinge] - X[hinge].mean(axis=0))[2][-1]
    flipped = X.copy()
    flipped[size:] -= 2 * np.outer((X[size:] - X[hinge[0]]) @ normal, normal)
    np.testing.assert_allclose(pair_distances(flipped, pairs), pair_distances(X, pairs))
    result = assess(pairs, X)
    moved = np.abs(flipped - X).max(axis=1) > 1e-9
    first, second = result.body[0], result.body[-1]
    assert {first, second} == {0, 1}
    assert (result.body[moved] == second).all()
    assert (result.body[: size - d] == first).all()
    assert result.locally_rigid.all()
    assert "may sit elsewhere" in result.summary()
    assert "1 smaller body," in result.summary()
    # One bar between the two sides ends it.
    assert assess(np.concatenate([pairs, [[0, n - 1]]]), X).determined.all()


def test_a_part_may_be_fixed_through_points_outside_every_clique():
    # No triangles at all: only the stress decides. K44 with a K44 hung on two of its points.
    first = np.array(bipartite(4, 4))
    pairs = np.concatenate([first, np.where(first < 2, first, first + 6)])
    result = assess(pairs, generic(14, 2))
    assert result.n_bodies == 2
    assert np.bincount(result.body).tolist() == [8, 6]
    assert result.locally_rigid.all()


@pytest.mark.parametrize("d", [2, 3])
def test_sensor_field_proofs_agree_with_dense_linear_algebra(d):
    pairs, X = sensor_field(100, 9 if d == 2 else 14, d, seed=3)
    n = len(X)
    result = assess(pairs, X)
    assert 0 < result.n_determined < n
    # The determined points must be rigid, and with a stress of full rank, by themselves or with help from outside:
    # in every element of a dense stress kernel they are an affine image of themselves.
    rng = np.random.default_rng(0)
    P = rng.standard_normal((n, d))
    graph = PairGraph.from_pairs(pairs, n)
    R = rigidity_matrix(graph.pairs, P).toarray()
    U, s, _ = np.linalg.svd(R)
    rank = int(np.count_nonzero(s > 1e-9 * s[0]))
    null = U[:, rank:]
    Omega = stress_matrix(graph.pairs, null @ rng.standard_normal(null.shape[1]), n).toarray()
    values, vectors = np.linalg.eigh(Omega)
    kernel = vectors[:, np.abs(values) < 1e-9 * np.abs(values).max()]
    P1 = np.column_stack([np.ones(n), P])
    inside = result.determined
    fit = np.linalg.lstsq(P1[inside], kernel[inside])[0]
    follows = np.abs(kernel - P1 @ fit).max(axis=1) < 1e-6
    assert (follows == inside).all()
    # Local rigidity: the same for infinitesimal motions.
    _, s, Vt = np.linalg.svd(R, full_matrices=True)
    motions = Vt[rank:].T.reshape(n, d, -1)
    seed = np.flatnonzero(inside)
    A = GenericFramework.__new__(GenericFramework)
    A.P, A.motions = P, motions
    assert (moving_with(A.P, A.motions, seed) == result.locally_rigid).all()


@pytest.mark.parametrize("d", [2, 3])
def test_iteration_and_factorisation_agree(d, monkeypatch):
    # A random graph (no cliques to start from) with a body hung on it by d points and some loose ends.
    rng = np.random.default_rng(4)
    n = 220
    pairs = rng.integers(0, n, size=(n * (10 if d == 2 else 15), 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    body = np.array(complete([*range(d), *range(n, n + 9)]))
    loose = np.array([[0, n + 9], [n + 9, 5], [7, n + 10]])
    pairs = np.concatenate([pairs, body, loose])
    X = generic(n + 11, d)
    direct = assess(pairs, X)
    assert direct.n_determined == n
    assert np.count_nonzero(direct.body == 1) == 9
    monkeypatch.setattr(framework, "DENSE_LIMIT", 0)
    monkeypatch.setattr(framework, "FEASIBLE", 0.0)
    monkeypatch.setattr(framework, "elimination_is_cheap", lambda adjacency, d, budget=0.0: False)
    monkeypatch.setattr("quartic.distance.bodies.DENSE_LIMIT", 0)
    monkeypatch.setattr("quartic.distance.bodies.elimination_is_cheap", lambda adjacency, d, budget=0.0: False)
    iterated = assess(pairs, X)
    assert iterated.complete
    assert (iterated.determined == direct.determined).all()
    assert (iterated.body == direct.body).all()
    assert (iterated.locally_rigid == direct.locally_rigid).all()


def test_an_affine_image_is_not_yet_a_congruent_one():
    # Were the kernel affine, the whole could still be sheared: two edges do not forbid it, three directions do.
    bent = PairGraph.from_pairs(np.array([(0, 1), (1, 2)]), 6)
    framework = GenericFramework(bent, 2, np.random.default_rng(0))
    framework.kernel = np.zeros((6, 0))
    assert not framework.globally_rigid_with(np.arange(6)).any()
    framework.graph = PairGraph.from_pairs(np.array(complete(range(3))), 6)
    assert framework.globally_rigid_with(np.arange(6)).all()


def test_conjugate_gradients_say_when_they_do_not_apply():
    B = np.ones((3, 2))
    for A in (np.diag([1.0, -2.0, 3.0]), np.diag([1.0, 1e-9, 1e9])):
        with pytest.raises(framework.Undecided):
            framework.preconditioned_cg(lambda Z, A=A: A @ Z, lambda Z: Z, B, tol=1e-12, max_iter=2)
    with pytest.raises(framework.Undecided, match="negative curvature"):
        framework.preconditioned_cg(lambda Z: -Z, lambda Z: Z, B, tol=1e-12, max_iter=50)


def test_what_cannot_be_decided_is_not_claimed(monkeypatch):
    def give_up(*args, **kwargs):
        raise framework.Undecided

    monkeypatch.setattr("quartic.distance.framework.gram_inverse", give_up)
    result = assess(np.array(bipartite(4, 4)), generic(8, 2))
    assert not result.complete
    assert not result.determined.any()
    assert "cut short" in result.summary()


@settings(max_examples=15, deadline=None, derandomize=True)
@given(st.integers(0, 10_000))
def test_numbering_and_seed_do_not_matter(seed):
    pairs, X = sensor_field(100, 8, 2, seed)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(X))
    new = np.argsort(order)
    one = assess(pairs, X)
    two = assess(np.concatenate([new[pairs][::-1, ::-1], new[pairs[:5]]]), X[order], random_state=seed + 1)
    assert one.n_determined == two.n_determined
    assert one.n_components == two.n_components
    sizes = np.sort(np.bincount(one.body[one.body >= 0]))
    if len(sizes) < 2 or sizes[-1] > sizes[-2]:  # otherwise either of two equals may come first
        assert (one.determined[order] == two.determined).all()
        assert (one.locally_rigid[order] == two.locally_rigid).all()


# Anchors


def test_anchors_hold_what_they_span():
    X = generic(8, 2)
    # 3 and 4 see three anchors each; 5 sees two; 6 and 7 see only each other and 3.
    pairs = np.array([[0, 3], [1, 3], [2, 3], [0, 4], [1, 4], [2, 4], [5, 0], [5, 1], [6, 3], [7, 6]])
    assert not assess(pairs, X).determined[3:].any()
    result = assess(pairs, X, anchors=[0, 1, 2])
    assert result.anchors_span
    assert np.flatnonzero(result.determined).tolist() == [0, 1, 2, 3, 4]
    assert np.flatnonzero(result.locally_rigid).tolist() == [0, 1, 2, 3, 4, 5]
    assert result.may_flip[5]
    assert result.n_components == 1
    assert "in the frame of the anchors" in result.summary()


def test_the_part_of_the_anchors_is_the_determined_one_though_another_is_larger():
    pairs = np.array([*complete(range(4)), *complete(range(4, 12))])
    result = assess(pairs, generic(12, 2), anchors=np.array([0, 1, 2]))
    assert np.flatnonzero(result.determined).tolist() == [0, 1, 2, 3]
    assert (result.body[4:] == 1).all()
    assert assess(pairs, generic(12, 2)).determined[4:].all()


def test_anchors_on_a_line_prove_nothing_about_sides():
    X = generic(6, 2)
    X[:4] = np.outer([0.0, 1.0, 2.5, 3.0], [1.0, 0.5])
    pairs = np.array([(a, p) for a in range(4) for p in (4, 5)])
    result = assess(pairs, X, anchors=range(4))
    assert not result.anchors_span
    assert result.may_flip[4:].all()
    assert "4 anchors fix the frame only in part" in result.summary()
    # The generic test may not use the line's mutual distances as if they made a body: 4 and 5 may change sides.
    assert not result.determined[4:].all()


# Flips at the actual coordinates


@pytest.mark.parametrize("d", [2, 3])
def test_may_flip_means_that_the_mirror_image_fits(d):
    rng = np.random.default_rng(1)
    base = rng.standard_normal((8, d))
    base[:, -1] = 1e-3 * rng.standard_normal(8)
    above, within = np.full(d, 0.3), np.full(d, 0.3)
    above[-1], within[-1] = 1.0, 0.0
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    X = np.vstack([base, above, within]) @ turn + 5.0
    pairs = np.array([(k, p) for k in range(8) for p in (8, 9)])
    flips = may_flip(pairs, X)
    assert flips[8]
    assert not flips[9]  # it lies in the plane: its mirror image is itself
    assert not may_flip(pairs, X, tol=1e-5)[8]
    round_about = np.vstack([rng.standard_normal((8, d)), above])
    assert not may_flip(pairs[::2], round_about)[8]


@pytest.mark.parametrize("d", [2, 3])
def test_a_simplex_by_itself_flips_only_as_a_whole(d):
    X = np.random.default_rng(d).standard_normal((d + 3, d))
    simplex = np.column_stack(np.triu_indices(d + 1, 1))
    assert not may_flip(simplex, X).any()
    assert not assess(simplex, X).may_flip.any()
    base = np.concatenate([simplex, [(d + 1, k) for k in range(d)]])  # a second tip on the same face: two ways
    assert may_flip(base, X)[[d, d + 1]].all()
    held = assess(simplex, X, anchors=[*range(d), d + 1, d + 2])  # the anchors' frame tells the sides apart
    assert held.may_flip[d]


def test_flips_do_not_depend_on_blocks():
    from quartic.distance.cuts import flips_in_graph

    pairs, X = sensor_field(300, 6, 2, seed=0)
    graph = PairGraph.from_pairs(pairs, 300)
    whole = flips_in_graph(graph, X, 0.1)
    assert whole.any()
    assert (whole == flips_in_graph(graph, X, 0.1, chunk=7)).all()


# The account


def test_summary_counts_everything():
    K6 = complete(range(6))
    pairs = np.array([*K6, (6, 0), (6, 1), (7, 0), *complete([8, 9, 10])])
    result = assess(pairs, generic(12, 2))
    text = result.summary(max_listed=2)
    assert text.startswith("6 of 12 points are determined")
    assert "1 has no distance at all: 11." in text
    assert "5 points have fewer than 3 distances: points 6, 7, ..." in text
    assert "3 components have no distance between them (sizes 8, 3, ...)" in text
    assert result.too_few.tolist() == [6, 7, 8, 9, 10, 11]
    assert result.isolated.tolist() == [11]
    assert result.body.tolist() == [0] * 6 + [-1, -1, 1, 1, 1, -1]
    assert result.component.tolist() == [0] * 8 + [1, 1, 1, 2]


def test_nothing_known():
    result = assess(np.empty((0, 2), dtype=int), generic(4, 3))
    assert not result.determined.any()
    assert result.n_components == 4
    assert assess(np.empty((0, 2), dtype=int), np.zeros((1, 2))).determined.all()
    assert assess(np.empty((0, 2), dtype=int), np.zeros((0, 2))).summary().startswith("0 of 0 points")


@pytest.mark.parametrize(
    ("pairs", "options", "error", "words"),
    [
        ([[0, 9]], {}, ValueError, r"pairs\[0\] = \[0, 9\] is outside the 5 points"),
        ([[0, 1], [2, 2]], {}, ValueError, r"pairs\[1\] = \[2, 2\] joins a point to itself"),
        ([[0.5, 1.0]], {}, TypeError, "integer"),
        ([[0, 1, 2]], {}, ValueError, r"\(m, 2\)"),
        ([[0, 1]], {"anchors": [7]}, ValueError, "anchor 7 is outside"),
        ([[0, 1]], {"anchors": [1, 1]}, ValueError, "anchor 1 is listed twice"),
        ([[0, 1]], {"anchors": [0.5]}, TypeError, "anchors"),
        ([[0, 1]], {"n_points": 7}, ValueError, "n_points is 7 but X has 5 rows"),
    ],
)
def test_bad_input_is_named(pairs, options, error, words):
    with pytest.raises(error, match=words):
        assess(np.array(pairs), generic(5, 2), **options)


def test_growth_by_rounds_equals_growth_one_by_one():
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 60, size=(260, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    graph = PairGraph.from_pairs(pairs, 60)
    start = np.arange(8)
    inside = set(start.tolist())
    while fresh := {v for v in set(range(60)) - inside if len(inside & set(graph.neighbours(v).tolist())) >= 3}:
        inside |= fresh
    assert set(np.flatnonzero(grow(graph, start, 3)).tolist()) == inside
    assert 8 < len(inside) < 60


def test_merging_chains_of_bodies():
    bodies = [np.isin(np.arange(20), np.arange(k, k + 5)) for k in (0, 4, 2, 12)]
    merged = merge_bodies(bodies, sharing(3))
    assert [np.count_nonzero(body) for body in merged] == [9, 5]


# Standard errors


@pytest.mark.parametrize(("d", "anchors"), [(2, None), (3, None), (2, [0, 1, 2]), (2, [0]), (3, [0, 1])])
def test_standard_errors_against_monte_carlo(d, anchors):
    rng = np.random.default_rng(2)
    n, m, sigma, n_runs = 12, 50, 1e-4, 400
    X = rng.standard_normal((n, d))
    pairs = np.array(complete(range(n)))[rng.permutation(n * (n - 1) // 2)[:m]]
    assert assess(pairs, X).determined.all()
    noise = sigma * rng.uniform(0.3, 2.0, m)
    weights = rng.uniform(0.2, 1.0, m)
    expected = standard_errors(pairs, X, noise, anchors=anchors, weights=weights)
    free = np.setdiff1d(np.arange(n), anchors if anchors else [])
    columns = (free[:, None] * d + np.arange(d)).ravel()
    goal = pair_distances(X, pairs)
    squares = np.zeros(n)
    for _ in range(n_runs):
        measured = goal + noise * rng.standard_normal(m)
        Y = X.ravel().copy()
        for _ in range(4):  # Gauss–Newton: the noise is small
            J = rigidity_matrix(pairs, Y.reshape(n, d), unit=True).toarray()[:, columns] * np.sqrt(weights)[:, None]
            residual = np.sqrt(weights) * (measured - pair_distances(Y.reshape(n, d), pairs))
            Y[columns] += np.linalg.lstsq(J, residual, rcond=1e-9)[0]
        Y = Y.reshape(n, d)
        if anchors is None:
            Y = align(Y, X)
        elif len(anchors) <= d:  # what turns about the anchors is not an error: take it out to first order
            from quartic.distance.framework import rigid_motions

            M = rigid_motions(X - X[anchors[0]])[:, d:].reshape(n, d, -1)
            M = M @ np.linalg.svd(M[anchors].reshape(-1, M.shape[-1]))[2].T
            M = M.reshape(n * d, -1)[:, np.abs(M[anchors]).reshape(-1, M.shape[-1]).max(axis=0) < 1e-12]
            error = (Y - X).ravel()
            Y = X + (error - M @ np.linalg.lstsq(M, error)[0]).reshape(n, d)
        squares += np.sum((Y - X) ** 2, axis=1)
    measured_errors = np.sqrt(squares / n_runs)
    # The spread of a standard deviation from 400 runs is 1/sqrt(800) = 3.5 %; five of those.
    np.testing.assert_allclose(measured_errors, expected, rtol=0.18, atol=1e-12)
    assert abs(np.log(measured_errors[free] / expected[free]).mean()) < 0.03


@pytest.mark.parametrize("anchors", [None, [0, 1, 2, 3]])
def test_standard_errors_equal_the_pseudo_inverse(anchors):
    pairs, X = sensor_field(120, 14, 2, seed=1)
    n = len(X)
    J = rigidity_matrix(pairs, X, unit=True).toarray()
    free = np.setdiff1d(np.arange(n), anchors if anchors else [])
    columns = (free[:, None] * 2 + np.arange(2)).ravel()
    C = np.linalg.pinv(J[:, columns].T @ J[:, columns], rcond=1e-12, hermitian=True)
    expected = np.zeros(n)
    expected[free] = 0.3 * np.sqrt(np.diag(C).reshape(-1, 2).sum(axis=1))
    assert assess(pairs, X, anchors=anchors).locally_rigid.all()
    np.testing.assert_allclose(standard_errors(pairs, X, 0.3, anchors=anchors), expected, rtol=1e-7)


@pytest.mark.parametrize("anchors", [None, [0, 1, 2, 3]])
def test_sampled_errors_scatter_about_the_exact_ones(anchors, monkeypatch):
    pairs, X = sensor_field(400, 16, 2, seed=1)
    exact = standard_errors(pairs, X, 0.01, anchors=anchors)
    monkeypatch.setattr(noise_of, "EXACT_LIMIT", 0)
    sampled = standard_errors(pairs, X, 0.01, anchors=anchors, n_samples=400)
    finite = np.isfinite(exact)
    assert (np.isfinite(sampled) == finite).all()
    finite &= exact > 0
    ratio = sampled[finite] / exact[finite]
    assert abs(np.median(ratio) - 1) < 0.04
    assert np.abs(ratio - 1).max() < 0.25
    again = standard_errors(pairs, X, 0.01, anchors=anchors, n_samples=400)
    np.testing.assert_array_equal(again, sampled)


def test_errors_are_infinite_where_points_are_free():
    X = generic(8, 2)
    pairs = np.array([*complete(range(5)), (5, 0), (6, 0), (6, 1)])
    errors = standard_errors(pairs, X, 0.1)
    assert np.isinf(errors[[5, 7]]).all()
    assert np.isfinite(errors[[0, 1, 2, 3, 4, 6]]).all()
    # A point in line with all its neighbours is rigid for generic positions but not to first order where it is.
    X[7] = X[0] + 0.4 * (X[1] - X[0])
    errors = standard_errors(np.concatenate([pairs, [[7, 0], [7, 1]]]), X, 0.1)
    assert np.isinf(errors[7])
    assert np.isfinite(errors[:5]).all()
    # All points in a plane of the space: nothing holds any of them in it, to first order.
    flat = np.column_stack([generic(6, 2), np.zeros(6)])
    assert np.isinf(standard_errors(np.array(complete(range(6))), flat, 0.1)).all()
    # The loose ends take nothing away from the others.
    alone = standard_errors(np.array(complete(range(5))), X[:5], 0.1)
    with_loose_end = standard_errors(np.array([*complete(range(5)), (5, 0)]), X[:6], 0.1)
    np.testing.assert_allclose(with_loose_end[:5], alone)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sigma": 0.0}, "sigma must be positive"),
        ({"sigma": [0.1, np.nan, 0.1]}, "nan for pair 1"),
        ({"sigma": [0.1, 0.1]}, "one number per pair"),
        ({"sigma": 0.1, "weights": [1.0, -1.0, 1.0]}, "weights must be positive"),
        ({"sigma": 0.1, "n_samples": 0}, "n_samples"),
    ],
)
def test_bad_noise_is_named(options, words):
    with pytest.raises(ValueError, match=words):
        standard_errors(np.array(complete(range(3))), generic(3, 2), **options)


# The exact referee: the same theorems in a finite field, where nothing is rounded

PRIME = 2**31 - 1


def eliminate(A):
    """Return the rank and the reduced row echelon form modulo the prime, with its pivots."""
    A, row, pivots = A % PRIME, 0, []
    for column in range(A.shape[1]):
        candidates = np.flatnonzero(A[row:, column])
        if len(candidates) == 0:
            continue
        A[[row, row + candidates[0]]] = A[[row + candidates[0], row]]
        A[row] = A[row] * pow(int(A[row, column]), PRIME - 2, PRIME) % PRIME
        others = np.flatnonzero(A[:, column])
        others = others[others != row]
        A[others] = (A[others] - A[others, column][:, None] * A[row] % PRIME) % PRIME
        pivots.append(column)
        row += 1
        if row == len(A):
            break
    return row, A, pivots


def exact_referee(pairs, n, d, seed=0):
    """Return whether the graph is rigid and whether it is globally rigid, for generic positions."""
    rng = np.random.default_rng(seed)
    P = rng.integers(PRIME, size=(n, d))
    R = np.zeros((len(pairs), n * d), dtype=np.int64)
    for k, (i, j) in enumerate(pairs):
        R[k, i * d : (i + 1) * d] = (P[i] - P[j]) % PRIME
        R[k, j * d : (j + 1) * d] = (P[j] - P[i]) % PRIME
    rank, reduced, pivots = eliminate(R.T.copy())
    rigid = rank == n * d - d * (d + 1) // 2
    free = np.setdiff1d(np.arange(len(pairs)), pivots)
    if not rigid or len(free) == 0:
        return rigid, False
    stress = np.zeros(len(pairs), dtype=np.int64)
    stress[free] = rng.integers(PRIME, size=len(free))
    for row, column in enumerate(pivots):
        stress[column] = (
            -int(sum(int(a) * int(b) for a, b in zip(reduced[row, free], stress[free], strict=True))) % PRIME
        )
    Omega = np.zeros((n, n), dtype=np.int64)
    for (i, j), w in zip(pairs, stress, strict=True):
        Omega[i, j], Omega[j, i] = -w % PRIME, -w % PRIME
        Omega[i, i], Omega[j, j] = (Omega[i, i] + w) % PRIME, (Omega[j, j] + w) % PRIME
    return rigid, eliminate(Omega)[0] == n - d - 1


def agree_with_the_referee(n, d, density, seed, n_anchors=0):
    rng = np.random.default_rng([n, d, seed])
    pairs = [pair for pair in complete(range(n)) if rng.random() < density]
    anchors = sorted(rng.choice(n, n_anchors, replace=False).tolist())
    rigid, unique = exact_referee(sorted({*pairs, *complete(anchors)}), n, d)
    result = assess(np.array(pairs).reshape(-1, 2), rng.standard_normal((n, d)), anchors=anchors)
    assert result.locally_rigid.all() == rigid, (n, d, density, seed, n_anchors)
    assert result.determined.all() == unique, (n, d, density, seed, n_anchors)
    return unique


@pytest.mark.parametrize("d", [2, 3])
def test_the_exact_referee_agrees_on_random_graphs(d):
    unique = [
        agree_with_the_referee(n, d, min(0.9, (2 * d + spread) / n), seed)
        for n in (8, 14, 25, 40)
        for seed, spread in enumerate((1.0, 2.5, 4.0, 6.0, 9.0))
    ]
    assert 2 <= sum(unique) <= 18  # both answers come up


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "least", "most", "n_anchors"), [(500, 5, 40, 0), (100, 41, 90, 0), (100, 12, 60, 6)],
    ids=["small", "large", "anchors"],
)  # fmt: skip
def test_the_exact_referee_agrees_on_many_graphs(count, least, most, n_anchors):
    rng = np.random.default_rng(count + n_anchors)
    unique = []
    for seed in range(count):
        n, d = int(rng.integers(least, most + 1)), int(rng.integers(2, 4))
        density = min(0.95, (2 * d - 0.5 * n_anchors / d + rng.uniform(0, 9)) / n)
        unique.append(agree_with_the_referee(n, d, density, seed, n_anchors))
    assert 0.05 * count <= sum(unique) <= 0.95 * count  # both answers come up


def test_the_referee_knows_the_known_graphs():
    assert exact_referee(complete(range(4)), 4, 2) == (True, True)
    assert exact_referee(bipartite(3, 3), 6, 2) == (True, False)
    assert exact_referee(bipartite(5, 5), 10, 3) == (True, False)
    assert exact_referee(bipartite(6, 6), 12, 3) == (True, True)
    assert exact_referee(banana(0, 1, [2, 3, 4]) + banana(0, 1, [5, 6, 7]), 8, 3) == (False, False)


@pytest.mark.parametrize("d", [2, 3])
def test_the_quick_proof_is_a_proof(d):
    """Of graphs of 120 points from loose to dense it may only claim what the exact referee confirms."""
    from quartic.distance.bodies import find_proving_core

    claimed = 0
    for seed, degree in enumerate((2 * d + 1, 2 * d + 3, 10, 14, 20, 30)):
        rng = np.random.default_rng(seed)
        every = np.array(complete(range(120)))
        pairs = every[rng.random(len(every)) < degree / 119]
        if find_proving_core(pairs, 120, d, np.random.default_rng(0)) is not None:
            assert exact_referee(pairs, 120, d)[1]
            claimed += 1
    assert claimed >= 2
    # dense on both sides of a cut of d points, or with one point that hangs on d: not to be claimed
    halves = np.array([*complete(range(80)), *complete([*range(d), *range(80, 160)])])
    assert find_proving_core(PairGraph.from_pairs(halves, 160).pairs, 160, d, np.random.default_rng(0)) is None
    hanging = np.array([*complete(range(150)), *((k, 150) for k in range(d))])
    assert find_proving_core(PairGraph.from_pairs(hanging, 151).pairs, 151, d, np.random.default_rng(0)) is None
    hanging = np.array([*complete(range(150)), *((k, 150) for k in range(d + 1))])
    assert find_proving_core(PairGraph.from_pairs(hanging, 151).pairs, 151, d, np.random.default_rng(0)) is not None


def test_a_point_on_a_flat_set_in_a_well_linked_graph_is_open():
    X = generic(150, 3)
    X[:5, 2] = 0.0
    pairs = np.array([*complete(range(150)), *((k, 150) for k in range(5))])
    result = assess(pairs, np.vstack([X, [0.3, 0.2, 1.0]]))
    assert np.flatnonzero(~result.determined).tolist() == [150]
    assert result.may_flip[150]


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize(("wall", "side", "share"), [(40, 100, 0.6), (30, 60, 1.0), (100, 60, 0.6), (90, 50, 1.0)])
def test_a_wall_between_two_halves_of_a_well_linked_graph_lets_one_be_reflected(d, wall, side, share):
    """Generic theorems call it all determined; where the points are, each half fits on both sides of the wall."""
    from quartic.distance.bodies import find_proving_core

    rng = np.random.default_rng(d)
    n = wall + 2 * side
    X = rng.standard_normal((n, d))
    X[:wall, -1] = 0.0
    half = np.repeat([0, 1, 2], [wall, side, side])
    pairs = np.array(complete(range(n)))
    pairs = pairs[(half[pairs[:, 0]] * half[pairs[:, 1]] != 2) & (rng.random(len(pairs)) < share)]
    # a thin wall shows in the graph, a thick one only in where its points are
    assert (find_proving_core(pairs, n, d, np.random.default_rng(0)) is not None) == (wall > side)
    result = assess(pairs, X)
    assert result.determined.sum() in (wall + side, wall + side - 1)
    assert not (result.determined & (half == 1)).any() or not (result.determined & (half == 2)).any()
    assert assess(np.array(complete(range(n))), X).determined.all()  # pairs across the wall settle it


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("together", [1, 3])
def test_points_that_hang_on_many_points_of_a_flat_set_are_open(d, together):
    X = generic(203, d)
    X[:40, -1] = 0.0
    rng = np.random.default_rng(0)
    pairs = np.array(complete(range(200)))
    pairs = pairs[rng.random(len(pairs)) < 0.5]
    hanging = [(k, 200 + t) for k in range(40) for t in range(together)] + complete(range(200, 200 + together))
    result = assess(np.concatenate([pairs, hanging]), X[: 200 + together])
    assert np.flatnonzero(~result.determined).tolist() == list(range(200, 200 + together))


def test_a_body_that_turns_about_one_of_two_anchors_is_not_determined():
    pairs = np.array([*complete(range(5)), *complete(range(5, 9))])
    X = generic(9, 2)
    both = assess(pairs, X, anchors=[0, 5])  # one in each body
    assert np.flatnonzero(both.determined).tolist() == [0, 5]
    assert np.flatnonzero(assess(pairs, X, anchors=[5]).determined).tolist() == [5, 6, 7, 8]
    assert np.flatnonzero(assess(pairs, X, anchors=[5, 7]).determined).tolist() == [5, 6, 7, 8]
    loose = assess(pairs[:10], X, anchors=[0, 1, 8])  # 8 has no distance, but the three span the plane
    assert np.flatnonzero(loose.determined).tolist() == [0, 1, 8]


def test_folds_that_move_each_others_lines_are_all_counted():
    """Sheets of braced squares fold along every line; folded twice, a strip may lie on the line of another fold."""
    rows = np.array([0.0, 1.0, 2.0, 1.0, 2.0])  # of 0, 1, 2, 3, 4
    flat = np.stack(np.meshgrid(np.arange(5.0), np.arange(5.0)), axis=-1).reshape(-1, 2)
    pairs = np.array([(i, j) for i, j in complete(range(25)) if np.abs(flat[i] - flat[j]).max() < 1.5])
    for X in (flat, np.column_stack([flat[:, 0], rows[flat[:, 1].astype(int)]])):
        found = np.flatnonzero(assess(pairs, X).determined)
        assert (np.abs(flat[found, None] - flat[None, found]).max(axis=(0, 1)) <= 1).all()  # no further than a square


def test_bodies_on_a_line_that_share_nearly_one_place_are_not_joined():
    X = np.array([0.0, 1e-9, -1.3, -0.4, 0.7, 1.9])[:, None]
    pairs = np.array([*complete([0, 1, 2, 3]), *((i, j) for i in (0, 1) for j in (4, 5)), (4, 5)])
    assert np.flatnonzero(assess(pairs, X).determined).tolist() in ([0, 1, 2, 3], [0, 1, 4, 5])
    X[1] = 0.5
    assert assess(pairs, X).determined.all()


def test_standard_errors_where_the_largest_body_moves_against_the_rest():
    """Two triangles linked by three parallel bars: rigid in general, but each moves against the other here."""
    triangle = np.array([[0.0, 0.0], [1.0, 0.2], [0.3, 1.0]])
    inner = np.array([[0, 1], [0, 2], [1, 2]])
    pairs = np.concatenate([inner, inner + 3, [[0, 3], [1, 4], [2, 5]]])
    errors = standard_errors(pairs, np.concatenate([triangle, triangle + 2.0]), 1e-3)
    alone = standard_errors(inner, triangle, 1e-3)
    held = np.isfinite(errors)
    assert held.tolist() in ([True] * 3 + [False] * 3, [False] * 3 + [True] * 3)
    np.testing.assert_allclose(errors[held], alone, rtol=1e-9)


def test_a_loose_neighbour_does_not_hold_a_point_on_its_side():
    X = generic(8, 3)
    X[:4, 2] = 0.0  # 6 hangs on four points of a plane; 7, with three distances, follows it wherever it is
    pairs = np.array([*complete(range(6)), *((k, 6) for k in range(4)), (4, 7), (5, 7), (6, 7)])
    assert np.flatnonzero(assess(pairs, X).determined).tolist() == [0, 1, 2, 3, 4, 5]
    X[3, 2] = 0.7
    assert np.flatnonzero(assess(pairs, X).determined).tolist() == [0, 1, 2, 3, 4, 5, 6]


def test_the_quick_proof_draws_points_apart_from_how_data_were_drawn():
    """Data made by the seed that the proof uses: its points must not all come from one end of them."""
    from quartic.distance.bodies import find_proving_core

    t = np.random.default_rng(0).uniform(0.0, 1.0, 2000)
    core = find_proving_core(random_pairs(2000, 0.1, random_state=0), 2000, 3, np.random.default_rng(0))
    assert core is not None
    assert 0.4 < t[core.inside].mean() < 0.6
    curve = np.column_stack([np.cos(18 * t), np.sin(18 * t), 12 * t])
    assert core.stands_in_place(curve, random_pairs(2000, 0.1, random_state=0))


def test_graphs_of_a_few_thousand_points_at_random_are_decided():
    """Their stress matrices are indefinite and have no narrow band, and nothing was called determined."""
    rng = np.random.default_rng(0)
    n = 2500
    pairs = random_pairs(n, 8 / n, random_state=0)
    result = assess(pairs, rng.standard_normal((n, 2)))
    assert result.complete
    core = PairGraph.from_pairs(pairs, n).core(3)  # a point of two distances can be reflected
    assert not result.determined[~core].any()
    assert np.count_nonzero(core & ~result.determined) <= 5
