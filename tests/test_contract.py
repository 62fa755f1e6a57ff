"""The contract every loss keeps, with every kernel and every solver that fits. A new loss is one line in ``LOSSES``.

Nothing here knows a loss by name: what must hold follows from what the loss says of itself (``quadratic``,
``rotations``, its constants), and is checked against differences of its values, not against its own gradient.
"""

import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

from quartic import Problem, minimize
from quartic.diagnostics import check_gradient, check_relative_smoothness
from quartic.kernels import GramKernel, NormKernel
from quartic.losses import (
    BoundedDistances,
    CodedDiffraction,
    CompleteDistances,
    Completion,
    Distances,
    LeastSquares,
    Loss,
    PhaseRetrieval,
    Point,
    Quadratic,
    Rectangular,
    Robust,
    Sensing,
    Smooth,
)
from quartic.penalties import L0, L1, Nonnegative, NonnegativeL1, NonnegativeRidge, Ridge, Zero
from quartic.solvers import SOLVERS
from quartic.solvers.registry import why_not
from strategies import some_pairs, symmetric

N = 8
SEED = 77  # of starts; data have small seeds, and a start should not be what they were made from


def squares(dtype, seed):
    return np.random.default_rng(seed).uniform(0.5, 3, len(some_pairs(seed, N))).astype(dtype)


def points(dtype, seed):
    X = np.random.default_rng(seed).standard_normal((N, 2))
    return np.linalg.norm(X[:, None] - X[None], axis=2).astype(dtype)


def entries(dtype, seed):
    """Return rows, columns and values of a matrix of rank two: some entries once, some in both orders, the diagonal."""
    i, j = np.concatenate([some_pairs(seed, N, 0.6), some_pairs(seed, N, 0.6)[:7, ::-1], [[k, k] for k in range(N)]]).T
    X = np.random.default_rng(seed).standard_normal((N, 2))
    return i, j, (X @ X.T)[i, j].astype(dtype)


def gaussians(dtype, seed, *shape):
    A = np.random.default_rng(seed + 5).standard_normal(shape)
    return (A if len(shape) < 3 else A + A.swapaxes(1, 2)).astype(dtype)


def sensed(A, seed, noise=0.1):
    """Return measurements of a matrix of rank two, with a little noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, 2))
    Y, noise = X @ X.T, noise * rng.standard_normal(len(A))
    return (np.einsum("kij,ij->k", A, Y) if A.ndim == 3 else np.einsum("ki,ij,kj->k", A, Y, A)) + noise


def sampling(dtype, seed):
    """Return complex sampling vectors for a signal of length 4."""
    A = gaussians(np.float64, seed, 30, 4) + 1j * gaussians(np.float64, seed + 1, 30, 4)
    return A.astype(np.complex64 if dtype == np.float32 else np.complex128)


def intensities(A, seed):
    rng = np.random.default_rng(seed)
    z = rng.standard_normal(A.shape[1]) + 1j * rng.standard_normal(A.shape[1])
    return np.abs(A @ z) ** 2 * rng.uniform(0.9, 1.1, A.shape[0])


def masks(dtype, seed):
    return CodedDiffraction(sampling(dtype, seed)[:6])


def weights(dtype, seed, share=0.3):
    return (np.abs(symmetric(seed + 3, N, share)) + np.eye(N)).astype(dtype)


def on_products(X, Z):
    """Return 𝒜(XXᵀ)Z for 𝒜Y = ½Y + diag(Y), known by its products."""
    return 0.5 * X @ (X.T @ Z) + (X**2).sum(axis=1, keepdims=True) * Z


class Diagonals:
    """An operator of one's own: Y ↦ the sums of Y along its diagonals."""

    n_points = N

    def forward(self, X):
        return np.array([np.trace(X @ X.T, k) for k in range(N)])

    def adjoint(self, y, X):
        Y = sum(v * (np.eye(N, k=k) + np.eye(N, k=-k)) / 2 for k, v in enumerate(y))
        return Y @ X


def oblong(dtype, seed):
    return np.random.default_rng(seed).uniform(0, 2, (N - 3, 4)).astype(dtype)


# Each makes a loss over a few rows (N, or 2N where it must), from data in the dtype given; other seed, other data.
LOSSES = {
    "least squares": lambda dtype, seed: LeastSquares(symmetric(seed, N).astype(dtype)),
    "least squares, sparse": lambda dtype, seed: LeastSquares(sp.csr_array(symmetric(seed, N, 0.3).astype(dtype))),
    "least squares, operator": lambda dtype, seed: LeastSquares(
        aslinearoperator(symmetric(seed, N).astype(dtype)), squared_norm=float((symmetric(seed, N) ** 2).sum())
    ),
    "known entries": lambda dtype, seed: LeastSquares(
        symmetric(seed, N).astype(dtype), weights=(np.abs(symmetric(seed + 1, N, 0.3)) + np.eye(N)).astype(dtype)
    ),
    "completion": lambda dtype, seed: Completion(*entries(dtype, seed), N),
    "completion, weights and ridge": lambda dtype, seed: Completion(
        *entries(dtype, seed), N, weights=np.abs(entries(dtype, seed)[2]) + dtype(0.3), ridge=0.3
    ),
    "sensing, vectors": lambda dtype, seed: Sensing(
        gaussians(dtype, seed, 40, N), sensed(gaussians(dtype, seed, 40, N), seed)
    ),
    "sensing, matrices": lambda dtype, seed: Sensing(
        gaussians(dtype, seed, 40, N, N), sensed(gaussians(dtype, seed, 40, N, N), seed)
    ),
    "sensing, sparse": lambda dtype, seed: Sensing(
        [sp.csr_array(symmetric(seed + k, N, 0.2).astype(dtype)) for k in range(30)],
        sensed(np.array([symmetric(seed + k, N, 0.2) for k in range(30)]), seed),
    ),
    "sensing, operator": lambda dtype, seed: Sensing(Diagonals(), 1.0 + np.random.default_rng(seed).random(N)),
    "phase retrieval, real": lambda dtype, seed: PhaseRetrieval(
        gaussians(dtype, seed, 40, N), intensities(gaussians(dtype, seed, 40, N), seed)
    ),
    "phase retrieval, complex": lambda dtype, seed: PhaseRetrieval(
        sampling(dtype, seed), intensities(sampling(dtype, seed), seed)
    ),
    "phase retrieval, patterns": lambda dtype, seed: PhaseRetrieval(
        masks(dtype, seed), intensities(masks(dtype, seed), seed)
    ),
    "phase retrieval, real from complex": lambda dtype, seed: PhaseRetrieval(
        sampling(dtype, seed), intensities(sampling(dtype, seed), seed), real=True
    ),
    "quadratic": lambda dtype, seed: Quadratic(None, symmetric(seed, N).astype(dtype)),
    "quadratic, weights": lambda dtype, seed: Quadratic(weights(dtype, seed), symmetric(seed, N).astype(dtype)),
    "quadratic, sparse": lambda dtype, seed: Quadratic(
        sp.csr_array(weights(dtype, seed)), sp.csr_array(symmetric(seed, N, 0.3).astype(dtype))
    ),
    "quadratic, products": lambda dtype, seed: Quadratic(on_products, symmetric(seed, N).astype(dtype)),
    "distances": lambda dtype, seed: Distances(some_pairs(seed, N), squares(dtype, seed), N),
    "distances, weights": lambda dtype, seed: Distances(
        some_pairs(seed, N), squares(dtype, seed), N, weights=squares(dtype, seed)[::-1]
    ),
    "distances, all": lambda dtype, seed: CompleteDistances(points(dtype, seed)),
    "distances, bounds": lambda dtype, seed: BoundedDistances(
        some_pairs(seed, N), squares(dtype, seed), squares(dtype, seed) + dtype(0.3), N
    ),
    "robust, huber": lambda dtype, seed: Robust(symmetric(seed, N).astype(dtype), "huber", 3.0),
    "robust, pseudo-huber": lambda dtype, seed: Robust(symmetric(seed, N).astype(dtype), "pseudo-huber", 0.7),
    "robust, logcosh": lambda dtype, seed: Robust(symmetric(seed, N).astype(dtype), "logcosh", 0.7),
    "robust, sparse": lambda dtype, seed: Robust(sp.csr_array(symmetric(seed, N, 0.3).astype(dtype)), "logcosh", 1.0),
    "robust, known entries": lambda dtype, seed: Robust(
        symmetric(seed, N).astype(dtype),
        "pseudo-huber",
        0.7,
        weights=(np.abs(symmetric(seed + 1, N, 0.3)) + np.eye(N)).astype(dtype),
    ),
    "rectangular": lambda dtype, seed: Rectangular(oblong(dtype, seed)),
    "rectangular, sparse": lambda dtype, seed: Rectangular(sp.csr_array(np.maximum(oblong(dtype, seed) - 1, 0))),
    "rectangular, known entries": lambda dtype, seed: Rectangular(
        oblong(dtype, seed), weights=np.where(oblong(dtype, seed + 1) > 0.2, oblong(dtype, seed) + 1, 0)
    ),
    "smooth": lambda dtype, seed: Smooth(
        lambda X: 0.5 * np.sum((X @ X.T - symmetric(seed, N)) ** 2),
        lambda X: (X @ X.T - symmetric(seed, N)) @ X,
        1.0,
        n=N,
    ),
}  # fmt: skip

PENALTIES = [Zero(), Ridge(0.2), Nonnegative(), NonnegativeL1(0.1), NonnegativeRidge(0.2), L1(0.1), L0(0.05)]
# The solvers of symmetric NMF alone have tests of their own.
GENERAL = [name for name, cls in SOLVERS.items() if "point_from" not in cls.requires.loss]

# These keep their data in float64 whatever comes in.
DOUBLE = {"distances, all", "distances, bounds", "sensing, operator", "smooth"}

every_loss = pytest.mark.parametrize("make", LOSSES.values(), ids=LOSSES)


def size_of(loss):
    """Return the size of X at which both terms of the loss count."""
    return math.sqrt(loss.gradient_norm_at_zero / loss.smoothness) if math.isfinite(loss.smoothness) else 1.0


def some_point(loss, seed=0, rank=2):
    rng = np.random.default_rng(seed)
    X, D = rng.standard_normal((2, loss.n_points, rank)) * size_of(loss)
    return X.astype(loss.dtype), D.astype(loss.dtype)


def differenced_gradient(loss, X):
    """Return ∇f by the five-point difference of values, which is exact for a quartic but for round-off."""
    X = X.astype(np.float64)
    h = (1e-2 if loss.quadratic else 1e-5) * max(np.abs(X).max(), 1e-3 * size_of(loss))
    G = np.empty_like(X)
    for place in np.ndindex(X.shape):
        values = []
        for step in (-2, -1, 1, 2):
            Y = X.copy()
            Y[place] += step * h
            values.append(loss.value(Y))
        G[place] = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * h)
    return G


# -- the point --------------------------------------------------------------------------------------------------------


@every_loss
@pytest.mark.parametrize("rank", [1, 2, 5])
def test_gradient_against_differences(make, rank):
    loss = make(np.float64, 0)
    X, _ = some_point(loss, rank, rank)
    assert check_gradient(loss, X) <= 1e-6
    G = loss.gradient(X)
    np.testing.assert_allclose(differenced_gradient(loss, X), G, atol=1e-6 * np.abs(G).max())


@every_loss
def test_hessian_product_against_differences(make):
    loss = make(np.float64, 0)
    X, D = some_point(loss)
    try:
        H = loss.hessian_product(loss.at(X), D)
    except TypeError:
        assert not loss.quadratic, "a quadratic F has a second derivative"
        return
    t = 1e-5
    differences = (loss.gradient(X + t * D) - loss.gradient(X - t * D)) / (2 * t)
    np.testing.assert_allclose(H, differences, atol=1e-6 * np.abs(H).max())


@every_loss
def test_along_against_direct_evaluation(make):
    loss = make(np.float64, 0)
    X, D = some_point(loss)
    if not loss.quadratic:
        with pytest.raises(TypeError, match="not a quartic on lines"):
            loss.along(loss.at(X), D)
        return
    line = loss.along(loss.at(X), D)
    for t in (-1.3, 0.0, 0.4, 2.0):
        there, moved = loss.at(X + t * D), line.point(t)
        np.testing.assert_allclose(moved.X, there.X)
        assert line(t) == pytest.approx(there.value, rel=1e-9)
        assert moved.value == pytest.approx(there.value, rel=1e-9)
        np.testing.assert_allclose(moved.gradient, there.gradient, atol=1e-9 * np.abs(there.gradient).max())


@every_loss
@pytest.mark.parametrize("distance", [1.0, 1e-3, 1e-7])
def test_move_keeps_its_digits(make, distance):
    """f(X + D) − f(X) − ⟨∇f(X), D⟩ is ∫(1 − s)⟨D, ∇²f(X + sD)D⟩ds, here by Gauss's rule on [0, 1] with differences."""
    loss = make(np.float64, 0)
    X, D = some_point(loss)
    p = loss.at(X)
    move = loss.move(p, X + distance * D)
    np.testing.assert_allclose(move.D, distance * D, rtol=1e-6)
    np.testing.assert_allclose(move.point.gradient, loss.gradient(X + distance * D), rtol=1e-9, atol=1e-9)
    nodes, weights = np.polynomial.legendre.leggauss(60 if loss.quadratic else 400)
    total, t = 0.0, 1e-5
    for s, w in zip((nodes + 1) / 2, weights / 2, strict=True):
        Y = X + s * distance * D
        bend = np.vdot(D, loss.gradient(Y + t * D) - loss.gradient(Y - t * D)) / (2 * t)
        total += w * (1 - s) * bend
    # second derivatives may jump where F is not quadratic, and Gauss's rule likes none of that
    assert move.remainder == pytest.approx(distance**2 * total, rel=1e-5 if loss.quadratic else 1e-3)


@every_loss
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extrapolation_restoring_and_counting(make, dtype):
    loss = make(dtype, 0)
    X, Y = some_point(loss)
    before = loss.n_products
    p = loss.at(X)
    assert loss.n_products > before
    q = loss.at(Y)
    e = loss.extrapolate(p, q, 0.5)
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(e.gradient, loss.at(X + dtype(0.5) * (X - Y)).gradient, atol=1e4 * eps * norm_of(e))
    again = loss.restore(p.arrays())
    assert again.value == p.value
    np.testing.assert_array_equal(again.gradient, p.gradient)
    twin = loss.counted()
    assert twin.n_products == 0
    twin.at(X)
    assert twin.n_products >= 1


def norm_of(point):
    return np.abs(point.gradient).max()


def test_single_precision_is_kept_but_by_the_losses_listed():
    assert {name for name, make in LOSSES.items() if make(np.float32, 0).dtype != np.float32} == DOUBLE


@every_loss
def test_float32_agrees_with_float64(make):
    single, double = make(np.float32, 0), make(np.float64, 0)
    assert double.dtype == np.float64
    X, D = some_point(single)
    p, exact = single.at(X), double.at(X.astype(np.float64))
    assert p.gradient.dtype == single.dtype
    assert p.value == pytest.approx(exact.value, rel=1e-4)
    np.testing.assert_allclose(p.gradient, exact.gradient, atol=1e-4 * norm_of(exact))
    if single.quadratic:
        there = single.along(p, D).point(0.5)
        exact = double.at((X + 0.5 * D).astype(np.float64))
        assert there.X.dtype == there.gradient.dtype == single.dtype
        np.testing.assert_allclose(there.gradient, exact.gradient, atol=1e-3 * norm_of(exact))


@every_loss
def test_fingerprints_tell_data_apart(make):
    assert make(np.float64, 0).fingerprint() == make(np.float64, 0).fingerprint()
    assert make(np.float64, 0).fingerprint() != make(np.float64, 1).fingerprint()


def test_fingerprints_tell_operators_of_one_norm_apart():
    rng = np.random.default_rng(0)
    M = rng.standard_normal((9, 9))
    M, size = M + M.T, float(np.sum((M + M.T) ** 2))
    one, other = (LeastSquares(aslinearoperator(A), squared_norm=size).fingerprint() for A in (M, M[::-1, ::-1]))
    assert one != other


# -- the constants ----------------------------------------------------------------------------------------------------


def outer_gradient(loss, Y):
    """Return ∇F(Y), symmetric part, for positive definite Y: ∇f(X) = 2∇F(XXᵀ)X with X a square root of Y."""
    X = np.linalg.cholesky(Y)
    G = np.linalg.solve(X.T, loss.gradient(X).T).T / 2
    return (G + G.T) / 2


def spectrum_of_hessian(loss, Y):
    """Return the spectrum of ∇²F along symmetric S: ∇F(Y + hS) − ∇F(Y) over a basis of them, with h short beside Y.

    Where F is quadratic it is exact; elsewhere it is a mean over the way, so that none is above L_F either.
    """
    n, short = len(Y), (1.0 if loss.quadratic else 1e-3) * np.linalg.eigvalsh(Y)[0] / 2
    basis = []
    for i, j in zip(*np.triu_indices(n), strict=True):
        S = np.zeros((n, n))
        S[i, j] = S[j, i] = 1 if i == j else math.sqrt(0.5)
        basis.append(S)
    here = outer_gradient(loss, Y)
    H = np.array([(outer_gradient(loss, Y + short * S) - here).ravel() / short for S in basis])
    H = H @ np.array([S.ravel() for S in basis]).T
    return np.linalg.eigvalsh((H + H.T) / 2)


def points_to_look_at(loss):
    """Yield positive definite Y: where F is not quadratic, of all sizes from next to nothing, and some of them full."""
    n, scale = loss.n_points, size_of(loss) ** 2
    if loss.quadratic:
        yield 2 * scale * np.eye(n)
        return
    B = np.random.default_rng(0).standard_normal((n, n))
    for t in scale * np.geomspace(1e-6, 1e3, 19):
        yield t * np.eye(n)
        yield t * (np.eye(n) + B @ B.T / n)


@every_loss
def test_constants_hold(make):
    loss = make(np.float64, 0)
    zero = outer_gradient(loss, 1e-7 * size_of(loss) ** 2 * np.eye(loss.n_points))
    assert np.linalg.norm(zero) <= loss.gradient_norm_at_zero * (1 + 1e-4)
    assert np.linalg.eigvalsh(zero)[-1] <= loss.curvature_at_zero + 1e-4 * loss.gradient_norm_at_zero
    if not math.isfinite(loss.smoothness):
        return
    for Y in points_to_look_at(loss):
        spectrum = spectrum_of_hessian(loss, Y)
        assert loss.smoothness >= spectrum[-1] * (1 - 1e-6)
        if loss.quadratic:
            assert loss.strong_convexity <= max(spectrum[0], 0) + 1e-6 * spectrum[-1]


class Poisson(Loss):
    """Σ (Y + c) − A log(Y + c), below zero continued by a parabola; ``share`` of L_F is what it says of itself."""

    def __init__(self, A, c=0.1, share=1.0):
        super().__init__()
        self.A, self.c, self.share, self.n_points = A, c, share, len(A)
        self.curvature = float(A.max()) / c**2  # F'' = A / (Y + c)²

    def at(self, X):
        Y = X @ X.T
        up, low = np.maximum(Y, 0) + self.c, np.minimum(Y, 0)
        slope = 1 - self.A / up
        value = up - self.A * np.log(up) + slope * low + 0.5 * self.curvature * low**2
        return Point(X, float(np.sum(value)), 2 * (slope + self.curvature * low) @ X)

    @property
    def smoothness(self):
        return self.share * self.curvature

    @property
    def gradient_norm_at_zero(self):
        return float(np.linalg.norm(1 - self.A / self.c))


HALVED = [name for name in LOSSES if name.startswith("robust")] + ["distances, bounds", "smooth"]


@pytest.mark.parametrize("name", HALVED)
def test_half_of_the_smoothness_would_not_hold(name):
    """Else the test above says little: the largest curvature is found where F is not quadratic too."""
    loss = LOSSES[name](np.float64, 0)
    assert not loss.quadratic
    assert max(spectrum_of_hessian(loss, Y)[-1] for Y in points_to_look_at(loss)) > 0.5 * loss.smoothness


def test_a_poisson_loss_that_halves_its_smoothness_is_caught():
    counts = np.random.default_rng(0).poisson(5.0, (N, N)).astype(float)
    counts += counts.T
    test_constants_hold(lambda dtype, seed: Poisson(counts))
    with pytest.raises(AssertionError):
        test_constants_hold(lambda dtype, seed: Poisson(counts, share=0.5))


@every_loss
@pytest.mark.parametrize("kind", [NormKernel, GramKernel])
@pytest.mark.parametrize("tight", [True, False])
def test_relative_smoothness_with_the_stated_constants(make, kind, tight):
    loss = make(np.float64, 0)
    if not math.isfinite(loss.smoothness):
        pytest.skip("this loss has no finite constant, and says so")
    kernel = kind.for_loss(loss, tight=tight)
    for rank in (1, 3):
        assert check_relative_smoothness(loss, kernel, rank=rank, n_samples=100) <= 1 + 1e-9


# -- the solvers ------------------------------------------------------------------------------------------------------


def kernels_for(loss, penalty):
    """Yield no kernel (the problem's own choice), and each whose mirror map exists for the penalty."""
    yield None
    for kind in (NormKernel, GramKernel):
        kernel = kind.for_loss(loss)
        if kernel.why_not(penalty) is None:
            yield kernel


@every_loss
@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
def test_every_solver_that_fits_ends_stationary(make, penalty):
    """By an outside referee: the gradient from differences of values, not the loss's own."""
    loss = make(np.float64, 0)
    if not math.isfinite(loss.smoothness):
        pytest.skip("this loss has no finite constant, and says so")
    fitted = set()
    for kernel, name in itertools.product(kernels_for(loss, penalty), ["auto", *GENERAL]):
        problem = Problem(loss, penalty, kernel)
        if name != "auto" and (
            why_not(SOLVERS[name](), problem) is not None or (kernel is not None and not SOLVERS[name].requires.kernel)
        ):
            continue
        fitted.add(name)
        slow = name in ("nolips", "cocain")  # their steps never grow: they go down, however slowly
        limit = 50 if slow else 20_000
        result = minimize(problem, rank=2, solver=name, tol=1e-3, max_iter=limit, random_state=SEED)
        words = f"{name} with {kernel}: {result.message}"
        if slow:
            assert result.history.objective[-1] <= result.history.objective[0], words
            continue
        assert result.success, words
        outside = penalty.stationarity(result.X, differenced_gradient(loss, result.X))
        reference = result.history.stationarity[0]
        noise = (
            1e-9 * abs(loss.value(result.X)) / max(np.abs(result.X).max(), 1e-3 * size_of(loss))
        )  # of the differences
        assert np.linalg.norm(outside) <= 2e-3 * reference + noise, words
    assert {"auto", "dyn-nolips", "inertial"} <= fitted


@every_loss
@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
def test_dyn_nolips_never_rises(make, penalty):
    loss = make(np.float64, 3)
    if not math.isfinite(loss.smoothness):
        pytest.skip("this loss has no finite constant, and says so")
    for kernel in kernels_for(loss, penalty):
        problem = Problem(loss, penalty, kernel)
        result = minimize(problem, rank=2, solver="dyn-nolips", tol=1e-7, max_iter=100, random_state=SEED)
        objective = result.history.objective
        # values are known to round-off of the largest term of the sum, which is about f(0)
        allowed = 1e-13 * (abs(objective[0]) + abs(loss.value(np.zeros_like(result.X))) + 1e-300)
        assert (np.diff(objective) <= allowed).all()


@every_loss
def test_float32_runs_stay_float32_and_end_as_low(make):
    single, double = make(np.float32, 0), make(np.float64, 0)
    for name in ("auto", "dyn-nolips"):
        if not math.isfinite(single.smoothness) and name != "auto":
            continue
        X0 = double.random_start(2, False, np.random.default_rng(SEED))
        low = minimize(Problem(single), X0, solver=name, tol=1e-3, max_iter=5000)
        high = minimize(Problem(double), X0, solver=name, tol=1e-3, max_iter=5000)
        assert low.X.dtype == single.dtype
        assert high.X.dtype == np.float64
        assert low.success, low.message
        slack = 1e-3 * abs(double.value(X0) - high.objective)
        assert low.objective == pytest.approx(high.objective, rel=1e-3, abs=slack)
