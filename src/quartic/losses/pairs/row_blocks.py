"""Compiled passes over X with r × r row blocks: the preconditioner of conjugate gradients, and what a step does to X.

Blocks come packed, the rows of their lower triangles, and are kept inverted: (B_i + shift·I)⁻¹, whole, one in a row of
an array (n, r²). To solve with one then takes no division and no step that waits for another.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from quartic.arrays import Array
from quartic.compiled.flags import FLAGS, njit


def factor_blocks(B: Array, shift: float, rank: int) -> Array:
    """Return the inverses of the blocks B_i + shift·I; a direction without curvature gets 0."""
    k, l = np.indices((rank, rank)).reshape(2, -1)
    high, low = np.maximum(k, l), np.minimum(k, l)
    L: Array = np.take(B, high * (high + 1) // 2 + low, axis=1)
    invert((), rank, L, shift)
    return L


def first_direction(G: Array, L: Array, R: Array, Z: Array, P: Array) -> Any:
    """Set R = −G and P = Z = the preconditioned R; return ⟨R, Z⟩."""
    np.negative(G, out=R)
    rz = solve_blocks(L, R, Z)
    P[:] = Z
    return rz


def diagonal_mean(B: Array, rank: int) -> float:
    """Return the mean diagonal entry of the packed blocks."""
    return float(diagonal_sum(B, rank)) / (rank * max(len(B), 1))


@njit(**FLAGS)
def diagonal_sum(B: Any, rank: int) -> Any:
    """Return the sum of all diagonal entries of the packed blocks."""
    total = 0.0
    for i in range(B.shape[0]):
        for k in range(rank):
            total += B[i, k * (k + 3) // 2]
    return total


@njit(**FLAGS)
def invert(row: Any, rank: int, L: Any, shift: float) -> None:
    """Invert the blocks plus shift·I in place: Gauss–Jordan, without pivoting since they are positive semidefinite.

    ``row`` is a tuple as long as a row of a block, those beyond the rank being zeros, or empty: then that is the rank.
    """
    width = len(row) if len(row) > 0 else rank
    size = width if len(row) <= 4 else rank
    diagonal = np.empty(width)
    for i in range(L.shape[0]):
        for p in range(size):
            diagonal[p] = L[i, p * width + p]
        for p in range(size):
            # below the round-off of its own entries a pivot means nothing
            pivot = max(L[i, p * width + p], 1e-14 * diagonal[p]) + shift
            inverse = 1.0 / pivot if pivot > 0 else 0.0
            L[i, p * width + p] = 1.0
            for l in range(size):
                L[i, p * width + l] *= inverse
            for k in range(size):
                if k != p:
                    factor = L[i, k * width + p]
                    L[i, k * width + p] = 0.0
                    for l in range(size):
                        L[i, k * width + l] -= factor * L[i, p * width + l]


@njit(**FLAGS)
def solve_blocks(L: Any, R: Any, Z: Any) -> Any:
    """Fill Z with the solutions of (B_i + shift·I) z_i = r_i, and return ⟨R, Z⟩."""
    total, rank = 0.0, R.shape[1]
    for i in range(R.shape[0]):
        for k in range(rank):
            z = 0.0
            for l in range(rank):
                z += L[i, k * rank + l] * R[i, l]
            Z[i, k] = z
            total += z * R[i, k]
    return total


@njit(**FLAGS)
def advance(rz: float, shift: float, P: Any, H: Any, L: Any, D: Any, R: Any, Z: Any) -> Any:
    """Make a step of conjugate gradients with A + shift·I, where H = AP; return ⟨P, (A + shift·I)P⟩ and the new ⟨R, Z⟩.

    With a = ⟨R, Z⟩ / curvature: D += aP, R −= a(H + shift·P), Z = the preconditioned R, P = Z + bP. Where the curvature
    is not positive nothing is changed but H.
    """
    n, rank = P.shape
    curvature = 0.0
    for i in range(n):
        for k in range(rank):
            H[i, k] += shift * P[i, k]
            curvature += P[i, k] * H[i, k]
    if not curvature > 0:
        return curvature, rz
    a = rz / curvature
    for i in range(n):
        for k in range(rank):
            D[i, k] += a * P[i, k]
            R[i, k] -= a * H[i, k]
    total = solve_blocks(L, R, Z)
    b = total / rz
    for i in range(n):
        for k in range(rank):
            P[i, k] = Z[i, k] + b * P[i, k]
    return curvature, total
