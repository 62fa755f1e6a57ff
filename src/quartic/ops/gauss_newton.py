"""Compiled passes of Gauss–Newton over pairs: linearise, multiply by JᵀWJ, solve by preconditioned conjugate gradients.

For a pair p = (i, j) the residual q − b has the gradient 2(x_i − x_j) in row i and its negative in row j (distances),
or x_j in row i and x_i in row j (entries). Nothing is stored a pair: the products recompute the differences, since X
stays in the cache where m stored vectors would not.

Row blocks, the preconditioner, are symmetric r × r and packed by rows of their lower triangle.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from quartic.ops import gauss_newton_lanes
from quartic.ops.flags import FLAGS
from quartic.ops.row_chunks import over_rows, wide


@cache
def linearize(rank: int, difference: bool, weighted: bool) -> Callable[..., float]:
    """Return the pass ``(X, chunks, cols, target, weight, G, B) -> f(X)``, which fills G with ∇f and B with row blocks.

    B_i = Σ_p w_p g gᵀ with g the gradient in row i of the residual of the pair p.
    """
    if rank:
        return gauss_newton_lanes.linearize(rank, difference, weighted)

    @njit(**FLAGS)
    def rows(X: Any, start: Any, cols: Any, target: Any, weight: Any, G: Any, B: Any, first: int, last: int) -> Any:
        width = X.shape[1]
        G[:] = 0.0
        B[:] = 0.0
        x, u, s = np.empty(width), np.empty(width), np.empty(width)
        S = np.empty(width * (width + 1) // 2)
        value = 0.0
        for i in range(first, last):
            for k in range(width):
                x[k] = X[i, k]
                s[k] = 0.0
            for q in range(width * (width + 1) // 2):
                S[q] = 0.0
            for p in range(start[i], start[i + 1]):
                j = np.uint64(cols[p])
                e = -np.float64(target[p])
                for k in range(width):
                    if difference:
                        u[k] = x[k] - X[j, k]
                        e += u[k] * u[k]
                    else:
                        u[k] = X[j, k]
                        e += x[k] * u[k]
                w = weight[p] if weighted else 1.0
                value += w * e * e
                we, ww = w * e, w
                if difference:
                    we, ww = 2 * we, 4 * w
                elif i == np.int64(j):
                    ww = 2 * w  # the two halves of a diagonal entry's gradient fall into the same block
                for k in range(width):
                    s[k] += we * u[k]
                    if difference:
                        G[j, k] -= we * u[k]
                    else:
                        G[j, k] += we * x[k]
                    for l in range(k + 1):
                        q = k * (k + 1) // 2 + l
                        S[q] += ww * u[k] * u[l]
                        if difference:
                            B[j, q] += ww * u[k] * u[l]
                        else:
                            B[j, q] += ww * x[k] * x[l]
            for k in range(width):
                G[i, k] += s[k]
            for q in range(width * (width + 1) // 2):
                B[i, q] += S[q]
        return 0.5 * value

    def run(X: Any, chunks: Any, cols: Any, target: Any, weight: Any, G: Any, B: Any) -> Any:
        X = wide(X)
        return over_rows(
            lambda first, last, G, B: rows(X, chunks.start, cols, target, weight, G, B, first, last), chunks, G, B
        )

    return run


@cache
def product(rank: int, difference: bool, weighted: bool) -> Callable[..., None]:
    """Return the pass ``(X, V, chunks, cols, weight, H)``, which fills H with JᵀWJ V."""
    if rank:
        return gauss_newton_lanes.product(rank, difference, weighted)

    @njit(**FLAGS)
    def rows(X: Any, V: Any, start: Any, cols: Any, weight: Any, H: Any, first: int, last: int) -> None:
        width = X.shape[1]
        H[:] = 0.0
        x, v, u, s = np.empty(width), np.empty(width), np.empty(width), np.empty(width)
        for i in range(first, last):
            for k in range(width):
                x[k] = X[i, k]
                v[k] = V[i, k]
                s[k] = 0.0
            for p in range(start[i], start[i + 1]):
                j = np.uint64(cols[p])
                b = 0.0
                for k in range(width):
                    if difference:
                        u[k] = x[k] - X[j, k]
                        b += u[k] * (v[k] - V[j, k])
                    else:
                        u[k] = X[j, k]
                        b += u[k] * v[k] + x[k] * V[j, k]
                if difference:
                    b *= 4
                if weighted:
                    b *= weight[p]
                for k in range(width):
                    s[k] += b * u[k]
                    if difference:
                        H[j, k] -= b * u[k]
                    else:
                        H[j, k] += b * x[k]
            for k in range(width):
                H[i, k] += s[k]

    def run(X: Any, V: Any, chunks: Any, cols: Any, weight: Any, H: Any) -> None:
        X, V = wide(X), wide(V)
        over_rows(lambda first, last, H: rows(X, V, chunks.start, cols, weight, H, first, last), chunks, H)

    return run


@cache
def quartic(rank: int, difference: bool, weighted: bool) -> Callable[..., tuple[float, float, float, float]]:
    """Return the pass ``(X, D, chunks, cols, target, weight) -> c1, c2, c3, c4``: the quartic of f on X + tD alone.

    Nothing is written, so it costs half of a pass that gathers gradients.
    """
    if rank:
        return gauss_newton_lanes.quartic(rank, difference, weighted)

    @njit(**FLAGS)
    def rows(X: Any, D: Any, start: Any, cols: Any, target: Any, weight: Any, first: int, last: int) -> Any:
        width = X.shape[1]
        c1, c2, c3, c4 = 0.0, 0.0, 0.0, 0.0
        x, d = np.empty(width), np.empty(width)
        for i in range(first, last):
            for k in range(width):
                x[k] = X[i, k]
                d[k] = D[i, k]
            for p in range(start[i], start[i + 1]):
                j = np.uint64(cols[p])
                e, b, c = -np.float64(target[p]), 0.0, 0.0
                for k in range(width):
                    if difference:
                        u, v = x[k] - X[j, k], d[k] - D[j, k]
                        e += u * u
                        b += 2 * u * v
                        c += v * v
                    else:
                        u, v = X[j, k], D[j, k]
                        e += x[k] * u
                        b += x[k] * v + d[k] * u
                        c += d[k] * v
                w = weight[p] if weighted else 1.0
                c1 += w * e * b
                c2 += w * (0.5 * b * b + e * c)
                c3 += w * b * c
                c4 += w * c * c
        return c1, c2, c3, 0.5 * c4

    def run(X: Any, D: Any, chunks: Any, cols: Any, target: Any, weight: Any) -> Any:
        X, D = wide(X), wide(D)
        return over_rows(lambda first, last: rows(X, D, chunks.start, cols, target, weight, first, last), chunks)

    return run


def factor_blocks(B: Any, shift: float, width: int) -> Any:
    """Return the packed Cholesky factors of the blocks B_i + shift·I; the diagonal is kept inverted."""
    L = np.empty_like(B)
    fill_factors(B, shift, width, L)
    return L


def diagonal_mean(B: Any, rank: int) -> float:
    """Return the mean diagonal entry of the packed blocks."""
    return float(sum(B[:, k * (k + 3) // 2].mean() for k in range(rank))) / rank


@njit(**FLAGS)
def fill_factors(B: Any, shift: float, width: int, L: Any) -> None:
    """Fill L with the packed Cholesky factors of the blocks B_i + shift·I; the diagonal is kept inverted."""
    for i in range(B.shape[0]):
        for k in range(width):
            row = k * (k + 1) // 2
            for l in range(k + 1):
                column = l * (l + 1) // 2
                value = B[i, row + l]
                for h in range(l):
                    value -= L[i, row + h] * L[i, column + h]
                if l < k:
                    L[i, row + l] = value * L[i, column + l]
                else:
                    # below the round-off of its own entries a pivot means nothing
                    value = max(value, 1e-14 * B[i, row + k]) + shift
                    L[i, row + k] = 1.0 / np.sqrt(value) if value > 0 else 0.0


@njit(**FLAGS)
def solve_blocks(L: Any, R: Any, Z: Any) -> Any:
    """Fill Z with the solutions of L_i L_iᵀ z_i = r_i, and return ⟨R, Z⟩."""
    width = R.shape[1]
    total = 0.0
    for i in range(R.shape[0]):
        for k in range(width):
            row = k * (k + 1) // 2
            value = R[i, k]
            for h in range(k):
                value -= L[i, row + h] * Z[i, h]
            Z[i, k] = value * L[i, row + k]
        for k in range(width - 1, -1, -1):
            value = Z[i, k]
            for h in range(k + 1, width):
                value -= L[i, h * (h + 1) // 2 + k] * Z[i, h]
            Z[i, k] = value * L[i, k * (k + 1) // 2 + k]
            total += R[i, k] * Z[i, k]
    return total


@njit(**FLAGS)
def first_direction(G: Any, L: Any, R: Any, Z: Any, P: Any) -> Any:
    """Set R = −G and P = Z = the preconditioned R; return ⟨R, Z⟩."""
    for i in range(G.shape[0]):
        for k in range(G.shape[1]):
            R[i, k] = -G[i, k]
    rz = solve_blocks(L, R, Z)
    P[:] = Z
    return rz


@njit(**FLAGS)
def add_shift(H: Any, P: Any, shift: float) -> Any:
    """Add shift·P to H, and return ⟨P, H⟩."""
    total = 0.0
    for i in range(P.shape[0]):
        for k in range(P.shape[1]):
            H[i, k] += shift * P[i, k]
            total += P[i, k] * H[i, k]
    return total


@njit(**FLAGS)
def descend(rz: float, curvature: float, P: Any, H: Any, D: Any, R: Any) -> None:
    """Move by a = rz / curvature, where that is positive, along the direction: D += aP, R −= aH."""
    a = rz / curvature if curvature > 0 else 0.0
    for i in range(P.shape[0]):
        for k in range(P.shape[1]):
            D[i, k] += a * P[i, k]
            R[i, k] -= a * H[i, k]


@njit(**FLAGS)
def turn(rz: float, before: float, Z: Any, P: Any) -> None:
    """Set the next conjugate direction, P = Z + (rz / before) P."""
    b = rz / before
    for i in range(P.shape[0]):
        for k in range(P.shape[1]):
            P[i, k] = Z[i, k] + b * P[i, k]
