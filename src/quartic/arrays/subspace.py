"""Subspaces by products: orthonormal bases of tall arrays, the rows that differ most, and the lowest eigenvalues."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from quartic.arrays.checks import Array
from quartic.arrays.space import HOST, copy, eps, float_type, gram, namespace, space_of, times, to_host
from quartic.arrays.waiting import on_host

# By products alone where the least eigenvalue of the scaled AᵀA is above so many units of round-off of the largest.
_INDEPENDENT = 1e4
# The basis is orthonormal to ten units of round-off where the least eigenvalue is above this share of the largest.
_EVEN = 0.01
# Columns that are still dependent after so many rounds on a device are equal, or zero.
_ROUNDS = 5
# So many rows of a tall array say as much as all.
_ENOUGH = 20_000
#: Up to this size the matrix itself is formed and all its eigenvalues are worked out.
DENSE = 500
#: With at most this probability, over the random first vector, ``Lowest.bound`` is no bound.
FAILURE = 1e-6
# The vectors of Lanczos' method are all kept, in at most so many bytes.
_MEMORY = 1e9


def orthonormal(A: Any) -> Array:
    """Return an orthonormal basis of the columns of A.

    By products alone: with AᵀA = VΛVᵀ, its columns scaled to length one, AVΛ^-½ is orthonormal but for round-off, which
    a second time is gone (Stathopoulos and Wu 2002), and does not count where Λ is nearly even. That is quicker than a
    QR decomposition, taken where columns are too nearly dependent; on a device, where it is slow, and in single
    precision, only if more rounds, each of which brings the columns further apart, do not help either.
    """
    B, patient = A, space_of(A) is not HOST or float_type(A) is np.float32
    least = 1e8 * float(np.finfo(float_type(A)).tiny)  # one over it, and over a small root, are numbers of A's type
    for _ in range(_ROUNDS if patient else 2):
        S = on_host(gram(B))
        d = np.maximum(np.sqrt(np.maximum(np.diag(S), 0)), least)
        values, V = np.linalg.eigh(S / d[:, None] / d)
        if not patient and not values[0] > _INDEPENDENT * eps(A) * values[-1]:
            break
        values = np.maximum(values, 1e-12 * values[-1])
        B = times(B, V / np.sqrt(values) / d[:, None], B is not A)
        if values[0] > _EVEN * values[-1]:
            return B
    return namespace(A).linalg.qr(A)[0]


def inverse_of_gram(S: Any, shift: float) -> Array:
    """Return (S + shift·I)⁻¹ by eigenvalues, for a Gram matrix S: bounded by 1/shift whatever its rank."""
    values, Q = np.linalg.eigh(on_host(S))
    return (Q / (np.maximum(values, 0) + shift)) @ Q.T


def spread_rows(U: Any) -> Any:
    """Return evenly spread rows of a tall U, a hundred for each column, to learn from them what holds for all."""
    return copy(U[:: max(1, len(U) // max(_ENOUGH, 100 * U.shape[1]))])


def most_different_rows(U: Any) -> Array:
    """Return the r rows of U (n, r) that a QR decomposition of Uᵀ with pivoting takes first, as a small matrix."""
    rank = U.shape[1]
    if space_of(U) is HOST:
        import scipy.linalg

        _, pivots = scipy.linalg.qr(U.T, mode="r", pivoting=True)
        rows: Array = U[pivots[:rank]]
        return rows
    import torch

    R, chosen = U.clone(), []
    for _ in range(rank):
        at = R.square().sum(dim=1).argmax()
        chosen.append(at)
        v = R[at] / R[at].norm().clamp(min=torch.finfo(R.dtype).tiny)
        R -= torch.outer(R @ v, v)
    return to_host(U[torch.stack(chosen)])


# -- the lowest eigenvalues of a symmetric operator, with a bound that clusters cannot deceive -------------------------


@dataclass(frozen=True)
class Lowest:
    """The lowest eigenpairs found.

    The values rise; each is at or above an eigenvalue, no further from one than its residual. The vectors (n, k) are
    orthonormal. No eigenvalue lies below the ``bound``, with probability ``confidence``: 1 where the matrix was formed
    (up to round-off), else 1 − `FAILURE`. ``residual`` is ‖Av − λv‖ of the first pair, 0 where the matrix was formed;
    ``highest`` the highest Ritz value, at or below the highest eigenvalue.
    """

    values: Array
    vectors: Array
    bound: float
    confidence: float
    residual: float
    highest: float
    n_products: int


@np.errstate(over="ignore", invalid="ignore")  # what is not finite is no bound
def lowest_eigenpairs(
    product: Callable[[Array], Array],
    n: int,
    k: int,
    enough: Callable[[float, float, float], bool],
    generator: np.random.Generator,
    steps: int = 300,
    dense: int = DENSE,
) -> Lowest:
    r"""Return the k lowest eigenpairs and a bound on all eigenvalues; ``product`` multiplies an (n, k) array.

    Up to n = ``dense`` by forming the matrix, above by Lanczos' method with full orthogonalisation, from a random
    vector q. It ends when ``enough(value, bound, highest)`` is content with the lowest Ritz value, the bound and the
    highest Ritz value, or after ``steps`` products.

    A small residual says that there is *an* eigenvalue near a Ritz value, not that none is lower: where eigenvalues
    cluster, the lowest may not have shown yet. What is known of every eigenpair (λ, v) is that after k steps
    \|p_k(λ)⟨q, v⟩\| = \|⟨q_{k+1}, v⟩\| ≤ 1, where p_k(λ) = Π(λ − θ_i)/Πβ_i has the Ritz values θ as its roots. A random
    q has \|⟨q, v⟩\| ≥ δ with a probability of at least 1 − δ√(2n/π). Hence, but for that δ√(2n/π) = `FAILURE`, no
    eigenvalue is below the x < θ_1 with \|p_k(x)\| = 1/δ, for \|p_k\| only grows from there on (van Dorsselaer,
    Hochstenbach and van der Vorst, 2001). For the worst spectrum this is the bound of Kuczyński and Woźniakowski
    (1992), about (log(1/δ)/2k)² of the spectrum's length; where the spectrum is kinder, so is this one.
    """
    from scipy.linalg import eigh_tridiagonal

    if n <= dense:
        A = product(np.eye(n))
        if not np.isfinite(A).all():
            return _nothing(n, 1)
        values, vectors = np.linalg.eigh((A + A.T) / 2)
        noise = n * float(np.finfo(np.float64).eps) * float(np.abs(values[[0, -1]]).max())
        return Lowest(values[:k], vectors[:, :k], float(values[0]) - noise, 1.0, 0.0, float(values[-1]), 1)
    steps = max(min(steps, n - 1, int(_MEMORY / (8 * n))), 2)
    Q = np.empty((steps, n))  # by rows: each is written once and read whole
    diagonal, beside = np.zeros(steps), np.zeros(steps)
    w = generator.standard_normal(n)
    w /= np.linalg.norm(w)
    for step in range(steps):
        Q[step] = w
        w = product(Q[step][:, None])[:, 0].astype(np.float64)
        diagonal[step] = Q[step] @ w
        for _ in range(2):  # twice is enough
            w -= Q[: step + 1].T @ (Q[: step + 1] @ w)
        beside[step] = np.linalg.norm(w)
        if not math.isfinite(beside[step]):
            return _nothing(n, step + 1)
        size = float(max(np.abs(diagonal[: step + 1]).max(), beside[: step + 1].max()))
        exhausted = beside[step] <= 1e-13 * size
        if exhausted or step == steps - 1 or step % 5 == 4:
            values, vectors = eigh_tridiagonal(diagonal[: step + 1], beside[:step])
            bound = _bound(values, np.maximum(beside[: step + 1], 1e-13 * size), n)
            if exhausted or step == steps - 1 or enough(float(values[0]), bound, float(values[-1])):
                residual = float(beside[step] * abs(vectors[-1, 0]))
                found = Q[: step + 1].T @ vectors[:, :k]
                return Lowest(values[:k], found, bound, 1 - FAILURE, residual, float(values[-1]), step + 1)
        w /= beside[step]
    raise AssertionError("unreachable: the last step returns")


def _nothing(n: int, n_products: int) -> Lowest:
    """Return what is known where products are not finite."""
    return Lowest(np.full(1, -math.inf), np.zeros((n, 0)), -math.inf, 1.0, 0.0, math.inf, n_products)


def _bound(ritz: Array, beside: Array, n: int) -> float:
    """Return the x below all Ritz values with |p(x)| = Π(θ_i − x)/Πβ_i = 1/δ, less what round-off may hide."""
    size = float(max(np.abs(ritz).max(), beside.max()))
    if size == 0.0:
        return 0.0
    gaps = (ritz - ritz[0]) / size
    wanted = math.log(math.sqrt(2 * n / math.pi) / FAILURE) + float(np.log(beside / size).sum())
    eps = float(np.finfo(np.float64).eps)
    low, high = math.log(eps), max(wanted / len(ritz), math.log(eps))  # |p| ≥ tᵏ/Πβ at a distance t
    for _ in range(50):
        middle = 0.5 * (low + high)
        if float(np.log(gaps + math.exp(middle)).sum()) < wanted:
            low = middle
        else:
            high = middle
    return float(ritz[0]) - size * (math.exp(high) + 4 * len(ritz) * eps)
