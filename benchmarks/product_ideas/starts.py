"""Starts for X ≥ 0: variations on the eigenvectors of M, and what can be done from them before the run begins."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import nnls
from scipy.sparse.linalg import LinearOperator

from product_ideas.rules import Rules
from quartic import Problem, minimize
from quartic.arrays import gram
from quartic.compiled.rows import sweep_rows
from quartic.init import spectral_start
from quartic.init.spectral import _turned, leading_eigenpairs
from quartic.losses import LeastSquares
from quartic.penalties import Nonnegative
from quartic.solvers import SymHALS

_LIFT = 0.01


def eigenpairs(problem: Any, rank: int, generator: Any, extra: int = 10, keep_extra: bool = False) -> tuple[Any, Any]:
    """Return the leading eigenpairs of M as the spectral start finds them: 18 products."""
    size = min(rank + extra, problem.loss.n_points)
    Q = generator.standard_normal((problem.loss.n_points, size))
    return leading_eigenpairs(problem.loss.product, Q, size if keep_extra else rank, 2, 8)


def fitted(problem: Any, X: Any, factors: str = "one") -> Any:
    """Return X times the best factor, or each column times its own: one product.

    f(X diag(d)) = ½Σ d_k²d_l²(S∘S)_kl − Σ d_k²⟨Mx_k, x_k⟩ + ½‖M‖² is a quadratic in d² ≥ 0.
    """
    MX = problem.loss.product(X)
    X = np.where(MX.any(axis=1)[:, None], X, 0)
    fit, squares = (MX * X).sum(axis=0), gram(X) ** 2
    if factors == "one":
        return X * math.sqrt(fit.sum() / squares.sum())
    L = np.linalg.cholesky(squares + 1e-12 * np.trace(squares) * np.eye(len(squares)))
    w, _ = nnls(L.T, np.linalg.solve(L, fit))
    return X * np.sqrt(np.maximum(w, _LIFT * w.mean()))


def turned(
    problem: Any,
    rank: int,
    generator: Any,
    power: float = 0.5,
    lift: float = _LIFT,
    factors: str = "one",
    turns: int = 10,
) -> Any:
    """Return the spectral start with eigenvalues to another power, zeros lifted more or less, other factors."""
    values, U = eigenpairs(problem, rank, generator)
    Z = U * np.maximum(values, 0) ** power
    typical = math.sqrt((Z**2).sum() / Z.size)
    return fitted(problem, np.maximum(_turned(Z, U, turns), lift * typical), factors)


def nndsvd(problem: Any, rank: int, generator: Any) -> Any:
    """Return the larger of the positive and the negative part of each eigenvector, zeros lifted."""
    values, U = eigenpairs(problem, rank, generator)
    plus, minus = np.maximum(U, 0), np.maximum(-U, 0)
    X = np.where((plus**2).sum(axis=0) >= (minus**2).sum(axis=0), plus, minus) * np.sqrt(np.maximum(values, 0))
    return fitted(problem, np.maximum(X, _LIFT * math.sqrt((X**2).mean())))


def indicator(problem: Any, rank: int, generator: Any) -> Any:
    """Return the indicators of the clusters that k-means finds among the rows of the eigenvectors."""
    from sklearn.cluster import KMeans

    _, U = eigenpairs(problem, rank, generator)
    rows = U / np.maximum(np.linalg.norm(U, axis=1, keepdims=True), 1e-300)
    labels = KMeans(rank, n_init=1, random_state=int(generator.integers(2**31))).fit_predict(rows)
    X = np.zeros_like(U)
    X[np.arange(len(X)), labels] = 1.0
    X /= np.sqrt(np.maximum(X.sum(axis=0), 1))
    return fitted(problem, np.maximum(X, _LIFT * math.sqrt((X**2).mean())), "columns")


def best_for_eigenpairs(problem: Any, rank: int, generator: Any, tol: float = 1e-3, extra: int = 10) -> Any:
    """Return X for the matrix of the leading rank + extra eigenpairs alone, from the spectral start for it.

    Its products, n(r + extra) × r, are not products with the data and are not counted; they are not free either.
    """
    values, U = eigenpairs(problem, rank, generator, extra, keep_extra=True)
    kept = values > 0
    values, U = values[kept], U[:, kept]
    n = problem.loss.n_points

    def product(X: Any) -> Any:
        return U @ (values[:, None] * (U.T @ X))

    M = LinearOperator((n, n), matvec=lambda x: product(x.reshape(n, -1))[:, 0], matmat=product, dtype=np.float64)
    small = Problem(LeastSquares(M, squared_norm=float((values**2).sum())), Nonnegative())
    Z = U[:, :rank] * np.sqrt(values[:rank])
    X = np.maximum(_turned(Z, U[:, :rank], 10), _LIFT * math.sqrt((Z**2).mean()))
    X = minimize(small, X, rank=rank, solver=Rules(), tol=tol, max_iter=2000).X
    return fitted(problem, np.maximum(X, 1e-3 * math.sqrt((X**2).mean())))


def with_hals(problem: Any, rank: int, generator: Any, steps: int = 3) -> Any:
    """Return the spectral start after a few steps of SymHALS, two products each."""
    solver = SymHALS()
    s = solver.init(problem, spectral_start(problem, rank, generator))
    for _ in range(steps):
        s = solver.step(problem, s)
    return s.point.X


def with_row_steps(problem: Any, rank: int, generator: Any, steps: int = 3, damping: float = 0.1) -> Any:
    """Return the spectral start after damped steps X ← argmin over U ≥ 0 of ½‖M − UXᵀ‖² + μ‖U − X‖², halfway."""
    X = spectral_start(problem, rank, generator)
    for _ in range(steps):
        S = gram(X)
        mu = damping * np.trace(S) / len(S)
        C, U = problem.loss.product(X) + mu * X, X.copy()
        for _ in range(5):
            sweep_rows(U, S + mu * np.eye(len(S)), C)
        X = 0.5 * (X + U)
    return X


def nested_ranks(problem: Any, rank: int, generator: Any, tol: float = 1e-2) -> Any:
    """Return an answer of half the rank, each node's share in a cluster split at random; products count by half."""
    half = -(-rank // 2)
    found = minimize(problem, spectral_start, rank=half, solver=Rules(), tol=tol,
                     random_state=int(generator.integers(2**31)))  # fmt: skip
    problem.loss._count(math.ceil(found.n_products * half / rank))
    share = generator.uniform(0, 1, found.X.shape)
    X = np.hstack([found.X * np.sqrt(share), found.X * np.sqrt(1 - share)])[:, :rank]
    return fitted(problem, np.maximum(X, _LIFT * math.sqrt((X**2).mean())))


def coarse_graph(problem: Any, rank: int, generator: Any, levels: int = 1, tol: float = 1e-3) -> Any:
    """Return the answer on the graph whose nodes are matched along heavy edges, brought back to the nodes.

    With P the indicators of the pairs, columns of length one, M becomes PᵀMP and X = P X_c. Products with the coarse
    matrix count by their share of the entries.
    """
    M = sp.csr_array(problem.loss.matrix.M)
    coarse, P = M, sp.eye_array(M.shape[0], format="csr")
    for _ in range(levels):
        Q = matched(coarse, generator)
        coarse, P = sp.csr_array(Q.T @ coarse @ Q), P @ Q
    small = Problem(LeastSquares(coarse), Nonnegative())
    seed = int(generator.integers(2**31))
    found = minimize(small, spectral_start, rank=rank, solver=Rules(), tol=tol, random_state=seed)
    problem.loss._count(math.ceil(found.n_products * coarse.nnz / M.nnz))
    X = P @ found.X
    return fitted(problem, np.maximum(X, _LIFT * math.sqrt((X**2).mean())))


def matched(M: Any, generator: Any) -> Any:
    """Return the n × m matrix of a matching along heavy edges, columns of length one."""
    n = M.shape[0]
    partner = np.full(n, -1)
    for i in generator.permutation(n):
        if partner[i] >= 0:
            continue
        entries = slice(M.indptr[i], M.indptr[i + 1])
        columns, weights = M.indices[entries], M.data[entries]
        open_to = (partner[columns] < 0) & (columns != i)
        j = columns[open_to][weights[open_to].argmax()] if open_to.any() else i
        partner[i], partner[j] = j, i
    label = np.minimum(np.arange(n), partner)
    _, group, sizes = np.unique(label, return_inverse=True, return_counts=True)
    return sp.csr_array((1 / np.sqrt(sizes[group]), (np.arange(n), group)), shape=(n, len(sizes)))
