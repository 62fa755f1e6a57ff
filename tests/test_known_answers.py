"""Completion, sensing, phase retrieval and quadratic losses against answers that are known; bad input refused."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from quartic import Problem, minimize
from quartic.init import random_start
from quartic.losses import (
    CodedDiffraction,
    Completion,
    LeastSquares,
    PhaseRetrieval,
    Quadratic,
    Rectangular,
    Sensing,
    Smooth,
)
from quartic.losses.other import sensing
from quartic.penalties import Nonnegative, Ridge
from strategies import seeds, symmetric


def relative_error(X, truth):
    M = truth @ truth.T
    return np.linalg.norm(X @ X.T - M) / np.linalg.norm(M)


def planted(n, rank, seed):
    return np.random.default_rng(seed).standard_normal((n, rank))


# -- completion -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
def test_a_matrix_of_rank_three_from_one_entry_in_twenty(seed):
    n, truth = 1000, planted(1000, 3, seed)
    i, j = np.triu_indices(n)
    known = np.random.default_rng(seed + 10).random(len(i)) < 0.05
    i, j = i[known], j[known]
    loss = Completion(i, j, np.einsum("ij,ij->i", truth[i], truth[j]), n)
    result = minimize(Problem(loss), rank=3, tol=1e-8, random_state=seed)
    assert result.success
    assert relative_error(result.X, truth) < 1e-6
    # the spectral start is what minimize takes: nearer than a random one, which is still to be had
    start = loss.default_start(3, False, np.random.default_rng(0))
    assert relative_error(start, truth) < 0.8
    again = minimize(Problem(loss), random_start, rank=3, tol=1e-8, random_state=99)
    assert again.history.objective[0] > 1.2 * result.history.objective[0]


@given(seeds, st.booleans())
def test_completion_is_the_sum_over_what_is_listed(seed, both):
    rng = np.random.default_rng(seed)
    n, M, X = 7, symmetric(seed, 7, 1.0), rng.standard_normal((7, 2))
    i, j = np.nonzero(rng.random((n, n)) < 0.4)
    if not both:
        i, j = i[i <= j], j[i <= j]
    if not len(i):
        return
    listed = 0.5 * np.sum(((X @ X.T)[i, j] - M[i, j]) ** 2)
    loss = Completion(i, j, M[i, j], n)
    assert loss.value(X) == pytest.approx(listed, rel=1e-12)
    twice = np.concatenate([i, i]), np.concatenate([j, j])
    assert Completion(*twice, M[twice], n).value(X) == pytest.approx(listed, rel=1e-12)
    w = rng.random(len(i))
    weighted = 0.5 * np.sum(w * ((X @ X.T)[i, j] - M[i, j]) ** 2) + 0.15 * np.sum(X**2)
    assert Completion(i, j, M[i, j], n, weights=w, ridge=0.3).value(X) == pytest.approx(weighted, rel=1e-12)


def test_all_entries_listed_is_least_squares():
    M = symmetric(0, 9, 1.0)
    i, j = np.indices(M.shape).reshape(2, -1)
    whole, plain = Completion(i, j, M.ravel()), LeastSquares(M)
    X = planted(9, 3, 0)
    assert whole.value(X) == pytest.approx(plain.value(X), rel=1e-12)
    for name in ("smoothness", "strong_convexity", "gradient_norm_at_zero", "curvature_at_zero"):
        assert getattr(whole, name) == pytest.approx(getattr(plain, name), rel=1e-9)


def test_the_ridge_is_the_penalty_ridge():
    i, j = np.triu_indices(30)
    known = np.random.default_rng(0).random(len(i)) < 0.3
    i, j = i[known], j[known]
    values = (planted(30, 2, 0) @ planted(30, 2, 0).T)[i, j]
    X0 = planted(30, 2, 5)
    inside = minimize(Problem(Completion(i, j, values, 30, ridge=0.7)), X0, tol=1e-10)
    outside = minimize(Problem(Completion(i, j, values, 30), Ridge(0.7)), X0, tol=1e-10)
    assert inside.objective == pytest.approx(outside.objective, rel=1e-9)
    np.testing.assert_allclose(inside.X @ inside.X.T, outside.X @ outside.X.T, atol=1e-6)
    # and it goes with a penalty that has no ridge of its own
    problem = Problem(Completion(i, j, values, 30, ridge=0.7), Nonnegative())
    assert minimize(problem, rank=2, tol=1e-6, random_state=0).success


def test_a_completion_by_every_linear_solver_and_by_way_of_the_core():
    """Many entries a row: the first iteration goes by part of the rows; sparse factors and CG agree."""
    from quartic.solvers import LevenbergMarquardt

    truth = planted(300, 2, 0)
    i, j = np.triu_indices(300)
    known = np.random.default_rng(0).random(len(i)) < 0.5
    i, j = i[known], j[known]
    for ridge in (0.0, 1e-6):
        loss = Completion(i, j, (truth @ truth.T)[i, j], 300, ridge=ridge)
        for solver in (LevenbergMarquardt(), LevenbergMarquardt(linear_solver="direct", core=0)):
            result = minimize(Problem(loss), rank=2, solver=solver, tol=1e-10, random_state=0)
            assert relative_error(result.X, truth) < 1e-6


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Completion([0, 1], [1, 0], [1.0, 2.0]), r"\(0, 1\) .* twice and differs: 1.0 in row 0, 2.0 in row 1"),
        (lambda: Completion([0, 0], [1, 1], [1.0, 2.0]), r"\(0, 1\) .* given twice and differs"),
        (lambda: Completion([0, 0], [1, 1], [1.0, 1.0], weights=[1, 2]), "weight 1.0 in row 0, 2.0 in row 1"),
        (lambda: Completion([0, -1], [1, 0], [1.0, 2.0]), r"rows\[1\] = -1, but indices count from 0"),
        (lambda: Completion([0, 1], [1, 5], [1.0, 2.0], 5), r"cols\[1\] = 5, but indices count from 0 and below n = 5"),
        (lambda: Completion([0], [1, 2], [1.0]), "of one length, got 1 and 2"),
        (lambda: Completion([], [], []), "rows is empty"),
        (lambda: Completion([0], [1], [1.0, 2.0]), r"values must have shape \(1,\)"),
        (lambda: Completion([0], [1], [np.nan]), r"values\[0\] is nan"),
        (lambda: Completion([0], [1], [1.0], weights=[-1.0]), r"weights\[0\] = -1.0 is negative"),
        (lambda: Completion([0], [1], [1.0], weights=[0.0]), "no entry of M is known"),
        (lambda: Completion([0], [1], [1.0], ridge=-1.0), "ridge must be nonnegative"),
        (lambda: Completion([[0]], [[1]], [1.0]), "rows must be 1-D"),
        (lambda: Completion([0], [1], [1.0], 0), "n must be at least 1"),
        (lambda: Sensing(np.ones((3, 2)), np.ones(4)), "A has 3 measurements but b has 4"),
        (lambda: Sensing(np.ones((3, 2)), [1.0, np.inf, 1.0]), r"b\[1\] is inf"),
        (lambda: Sensing(np.array([[1.0, np.nan]]), [1.0]), r"A\[0, 1\] is nan"),
        (lambda: Sensing(np.ones((1, 2, 3)), [1.0]), r"m square matrices, got shape \(1, 2, 3\)"),
        (lambda: Sensing(np.triu(np.ones((2, 3, 3))), [1.0, 1.0]), r"A\[0\] must be symmetric, .*\(0, 1\)"),
        (lambda: Sensing([sp.csr_array(np.triu(np.ones((3, 3))))], [1.0]), r"A\[0\] must be symmetric"),
        (lambda: Sensing([sp.eye_array(2), sp.eye_array(3)], [1.0, 1.0]), "square and of one size"),
        (lambda: Sensing(sp.csr_array(np.ones((2, 5))), [1.0, 1.0]), "5 columns are no square.*aslinearoperator"),
        (lambda: Sensing(np.ones((3, 2)), np.ones((3, 1))), "b must be 1-D"),
        (lambda: Sensing(np.ones((3, 2)), np.ones(3), smoothness=-1.0), "smoothness must be positive"),
        (lambda: PhaseRetrieval(np.ones((2, 2)), [1.0, -1.0]), r"y\[1\] = -1.0 is negative; y holds intensities"),
        (lambda: PhaseRetrieval(np.ones(3), np.ones(3)), r"\(m, n\) array, a sampling vector a row, got shape \(3,\)"),
        (lambda: PhaseRetrieval(np.full((2, 2), np.nan), np.ones(2)), r"A\[0, 0\] is nan"),
        (lambda: CodedDiffraction(np.ones(3)), r"shape \(L, n\) or \(L, n1, n2\)"),
        (lambda: Quadratic(None, np.array([[1.0, 2.0], [0.0, 1.0]])), r"B must be symmetric, but B\[0, 1\] = 2.0"),
        (lambda: Quadratic(None, np.ones((2, 3))), "B must be a square"),
        (lambda: Quadratic(np.eye(3), np.eye(2)), r"shape of B, \(2, 2\).*got \(3, 3\)"),
        (lambda: Quadratic(-np.eye(2), np.eye(2)), r"A\[0, 0\] = -1.0 is negative: F would not be convex"),
        (lambda: Quadratic(np.eye(4), np.eye(2)), r"got \(4, 4\); a map of all of them is a function A\(X, Z\)"),
        (lambda: Quadratic(sp.csr_array((2, 2)), np.eye(2)).smoothness, "A is zero"),
        (lambda: Quadratic(None, aslinearoperator(np.eye(2))), "squared_norm="),
    ],
)
def test_bad_data(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Completion([0.5], [1], [1.0]), "rows must be integer"),
        (lambda: Completion([0], [1], ["a"]), "values must be real"),
        (lambda: Sensing(np.ones((2, 2)) * 1j, np.ones(2)), r"use PhaseRetrieval\(A, b\)"),
        (lambda: Sensing("words", np.ones(2)), "A must be an"),
        (lambda: Sensing(np.ones((2, 2)), np.ones(2) * 1j), "b must be real"),
        (lambda: PhaseRetrieval([["a"]], [1.0]), "A must be numbers"),
        (lambda: Quadratic(aslinearoperator(np.eye(2)), np.eye(2)), "got a LinearOperator"),
    ],
)
def test_wrong_types(make, message):
    with pytest.raises(TypeError, match=message):
        make()


# -- sensing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "rank"), [(60, 1), (50, 3)])
@pytest.mark.parametrize("kind", ["vectors", "matrices"])
def test_recovery_from_6nr_gaussian_measurements(kind, n, rank):
    n = n if kind == "vectors" else n // 2
    rng, truth, m = np.random.default_rng(n + rank), planted(n, rank, 0), 6 * n * rank
    if kind == "vectors":
        A = rng.standard_normal((m, n))
        b = ((A @ truth) ** 2).sum(axis=1)
    else:
        A = rng.standard_normal((m, n, n))
        A = A + A.swapaxes(1, 2)
        b = np.einsum("kij,ij->k", A, truth @ truth.T)
    result = minimize(Problem(Sensing(A, b)), rank=rank, tol=1e-8, random_state=0)
    assert result.success
    assert relative_error(result.X, truth) < 1e-6


class Traces:
    """The map of `aslinearoperator(A)` as an operator of one's own."""

    def __init__(self, A):
        self.A, self.n_points, self.calls = A, A.shape[1], 0

    def forward(self, X):
        self.calls += 1
        return ((self.A @ X) ** 2).sum(axis=1)

    def adjoint(self, y, X):
        return self.A.T @ (y[:, None] * (self.A @ X))


class WithPolar(Traces):
    def polar(self, X, D):
        return ((self.A @ X) * (self.A @ D)).sum(axis=1)


@given(seeds)
@settings(max_examples=10)
def test_every_form_of_the_same_measurements_is_the_same_loss(seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((15, 6)) * (rng.random((15, 6)) < 0.5)
    A[:, 0] += 1
    matrices, b = np.einsum("ki,kj->kij", A, A), rng.standard_normal(15)
    sparse = [sp.csr_array(a) for a in matrices]
    forms = [
        A, matrices, sparse, sp.vstack([sp.coo_array(a).reshape((1, -1)) for a in sparse]), aslinearoperator(A),
        Traces(A), WithPolar(A),
    ]  # fmt: skip
    X, D = rng.standard_normal((2, 6, 3))
    losses = [Sensing(form, b) for form in forms]
    brute = 0.5 * np.sum((np.einsum("kij,ij->k", matrices, X @ X.T) - b) ** 2)
    exact = np.linalg.eigvalsh(np.einsum("kij,lij->kl", matrices, matrices))[-1]
    adjoint = np.einsum("k,kij->ij", b, matrices)
    first = losses[0].at(X).gradient
    line = losses[0].along(losses[0].at(X), D)
    for loss in losses:
        p = loss.at(X)
        assert p.value == pytest.approx(brute, rel=1e-10)
        np.testing.assert_allclose(p.gradient, first, atol=1e-10 * np.abs(first).max())
        np.testing.assert_allclose(loss.along(p, D).coefficients, line.coefficients, rtol=1e-9)
        assert exact <= loss.smoothness <= 1.2 * exact
        assert loss.gradient_norm_at_zero == pytest.approx(np.linalg.norm(adjoint), rel=1e-9)
        assert loss.curvature_at_zero == pytest.approx(max(0, -np.linalg.eigvalsh(adjoint)[0]), abs=1e-9)
        assert Sensing(A, b, smoothness=7.0).smoothness == 7.0


def test_an_operator_that_returns_the_wrong_shape_is_named():
    class Wrong(Traces):
        def forward(self, X):
            return super().forward(X)[:-1]

    class Flat(Traces):
        def adjoint(self, y, X):
            return super().adjoint(y, X).ravel()

    A = planted(9, 3, 0)
    with pytest.raises(ValueError, match=r"forward\(X\) must return one number for each of the 9"):
        Sensing(Wrong(A), np.ones(9)).value(planted(3, 1, 0))
    with pytest.raises(ValueError, match=r"adjoint\(y, X\) must return an array of X's shape \(3, 1\), got \(3,\)"):
        Sensing(Flat(A), np.ones(9)).gradient(planted(3, 1, 0))


def test_a_point_costs_one_forward_call_and_a_line_two_more():
    operator = Traces(planted(30, 6, 0))
    loss = Sensing(operator, operator.forward(planted(6, 1, 1)))
    p = loss.at(planted(6, 1, 2))
    before = operator.calls
    loss.at(planted(6, 1, 3))
    assert operator.calls == before + 1
    loss.along(p, planted(6, 1, 3))
    assert operator.calls == before + 4  # 𝒜 at X ± sD and at D


HIDDEN = {  # spectra whose largest number is easily missed: one a little above a great many
    "one above many alike": lambda rng, k: np.r_[1.001, np.ones(k - 1)],
    "one above a heap": lambda rng, k: np.r_[1.01, rng.uniform(0, 1, k - 1)],
    "all but zero beside": lambda rng, k: np.r_[1.0, 1e-9 * rng.random(k - 1)],
}


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("kind", HIDDEN)
@pytest.mark.parametrize("loss", ["least squares", "rectangular", "quadratic B", "map", "matrices", "smooth"])
def test_constants_that_nolips_relies_on_are_bounds(loss, kind, scale):
    """Above the sizes up to which all eigenvalues are computed, and not much larger than what they bound."""
    rng, k = np.random.default_rng(3), 400
    values = scale * HIDDEN[kind](rng, k)
    if loss == "least squares":
        found = LeastSquares(sp.diags_array(-values).tocsr()).curvature_at_zero
    elif loss == "rectangular":
        found = 2 * Rectangular(sp.diags_array(values).tocsr()).curvature_at_zero
    elif loss == "quadratic B":
        found = Quadratic(None, sp.diags_array(values).tocsr()).curvature_at_zero
    elif loss == "map":
        W = np.zeros((20, 20))
        W.flat[: len(values)] = values
        W = np.maximum(W, W.T)
        found = Quadratic(lambda X, Z: (W * (X @ X.T)) @ Z, np.eye(20)).smoothness
    elif loss == "matrices":  # orthogonal ones of these norms, some of them indefinite
        A = [
            sp.coo_array(([np.sqrt(v), -np.sqrt(v)][k % 2 :][:1], ([k], [k])), shape=(400, 400))
            for k, v in enumerate(values)
        ]
        found = Sensing(A, np.ones(len(A))).smoothness
    else:
        found = Smooth(
            lambda X: 0.5 * np.sum((X @ X.T) ** 2) + np.sum(values[:, None] * X * X),
            lambda X: X @ (X.T @ X) + values[:, None] * X, 1.0, n=k,
        ).curvature_at_zero  # fmt: skip
    assert values.max() <= found <= 1.1 * values.max()


def test_nolips_descends_on_constants_found_by_lanczos():
    rng = np.random.default_rng(0)
    n, C = 12, symmetric(5, 12, 1.0)
    loss = Quadratic(lambda X, Z: C @ C @ X @ (X.T @ (C @ C @ Z)), symmetric(6, n, 1.0))
    result = minimize(Problem(loss), rng.standard_normal((n, 3)), solver="nolips", max_iter=300)
    assert (np.diff(result.history.objective) <= 1e-14 * np.abs(result.history.objective[1:])).all()


def test_constants_of_large_operators_are_bounds(monkeypatch):
    """Beyond what can be made at once: ‖A‖² max‖a_k‖² from a few products, and √L_F ‖b‖."""
    n = 1600
    rng = np.random.default_rng(0)
    A = rng.standard_normal((40, n))
    b = rng.random(40)
    loss = Sensing(aslinearoperator(A), b)
    monkeypatch.setattr(sensing, "WORK", 1e6)
    K = (A @ A.T) ** 2
    exact = np.linalg.eigvalsh(K)[-1]
    assert exact <= loss.smoothness <= 10 * exact
    assert np.linalg.norm(A.T @ (b[:, None] * A)) <= loss.gradient_norm_at_zero
    assert loss.curvature_at_zero == 0
    negative = Sensing(aslinearoperator(A), -b)
    assert negative.curvature_at_zero >= np.linalg.eigvalsh(A.T @ (b[:, None] * A))[-1] * (1 - 1e-6)


def test_an_operator_too_large_for_its_constants_says_what_to_give(monkeypatch):
    monkeypatch.setattr(sensing, "WORK", 1.0)
    operator = Traces(planted(9, 3, 0))
    with pytest.raises(ValueError, match=r"multiplications to find with n = 3; give smoothness="):
        Sensing(operator, np.ones(9)).smoothness  # noqa: B018


# -- phase retrieval --------------------------------------------------------------------------------------------------


def signal(n, seed, real=False):
    rng = np.random.default_rng(seed)
    return rng.standard_normal(n) if real else rng.standard_normal(n) + 1j * rng.standard_normal(n)


def samples(kind, n, seed):
    rng = np.random.default_rng(seed)
    if kind == "patterns":
        return CodedDiffraction.random(6, n, random_state=seed)
    A = rng.standard_normal((6 * n, n))
    return A if kind == "real" else (A + 1j * rng.standard_normal(A.shape)) / math.sqrt(2)


@pytest.mark.parametrize("kind", ["real", "complex", "patterns"])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_signal_of_length_256_up_to_its_phase(kind, seed):
    z, A = signal(256, seed, kind == "real"), samples(kind, 256, seed + 5)
    loss = PhaseRetrieval(A, np.abs(A @ z) ** 2)
    result = minimize(Problem(loss), rank=1, tol=1e-8, random_state=seed)
    assert result.success
    found = loss.signal(result.X)
    assert found.shape == (256,)
    assert np.iscomplexobj(found) == (kind != "real")
    # up to the global phase that brings it nearest, computed here
    overlap = np.vdot(found, z)
    assert np.linalg.norm(found * overlap / abs(overlap) - z) < 1e-6 * np.linalg.norm(z)
    np.testing.assert_allclose(loss.signal(result.X, like=z), z, atol=1e-6 * np.abs(z).max())


def test_more_columns_and_the_signal_in_them():
    z, A = signal(40, 0), samples("complex", 40, 1)
    loss = PhaseRetrieval(A, np.abs(A @ z) ** 2)
    assert loss.n_points == 80
    X = loss.point(z)
    assert loss.value(X) == pytest.approx(0, abs=1e-18 * np.sum(np.abs(A @ z) ** 4))
    np.testing.assert_allclose(loss.signal(X), z)
    spread = np.hstack([0.6 * X, 0.8 * loss.point(1j * z)])  # the same intensities, in two columns
    assert loss.value(spread) == pytest.approx(0, abs=1e-18 * np.sum(np.abs(A @ z) ** 4))
    np.testing.assert_allclose(loss.signal(spread, like=z), z)
    result = minimize(Problem(loss), rank=2, tol=1e-9, random_state=0)
    np.testing.assert_allclose(loss.signal(result.X, like=z), z, atol=1e-5)


def test_a_real_signal_from_complex_samples():
    z, A = signal(32, 3, real=True), samples("complex", 32, 4)
    loss = PhaseRetrieval(A, np.abs(A @ z) ** 2, real=True)
    assert loss.n_points == 32
    X = minimize(Problem(loss), rank=1, tol=1e-9, random_state=0).X
    np.testing.assert_allclose(loss.signal(X, like=z), z, atol=1e-6)


@pytest.mark.parametrize("shape", [12, (4, 3)])
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_coded_diffraction_is_the_matrix_it_stands_for(shape, dtype):
    A = CodedDiffraction(CodedDiffraction.random(3, shape, random_state=0).masks.astype(dtype))
    dense = A @ np.eye(12)
    tolerance = 1e-5 if dtype == np.complex64 else 1e-12
    for k, mask in enumerate(A.masks):
        for e in range(12):
            seen = mask * np.eye(12)[e].reshape(A.image_shape)
            pattern = np.fft.fftn(seen, norm="ortho").ravel()
            np.testing.assert_allclose(dense[12 * k : 12 * (k + 1), e], pattern, atol=tolerance)
    w = signal(36, 0)
    np.testing.assert_allclose(A.rmatvec(w), dense.conj().T @ w, atol=10 * tolerance)
    z = signal(12, 1)
    np.testing.assert_allclose(A.matvec(z), dense @ z, atol=10 * tolerance)
    assert isinstance(A, LinearOperator)


# -- quadratic --------------------------------------------------------------------------------------------------------


@given(seeds)
def test_quadratic_against_its_definition(seed):
    rng = np.random.default_rng(seed)
    n, B, X = 6, symmetric(seed, 6, 1.0), rng.standard_normal((6, 2))
    W = np.abs(symmetric(seed + 1, n, 0.5)) + np.eye(n)
    C = symmetric(seed + 2, n, 1.0)

    def sandwich(X, Z):  # 𝒜Y = C²YC² is positive semidefinite
        return C @ C @ X @ (X.T @ (C @ C @ Z))

    Y = X @ X.T
    entrywise, both = 0.5 * np.sum(W * Y**2), 0.5 * np.sum((C @ Y @ C) ** 2)
    linear = np.sum(B * Y)
    for A, value, largest in (
        (None, 0.5 * np.sum(Y**2), 1.0),
        (W, entrywise, W.max()),
        (sp.csr_array(W), entrywise, W.max()),
        (sandwich, both, np.abs(np.linalg.eigvalsh(C)).max() ** 4),
    ):
        for form in (B, sp.csr_array(B)):
            loss = Quadratic(A, form)
            assert loss.value(X) == pytest.approx(value + linear, rel=1e-10)
            assert largest * (1 - 1e-9) <= loss.smoothness <= 1.02 * largest
            assert loss.curvature_at_zero == pytest.approx(max(0, np.linalg.eigvalsh(B)[-1]), abs=1e-9)
    operator = Quadratic(None, aslinearoperator(B), squared_norm=float(np.sum(B**2)))
    assert operator.value(X) == pytest.approx(0.5 * np.sum(Y**2) + linear, rel=1e-10)


def test_the_identity_is_least_squares():
    M = symmetric(0, 10, 1.0)
    X0 = planted(10, 3, 0)
    ours = minimize(Problem(Quadratic(None, -M)), X0, tol=1e-10)
    theirs = minimize(Problem(LeastSquares(M)), X0, tol=1e-10)
    assert ours.objective + 0.5 * np.sum(M**2) == pytest.approx(theirs.objective, rel=1e-9)


def test_the_relaxed_cut_of_a_pentagon():
    """Lovász: the relaxation of the five-cycle has the value (5/2)(1 + cos(π/5)) = 4.5225, the largest cut is 4."""
    ring = np.roll(np.eye(5), 1, axis=1)
    L = 2 * np.eye(5) - ring - ring.T
    rho = 1e3
    loss = Quadratic(rho * sp.eye_array(5), -L / 4 - rho * np.eye(5))
    X = minimize(Problem(loss), rank=3, tol=1e-9, random_state=0).X
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    assert np.sum(L / 4 * (X @ X.T)) == pytest.approx(2.5 * (1 + math.cos(math.pi / 5)), rel=1e-5)
    cuts = [x @ L @ x / 4 for x in np.array(np.meshgrid(*[[-1, 1]] * 5)).reshape(5, -1).T]
    assert max(cuts) == 4


def test_a_function_of_the_wrong_shape_is_named():
    loss = Quadratic(lambda X, Z: Z[:-1], np.eye(3))
    with pytest.raises(ValueError, match=r"A\(X, Z\) must return 𝒜\(XXᵀ\)Z, of Z's shape \(3, 1\), got \(2, 1\)"):
        loss.value(np.ones((3, 1)))
