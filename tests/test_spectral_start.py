"""The spectral start: what it promises, what it costs, and that runs count it."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, eigsh

from quartic import Problem, minimize
from quartic.arrays import HOST, orthonormal
from quartic.arrays.threads import limited_to
from quartic.datasets import karate, planted_graph
from quartic.init import factorization, random_start, spectral_start
from quartic.init.factorization import filtered_eigenpairs
from quartic.losses import Distances, LeastSquares
from quartic.losses.factor import matrix as factor_matrix
from quartic.losses.factor.matrix import ProjectedMatrix, as_matrix
from quartic.penalties import Nonnegative, Zero


def symnmf(M):
    return Problem(LeastSquares(M), Nonnegative())


def start(M, rank, seed=0, penalty=None):
    problem = Problem(LeastSquares(M), penalty or Nonnegative())
    return spectral_start(problem, rank, np.random.default_rng(seed))


PLANTED, LABELS = planted_graph(400, 6, random_state=0)


# -- the point itself -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("M", [PLANTED, karate().adjacency, np.ones((5, 5)), np.eye(2)])
@pytest.mark.parametrize("rank", [1, 2])
def test_positive_and_best_scaled(M, rank):
    X = start(M, rank)
    assert X.shape == (M.shape[0], rank)
    assert np.isfinite(X).all()
    assert (X > 0).all()  # a zero would lock multiplicative methods
    # d/dt f(tX) = 2t³‖XᵀX‖² − 2t⟨MX, X⟩ vanishes at t = 1
    assert np.linalg.norm(X.T @ X) ** 2 == pytest.approx(float(((M @ X) * X).sum()), rel=1e-10)


@pytest.mark.parametrize("n_turns", [1, 10])
def test_finds_planted_groups_alone(n_turns, monkeypatch):
    """The gap is wide, so that the start is the answer but for its scale; one turn from the pivoted rows finds it."""
    monkeypatch.setattr(factorization, "_TURNS", n_turns)
    X = start(PLANTED, 6)
    table = np.zeros((6, 6))
    np.add.at(table, (LABELS, X.argmax(axis=1)), 1)
    assert (table > 0).sum() == 6


def test_factorises_a_nonnegative_product_exactly():
    """With orthogonal columns the turned eigenvectors are the factor."""
    Y = np.kron(np.eye(4), np.ones((10, 1))) * np.random.default_rng(0).uniform(0.5, 2.0, (40, 1))
    X = start(Y @ Y.T, 4)
    assert np.linalg.norm(Y @ Y.T - X @ X.T) < 0.02 * np.linalg.norm(Y @ Y.T)  # zeros lifted to a hundredth
    shuffled = np.abs(X.T @ Y).argmax(axis=1)
    assert sorted(shuffled) == [0, 1, 2, 3]


def test_follows_the_scale_of_the_data():
    for factor in (1e-12, 1e12):
        np.testing.assert_allclose(start(factor * PLANTED, 6), np.sqrt(factor) * start(PLANTED, 6), rtol=1e-6)


def test_seeds():
    np.testing.assert_array_equal(start(PLANTED, 8, seed=3), start(PLANTED, 8, seed=3))
    assert not np.array_equal(start(PLANTED, 8, seed=3), start(PLANTED, 8, seed=4))


def test_float32_stays():
    X = start(PLANTED.astype(np.float32), 6)
    assert X.dtype == np.float32
    np.testing.assert_array_equal(X.argmax(axis=1), start(PLANTED, 6).argmax(axis=1))


def test_nodes_without_edges_stay_zero():
    M = sp.block_diag([PLANTED, sp.csr_array((3, 3))]).tocsr()
    X = start(M, 6)
    assert (X[-3:] == 0).all()
    assert (X[:-3] > 0).all()


@pytest.mark.parametrize("M", [-np.ones((6, 6)), -np.eye(6), np.diag([1e-300] * 6)])
def test_matrices_without_a_useful_spectrum_still_start(M):
    X = start(M, 2)
    assert np.isfinite(X).all()
    assert (X > 0).all()


# -- eigenvectors -----------------------------------------------------------------------------------------------------


def test_without_signs_it_is_the_best_low_rank_approximation(monkeypatch):
    monkeypatch.setattr(factorization, "_PRODUCTS", 32)
    X = start(PLANTED, 6, penalty=Zero())
    values, U = eigsh(PLANTED, 6, which="LA")
    np.testing.assert_allclose(X @ X.T, (U * values) @ U.T, atol=1e-6)


def test_large_negative_eigenvalues_do_not_get_in(monkeypatch):
    """Filters amplify both ends of the spectrum until the lower end is seen."""
    monkeypatch.setattr(factorization, "_PRODUCTS", 32)
    rng = np.random.default_rng(1)
    Q = np.linalg.qr(rng.standard_normal((200, 200)))[0]
    values = np.r_[np.linspace(5, 3, 4), rng.uniform(-0.5, 0.5, 176), np.linspace(-20, -4, 20)]
    M = (Q * values) @ Q.T
    X = start((M + M.T) / 2, 4, penalty=Zero())
    np.testing.assert_allclose(np.linalg.eigvalsh(X.T @ X)[::-1], values[:4], rtol=1e-3)


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("degree", [8, 20, 120])
def test_filters_do_not_overflow(library, dtype, degree):
    """A random subspace sees nothing of a spectrum that is even about zero, and its filters then grow a thousandfold.

    Eight products do that to 10⁶ rows in single precision; more of them, or a wider spectrum, to a few thousand.
    """
    values = np.r_[1.0, np.linspace(0.9, 0.8, 5), np.tile([0.3, -0.3], 1997)]
    Q = np.random.default_rng(0).standard_normal((4000, 16)).astype(dtype)
    factors = values.astype(dtype)[:, None]
    if library == "torch":
        torch = pytest.importorskip("torch", reason="needs torch")
        Q, factors = torch.from_numpy(Q), torch.from_numpy(factors)
    found, U = filtered_eigenpairs(lambda X: factors * X, Q, 6, 2 * degree, degree)
    np.testing.assert_allclose(found[:6], values[:6], rtol=1e-3 if degree == 8 else 1e-5)
    U = np.asarray(U, dtype=np.float64)[:, :6]
    np.testing.assert_allclose(U.T @ U, np.eye(6), atol=100 * np.finfo(dtype).eps)
    assert np.abs(U[6:]).max() < 0.05


def _series(n, groups, seed):
    """Correlations of series: the first eigenvalue is a hundred times the last that matters."""
    rng = np.random.default_rng(seed)
    W = rng.random((n, groups)) ** 4
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    noise = 0.29 * rng.random((n, n))
    return W @ W.T + (noise + noise.T) / 2


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_one_large_eigenvalue_does_not_hide_the_others(dtype):
    """Dense M ≥ 0 has one eigenvalue far above the rest; a filter of high degree would leave only that one."""
    M = _series(800, 20, seed=0) + 1
    exact = np.linalg.eigvalsh(M)[::-1][:20]
    assert exact[0] > 30 * exact[-1]
    Q = np.random.default_rng(1).standard_normal((800, 30)).astype(dtype)
    found, _ = filtered_eigenpairs(lambda X: M.astype(dtype) @ X, Q, 20, 16, 8)
    np.testing.assert_allclose(found[:20], exact, rtol=1e-3)


# -- dense matrices ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_dense_matrices_are_descended_on_by_their_projection(library, dtype, monkeypatch):
    """The products are those of the sparse start, and the run is nearly done when it begins."""
    M, rank = _series(700, 20, seed=1).astype(dtype), 20
    if library == "torch":
        M = pytest.importorskip("torch", reason="needs torch").from_numpy(M)
    found = {}
    for least in (np.inf, 1.0):
        monkeypatch.setattr(factorization, "_MULTIPLICATIONS", (least, least))
        found[least] = minimize(symnmf(M), spectral_start, rank=rank, reference=random_start, random_state=0)
        assert found[least].success
    plain, projected = found.values()
    assert projected.history.n_products[0] == plain.history.n_products[0]
    assert projected.history.objective[0] < 1.05 * projected.objective < plain.history.objective[0]
    assert projected.n_products < 0.7 * plain.n_products
    assert projected.objective < 1.01 * plain.objective


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_a_projected_matrix(library):
    rng = np.random.default_rng(0)
    M, Q, X = _series(60, 4, seed=2), np.linalg.qr(rng.standard_normal((60, 5)))[0], rng.random((60, 3))
    values = np.array([3.0, 2.0, 1.0, 0.5, -0.25])
    exact = (Q * values) @ Q.T
    if library == "torch":
        torch = pytest.importorskip("torch", reason="needs torch")
        M, Q, X = (torch.from_numpy(A) for A in (M, Q, X))
    matrix = ProjectedMatrix(as_matrix(M), Q, values)
    for power in (0, 3):
        scaled = matrix.scaled(power)
        np.testing.assert_allclose(np.asarray(scaled.product(X)), 2.0**power * exact @ np.asarray(X), atol=1e-12)
        assert scaled.squared_norm == pytest.approx(4.0**power * (exact**2).sum())
        assert scaled.total()[0] == pytest.approx(2.0**power * exact.sum())


# -- in a run ---------------------------------------------------------------------------------------------------------


def test_products_and_time_of_the_start_are_counted():
    products = []

    def product(X):
        products.append(X.shape)
        return PLANTED @ X

    operator = LinearOperator(PLANTED.shape, matvec=product, matmat=product, dtype=np.float64)
    loss = LeastSquares(operator, squared_norm=float((PLANTED.data**2).sum()))
    result = minimize(Problem(loss, Nonnegative()), spectral_start, rank=6, random_state=0, reference=random_start)
    assert result.n_products == len(products)
    assert result.history.n_products[0] >= 3 + 8 + 1
    assert loss.n_products == 0  # the user's loss keeps its own count


def test_strategy_is_the_same_as_its_array():
    problem = symnmf(PLANTED)
    X0 = spectral_start(problem, 6, np.random.default_rng(5))
    n_started = problem.loss.n_products
    given = minimize(problem, X0, solver="inertial", tol=1e-6)
    called = minimize(problem, spectral_start, rank=6, random_state=5, solver="inertial", tol=1e-6)
    np.testing.assert_array_equal(given.X, called.X)
    assert called.n_products == given.n_products + n_started


@pytest.mark.parametrize(("rank", "n_filters"), [(4, 1), (6, 1), (12, 2)])
def test_one_filter_where_a_gap_follows_the_wanted_eigenvalues(rank, n_filters):
    """Six groups: the gap is behind the sixth eigenvalue. Beyond it a second filter tells neighbours apart."""
    problem = symnmf(PLANTED)
    spectral_start(problem, rank, np.random.default_rng(0))
    assert problem.loss.n_products == 3 + n_filters * 8


def test_large_graphs_start_in_single_precision(monkeypatch):
    wide = start(PLANTED, 6)
    monkeypatch.setattr(factor_matrix, "_MANY", 1)
    rough = start(PLANTED, 6)
    assert rough.dtype == np.float64
    assert 0 < np.linalg.norm(rough @ rough.T - wide @ wide.T) < 0.01 * np.linalg.norm(wide @ wide.T)
    tiny = LeastSquares(1e-30 * PLANTED)
    assert tiny.rough().dtype == np.float64  # squares would underflow


def test_reference_of_a_strategy():
    """reference=random_start stands for the number measured at that start, for the price of one product."""
    problem = symnmf(PLANTED)
    point = problem.loss.at(random_start(problem, 6, np.random.default_rng(2)))
    settings = {"X0": np.ones((400, 6)), "solver": "inertial", "random_state": 2}
    number = minimize(problem, reference=problem.stationarity(point), **settings)
    strategy = minimize(problem, reference=random_start, **settings)
    np.testing.assert_array_equal(number.X, strategy.X)
    assert number.message == strategy.message
    assert strategy.n_products == number.n_products + 1


def test_random_strategy_is_the_random_start():
    problem = symnmf(PLANTED)
    strategy = minimize(problem, random_start, rank=3, random_state=9, max_iter=3)
    plain = minimize(problem, rank=3, random_state=9, max_iter=3)
    np.testing.assert_array_equal(strategy.X, plain.X)


@pytest.mark.parametrize("solver", ["dyn-nolips", "inertial"])
def test_fewer_products_and_no_worse_than_random(solver):
    """What `quartic bench speed` measures of starts, in small."""
    M, _ = planted_graph(500, 12, degree=6, p_within=0.7, random_state=2)
    totals = {}
    for strategy in (random_start, spectral_start):
        runs = [
            minimize(symnmf(M), strategy, rank=12, solver=solver, reference=random_start, random_state=seed)
            for seed in range(3)
        ]
        assert all(run.success for run in runs)
        totals[strategy] = (sum(run.n_products for run in runs), sum(run.objective for run in runs))
    assert totals[spectral_start][0] < 0.8 * totals[random_start][0]
    assert totals[spectral_start][1] <= totals[random_start][1] * (1 + 1e-4)


# -- errors -----------------------------------------------------------------------------------------------------------


def test_errors():
    with pytest.raises(ValueError, match="give rank=r"):
        minimize(symnmf(PLANTED), spectral_start)
    with pytest.raises(ValueError, match="rank must lie between"):
        minimize(symnmf(PLANTED), spectral_start, rank=401)
    with pytest.raises(TypeError, match="the loss is Distances; use a random start"):
        minimize(Problem(Distances([[0, 1], [1, 2]], [1.0, 1.0])), spectral_start, rank=2)
    with pytest.raises(ValueError, match="X0 must have one row"):
        minimize(symnmf(PLANTED), lambda problem, rank, generator: np.ones((3, rank)), rank=2)
    with pytest.raises(ValueError, match="X0 has 5 columns but rank = 2"):
        minimize(symnmf(PLANTED), lambda problem, rank, generator: np.ones((400, 5)), rank=2)


# -- its passes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_an_eigenvalue_that_is_seen_late_does_not_overflow(dtype):
    """Of a million points on a device the first subspace sees little of the largest eigenvalues."""
    rng = np.random.default_rng(0)
    diagonal = rng.uniform(-1, 1, (3000, 1)).astype(dtype)
    diagonal[0] = 1e7
    Q = rng.standard_normal((3000, 8)).astype(dtype)
    Q[0] *= 1e-12
    values, Q = filtered_eigenpairs(lambda X: diagonal * X, Q, 1, 16, 8)
    assert values[0] == pytest.approx(1e7, rel=1e-4)
    assert abs(Q[0, 0]) == pytest.approx(1, abs=1e-4)


def test_a_step_of_chebyshevs_recursion():
    rng = np.random.default_rng(0)
    MT, T, before = (rng.standard_normal((50_000, 4)) for _ in range(3))
    expected = (2 / 0.7) * (MT - 0.3 * T) - before
    HOST.mix(before, -1.0, (2 / 0.7, MT), (-2 * 0.3 / 0.7, T))
    np.testing.assert_allclose(before, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("shape", [(7,), (50_000, 30), (1 << 17, 1), (0, 5)])
def test_copies_begin_with_a_cache_line(shape):
    """In rows of all widths, and views keep the memory that a run would use again."""
    A = np.random.default_rng(0).standard_normal(shape)
    for made in (HOST.copy(A), HOST.copy(np.asfortranarray(A)), HOST.astype(HOST.astype(A, np.float32), np.float64)):
        np.testing.assert_allclose(made, A, rtol=1e-6)
        assert made.flags.c_contiguous
        assert made.nbytes < 1 << 16 or (made.ctypes.data % 64 == 0 and made[1:].ravel().base is made)


def test_random_numbers_of_tall_arrays():
    """They come in pieces, the same on any number of threads, and unlike each other."""
    shape, made = (300_000, 5), []
    for limit in (1, 2):
        with limited_to(limit):
            rng = np.random.default_rng(0)
            normal = HOST.normal(rng, shape), HOST.normal(rng, shape, np.float32)
            made.append((*normal, HOST.uniform(rng, 1.0, 3.0, shape)))
    for one, other in zip(*made, strict=True):
        np.testing.assert_array_equal(one, other)
        assert len(np.unique(one.astype(np.float32)[:, 0])) > 0.95 * shape[0]
    X, Y, U = made[0]
    assert Y.dtype == np.float32
    assert abs(np.corrcoef(X[:, 0], Y[:, 0])[0, 1]) < 0.01
    np.testing.assert_allclose([X.mean(), X.std(), U.min(), U.max()], [0, 1, 1, 3], atol=0.01)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("condition", [1.0, 1e3, 1e6, 1e12, np.inf])
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_orthonormal_bases(condition, dtype, library):
    """By products where that is accurate, by a QR decomposition where columns are nearly dependent."""
    rng = np.random.default_rng(1)
    A = rng.standard_normal((400, 6)).astype(dtype)
    A[:, 5] = A[:, 4] + A[:, 5] / dtype(condition)
    A *= (10.0 ** np.arange(-15, 15, 5)).astype(dtype)
    if library == "torch":
        torch = pytest.importorskip("torch", reason="needs torch")
        Q = orthonormal(torch.from_numpy(A)).numpy()
    else:
        Q = orthonormal(A)
    assert Q.dtype == dtype
    np.testing.assert_allclose(Q.astype(float).T @ Q.astype(float), np.eye(6), atol=100 * np.finfo(dtype).eps)
    independent = A[:, :5] / np.linalg.norm(A[:, :5], axis=0)
    outside = independent - Q @ (Q.T @ independent)
    assert np.abs(outside).max() < 100 * np.finfo(dtype).eps
