"""The lowest eigenvalues of a symmetric operator known by its products, to an absolute tolerance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from quartic.arrays.checks import Array

# Below this size the matrix itself is formed: exact, and no dearer.
_DENSE = 200


@dataclass(frozen=True)
class Lowest:
    """The lowest eigenpairs found.

    Attributes
    ----------
    values : array (k,)
        Rising. Each is at or above an eigenvalue, no further from one than ``residual``.
    vectors : array (n, k)
        Orthonormal.
    residual : float
        ‖Av − λv‖ of the first pair; 0 where the matrix was formed.
    highest : float
        The highest Ritz value: at or below the highest eigenvalue.
    n_products : int
        Products made.
    """

    values: Array
    vectors: Array
    residual: float
    highest: float
    n_products: int


def lowest_eigenpairs(
    product: Callable[[Array], Array],
    n: int,
    k: int,
    tolerance: float,
    generator: np.random.Generator,
    steps: int = 300,
) -> Lowest:
    """Return the k lowest eigenpairs by Lanczos' method with full orthogonalisation, from a random vector.

    It ends when the first pair's residual is at most ``tolerance`` (an absolute one: where the operator all but
    vanishes, as at an exact fit, no relative one could be met), or after ``steps`` products.
    """
    if n <= _DENSE:
        A = product(np.eye(n))
        values, vectors = np.linalg.eigh((A + A.T) / 2)
        return Lowest(values[:k], vectors[:, :k], 0.0, float(values[-1]), 1)
    steps = min(steps, n - 1)
    Q = np.empty((steps + 1, n))  # by rows: each is written once and read whole
    diagonal, beside = np.zeros(steps), np.zeros(steps)
    q = generator.standard_normal(n)
    Q[0] = q / np.linalg.norm(q)
    for step in range(steps):
        w = product(Q[step][:, None])[:, 0]
        diagonal[step] = Q[step] @ w
        for _ in range(2):  # twice is enough
            w -= Q[: step + 1].T @ (Q[: step + 1] @ w)
        beside[step] = np.linalg.norm(w)
        exhausted = beside[step] <= 1e-14 * max(np.abs(diagonal[: step + 1]).max(), tolerance)
        if exhausted or step == steps - 1 or step % 5 == 4:
            T = np.diag(diagonal[: step + 1]) + np.diag(beside[:step], 1) + np.diag(beside[:step], -1)
            values, vectors = np.linalg.eigh(T)
            residual = 0.0 if exhausted else float(beside[step] * abs(vectors[-1, 0]))
            if residual <= tolerance or step == steps - 1:
                k = min(k, step + 1)
                found = Q[: step + 1].T @ vectors[:, :k]
                return Lowest(values[:k], found, residual, float(values[-1]), step + 1)
        Q[step + 1] = w / beside[step]
    raise AssertionError("unreachable: the last step returns")
