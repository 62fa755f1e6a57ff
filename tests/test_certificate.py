"""Certificates of global optimality: against convex problems with known solutions, and what they must refuse."""

import numpy as np
import pytest
import scipy.sparse as sp

from quartic import Problem, certify, grow_rank, minimize
from quartic.compiled.lanczos import lowest_eigenpairs
from quartic.losses import Anchored, Completion, Distances, LeastSquares, Quadratic, Robust
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


@pytest.mark.parametrize("n", [50, 400])
def test_lowest_eigenpairs(n):
    A = symmetric(2, n, 0.2)
    found = lowest_eigenpairs(lambda V: A @ V, n, 3, 1e-8, np.random.default_rng(0))
    np.testing.assert_allclose(found.values, np.linalg.eigvalsh(A)[:3], atol=1e-5)
    assert found.residual <= 1e-8
    np.testing.assert_allclose(A @ found.vectors, found.vectors * found.values, atol=1e-3)
    nothing = lowest_eigenpairs(lambda V: 0 * V, n, 1, 1e-8, np.random.default_rng(0))
    assert nothing.values[0] == 0


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
