"""The low-rank method and the front doors: derivatives by differences, known values, brute force."""

import itertools
import math

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

from quartic.datasets import planted_graph
from quartic.sdp import SDP, LowRank, complete_matrix, localise, lovasz_theta, maxcut, passes, solve_sdp
from quartic.sdp import solve as solving
from quartic.sdp.bound import Bounds
from quartic.sdp.interior import _Scaled
from quartic.sdp.lowrank import Lagrangian
from quartic.sdp.spheres import Blocks, Slots, Spheres
from sdp_problems import random_graph, theta_bordered


def mixed_programme(n=7, seed=0):
    """Spheres over one and two rows, free rows, entries, a vector and an operator in C and in the constraints."""
    rng = np.random.default_rng(seed)
    C, G = rng.standard_normal((2, n, n))
    u = rng.standard_normal(n)
    A = [
        [(0, 0, 2.0)],
        [(1, 1, 1.0), (2, 2, 3.0)],
        [(0, 1, 1.0), (3, 4, -2.0), (5, 5, 1.0)],
        LowRank(u),
        aslinearoperator(G + G.T),
    ]
    return SDP(C + C.T, A, [1.0, 2.0, 0.3, 0.7, 0.1])


def lagrangian(problem, seed=1):
    rng = np.random.default_rng(seed)
    data = Spheres(problem)
    return Lagrangian(data, rng.standard_normal(len(data.b)), 0.8), data, rng


def test_which_constraints_are_spheres():
    _, data, _ = lagrangian(mixed_programme())
    assert sorted(data.on_sphere) == [0, 1]
    assert list(data.rest) == [2, 3, 4]
    assert data.group[1] == data.group[2] != data.group[0]
    assert (data.group[3:] == data.n_spheres).all()


def test_spheres_hold_by_construction_and_the_measures_are_those_of_the_data():
    problem = mixed_programme()
    _, data, rng = lagrangian(problem)
    X = data.retract(rng.standard_normal((7, 3)))
    plain = X * data.length[:, None]
    Y = plain @ plain.T
    assert 2 * Y[0, 0] == pytest.approx(1.0)
    assert Y[1, 1] + 3 * Y[2, 2] == pytest.approx(2.0)
    measured = (data.S @ data.measure(X)) * data.norms
    u = problem.B.toarray()[:, 0]
    assert measured[0] == pytest.approx(2 * Y[0, 1] - 4 * Y[3, 4] + Y[5, 5])
    assert measured[1] == pytest.approx(u @ Y @ u)
    assert measured[2] == pytest.approx(np.vdot(problem.operators[0][2] @ np.eye(7), Y))


def test_gradient_and_hessian_by_differences():
    L, data, rng = lagrangian(mixed_programme())
    X = data.retract(rng.standard_normal((7, 3)))
    point = L.at(X)
    D = rng.standard_normal(X.shape)
    D -= tangent_part(data, X, D)
    h = 1e-5

    def value(t):
        return L.value(data.measure(data.retract(X + t * D)))

    slope = (value(h) - value(-h)) / (2 * h)
    assert slope == pytest.approx(np.vdot(point.gradient, D), rel=1e-7)
    H = np.empty_like(D)
    curvature = L.hessian_product(point, data.weights(point.v), D, H)
    # the retraction is of second order, so that the curve's curvature is the Hessian's
    wide = 1e-3
    assert curvature == pytest.approx((value(wide) - 2 * value(0) + value(-wide)) / wide**2, rel=1e-4)
    E = rng.standard_normal(X.shape)
    E -= tangent_part(data, X, E)
    other = np.empty_like(E)
    L.hessian_product(point, data.weights(point.v), E, other)
    assert np.vdot(E, H) == pytest.approx(np.vdot(D, other))  # symmetric
    assert abs(tangent_part(data, X, H)).max() < 1e-12


def tangent_part(data, X, D):
    """The part of D that leaves the spheres."""
    sums = np.bincount(data.group, np.einsum("ij,ij->i", X, D), data.n_spheres + 1)
    sums[-1] = 0
    return sums[data.group][:, None] * X


def random_maxcut(n, density, seed):
    W = sparse.random_array((n, n), density=density, rng=np.random.default_rng(seed))
    W = sparse.triu(W, 1)
    return sparse.csr_array(W + W.T)


@pytest.mark.parametrize("seed", range(3))
def test_both_methods_agree_on_maxcut(seed):
    W = random_maxcut(60, 0.1, seed)
    L = sparse.csr_array(sparse.diags_array(np.asarray(W.sum(axis=1)).ravel()) - W) / 4
    problem = SDP(L, [[(i, i, 1.0)] for i in range(60)], np.ones(60), maximize=True)
    low, interior = (solve_sdp(problem, method=method) for method in ("low-rank", "interior"))
    assert low.success
    assert interior.success
    assert low.primal == pytest.approx(interior.primal, rel=2e-6)
    assert low.rank[0] < 20
    for result in (low, interior):
        assert low.primal <= result.dual + 1e-9
        assert result.gap <= 1e-6


def test_too_small_a_rank_grows():
    W = random_maxcut(60, 0.2, 5)
    L = sparse.csr_array(sparse.diags_array(np.asarray(W.sum(axis=1)).ravel()) - W) / 4
    problem = SDP(L, [[(i, i, 1.0)] for i in range(60)], np.ones(60), maximize=True)
    best = solve_sdp(problem, method="interior")
    found = solve_sdp(problem, rank=1, method="low-rank")
    assert found.success
    assert found.rank[0] > 1
    assert found.primal == pytest.approx(best.primal, rel=2e-6)


def test_inequalities_on_the_diagonal_are_spheres_too():
    rng = np.random.default_rng(4)
    Q = rng.standard_normal((20, 20))
    problem = SDP(Q + Q.T, [[(i, i, 1.0)] for i in range(20)], np.ones(20), senses=["<="] * 20, maximize=True)
    low, interior = (solve_sdp(problem, method=method) for method in ("low-rank", "interior"))
    assert len(Spheres(problem).rest) == 0
    assert low.success
    assert low.primal == pytest.approx(interior.primal, rel=2e-6)
    assert low.X[1].min() >= 0


def test_augmented_lagrangian_agrees_with_the_interior_method():
    A = planted_graph(30, 3, random_state=0)[0].toarray() != 0
    np.fill_diagonal(A, False)
    low, interior = (lovasz_theta(A.astype(float), method=method) for method in ("low-rank", "interior"))
    assert interior.result.success
    assert low.value == pytest.approx(interior.value, rel=1e-4)
    assert low.bound >= interior.value - 1e-6


def test_augmented_lagrangian_certifies_the_theta_of_a_sparse_graph():
    i, j = random_graph(200, 600, 1)
    graph = sparse.coo_array((np.ones(600), (i, j)), shape=(200, 200))
    low, interior = (lovasz_theta(graph + graph.T, method=method) for method in ("low-rank", "interior"))
    assert low.result.success, low.result.message
    assert low.result.gap <= 1e-6
    assert low.value == pytest.approx(interior.value, rel=1e-6)
    assert low.result.rank[0] < 40


@pytest.mark.parametrize("seed", range(3))
def test_theta_with_a_border_is_certified(seed):
    """Its trace is bounded, by a combination of the constraints that is positive definite and far from the identity."""
    problem = theta_bordered(60, 120, seed)
    low, interior = (solve_sdp(problem, method=method) for method in ("low-rank", "interior"))
    assert low.success, low.message
    assert low.gap <= 1e-6
    assert low.dual >= interior.primal * (1 - 1e-8)
    assert np.trace(low.X[0] @ low.X[0].T) <= Bounds(problem, np.random.default_rng(0)).trace


def test_a_trial_of_the_low_rank_method_before_the_other(monkeypatch):
    problem = theta_of(20)
    known = solve_sdp(problem)
    assert known.method == "interior"
    monkeypatch.setattr(solving, "_worth_a_trial", lambda problem: True)
    tried = solve_sdp(problem)
    assert tried.success
    assert tried.method == "low-rank"
    assert tried.primal == pytest.approx(known.primal, rel=2e-6)
    assert solve_sdp(problem, max_iter=3).status == "max_iter"
    assert solve_sdp(problem, max_time=1e-9).status == "max_time"
    monkeypatch.setattr(solving, "_TRIAL", 3)
    again = solve_sdp(problem)
    assert again.success
    assert again.method == "interior"
    assert again.primal == known.primal


def test_checkpoint_of_the_low_rank_method(tmp_path):
    W = random_maxcut(60, 0.2, 5)
    problem = SDP(W, [[(i, i, 1.0)] for i in range(60)], np.ones(60))
    whole = solve_sdp(problem, method="low-rank")
    path = tmp_path / "run.npz"
    assert solve_sdp(problem, method="low-rank", max_iter=4, checkpoint=path).status == "max_iter"
    again = solve_sdp(problem, method="low-rank", checkpoint=path)
    assert again.success
    assert again.primal == pytest.approx(whole.primal, rel=2e-6)


# -- front doors ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [5, 7, 9])
def test_theta_of_odd_cycles(n):
    cycle = np.roll(np.eye(n), 1, axis=0) + np.roll(np.eye(n), -1, axis=0)
    known = n * math.cos(math.pi / n) / (1 + math.cos(math.pi / n))
    found = lovasz_theta(cycle)
    assert found.value == pytest.approx(known, abs=1e-5)
    assert known - 1e-9 <= found.bound <= known + 1e-5


def test_theta_of_the_petersen_graph():
    networkx = pytest.importorskip("networkx")
    assert lovasz_theta(networkx.petersen_graph()).value == pytest.approx(4.0, abs=1e-5)


def test_maxcut_against_brute_force():
    rng = np.random.default_rng(0)
    for _ in range(4):
        W = np.triu(rng.integers(-2, 4, (9, 9)), 1).astype(float)
        W = W + W.T
        best = max(
            float((W * (1 - np.outer(s, s))).sum()) / 4 for s in map(np.array, itertools.product([-1, 1], repeat=9))
        )
        found = maxcut(W)
        assert found.value == pytest.approx(best)  # so small a graph is cut optimally
        assert found.bound >= best - 1e-9
        assert set(np.unique(found.cut)) <= {-1, 1}
        assert float((W * (1 - np.outer(found.cut, found.cut))).sum()) / 4 == pytest.approx(found.value)


@pytest.mark.parametrize(
    ("pairs", "distances", "more", "message"),
    [
        ([(0, 1), (1, 1)], [1.0, 0.0], {}, r"pairs\[1\] = \[1, 1\] joins a point to itself"),
        ([(0, 1)], [-1.0], {}, r"distances\[0\] = -1.0 is negative"),
        ([(0, 1)], [np.nan], {}, r"distances\[0\] is nan"),
        ([(0, 1)], [1.0], {"weights": [-2.0]}, r"weights\[0\] = -2.0 is negative"),
        ([(0, 1.5)], [1.0], {}, "integer"),
        ([(0, 3)], [1.0], {"n_points": 2}, "outside the 2 points"),
        ([(0, 1)], [1.0], {"dimension": 0}, "dimension must be at least 1"),
    ],
)
def test_localise_says_what_is_wrong_with_its_data(pairs, distances, more, message):
    with pytest.raises((ValueError, TypeError), match=message):
        localise(pairs, distances, **more)


def test_localisation():
    rng = np.random.default_rng(0)
    P = rng.uniform(size=(12, 2))
    pairs = np.array(list(itertools.combinations(range(12), 2)))
    d = np.linalg.norm(P[pairs[:, 0]] - P[pairs[:, 1]], axis=1)
    exact = localise(pairs, d)
    assert exact.dimension == 2
    found = np.linalg.norm(exact.points[pairs[:, 0]] - exact.points[pairs[:, 1]], axis=1)
    assert np.allclose(found, d, atol=1e-4)
    noisy = d * (1 + 0.1 * rng.standard_normal(len(d)))
    relaxed = localise(pairs, noisy)
    assert relaxed.bound <= float(np.abs(d**2 - noisy**2).sum()) + 1e-9  # the true places are one answer
    assert relaxed.misfit == pytest.approx(relaxed.bound, rel=1e-4)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_localise_in_any_unit_with_points_apart(unit):
    """Large lengths stalled, and so did points that no distance holds: they could be anywhere."""
    points = np.random.default_rng(0).random((8, 2)) * unit
    pairs = np.column_stack(np.triu_indices(8, 1))
    d = np.linalg.norm(points[pairs[:, 0]] - points[pairs[:, 1]], axis=1)
    found = localise(np.concatenate([pairs, pairs + 8]), np.concatenate([d, 3 * d]), n_points=18)
    assert found.result.success
    assert abs(found.bound) <= found.misfit + abs(found.bound) < 1e-6 * unit**2
    shape = found.points[pairs[:, 0]] - found.points[pairs[:, 1]]
    np.testing.assert_allclose(np.linalg.norm(shape, axis=1), d, atol=1e-3 * unit)
    np.testing.assert_allclose(found.points[16:], 0.0, atol=1e-3 * unit)


def test_a_row_that_one_vector_makes_zero():
    """⟨e₃e₃ᵀ, Y⟩ = 0 given as a vector: the row stands alone, and the constraint was lost."""
    A = [LowRank(np.eye(4)[3]), sparse.diags_array([1.0, 1.0, 1.0, 0.0])]
    for method in ("auto", "interior"):
        result = solve_sdp(SDP(np.pad(np.ones((3, 3)) + 2 * np.eye(3), (0, 1)), A, [0.0, 1.0]), method=method)
        assert result.success
        assert abs(result.X[0][3]).max() < 1e-3


@pytest.mark.parametrize(("entries", "values"), [([(0.5, 1)], [1.0]), ([(0, 1)], [np.nan])])
def test_entries_that_are_none_are_refused(entries, values):
    with pytest.raises(ValueError, match="whole numbers"):
        complete_matrix(entries, values, (2, 2))


def test_completion():
    rng = np.random.default_rng(1)
    M = np.outer(rng.standard_normal(12), rng.standard_normal(9))
    known = rng.random(M.shape) < 0.8
    found = complete_matrix(np.argwhere(known), M[known], M.shape, kind="nuclear")
    assert np.allclose(found.matrix, M, atol=1e-3)
    assert found.bound <= np.linalg.norm(M, "nuc") + 1e-6
    u = rng.standard_normal(6)
    Y = np.outer(u, u)
    places = np.argwhere(np.triu(np.ones((6, 6)))[:4] > 0)
    found = complete_matrix(places, Y[tuple(places.T)], (6, 6))
    assert np.allclose(found.matrix, Y, atol=1e-3)
    with pytest.raises(ValueError, match="kind"):
        complete_matrix(places, Y[tuple(places.T)], (6, 6), kind="rank")
    with pytest.raises(ValueError, match="outside"):
        complete_matrix([(0, 9)], [1.0], (6, 6))


# -- how the work is done ---------------------------------------------------------------------------------------------


def test_preconditioner_inverts_what_each_row_meets_of_itself():
    rng = np.random.default_rng(0)
    n, r, sigma = 8, 3, 0.7
    A = [[(0, 0, 2.0)], [(1, 1, 1.0), (2, 2, 3.0)]]  # spheres
    A += [[(0, j, 1.0), (j, j, -0.5)] for j in range(3, 8)] + [[(3, 4, 1.0), (1, 2, 2.0)]]  # row 0 is in five of them
    problem = SDP(np.eye(n), A, np.ones(len(A)))
    data = Spheres(problem)
    assert len(data.rest) == 6
    X = data.retract(rng.standard_normal((n, r)))
    shift = rng.uniform(0.5, 2.0, n)
    blocks = Blocks(data, Slots(data), X, shift, sigma)
    J = np.zeros((6, n, r))  # the constraints' derivatives
    for i, k in itertools.product(range(n), range(r)):
        D = np.zeros((n, r))
        D[i, k] = 1.0
        J[:, i, k] = data.S @ data.changes(X, D)[0]
    whole = np.array([shift[i] * np.eye(r) + sigma * J[:, i].T @ J[:, i] for i in range(n)])
    R = rng.standard_normal((n, r))
    Z = blocks.solve(R)
    assert abs(tangent_part(data, X, Z)).max() < 1e-12
    left = np.einsum("ijk,ik->ij", whole, Z) - R
    assert np.allclose(left, tangent_part(data, X, left))  # nothing is left along the spheres


def test_passes_give_the_same_bits_on_any_number_of_threads(monkeypatch):
    W = random_maxcut(80, 0.1, 0)
    problem = SDP(W, [[(i, i, 1.0)] for i in range(80)], np.ones(80))
    theta = theta_of(20)

    def solved():
        return solve_sdp(problem, max_iter=5).X[0], solve_sdp(theta, method="interior", max_iter=5).X[0]

    alone = solved()

    def in_three(work, n_pieces, multiplications):
        for first, last in itertools.pairwise([n_pieces * k // 3 for k in (3, 2, 1, 0)]):
            work(last, first)

    monkeypatch.setattr(passes, "spread", in_three)
    for one, several in zip(alone, solved(), strict=True):
        assert np.array_equal(one, several)


def theta_of(n):
    cycle = np.roll(np.eye(n), 1, axis=0) + np.roll(np.eye(n), -1, axis=0)
    edges = [[(i, j, 1.0)] for i, j in np.argwhere(np.triu(cycle))]
    return SDP(LowRank(np.ones(n)), [np.eye(n), *edges], np.r_[1.0, np.zeros(len(edges))], maximize=True)


@pytest.mark.parametrize("kind", ["own entries", "shared entries", "dense"])
def test_products_of_constraints(kind):
    """⟨A_k, X A_l W⟩ by sums over entries, however they are made."""
    rng = np.random.default_rng(1)
    n, m = 40, 12
    A = np.zeros((m, n, n))
    if kind == "own entries":
        for M, (i, j) in zip(A, itertools.combinations_with_replacement(range(n), 2), strict=False):
            M[i, j] = M[j, i] = rng.standard_normal()
    elif kind == "shared entries":
        places = [(0, 0), (0, 1), (1, 2), (3, 3), (2, 4), (5, 8)]
        for M in A:
            for k in rng.choice(len(places), 4, replace=False):
                i, j = places[k]
                M[i, j] = M[j, i] = rng.standard_normal()
    else:
        A = rng.standard_normal((m, n, n))
        A = A + A.transpose(0, 2, 1)
    problem = SDP(np.ones((n, n)), list(A), np.ones(m))
    data = _Scaled(problem, np.arange(m))
    (block,) = data.blocks
    assert (len(block.dense) > 0) == (kind == "dense")
    X, W = (Q @ Q.T for Q in rng.standard_normal((2, n, n)))
    known = np.array([[np.vdot(P, X @ Q @ W) for Q in A] for P in A]) / np.outer(data.norms, data.norms)
    assert np.allclose(np.triu(data.products([X], [W])), np.triu(known + known.T) / 2)


# -- large graphs -----------------------------------------------------------------------------------------------------


def random_cut(n, seed=0):
    i, j = random_graph(n, 3 * n, seed)
    W = sparse.coo_array((np.ones(len(i)), (i, j)), shape=(n, n))
    return sparse.csr_array(W + W.T)


def test_single_precision_certifies_a_large_graph_that_needs_more_columns():
    found = maxcut(random_cut(3000), tol=1e-4, n_roundings=1, dtype=np.float32, rank=12).result
    assert found.success
    assert found.gap <= 1e-4
    assert max(found.rank) > 12
    assert found.errors["dual_cone"] <= 1e-4


def test_negative_eigenvectors_are_repaired_where_they_live():
    n = 3000  # above the size that is formed
    rng = np.random.default_rng(0)
    path = sparse.diags_array([np.full(n - 1, -1.0), np.full(n, 2.01), np.full(n - 1, -1.0)], offsets=[-1, 0, 1])
    problem = SDP(sparse.csr_array(path), [[(i, i, 1.0)] for i in range(n)], np.ones(n))
    y = np.zeros(n)
    y[[700, 701, 2200]] = 0.1, 0.2, 0.3
    bounds = Bounds(problem, rng)
    before = bounds.at(y, 1e-2, n)
    assert before.lowest.value < -1e-2
    local = before.lowest.local
    assert (local >= 0).all()
    assert local[1200:1800].max() < 0.01 * local.max()  # far from either place
    repaired = bounds.at(y - local, 1e-2, n)
    assert repaired.value > before.value + 0.8 * n * 1e-2
    assert repaired.value <= float(y.sum()) - float(local.sum())
    Z = (path - sparse.diags_array(y - local)).toarray()
    assert repaired.lowest.bound <= np.linalg.eigvalsh(Z)[0]
