"""Many clusters: rows of X made best in turn, with X sparse, against brute force and the dense way."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from quartic import Problem, SymNMF
from quartic.clustering.many import start_of_many
from quartic.compiled.graphs import descend_rows
from quartic.compiled.rows import quartic_minimizer
from quartic.datasets import block_model
from quartic.init import random_start, spectral_start
from quartic.losses import LeastSquares
from quartic.penalties import Nonnegative, Separable


def test_coordinate_against_a_grid():
    rng = np.random.default_rng(0)
    x = np.linspace(0, 6, 60_001)
    for p, q in [*rng.normal(0, 4, (300, 2)), (0, -1), (-3, 0), (-3, 2), (2, -3), (0, 0), (5, 0)]:
        values = x**4 / 4 + p * x**2 / 2 + q * x
        found = quartic_minimizer.py_func(float(p), float(q))
        assert found**4 / 4 + p * found**2 / 2 + q * found <= values.min() + 1e-12
        assert found >= 0


def make(n=60, rank=5, seed=0, room=5):
    rng = np.random.default_rng(seed)
    M = np.triu((rng.random((n, n)) < 0.3) * rng.random((n, n)), 0)
    M = M + M.T
    X = rng.random((n, rank)) * (rng.random((n, rank)) < 0.6)
    columns, values = np.zeros((n, room), np.int64), np.zeros((n, room))
    count = (X > 0).sum(axis=1).astype(np.int64)
    for i in range(n):
        columns[i, : count[i]] = np.flatnonzero(X[i])
        values[i, : count[i]] = X[i, X[i] > 0]
    S = sp.csr_array(M)
    return M, X, (S.indptr.astype(np.int64), S.indices.astype(np.int64), S.data), (columns, values, count)


def dense(columns, values, count, rank=5):
    X = np.zeros((len(count), rank))
    for i in range(len(count)):
        X[i, columns[i, : count[i]]] = values[i, : count[i]]
    return X


def objective(M, X):
    return 0.5 * np.linalg.norm(M - X @ X.T) ** 2


@pytest.mark.parametrize("seed", range(3))
def test_one_row(seed):
    """Its gradient, and a coordinate after the other, against the objective itself."""
    M, X, graph, rows = make(seed=seed)
    gradient = 2 * (X @ X.T - M) @ X
    projected = np.where(X > 0, gradient, np.minimum(gradient, 0))
    G = X.T @ X
    before = objective(M, X)
    squares = descend_rows(*graph, np.array([7]), *rows, G, 50)
    new = dense(*rows)
    np.testing.assert_allclose(np.delete(new, 7, axis=0), np.delete(X, 7, axis=0))
    np.testing.assert_allclose(G, new.T @ new, atol=1e-10)
    assert objective(M, new) <= before
    after = (2 * (new @ new.T - M) @ new)[7]
    assert np.abs(after[new[7] > 0]).max() < 1e-2 * np.linalg.norm(projected[7])  # those at zero are tried once
    assert 0 < squares <= np.linalg.norm(projected[7]) ** 2 * 4  # as its coordinates move


@pytest.mark.parametrize("seed", range(3))
def test_sweeps_end_where_no_row_can_be_better(seed):
    M, X, graph, rows = make(seed=seed)
    G, last = X.T @ X, objective(M, X)
    for _ in range(400):
        squares = descend_rows(*graph, np.arange(60), *rows, G, 2)
        new = objective(M, dense(*rows))
        assert new <= last * (1 + 1e-12)
        last = new
    X = dense(*rows)
    gradient = 2 * (X @ X.T - M) @ X
    exact = np.linalg.norm(np.where(X > 0, gradient, np.minimum(gradient, 0)))
    assert exact < 1e-6 * np.linalg.norm(2 * M @ X)
    assert np.sqrt(squares) < 1e-5 * np.linalg.norm(2 * M @ X)


@pytest.fixture(scope="module")
def hundred():
    return block_model([12] * 110, 0.7, 0.002, random_state=0)


def test_a_start_of_many_has_converged(hundred):
    A, _ = hundred
    problem = Problem(LeastSquares(A), Nonnegative())
    X = start_of_many(problem, 110, np.random.default_rng(0), tol=1e-3)
    reference = problem.stationarity(problem.loss.at(random_start(problem, 110, np.random.default_rng(0))))
    assert problem.stationarity(problem.loss.at(X)) < 2e-3 * reference
    assert (X > 0).mean() < 0.2


@pytest.fixture
def sweeps(monkeypatch):
    """What each sweep was given."""
    sweeps = []

    def count(*given):
        sweeps.append(given)
        return descend_rows(*given)

    monkeypatch.setattr("quartic.compiled.graphs.descend_rows", count)
    return sweeps


def test_sweeps_count_as_products_and_any_way_to_say_nonnegative_has_them(hundred, sweeps):
    loss, made = LeastSquares(hundred[0]), []
    for penalty in (Nonnegative(), Separable(nonnegative=True)):
        plain, whole = (Problem(loss, penalty).counted() for _ in range(2))
        spectral_start(plain, 110, np.random.default_rng(0))
        sweeps.clear()
        start_of_many(whole, 110, np.random.default_rng(0), tol=1e-3)
        made.append(len(sweeps))
        # besides each sweep: the gradient at a random start, and the product with the labels
        assert whole.loss.n_products == plain.loss.n_products + 2 + len(sweeps)
    assert made[0] == made[1] > 1


def test_where_sweeps_are_slow_the_solver_takes_over(sweeps):
    """In a graph without communities they take a hundred, and longer than iterations with so few columns."""
    A, _ = block_model([600], 0.01, 0.0, random_state=0)
    assert SymNMF(100, normalize="regularized", random_state=0).fit(A).result_.success
    assert len(sweeps) == 25


def test_the_start_keeps_to_max_time(hundred, sweeps):
    with pytest.warns(ConvergenceWarning, match="max_time"):
        SymNMF(110, normalize="regularized", max_time=1e-6, random_state=0).fit(hundred[0])
    assert len(sweeps) == 1


def test_estimator(hundred):
    A, labels = hundred
    model = SymNMF(110, random_state=0).fit(A)
    dense = SymNMF(110, init="spectral", random_state=0).fit(A)
    assert model.result_.success
    assert model.n_iter_ <= 5
    assert model.objective_ < 1.01 * dense.objective_
    assert len(np.unique(labels * 1000 + model.labels_)) < 116  # a few nodes at most are elsewhere


def test_as_many_clusters_as_nodes_without_loops():
    n = 120
    ring = sp.csr_array(np.roll(np.eye(n), 1, axis=1) + np.roll(np.eye(n), -1, axis=1))
    model = SymNMF(n, normalize=None, random_state=0).fit(ring)
    assert np.isfinite(model.embedding_).all()
