"""Compiled passes over X with r × r row blocks: the preconditioner of conjugate gradients, and what a step does to X.

Blocks B_i + shift·I = CECᵀ, with C unit lower triangular and E diagonal, are kept as N = C⁻¹ with E⁻¹ on its diagonal,
packed by rows of the lower triangle. Solving, z = NᵀE⁻¹N r, takes no division and no step that waits for another, and
NᵀE⁻¹N is positive semidefinite whatever the round-off. Ranks up to 4 have code of their own: in tuples, so that a row
stays in registers (`vectors.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from quartic.compiled.flags import FLAGS
from quartic.losses.pairs.vectors import put, vector

_SPECIAL_RANKS = 4


def row_model(rank: int) -> tuple[float, ...]:
    """Return the model of a row: of known length where the rank has code of its own."""
    return (0.0,) * (rank if rank <= _SPECIAL_RANKS else 0)


def factor_blocks(B: Any, shift: float, width: int) -> Any:
    """Return N and E⁻¹ of the blocks B_i + shift·I, packed; a direction without curvature gets 0."""
    M = np.empty_like(B)
    factor_all(row_model(width), width, B, shift, M)
    return M


def solve_blocks(M: Any, R: Any, Z: Any) -> Any:
    """Fill Z with the solutions of (B_i + shift·I) z_i = r_i, and return ⟨R, Z⟩."""
    return solve_all(row_model(R.shape[1]), M, R, Z, R.shape[1])


def first_direction(G: Any, M: Any, R: Any, Z: Any, P: Any) -> Any:
    """Set R = −G and P = Z = the preconditioned R; return ⟨R, Z⟩."""
    np.negative(G, out=R)
    rz = solve_all(row_model(R.shape[1]), M, R, Z, R.shape[1])
    P[:] = Z
    return rz


def advance(rz: float, shift: float, P: Any, H: Any, M: Any, D: Any, R: Any, Z: Any) -> Any:
    """Make a step of conjugate gradients with A + shift·I, where H = AP; return ⟨P, (A + shift·I)P⟩ and the new ⟨R, Z⟩.

    With a = ⟨R, Z⟩ / curvature: D += aP, R −= a(H + shift·P), Z = the preconditioned R, P = Z + bP. Where the curvature
    is not positive nothing is changed but H.
    """
    return advance_all(row_model(P.shape[1]), rz, shift, P, H, M, D, R, Z, P.shape[1])


def diagonal_mean(B: Any, rank: int) -> float:
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
def factor_all(zeros: Any, rank: int, B: Any, shift: float, M: Any) -> None:
    """Fill M with what `factor_blocks` returns."""
    c = vector(zeros, rank)
    for i in range(B.shape[0]):
        for k in range(len(c)):
            row = k * (k + 1) // 2
            # row k of C, by means of the rows of N above it: C_kl E_l = (BNᵀ)_kl
            pivot = B[i, row + k]
            for l in range(k):
                column = l * (l + 1) // 2
                value = B[i, row + l]
                for h in range(l):
                    value += B[i, row + h] * M[i, column + h]
                c = put(c, l, value * M[i, column + l])
                pivot -= value * c[l]
            # row k of N: NC = I
            for l in range(k):
                value = c[l]
                for h in range(l + 1, k):
                    value += c[h] * M[i, h * (h + 1) // 2 + l]
                M[i, row + l] = -value
            # below the round-off of its own entries a pivot means nothing
            pivot = max(pivot, 1e-14 * B[i, row + k]) + shift
            M[i, row + k] = 1.0 / pivot if pivot > 0 else 0.0


@njit(**FLAGS)
def _solve_row(M: Any, i: int, r: Any, y: Any, Z: Any) -> Any:
    """Fill row i of Z with z = NᵀE⁻¹N r, and return ⟨r, z⟩; y is for use in between."""
    total = 0.0
    for k in range(len(y)):
        row = k * (k + 1) // 2
        value = r[k]
        for h in range(k):
            value += M[i, row + h] * r[h]
        y = put(y, k, value * M[i, row + k])
        total += value * y[k]
    for k in range(len(y)):
        value = y[k]
        for h in range(k + 1, len(y)):
            value += M[i, h * (h + 1) // 2 + k] * y[h]
        Z[i, k] = value
    return total


@njit(**FLAGS)
def solve_all(zeros: Any, M: Any, R: Any, Z: Any, rank: int) -> Any:
    """Do what `solve_blocks` does, with the first ``rank`` columns of R and Z."""
    r, y = vector(zeros, rank), vector(zeros, rank)
    total = 0.0
    for i in range(R.shape[0]):
        for k in range(len(r)):
            r = put(r, k, R[i, k])
        total += _solve_row(M, i, r, y, Z)
    return total


@njit(**FLAGS)
def advance_all(zeros: Any, rz: float, shift: float, P: Any, H: Any, M: Any, D: Any, R: Any, Z: Any, rank: int) -> Any:
    """Do what `advance` does, with the first ``rank`` columns of all."""
    r, y = vector(zeros, rank), vector(zeros, rank)
    curvature = 0.0
    for i in range(P.shape[0]):
        for k in range(len(r)):
            H[i, k] += shift * P[i, k]
            curvature += P[i, k] * H[i, k]
    if not curvature > 0:
        return curvature, rz
    a, total = rz / curvature, 0.0
    for i in range(P.shape[0]):
        for k in range(len(r)):
            D[i, k] += a * P[i, k]
            r = put(r, k, R[i, k] - a * H[i, k])
            R[i, k] = r[k]
        total += _solve_row(M, i, r, y, Z)
    b = total / rz
    for i in range(P.shape[0]):
        for k in range(len(r)):
            P[i, k] = Z[i, k] + b * P[i, k]
    return curvature, total
