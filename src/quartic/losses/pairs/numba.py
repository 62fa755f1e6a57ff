"""Compiled passes over a list of pairs (i, j): the one costly operation of every loss that is a sum over pairs.

A pair carries a target b and a weight w, and enters the loss as ½ w (q − b)², where q is ‖x_i − x_j‖² (distances) or
⟨x_i, x_j⟩ (entries of XXᵀ). Either way q is a quadratic in t on a line X + tD, q(t) = q + βt + γt², which makes the
loss a quartic there and its gradient a cubic with matrix coefficients.

The passes are specialised, when first used, to the kind of pair and to whether there are weights. Those here are for
any rank; small ones have passes of their own in `pair_lanes` (``rank`` is 0 for the others). How the rows
are cut into chunks is handed in, a `quartic.compiled.row_chunks.RowChunks`. Compiled code is kept on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from quartic.compiled.flags import FLAGS
from quartic.compiled.row_chunks import over_rows, wide
from quartic.losses.pairs import pair_lanes

# Indices are made unsigned before use: a signed one would be tested for counting from the end.


@cache
def value_and_gradient(rank: int, difference: bool, weighted: bool) -> Callable[..., float]:
    """Return the pass ``(X, chunks, cols, target, weight, G) -> f(X)``, which fills G with the gradient."""
    if rank:
        return pair_lanes.value_and_gradient(rank, difference, weighted)

    @njit(**FLAGS)
    def rows(X: Any, start: Any, cols: Any, target: Any, weight: Any, G: Any, first: int, last: int) -> Any:
        width = X.shape[1]
        G[:] = 0.0
        x, u, s = np.empty(width), np.empty(width), np.empty(width)
        value = 0.0
        for i in range(first, last):
            for k in range(width):
                x[k] = X[i, k]
                s[k] = 0.0
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
                we = weight[p] * e if weighted else e
                value += we * e
                if difference:
                    we *= 2
                for k in range(width):
                    s[k] += we * u[k]
                    if difference:
                        G[j, k] -= we * u[k]
                    else:
                        G[j, k] += we * x[k]
            for k in range(width):
                G[i, k] += s[k]
        return 0.5 * value

    def run(X: Any, chunks: Any, cols: Any, target: Any, weight: Any, G: Any) -> Any:
        X = wide(X)
        return over_rows(lambda first, last, G: rows(X, chunks.start, cols, target, weight, G, first, last), chunks, G)

    return run


@cache
def value_gradient_and_remainder(rank: int, difference: bool, weighted: bool) -> Callable[..., tuple[float, float]]:
    """Return the pass ``(X, Y, chunks, cols, target, weight, G) -> f(Y), f(Y) − f(X) − ⟨∇f(X), Y − X⟩``; G is ∇f(Y).

    The remainder is summed from D = Y − X, pair by pair, so that it keeps its digits however close Y is to X. On the
    line q goes from q₀ to q₁ = q₀ + β + γ, and a pair's share is w(½(β + γ)² + (q₀ − b)γ).
    """
    if rank:
        return pair_lanes.value_gradient_and_remainder(rank, difference, weighted)

    @njit(**FLAGS)
    def rows(X: Any, D: Any, start: Any, cols: Any, target: Any, weight: Any, G: Any, first: int, last: int) -> Any:
        width = X.shape[1]
        G[:] = 0.0
        x, d, z, s = np.empty(width), np.empty(width), np.empty(width), np.empty(width)
        value, remainder = 0.0, 0.0
        for i in range(first, last):
            for k in range(width):
                x[k] = X[i, k]
                d[k] = D[i, k]
                s[k] = 0.0
            for p in range(start[i], start[i + 1]):
                j = np.uint64(cols[p])
                after, change, c = -np.float64(target[p]), 0.0, 0.0
                for k in range(width):
                    if difference:
                        u, v = x[k] - X[j, k], d[k] - D[j, k]
                        z[k] = u + v
                        after += z[k] * z[k]
                        change += (u + z[k]) * v
                        c += v * v
                    else:
                        xj, dj = X[j, k], D[j, k]
                        z[k] = xj + dj
                        after += (x[k] + d[k]) * z[k]
                        change += x[k] * dj + d[k] * z[k]
                        c += d[k] * dj
                w = weight[p] if weighted else 1.0
                we = w * after
                value += we * after
                remainder += w * (0.5 * change * change + (after - change) * c)
                if difference:
                    we *= 2
                for k in range(width):
                    s[k] += we * z[k]
                    if difference:
                        G[j, k] -= we * z[k]
                    else:
                        G[j, k] += we * (x[k] + d[k])
            for k in range(width):
                G[i, k] += s[k]
        return 0.5 * value, remainder

    def run(X: Any, Y: Any, chunks: Any, cols: Any, target: Any, weight: Any, G: Any) -> Any:
        X, Y = wide(X), wide(Y)
        D = Y - X
        return over_rows(
            lambda first, last, G: rows(X, D, chunks.start, cols, target, weight, G, first, last), chunks, G
        )

    return run


@cache
def line_coefficients(rank: int, difference: bool, weighted: bool) -> Callable[..., tuple[float, float, float, float]]:
    """Return the pass ``(X, D, chunks, cols, target, weight, C) -> c1, c2, c3, c4``.

    f(X + tD) = f(X) + c1 t + c2 t² + c3 t³ + c4 t⁴ and ∇f(X + tD) = ∇f(X) + t C[:, 0] + t² C[:, 1] + t³ C[:, 2].
    The three lie side by side: at distances near a multiple of 4096 bytes their stores would hold each other up.
    """
    if rank:
        return pair_lanes.line_coefficients(rank, difference, weighted)

    @njit(**FLAGS)
    def rows(X: Any, D: Any, start: Any, cols: Any, target: Any, weight: Any, C: Any, first: int, last: int) -> Any:
        width = X.shape[1]
        C[:] = 0.0
        c1, c2, c3, c4 = 0.0, 0.0, 0.0, 0.0
        x, d, u, v = np.empty(width), np.empty(width), np.empty(width), np.empty(width)
        s1, s2, s3 = np.empty(width), np.empty(width), np.empty(width)
        for i in range(first, last):
            for k in range(width):
                x[k] = X[i, k]
                d[k] = D[i, k]
                s1[k] = 0.0
                s2[k] = 0.0
                s3[k] = 0.0
            for p in range(start[i], start[i + 1]):
                j = np.uint64(cols[p])
                e, b, c = -np.float64(target[p]), 0.0, 0.0
                for k in range(width):
                    if difference:
                        u[k] = x[k] - X[j, k]
                        v[k] = d[k] - D[j, k]
                        e += u[k] * u[k]
                        b += 2 * u[k] * v[k]
                        c += v[k] * v[k]
                    else:
                        u[k] = X[j, k]
                        v[k] = D[j, k]
                        e += x[k] * u[k]
                        b += x[k] * v[k] + d[k] * u[k]
                        c += d[k] * v[k]
                w = weight[p] if weighted else 1.0
                c1 += w * e * b
                c2 += w * (0.5 * b * b + e * c)
                c3 += w * b * c
                c4 += 0.5 * w * c * c
                if difference:
                    w *= 2
                e, b, c = w * e, w * b, w * c
                for k in range(width):
                    g1, g2, g3 = e * v[k] + b * u[k], b * v[k] + c * u[k], c * v[k]
                    s1[k] = s1[k] + g1
                    s2[k] = s2[k] + g2
                    s3[k] = s3[k] + g3
                    if difference:
                        C[j, 0, k] -= g1
                        C[j, 1, k] -= g2
                        C[j, 2, k] -= g3
                    else:
                        C[j, 0, k] += e * d[k] + b * x[k]
                        C[j, 1, k] += b * d[k] + c * x[k]
                        C[j, 2, k] += c * d[k]
            for k in range(width):
                C[i, 0, k] += s1[k]
                C[i, 1, k] += s2[k]
                C[i, 2, k] += s3[k]
        return c1, c2, c3, c4

    def run(X: Any, D: Any, chunks: Any, cols: Any, target: Any, weight: Any, C: Any) -> Any:
        X, D = wide(X), wide(D)
        return over_rows(
            lambda first, last, C: rows(X, D, chunks.start, cols, target, weight, C, first, last), chunks, C
        )

    return run


@cache
def hessian_product(rank: int, difference: bool, weighted: bool) -> Callable[..., None]:
    """Return the pass ``(X, D, chunks, cols, target, weight, H)``, which fills H with ∇²f(X)[D]."""
    if rank:
        return pair_lanes.hessian_product(rank, difference, weighted)

    @njit(**FLAGS)
    def rows(X: Any, D: Any, start: Any, cols: Any, target: Any, weight: Any, H: Any, first: int, last: int) -> None:
        width = X.shape[1]
        H[:] = 0.0
        x, d, u, v, s = (
            np.empty(width), np.empty(width), np.empty(width), np.empty(width), np.empty(width)
        )  # fmt: skip
        for i in range(first, last):
            for k in range(width):
                x[k] = X[i, k]
                d[k] = D[i, k]
                s[k] = 0.0
            for p in range(start[i], start[i + 1]):
                j = np.uint64(cols[p])
                e, b = -np.float64(target[p]), 0.0
                for k in range(width):
                    if difference:
                        u[k] = x[k] - X[j, k]
                        v[k] = d[k] - D[j, k]
                        e += u[k] * u[k]
                        b += 2 * u[k] * v[k]
                    else:
                        u[k] = X[j, k]
                        v[k] = D[j, k]
                        e += x[k] * u[k]
                        b += x[k] * v[k] + d[k] * u[k]
                w = weight[p] if weighted else 1.0
                if difference:
                    w *= 2
                e, b = w * e, w * b
                for k in range(width):
                    g = e * v[k] + b * u[k]
                    s[k] += g
                    if difference:
                        H[j, k] -= g
                    else:
                        H[j, k] += e * d[k] + b * x[k]
            for k in range(width):
                H[i, k] += s[k]

    def run(X: Any, D: Any, chunks: Any, cols: Any, target: Any, weight: Any, H: Any) -> None:
        X, D = wide(X), wide(D)
        over_rows(lambda first, last, H: rows(X, D, chunks.start, cols, target, weight, H, first, last), chunks, H)

    return run


@njit(**FLAGS)
def weighted_degrees(start: Any, cols: Any, target: Any, weight: Any, weighted: bool, total: Any) -> Any:
    """Add w·b of each pair to its two points' entries of ``total``, and return Σ (w·b)² and Σ w·b²."""
    squares, loss = 0.0, 0.0
    for i in range(len(start) - 1):
        here = 0.0
        for p in range(start[i], start[i + 1]):
            b = np.float64(target[p])
            wb = weight[p] * b if weighted else b
            here += wb
            total[np.uint64(cols[p])] += wb
            squares += wb * wb
            loss += wb * b
        total[i] += here
    return squares, loss
