"""How runs end: never converged above the best point seen, and never on an objective that falls without end."""

import dataclasses
import math

import numpy as np
import pytest

from quartic import Problem, minimize
from quartic.arrays.space import HOST
from quartic.compiled.quartics import minimize_quartic
from quartic.kernels import EuclideanKernel, GramKernel, NormKernel
from quartic.losses import (
    Anchored,
    Completion,
    Distances,
    LeastSquares,
    Line,
    Point,
    Quadratic,
    RawStress,
    Rectangular,
    Robust,
    Sensing,
    Smooth,
)
from quartic.penalties import L0, L1, Nonnegative, NonnegativeL1, NonnegativeRidge, Ridge
from quartic.solvers import ADMM, LBFGS, SOLVERS, NoLips, Solver, State
from quartic.solvers.registry import why_not

SMOOTH = ["auto", "lm", "ncg", "lbfgs", "tr", "inertial", "dyn-nolips", "gd"]


# -- lines ------------------------------------------------------------------------------------------------------------


def quartic(*coefficients):
    loss = LeastSquares(np.eye(2))
    return Line(loss.at(np.ones((2, 1))), coefficients, lambda t: loss.at(np.ones((2, 1))))


@pytest.mark.parametrize("share", [-1.0, -0.999, 1.0, 0.5, -1 - 1e-15])
@pytest.mark.parametrize("c4", [0.0, 1e-34, 1e-33, 1e-40, -1e-34])
def test_what_round_off_leaves_of_vanished_terms_is_no_minimiser(share, c4):
    """(t − 1)² − 1 with terms of round-off besides, c₃² ≤ 4c₂c₄ as for every sum of squares: down again at 1e16."""
    assert quartic(-2.0, 1.0, share * 2 * math.sqrt(abs(c4)), c4).minimizer() == pytest.approx(1.0)


def test_far_minimisers_that_are_there_are_taken():
    assert quartic(-1.0, 0.0, -1e-6, 1e-14).minimizer() == pytest.approx(7.5e7, rel=1e-3)
    assert quartic(-1e-8, 1.0, 0.0, 0.0).minimizer() == pytest.approx(5e-9)


def test_a_line_without_end_is_followed_far():
    assert quartic(-1.0, -1.0, 0.0, 0.0).minimizer() > 10
    assert quartic(-1.0, 0.0, 0.0, 0.0).minimizer() > 10
    assert quartic(1.0, 1.0, 0.0, 0.0).minimizer() == 0.0
    assert quartic(1.0, 1.0, 0.0, 0.0).minimizer(0.5) == 0.0


@pytest.mark.parametrize("size", [1e-300, 1e-150, 1.0, 1e120, 1e200, 1e300])
@pytest.mark.parametrize("tail", [1e-300, 1e-200, 1e-120, 1e-20])
def test_quartics_of_any_scale_without_overflow(size, tail):
    for c4, c3, c2, c1 in [
        (tail, 1.0, size, -1.0),
        (tail, size, -1.0, -1.0),
        (size, 1.0, tail, -1.0),
        (1.0, size, 0.0, -tail),
    ]:
        assert math.isfinite(minimize_quartic((c1, c2, c3, c4), 1e-14, math.inf, True))


# -- what is claimed -------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Hopeful(Solver):
    """Gradient descent whose points carry a millionth of the gradient, as if what they carry had drifted."""

    name = "hopeful"

    def step(self, problem, state):
        new = problem.loss.at(state.point.X - 0.05 * state.point.gradient)
        return State(Point(new.X, new.value, 1e-6 * new.gradient))


def test_convergence_is_believed_of_a_fresh_gradient_only():
    loss, X0 = LeastSquares(np.diag([3.0, 2.0, 1.0])), np.ones((3, 2)) + np.eye(3, 2)
    result = minimize(Problem(loss), X0, solver=Hopeful(), tol=1e-3)
    assert result.success
    assert result.n_iter > 5
    assert np.linalg.norm(loss.gradient(result.X)) <= 1e-3 * np.linalg.norm(loss.gradient(X0))


def test_the_trust_region_grows_where_its_model_is_good():
    """Its first radius is a quarter of ‖X0‖: from a start this small it must double twenty times to get anywhere."""
    loss, X0 = LeastSquares(np.diag([3.0, 2.0, 1.0])), 1e-6 * (np.ones((3, 2)) + np.eye(3, 2))
    assert minimize(Problem(loss), X0, solver="tr", tol=1e-6, max_iter=100).success


# -- at X = 0 ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", [None, Ridge(0.1), Nonnegative(), NonnegativeRidge(0.1)], ids=str)
@pytest.mark.parametrize("n", [4, 7])
@pytest.mark.parametrize("kind", ["robust", "smooth"])
def test_a_first_step_as_long_as_x_itself_does_not_end_in_the_saddle_at_zero(kind, n, penalty):
    """From equal rows the gradient is parallel to X: a step of X's own length leads to 0, or to round-off of it."""
    if kind == "robust":
        loss = Robust(np.full((n, n), 0.6), "pseudo-huber", 50.0)
    else:
        loss = Smooth(lambda X: 0.5 * np.sum((X @ X.T - 0.6) ** 2), lambda X: (X @ X.T - 0.6) @ X, n=n)
    result = minimize(Problem(loss, penalty), np.full((n, 1), 1.3), solver="lbfgs", tol=1e-6)
    assert result.success
    drawn = 0.0 if penalty in (None, Nonnegative()) else 0.05 / n
    np.testing.assert_allclose(result.X**2, 0.6 - drawn, rtol=1e-5)


@pytest.mark.parametrize("solver", ["lbfgs", "ncg", "tr", "scaledgd"])
def test_a_run_that_is_led_to_the_saddle_at_zero_goes_on_or_says_so(solver):
    """On the line from an eigenvector to zero, 0 is lowest; there XᵀX has no inverse. Round-off may lead on."""
    path = LeastSquares(np.diag([-1.0, -1.0], 1) + np.diag([-1.0, -1.0], -1))
    result = minimize(Problem(path), np.array([[1.0], [math.sqrt(2)], [1.0]]), solver=solver, tol=1e-6)
    if result.success:
        assert result.objective == pytest.approx(1.0)
    else:
        assert "stalled at X = 0, a saddle from which the objective falls" in result.message


def test_a_metric_of_nothing_is_that_of_the_gradient():
    np.testing.assert_array_equal(HOST.regular_inverse(np.zeros((2, 2)), 1e-3), np.eye(2))


@dataclasses.dataclass(frozen=True)
class Shrinking(Solver):
    name = "shrinking"

    def step(self, problem, state):
        return State(problem.loss.at(1e-12 * state.point.X))


def test_next_to_nothing_is_no_more_believed_than_zero():
    """At an X of 1e-12 the gradient has vanished, and so it is next to every saddle."""
    result = minimize(Problem(LeastSquares(np.eye(3))), np.ones((3, 1)), solver=Shrinking(), tol=1e-6, max_iter=3)
    assert result.status == "max_iter"
    nothing_better = minimize(Problem(LeastSquares(-np.eye(3))), np.ones((3, 1)), solver=Shrinking(), tol=1e-6)
    assert nothing_better.success


@pytest.mark.parametrize("solver", ["gd", "lbfgs", "tr", "ncg", "inertial", "nolips"])
def test_a_run_on_its_way_out_of_zero_goes_on(solver):
    """The gradient is within the tolerance since X is small, not since it is stationary."""
    problem = Problem(LeastSquares(np.eye(3)))
    result = minimize(problem, np.full((3, 1), 1e-7), solver=solver, tol=1e-3, reference=1.0)
    assert result.success
    assert result.objective == pytest.approx(1.0, abs=1e-3)


def test_an_answer_next_to_zero_is_believed_where_the_objective_has_a_kink_there():
    """Raw stress falls from 0 as −d‖x_i − x_j‖, and a strong ridge ends that at lengths of d/ρ."""
    pairs = np.transpose(np.triu_indices(5, 1))
    for seed in range(4):
        distances = np.sqrt(np.random.default_rng(seed).random(len(pairs)))
        problem = Problem(RawStress(pairs, distances, n_points=5), Ridge(1e5))
        result = minimize(problem, rank=2, tol=1e-6, random_state=seed, max_iter=100)
        assert result.success


@pytest.mark.parametrize("penalty", [Nonnegative(), NonnegativeL1(0.1), NonnegativeRidge(0.1)], ids=str)
@pytest.mark.parametrize("kind", ["sensing", "quadratic", "smooth"])
def test_a_bound_that_is_reached_is_met(kind, penalty):
    """X + tD at the t where an entry meets zero is 1e-17 in half of the cases: such an entry would count as free."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        A, b, B = rng.standard_normal((15, 3)), rng.standard_normal(15) ** 2, rng.standard_normal((3, 3))
        B, X0 = (B + B.T) / 2, np.abs(rng.standard_normal((3, 1)))
        if kind == "sensing":
            loss = Sensing(A, b)
        elif kind == "quadratic":
            loss = Quadratic(None, B)
        else:
            loss = Smooth(lambda X, B=B: 0.5 * np.sum((X @ X.T - B) ** 2), lambda X, B=B: (X @ X.T - B) @ X, n=3)
        result = minimize(Problem(loss, penalty), X0, solver="lbfgs", tol=1e-6, max_iter=200)
        assert result.success or "X = 0" in result.message, (seed, result.message)
        assert not ((result.X > 0) & (result.X < 1e-14)).any(), seed


# -- above the best ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SMOOTH)
def test_weighted_single_rows_and_columns_are_fitted(solver):
    for seed in range(30):
        rng = np.random.default_rng(seed)
        m = int(rng.integers(2, 9))
        A, W = rng.standard_normal((m, 1)), rng.uniform(0.1, 3, (m, 1))
        if seed == 0:
            A, W = np.array([[1.0], [2.0]]), np.array([[1.0], [3.0]])
        if seed % 2:
            A, W = A.T, W.T
        result = minimize(Problem(Rectangular(A, weights=W)), rank=1, random_state=seed, solver=solver)
        assert result.success
        assert result.objective <= 1e-4, (seed, result.message)
        assert result.objective <= result.history.objective.min() * (1 + 1e-9) + 1e-12
        assert np.abs(result.X).max() < 100


@dataclasses.dataclass(frozen=True)
class Wanders(Solver):
    """Goes down for a while, then jumps to a stationary point that is higher, and stays."""

    name = "wanders"

    def init(self, problem, X0):
        return State(problem.loss.at(X0))

    def step(self, problem, state):
        p = state.point
        if p.value < 0.7:
            return State(problem.loss.at(np.array([[0.0], [0.0], [math.sqrt(0.1)]])))
        return State(problem.loss.at(p.X - 0.02 * p.gradient))


@pytest.mark.parametrize("length", [1.0, 1e15])
def test_a_stationary_point_above_the_best_is_no_convergence(length):
    """Whatever the solver: M = diag(1, 0.5, 0.1) has a stationary point for each eigenvalue."""
    M = np.diag([1.0, 0.5, 0.1]) * length**2
    result = minimize(Problem(LeastSquares(M)), length * np.array([[0.6], [0.1], [0.1]]), solver=Wanders())
    if length == 1.0:
        assert result.status == "stalled"
        assert "best point seen" in result.message
    assert not result.success
    assert result.objective == pytest.approx(result.history.objective.min(), rel=1e-9)


def test_a_claim_at_the_round_off_of_a_huge_point_is_no_convergence():
    """The round-off of the gradient grows with ‖X‖; a point so far out is not stationary for that."""

    @dataclasses.dataclass(frozen=True)
    class Jumps(Wanders):
        def step(self, problem, state):
            X = np.array([[2e15], [4e15], [1.0 / 2e15 * 0.3]])
            return State(problem.loss.at(X))

    loss = Rectangular(np.array([[1.0], [2.0]]), weights=np.array([[1.0], [3.0]]))
    result = minimize(Problem(loss), np.array([[1.0], [1.5], [1.1]]), solver=Jumps(), max_iter=20)
    assert not result.success
    assert np.abs(result.X).max() < 10


def test_round_off_far_above_the_start_is_no_convergence():
    """A fixed step diverges where slopes are bounded: the round-off of XXᵀ hides them there, not at the best."""
    M, X0 = np.eye(7) + 0.5, np.abs(np.random.default_rng(1).standard_normal((7, 2)))
    for kind in ("huber", "pseudo-huber", "logcosh"):
        problem = Problem(Robust(M, kind, 0.3), kernel=EuclideanKernel())
        result = minimize(problem, X0, solver="nolips", tol=1e-6, max_iter=1500)
        assert result.objective <= result.history.objective[0]
        assert not result.success, result.message


@pytest.mark.filterwarnings("error")
def test_a_run_that_diverges_causes_no_warning():
    A = np.random.default_rng(0).random((4, 3))
    for loss in (Rectangular(A), Smooth(lambda Y: 0.5 * np.sum((Y - 1) ** 2), lambda Y: Y - 1, of="Y", n=7)):
        problem = Problem(loss, kernel=EuclideanKernel())
        result = minimize(problem, 3 * np.ones((7, 2)) + np.eye(7, 2), solver="nolips", max_iter=500)
        assert result.status == "non_finite"


def test_stalling_in_single_precision_far_above_round_off_is_no_convergence():
    rng = np.random.default_rng(2)
    M = rng.random((40, 40))
    problem = Problem(LeastSquares((M + M.T).astype(np.float32) / 2), Nonnegative())
    result = minimize(problem, rank=5, solver=ADMM(), tol=1e-7, max_iter=3000, random_state=2)
    best = minimize(problem, rank=5, solver=LBFGS(), tol=1e-7, max_iter=3000, random_state=2)
    assert best.success
    ratio = result.stationarity / problem.loss.at(result.X).rounding
    assert result.success == (ratio < 16), (result, ratio)
    assert ratio > 16  # else this case shows nothing


# -- without end ------------------------------------------------------------------------------------------------------

FREE_CORNER = np.array([[1.0, 1.0], [1.0, 0.0]])
ENDLESS = {
    "one entry": (FREE_CORNER, -np.eye(2)),
    "two entries": (np.array([[1.0, 0, 1], [0, 0, 0], [1, 0, 0]]), np.array([[1.0, 0, 0], [0, 0.5, -1], [0, -1, 0.5]])),
    "as a function": (lambda X, Z: (FREE_CORNER * (X @ X.T)) @ Z, -np.eye(2)),
    "large": (1e100 * FREE_CORNER, -1e100 * np.eye(2)),
}


@pytest.mark.parametrize("case", ENDLESS)
@pytest.mark.parametrize("solver", [name for name in SMOOTH if name != "lm"])
def test_an_objective_without_a_minimiser_is_unbounded(case, solver):
    for seed in range(2):
        result = minimize(Problem(Quadratic(*ENDLESS[case])), rank=1, random_state=seed, solver=solver, max_iter=1000)
        assert result.status == "unbounded", result.message
        assert "no minimiser" in result.message
        assert not result.success


@pytest.mark.parametrize("penalty", [Nonnegative(), L1(0.1), L0(0.1), NonnegativeL1(0.1), NonnegativeRidge(0.1)])
def test_unbounded_with_penalties_that_do_not_hold_it(penalty):
    result = minimize(Problem(Quadratic(FREE_CORNER, -np.eye(2)), penalty), rank=1, random_state=0, max_iter=2000)
    assert not result.success
    if penalty.nonnegative:
        assert result.status == "unbounded", result.message


def test_bounded_quadratics_are_not_called_unbounded():
    """A ridge that holds what is free, or a small weight, or the sign of B: then there is a minimiser."""
    held = minimize(Problem(Quadratic(FREE_CORNER, -np.eye(2)), Ridge(2.5)), rank=1, random_state=0, tol=1e-6)
    assert held.success, held.message
    assert held.objective >= -1e-6
    small = np.array([[1.0, 1.0], [1.0, 1e-6]])
    deep = minimize(Problem(Quadratic(small, -np.eye(2))), rank=1, random_state=1, solver="ncg", tol=1e-8)
    assert deep.success, deep.message
    assert deep.objective == pytest.approx(-0.5e6) or deep.objective == pytest.approx(-0.5)
    callable_ = minimize(Problem(Quadratic(lambda X, Z: (small * (X @ X.T)) @ Z, -np.eye(2))), rank=1, random_state=1)
    assert callable_.success, callable_.message
    up = minimize(Problem(Quadratic(FREE_CORNER, np.diag([-1.0, 1.0]))), rank=1, random_state=0, tol=1e-8)
    assert up.success
    assert up.objective == pytest.approx(-0.5)


def test_the_infimum_of_a_quadratic_is_a_bound():
    rng = np.random.default_rng(0)
    for seed in range(20):
        A, B = rng.random((4, 4)), rng.standard_normal((4, 4))
        loss = Quadratic(A + A.T, B + B.T)
        assert loss.infimum > -math.inf
        assert minimize(Problem(loss), rank=3, random_state=seed).objective >= loss.infimum
    assert Quadratic(FREE_CORNER, -np.eye(2)).infimum == -math.inf


# -- zero -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1.0, 1e-100, 1e100])
def test_where_zero_is_the_answer_the_referee_measures_it(scale):
    """∇F(0) = 0 does not mean that the data are zero: here a ridge balances them."""
    loss = Completion([0, 1], [0, 1], [0.5 * scale, 0.5 * scale], n=2, ridge=scale)
    result = minimize(Problem(loss), rank=1)
    assert result.success
    assert not result.X.any()
    assert result.objective == pytest.approx(0.25 * scale**2)
    assert result.history.objective[-1] == result.objective
    nothing = minimize(Problem(LeastSquares(np.zeros((3, 3)))), rank=2)
    assert nothing.objective == 0.0
    assert nothing.success


# -- kernels that do without constants --------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-120, 1e120])
@pytest.mark.parametrize("solver", ["dyn-nolips", "inertial"])
def test_the_euclidean_kernel_at_any_scale(scale, solver):
    M = np.kron(np.eye(3), np.ones((4, 4)))
    kernel = EuclideanKernel()
    result = minimize(Problem(LeastSquares(scale * M), Nonnegative(), kernel), rank=3, solver=solver, random_state=0)
    assert result.success, result.message
    assert result.objective < 1e-4 * scale**2
    assert 1e-3 < result.history.step[-1] * scale < 1e3  # a step has the unit of X²/Ψ


def test_a_fixed_euclidean_step_is_in_the_users_units():
    M = np.kron(np.eye(3), np.ones((4, 4)))
    runs = []
    for scale in (1.0, 2.0**400):
        problem = Problem(LeastSquares(scale * M), Nonnegative(), EuclideanKernel())
        X0 = math.sqrt(scale) * np.random.default_rng(0).random((12, 3))
        runs.append(minimize(problem, X0, solver=NoLips(0.05 / scale), tol=0, max_iter=5))
    np.testing.assert_array_equal(runs[1].X, 2.0**200 * runs[0].X)
    np.testing.assert_allclose(runs[1].history.step[1:], 0.05 * 2.0**-400, rtol=1e-15)


@pytest.mark.parametrize("scale", [1e-24, 1e-15, 1.0, 1e24])
def test_raw_stress_of_small_distances_is_no_saddle_at_zero(scale):
    """Its slope at 0 is of the size of the distances: beside it their squares vanish where they are small."""
    points = np.random.default_rng(0).standard_normal((12, 2))
    pairs = np.array(np.triu_indices(12, 1)).T
    loss = RawStress(pairs, scale * (np.linalg.norm(points[pairs[:, 0]] - points[pairs[:, 1]], axis=1) + 0.5))
    X0 = scale * np.random.default_rng(1).standard_normal((12, 2))
    result = minimize(Problem(loss), X0, solver="smacof", tol=1e-6)
    assert result.success, result.message


@pytest.mark.parametrize("penalty", [L1(1e-3), L0(1e-2), Nonnegative(), NonnegativeL1(1e-3)], ids=repr)
@pytest.mark.parametrize("solver", ["auto", "dyn-nolips"])
def test_raw_stress_takes_any_penalty(penalty, solver):
    points = np.random.default_rng(0).standard_normal((12, 2))
    pairs = np.array(np.triu_indices(12, 1)).T
    loss = RawStress(pairs, np.linalg.norm(points[pairs[:, 0]] - points[pairs[:, 1]], axis=1))
    result = minimize(Problem(loss, penalty), rank=2, solver=solver, random_state=0)
    assert result.success, result.message
    with pytest.raises(ValueError, match="infinite"):
        minimize(Problem(loss, penalty), rank=2, solver="nolips")


@pytest.mark.parametrize("kind", [NormKernel, GramKernel])
@pytest.mark.parametrize("tight", [True, False])
@pytest.mark.parametrize("size", [0.1, 1.0, 100.0])
def test_anchored_losses_are_one_smooth(kind, tight, size):
    rng = np.random.default_rng(0)
    T = size * rng.standard_normal((8, 2))
    pairs = np.array(np.triu_indices(8, 1)).T
    whole = Distances(pairs, 0.01 * np.sum((T[pairs[:, 0]] - T[pairs[:, 1]]) ** 2, axis=1))
    loss = Anchored(whole, [0, 1, 2], T[:3])
    kernel = kind.for_loss(loss, tight=tight)
    for _ in range(200):
        X = size * 10 ** rng.uniform(-4, 1) * rng.standard_normal((5, 2))
        Y = X + size * 10 ** rng.uniform(-4, 1) * rng.standard_normal((5, 2))
        assert loss.move(loss.at(X), Y).remainder <= kernel.divergence(Y, X) * (1 + 1e-9)


def test_every_solver_is_honest_on_one_hard_problem():
    """No solver, whatever its kind, ends as converged above what its own history shows."""
    rng = np.random.default_rng(0)
    M = rng.standard_normal((20, 20))
    problem = Problem(LeastSquares(M + M.T), Nonnegative())
    for name in SOLVERS:
        if why_not(SOLVERS[name](), problem) is not None:
            continue
        result = minimize(problem, rank=3, solver=name, random_state=0, max_iter=500)
        if result.success:
            lowest = result.history.objective.min()
            assert result.objective <= lowest * (1 + 1e-9), name
