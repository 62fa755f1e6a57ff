"""Robust losses: against brute force, and the fit least squares cannot make."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import aslinearoperator
from scipy.special import huber, pseudo_huber

from quartic import Problem, minimize
from quartic.losses import LeastSquares, Robust
from quartic.losses.other.robust import KINDS
from quartic.penalties import Nonnegative
from strategies import seeds, symmetric


def rho(kind, e, delta):
    """By SciPy, and by the definition."""
    if kind == "logcosh":
        return delta**2 * np.logaddexp(e / delta, -e / delta) - delta**2 * np.log(2)
    return (huber if kind == "huber" else pseudo_huber)(delta, e)


@settings(max_examples=15)
@given(seeds, st.sampled_from(KINDS), st.sampled_from([0.05, 1.0, 20.0]))
def test_value_against_scipy(seed, kind, delta):
    M = symmetric(seed, 9)
    X = np.random.default_rng(seed).standard_normal((9, 3))
    E = X @ X.T - M
    for form in (M, sp.csr_array(M)):
        assert Robust(form, kind, delta).value(X) == pytest.approx(np.sum(rho(kind, E, delta)), rel=1e-10)
    W = np.abs(symmetric(seed + 1, 9, 0.4)) + np.eye(9)
    known = Robust(np.where(W > 0, M, np.nan), kind, delta, weights=W)
    assert known.value(X) == pytest.approx(np.sum(W * rho(kind, E, delta)), rel=1e-10)
    masked = Robust(M, kind, delta, mask=W > 0)
    assert masked.value(X) == pytest.approx(np.sum(rho(kind, E, delta)[W > 0]), rel=1e-10)


def test_the_names_are_those_of_the_passes():
    from quartic.losses.other import robust_passes as robust

    assert KINDS == robust.KINDS


def test_blocks_do_not_show(monkeypatch):
    """The same in blocks of 4 rows, which do not divide 10, as in one."""
    loss = Robust(symmetric(0, 10), "pseudo-huber", 0.5)
    X = np.random.default_rng(0).standard_normal((10, 3))
    whole = loss.at(X)
    monkeypatch.setattr("quartic.losses.other.robust._BLOCK", 4)
    assert loss.at(X).value == pytest.approx(whole.value, rel=1e-12)
    np.testing.assert_allclose(loss.at(X).gradient, whole.gradient, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_large_delta_is_least_squares(kind):
    M = symmetric(3, 8)
    X = np.random.default_rng(1).standard_normal((8, 2))
    assert Robust(M, kind, 1e4).value(X) == pytest.approx(LeastSquares(M).value(X), rel=1e-6)
    np.testing.assert_allclose(Robust(M, kind, 1e4).gradient(X), LeastSquares(M).gradient(X), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("delta", [1e8, 1e16, 1e200])
@pytest.mark.parametrize("known", [None, np.ones((8, 8))])
def test_delta_beyond_all_errors_costs_no_digits(kind, delta, known):
    """The default of 1 is that for entries of 1e-16: neither value nor what counts as round-off may hang on it."""
    M = np.array(symmetric(3, 8))
    X = np.random.default_rng(1).standard_normal((8, 2))
    robust, plain = Robust(M, kind, delta, weights=known), LeastSquares(M, weights=known)
    assert robust.value(X) == pytest.approx(plain.value(X), rel=1e-12)
    assert robust.move(robust.at(X), X + 1e-3).remainder == pytest.approx(
        plain.move(plain.at(X), X + 1e-3).remainder, rel=1e-9
    )
    result = minimize(Problem(robust), X, tol=1e-6)
    assert "of the reference" in result.message
    assert result.objective == pytest.approx(minimize(Problem(plain), X, tol=1e-9).objective, rel=1e-9)


def spoiled(n=150, rank=3, share=0.05, seed=0, nonnegative=False):
    """Return a matrix of low rank, and the same with gross errors in a share of its entries."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, rank)) if nonnegative else rng.standard_normal((n, rank))
    M = X @ X.T
    wrong = np.triu(rng.random((n, n)) < share)
    errors = np.where(wrong, rng.choice([-1, 1], (n, n)) * rng.uniform(10, 50, (n, n)), 0)
    return M, M + errors + np.triu(errors, 1).T


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("solver", ["auto", "dyn-nolips", "inertial", "gd"])
def test_gross_errors_do_not_rule(kind, solver):
    M, N = spoiled()
    X = minimize(Problem(Robust(N, kind, 0.05)), rank=3, solver=solver, tol=1e-6, random_state=0).X
    assert np.linalg.norm(X @ X.T - M) < 0.01 * np.linalg.norm(M)
    Y = minimize(Problem(LeastSquares(N)), rank=3, tol=1e-6, random_state=0).X
    assert np.linalg.norm(Y @ Y.T - M) > 0.3 * np.linalg.norm(M)


def test_nonnegative_and_masked():
    M, N = spoiled(nonnegative=True)
    mask = np.triu(np.random.default_rng(1).random(M.shape) < 0.4)
    loss = Robust(np.where(mask | mask.T, N, np.nan), "huber", 0.02, mask=mask | mask.T)
    X = minimize(Problem(loss, Nonnegative()), rank=3, tol=1e-6, random_state=0).X
    assert (X >= 0).all()
    assert np.linalg.norm(X @ X.T - M) < 0.02 * np.linalg.norm(M)


def test_a_run_goes_on_from_a_checkpoint(tmp_path):
    _, N = spoiled(40)
    problem = Problem(Robust(N, "pseudo-huber", 0.1))
    whole = minimize(problem, rank=3, tol=1e-9, max_iter=12, random_state=0)
    for limit in (5, 12):
        part = minimize(problem, rank=3, tol=1e-9, max_iter=limit, random_state=0, checkpoint=tmp_path / "run.npz")
    np.testing.assert_array_equal(part.X, whole.X)
    with pytest.raises(ValueError, match="data"):
        minimize(Problem(Robust(N, "pseudo-huber", 0.2)), rank=3, tol=1e-9, checkpoint=tmp_path / "run.npz")


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Robust(np.eye(3), "l2"), ValueError, "loss must be one of 'huber', 'pseudo-huber', 'logcosh'"),
        (lambda: Robust(np.eye(3), delta=0), ValueError, "delta must be positive"),
        (lambda: Robust(np.eye(3), weights=np.eye(3), mask=np.eye(3)), ValueError, "weights or mask, not both"),
        (lambda: Robust(aslinearoperator(np.eye(3))), TypeError, "needs the entries of M"),
        (lambda: Robust(1e20 * np.eye(3)), ValueError, "delta = 1.0 is below the round-off .* in the units of M"),
        (lambda: Robust(np.ones((2, 3))), ValueError, "square symmetric"),
        (lambda: Robust(np.full((2, 2), np.nan)), ValueError, "finite"),
    ],
)
def test_bad_data(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_solvers_that_need_quartic_lines_say_so():
    problem = Problem(Robust(np.eye(4)))
    with pytest.raises(ValueError, match=r"quartic on lines, but Robust is not.*solvers that fit: auto"):
        minimize(problem, rank=2, solver="ncg")
