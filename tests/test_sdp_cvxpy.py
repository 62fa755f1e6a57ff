"""The solver in CVXPY, against Clarabel."""

import numpy as np
import pytest

cp = pytest.importorskip("cvxpy", reason="CVXPY is not installed")
pytest.importorskip("clarabel", reason="Clarabel is not installed")

from quartic.sdp import CvxpySolver  # noqa: E402
from quartic.sdp.cvxpy_solver import _AsDual, _AsPrimal  # noqa: E402


def maxcut():
    rng = np.random.default_rng(0)
    W = rng.random((8, 8))
    W = W + W.T
    Y = cp.Variable((8, 8), PSD=True)
    return cp.Problem(cp.Minimize(cp.trace(W @ Y)), [cp.diag(Y) == 1])


def matrix_inequality():
    rng = np.random.default_rng(1)
    F = [B + B.T for B in rng.standard_normal((4, 6, 6))]
    x = cp.Variable(3)
    return cp.Problem(cp.Minimize(cp.sum(x)), [F[0] + 9 * np.eye(6) + sum(x[k] * F[k + 1] for k in range(3)) >> 0])


def mixed_cones():
    rng = np.random.default_rng(2)
    G = rng.standard_normal((3, 3))
    Y, t = cp.Variable((3, 3), symmetric=True), cp.Variable()
    cones = [Y >> 0, cp.norm(Y[0]) <= t, cp.trace(Y) == 2, Y[0, 1] >= 0.1, t <= 5]
    return cp.Problem(cp.Minimize(cp.trace((G + G.T) @ Y) + t), cones)


def nuclear_norm():
    M = cp.Variable((3, 4))
    return cp.Problem(cp.Minimize(cp.normNuc(M)), [M[0] == [1, 2, 3, 4], M[1, 1] == 1, M[2, 2] == -1])


def linear():
    x = cp.Variable(4, nonneg=True)
    return cp.Problem(cp.Maximize(x @ [1, 2, 3, 4]), [cp.sum(x) <= 1, x[3] <= 0.25])


def least_squares():
    rng = np.random.default_rng(3)
    x = cp.Variable(3)
    return cp.Problem(cp.Minimize(cp.sum_squares(rng.standard_normal((6, 3)) @ x - rng.standard_normal(6))), [x >= 0])


MAKERS = [maxcut, matrix_inequality, mixed_cones, nuclear_norm, linear, least_squares]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("form", [None, _AsPrimal, _AsDual])
def test_the_same_answer_as_clarabel_in_both_forms(make, form, monkeypatch):
    if form is not None:  # whichever the solver would choose
        other = _AsDual if form is _AsPrimal else _AsPrimal
        monkeypatch.setattr(other, "n_constraints", property(lambda self: 10**9))
    ours, theirs = make(), make()
    theirs.solve(solver=cp.CLARABEL)
    ours.solve(solver=CvxpySolver())
    assert ours.status == "optimal"
    assert ours.value == pytest.approx(theirs.value, rel=1e-5, abs=1e-6)
    for constraint in ours.constraints:
        assert np.max(constraint.violation()) < 1e-5
    for mine, other in zip(ours.constraints, theirs.constraints, strict=True):
        if make is not nuclear_norm:  # whose multipliers are not unique
            assert np.allclose(mine.dual_value, other.dual_value, atol=2e-3)


def test_what_has_no_solution_or_no_cone_here():
    x = cp.Variable(2)
    problem = cp.Problem(cp.Minimize(x[0]), [x[0] >= 1, x[0] <= 0])
    problem.solve(solver=CvxpySolver())
    assert problem.status == "infeasible"
    problem = cp.Problem(cp.Minimize(x[0]), [x[0] <= 0])
    problem.solve(solver=CvxpySolver())
    assert problem.status == "unbounded"
    for hard in (
        cp.Problem(cp.Minimize(cp.sum(cp.exp(x)))),
        cp.Problem(cp.Minimize(cp.sum(cp.Variable(2, integer=True))), [x >= 0]),
    ):
        with pytest.raises(Exception, match=r"^[^\n]*\S"):
            hard.solve(solver=CvxpySolver())
