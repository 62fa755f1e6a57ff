"""Propositions 1 to 4: relative smoothness and the mirror maps, against brute force and the appendix's loop."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize as scipy_minimize

from gram_appendix import cardano, solve_subproblem_by_nolips
from quartic.arrays.space import unit_cubic_root
from quartic.diagnostics import CheckFailed, check_mirror, check_relative_smoothness
from quartic.kernels import EuclideanKernel, GramKernel, NormKernel
from quartic.kernels.gram import solve_subproblem
from quartic.losses import FullLeastSquares, LeastSquares, RawStress
from quartic.penalties import L0, L1, Nonnegative, NonnegativeL1, NonnegativeRidge, Ridge, Zero
from strategies import losses, seeds, symmetric

PENALTIES = [Zero(), Nonnegative(), L1(0.7), NonnegativeL1(0.7), L0(0.3), Ridge(0.9), NonnegativeRidge(0.9)]
KERNELS = [EuclideanKernel(), NormKernel(6.0, 0.5), GramKernel(1.0, 2.0, 0.5), GramKernel(0.0, 2.0, 0.5)]


def residual(kernel, V):
    return np.linalg.norm(kernel.gradient(kernel.mirror(V)) - V) / np.linalg.norm(V)


@given(losses, st.sampled_from([NormKernel, GramKernel]), st.booleans(), seeds, st.integers(1, 5))
def test_propositions_1_and_3_relative_smoothness(loss, kind, tight, seed, rank):
    kernel = kind.for_loss(loss, tight=tight)
    assert check_relative_smoothness(loss, kernel, rank=rank, random_state=seed) <= 1 + 1e-9


def test_tight_constants_are_tighter_and_nearly_attained():
    M = -symmetric(3) @ symmetric(3)  # negative semidefinite: the curvature at zero matters
    loss = LeastSquares(M)
    loose, tight = NormKernel.for_loss(loss, tight=False), NormKernel.for_loss(loss)
    assert loose.sigma == pytest.approx(2 * np.linalg.norm(M))
    assert tight.sigma == pytest.approx(-2 * np.linalg.eigvalsh(M)[0])
    too_small = NormKernel(tight.alpha, 0.5 * tight.sigma)
    v = np.linalg.eigh(M)[1][:, :1]
    with pytest.raises(CheckFailed, match="not 1-smooth"):
        check_relative_smoothness(_Aligned(loss, v), too_small, rank=1)


class _Aligned(FullLeastSquares):
    """The same loss with points and steps along one eigenvector, where the constant is attained."""

    def __init__(self, loss, v):
        super().__init__(loss.matrix)
        self.v = v

    def at(self, X):
        return super().at(self.v @ (self.v.T @ X))

    def move(self, p, X):
        return super().move(p, self.v @ (self.v.T @ X))


@pytest.mark.parametrize("sigma", [1e-8, 1e-4, 1.0, 1e4, 1e8])
@pytest.mark.parametrize("exponent", range(-100, 91, 10))
def test_proposition_2_norm_mirror_to_machine_precision(sigma, exponent):
    V = np.random.default_rng(exponent + 200).standard_normal((30, 4)) * 10.0**exponent
    for alpha in (1e-3, 6.0, 1e4):
        assert residual(NormKernel(alpha, sigma), V) <= 1e-13


@pytest.mark.parametrize("shape", ["plain", "ill-conditioned", "rank-deficient", "wide"])
@pytest.mark.parametrize("rank", [1, 2, 7, 40])
def test_proposition_4_gram_mirror_to_ten_digits(shape, rank):
    rng = np.random.default_rng(rank)
    V = rng.standard_normal((60, rank))
    if shape == "ill-conditioned":
        U, _, W = np.linalg.svd(V, full_matrices=False)
        V = U * np.logspace(0, -6, rank) @ W
    elif shape == "rank-deficient":
        V[:, -1] = V[:, 0]
        V[:, 0] = 0 if rank == 2 else V[:, 0]
    elif shape == "wide":
        V = V[:3]
    constants = itertools.product((0, 1e-6, 1, 1e3), (0, 1e-6, 2, 1e3), (1e-8, 1e-3, 1, 1e8), (1e-12, 1, 1e12))
    for alpha, beta, sigma, scale in constants:
        if np.any(V):
            assert residual(GramKernel(alpha, beta, sigma), V * scale) <= 1e-10, (alpha, beta, sigma, scale)


@pytest.mark.parametrize("small", [1e-2, 1e-5, 1e-7, 1e-9])
def test_gram_mirror_keeps_the_digits_of_small_singular_values(small):
    """VᵀV alone has lost those of 1e-7 beside 1; with α = 0 each μ is the root of βμ³ + σμ = η for itself."""
    rng = np.random.default_rng(0)
    Q, P = np.linalg.qr(rng.standard_normal((30, 2)))[0], np.linalg.qr(rng.standard_normal((2, 2)))[0]
    eta, sigma = np.array([1.0, small]), 1e-6 * small
    mu = np.diag(Q.T @ GramKernel(0.0, 1.0, sigma).mirror(Q * eta @ P.T) @ P)
    # V itself is known to eps·‖V‖, and so is its least singular value; μ has a third of that relative error
    np.testing.assert_allclose(mu**3 + sigma * mu, eta, rtol=1e-14 / small + 1e-12)


def test_mirror_of_zero_is_zero():
    for kernel, penalty in itertools.product(KERNELS, [Zero(), Ridge(1.0)]):
        assert not kernel.mirror(np.zeros((4, 3)), penalty).any()


@given(seeds, st.floats(0, 10), st.floats(0, 10), st.floats(0.05, 10))
def test_scalar_solve_agrees_with_the_appendix(seed, alpha, beta, sigma):
    eta = np.random.default_rng(seed).random(6) * 5
    reference = solve_subproblem_by_nolips(eta, alpha, beta, sigma, tol=1e-7)
    # φ is σ-strongly convex: a gradient of 1e-7·‖η‖ leaves the reference no further than this from the minimiser
    allowed = 1e-7 * np.linalg.norm(eta) / sigma
    assert np.linalg.norm(solve_subproblem(eta, alpha, beta, sigma) - reference) <= allowed + 1e-15


@given(st.floats(1e-4, 10), st.floats(0.1, 1e3))
def test_unit_cubic_agrees_with_cardano_where_cardano_is_good(share, sigma):
    """τ = σ(1 + y²) with y³ + y = √(c/σ³); the printed formula is good while c is not ≫ σ³."""
    c = share * sigma**3
    y = unit_cubic_root(math.sqrt(c / sigma**3))
    assert sigma * (1 + y * y) == pytest.approx(cardano(c, sigma), rel=1e-9)


@given(st.floats(0, 1e300))
def test_unit_cubic_solves_its_equation(w):
    y = unit_cubic_root(w)
    assert y * (y * y + 1) == pytest.approx(w, rel=1e-15, abs=1e-320)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@given(seed=seeds, distance=st.sampled_from([1.0, 1e-3, 1e-9]), scale=st.sampled_from([1e-3, 1.0, 1e3]))
def test_divergence_keeps_six_digits(kernel, seed, distance, scale):
    from fractions import Fraction

    rng = np.random.default_rng(seed)
    Y = rng.standard_normal((4, 2)) * scale
    X = Y + distance * scale * rng.standard_normal((4, 2))

    def h(U):  # exactly, in rational arithmetic
        rows = [[Fraction(float(u)) for u in row] for row in U]
        S = [[sum(row[a] * row[b] for row in rows) for b in range(2)] for a in range(2)]
        trace, square = S[0][0] + S[1][1], sum(s * s for line in S for s in line)
        alpha, beta, sigma = (Fraction(getattr(kernel, n, d)) for n, d in (("alpha", 0), ("beta", 0), ("sigma", 1)))
        gradient = [
            [sum(row[a] * (beta * S[a][b] + (alpha * trace + sigma) * (a == b)) for a in range(2)) for b in range(2)]
            for row in rows
        ]
        return alpha / 4 * trace**2 + beta / 4 * square + sigma / 2 * trace, gradient

    (hX, _), (hY, gY) = h(X), h(Y)
    step = [
        [Fraction(float(x)) - Fraction(float(y)) for x, y in zip(a, b, strict=True)] for a, b in zip(X, Y, strict=True)
    ]
    exact = hX - hY - sum(g * d for a, b in zip(gY, step, strict=True) for g, d in zip(a, b, strict=True))
    assert kernel.divergence(X, Y) == pytest.approx(float(exact), rel=1e-6)


@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_every_pair_of_the_table_is_first_order_optimal(kernel, penalty):
    if isinstance(kernel, GramKernel) and not isinstance(penalty, Zero | Ridge):
        with pytest.raises(ValueError, match=r"GramKernel with \w+, .*Zero, Ridge.*take NormKernel or EuclideanKernel"):
            kernel.mirror(np.ones((3, 2)), penalty)
    else:
        assert check_mirror(kernel, penalty, tol=1e-11) <= 1e-11


@pytest.mark.parametrize("penalty", [p for p in PENALTIES if not isinstance(p, L0)], ids=repr)
@given(seed=seeds)
def test_norm_mirror_against_scipy(penalty, seed):
    """The map's value is no higher than what a bound-constrained quasi-Newton method finds on U = P − N, P, N ≥ 0."""
    kernel, t = NormKernel(3.0, 0.4), 0.6
    V = np.random.default_rng(seed).standard_normal((3, 2)) * 3

    def value(U):
        return kernel.value(U) + t * penalty.value(U) - float(np.vdot(V, U))

    def split(z):
        P, N = z.reshape(2, 3, 2)
        return P - N

    bounds = [(0, None)] * 6 + [(0, 0) if penalty.nonnegative else (0, None)] * 6
    found = scipy_minimize(lambda z: value(split(z)), np.full(12, 0.1), bounds=bounds, method="L-BFGS-B")
    assert value(kernel.mirror(V, penalty, t)) <= found.fun + 1e-9 * max(1, abs(found.fun))


@given(seeds, st.floats(0.01, 5.0), st.floats(0.01, 2.0))
def test_l0_mirror_against_every_support(seed, weight, sigma):
    kernel, t = NormKernel(2.0, sigma), 0.8
    penalty = L0(weight)
    V = np.random.default_rng(seed).standard_normal((3, 2)) * 2
    values = []
    for support in itertools.product([0, 1], repeat=6):
        U = kernel.mirror(V * np.reshape(support, (3, 2)))
        values.append(kernel.value(U) + t * penalty.value(U) - float(np.vdot(V, U)))
    U = kernel.mirror(V, penalty, t)
    assert kernel.value(U) + t * penalty.value(U) - float(np.vdot(V, U)) == pytest.approx(min(values), abs=1e-12)


def test_float32_stays_float32():
    V = np.ones((5, 2), dtype=np.float32)
    for kernel in KERNELS:
        assert kernel.mirror(V).dtype == np.float32
        assert kernel.gradient(V).dtype == np.float32


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NormKernel(0.0, 1.0), "alpha must be positive"),
        (lambda: NormKernel(1.0, math.nan), "sigma must be positive"),
        (lambda: GramKernel(1.0, -1.0, 1.0), "beta must be nonnegative"),
        (lambda: GramKernel(1.0, 1.0, math.inf), "sigma must be positive"),
        (lambda: NormKernel(1.0, 1.0).mirror(np.ones((2, 2)), t=-1.0), "t must be nonnegative"),
        (lambda: L1(0.0), "weight must be positive"),
        (lambda: Ridge(math.inf), "weight must be positive"),
    ],
)
def test_bad_constants(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("kind", [NormKernel, GramKernel])
def test_a_loss_that_no_quartic_kernel_bounds_is_refused_by_name(kind):
    with pytest.raises(ValueError, match="RawStress has no finite smoothness"):
        kind.for_loss(RawStress([[0, 1], [1, 2]], [1.0, 1.0]))


def test_euclidean_kernel_has_no_constants():
    with pytest.raises(TypeError, match=r"NormKernel\.for_loss"):
        EuclideanKernel.for_loss(LeastSquares(np.eye(3)))


@pytest.mark.parametrize("kernel", [EuclideanKernel(), NormKernel(6.0, 0.3), GramKernel(0.5, 2.0, 0.3)], ids=repr)
def test_integers_lists_and_any_order_give_the_same(kernel):
    """Integer arrays once truncated the answer of the Gram kernel to integers."""
    V = np.array([[1, 2], [3, -1], [0, 5]])
    X, Y = V.astype(float), 0.5 * V
    for form in (V, V.tolist(), np.asfortranarray(X)):
        np.testing.assert_array_equal(kernel.mirror(form), kernel.mirror(X))
        np.testing.assert_array_equal(kernel.gradient(form), kernel.gradient(X))
        assert kernel.value(form) == kernel.value(X)
        assert kernel.divergence(form, Y) == kernel.divergence(X, Y)


def test_derived_kernels_have_the_maps_of_their_parents():
    class Louder(NormKernel):
        def mirror(self, V, penalty=None, t=1.0):
            return 1.01 * super().mirror(V, penalty, t)

    with pytest.raises(AssertionError, match="misses V"):
        check_mirror(Louder(6.0, 1.0))
