"""A loss of one's own: every way of giving it, what is learnt by itself, and what is said when it is wrong."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

from quartic import Problem, certify, minimize
from quartic.diagnostics import check_gradient, check_relative_smoothness
from quartic.kernels import GramKernel, NormKernel
from quartic.losses import LeastSquares, Smooth
from quartic.penalties import L1, Nonnegative, Ridge

N = 15
B = np.random.default_rng(0).standard_normal((N, 3))
M = B @ B.T + 0.3 * np.diag(np.random.default_rng(1).random(N))


def F(X):
    return 0.5 * np.sum((X @ X.T - M) ** 2)


WAYS = {
    "product": lambda: Smooth(F, lambda X: (X @ X.T - M) @ X, 1.0, n=N),
    "gradient of f": lambda: Smooth(F, lambda X: 2 * (X @ X.T - M) @ X, 1.0, n=N),
    "matrix": lambda: Smooth(F, lambda X: X @ X.T - M, n=N),
    "sparse matrix": lambda: Smooth(F, lambda X: sp.csr_array(X @ X.T - M), n=N),
    "operator": lambda: Smooth(F, lambda X: aslinearoperator(X @ X.T - M), n=N),
    "of Y": lambda: Smooth(lambda Y: 0.5 * np.sum((Y - M) ** 2), lambda Y: Y - M, of="Y", n=N),
    "both at once": lambda: Smooth(lambda X: (F(X), (X @ X.T - M) @ X), True, n=N),
    "no n": lambda: Smooth(F, lambda X: (X @ X.T - M) @ X),
}


@pytest.mark.parametrize("make", WAYS.values(), ids=WAYS)
def test_every_way_is_the_same_loss(make):
    loss, exact = make(), LeastSquares(M)
    X0 = np.random.default_rng(2).standard_normal((N, 3))
    assert loss.value(X0) == pytest.approx(exact.value(X0), rel=1e-12)
    np.testing.assert_allclose(loss.gradient(X0), exact.gradient(X0), rtol=1e-10, atol=1e-10)
    assert check_gradient(loss, X0) < 1e-6
    best = minimize(Problem(exact), X0, tol=1e-9).objective
    for solver in ("auto", "dyn-nolips", "inertial", "gd", "lbfgs"):
        result = minimize(Problem(loss, Ridge(1e-12)), X0, solver=solver, tol=1e-8)
        assert result.success, result.message
        assert result.objective == pytest.approx(best, rel=1e-8)
    assert minimize(Problem(loss, Nonnegative()), np.abs(X0), tol=1e-6).success


@pytest.mark.parametrize("n", [N, 260])
def test_constants_are_found(n):
    """At n = 260 ∇F(0) is sampled, not formed."""
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((n, 3))
    T = Z @ Z.T - 0.5 * np.eye(n)
    loss, exact = Smooth(lambda X: 0.5 * np.sum((X @ X.T - T) ** 2), lambda X: (X @ X.T - T) @ X, n=n), LeastSquares(T)
    assert loss.estimated
    assert loss.smoothness == pytest.approx(1.0, rel=1e-6)
    assert 1 - 1e-9 <= loss.gradient_norm_at_zero / exact.gradient_norm_at_zero <= (1 + 1e-9 if n == N else 2)
    assert loss.curvature_at_zero == pytest.approx(exact.curvature_at_zero, rel=0.1)
    assert minimize(Problem(loss), rank=3, solver="dyn-nolips", tol=1e-6, random_state=0).success


@pytest.mark.parametrize("scale", [1e-140, 1e-60, 1e-40, 1e-20, 1e20, 1e30, 1e60, 1e140])
@pytest.mark.parametrize("n", [N, 260])
def test_data_of_any_scale(n, scale):
    """∇F(0) is found though X = 1e-16 is large beside small data, L_F though X = 1 is lost beside large ones."""
    Z = np.random.default_rng(0).standard_normal((n, 2))
    one = Z @ Z.T - 0.1 * np.eye(n)
    T = scale * one
    loss = Smooth(lambda X: 0.5 * np.sum((X @ X.T - T) ** 2), lambda X: (X @ X.T - T) @ X, n=n)
    near, plain = minimize(Problem(LeastSquares(one)), rank=2, tol=1e-8, random_state=0), LeastSquares(one)
    assert 0.01 < loss.smoothness <= 1 + 1e-5
    assert 1 - 1e-6 <= loss.gradient_norm_at_zero / scale / plain.gradient_norm_at_zero <= (1 + 1e-6 if n == N else 2)
    far = minimize(Problem(loss), rank=2, tol=1e-8, random_state=0)
    assert far.success
    assert far.objective / scale / scale == pytest.approx(near.objective, rel=1e-6)
    found = certify(Problem(loss), far.X, tol=1e-4)
    assert found.holds
    assert found.gap <= 1e-4 * far.objective


def test_a_function_flat_at_zero_keeps_its_scale():
    loss = Smooth(lambda X: 0.5 * np.sum((X @ X.T) ** 2), lambda X: X @ X.T @ X, n=N)
    assert not loss.units()


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_a_linear_function_is_refused(scale):
    """What round-off makes of ∇F(XXᵀ) − ∇F(0) is no curvature: a run ended "converged" with entries of 1e96."""
    for of, C in (("X", scale * (M + np.eye(N))), ("Y", -scale * M), ("X", M - np.eye(N))):
        loss = Smooth(lambda Z, C=C, of=of: np.sum(C * (Z @ Z.T if of == "X" else Z)), lambda _, C=C: C, n=N, of=of)
        with pytest.raises(ValueError, match=r"F is linear in XXᵀ.*give smoothness="):
            minimize(Problem(loss, Nonnegative()), rank=2, random_state=0)
    known = Smooth(lambda X: np.sum(M * (X @ X.T)), lambda X: M @ X, 1.0, n=N)
    assert known.smoothness == 1.0
    nothing = Smooth(lambda X: 3.0, lambda X: 0 * X, n=N)
    assert not minimize(Problem(nothing), rank=2, random_state=0).X.any()


def test_known_constants_are_used_as_given():
    loss = Smooth(F, lambda X: (X @ X.T - M) @ X, 1.0, n=N, strong_convexity=1.0)
    assert GramKernel.for_loss(loss).alpha == 0
    assert check_relative_smoothness(loss, NormKernel.for_loss(loss)) <= 1
    assert check_relative_smoothness(loss, GramKernel.for_loss(loss)) <= 1 + 1e-9
    result = minimize(Problem(loss), rank=3, solver="nolips", max_iter=50, random_state=0)
    assert (np.diff(result.history.objective) <= 0).all()
    # the objective is 0 there: only at round-off is a gap small beside that, and before that nothing is proven
    near = certify(Problem(loss), minimize(Problem(loss), rank=N, tol=1e-8, random_state=0).X)
    assert "not proven optimal" in str(near)
    assert certify(Problem(loss), minimize(Problem(loss), rank=N, tol=1e-16, random_state=0).X).holds


def test_a_function_that_is_no_polynomial():
    """Exponential of the residual's square, near enough to its minimum: found to round-off, not to half of it."""
    T = 0.05 * M

    def G(X):
        return float(np.sum(np.expm1((X @ X.T - T) ** 2)))

    def slope(X):
        E = X @ X.T - T
        return (2 * E * np.exp(E**2)) @ X

    loss = Smooth(G, slope, n=N)
    start = 0.2 * np.random.default_rng(0).standard_normal((N, 3))
    for solver in ("auto", "dyn-nolips", "inertial"):
        result = minimize(Problem(loss), start, solver=solver, tol=1e-9)
        assert result.success, result.message


def test_a_wrong_gradient_is_found_at_once():
    with pytest.raises(ValueError, match=r"neither ∇F\(XXᵀ\)X nor ∇f\(X\).*rises 0\.6667 times.*check_gradient"):
        minimize(Problem(Smooth(F, lambda X: 3 * (X @ X.T - M) @ X, n=N)), rank=2, random_state=0)
    with pytest.raises(ValueError, match=r"shape of X, \(15, \d+\).*got \(3, \d+\)"):
        minimize(Problem(Smooth(F, lambda X: X[:3], n=N)), rank=2)
    with pytest.raises(ValueError, match="one number"):
        minimize(Problem(Smooth(lambda X: X, lambda X: X, n=N)), rank=2)


def test_no_descent_names_the_checks():
    """A gradient that is right along itself, which is all the first look can see, and wrong everywhere else."""
    loss = Smooth(F, lambda X: (X @ X.T - M) @ X, n=N)
    loss._function._known_factor = -2.0
    X0 = np.random.default_rng(0).standard_normal((N, 2))
    result = minimize(Problem(loss), X0, solver="lbfgs", max_iter=1000)
    assert not result.success
    assert "check_gradient(loss, X)" in result.message
    assert "check_relative_smoothness(loss, kernel)" in result.message


def test_errors_say_what_to_give():
    with pytest.raises(ValueError, match="give n=, or a start X0"):
        minimize(Problem(Smooth(F, lambda X: (X @ X.T - M) @ X)), rank=2)
    with pytest.raises(
        ValueError, match=r"constants that are known.*give smoothness=.*solvers that fit: auto, dyn-nolips"
    ):
        minimize(Problem(Smooth(F, lambda X: (X @ X.T - M) @ X, n=N)), rank=2, solver="nolips")
    with pytest.raises(TypeError, match="F must be a function"):
        Smooth(3.0)
    with pytest.raises(ValueError, match='of must be "X"'):
        Smooth(F, of="Z")
    with pytest.raises(ValueError, match="smoothness must be positive"):
        Smooth(F, F, -1.0)
    with pytest.raises(TypeError, match=r"gradient was left out, so F must be .* torch or jax"):
        minimize(Problem(Smooth(F, n=N)), rank=2)


def test_checkpoints_tell_functions_apart(tmp_path):
    path = tmp_path / "run.npz"
    minimize(Problem(WAYS["product"]()), rank=2, max_iter=2, tol=1e-12, random_state=0, checkpoint=path)
    minimize(Problem(WAYS["product"]()), rank=2, max_iter=4, tol=1e-12, random_state=0, checkpoint=path)
    other = Smooth(lambda X: 2 * F(X), lambda X: 2 * (X @ X.T - M) @ X, 2.0, n=N)
    with pytest.raises(ValueError, match="data"):
        minimize(Problem(other), rank=2, random_state=0, checkpoint=path)


def test_neither_torch_nor_jax_is_imported():
    code = "import sys, quartic.losses; assert not {'torch', 'jax'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def check_differentiated(make):
    """F written in some library, no gradient: the same answer as least squares."""
    best = minimize(Problem(LeastSquares(M)), rank=3, tol=1e-9, random_state=0).objective
    for of in ("X", "Y"):
        loss = Smooth(make(of), n=N, of=of)
        assert check_gradient(loss) < 1e-6
        result = minimize(Problem(loss), rank=3, tol=1e-8, random_state=0)
        assert result.success
        assert result.objective == pytest.approx(best, rel=1e-8)


def test_a_start_says_how_many_rows_there_are():
    """auto, too, asks for the number of rows only where it matters."""
    loss = Smooth(lambda X: 0.5 * ((X @ X.T - M) ** 2).sum(), lambda X: 2 * (X @ X.T - M) @ X)
    assert minimize(Problem(loss), np.random.default_rng(0).standard_normal((N, 2)), tol=1e-6).success


def test_torch_functions_need_no_gradient():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    data = torch.tensor(M)
    check_differentiated(lambda of: lambda Z: 0.5 * ((Z @ Z.T if of == "X" else Z) - data).square().sum())
    single = Smooth(lambda X: 0.5 * (X @ X.T - data.float()).square().sum())
    X0 = torch.tensor(np.random.default_rng(0).standard_normal((N, 2)))
    assert minimize(Problem(single), X0, tol=1e-3).success
    with pytest.raises(TypeError, match="torch: TypeError: F did not return a tensor with one number"):
        minimize(Problem(Smooth(lambda X: X @ X.T, n=N)), rank=2)


def test_jax_functions_need_no_gradient():
    jax = pytest.importorskip("jax", reason="jax is not installed")
    check_differentiated(lambda of: lambda Z: 0.5 * jax.numpy.sum(((Z @ Z.T if of == "X" else Z) - M) ** 2))


@pytest.mark.parametrize("offset", [1e-3, 1e-9])
def test_round_off_is_that_of_the_point_not_of_the_largest_curvature(offset):
    # counts with the likelihood of Poisson: ∇F is 1e18 times as curved at Y = 0 as where the solution is
    generator = np.random.default_rng(0)
    factors = generator.gamma(1.0, 1.0, (30, 3)) * (generator.random((30, 3)) < 0.5)
    counts = np.triu(generator.poisson(3 * factors @ factors.T))
    counts = counts + np.triu(counts, 1).T

    def F(X):
        Y = X @ X.T + offset
        return float((Y - counts * np.log(Y)).sum())

    def product(X):
        return (1 - counts / (X @ X.T + offset)) @ X

    result = minimize(Problem(Smooth(F, product, n=30), Nonnegative()), rank=3, tol=1e-6, random_state=0)
    assert result.success
    assert "round-off" not in result.message
    bounds = [(0, None)] * 90
    peer = scipy.optimize.minimize(
        lambda x: (F(x.reshape(30, 3)), 2 * product(x.reshape(30, 3)).ravel()),
        result.X.ravel(), jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 5000},
    )  # fmt: skip
    assert result.objective <= peer.fun + 1e-8 * abs(peer.fun)


def test_a_gradient_that_is_not_finite_at_zero_is_refused():
    loss = Smooth(lambda X: float(-np.log(X @ X.T).sum()), lambda X: -(1 / (X @ X.T)) @ X, n=5)
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=r"not finite.*1e-6"):
        minimize(Problem(loss, Nonnegative()), rank=2, random_state=0)


def test_a_function_of_Y_that_is_given_X_is_told_the_cure():
    loss = Smooth(lambda Y: 0.5 * np.sum((Y - M) ** 2), lambda Y: Y - M, n=N)
    with pytest.raises(ValueError, match="broadcast") as fault:
        loss.at(np.ones((N, 2)))
    assert 'of="Y"' in "".join(fault.value.__notes__)


@pytest.mark.parametrize(
    ("F", "gradient", "words"),
    [
        (lambda X: None, lambda X: X, "F, given to Smooth, must return one number, got None; is its return missing"),
        (lambda X: np.sum(X), True, r"with gradient=True, must return the pair \(value, gradient\), got float64"),
    ],
)
def test_an_F_that_answers_wrongly_is_named(F, gradient, words):
    with pytest.raises(TypeError, match=words):
        minimize(Problem(Smooth(F, gradient, n=6)), rank=2, random_state=0)


@pytest.mark.parametrize("penalty", [None, L1(0.1)])
def test_a_fixed_step_that_is_far_too_long_ends_as_non_finite(penalty):
    """L_F = 1 was said to be 1e-3: the iterates grow until their squares overflow, in the mirror map first."""
    target = np.diag(np.arange(1.0, 13))
    loss = Smooth(
        lambda X: 0.5 * np.sum((X @ X.T - target) ** 2), lambda X: (X @ X.T - target) @ X, n=12, smoothness=1e-3
    )
    result = minimize(Problem(loss, penalty), rank=3, solver="nolips", random_state=0)
    assert result.status == "non_finite"
    assert np.isfinite(result.objective)


def test_a_function_that_computes_in_single_precision():
    """Its ∇F(0) was zero: what it was probed with underflowed, and the start was called converged."""
    X = np.random.default_rng(0).standard_normal((20, 3)).astype(np.float32)
    M = X @ X.T

    def F(X):
        Z = X.astype(np.float32)
        R = Z @ Z.T - M
        return 0.5 * float((R * R).sum()), (2 * R @ Z).astype(float)

    loss = Smooth(F, True, n=20)
    assert loss.gradient_norm_at_zero == pytest.approx(np.linalg.norm(M, 2), rel=0.5)
    result = minimize(Problem(loss), rank=3, tol=1e-3, random_state=0)
    assert result.n_iter > 0
    assert result.objective < 1e-2
