"""Rectangular factorisation: against brute force, the SVD, scikit-learn and a known completion."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

from quartic import Problem, certify, minimize
from quartic.init import rectangular_start
from quartic.losses import LeastSquares, MaskedRectangular, Rectangular
from quartic.losses.base import Loss
from quartic.penalties import Nonnegative, NonnegativeL1, Ridge

RNG = np.random.default_rng(0)
A = RNG.random((11, 7))
W = RNG.random((11, 7)) * (RNG.random((11, 7)) < 0.6)


@pytest.mark.parametrize("form", [np.asarray, np.asfortranarray, sp.csr_array, sp.coo_array, sp.csc_matrix])
def test_value_against_the_definition(form):
    U, V = RNG.standard_normal((11, 3)), RNG.standard_normal((7, 3))
    X = np.vstack([U, V])
    loss = Rectangular(form(A))
    assert loss.value(X) == pytest.approx(0.5 * np.sum((A - U @ V.T) ** 2), rel=1e-12)
    np.testing.assert_array_equal(loss.factors(X)[0], U)
    np.testing.assert_array_equal(loss.factors(X)[1], V)
    for weights in (W, sp.csr_array(W), sp.coo_array(W)):
        known = Rectangular(form(A), weights=weights)
        assert isinstance(known, MaskedRectangular)
        assert known.value(X) == pytest.approx(0.5 * np.sum(W * (A - U @ V.T) ** 2), rel=1e-12)
        np.testing.assert_allclose(known.factors(X)[1], V)
    # weights by place as by name, and none at all
    assert Rectangular(form(A), W).value(X) == pytest.approx(known.value(X), rel=1e-12)
    assert Rectangular(form(A), None).value(X) == loss.value(X) == Rectangular(A=form(A), weights=None).value(X)


def test_constants_are_those_of_the_bordered_matrix():
    bordered = np.block([[np.zeros((11, 11)), A], [A.T, np.zeros((7, 7))]])
    loss = Rectangular(A)
    assert loss.gradient_norm_at_zero == pytest.approx(np.linalg.norm(0.5 * bordered))
    sigma = np.linalg.norm(A, 2)
    assert 0.5 * sigma <= loss.curvature_at_zero <= 0.5 * sigma * 1.05
    known = Rectangular(A, weights=W)
    assert known.smoothness == W.max() / 2
    assert known.gradient_norm_at_zero == pytest.approx(np.linalg.norm(W * A) / np.sqrt(2))
    assert known.curvature_at_zero == pytest.approx(np.linalg.norm(W * A, 2) / 2, rel=1e-6)


def test_operator_of_the_gradient():
    X, V = RNG.standard_normal((18, 3)), RNG.standard_normal((18, 2))
    R = X[:11] @ X[11:].T - A
    for loss, residual in ((Rectangular(A), R), (Rectangular(A, weights=W), W * R)):
        Z = 0.5 * np.block([[np.zeros((11, 11)), residual], [residual.T, np.zeros((7, 7))]])
        for operator in (loss.gradient_operator(loss.at(X)), Loss.gradient_operator(loss, loss.at(X))):
            np.testing.assert_allclose(operator(V), Z @ V, atol=1e-12)


@pytest.mark.parametrize("weights", [None, np.ones((11, 7))])
@pytest.mark.parametrize("solver", ["auto", "lbfgs", "ncg", "inertial", "tr"])
def test_without_penalty_it_is_the_truncated_svd(weights, solver):
    loss = Rectangular(A, weights=weights)
    result = minimize(Problem(loss), rank=3, solver=solver, tol=1e-8, max_iter=20_000, random_state=1)
    tail = np.linalg.svd(A, compute_uv=False)[3:]
    assert result.objective == pytest.approx(0.5 * np.sum(tail**2), rel=1e-6)


def test_digits_within_one_per_cent_of_the_best_of_ten_of_scikit_learn():
    from sklearn.datasets import load_digits
    from sklearn.decomposition import NMF

    D = load_digits().data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        best = min(
            0.5 * NMF(10, init="random", random_state=k, max_iter=500).fit(D).reconstruction_err_ ** 2
            for k in range(10)
        )
    loss = Rectangular(D)
    problem = Problem(loss, Nonnegative())
    ours = min(minimize(problem, rank=10, tol=1e-4, random_state=k).objective for k in range(3))
    assert ours <= 1.01 * best


def test_completion_of_known_entries():
    rng = np.random.default_rng(3)
    B = rng.standard_normal((120, 3)) @ rng.standard_normal((80, 3)).T
    known = rng.random(B.shape) < 0.3
    loss = Rectangular(np.where(known, B, np.nan), weights=known)
    for start in (None, rectangular_start):
        X = minimize(Problem(loss), start, rank=3, tol=1e-10, random_state=0).X
        U, V = loss.factors(X)
        assert np.linalg.norm(U @ V.T - B) <= 1e-6 * np.linalg.norm(B)


def test_a_ridge_is_the_nuclear_norm():
    """min ½‖A − B‖² + ρ‖B‖_* is soft-thresholding of singular values, and the certificate agrees."""
    rho = 0.7
    problem = Problem(Rectangular(A), Ridge(rho))
    result = minimize(problem, rank=7, tol=1e-9, random_state=0)
    left, sigma, right = np.linalg.svd(A, full_matrices=False)
    B = (left * np.maximum(sigma - rho, 0)) @ right
    U, V = problem.loss.factors(result.X)
    np.testing.assert_allclose(U @ V.T, B, atol=1e-5)
    certificate = certify(problem, result.X)
    assert certificate.holds
    assert certificate.global_bound
    exact = 0.5 * np.sum((A - B) ** 2) + rho * np.maximum(sigma - rho, 0).sum()
    assert certificate.lower_bound <= exact * (1 + 1e-9)
    assert result.objective == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("penalty", [None, Nonnegative(), NonnegativeL1(0.01)])
@pytest.mark.parametrize("weights", [None, W])
def test_the_start_is_feasible_balanced_and_better_than_a_random_one(penalty, weights):
    problem = Problem(Rectangular(A, weights=weights), penalty)
    X = rectangular_start(problem, 3, np.random.default_rng(0))
    assert X.shape == (18, 3)
    random = problem.loss.random_start(3, problem.penalty.nonnegative, np.random.default_rng(0))
    assert problem.loss.value(X) < problem.loss.value(random)
    assert problem.loss.value(X) <= min(problem.loss.value(0.95 * X), problem.loss.value(1.05 * X))
    if problem.penalty.nonnegative:
        assert (X > 0).all()
    else:
        U, V = X[:11], X[11:]
        np.testing.assert_allclose(U.T @ U, V.T @ V, atol=1e-8)
    assert rectangular_start(problem, 9, np.random.default_rng(0)).shape == (18, 9)  # more than min(m, n)


def test_the_start_wants_a_rectangular_loss():
    with pytest.raises(TypeError, match="needs a Rectangular loss, but the loss is LeastSquares"):
        rectangular_start(Problem(LeastSquares(np.eye(3))), 2, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Rectangular(np.array([[1.0, np.nan]])), ValueError, r"A\[0, 1\] is nan.*weights=np.isfinite\(A\)"),
        (lambda: Rectangular(sp.csr_array([[0.0, np.inf]])), ValueError, r"A\[0, 1\] is inf"),
        (lambda: Rectangular(np.ones(3)), ValueError, "2-D"),
        (lambda: Rectangular(np.ones((0, 3))), ValueError, "at least one row"),
        (lambda: Rectangular(np.ones((2, 2)) * 1j), TypeError, "real numbers"),
        (lambda: Rectangular(aslinearoperator(A)), TypeError, "LinearOperator"),
        (lambda: Rectangular(aslinearoperator(A), weights=W), TypeError, "need the entries"),
        (lambda: Rectangular(A, weights=W.T), ValueError, "same shape"),
        (lambda: Rectangular(A, weights=-W), ValueError, "nonnegative"),
        (lambda: Rectangular(A, weights=0 * W), ValueError, "no entry"),
        (lambda: Rectangular(np.full((2, 2), np.nan), weights=np.eye(2)), ValueError, r"A\[0, 0\] is nan, but weights"),
        (lambda: Rectangular(A).factors(np.ones((3, 2))), ValueError, r"m \+ n = 11 \+ 7 rows"),
    ],
)
def test_bad_data(make, error, message):
    with pytest.raises(error, match=message):
        make()
