"""By way of a core, and what it is made of: row blocks, descent in one call."""

from __future__ import annotations

import numpy as np
import pytest

from quartic import Problem, minimize
from quartic.compiled.quartics import minimize_quartic
from quartic.losses import Distances
from quartic.losses.pairs import descent
from quartic.losses.pairs import numba as passes
from quartic.losses.pairs.loss import PairSquares, next_damping, residual
from quartic.metrics import normalized_rmse
from quartic.solvers import LevenbergMarquardt, core
from quartic.solvers.core import by_way_of_core, widened

ROUND_OFF = 64 * float(np.finfo(float).eps)


def some_pairs(n, degree, generator):
    i, j = np.triu_indices(n, 1)
    return np.column_stack([i, j])[generator.random(len(i)) < degree / (n - 1)]


def from_points(X, degree, generator, **options):
    pairs = some_pairs(len(X), degree, generator)
    squared = ((X[pairs[:, 0]] - X[pairs[:, 1]]) ** 2).sum(axis=1)
    return Distances(pairs, squared, n_points=len(X), **options)


def corner(n, generator):
    """Points of an L, which random starts of few pairs get wrong."""
    X = generator.random((4 * n, 2))
    return X[(X < 0.3).any(axis=1)][:n]


# -- row blocks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [1, 3, 4, 6])
def test_row_blocks_are_solved(rank):
    generator = np.random.default_rng(rank)
    A = generator.standard_normal((9, 2 * rank, rank))
    A[0] = 0.0
    A[1, :, -1] = 0.0  # a direction without curvature
    full = np.einsum("nik,nil->nkl", A, A)
    rows, columns = np.tril_indices(rank)
    B, R = full[:, rows, columns], generator.standard_normal((9, rank))
    Z = np.empty_like(R)
    rz = descent.solve_blocks(descent.factor_blocks(B, 0.0, rank), R, Z)
    np.testing.assert_array_equal(Z[0], 0.0)
    assert Z[1, -1] == 0.0
    np.testing.assert_allclose(np.einsum("nkl,nl->nk", full, Z)[2:], R[2:], atol=1e-9)
    assert rz == pytest.approx(np.sum(R * Z))
    M, S = descent.factor_blocks(B, 0.5, rank), full + 0.5 * np.eye(rank)
    P, H, D = generator.standard_normal((3, 9, rank))
    Z, before = np.linalg.solve(S, R[:, :, None])[:, :, 0], [P.copy(), H.copy(), D.copy(), R.copy()]
    H[:] = before[1] = np.einsum("nkl,nl->nk", full, P)
    rz = float(np.sum(R * Z))
    curvature, after = descent.advance(rz, 0.5, P, H, M, D, R, Z)
    shifted = before[1] + 0.5 * before[0]
    assert curvature == pytest.approx(np.sum(before[0] * shifted))
    a = rz / curvature
    np.testing.assert_allclose(D, before[2] + a * before[0])
    np.testing.assert_allclose(R, before[3] - a * shifted)
    np.testing.assert_allclose(Z, np.linalg.solve(S, R[:, :, None])[:, :, 0])
    assert after == pytest.approx(np.sum(R * Z))
    np.testing.assert_allclose(P, Z + after / rz * before[0])
    unchanged = D.copy(), R.copy()
    curvature, same = descent.advance(rz, 0.0, P, -P, M, D, R, Z)
    assert curvature < 0
    assert same == rz
    np.testing.assert_array_equal(D, unchanged[0])
    np.testing.assert_array_equal(R, unchanged[1])


# -- the descent ------------------------------------------------------------------------------------------------------


def test_where_a_quartic_stops_falling():
    generator = np.random.default_rng(0)
    for _ in range(200):
        c = generator.standard_normal(4) * 10.0 ** generator.uniform(-3, 3, 4)
        c[0], c[3] = -abs(c[0]), abs(c[3])
        t, lowest = (minimize_quartic(tuple(c), ROUND_OFF, np.inf, far) for far in (False, True))
        derivative = np.polynomial.Polynomial(c * [1, 2, 3, 4])
        scale = np.abs(c * [1, 2, 3, 4]) @ t ** np.arange(4)
        assert t > 0
        assert abs(derivative(t)) <= 1e-9 * scale
        assert derivative.deriv()(t) >= -1e-6 * scale / t
        assert (derivative(np.linspace(0, 0.999, 50) * t) <= 1e-9 * scale).all()
        value = np.polynomial.Polynomial([0.0, *c])
        assert value(lowest) <= value(t)
    second_lower, first_lower = (-3.75, 3.875, -5 / 3, 0.25), (-5.0, 4.75, -5.5 / 3, 0.25)  # minima at 1 and 2.5
    found = [minimize_quartic(c, ROUND_OFF, np.inf, far) for c in (second_lower, first_lower) for far in (False, True)]
    np.testing.assert_allclose(found, [1.0, 2.5, 1.0, 1.0], rtol=1e-12)
    assert minimize_quartic((1.0, -1.0, 0.0, 1.0), ROUND_OFF, np.inf, False) == 0.0
    assert minimize_quartic((-1.0, 0.0, 0.0, 0.0), ROUND_OFF, np.inf, False) == np.inf


@pytest.mark.parametrize("power", [0, -280, -90, 90, 280])
def test_the_least_of_a_quartic_is_that_of_all_roots_of_its_slope(power):
    generator = np.random.default_rng(power % 7)
    for _ in range(400):
        c = generator.standard_normal(4) * 10.0 ** generator.uniform(-4, 4, 4)
        c *= generator.random(4) > 0.15
        upper = 10.0 ** generator.uniform(-2, 2) if generator.random() < 0.7 else np.inf
        if c[3] <= 0 or generator.random() < 0.3:
            upper = min(upper, 50.0)
        value = np.polynomial.Polynomial([0.0, *c])
        t = minimize_quartic(tuple(c * 10.0**power), ROUND_OFF, upper, True)
        roots = value.deriv().roots() if c.any() else np.empty(0)
        roots = roots[abs(roots.imag) < 1e-7 * abs(roots)].real
        candidates = [0.0, *roots[(roots > 0) & (roots < upper)], *([upper] if upper < np.inf else [])]
        t_scale = np.abs(c) @ np.maximum(t, 1e-300) ** np.arange(1, 5)
        assert 0 <= t <= upper
        assert value(t) <= min(value(np.array(candidates))) + 1e-13 * t_scale


@pytest.mark.parametrize("length", [1e-60, 1e-9, 1e9, 1e60])
def test_the_least_of_a_quartic_on_lines_of_any_length(length):
    for c in [
        (-1.0, 1.0, 0.0, 0.0),
        (-3.75, 3.875, -5 / 3, 0.25),
        (-1.0, 0.0, 0.0, 1e-20),
        (-1.0, 0.5, -1e-17, -1e-17),
    ]:
        t = minimize_quartic(tuple(np.array(c) / length ** np.arange(1, 5)), ROUND_OFF, np.inf, True)
        assert t / length == pytest.approx(minimize_quartic(c, ROUND_OFF, np.inf, True), rel=1e-12)


def test_rules_of_damping():
    assert next_damping(1.0, 0.9) == 0.2
    assert next_damping(1.0, 0.5) == 1.0
    assert next_damping(1.0, 0.1) == 3.0
    assert next_damping(1e-13, 0.9) == 1e-13
    assert residual(0.3, 1.0, np.inf) == 0.3
    assert residual(0.3, 0.1, 1.0) == 0.1
    assert residual(0.3, 1e-9, 1.0) == 1e-3


@pytest.mark.parametrize("weighted", [False, True])
def test_one_call_makes_the_steps_of_the_solver(weighted, monkeypatch):
    generator = np.random.default_rng(0)
    X = generator.standard_normal((400, 3)) * [1.0, 0.5, 2.0]
    pairs = some_pairs(400, 80, generator)
    weights = generator.uniform(0.5, 2, len(pairs)) if weighted else None
    loss = Distances(pairs, ((X[pairs[:, 0]] - X[pairs[:, 1]]) ** 2).sum(axis=1), n_points=400, weights=weights)
    found = []
    for offered in (True, False):
        if not offered:
            monkeypatch.setattr(PairSquares, "is_small", lambda self, X: False)
        found.append(minimize(Problem(loss), rank=3, solver="lm", tol=1e-10, random_state=1))
    assert all(result.success for result in found)
    assert [normalized_rmse(result.X, X) < 1e-8 for result in found] == [True, True]
    # the same steps but for round-off, which a random start makes larger: as many passes, or nearly
    assert abs(found[0].n_products - found[1].n_products) <= 2
    assert found[0].n_iter == found[1].n_iter


@pytest.mark.parametrize("rank", [*range(1, 10), 33])
def test_row_blocks_and_the_equations_are_those_of_the_jacobian(rank):
    generator = np.random.default_rng(rank)
    X = generator.standard_normal((30, rank))
    loss = from_points(X + 0.1 * generator.standard_normal(X.shape), 8, generator)
    p, B = loss.linearize(X)
    A = loss.gauss_newton_matrix(p).toarray().reshape(30, rank, 30, rank)
    rows, columns = np.tril_indices(rank)
    np.testing.assert_allclose(B, [A[i, rows, i, columns] for i in range(30)], rtol=1e-12, atol=1e-12)
    assert loss.is_small(X) == (rank <= 32)
    if rank > 32:
        return
    run, before = loss.descent(X, 1e-12, 1000, 1e-3), loss.n_products
    run.take(float(p.value), p.gradient, B, 1.0)
    known = run.value, run.slope
    run.look()
    np.testing.assert_allclose((run.value, run.slope), known, rtol=1e-13)
    A = A.reshape(30 * rank, -1)
    np.testing.assert_allclose(run.mean, np.trace(A) / (30 * rank), rtol=1e-12)
    np.testing.assert_allclose(run.blocks, B, rtol=1e-13, atol=1e-12)
    run.damping = 0.3 / run.mean
    ((value, slope, t, n_passes),), *_ = run.go(1, 0.0)
    assert run.slow == 0
    steps = n_passes - 2  # one pass is for the line, one for the point
    assert loss.n_products - before == n_passes + 1
    assert 1 < steps < 1000
    wanted = t * np.linalg.solve(A + 0.3 * np.eye(30 * rank), -p.gradient.ravel()).reshape(X.shape)
    np.testing.assert_allclose(run.X - X, wanted, atol=1e-8 * np.abs(wanted).max())
    np.testing.assert_allclose((value, slope), (loss.value(run.X), np.linalg.norm(loss.gradient(run.X))), rtol=1e-12)
    fewer = loss.descent(X, 1e-12, steps - 1, 1e-3)
    fewer.look()
    fewer.damping = 0.3 / fewer.mean
    fewer.go(1, 0.0)
    assert fewer.slow == 1


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_steps_made_together_are_those_made_one_by_one(noise):
    generator = np.random.default_rng(3)
    exact = from_points(generator.standard_normal((60, 3)), 14, generator)
    squared = exact.target * abs(1 + noise * generator.standard_normal(exact.n_pairs))
    problem = Problem(Distances(np.column_stack([exact.rows, exact.cols]), squared, n_points=60))
    start = generator.standard_normal((60, 3))
    together, watched = (
        minimize(problem, start, solver="lm", tol=1e-11, callback=callback) for callback in (None, lambda seen: None)
    )
    assert together.n_iter > 5
    np.testing.assert_array_equal(together.X, watched.X)
    for name in ("objective", "n_products", "step"):
        np.testing.assert_array_equal(getattr(together.history, name), getattr(watched.history, name))
    # squares are summed in another order
    np.testing.assert_allclose(together.history.stationarity, watched.history.stationarity, rtol=1e-14)
    solver, target = LevenbergMarquardt(), 1e-11 * np.linalg.norm(problem.loss.at(start).gradient)
    state = solver.init(problem, start)
    while not problem.stationarity(state.point) <= target:
        state = solver.step(problem, state)
    np.testing.assert_allclose(state.point.value, together.objective, rtol=1e-9, atol=1e-16)


def test_a_descent_ends_where_it_is_told_to():
    generator = np.random.default_rng(0)
    X = generator.standard_normal((40, 3))
    loss = from_points(X, 12, generator)

    def descend(start=0.9 * X, target=0.0, axes=0, most=50):
        before = loss.n_products
        run = loss.descent(start, 0.1, 50, 1e-3)
        run.look()
        made, little, failed = run.go(most, target, axes)
        assert run.value == pytest.approx(loss.value(run.X), rel=1e-6, abs=1e-20)
        return run, made, little, failed, loss.n_products - before - 1

    run, *_, n_passes = descend(most=0)
    np.testing.assert_array_equal(run.X, 0.9 * X)
    assert (run.damping, n_passes) == (1e-3, 1)
    assert not descend(target=1e9)[1]  # the gradient is small enough
    assert descend(axes=2)[1]
    assert not descend(0.9 * X * [1.0, 1.0, 0.1], axes=2)[1]  # flat enough
    noisy = Distances(np.column_stack([loss.rows, loss.cols]), loss.target * generator.uniform(0.9, 1.1, loss.n_pairs))
    left = noisy.descent(0.9 * X, 0.1, 50, 1e-3)
    left.look()
    made, little, failed = left.go(50, 0.0)
    assert (little, failed) == (True, False)  # noise is left
    assert made[-1][0] > 0.99 * made[-2][0]
    assert made[-2][0] <= 0.99 * made[-3][0]
    best, made, _, failed, _ = descend()
    values = [value for value, *_ in made]
    assert values == sorted(values, reverse=True)
    Y = best.X
    np.testing.assert_allclose(np.linalg.norm(Y[0] - Y[1]), np.linalg.norm(X[0] - X[1]), rtol=1e-6)


def test_a_step_that_fails_leaves_the_points_where_they_were():
    generator = np.random.default_rng(0)
    X = generator.standard_normal((40, 3))
    loss = from_points(X, 12, generator)
    run = loss.descent(X, 0.1, 50, 1e-3)
    run.look()
    while True:
        before = run.X
        made, _, failed = run.go(1, 0.0)
        if failed:
            break
        assert made
    assert not made
    np.testing.assert_array_equal(run.X, before)


def test_one_descent_is_compiled_for_all_ranks_of_a_vector():
    generator = np.random.default_rng(0)
    compiled, counts = (passes.pair_rows, descent.take_steps, descent.look), []
    for rank in (4, 3):
        X = generator.standard_normal((30, rank))
        run = from_points(X, 8, generator).descent(0.9 * X, 0.1, 50, 1e-3)
        run.look()
        assert run.go(3, 0.0)[0]
        counts.append([len(f.signatures) for f in compiled])
    assert counts[0] == counts[1]


# -- one column wider -------------------------------------------------------------------------------------------------


SETTINGS = 0.3, 200, 1e-2


def test_the_added_column_is_as_large_as_makes_the_loss_least():
    generator = np.random.default_rng(0)
    X = generator.standard_normal((60, 2))
    loss = from_points(X, 20, generator)
    p = loss.at(0.5 * generator.standard_normal((60, 2)))
    wide = widened(loss, p.X)
    np.testing.assert_array_equal(wide[:, :2], p.X)
    least = loss.value(wide)
    assert least < 0.9 * p.value
    for t in (0.97, 1.03):
        assert loss.value(wide * [1, 1, t]) > least
    assert widened(loss, 3 * X) is None  # points too far apart: another dimension makes it worse
    near = widened(loss, X + 1e-8 * generator.standard_normal(X.shape))
    assert near is None or np.abs(near[:, 2]).max() < 1e-3


def test_a_core_of_few_pairs_is_solved_one_column_wider(monkeypatch):
    def solved():
        right = 0
        for seed in range(12):
            generator = np.random.default_rng(seed)
            X = corner(600, generator)
            loss = from_points(X, 60, generator)
            X0 = loss.random_start(2, False, generator)
            found, *_ = by_way_of_core(loss, X0, 24, SETTINGS)
            right += normalized_rmse(found, X) < 1e-6
        return right

    assert solved() >= 10
    monkeypatch.setattr(core, "widened", lambda loss, X: None)
    assert solved() <= 7


def test_noise_leaves_the_core_and_is_fitted():
    generator = np.random.default_rng(0)
    X = generator.random((500, 3))
    pairs = some_pairs(500, 100, generator)
    d = np.linalg.norm(X[pairs[:, 0]] - X[pairs[:, 1]], axis=1) * (1 + 0.02 * generator.standard_normal(len(pairs)))
    loss = Distances(pairs, d**2, n_points=500)
    ways = [minimize(Problem(loss), rank=3, solver=s, tol=1e-8, random_state=0) for s in ("lm", "lbfgs")]
    assert ways[0].success
    assert ways[0].objective <= ways[1].objective * (1 + 1e-9)
    assert normalized_rmse(ways[0].X, X) < 0.01


def test_a_good_start_is_kept():
    generator = np.random.default_rng(0)
    X = generator.random((400, 3))
    loss = from_points(X, 80, generator)
    X0 = X + 1e-4 * generator.standard_normal(X.shape)
    found, *_ = by_way_of_core(loss, X0, 24, SETTINGS)
    assert normalized_rmse(found, X) < 1e-6
    assert loss.n_products < 10


def test_a_random_start_has_the_scale_of_the_data():
    generator = np.random.default_rng(0)
    X = generator.random((800, 3)) * [1.0, 2.0, 0.1] + 7.0
    pairs = some_pairs(800, 100, generator)
    weights = generator.uniform(0, 3, len(pairs))
    loss = Distances(pairs, ((X[pairs[:, 0]] - X[pairs[:, 1]]) ** 2).sum(axis=1), n_points=800, weights=weights)
    before = loss.n_products
    start = loss.random_start(3, False, np.random.default_rng(1))
    assert loss.n_products - before <= 1  # the sums that every run needs
    np.testing.assert_allclose(loss.best_scale(start), start, rtol=0.02)
