"""Starts for distances: shortest paths, eigenvectors of what the known distances say of XXᵀ, more dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from quartic import minimize
from quartic.init import eigenmap_start, random_start, shortest_path_start
from quartic.init.spectral import leading_eigenpairs
from quartic.solvers import LBFGS, LevenbergMarquardt


def _pairs(loss: Any) -> tuple[Any, Any]:
    return np.column_stack([loss.rows, loss.cols]).astype(np.int64), np.sqrt(loss.target)


def shortest_paths(problem: Any, rank: int, generator: Any, n_landmarks: int = 50) -> Any:
    """Return scaling of shortest paths from landmarks; a path search reads all pairs, and counts as a pass."""
    loss = problem.loss
    X = shortest_path_start(*_pairs(loss), loss.n_points, rank, generator, n_landmarks=n_landmarks)
    loss._count(n_landmarks + 1)
    return loss.best_scale(X)


def eigenmap(problem: Any, rank: int, generator: Any) -> Any:
    """Return the smoothest functions on the graph, fitted; counted as 50 passes, about what its eigensolver takes."""
    loss = problem.loss
    X = eigenmap_start(*_pairs(loss), loss.n_points, rank, generator)
    loss._count(50)
    return loss.best_scale(X)


def sampled_gram(problem: Any, rank: int, generator: Any, n_filters: int = 1, degree: int = 6) -> Any:
    """Return the leading eigenvectors of −½ΠWΠ, W the known squares over the share of pairs that are known.

    Where pairs are known at random its mean is XXᵀ: what is random in it is spread over all eigenvectors, while X has
    rank r. One product with W is a pass over the pairs.
    """
    loss, n = problem.loss, problem.loss.n_points
    share = 2 * loss.n_pairs / (n * (n - 1))
    W = sp.csr_array((loss.target / share, (loss.rows, loss.cols)), shape=(n, n))
    W = sp.csr_array(W + W.T)

    def product(V: Any) -> Any:
        loss._count()
        V = W @ (V - V.mean(axis=0))
        return -0.5 * (V - V.mean(axis=0))

    values, U = leading_eigenpairs(product, generator.standard_normal((n, rank + 5)), rank, n_filters, degree)
    return loss.best_scale(U * np.sqrt(np.maximum(values, 1e-3 * values[0])))


def more_dimensions(
    problem: Any, rank: int, generator: Any, extra: int = 2, tol: float = 1e-2, lbfgs: bool = False
) -> Any:
    """Return the principal axes of an answer in more dimensions, where there are fewer local minima."""
    X = random_start(problem, rank + extra, generator)
    solver = LBFGS() if lbfgs else LevenbergMarquardt()
    found = minimize(problem, X, rank=rank + extra, solver=solver, tol=tol, max_iter=300)
    problem.loss._count(found.n_products)
    X = found.X - found.X.mean(axis=0)
    left, sizes, _ = np.linalg.svd(X, full_matrices=False)
    return problem.loss.best_scale(left[:, :rank] * sizes[:rank])
