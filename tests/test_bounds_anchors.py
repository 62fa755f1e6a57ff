"""Losses with bounds, raw stress and anchors: against brute force, and solved by every solver that fits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quartic import Problem, minimize
from quartic.datasets import sensor_field
from quartic.kernels import GramKernel, NormKernel
from quartic.losses import Anchored, BoundedDistances, Distances, RawStress
from quartic.losses.pairs.pairs import ROOTS
from strategies import seeds, some_pairs

KINDS = ("bounds", "exact", "half open", "stress", "stress with bounds")


def make(kind, seed, n=12):
    rng = np.random.default_rng(seed)
    pairs = some_pairs(seed, n)
    d = rng.random(len(pairs)) + 0.3
    weights = rng.random(len(pairs)) + 0.1
    if kind == "bounds":
        return BoundedDistances(pairs, (0.8 * d) ** 2, (1.2 * d) ** 2, n, weights)
    if kind == "exact":
        return BoundedDistances(pairs, d**2, d**2, n)
    if kind == "half open":
        return BoundedDistances(pairs, np.where(d < 0.8, 0.0, d**2), np.where(d < 0.8, d**2, np.inf), n)
    if kind == "stress":
        return RawStress(pairs, d, n_points=n, weights=weights)
    return RawStress(pairs, 0.9 * d, 1.1 * d, n_points=n)


def brute(loss, X):
    total = 0.0
    weights = np.ones(loss.n_pairs) if loss.weight is None else loss.weight
    for i, j, low, high, w in zip(loss.rows, loss.cols, loss.target, loss.upper, weights, strict=True):
        s = np.sum((X[i] - X[j]) ** 2)
        s = np.sqrt(s) if (loss.pairs.kind == ROOTS) else s
        total += 0.5 * w * (max(0.0, s - high) ** 2 + max(0.0, low - s) ** 2)
    return total


kinds = pytest.mark.parametrize("kind", KINDS)


@kinds
@given(seed=seeds)
def test_value_and_gradient(kind, seed):
    loss, rng = make(kind, seed), np.random.default_rng(seed)
    X, D = rng.standard_normal((12, 3)), rng.standard_normal((12, 3))
    assert loss.value(X) == pytest.approx(brute(loss, X), rel=1e-12)
    h = 1e-6
    slope = (brute(loss, X + h * D) - brute(loss, X - h * D)) / (2 * h)
    # central differences err by h² times a third derivative, and by a jump of the second one at a bound
    assert np.sum(loss.gradient(X) * D) == pytest.approx(slope, rel=1e-5, abs=1e-4)


@kinds
@given(seed=seeds, size=st.sampled_from([1.0, 1e-3]))
def test_remainder_is_the_difference(kind, seed, size):
    loss, rng = make(kind, seed), np.random.default_rng(seed)
    X = rng.standard_normal((12, 3))
    Y = X + size * rng.standard_normal(X.shape)
    p = loss.at(X)
    expected = brute(loss, Y) - brute(loss, X) - np.sum(p.gradient * (Y - X))
    scale = max(brute(loss, X), brute(loss, Y), np.sum(np.abs(p.gradient * (Y - X))))
    assert loss.move(p, Y).remainder == pytest.approx(expected, abs=1e-13 * scale)


@pytest.mark.parametrize("kind", ["bounds", "exact", "stress"])
def test_remainder_keeps_its_digits(kind):
    """For a tiny step the remainder is half the curvature; subtraction would leave nothing of it."""
    loss, rng = make(kind, 3), np.random.default_rng(0)
    X, D = rng.standard_normal((12, 3)), rng.standard_normal((12, 3))
    p = loss.at(X)
    small, smaller = (loss.move(p, X + t * D).remainder / t**2 for t in (1e-5, 1e-8))
    assert smaller == pytest.approx(small, rel=1e-3)


@kinds
def test_gauss_newton_agrees_with_itself_and_with_differences(kind):
    loss, rng = make(kind, 5), np.random.default_rng(1)
    X, V = rng.standard_normal((12, 2)), rng.standard_normal((12, 2))
    p, blocks = loss.linearize(X)
    A = loss.gauss_newton_matrix(p).toarray()
    out = np.empty_like(V)
    loss.gauss_newton_product(p, V, out)
    np.testing.assert_allclose(A @ V.ravel(), out.ravel(), atol=1e-12 * np.abs(A).max())
    for i in range(12):
        B = A[2 * i : 2 * i + 2, 2 * i : 2 * i + 2]
        np.testing.assert_allclose(blocks[i], [B[0, 0], B[1, 0], B[1, 1]], atol=1e-12 * np.abs(A).max())
    # J itself by differences of the residuals
    weights = np.ones(loss.n_pairs) if loss.weight is None else loss.weight

    def residuals(Y):
        q = np.sum((Y[loss.rows] - Y[loss.cols]) ** 2, axis=1)
        s = np.sqrt(q) if (loss.pairs.kind == ROOTS) else q
        return np.sqrt(weights) * (s - np.clip(s, loss.target, loss.upper))

    h = 1e-6
    Jv = (residuals(X + h * V) - residuals(X - h * V)) / (2 * h)
    assert np.sum(out * V) == pytest.approx(Jv @ Jv, rel=1e-6)


def test_exact_bounds_are_distances():
    loss = make("exact", 7)
    same = Distances(np.column_stack([loss.rows, loss.cols]), loss.target, 12)
    X = np.random.default_rng(0).standard_normal((12, 3))
    assert loss.value(X) == pytest.approx(same.value(X), rel=1e-13)
    np.testing.assert_allclose(loss.gradient(X), same.gradient(X), rtol=1e-12)
    assert loss.smoothness == same.smoothness


@pytest.mark.parametrize("solver", ["lm", "gd", "dyn-nolips", "inertial"])
def test_bounds_are_met_by_every_solver_that_fits(solver):
    field = sensor_field(40, 12, random_state=0)
    loss = BoundedDistances(field.pairs, (0.95 * field.distances) ** 2, (1.05 * field.distances) ** 2, 40)
    start = field.coordinates + 0.05 * np.random.default_rng(0).standard_normal((40, 2))
    result = minimize(Problem(loss), start, solver=solver, tol=1e-3, max_iter=20_000)
    assert result.success
    assert result.stationarity <= 1e-3 * np.linalg.norm(loss.gradient(start))
    assert (np.diff(result.history.objective) <= 1e-12).all() or solver == "inertial"


@pytest.mark.parametrize("solver", ["ncg", "tr"])
def test_solvers_that_need_a_quartic_refuse_bounds(solver):
    with pytest.raises(ValueError, match="quartic on lines"):
        minimize(Problem(make("bounds", 0)), rank=2, solver=solver)


def test_bad_bounds():
    with pytest.raises(ValueError, match=r"lower\[1\] = 3.0 is above upper\[1\] = 2.0"):
        BoundedDistances([[0, 1], [1, 2]], [1.0, 3.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="negative"):
        BoundedDistances([[0, 1]], [-1.0], [2.0])


# -- anchors --------------------------------------------------------------------------------------------------------


@pytest.fixture
def held():
    field = sensor_field(40, 14, random_state=1)
    whole = Distances(field.pairs, field.distances**2, 40)
    return Anchored(whole, [3, 7, 20, 33], field.coordinates[[3, 7, 20, 33]]), field.coordinates


def test_anchored_is_the_whole_loss_seen_from_the_free_points(held):
    loss, _ = held
    rng = np.random.default_rng(0)
    X, D = rng.standard_normal((36, 2)), rng.standard_normal((36, 2))
    p = loss.at(X)
    np.testing.assert_array_equal(loss.fill(X)[loss.anchors], loss.places)
    assert p.value == loss.whole.value(loss.fill(X))
    np.testing.assert_array_equal(p.gradient, loss.whole.gradient(loss.fill(X))[loss.free])
    line = loss.along(p, D)
    np.testing.assert_allclose(line.coefficients, loss.quartic(p, D), rtol=1e-12)
    for t in (0.3, 1.7):
        assert line(t) == pytest.approx(loss.value(X + t * D), rel=1e-10)
        np.testing.assert_allclose(line.point(t).gradient, loss.gradient(X + t * D), rtol=1e-9)
        np.testing.assert_allclose(line.point(t).X, X + t * D)
    h = 1e-6
    H = (loss.gradient(X + h * D) - loss.gradient(X - h * D)) / (2 * h)
    np.testing.assert_allclose(loss.hessian_product(p, D), H, rtol=1e-5, atol=1e-5)
    A, out = loss.gauss_newton_matrix(p), np.empty_like(D)
    loss.gauss_newton_product(p, D, out)
    np.testing.assert_allclose(A @ D.ravel(), out.ravel(), rtol=1e-10)


@pytest.mark.parametrize("solver", ["lm", "ncg", "lbfgs", "gd", "dyn-nolips"])
def test_anchors_with_every_solver(held, solver):
    loss, truth = held
    start = truth[loss.free] + 0.02 * np.random.default_rng(0).standard_normal((36, 2))
    result = minimize(Problem(loss), start, solver=solver, tol=1e-3, max_iter=20_000)
    assert result.success
    assert result.objective < 1e-3 * loss.value(start)
    if solver in ("lm", "ncg", "lbfgs"):
        precise = minimize(Problem(loss), start, solver=solver, tol=1e-10)
        np.testing.assert_allclose(loss.fill(precise.X), truth, atol=1e-6)


def test_products_of_anchored_runs_are_counted(held):
    loss, truth = held
    result = minimize(Problem(loss), truth[loss.free] + 0.01, solver="gd", tol=1e-2)
    assert result.n_products >= result.n_iter
    assert loss.n_products == 0


def test_the_kernel_constants_hold_with_anchors(held):
    """A fixed step 1/L descends in every iteration, which it would not with σ too small."""
    loss, _ = held
    X = 0.1 * np.random.default_rng(0).standard_normal((36, 2))
    result = minimize(Problem(loss), X, solver="nolips", tol=1e-8, max_iter=200)
    assert (np.diff(result.history.objective) <= 1e-12).all()


@pytest.mark.parametrize("kind", [NormKernel, GramKernel])
@pytest.mark.parametrize("tight", [True, False])
def test_relative_smoothness_with_anchors_far_out(kind, tight):
    """Where the data are small beside the anchors' places, these alone make ∇²f(X) large near X = 0."""
    pairs = some_pairs(0, 8)
    far = Anchored(Distances(pairs, np.full(len(pairs), 1e-2), 8), [0, 5], [[9.0, -4.0], [-6.0, 8.0]])
    kernel, rng = kind.for_loss(far, tight), np.random.default_rng(0)
    for length in (1e-2, 1.0, 10.0):
        X, D = length * rng.standard_normal((2, 6, 2))
        p = far.at(X)
        for t in (1e-3, 1.0):
            move = far.move(p, X + t * D)
            assert move.remainder <= kernel.divergence(X + t * D, X)


@pytest.mark.parametrize(
    ("anchors", "places", "match"),
    [
        ([0, 0], np.zeros((2, 2)), "twice"),
        ([50], np.zeros((1, 2)), "outside"),
        ([0, 1], np.zeros((1, 2)), "one index for each"),
        ([0, 1, 2], np.zeros((3, 2)), "nothing to find"),
    ],
)
def test_bad_anchors(anchors, places, match):
    with pytest.raises(ValueError, match=match):
        Anchored(Distances([[0, 1], [1, 2]], [1.0, 1.0]), anchors, places)


def test_the_trust_region_is_refused_where_points_are_held():
    """It works modulo rotations, which anchors forbid: it would stall."""
    whole = Distances(some_pairs(0, 12), np.ones(len(some_pairs(0, 12))), 12)
    held = Anchored(whole, [0, 1, 2], np.eye(3))
    with pytest.raises(ValueError, match=r"'tr' needs a loss that does not change when X is rotated.*solvers that fit"):
        minimize(Problem(held), rank=3, solver="tr", random_state=0)
