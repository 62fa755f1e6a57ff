"""Solvers on distance completion: trust region, nonlinear CG, Levenberg–Marquardt, beside those of the paper."""

from __future__ import annotations

import math

import numpy as np
import pytest

from quartic import Problem, minimize
from quartic.kernels import GramKernel
from quartic.losses import Distances, LeastSquares, Loss, RawStress
from quartic.losses.pairs import descent, placement
from quartic.losses.pairs import input as pairs_input
from quartic.losses.pairs import numba as passes
from quartic.losses.pairs.input import sort_pairs
from quartic.losses.pairs.loss import PairSquares
from quartic.losses.pairs.pairs import ENTRIES, Pairs
from quartic.penalties import Nonnegative, Ridge, Zero
from quartic.solvers import ConjugateGradient, LevenbergMarquardt, TrustRegion
from quartic.solvers.levenberg_marquardt import conjugate_gradients, direct, factorable
from quartic.solvers.trust_region import Horizontal

NEW = {
    "tr": TrustRegion(),
    "ncg-block": ConjugateGradient(),
    "ncg-gram": ConjugateGradient("gram"),
    "ncg-none": ConjugateGradient("none"),
    "lm": LevenbergMarquardt(),
    "lm-whole": LevenbergMarquardt(core=0),
    "lm-direct": LevenbergMarquardt(linear_solver="direct"),
}
FAST = {name: NEW[name] for name in ("tr", "ncg-block", "ncg-gram", "lm", "lm-whole")}


class Entries(PairSquares):
    """½ Σ w (⟨x_i, x_j⟩ − b)² over given entries, the diagonal among them: the other kind of pair."""

    smoothness = gradient_norm_at_zero = gradient_scale = value_at_zero = 1.0

    def __init__(self, n, entries, values, weights=None):
        super().__init__(sort_pairs(ENTRIES, entries, values, weights, n, diagonal=True))

    def random_start(self, rank, nonnegative, generator):
        return generator.standard_normal((self.n_points, rank))


def helix(n, seed=0):
    t = np.random.default_rng(seed).uniform(0, 2 * np.pi, n)
    return np.column_stack([np.cos(3 * t), np.sin(3 * t), 2 * t])


def known(points, share, seed=1):
    i, j = np.triu_indices(len(points), 1)
    keep = np.random.default_rng(seed).random(len(i)) < share
    chosen = np.column_stack([i[keep], j[keep]])
    return chosen, ((points[i[keep]] - points[j[keep]]) ** 2).sum(axis=1)


def distances(points, share, seed=1, **options):
    chosen, squared = known(points, share, seed)
    return Distances(chosen, squared, n_points=len(points), **options)


def rmse(X, points):
    """The normalised error over all distances, by brute force."""
    got = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))
    true = np.sqrt(((points[:, None] - points[None]) ** 2).sum(axis=2))
    off = ~np.eye(len(X), dtype=bool)
    return math.sqrt(np.mean((got - true)[off] ** 2) / np.mean(true[off] ** 2))


def small_losses(generator):
    chosen, squared = known(generator.standard_normal((9, 3)), 0.7)
    weights = generator.uniform(0.5, 2.0, len(chosen))
    i, j = np.triu_indices(7)
    entries = np.column_stack([i, j])[generator.random(len(i)) < 0.8]
    values, entry_weights = generator.standard_normal(len(entries)), generator.uniform(0.5, 2.0, len(entries))
    M = generator.standard_normal((8, 8))
    return {
        "distances": Distances(chosen, squared),
        "weighted distances": Distances(chosen, squared, weights=weights),
        "entries": Entries(7, entries, values),
        "weighted entries": Entries(7, entries, values, entry_weights),
        "least squares": LeastSquares(M + M.T),
    }


# each kind of pass once with the rank compiled in, once with the general code; more would be time spent compiling
KINDS = [
    ("distances", 3),
    ("weighted distances", 2),
    ("weighted distances", 6),
    ("entries", 1),
    ("weighted entries", 6),
]


def jacobian(loss, X):
    """The derivative of √w (q − b), dense, pair by pair."""
    i, j = loss.rows.astype(int), loss.cols.astype(int)
    J = np.zeros((loss.n_pairs, *X.shape))
    for p in range(loss.n_pairs):
        if loss.pairs.difference:
            J[p, i[p]] += 2 * (X[i[p]] - X[j[p]])
            J[p, j[p]] -= 2 * (X[i[p]] - X[j[p]])
        else:
            J[p, i[p]] += X[j[p]]
            J[p, j[p]] += X[i[p]]
        J[p] *= 1.0 if loss.weight is None else math.sqrt(loss.weight[p])
    return J.reshape(loss.n_pairs, -1)


# -- second derivatives ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "rank"), [*KINDS, ("least squares", 3)])
def test_hessian_product_is_the_derivative_of_the_gradient(name, rank):
    generator = np.random.default_rng(rank)
    loss = small_losses(generator)[name]
    X, D = generator.standard_normal((2, loss.n_points, rank))
    h = 1e-4
    # the gradient is a cubic on the line, of which this difference formula is exact up to round-off
    g = {k: loss.gradient(X + k * h * D) for k in (-2, -1, 1, 2)}
    numeric = (8 * (g[1] - g[-1]) - (g[2] - g[-2])) / (12 * h)
    before = loss.n_products
    H = loss.hessian_product(loss.at(X), D)
    assert loss.n_products == before + 2
    np.testing.assert_allclose(H, numeric, atol=1e-8 * np.abs(numeric).max())


def test_no_hessian_product_is_a_clear_error():
    class Bare(Entries):
        hessian_product = Loss.hessian_product

    loss = Bare(3, np.array([[0, 1]]), np.ones(1))
    with pytest.raises(TypeError, match="Bare offers no products with its second derivative"):
        loss.hessian_product(loss.at(np.ones((3, 1))), np.ones((3, 1)))


@pytest.mark.parametrize(("name", "rank"), KINDS)
def test_gauss_newton_passes_against_the_dense_jacobian(name, rank):
    generator = np.random.default_rng(rank)
    loss = small_losses(generator)[name]
    X, V = generator.standard_normal((2, loss.n_points, rank))
    J = jacobian(loss, X)
    N = J.T @ J
    p, packed = loss.linearize(X)
    assert p.value == pytest.approx(loss.value(X))
    np.testing.assert_allclose(p.gradient, loss.gradient(X), atol=1e-11)

    H = np.empty_like(V)
    loss.gauss_newton_product(p, V, H)
    np.testing.assert_allclose(H.ravel(), N @ V.ravel(), atol=1e-11 * np.abs(N).max())
    np.testing.assert_allclose(loss.gauss_newton_matrix(p).toarray(), N, atol=1e-11 * np.abs(N).max())

    i = np.arange(loss.n_points)
    blocks = N.reshape(loss.n_points, rank, loss.n_points, rank)[i, :, i, :]
    lower = np.tril_indices(rank)
    np.testing.assert_allclose(packed, blocks[:, lower[0], lower[1]], atol=1e-11 * np.abs(N).max())

    line = loss.along(p, V)
    np.testing.assert_allclose(loss.quartic(p, V), line.coefficients, rtol=1e-11)
    np.testing.assert_allclose(line.point(0.7).gradient, loss.gradient(X + 0.7 * V), atol=1e-9)


@pytest.mark.parametrize("rank", [3, 6])
def test_both_ways_solve_the_damped_equations(rank):
    generator = np.random.default_rng(rank)
    loss = distances(generator.standard_normal((30, rank)), 0.5)
    X = generator.standard_normal((30, rank))
    p, blocks = loss.linearize(X)
    J = jacobian(loss, X)
    expected = np.linalg.solve(J.T @ J + 0.1 * np.eye(X.size), -p.gradient.ravel()).reshape(X.shape)
    size = np.abs(expected).max()

    def product(V, out):
        loss.gauss_newton_product(p, V, out)

    found = conjugate_gradients(product, p.gradient, blocks, 0.1, 1e-13, 500)
    assert found[1]
    np.testing.assert_allclose(found[0], expected, atol=1e-9 * size)
    np.testing.assert_allclose(direct(loss, p, p.gradient, 0.1), expected, atol=1e-9 * size)
    assert not conjugate_gradients(product, p.gradient, blocks, 0.1, 1e-13, 2)[1]

    def negative(V, out):
        out[:] = -V

    D, _ = conjugate_gradients(negative, p.gradient, blocks, 0.1, 1e-13, 500)
    assert np.vdot(D, p.gradient) < 0


def test_horizontal_projection():
    generator = np.random.default_rng(0)
    X, Z = generator.standard_normal((2, 20, 4))
    project = Horizontal(X)
    H = project(Z)
    np.testing.assert_allclose(X.T @ H, H.T @ X, atol=1e-12)
    np.testing.assert_allclose(project(H), H, atol=1e-12)
    skew = generator.standard_normal((4, 4))
    np.testing.assert_allclose(project(X @ (skew - skew.T)), 0, atol=1e-12)  # mere rotations
    assert abs(np.vdot(Z - H, H)) < 1e-11
    X[:, 3] = X[:, 2] = 0.0
    assert np.isfinite(Horizontal(X)(Z)).all()


# -- solving --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("solver", ["dyn-nolips", "gd", "tr", "ncg", "lm"])
def test_helix_is_recovered_from_random_starts(solver, seed):
    points = helix(300)
    loss = distances(points, 0.25)
    kernel = GramKernel.for_loss(loss) if solver == "dyn-nolips" else None
    result = minimize(Problem(loss, kernel=kernel), rank=3, solver=solver, tol=1e-9, random_state=seed, max_iter=20_000)
    assert result.success, result.message
    assert rmse(result.X, points) < 1e-8


@pytest.mark.parametrize("name", NEW)
def test_goes_on_to_round_off(name):
    points = helix(250)
    result = minimize(Problem(distances(points, 0.5)), rank=3, solver=NEW[name], tol=0.0, random_state=3)
    assert result.success, result.message
    assert rmse(result.X, points) < 1e-12


@pytest.mark.parametrize("name", [*FAST, "ncg-none"])
def test_noise_does_not_stop_the_gradient_from_vanishing(name):
    """With a loss of order 1 at the answer, decreases far below its round-off must still be seen."""
    points = helix(150)
    chosen, squared = known(points, 0.8)
    noisy = squared * np.random.default_rng(0).normal(1, 0.1, len(squared)) ** 2
    result = minimize(Problem(Distances(chosen, noisy)), rank=3, solver=NEW[name], tol=0.0, random_state=3)
    assert result.success, result.message
    assert result.objective > 1.0
    # Gauss–Newton alone takes 605 iterations, of several products each; after a core a step is one product
    if name == "lm":
        assert result.n_products < 180
    if name == "lm-whole":
        assert result.n_iter < 100


def test_directions_are_conjugate():
    loss = distances(helix(250), 0.5)
    steps = {
        name: minimize(Problem(loss), rank=3, solver=NEW[name], tol=1e-8, random_state=0).n_iter
        for name in ("ncg-block", "ncg-gram", "ncg-none")
    }
    # preconditioned steepest descent takes 27, 119 and 1125
    assert steps["ncg-block"] < 26
    assert steps["ncg-gram"] < 75
    assert steps["ncg-none"] < 500


def test_carried_gradients_are_made_anew_now_and_then():
    loss = distances(helix(200), 0.6)
    result = minimize(Problem(loss), rank=3, solver=ConjugateGradient("none"), tol=1e-9, random_state=0)
    made = np.diff(result.history.n_products)
    assert set(made) == {1, 2}
    assert result.n_iter / 50 - 1 < (made == 2).sum() < result.n_iter / 10


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize(("rank", "weighted"), [(2, False), (2, True), (3, True), (5, False), (5, True)])
def test_ranks_and_weights(name, rank, weighted):
    points = np.random.default_rng(0).standard_normal((150, rank))
    chosen, squared = known(points, 0.8)
    weights = 1 / (squared + 0.1 * squared.mean()) if weighted else None
    loss = Distances(chosen, squared, weights=weights)
    result = minimize(Problem(loss), rank=rank, solver=FAST[name], tol=1e-11, random_state=1)
    assert result.success, result.message
    assert rmse(result.X, points) < 1e-8


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize("scale", [2.0**-20, 2.0**20])
def test_iterates_scale_with_the_data(name, scale):
    points = helix(150)
    chosen, squared = known(points, 0.8)
    X0 = np.random.default_rng(0).standard_normal(points.shape)
    runs = [
        minimize(Problem(Distances(chosen, squared * c * c)), X0 * c, solver=FAST[name], tol=1e-8) for c in (1.0, scale)
    ]
    assert runs[0].n_iter == runs[1].n_iter
    assert runs[0].n_products == runs[1].n_products
    np.testing.assert_allclose(runs[1].X / scale, runs[0].X, atol=1e-7)


@pytest.mark.parametrize("name", FAST)
def test_every_iteration_lowers_the_objective(name):
    loss = distances(helix(200), 0.6)
    history = minimize(Problem(loss), rank=3, solver=FAST[name], tol=1e-6, random_state=5).history
    assert (np.diff(history.objective) <= 1e-12 * history.objective[:-1]).all()


@pytest.mark.parametrize("name", FAST)
def test_float32(name):
    points = helix(150).astype(np.float32)
    chosen, squared = known(points, 0.8)
    result = minimize(Problem(Distances(chosen, squared.astype(np.float32))), rank=3, solver=FAST[name], random_state=0)
    assert result.X.dtype == np.float32
    assert result.success, result.message
    assert rmse(result.X.astype(np.float64), points.astype(np.float64)) < 1e-2


@pytest.mark.parametrize("name", FAST)
def test_ridge(name):
    points = helix(120)
    loss, weight = distances(points, 0.9), 50.0
    result = minimize(Problem(loss, Ridge(weight)), rank=3, solver=FAST[name], tol=1e-9, random_state=0)
    assert result.success, result.message
    np.testing.assert_allclose(loss.gradient(result.X) + weight * result.X, 0, atol=1e-7 * loss.gradient_norm_at_zero)
    assert np.linalg.norm(result.X) < 0.999 * np.linalg.norm(points - points.mean(axis=0))


@pytest.mark.parametrize("solver", ["tr", "ncg"])
def test_the_best_low_rank_approximation(solver):
    """½‖M − XXᵀ‖² is least at the r leading eigenpairs, whose error is known."""
    generator = np.random.default_rng(0)
    A = generator.standard_normal((60, 60))
    M = A @ A.T / 60
    values = np.linalg.eigvalsh(M)
    result = minimize(Problem(LeastSquares(M)), rank=4, solver=solver, tol=1e-9, random_state=0)
    assert result.success, result.message
    assert result.objective == pytest.approx(0.5 * float((values[:-4] ** 2).sum()), rel=1e-9)


def test_known_entries_are_completed_by_lm():
    generator = np.random.default_rng(0)
    truth = generator.standard_normal((60, 2))
    i, j = np.triu_indices(60)
    keep = generator.random(len(i)) < 0.5
    loss = Entries(60, np.column_stack([i, j])[keep], (truth @ truth.T)[i, j][keep])
    result = minimize(Problem(loss), rank=2, solver="lm", tol=1e-10, random_state=0)
    np.testing.assert_allclose(result.X @ result.X.T, truth @ truth.T, atol=1e-7)


def test_damped_steps_follow_a_loss_that_is_no_quartic_on_lines():
    class Halved(Distances):
        quadratic = False  # as a loss with bounds would say: no exact search, steps are halved instead

    points = helix(120)
    chosen, squared = known(points, 0.9)
    result = minimize(Problem(Halved(chosen, squared)), rank=3, solver="lm", tol=1e-10, random_state=0)
    assert result.success, result.message
    assert rmse(result.X, points) < 1e-8


# -- the core, the factorisation ------------------------------------------------------------------------------------


def test_core_is_the_same_problem_among_part_of_the_points():
    points = helix(400)
    chosen, squared = known(points, 0.5)
    few = chosen[:, 1] == 399
    keep = ~few | (np.cumsum(few) <= 7)  # the last point has seven pairs
    weights = np.arange(1.0, keep.sum() + 1)
    loss = Distances(chosen[keep], squared[keep], n_points=400, weights=weights)
    part, members = loss.core(60, 3)
    assert not members[399]
    assert part.n_points == members.sum()
    assert 50 < part.mean_degree() < 70
    assert part.gradient_norm_at_zero < loss.gradient_norm_at_zero
    number = np.flatnonzero(members)
    whole = {(i, j): row for i, j, *row in zip(loss.rows, loss.cols, loss.target, loss.weight, strict=True)}
    found = {
        (number[i], number[j]): row for i, j, *row in zip(part.rows, part.cols, part.target, part.weight, strict=True)
    }
    assert found == {pair: row for pair, row in whole.items() if members[pair[0]] and members[pair[1]]}
    assert loss.core(60, 40) is None  # no point has 82 pairs there


@pytest.mark.parametrize("kind", ["distances", "weighted distances", "entries"])
@pytest.mark.parametrize("rank", [2, 3, 6])
def test_points_are_placed_by_their_pairs_with_placed_ones(kind, rank):
    generator = np.random.default_rng(rank)
    points = generator.standard_normal((60, rank))
    placed = np.arange(60) < 30
    i, j = np.triu_indices(60, 1)
    some = (generator.random(len(i)) < 0.8) & ~((j == 59) & (i > 3))  # the last point has four pairs or fewer
    pairs_given, i, j = np.column_stack([i, j])[some], i[some], j[some]
    if kind == "entries":
        loss = Entries(60, pairs_given, (points[i] * points[j]).sum(axis=1))
    else:
        weights = generator.uniform(1, 2, len(i)) if kind != "distances" else None
        loss = Distances(pairs_given, ((points[i] - points[j]) ** 2).sum(axis=1), weights=weights)
    X, now = loss.place(np.where(placed[:, None], points + 5.0 * (kind != "entries"), np.nan), placed)
    assert now[:59].all()
    assert not now[59]
    gauge = 0.0 if kind == "entries" else points[placed].mean(axis=0)
    np.testing.assert_allclose(X[:59], (points - gauge)[:59], atol=1e-10)


def test_neighbours_in_a_plane_place_no_point_at_infinity():
    generator = np.random.default_rng(0)
    points = generator.standard_normal((30, 3))
    points[:29, 2] = 0.0
    pairs_given = np.column_stack([np.arange(29), np.full(29, 29)])
    loss = Distances(pairs_given, ((points[:29] - points[29]) ** 2).sum(axis=1))
    foot = (points[29] - points[:29].mean(axis=0)) * [1.0, 1.0, 0.0]
    for _ in range(8):
        turn = np.linalg.qr(generator.standard_normal((3, 3)))[0]
        X, _ = loss.place(points @ turn, np.arange(30) < 29)
        np.testing.assert_allclose(X[29] @ turn.T, foot, atol=1e-9)


@pytest.mark.parametrize("kind", ["distances", "entries"])
def test_placing_is_weighted_least_squares(kind):
    generator = np.random.default_rng(0)
    points, values, weights = generator.standard_normal((21, 3)), generator.uniform(1, 2, 20), generator.random(20)
    points[:20] -= points[:20].mean(axis=0)
    pairs_given = np.column_stack([np.arange(20), np.full(20, 20)])
    if kind == "distances":
        loss = Distances(pairs_given, values, weights=weights)
        rows = np.column_stack([-2 * points[:20], np.ones(20)])  # unknowns: x and ‖x‖²
        right = values - (points[:20] ** 2).sum(axis=1)
    else:
        loss = Entries(21, pairs_given, values, weights)
        rows, right = points[:20], values
    root = np.sqrt(weights)
    expected = np.linalg.lstsq(rows * root[:, None], right * root, rcond=None)[0][:3]
    X, _ = loss.place(points, np.arange(21) < 20)
    np.testing.assert_allclose(X[20], expected, atol=1e-10)


def test_a_misleading_core_is_forgotten():
    class Misleading(Distances):
        def place(self, X, placed):
            return X[::-1].copy(), placed | True

    points = helix(120)
    X0 = points + 1e-3 * np.random.default_rng(0).standard_normal(points.shape)
    loss = Misleading(*known(points, 0.9))
    result = minimize(Problem(loss), X0, solver=LevenbergMarquardt(core=30), tol=1e-9)
    assert result.history.objective[1] < 0.1 * result.history.objective[0]
    assert result.n_iter < 6
    assert rmse(result.X, points) < 1e-9


def test_a_graph_that_is_not_evenly_dense_is_solved_by_way_of_its_core():
    """Half of the points have few pairs: some are placed in a second round, some not at all."""
    points = helix(300)
    i, j = np.triu_indices(300, 1)
    generator = np.random.default_rng(0)
    sparse = generator.random(300) < 0.5
    keep = generator.random(len(i)) < np.where(sparse[i] & sparse[j], 0.02, np.where(sparse[i] | sparse[j], 0.2, 1.0))
    loss = Distances(np.column_stack([i, j])[keep], ((points[i] - points[j]) ** 2).sum(axis=1)[keep])
    result = minimize(Problem(loss), rank=3, solver=LevenbergMarquardt(core=40), tol=1e-10, random_state=0)
    assert result.success, result.message
    assert rmse(result.X, points) < 1e-8
    assert result.n_iter < 10  # all pairs, from the same start, take 20


def test_which_pairs_are_local():
    points = np.random.default_rng(0).random((800, 2))
    i, j = np.triu_indices(800, 1)
    squared = ((points[i] - points[j]) ** 2).sum(axis=1)
    for share in (0.01, 0.03, 0.3):
        near = squared < np.quantile(squared, share)
        drawn = np.random.default_rng(1).random(len(i)) < share
        for kept, local in ((near, share < 0.1), (drawn, False)):
            assert Distances(np.column_stack([i, j])[kept], squared[kept], 800).pairs.is_local() == local
    assert Distances([[0, 1], [2, 3]], [1.0, 1.0]).is_local()  # nothing to be seen


def test_random_pairs_without_a_core_begin_with_quasi_newton_steps():
    loss = distances(helix(1000), 0.045)
    X0 = loss.random_start(3, False, np.random.default_rng(0))
    made = {s: minimize(Problem(loss), X0, solver=s, tol=1e-9) for s in ("lm", "ncg")}
    assert made["lm"].n_products <= made["ncg"].n_products + 20
    state = LevenbergMarquardt().init(Problem(loss), made["lm"].X)
    assert state.turns == 0


def test_with_noise_a_step_after_the_core_takes_one_pass():
    generator = np.random.default_rng(0)
    points = generator.standard_normal((1000, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    chosen, squared = known(points, 0.1)
    loss = Distances(chosen, squared * generator.normal(1, 0.05, len(squared)) ** 2)
    result = minimize(Problem(loss), rank=3, solver="lm", tol=1e-8, random_state=0)
    assert result.success, result.message
    after_core = result.n_products - result.history.n_products[1]
    assert after_core <= result.n_iter + 2  # equations solved by conjugate gradients take several passes a step
    best = minimize(Problem(loss), points, solver="ncg", tol=1e-10)
    assert result.objective == pytest.approx(best.objective, rel=1e-9)


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_raw_stress_of_random_pairs_is_refined_in_a_pass_a_step(noise, tmp_path):
    generator = np.random.default_rng(0)
    points = generator.standard_normal((1000, 3))
    chosen, squared = known(points, 0.06)
    loss = RawStress(chosen, np.sqrt(squared) * abs(generator.normal(1, noise, len(squared))))
    X0, options = points + 0.2 * generator.standard_normal(points.shape), {"solver": "lm", "tol": 1e-9}
    result = minimize(Problem(loss), X0, **options)
    assert result.success, result.message
    assert result.n_products <= result.n_iter + 4  # damped steps take several passes each
    rival = minimize(Problem(loss), X0, solver="lbfgs", tol=1e-8)
    assert result.objective == pytest.approx(rival.objective, rel=1e-9, abs=1e-12)
    assert 2 * result.n_products < rival.n_products
    minimize(Problem(loss), X0, **options, max_iter=result.n_iter // 2, checkpoint=tmp_path / "run.npz")
    resumed = minimize(Problem(loss), X0, **options, checkpoint=tmp_path / "run.npz")
    np.testing.assert_array_equal(resumed.X, result.X)


@pytest.mark.parametrize("tol", [1e-6, 1e-13])
def test_raw_stress_of_near_points_is_refined_by_damped_steps(tol):
    generator = np.random.default_rng(0)
    points = generator.random((300, 2))
    pairs, squared = known(points, 1.0)
    pairs, squared = pairs[squared < 0.15**2], squared[squared < 0.15**2]
    d = np.sqrt(squared) * generator.normal(1, 0.02, len(pairs))
    X0 = points + 0.01 * generator.standard_normal(points.shape)
    result = minimize(Problem(RawStress(pairs, d)), X0, solver="lm", tol=tol)
    assert result.success, result.message
    best = minimize(Problem(RawStress(pairs, d)), X0, solver="lbfgs", tol=1e-10, max_iter=20_000)
    assert result.objective == pytest.approx(best.objective, rel=1e-8)


def test_lm_turns_to_sparse_factors_on_a_long_strip(monkeypatch):
    generator = np.random.default_rng(0)
    points = generator.random((500, 2)) * [1.0, 0.03]
    i, j = np.triu_indices(500, 1)
    squared = ((points[i] - points[j]) ** 2).sum(axis=1)
    near = squared < 0.012**2
    loss = Distances(np.column_stack([i, j])[near], squared[near])
    X0 = points + np.column_stack([np.zeros(500), 0.01 * np.sin(3 * points[:, 0])])
    calls = []
    original = LevenbergMarquardt.step.__globals__["direct"]
    monkeypatch.setitem(LevenbergMarquardt.step.__globals__, "direct", lambda *a: calls.append(1) or original(*a))
    result = minimize(Problem(loss), X0, solver=LevenbergMarquardt(max_cg=50), tol=1e-11, max_iter=60)
    assert result.success, result.message
    assert calls
    calls.clear()
    slow = minimize(Problem(loss), X0, solver=LevenbergMarquardt(max_cg=50, linear_solver="cg"), tol=1e-11, max_iter=60)
    assert not calls
    assert not slow.success


def test_factors_only_where_the_graph_is_local():
    generator = np.random.default_rng(0)
    line = np.column_stack([np.arange(3000), np.arange(1, 3001)])
    local = Distances(line, np.ones(3000))
    assert factorable(local, local.at(generator.standard_normal((3001, 2))))
    everywhere = Distances(generator.integers(0, 3000, (30_000, 2)) * 2 + [0, 1], np.ones(30_000))
    assert not factorable(everywhere, everywhere.at(generator.standard_normal((6000, 3))))


# -- bookkeeping ----------------------------------------------------------------------------------------------------


def arrays_in(given):
    """Yield the arrays among arguments, and in tuples of them."""
    for each in given if isinstance(given, tuple) else ():
        yield from [each] if isinstance(each, np.ndarray) else arrays_in(each)


@pytest.mark.parametrize("name", FAST)
def test_products_are_counted_truthfully(name, monkeypatch):
    loss = distances(helix(250), 0.6)
    visited = []

    def watch(module, function, count=lambda found: 1):
        original = getattr(module, function)

        def watched(*arguments):
            found = original(*arguments)
            lists = [a for a in arrays_in(arguments) if a.dtype == np.int32]
            length = len(lists[0] if lists else arguments[0])
            visited.extend([length] * count(found))
            return found

        monkeypatch.setattr(module, function, watched)

    watch(passes, "pair_rows")
    watch(Pairs, "degrees")
    watch(descent, "look")
    watch(descent, "take_steps", lambda found: found[3])
    watch(placement, "choose_core")
    watch(placement, "gather")
    result = minimize(Problem(loss), rank=3, solver=FAST[name], tol=1e-9, random_state=0)
    share = sum(visited) / loss.n_pairs
    assert result.n_products > 5
    if name == "lm":  # passes over the core count by their share, rounded up
        assert share < len(visited)
        assert share <= result.n_products < share + 1
    else:
        assert result.n_products == len(visited) == share


@pytest.mark.parametrize("name", FAST)
def test_resuming_gives_the_very_same_run(name, tmp_path):
    chosen, squared = known(helix(250), 0.6)
    noise = np.random.default_rng(3).normal(1, 1e-3, len(squared))  # exact distances are fitted in one iteration
    loss = Distances(chosen, squared * noise**2)
    options = {"rank": 3, "solver": FAST[name], "tol": 1e-10, "random_state": 2}
    whole = minimize(Problem(loss), **options)
    file = tmp_path / "run.npz"
    cut = max(whole.n_iter // 2, 1)
    minimize(Problem(loss), **options, max_iter=cut, checkpoint=file)
    resumed = minimize(Problem(loss), **options, checkpoint=file)
    assert whole.n_iter > 1
    assert resumed.n_iter == whole.n_iter
    np.testing.assert_array_equal(resumed.X, whole.X)


def test_requirements_say_what_is_missing():
    loss = distances(helix(20), 0.9)
    with pytest.raises(ValueError, match=r"'lm' needs a .*sum of squares over pairs.*LeastSquares"):
        minimize(Problem(LeastSquares(np.eye(3))), rank=2, solver="lm")
    for solver in ("lm", "ncg", "tr"):
        with pytest.raises(ValueError, match=r"smooth \(Zero, Ridge\), but the penalty is Nonnegative"):
            minimize(Problem(loss, Nonnegative()), rank=2, solver=solver)
    with pytest.raises(TypeError, match='take "gram"'):
        minimize(Problem(LeastSquares(np.eye(3))), rank=2, solver=ConjugateGradient("block"))

    class Odd(Zero.__mro__[1]):
        smooth = True
        value = prox = stationarity = None

    for solver in ("lm", "ncg", "tr"):
        with pytest.raises(ValueError, match=r"a penalty ½ρ‖X‖².*, but the penalty is Odd"):
            minimize(Problem(loss, Odd()), rank=2, solver=solver)
    with pytest.raises(ValueError, match=r"a method on_line.*but the penalty is Odd"):
        minimize(Problem(loss, Odd()), rank=2, solver="lbfgs")


@pytest.mark.parametrize(
    "make",
    [
        lambda: LevenbergMarquardt(linear_solver="qr"),
        lambda: LevenbergMarquardt(core=-1),
        lambda: LevenbergMarquardt(forcing=1.5),
        lambda: LevenbergMarquardt(max_cg=0),
        lambda: ConjugateGradient("diagonal"),
    ],
)
def test_bad_settings(make):
    with pytest.raises(ValueError, match="must be"):
        make()


# -- set-up ---------------------------------------------------------------------------------------------------------


def test_pairs_in_any_order_give_the_same_loss(monkeypatch):
    points = helix(80)
    chosen, squared = known(points, 0.5)
    weights = np.random.default_rng(0).uniform(1, 2, len(squared))
    whole = Distances(chosen, squared, weights=weights)
    for seed in range(3):
        generator = np.random.default_rng(seed)
        order = generator.permutation(len(chosen))
        turned = chosen[order]
        flip = generator.random(len(turned)) < 0.5
        turned[flip] = turned[flip, ::-1]
        for repeated in (0, 9):
            if not repeated:  # the slow way is for repeated pairs only
                monkeypatch.setattr(pairs_input, "each_once", None)
            rows = np.append(np.arange(len(order)), np.arange(repeated))
            other = Distances(turned[rows], squared[order][rows], weights=weights[order][rows])
            monkeypatch.undo()
            for name in ("start", "cols", "target", "weight"):
                np.testing.assert_array_equal(getattr(other.pairs, name), getattr(whole.pairs, name))
    squared_before = squared.copy()
    kept = Distances(chosen, squared)
    squared *= 2  # the caller's array is the caller's
    np.testing.assert_array_equal(kept.target, squared_before)
