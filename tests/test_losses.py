"""Losses: value, gradient, line, remainder and constants, against brute force; products counted; bad input refused."""

import inspect
import math
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.linalg import aslinearoperator

from quartic import Problem, minimize
from quartic.core.units import Units
from quartic.diagnostics import CheckFailed, check_gradient
from quartic.losses import Distances, FullLeastSquares, LeastSquares, Rectangular, Smooth
from quartic.solvers import ConjugateGradient
from strategies import LOSSES, losses, make_loss, seeds, some_pairs, symmetric


def brute_value(loss, X):
    if isinstance(loss, FullLeastSquares):
        M = loss.matrix.dense()
        return 0.5 * float(np.sum((M - X @ X.T) ** 2))
    total = 0.0
    weights = np.ones(loss.n_pairs) if loss.weight is None else loss.weight
    for i, j, d, w in zip(loss.rows, loss.cols, loss.target, weights, strict=True):
        q = float(np.sum((X[i] - X[j]) ** 2)) if loss.translations else float(X[i] @ X[j])
        total += 0.5 * w * (q - d) ** 2
    return total


def random_point(loss, seed, rank=3):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((loss.n_points, rank)), rng.standard_normal((loss.n_points, rank))


@given(losses, seeds, st.integers(1, 6))
def test_value_and_gradient_against_brute_force(loss, seed, rank):
    X, _ = random_point(loss, seed, rank)
    assert loss.value(X) == pytest.approx(brute_value(loss, X), rel=1e-10)
    assert check_gradient(loss, X) <= 1e-6


@given(losses, seeds, st.floats(-2, 2), st.integers(1, 6))
def test_along_is_the_exact_quartic(loss, seed, t, rank):
    X, D = random_point(loss, seed, rank)
    line = loss.along(loss.at(X), D)
    there = loss.at(X + t * D)
    assert line(t) == pytest.approx(there.value, rel=1e-9)
    moved = line.point(t)
    np.testing.assert_allclose(moved.gradient, there.gradient, rtol=1e-9, atol=1e-9 * np.abs(there.gradient).max())
    assert moved.value == pytest.approx(there.value, rel=1e-9)


@given(losses, seeds)
def test_line_minimizer_is_global(loss, seed):
    X, D = random_point(loss, seed)
    line = loss.along(loss.at(X), D)
    best = line.minimizer()
    grid = np.concatenate([np.linspace(0, 3, 500), [best * 0.999, best * 1.001]])
    assert line(best) <= min(line(t) for t in grid) * (1 + 1e-12) + 1e-12
    upper = 0.5 * best
    assert 0 <= line.minimizer(upper) <= upper
    assert line(line.minimizer(upper)) <= min(line(t) for t in np.linspace(0, upper, 100)) * (1 + 1e-12) + 1e-12


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("distance", [1.0, 1e-4, 1e-9])
def test_remainder_keeps_its_digits(kind, distance):
    """Against the second-order form ½·D²f by a large step: f(X + D) − f(X) − ⟨∇f, D⟩ = c₂ + c₃ + c₄ on the line."""
    loss = make_loss(kind, 5)
    X, D = random_point(loss, 7)
    p = loss.at(X)
    move = loss.move(p, X + distance * D)
    new, remainder = move.point, move.remainder
    D = new.X - X
    _, c2, c3, c4 = loss.along(p, D / distance).coefficients
    exact = distance**2 * (c2 + distance * c3 + distance**2 * c4)
    assert remainder == pytest.approx(exact, rel=max(1e-6, 1e-15 / distance))


@given(losses, seeds, st.floats(-1, 2))
def test_extrapolation(loss, seed, t):
    X, Y = random_point(loss, seed)
    p, q = loss.at(X), loss.at(Y)
    before = loss.n_products
    e = loss.extrapolate(p, q, t)
    assert loss.n_products - before == (0 if isinstance(loss, FullLeastSquares) else 1)
    assert e.value == pytest.approx(loss.value(X + t * (X - Y)), rel=1e-8)


@pytest.mark.parametrize("kind", LOSSES)
def test_a_point_costs_one_product(kind):
    loss = make_loss(kind, 1)
    X, D = random_point(loss, 2)
    p = loss.at(X)
    assert loss.n_products == 1
    assert p.value >= 0
    assert p.gradient.shape == X.shape
    assert loss.n_products == 1
    loss.move(p, X + D)
    assert loss.n_products == 2
    loss.along(p, D).point(0.3).gradient  # noqa: B018
    assert loss.n_products == 3


def test_products_reach_the_matrix_as_often_as_counted():
    calls = []
    M = symmetric(0, 400, 0.05)

    class Spy(sp.linalg.LinearOperator):
        def __init__(self):
            super().__init__(np.float64, M.shape)

        def _matvec(self, v):
            calls.append(1)
            return M @ v

        def _matmat(self, V):
            calls.append(V.shape[1])
            return M @ V

    loss = LeastSquares(Spy(), squared_norm=float(np.sum(M**2)))
    X, _ = random_point(loss, 0)
    loss.at(X)
    curvature = loss.curvature_at_zero
    loss.mean_entry()
    assert loss.n_products == len(calls)
    assert curvature >= -np.linalg.eigvalsh(M)[0] * (1 - 1e-6)
    assert curvature <= -np.linalg.eigvalsh(M)[0] * 1.2


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "dia", "bsr"])
def test_every_sparse_format_and_operator(form):
    M = symmetric(4)
    X, _ = random_point(LeastSquares(M), 1)
    dense = LeastSquares(M).at(X)
    for A in (sp.csr_array(M).asformat(form), sp.csr_matrix(M).asformat(form)):
        p = LeastSquares(A).at(X)
        assert p.value == pytest.approx(dense.value, rel=1e-12)
        np.testing.assert_allclose(p.gradient, dense.gradient, atol=1e-12 * np.abs(dense.gradient).max())
    p = LeastSquares(aslinearoperator(M), squared_norm=float(np.sum(M**2))).at(X)
    assert p.value == pytest.approx(dense.value, rel=1e-12)


def test_sparse_input_is_not_changed():
    M = sp.coo_array(([1.0, 2.0, 3.0], ([0, 1, 0], [1, 0, 1])), shape=(2, 2))  # (0, 1) twice: 4 in all, not symmetric
    with pytest.raises(ValueError, match=r"symmetric.*\(M \+ M\.T\) / 2"):
        LeastSquares(M)
    unsorted = sp.csr_array((np.array([2.0, 1.0, 2.0]), np.array([1, 0, 0]), np.array([0, 2, 3])), shape=(2, 2))
    LeastSquares(unsorted)
    assert unsorted.indices.tolist() == [1, 0, 0]


@given(seeds, st.booleans())
def test_distance_smoothness_is_an_upper_bound_and_tight(seed, weighted):
    loss = make_loss("weighted distances" if weighted else "distances", seed)
    rows = []
    weights = np.ones(loss.n_pairs) if loss.weight is None else loss.weight
    for i, j, w in zip(loss.rows, loss.cols, weights, strict=True):
        A = np.zeros((loss.n_points, loss.n_points))
        A[i, i] = A[j, j] = 1
        A[i, j] = A[j, i] = -1
        rows.append(math.sqrt(w) * A.ravel())
    exact = np.linalg.eigvalsh(np.array(rows) @ np.array(rows).T)[-1]
    assert loss.smoothness >= exact * (1 - 1e-12)
    degree = np.bincount(np.concatenate([loss.rows, loss.cols]), np.concatenate([weights, weights])).max()
    assert loss.smoothness <= 2 * degree + 2 * weights.max() + 1e-9
    if not weighted:
        assert loss.smoothness <= 1.1 * exact
    nabla = sum(-w * d * A.reshape(12, 12) / math.sqrt(w) for A, w, d in zip(rows, weights, loss.target, strict=True))
    assert loss.gradient_norm_at_zero == pytest.approx(np.linalg.norm(nabla))
    assert np.linalg.eigvalsh(nabla)[-1] <= 1e-9 * np.linalg.norm(nabla)


def test_random_starts_have_the_best_scale():
    for kind in ("distances", "weighted distances", "dense"):
        loss = make_loss(kind, 3)
        X = loss.random_start(3, False, np.random.default_rng(0))
        assert loss.value(X) <= min(loss.value(0.9 * X), loss.value(1.1 * X)) or kind == "dense"
    M = np.abs(symmetric(0, 30))
    X = LeastSquares(M).random_start(4, True, np.random.default_rng(0))
    assert (X > 0).all()
    assert X.max() <= 2 * math.sqrt(M.mean() / 4)
    np.testing.assert_array_equal(X, 2 * np.random.default_rng(0).uniform(1e-5, math.sqrt(M.mean() / 4), (30, 4)))


def test_pairs_merge_when_they_agree():
    once = Distances([[0, 1], [1, 2]], [1.0, 4.0])
    twice = Distances([[0, 1], [2, 1], [1, 0], [1, 2]], [1.0, 4.0, 1.0, 4.0])
    assert twice.n_pairs == once.n_pairs == 2
    X = np.arange(6.0).reshape(3, 2)
    assert once.value(X) == twice.value(X)


def test_pairs_are_sorted_whatever_their_order():
    rng = np.random.default_rng(0)
    pairs = some_pairs(0, 40)
    squared = rng.random(len(pairs))
    order = rng.permutation(len(pairs))
    flipped = np.where(rng.random((len(pairs), 1)) < 0.5, pairs, pairs[:, ::-1])
    a, b = Distances(pairs, squared, 40), Distances(flipped[order], squared[order], 40)
    for name in ("start", "cols", "target"):
        np.testing.assert_array_equal(getattr(a.pairs, name), getattr(b.pairs, name))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LeastSquares(np.ones((2, 3))), r"square symmetric matrix, got shape \(2, 3\).*similarity"),
        (lambda: LeastSquares(np.ones(3)), "2-D"),
        (lambda: LeastSquares(np.zeros((0, 0))), "empty"),
        (lambda: LeastSquares(np.array([[1.0, np.nan], [np.nan, 1.0]])), r"finite, but M\[0, 1\] is nan"),
        (lambda: LeastSquares(sp.csr_array([[0.0, np.inf], [np.inf, 0.0]])), r"finite, but M\[0, 1\] is inf"),
        (
            lambda: LeastSquares(np.array([[1.0, 2.0], [3.0, 1.0]])),
            r"symmetric, but M\[0, 1\] = 2.0 and M\[1, 0\] = 3.0",
        ),
        (lambda: LeastSquares(sp.csr_array([[1.0, 2.0], [0.0, 1.0]])), r"symmetric.*\(M \+ M\.T\) / 2"),
        (lambda: LeastSquares(aslinearoperator(np.eye(3))), "squared_norm="),
        (lambda: LeastSquares(aslinearoperator(np.eye(3)), squared_norm=-1.0), "squared_norm must be nonnegative"),
        (lambda: Distances(np.zeros((0, 2)), []), "no pairs"),
        (lambda: Distances([[0, 1, 2]], [1.0]), r"shape \(m, 2\)"),
        (lambda: Distances([[0, 1]], [1.0, 2.0]), r"shape \(1,\)"),
        (lambda: Distances([[0, 1], [1, 1]], [1.0, 1.0]), r"pairs\[1\] = \[1, 1\] joins a point to itself"),
        (lambda: Distances([[0, -1]], [1.0]), r"pairs\[0\] = \[0, -1\]"),
        (lambda: Distances([[0, 5]], [1.0], n_points=5), r"pairs\[0\] = \[0, 5\] is outside the 5 points"),
        (lambda: Distances([[0, 1]], [-1.0]), r"squared\[0\] = -1.0 is negative"),
        (lambda: Distances([[0, 1]], [np.nan]), r"squared\[0\] is nan"),
        (
            lambda: Distances([[0, 1], [1, 0]], [1.0, 2.0]),
            r"\(0, 1\) is given twice and differs: 1.0 in row 0, 2.0 in row 1",
        ),
        (lambda: Distances([[0, 1]], [1.0], weights=[-1.0]), r"weights\[0\]"),
        (lambda: LeastSquares(np.eye(3)).value(np.ones((2, 2))), "one row for each of the 3 points"),
    ],
)
def test_bad_data(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: LeastSquares(np.eye(2) * 1j),
        lambda: LeastSquares([["a", "b"], ["c", "d"]]),
        lambda: Distances([["a", "b"]], [1.0]),
        lambda: Distances([[0.5, 1.0]], [1.0]),
    ],
)
def test_wrong_types(make):
    with pytest.raises(TypeError):
        make()


def test_check_gradient_finds_a_wrong_gradient():
    class Wrong(FullLeastSquares):
        def gradient(self, X):
            return 1.01 * super().gradient(X)

    with pytest.raises(CheckFailed, match="disagree"):
        check_gradient(Wrong(symmetric(0)))


@pytest.mark.parametrize("dtype", [bool, np.int32, np.uint8, np.float16, np.float32, np.longdouble, ">f8"])
def test_dtypes(dtype):
    M = np.eye(4, dtype=dtype)
    for A in (M, np.asfortranarray(M)) + (() if dtype in (np.float16, np.longdouble, ">f8") else (sp.csr_array(M),)):
        loss = LeastSquares(A)
        assert loss.dtype == (np.float32 if dtype == np.float32 else np.float64)
        assert loss.value(np.eye(4)) == pytest.approx(0, abs=1e-12)


@given(seeds)
def test_known_entries_against_the_dense_sum(seed):
    rng = np.random.default_rng(seed)
    W = np.abs(symmetric(seed, 9, 0.4))
    W[2, 2] = 0.7
    M = symmetric(seed + 1, 9)
    loss = LeastSquares(sp.csr_array(np.where(W > 0, M, 0)), weights=sp.csr_array(W))
    X = rng.standard_normal((9, 3))
    assert loss.value(X) == pytest.approx(0.5 * np.sum(W * (M - X @ X.T) ** 2), rel=1e-10)
    assert loss.smoothness == W.max()
    assert loss.gradient_norm_at_zero == pytest.approx(np.linalg.norm(W * M))
    assert loss.curvature_at_zero == pytest.approx(max(0, -np.linalg.eigvalsh(W * M)[0]), abs=1e-9)
    assert loss.mean_entry() == pytest.approx(np.sum(W * M) / W.sum())


def test_all_weights_one_is_plain_least_squares():
    M = symmetric(1)
    X = np.random.default_rng(0).standard_normal((12, 2))
    assert LeastSquares(M, weights=np.ones((12, 12))).value(X) == pytest.approx(LeastSquares(M).value(X), rel=1e-12)
    assert LeastSquares(M, weights=np.ones((12, 12))).strong_convexity == 1


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones((2, 3)), r"same shape, got \(3, 3\) and \(2, 3\)"),
        (np.ones((2, 2)), r"same shape, got \(3, 3\) and \(2, 2\)"),
        (-np.eye(3), "weights must be nonnegative"),
        (np.zeros((3, 3)), "no entry of M is known"),
        (np.triu(np.ones((3, 3))), "weights must be symmetric"),
        (np.full((3, 3), np.nan), "weights must be finite"),
    ],
)
def test_bad_weights(weights, message):
    with pytest.raises(ValueError, match=message):
        LeastSquares(np.eye(3), weights=weights)


def test_unknown_entries_may_be_nan_known_ones_not():
    M = np.array([[1.0, np.nan], [np.nan, 1.0]])
    with pytest.raises(ValueError, match=r"M\[0, 1\] is nan, but weights say it is known"):
        LeastSquares(M, weights=np.ones((2, 2)))
    assert LeastSquares(M, weights=np.eye(2)).n_pairs == 2


@pytest.mark.parametrize("kind", LOSSES)
def test_points_from_integers_lists_and_any_order(kind):
    """Compiled passes write into what they are given: an integer or Fortran-ordered array must not reach them."""
    loss = make_loss(kind, 3)
    rng = np.random.default_rng(0)
    X, Y = (rng.integers(-3, 4, (loss.n_points, 2)) for _ in range(2))
    exact, other = loss.at(X.astype(float)), loss.at(Y.astype(float))
    for make in (np.asarray, np.ndarray.tolist, lambda A: np.asfortranarray(A.astype(float))):
        p, q = loss.at(make(X)), loss.at(make(Y))
        assert p.value == exact.value
        np.testing.assert_array_equal(p.gradient, exact.gradient)
        move = loss.move(p, make(Y))
        assert move.remainder == loss.move(exact, Y.astype(float)).remainder
        np.testing.assert_array_equal(move.point.gradient, loss.move(exact, Y.astype(float)).point.gradient)
        assert loss.along(p, make(Y)).coefficients == loss.along(exact, Y.astype(float)).coefficients
        np.testing.assert_allclose(
            loss.extrapolate(p, q, 0.5).gradient, loss.extrapolate(exact, other, 0.5).gradient, rtol=1e-12, atol=1e-9
        )


def test_weights_are_left_as_they_are_and_may_be_of_any_kind():
    M = symmetric(0, 6)
    W = np.ones((6, 6))
    W[1, 2] = W[2, 1] = 0
    weights = sp.csr_array(np.ones((6, 6)))
    weights[1, 2] = weights[2, 1] = 0  # stored
    before = weights.copy()
    for array in (weights.data, weights.indices, weights.indptr):
        array.flags.writeable = False
    expected = LeastSquares(M, weights=W).value(np.ones((6, 2)))
    for form in (weights, W.astype(np.float16), W.astype(">f8"), W.astype(bool), W.tolist(), sp.lil_array(W)):
        assert LeastSquares(M, weights=form).value(np.ones((6, 2))) == pytest.approx(expected)
    assert weights.nnz == before.nnz == 36


def test_operators_are_not_taken_for_zero_or_for_entries():
    operator = aslinearoperator(np.eye(4))
    with pytest.raises(ValueError, match="squared_norm = 0 is too small"):
        LeastSquares(operator, squared_norm=0.0)
    with pytest.raises(TypeError, match="weights need the entries of M"):
        LeastSquares(operator, weights=np.eye(4))
    assert LeastSquares(aslinearoperator(np.zeros((4, 4))), squared_norm=0.0).value(np.zeros((4, 1))) == 0


@pytest.mark.parametrize("scale", [1e-140, 1e-12, 1.0, 1e12])
def test_the_papers_start_is_the_papers_and_follows_tiny_data(scale):
    M = scale * np.abs(symmetric(0, 20))
    for loss in (LeastSquares(M), LeastSquares(M, weights=np.ones((20, 20)))):
        X = loss.random_start(3, True, np.random.default_rng(7))
        top = math.sqrt(M.mean() / 3)
        assert (X > 0).all()
        assert X.max() <= 2 * top
        if scale >= 1:
            np.testing.assert_allclose(X, 2 * np.random.default_rng(7).uniform(1e-5, top, (20, 3)), rtol=1e-12)


def test_the_signature_is_the_documented_one():
    assert {"M", "weights", "squared_norm"} <= set(inspect.signature(LeastSquares).parameters)


def test_signatures_say_what_may_be_given():
    assert list(inspect.signature(Distances).parameters) == ["pairs", "squared", "n_points", "weights"]
    assert list(inspect.signature(LeastSquares).parameters) == ["M", "weights", "squared_norm"]


@pytest.mark.parametrize("solver", ["lbfgs", ConjugateGradient(preconditioner="gram")], ids=lambda s: str(s))
def test_where_the_points_are_as_a_whole_does_not_matter(solver):
    """Distances say nothing of it: a run from a shifted start is the same run, shifted."""
    generator = np.random.default_rng(0)
    points, pairs = generator.random((40, 3)), np.array(np.triu_indices(40, 1)).T
    loss = Distances(pairs, np.square(points[pairs[:, 0]] - points[pairs[:, 1]]).sum(axis=1))
    X0, shift = generator.standard_normal((40, 3)), np.array([3.0, -5.0, 2.0])
    assert loss.translations
    assert not LeastSquares(np.eye(3)).translations
    assert loss.value(X0 + shift) == pytest.approx(loss.value(X0), rel=1e-12)
    settings = {"solver": solver, "tol": 0.0, "max_iter": 6}
    near, far = (minimize(Problem(loss), X, **settings).history.objective for X in (X0, X0 + shift))
    np.testing.assert_allclose(far, near, rtol=1e-8)


def test_a_constant_is_worked_out_once_for_all_copies_of_a_loss():
    pairs = some_pairs(0, 40)
    loss = Distances(pairs, np.ones(len(pairs)), 40, np.full(len(pairs), 2.0))
    twin = loss.counted()
    found, before = twin.smoothness, loss.n_products
    assert twin.n_products > 0
    assert loss.smoothness == found
    assert loss.n_products == before
    other = loss.in_units(Units(length=3, value=20))
    assert other.smoothness == pytest.approx(found * 2.0**8, rel=1e-12)  # weights are 2^(20 − 4·3) times as large
    assert pickle.loads(pickle.dumps(loss)).space is loss.space


def test_messages_use_the_name_that_the_user_wrote():
    M = np.eye(3)
    for loss, name in (
        (LeastSquares(M), "LeastSquares"),
        (LeastSquares(M, weights=M), "LeastSquares with weights"),
        (Rectangular(M), "Rectangular"),
        (Rectangular(M, weights=M), "Rectangular with weights"),
        (Distances([[0, 1]], [1.0]), "Distances"),
        (Smooth(np.sum, np.ones_like), "Smooth"),
    ):
        assert repr(loss).startswith(f"<{name} of ")
        with pytest.raises(TypeError, match=f"got {name}$"):
            minimize(loss, rank=1)
    with pytest.raises(ValueError, match="but LeastSquares is not"):
        minimize(Problem(LeastSquares(M)), rank=1, solver="lm")
