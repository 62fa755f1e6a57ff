"""Steps that are judged by an estimate, and origins that are never formed: the answers are those of the long way."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quartic import Problem, minimize
from quartic.datasets import planted_graph
from quartic.kernels import GramKernel, NormKernel
from quartic.losses import FullLeastSquares, LeastSquares, Loss
from quartic.losses.factor.loss import LeastSquaresMove, slope_of_step
from quartic.losses.factor.passes import Origin
from quartic.penalties import L1, Nonnegative, NonnegativeL1, NonnegativeRidge, Ridge, Zero
from quartic.solvers.inertial import _first_growth

PENALTIES = [Zero(), Nonnegative(), NonnegativeL1(0.3), NonnegativeRidge(0.4), Ridge(0.2)]


def problem_of(seed, penalty=None, n=60, size=1.0):
    generator = np.random.default_rng(seed)
    B = generator.random((n, n)) * size
    return Problem(LeastSquares(B + B.T), penalty or Nonnegative()).counted(), generator


@pytest.mark.parametrize("penalty", PENALTIES, ids=lambda g: type(g).__name__)
@given(st.integers(0, 10**6), st.sampled_from([1e-3, 1.0, 30.0]), st.sampled_from([0.0, 0.7]))
def test_the_estimate_is_as_good_as_it_says(penalty, seed, step, t):
    """Against the remainder in extended precision, for long steps and short ones, from points and from origins."""
    problem, generator = problem_of(seed, penalty)
    problem = Problem(problem.loss, penalty, NormKernel.for_loss(problem.loss, tight=False))
    loss, kernel = problem.loss, problem.kernel
    X, Z = generator.random((60, 5)), generator.random((60, 5))
    p = loss.extrapolate(loss.at(X), loss.at(Z), t) if t else loss.at(X)
    move = loss._measured(p, problem.bregman_step(p, step), None, curved=False)
    assert move.sums.curved is None
    found = move.estimate(slope_of_step(kernel, penalty, move, step))
    M, Y, W = (A.astype(np.longdouble) for A in (loss.matrix.M, p.X, move.point.X))
    S, D = Y.T @ Y, W - Y
    B = W.T @ W - S
    exact = (S * (D.T @ D)).sum() + (B * B).sum() / 2 - (M @ D * D).sum()
    assert abs(found.value - exact) <= found.error
    assert found.error <= 1e-10 * (abs(found.value) + float((S * S).sum()) + float((M @ Y * Y).sum()) / step)
    assert move.remainder == pytest.approx(float(exact), rel=1e-9)


def test_what_an_estimate_cannot_decide_is_worked_out(monkeypatch):
    """The same points whether every step is judged by its remainder or most by an estimate, to round-off and beyond."""
    problem, _ = problem_of(1, n=80)
    settings = {"solver": "inertial", "tol": 0.0, "max_iter": 400, "random_state": 0}
    estimates, remainders = [], []
    estimate, remainder = LeastSquaresMove.estimate, LeastSquaresMove.remainder.func
    monkeypatch.setattr(LeastSquaresMove, "estimate", lambda *a: estimates.append(1) or estimate(*a))
    monkeypatch.setattr(LeastSquaresMove.remainder, "func", lambda move: remainders.append(1) or remainder(move))
    lean = minimize(problem, rank=4, **settings)
    assert len(estimates) > 100
    assert len(remainders) > 20  # where steps have become short
    monkeypatch.setattr(
        FullLeastSquares, "trial", lambda loss, problem, p, step, ahead: Loss.trial(loss, problem, p, step)
    )
    estimates.clear()
    whole = minimize(problem, rank=4, **settings)
    assert not estimates
    np.testing.assert_array_equal(lean.history.objective[:100], whole.history.objective[:100])
    assert lean.objective == pytest.approx(whole.objective, rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "penalty",
    [Zero(), Nonnegative(), NonnegativeL1(0.003), NonnegativeRidge(0.02), Ridge(0.02)],
    ids=lambda g: type(g).__name__,
)
@pytest.mark.parametrize("solver", ["inertial", "dyn-nolips"])
def test_the_short_way_and_the_long_way_agree(solver, penalty, dtype, monkeypatch):
    """Every loss is tried the long way; this one has a shorter, with the same verdicts and the same iterates."""
    M = planted_graph(400, 4, random_state=0)[0].astype(dtype)
    problem = Problem(LeastSquares(M), penalty, NormKernel(6.0, 1.0))
    settings = {"rank": 4, "solver": solver, "tol": 0.0, "max_iter": 30, "random_state": 0}
    verdicts = []

    fused = FullLeastSquares.trial

    def both(loss, problem, p, step, ahead=None):
        short, long = fused(loss, problem, p, step, ahead), Loss.trial(loss, problem, p, step)
        np.testing.assert_array_equal(short.point.X, long.point.X)
        verdicts.append((short.enough, long.enough))
        # an estimate decides only where its error is less than what is left to the bound
        assert abs(short.taken - long.taken) <= abs(short.taken - 1) or short.taken == long.taken
        return short

    short = minimize(problem, **settings)
    monkeypatch.setattr(FullLeastSquares, "trial", both)
    minimize(problem, **settings)
    assert len(verdicts) >= 30
    assert {True, False} == {enough for enough, _ in verdicts} or not penalty.nonnegative
    assert all(enough == exact for enough, exact in verdicts)
    monkeypatch.setattr(
        FullLeastSquares, "trial", lambda loss, problem, p, step, ahead: Loss.trial(loss, problem, p, step)
    )
    long = minimize(problem, **settings)
    np.testing.assert_allclose(short.X, long.X, rtol=1e-4 if dtype == np.float32 else 1e-12, atol=1e-12)
    np.testing.assert_allclose(short.history.step, long.history.step)


class SlowNormKernel(NormKernel):
    """A kernel whose step is not the optimal one: nothing may be concluded from its optimality."""

    def iterate(self, point, penalty, step):
        return 0.5 * (point.X + super().iterate(point, penalty, step))


def test_the_short_way_only_where_it_leads_there(monkeypatch):
    problem, generator = problem_of(2)
    p = problem.loss.at(generator.random((60, 3)))
    monkeypatch.setattr(LeastSquaresMove, "estimate", None)
    cases = (NormKernel(6.0, 1.0), L1(0.1)), (GramKernel(2.0, 2.0, 1.0), Zero()), (SlowNormKernel(6.0, 1.0), Zero())
    for kernel, penalty in cases:
        other = Problem(problem.loss, penalty, kernel)
        assert other.trial(p, 0.1) is not None
    with pytest.raises(TypeError):
        Problem(problem.loss, Zero(), NormKernel(6.0, 1.0)).trial(p, 0.1)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_gram_matrix_prepared_for_the_next_step(dtype):
    """Bit for bit what it would be when made afresh."""
    problem, generator = problem_of(3, n=300)
    loss = LeastSquares(problem.loss.matrix.M.astype(dtype))
    problem = Problem(loss, Nonnegative(), NormKernel.for_loss(loss, tight=False))
    p = loss.at(generator.random((300, 7)).astype(dtype))
    trial = problem.trial(p, 0.5, ahead=0.6)
    ahead, afresh = loss.extrapolate(trial.point, p, 0.6, trial.ahead), loss.extrapolate(trial.point, p, 0.6)
    assert ahead.gram is trial.ahead
    np.testing.assert_array_equal(ahead.gram, afresh.gram)
    assert ahead.origin == Origin(trial.point.X, trial.point.MX, p.X, p.MX, 0.6)
    assert problem.trial(p, 0.5).ahead is None


def test_an_origin_is_formed_when_somebody_asks():
    problem, generator = problem_of(5)
    loss = problem.loss
    p, q = loss.at(generator.random((60, 3))), loss.at(generator.random((60, 3)))
    e = loss.extrapolate(p, q, 0.4)
    assert not e.formed
    formed = loss.at(p.X + 0.4 * (p.X - q.X))
    assert e.value == pytest.approx(formed.value, rel=1e-12)
    np.testing.assert_allclose(e.gradient, formed.gradient, rtol=1e-10, atol=1e-9)
    np.testing.assert_allclose(e.X, formed.X, atol=1e-15)
    assert e.formed


def test_an_iteration_makes_neither_extrapolated_points_nor_their_curvature(monkeypatch):
    """What makes it lean: nothing of that is done in a run of long steps, but where a trial fails."""
    from quartic.losses.factor import numba as factor

    calls = []
    for name in ("formed", "gram_at"):
        real = getattr(factor, name)
        monkeypatch.setattr(factor, name, lambda *a, real=real, name=name: calls.append(name) or real(*a))
    sums = factor.step_sums
    monkeypatch.setattr(factor, "step_sums", lambda *a: calls.append("curved" if a[-1] else "sums") or sums(*a))
    real = Problem.best_between
    monkeypatch.setattr(Problem, "best_between", lambda *a: calls.append("failed") or real(*a))
    M, _ = planted_graph(500, 4, random_state=0)
    problem = Problem(LeastSquares(M), Nonnegative())
    result = minimize(problem, rank=4, solver="inertial", tol=1e-4, random_state=0)
    failed = calls.count("failed")
    assert 0 < failed < result.n_iter / 2
    assert calls.count("formed") <= failed
    assert calls.count("sums") >= result.n_iter
    assert calls.count("curved") <= failed
    assert calls.count("gram_at") <= 2 + failed


@given(st.integers(0, 10**6), st.floats(0, 1))
def test_the_line_between_two_points_is_known_without_a_product(seed, t):
    problem, generator = problem_of(seed)
    loss = problem.loss
    p, q = loss.at(generator.random((60, 4))), loss.at(generator.random((60, 4)))
    products = loss.n_products
    line = loss.between(p, q)
    new = line.point(t)
    assert loss.n_products == products
    there = loss.at(p.X + t * (q.X - p.X))
    assert line(t) == pytest.approx(there.value, rel=1e-10)
    assert new.value == pytest.approx(there.value, rel=1e-10)
    np.testing.assert_allclose(new.gram, there.gram, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(new.MX, there.MX, rtol=1e-12)
    assert new.feasible


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1e-12, 1e-6, 1.0, 1e6])
@pytest.mark.parametrize("columns", [11, 13])  # whole Gram matrices in double precision, and halves
def test_the_sums_of_a_line_lose_nothing(dtype, size, columns):
    """XᵀD + DᵀX follows from the Gram matrix of X + νD; with ν = 1 it would be lost beside XᵀX where D is short."""
    rng = np.random.default_rng(0)
    X, D, G, MD = (rng.standard_normal((5000, columns)).astype(dtype) for _ in range(4))
    D[1::2] *= 1e-3  # the rows that are looked at to measure D need not be typical
    D *= dtype(size)
    wide = X.astype(np.float64), D.astype(np.float64)
    U, C, slope, bend = LeastSquares(np.eye(5000, dtype=dtype)).passes.line_sums(X, D, wide[0].T @ wide[0], G, MD)
    T, lengths = wide[0].T @ wide[1], float(np.linalg.norm(wide[0]) * np.linalg.norm(wide[1]))
    np.testing.assert_allclose(U, T + T.T, rtol=0, atol=20 * np.finfo(dtype).eps * lengths)
    np.testing.assert_allclose(C, wide[1].T @ wide[1], rtol=1e-12, atol=1e-12 * np.linalg.norm(D) ** 2)
    assert slope == pytest.approx(np.vdot(G.astype(np.float64), wide[1]), rel=1e-10, abs=1e-12 * lengths)
    assert bend == pytest.approx(np.vdot(MD.astype(np.float64), wide[1]), rel=1e-10, abs=1e-12 * lengths)


def test_points_too_near_have_no_line():
    """Differences of sums would be round-off."""
    problem, generator = problem_of(6)
    loss, X = problem.loss, generator.random((60, 4))
    assert loss.between(loss.at(X), loss.at(X)) is None
    assert loss.between(loss.at(X), loss.at(X * (1 + 1e-8))) is None
    assert loss.between(loss.at(X), loss.at(X * (1 + 1e-4))) is not None


@pytest.mark.parametrize("penalty", [*PENALTIES, L1(0.2)], ids=lambda g: type(g).__name__)
def test_the_best_point_between(penalty):
    problem, generator = problem_of(7, penalty, size=0.3)
    loss = problem.loss
    p, q = loss.at(0.1 * generator.random((60, 4))), loss.at(2 * generator.random((60, 4)))
    best = problem.best_between(p, q)
    if isinstance(penalty, L1):  # which is not smooth on lines
        assert best is None
        return
    values = [problem.objective(loss.at(p.X + t * (q.X - p.X))) for t in np.linspace(0, 1, 201)]
    assert problem.objective(best) <= min(values) * (1 + 1e-12)
    # from a point that is better than all of them there is nowhere to go
    again = problem.best_between(best, q)
    assert again is None or problem.objective(again) > problem.objective(best) * (1 - 1e-12)


def test_a_failed_trial_costs_no_product_of_its_own():
    """Nor does a rising one: about as many products as iterations, and the objective never rises."""
    M, _ = planted_graph(800, 6, random_state=1)
    result = minimize(Problem(LeastSquares(M), Nonnegative()), rank=6, solver="inertial", tol=1e-5, random_state=0)
    assert result.success
    assert result.n_products <= result.n_iter + 5
    assert (np.diff(result.history.objective) <= 0).all()


def test_the_first_step_is_not_found_by_tenths():
    """λ = 1 is far too short on a normalised graph; it must not take dozens of iterations to find out."""
    M, _ = planted_graph(800, 6, random_state=1)
    problem = Problem(LeastSquares(M), Nonnegative())
    result = minimize(problem, rank=6, solver="inertial", tol=0.0, max_iter=200, random_state=0)
    steps = result.history.step[1:]
    longest = steps[20:].max()
    assert longest > 20
    assert steps[:12].max() > longest / 10


def test_what_the_first_step_leaves_room_for():
    parts = -1.0, 0.0, 0.1, 0.2, 0.3, 0.45, 0.46, 1.0, 2.0
    assert [_first_growth(part) for part in parts] == [8, 8, 8, 4, 2, 2, 1, 1, 1]


def test_a_run_may_be_resumed_after_any_iteration(tmp_path):
    """Bit for bit, also right after a failed trial: what was found out is kept, or found out again the same way."""
    M, _ = planted_graph(120, 3, random_state=2)
    problem = Problem(LeastSquares(M), Nonnegative())
    settings = {"rank": 3, "solver": "inertial", "tol": 0.0, "random_state": 0}
    whole = minimize(problem, max_iter=40, **settings)
    assert whole.n_products > 40
    for stop in range(1, 40):
        path = tmp_path / f"{stop}.npz"
        minimize(problem, max_iter=stop, checkpoint=path, **settings)
        resumed = minimize(problem, max_iter=40, checkpoint=path, **settings)
        np.testing.assert_array_equal(resumed.X, whole.X)
