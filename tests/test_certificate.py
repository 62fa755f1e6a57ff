"""Certificates of global optimality: against convex problems with known solutions, and what they must refuse."""

import numpy as np
import pytest
import scipy.sparse as sp

from quartic import Problem, certify, grow_rank, minimize
from quartic.arrays.subspace import lowest_eigenpairs
from quartic.losses import Anchored, Completion, Distances, LeastSquares, Quadratic, RawStress, Robust, Sensing
from quartic.losses.base import Loss
from quartic.penalties import L1, Nonnegative, Ridge
from strategies import make_loss, symmetric


def entries_of(n=300, rank=3, share=0.15, seed=0):
    """Return a matrix of low rank, and the loss of some of its entries."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, rank))
    known = np.triu(rng.random((n, n)) < share)
    M = X @ X.T
    return M, LeastSquares(M, weights=sp.csr_array((known | known.T).astype(float)))


def test_a_solved_completion_is_accepted_and_one_of_too_small_rank_is_not():
    _, loss = entries_of()
    problem = Problem(loss)
    for rank, right in ((2, False), (3, True), (5, True)):
        X = minimize(problem, rank=rank, tol=1e-8, random_state=0).X
        certificate = certify(problem, X)
        assert certificate.holds is right
        assert bool(certificate) is right
        assert (certificate.directions.shape[1] > 0) is not right
        assert ("not optimal" in str(certificate)) is not right
    assert certificate.gap <= 1e-12 * loss.value(np.zeros_like(X))  # an exact fit: F cannot be negative
    assert certificate.global_bound


def test_growth_finds_the_rank():
    M, loss = entries_of()
    found = grow_rank(Problem(loss), random_state=0)
    assert found.success
    assert found.ranks == (1, 2, 3)
    assert found.rank == 3
    assert np.linalg.norm(found.X @ found.X.T - M) <= 1e-6 * np.linalg.norm(M)
    objectives = [certificate.objective for certificate in found.certificates]
    assert objectives == sorted(objectives, reverse=True)
    assert found.n_products > sum(result.n_products for result in found.results)
    stopped = grow_rank(Problem(loss), max_rank=2, random_state=0)
    assert not stopped.success
    assert stopped.ranks == (1, 2)
    assert "max_rank = 2" in stopped.message


@pytest.mark.parametrize("ridge", [0.0, 0.8])
@pytest.mark.parametrize("seed", range(3))
def test_least_squares_over_the_cone(ridge, seed):
    """The solution is known: the eigenvalues of M less ½ρ, those below zero dropped."""
    M = symmetric(seed, 20)
    problem = Problem(LeastSquares(M), Ridge(ridge) if ridge else None)
    values, vectors = np.linalg.eigh(M)
    kept = np.maximum(values - ridge / 2, 0)
    Y = (vectors * kept) @ vectors.T
    exact = 0.5 * np.sum((M - Y) ** 2) + 0.5 * ridge * kept.sum()
    found = grow_rank(problem, increase=3, random_state=0)
    assert found.success
    assert found.objective == pytest.approx(exact, rel=1e-8)
    np.testing.assert_allclose(found.X @ found.X.T, Y, atol=1e-4)
    assert found.certificate.gap <= 1e-3 * exact
    # the bound is one at every rank on the way; where there is a ridge its radius is no restriction
    for certificate in found.certificates:
        assert certificate.global_bound or not ridge
        if certificate.global_bound or certificate.trace_radius >= kept.sum():
            assert certificate.lower_bound <= exact * (1 + 1e-9)


def test_the_gap_is_about_the_set_it_names():
    """Without a ridge: no Y of trace at most R is lower, here for the best multiple of every eigenvector."""
    M = symmetric(1, 15)
    problem = Problem(LeastSquares(M))
    X = minimize(problem, rank=1, tol=1e-8, random_state=0).X
    # in the last case F is all but linear over the set, and so the bound all but exact
    for size, radius in ((1.0, 1.0), (1.0, 5.0), (1.0, 50.0), (1e-6, 0.01)):
        certificate = certify(problem, size * X, trace_radius=radius)
        assert certificate.trace_radius == radius
        for vector in np.linalg.eigh(M)[1].T:
            for trace in np.linspace(0, radius, 20):
                Y = trace * np.outer(vector, vector)
                assert 0.5 * np.sum((M - Y) ** 2) >= certificate.lower_bound - 1e-9


def test_growth_with_a_loss_that_is_not_quadratic():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2))
    noise = symmetric(0, 40, 0.1)
    found = grow_rank(Problem(Robust(X @ X.T + noise, "pseudo-huber", 0.5), Ridge(6.0)), random_state=0, max_rank=12)
    assert found.success, found.message
    values = [certificate.objective for certificate in found.certificates]
    assert values == sorted(values, reverse=True)
    assert found.certificate.gap < 1e-3 * found.objective


def test_distances_without_noise_are_certified_in_their_dimension():
    points = np.random.default_rng(0).standard_normal((40, 2))
    pairs = np.array(np.triu_indices(40, 1)).T[::2]
    squared = np.sum((points[pairs[:, 0]] - points[pairs[:, 1]]) ** 2, axis=1)
    found = grow_rank(Problem(Distances(pairs, squared)), random_state=0)
    assert found.success
    assert found.rank <= 3  # a translation adds one to the rank of XXᵀ
    sizes = np.linalg.svd(found.X - found.X.mean(axis=0), compute_uv=False)
    assert (sizes[2:] < 1e-2 * sizes[0]).all()  # with a column too many the objective is flat to fourth order


@pytest.mark.parametrize("kind", ["dense", "sparse", "known entries", "distances", "weighted distances"])
def test_operator_of_the_gradient(kind):
    """Against ∇f = 2∇F(XXᵀ)X at a square X, which gives all of ∇F."""
    loss = make_loss(kind, 3)
    rng = np.random.default_rng(0)
    S = rng.standard_normal((12, 12))
    Z = np.linalg.solve(S.T, loss.gradient(S).T).T / 2
    V = rng.standard_normal((12, 3))
    for operator in (loss.gradient_operator(loss.at(S)), Loss.gradient_operator(loss, loss.at(S))):
        np.testing.assert_allclose(operator(V), Z @ V, atol=1e-9 * np.abs(Z @ V).max())


@pytest.mark.parametrize("n", [50, 700])
def test_lowest_eigenpairs(n):
    A = symmetric(2, n, 0.2)
    found = lowest_eigenpairs(lambda V: A @ V, n, 3, lambda value, bound, _: value - bound <= 1e-8, generator())
    values = np.linalg.eigvalsh(A)
    np.testing.assert_allclose(found.values, values[:3], atol=1e-5)
    assert found.residual <= 1e-4
    assert values[0] - 1e-8 - 1e-12 <= found.bound <= values[0] <= found.values[0] + 1e-12
    assert found.confidence == (1 if n <= 500 else 1 - 1e-6)
    np.testing.assert_allclose(A @ found.vectors, found.vectors * found.values, atol=1e-3)
    nothing = lowest_eigenpairs(lambda V: 0 * V, n, 1, lambda *_: True, generator())
    assert nothing.values[0] == 0
    infinite = lowest_eigenpairs(lambda V: np.full_like(V, np.inf), n, 1, lambda *_: True, generator())
    assert infinite.bound == -np.inf


def generator():
    return np.random.default_rng(0)


CLUSTERS = {
    "one below a great many zeros": lambda rng, n: np.r_[-1e-5, np.zeros(n // 2), rng.uniform(0.5, 1, n - n // 2 - 1)],
    "one below a continuum": lambda rng, n: np.r_[-1e-3, rng.uniform(0, 1, n - 1)],
    "far above, all else in a heap": lambda rng, n: np.r_[1e6, -1e-4, rng.uniform(0, 1e-3, n - 2)],
    "two heaps": lambda rng, n: np.r_[-1e-6, 1e-6 * rng.random(n // 2), 1 + 1e-9 * rng.random(n - n // 2 - 1)],
    "falling like a power": lambda rng, n: np.r_[-1e-7, 1.0 / np.arange(1, n) ** 2],
    "five alike below zeros": lambda rng, n: np.r_[np.full(5, -1e-5), np.zeros(n // 2), rng.random(n - n // 2 - 5)],
}


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("kind", CLUSTERS)
def test_the_bound_of_lanczos_is_below_all_eigenvalues_whenever_it_stops(kind, scale):
    """Also after so few steps that the lowest eigenvalue has not shown: twenty random starts, none deceived."""
    n = 2000
    values = scale * CLUSTERS[kind](np.random.default_rng(1), n)
    hidden = 0
    for seed in range(20):
        for steps in (6, 11, 21, 61):
            found = lowest_eigenpairs(
                lambda V: values[:, None] * V, n, 1, lambda *_: False, np.random.default_rng(seed), steps
            )
            assert found.bound <= values.min() <= found.values[0] + 1e-12 * values.max()
            hidden += found.values[0] - found.residual > values.min() + 1e-9 * values.max()
    if "zeros" in kind or "heaps" in kind:  # there a Ritz value less its residual would have been wrong
        assert hidden


def test_an_eigenvalue_hidden_in_a_cluster_is_found():
    n = 20_000
    B = np.r_[-1.0, -1e-5, np.random.default_rng(0).uniform(0.5, 1, 4998), np.zeros(n - 5000)]
    loss = Quadratic(sp.csr_array(([1.0], ([0], [0])), shape=(n, n)), sp.diags_array(B).tocsr())
    X = np.zeros((n, 1))
    X[0] = 1
    for seed in range(5):
        certificate = certify(Problem(loss), X, random_state=seed)
        assert not certificate.holds
        assert certificate.gap >= 1e-5
        assert certificate.eigenvalue_bound <= -1e-5 <= certificate.min_eigenvalue + 1e-9
        assert (certificate.method, certificate.confidence) == ("lanczos", 1 - 1e-6)
        assert "with probability 1 - 1e-06" in str(certificate)
        v = certificate.directions[:, 0]
        assert v @ (B * v) < -0.5e-5


@pytest.mark.parametrize("n", [150, 250, 700])
@pytest.mark.parametrize("seed", range(2))
def test_the_gap_bounds_what_is_known_to_be_lower(n, seed):
    """On both sides of the size up to which Z is formed; the optimum is the positive part of M."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    values = np.r_[3.0, 2.0, 1e-3, -rng.uniform(0, 1, n - 3)]
    M = (Q * values) @ Q.T
    M = (M + M.T) / 2
    problem, least = Problem(LeastSquares(M)), 0.5 * float(np.sum(np.minimum(values, 0) ** 2))
    for kept in (1, 2, 3):
        X = Q[:, :kept] * np.sqrt(values[:kept])
        certificate = certify(problem, X, random_state=seed)
        excess = certificate.objective - least
        assert certificate.gap >= excess - 1e-12 * least
        assert certificate.global_bound or certificate.trace_radius >= 5.001
        assert certificate.holds is (kept == 3)
        assert certificate.confidence == (1 if n <= 500 else 1 - 1e-6)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("seed", range(3))
def test_a_simplex_is_found_from_its_edges(scale, seed):
    """The gradient of raw stress at X = 0 is infinite, and no scale for anything."""
    pairs = np.array(np.triu_indices(5, 1)).T
    for n, rank in ((4, 3), (5, 4)):
        kept = pairs[(pairs < n).all(axis=1)]
        found = grow_rank(Problem(RawStress(kept, scale * np.ones(len(kept)))), random_state=seed)
        assert found.success, found.message
        assert found.rank == rank
        assert found.objective <= 1e-18 * scale**2
    crowded = certify(Problem(RawStress(kept, scale * np.ones(len(kept)))), scale * np.ones((n, 1)))
    assert not crowded.holds
    assert crowded.directions.shape[1]


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("large", [1e3, 1e7, 1e9])
@pytest.mark.parametrize("kind", ["plain", "weighted", "completion", "sensing", "quadratic", "dense map"])
def test_small_eigenvalues_beside_a_large_one_are_not_given_up(kind, large, scale):
    n, values = 3, scale * np.array([large, 1.0, 0.5])
    M = np.diag(values)
    rows, cols = np.triu_indices(n)
    A = np.zeros((len(rows), n, n))
    A[range(len(rows)), rows, cols] = A[range(len(rows)), cols, rows] = 1
    loss = {
        "plain": lambda: LeastSquares(M),
        "weighted": lambda: LeastSquares(M, weights=np.ones((n, n))),
        "completion": lambda: Completion(rows, cols, M[rows, cols]),
        "sensing": lambda: Sensing(A, np.where(rows == cols, 1, 2) * M[rows, cols]),
        "quadratic": lambda: Quadratic(None, -M),
        "dense map": lambda: Quadratic(lambda X, Z: X @ (X.T @ Z), -M),
    }[kind]()
    found = grow_rank(Problem(loss), random_state=0)
    assert found.success, found.message
    if loss.infimum < 0:  # the sum of what is dropped and what is fitted: small eigenvalues are small beside that
        assert found.objective == pytest.approx(-0.5 * np.sum(values**2), rel=1e-6)
        return
    assert found.rank == 3
    np.testing.assert_allclose(np.linalg.svd(found.X, compute_uv=False) ** 2, values, rtol=1e-4, atol=1e-15 * values[0])


def test_growth_stops_where_there_is_no_minimiser():
    found = grow_rank(Problem(Quadratic(np.array([[1.0, 1], [1, 0]]), -np.eye(2))), random_state=0)
    assert not found.success
    assert found.ranks == (1,)
    assert found.results[0].message in found.message


def test_a_gap_that_is_not_small_is_no_proof():
    """λ_min is small beside ∇F(0), the gap is not beside the objective."""
    problem = Problem(LeastSquares(np.diag([1e7, 1.0, 0.5])))
    certificate = certify(problem, np.array([[np.sqrt(1e7)], [0.0], [0.0]]))
    assert not certificate.holds
    assert certificate.gap >= 0.625 * (1 - 0.05)  # the objective, 0.625, is known to 0.03
    assert not certify(problem, np.zeros((3, 2))).holds
    assert not certify(problem, 1e-6 * np.eye(3)).holds


@pytest.mark.parametrize("kind", ["plain", "completion"])
def test_columns_that_are_not_needed_do_no_harm(kind):
    """Zero, repeated, or nearly zero ones."""
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((30, 2))
    M = Z @ Z.T
    rows, cols = np.triu_indices(30)
    loss = LeastSquares(M) if kind == "plain" else Completion(rows, cols, M[rows, cols])
    wide = np.hstack([Z[:, :1] / np.sqrt(2), Z[:, :1] / np.sqrt(2), Z[:, 1:], np.zeros((30, 1))])
    assert certify(Problem(loss), wide).holds
    assert not certify(Problem(loss), wide[:, :2]).holds
    assert not certify(Problem(loss), 1.001 * wide).holds


def test_what_has_no_certificate():
    loss, X = LeastSquares(np.eye(4)), np.ones((4, 1))
    for call in (lambda problem: certify(problem, X), lambda problem: grow_rank(problem)):
        with pytest.raises(ValueError, match=r"Nonnegative: with X ≥ 0 .* NP-hard"):
            call(Problem(loss, Nonnegative()))
        with pytest.raises(ValueError, match="L1: it is not a function of XXᵀ"):
            call(Problem(loss, L1(0.1)))
        with pytest.raises(TypeError, match=r"quartic\.Problem, got LeastSquares"):
            call(loss)
    held = Anchored(Distances([[0, 1], [1, 2], [2, 3]], [1.0, 1.0, 1.0]), [0], [[0.0, 0.0]])
    with pytest.raises(ValueError, match="Anchored: it is not F"):
        grow_rank(Problem(held))
    with pytest.raises(ValueError, match="tol must be positive"):
        certify(Problem(loss), X, tol=0)
    with pytest.raises(ValueError, match="max_rank must be at least 1"):
        grow_rank(Problem(loss), max_rank=0)
    with pytest.raises(ValueError, match="trace_radius must be positive"):
        certify(Problem(loss), X, trace_radius=-1.0)


@pytest.mark.parametrize("scale", [1e-140, 1e-60, 1e-40, 1e40, 1e140])
@pytest.mark.parametrize("kind", ["plain", "weighted", "completion", "quadratic"])
def test_a_certificate_does_not_depend_on_the_scale_of_the_data(kind, scale):
    M = scale * np.diag([3.0, 2.0, 1.0, -1.0])
    rows, cols = np.triu_indices(4)
    loss = {
        "plain": lambda: LeastSquares(M),
        "weighted": lambda: LeastSquares(M, weights=np.ones((4, 4))),
        "completion": lambda: Completion(rows, cols, M[rows, cols]),
        "quadratic": lambda: Quadratic(None, -M),
    }[kind]()
    for columns, expected in ((1, False), (3, True)):
        X = np.sqrt(np.maximum(M, 0))[:, :columns]
        found = certify(Problem(loss), X)
        assert found.holds is expected
        if not expected:
            assert found.min_eigenvalue == pytest.approx(-2 * scale)
            assert found.trace_radius == pytest.approx(6 * scale)


def test_a_direction_that_gains_nothing_is_hardly_taken():
    """Without a quartic on lines the step is found by halving; where none lowers the objective it is next to none."""
    from quartic.core.rank_growth import _escape

    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 2))
    problem = Problem(Robust(X @ X.T, "huber", delta=0.3))
    wide = _escape(problem, X, rng.standard_normal((12, 1)))
    assert wide.shape == (12, 3)
    assert problem.objective(problem.loss.at(wide)) < 1e-12
