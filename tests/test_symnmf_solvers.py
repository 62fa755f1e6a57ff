"""The algorithms of the paper's Table 1 on ½‖M − XXᵀ‖² over X ≥ 0, against formulas written out densely."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from quartic import Problem, minimize
from quartic.baselines import coordinate_descent, nnls
from quartic.compiled.rows import quartic_minimizer, sweep_rows
from quartic.datasets import planted_graph
from quartic.losses import LeastSquares
from quartic.penalties import Nonnegative, NonnegativeL1
from quartic.solvers import ADMM, BetaSNMF, CoordinateDescent, SymANLS, SymHALS
from quartic.solvers.registry import choose_solver

SOLVERS = [BetaSNMF(), CoordinateDescent(), SymHALS(), SymANLS(), ADMM()]
BY_PRODUCTS = [solver for solver in SOLVERS if not isinstance(solver, CoordinateDescent)]
SPLIT = [SymHALS(), SymHALS(mu=0.0), SymANLS(), SymANLS(mu=0.0)]


def _matrices():
    rng = np.random.default_rng(0)
    dense = rng.random((30, 30))
    signed = rng.standard_normal((20, 20))
    sparse = sp.random_array((60, 60), density=0.1, rng=rng)
    planted = np.where(rng.random((40, 4)) < 0.4, rng.random((40, 4)), 0.0)
    empty_rows = (sparse + sparse.T).tolil()
    empty_rows[[3, 17], :] = 0
    empty_rows[:, [3, 17]] = 0
    return {
        "dense": dense + dense.T,
        "signed": signed + signed.T + 2 * np.eye(20),
        "sparse": (sparse + sparse.T + sp.eye_array(60)).tocsr(),
        "planted": planted @ planted.T,
        "sparse planted": sp.csr_array(planted @ planted.T),
        "empty rows": empty_rows.tocsr(),
    }


MATRICES = _matrices()


def _dense(M):
    return M.toarray() if sp.issparse(M) else M


def _start(M, r=4, seed=0):
    A = _dense(M)
    top = np.sqrt(abs(A.mean()) / r)
    return 2 * np.random.default_rng(seed).uniform(1e-5, top, size=(len(A), r))


def _objective(M, X):
    return 0.5 * np.sum((_dense(M) - X @ X.T) ** 2)


def _stationarity(M, X):
    """The outside judge: the norm of the projected gradient, from the dense residual."""
    G = 2 * (X @ X.T - _dense(M)) @ X
    return np.linalg.norm(np.where(X > 0, G, np.minimum(G, 0)))


def _penalised(M, X, Y, mu):
    return 0.5 * np.sum((_dense(M) - X @ Y.T) ** 2) + mu * np.sum((X - Y) ** 2)


def _problem(M, **options):
    return Problem(LeastSquares(M, **options), Nonnegative())


def _steps(problem, solver, X0, count):
    states = [solver.init(problem, X0)]
    for _ in range(count):
        states.append(solver.step(problem, states[-1]))
    return states


# -- every solver ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", MATRICES)
@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_reported_figures_are_those_of_the_returned_point(solver, kind):
    M = MATRICES[kind]
    result = minimize(_problem(M), _start(M), solver=solver, max_iter=25, tol=0)
    assert (result.X >= 0).all()
    scale = 0.5 * np.sum(_dense(M) ** 2)
    assert result.objective == pytest.approx(_objective(M, result.X), rel=1e-12, abs=1e-13 * scale)
    assert result.stationarity == pytest.approx(_stationarity(M, result.X), rel=1e-9, abs=1e-12 * scale)
    assert result.objective < 0.95 * _objective(M, _start(M))
    assert np.isfinite(result.history.objective).all()


@pytest.mark.parametrize("kind", ["dense", "sparse", "planted", "empty rows"])
@pytest.mark.parametrize("solver", SOLVERS[1:], ids=repr)
def test_ends_at_a_stationary_point(solver, kind):
    M = MATRICES[kind]
    X0 = _start(M, seed=1)
    result = minimize(_problem(M), X0, solver=solver, tol=1e-5, max_iter=5000)
    assert result.success, result.message
    assert _stationarity(M, result.X) <= 1.01e-5 * _stationarity(M, X0)


@pytest.mark.parametrize("kind", ["dense", "planted", "sparse"])
def test_beta_ends_complementary(kind):
    # the multiplicative update reaches zeros in the limit only, so it is X ∘ ∇f that must vanish
    M = MATRICES[kind]
    X0 = _start(M, seed=1)
    X = minimize(_problem(M), X0, solver="beta", tol=0, max_iter=3000).X
    G = 2 * (X @ X.T - _dense(M)) @ X
    G0 = 2 * (X0 @ X0.T - _dense(M)) @ X0
    assert np.linalg.norm(X * G) <= 1e-3 * np.linalg.norm(X0 * G0)


def test_beta_says_when_zeros_hold_it_back():
    result = minimize(_problem(np.ones((2, 2))), np.array([[1.0], [0.0]]), solver="beta")
    assert result.status.value == "stalled"
    assert "entries that are 0 stay 0" in result.message


@pytest.mark.parametrize("kind", MATRICES)
@pytest.mark.parametrize("solver", [BetaSNMF(), BetaSNMF(beta=1.0), CoordinateDescent()], ids=repr)
def test_objective_never_rises(solver, kind):
    M = MATRICES[kind]
    values = []
    minimize(
        _problem(M), _start(M), solver=solver, tol=0, max_iter=80, callback=lambda p: values.append(_objective(M, p.X))
    )
    assert len(values) > 5
    assert (np.diff(values) <= 1e-13 * 0.5 * np.sum(_dense(M) ** 2)).all()


@pytest.mark.parametrize("kind", MATRICES)
@pytest.mark.parametrize("solver", SPLIT, ids=repr)
def test_penalised_objective_never_rises(solver, kind):
    M = MATRICES[kind]
    states = _steps(_problem(M), solver, _start(M), 60)
    values = [_penalised(M, s.point.X, s.Y, s.mu) for s in states]
    scale = 0.5 * np.sum(_dense(M) ** 2)
    assert (np.diff(values) <= 1e-13 * scale).all()


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_sparse_dense_and_operator_give_the_same_iterates(solver):
    M = MATRICES["sparse"]
    A = M.toarray()
    forms = [_problem(M), _problem(A)]
    if not isinstance(solver, CoordinateDescent):
        forms.append(
            _problem(LinearOperator(A.shape, matvec=A.dot, matmat=A.dot, dtype=float), squared_norm=(A**2).sum())
        )
    runs = [_steps(problem, solver, _start(M), 12) for problem in forms]
    for states in zip(*runs, strict=True):
        for other in states[1:]:
            np.testing.assert_allclose(other.point.X, states[0].point.X, rtol=0, atol=1e-10)
            np.testing.assert_allclose(other.point.MX, A @ other.point.X, rtol=0, atol=1e-10)


def test_dense_blocks_of_coordinate_descent_change_nothing(monkeypatch):
    M = MATRICES["dense"]
    whole = _steps(_problem(M), CoordinateDescent(), _start(M), 5)[-1].point
    monkeypatch.setattr(coordinate_descent, "_BLOCK", 7)
    blocks = _steps(_problem(M), CoordinateDescent(), _start(M), 5)[-1].point
    np.testing.assert_allclose(blocks.X, whole.X, rtol=0, atol=1e-12)
    np.testing.assert_allclose(blocks.MX, M @ whole.X, rtol=0, atol=1e-11)


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_defaults_follow_the_scale_of_the_data(solver):
    if getattr(solver, "proximal", 0.0):
        pytest.skip("the proximal weight of ADMM is a residual squared: it does not scale, as its authors define it")
    M = MATRICES["sparse"]
    plain = _steps(_problem(M), solver, _start(M), 8)[-1].point.X
    scaled = _steps(_problem(M * 1e6), solver, _start(M) * 1e3, 8)[-1].point.X
    np.testing.assert_allclose(scaled / 1e3, plain, rtol=0, atol=1e-10)


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_a_run_from_a_checkpoint_ends_at_the_same_bits(solver, tmp_path):
    problem, X0 = _problem(MATRICES["sparse"]), _start(MATRICES["sparse"])
    whole = minimize(problem, X0, solver=solver, tol=0, max_iter=13)
    minimize(problem, X0, solver=solver, tol=0, max_iter=6, checkpoint=tmp_path / "run.npz")
    rest = minimize(problem, X0, solver=solver, tol=0, max_iter=13, checkpoint=tmp_path / "run.npz")
    assert rest.n_iter == 13
    np.testing.assert_array_equal(rest.X, whole.X)


@pytest.mark.parametrize("solver", BY_PRODUCTS, ids=repr)
def test_every_product_is_counted(solver):
    A = MATRICES["dense"]
    made = []

    def product(X):
        made.append(1)
        return A @ X

    operator = LinearOperator(A.shape, matvec=product, matmat=product, dtype=float)
    result = minimize(
        _problem(operator, squared_norm=(A**2).sum()), rank=3, solver=solver, tol=0, max_iter=10, random_state=0
    )
    assert result.n_products == len(made)
    # the start, its mean, and the referee's
    assert result.n_products == 3 + 10 * (1 if isinstance(solver, BetaSNMF) else 2)


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_a_sweep_counts_as_one_product(kind):
    result = minimize(_problem(MATRICES[kind]), _start(MATRICES[kind]), solver="cd", tol=0, max_iter=10)
    assert np.diff(result.history.n_products).tolist() == [1] * 10


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_single_precision_stays_single_and_ends_as_low(solver):
    M = MATRICES["sparse"]
    X0 = _start(M)
    single = minimize(_problem(M.astype(np.float32)), X0, solver=solver, max_iter=40, tol=1e-4)
    double = minimize(_problem(M), X0, solver=solver, max_iter=40, tol=1e-4)
    assert single.X.dtype == np.float32
    assert single.objective == pytest.approx(double.objective, rel=0.05)


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_rows_without_data_become_zero(solver):
    M = MATRICES["empty rows"]
    X = minimize(_problem(M), _start(M), solver=solver, max_iter=300, tol=0).X
    assert np.abs(X[[3, 17]]).max() < 1e-6 * np.abs(X).max()


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_zeros_in_the_start_do_no_harm(solver):
    M, X0 = MATRICES["sparse"], _start(MATRICES["sparse"])
    X0[5], X0[:, 2], X0[7, 1] = 0, 0, 0
    result = minimize(_problem(M), X0, solver=solver, max_iter=30, tol=0)
    assert np.isfinite(result.X).all()
    assert result.objective < 0.95 * _objective(M, X0)


# -- coordinate descent ---------------------------------------------------------------------------------------------


def _least_on_the_half_line(f):
    """The x ≥ 0 of least f, a quartic: interpolated from five values, its critical points from companion matrices."""
    nodes = np.linspace(0, 2, 5)
    quartic = np.polynomial.Polynomial.fit(nodes, [f(x) for x in nodes], 4).convert()
    candidates = [0.0, *(z.real for z in quartic.deriv().roots() if abs(z.imag) < 1e-7 and z.real > 0)]
    return min(candidates, key=f)


@pytest.mark.parametrize("kind", ["signed", "dense"])
def test_a_sweep_minimises_entry_after_entry(kind):
    M = MATRICES[kind][:7, :7].copy()
    X = np.random.default_rng(3).random((7, 3))
    swept = _steps(_problem(M), CoordinateDescent(), X, 1)[-1].point.X

    def loss_with(i, k, x):
        Z = X.copy()
        Z[i, k] = x
        return _objective(M, Z)

    for i in range(7):
        for k in range(3):
            X[i, k] = _least_on_the_half_line(lambda x, i=i, k=k: loss_with(i, k, x))
    np.testing.assert_allclose(swept, X, rtol=0, atol=1e-6)
    assert (swept == 0).any() == (X == 0).any()


def test_the_quartic_is_least_where_said_at_every_scale():
    rng = np.random.default_rng(0)
    a = rng.choice([-1, 1], 4000) * 10 ** rng.uniform(-8, 8, 4000)
    b = rng.choice([-1, 1], 4000) * np.abs(a) ** 1.5 * 10 ** rng.uniform(-12, 12, 4000)
    # where zero and the root are as good, and at the double root
    b[:200] = np.sqrt(2 * np.abs(a[:200]) ** 3 / 27) * (1 + 1e-6 * rng.standard_normal(200))
    b[200:400] = np.sqrt(4 * np.abs(a[200:400]) ** 3 / 27)
    for p, q in zip(a, b, strict=True):
        x = quartic_minimizer(p, q)

        def value(t, p=p, q=q):
            return t**4 / 4 + p * t**2 / 2 + q * t

        length = max(np.sqrt(abs(p)), np.cbrt(abs(q)))
        grid = np.linspace(0, 2 * length, 400)
        assert x >= 0
        assert value(x) <= value(grid).min() + 1e-12 * length**4
        if x > 0:
            assert abs(x**3 + p * x + q) <= 8e-16 * (x**3 + abs(p * x) + abs(q))


@pytest.mark.parametrize(("a", "b", "x"), [(0, 0, 0), (-4, 0, 2), (0, -8, 2), (3, 0, 0), (1, -2, 1), (-1, 10, 0)])
def test_the_quartic_at_its_corners(a, b, x):
    assert quartic_minimizer(float(a), float(b)) == pytest.approx(x, rel=1e-15)


# -- the penalty methods --------------------------------------------------------------------------------------------


def test_a_row_sweep_is_hals_by_columns():
    M, mu = MATRICES["dense"], 0.3
    rng = np.random.default_rng(5)
    X, Y = rng.random((30, 4)), rng.random((30, 4))
    swept = X.copy()
    sweep_rows(swept, Y.T @ Y + 2 * mu * np.eye(4), M @ Y + 2 * mu * Y)
    for k in range(4):
        others = [l for l in range(4) if l != k]
        y = Y[:, k]
        X[:, k] = np.maximum(0, ((M - X[:, others] @ Y[:, others].T) @ y + 2 * mu * y) / (y @ y + 2 * mu))
    np.testing.assert_allclose(swept, X, rtol=0, atol=1e-12)


@pytest.mark.parametrize("solver", [SymHALS(mu=0.3), SymANLS(mu=0.3)], ids=repr)
def test_the_penalty_is_the_papers(solver):
    # at a fixed point, X minimises ½‖M − XYᵀ‖² + μ‖X − Y‖² for its Y: least squares with √(2μ)I underneath
    M = MATRICES["sparse"]
    state = _steps(_problem(M), solver, _start(M), 1 if isinstance(solver, SymANLS) else 400)[-1]
    A = np.vstack([state.Y, np.sqrt(0.6) * np.eye(4)])
    for i, row in enumerate(M.toarray()):
        best, _ = scipy.optimize.nnls(A, np.concatenate([row, np.sqrt(0.6) * state.Y[i]]))
        np.testing.assert_allclose(state.point.X[i], best, rtol=0, atol=1e-8)


def test_admm_takes_the_steps_of_its_definition():
    M, rho = MATRICES["signed"], 0.4
    old, new = _steps(_problem(M), ADMM(rho=rho), _start(MATRICES["dense"])[:20], 3)[-2:]
    Y, X = old.point.X, new.X
    # X is free: the gradient of the augmented Lagrangian with the old multipliers vanishes
    np.testing.assert_allclose((X @ Y.T - M) @ Y - old.dual + rho * (X - Y), 0, atol=1e-11)
    np.testing.assert_allclose(new.dual, old.dual + rho * (Y - X), atol=1e-13)
    A = np.vstack([X, np.sqrt(rho) * np.eye(4)])
    for i in range(20):
        target = [M[i], np.sqrt(rho) * (X[i] - new.dual[i] / rho)]
        best, _ = scipy.optimize.nnls(A, np.concatenate(target))
        np.testing.assert_allclose(new.point.X[i], best, rtol=0, atol=1e-9)


# -- nonnegative least squares --------------------------------------------------------------------------------------


@pytest.mark.parametrize("guess", ["zero", "full", "random"])
@pytest.mark.parametrize("r", [1, 3, 12, 70])
def test_pivoting_agrees_with_scipy(r, guess):
    rng = np.random.default_rng(r)
    A, B = rng.standard_normal((r + 5, r)), rng.standard_normal((50, r + 5))
    start = {"zero": np.zeros((50, r)), "full": np.ones((50, r)), "random": np.maximum(rng.standard_normal((50, r)), 0)}
    X = nnls.solve_nnls(A.T @ A, B @ A, start[guess])
    expected = np.array([scipy.optimize.nnls(A, b)[0] for b in B])
    np.testing.assert_allclose(X, expected, rtol=0, atol=1e-8)
    assert (X >= 0).all()


@pytest.mark.parametrize(
    "case", ["repeated columns", "zero column", "fewer rows", "nearly equal", "zero right-hand side"]
)
def test_pivoting_on_singular_matrices_ends_at_the_least_value(case):
    rng = np.random.default_rng(7)
    A, B = rng.random((12, 6)), rng.standard_normal((40, 12)) + 0.5
    if case == "repeated columns":
        A[:, 4:] = A[:, :2]
    elif case == "zero column":
        A[:, 3] = 0
    elif case == "fewer rows":
        A, B = A[:3], B[:, :3]
    elif case == "nearly equal":
        A[:, 5] = A[:, 0] + 1e-9 * rng.random(12)
    else:
        B[:] = 0
    X = nnls.solve_nnls(A.T @ A, B @ A, rng.random((40, 6)))
    assert (X >= 0).all()
    for x, b in zip(X, B, strict=True):
        theirs = scipy.optimize.nnls(A, b)[0]  # the norm that SciPy 1.15.0 returns with it is not that of this x
        assert np.linalg.norm(A @ x - b) <= np.linalg.norm(A @ theirs - b) * (1 + 1e-9) + 1e-9


def test_the_backup_rule_ends_what_full_exchanges_do_not(monkeypatch):
    def refuse(*arguments):
        raise RuntimeError("pivoting did not end")

    monkeypatch.setattr(nnls, "sweep_rows", refuse)
    rng = np.random.default_rng(0)
    # nearly dependent columns: exchanging all infeasible entries at once goes round in circles
    A = rng.standard_normal((6, 6)) @ np.diag(np.logspace(-3, 0, 6)) @ rng.standard_normal((6, 6))
    B = rng.standard_normal((300, 6))
    X = nnls.solve_nnls(A.T @ A, B @ A, np.maximum(rng.standard_normal((300, 6)), 0))
    for x, b in zip(X, B, strict=True):
        assert np.linalg.norm(A @ x - b) <= np.linalg.norm(A @ scipy.optimize.nnls(A, b)[0] - b) + 1e-9


def test_pivoting_without_end_gives_way_to_descent(monkeypatch):
    monkeypatch.setattr(nnls, "_pivot", lambda G, C, guess, X: np.arange(len(X)))
    rng = np.random.default_rng(8)
    A, B = rng.random((12, 4)), rng.standard_normal((10, 12))
    X = nnls.solve_nnls(A.T @ A, B @ A, rng.random((10, 4)))
    expected = np.array([scipy.optimize.nnls(A, b)[0] for b in B])
    np.testing.assert_allclose(X, expected, rtol=0, atol=1e-3)


# -- what is refused ------------------------------------------------------------------------------------------------


def test_coordinate_descent_says_that_it_needs_entries():
    operator = LinearOperator((4, 4), matvec=lambda x: x, dtype=float)
    with pytest.raises(
        ValueError, match=r"'cd' needs the entries of M .a dense or sparse matrix.*solvers that fit: (?!.*cd)"
    ):
        minimize(_problem(operator, squared_norm=4.0), rank=2, solver="cd", random_state=0)


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_other_penalties_are_refused(solver):
    problem = Problem(LeastSquares(np.eye(3)), NonnegativeL1(0.1))
    with pytest.raises(ValueError, match=r"needs the penalty Nonnegative\(\), but the penalty is NonnegativeL1"):
        minimize(problem, rank=2, solver=solver)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: BetaSNMF(beta=0.0), ValueError, "beta must be positive and at most 1, got 0.0"),
        (lambda: BetaSNMF(beta=1.5), ValueError, "beta must be positive and at most 1"),
        (lambda: SymHALS(mu=-1.0), ValueError, "mu must be nonnegative and finite, got -1.0"),
        (lambda: SymANLS(mu=float("nan")), ValueError, "mu must be nonnegative and finite"),
        (lambda: SymANLS(mu="large"), TypeError, "mu must be a number"),
        (lambda: ADMM(rho=0.0), ValueError, "rho must be positive and finite, got 0.0"),
    ],
)
def test_settings_out_of_range_are_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()


# -- the paper's data -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def orl():
    path = Path(os.environ.get("QUARTIC_DATA", "")) / "paper_symnmf" / "orl_similarity.npz"
    if "QUARTIC_DATA" not in os.environ or not path.exists():
        pytest.skip("needs the ORL similarity matrix: QUARTIC_DATA/paper_symnmf/orl_similarity.npz")
    return sp.csr_array(sp.load_npz(path))


@pytest.mark.parametrize("solver", ["cd", "hals", "anls", "admm"])
def test_orl_to_a_thousandth(orl, solver):
    X0 = _start(orl, r=40)
    result = minimize(_problem(orl), X0, solver=solver, tol=1e-3)
    assert result.success, result.message
    assert (result.X >= 0).all()
    assert result.objective == pytest.approx(_objective(orl, result.X), rel=1e-12)
    assert _stationarity(orl, result.X) <= 1e-3 * _stationarity(orl, X0) * (1 + 1e-6)


def test_multiplicative_updates_arrive_at_zero():
    """An entry that shrinks by a factor each time would stay above zero for good, its gradient part of the measure."""
    M, _ = planted_graph(120, 3, random_state=0)
    result = minimize(_problem(M), rank=3, solver="beta", tol=1e-6, random_state=0)
    assert result.success, result.message
    assert np.diff(result.history.objective).max() <= 1e-12
    assert (result.X == 0).any()


@pytest.mark.parametrize("name", sorted(file.stem for file in Path(nnls.__file__).parent.glob("[a-z]*.py")))
def test_each_file_may_be_the_first_one_imported(name):
    """The solvers list these among their own, and these build on the solvers' base class."""
    code = f"import quartic.baselines.{name}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ)
    assert run.returncode == 0, run.stderr


def test_auto_weighs_products_by_how_fast_they_are_made():
    def chosen(M, **options):
        return choose_solver("auto", Problem(LeastSquares(M, **options), Nonnegative())).name

    dense = np.ones((800, 800))
    assert chosen(dense) == "face-cg"
    assert chosen(np.ones((1800, 1800))) == "lbfgs"
    assert chosen(sp.csr_array(np.tril(dense, 600) * np.triu(dense, -600))) == "lbfgs"  # many entries, one by one
    assert chosen(aslinearoperator(dense), squared_norm=800.0**2) == "lbfgs"  # who knows what a product costs
