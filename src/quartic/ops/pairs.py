"""Compiled passes over a list of pairs (i, j): the one costly operation of every loss that is a sum over pairs.

A pair carries a target b and a weight w, and enters the loss as ½ w (q − b)², where q is ‖x_i − x_j‖² (distances) or
⟨x_i, x_j⟩ (entries of XXᵀ). Either way q is a quadratic in t on a line X + tD, q(t) = q + βt + γt², which makes the
loss a quartic there and its gradient a cubic with matrix coefficients.

The passes are specialised, when first used, to the kind of pair, to whether there are weights, and to small ranks,
whose inner loops the compiler then unrolls. Compiled code is kept on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit

# Sums may be reordered and fused; NaN and infinity keep their meaning.
_FLAGS = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"contract", "reassoc", "nsz"}}


@cache
def value_and_gradient(rank: int, difference: bool, weighted: bool) -> Callable[..., float]:
    """Return the pass ``(X, start, cols, target, weight, G) -> f(X)``, which fills G with the gradient."""

    @njit(**_FLAGS)
    def run(X: Any, start: Any, cols: Any, target: Any, weight: Any, G: Any) -> Any:
        width = X.shape[1] if rank == 0 else rank
        G[:] = 0.0
        x, u, total_i = np.empty(width), np.empty(width), np.empty(width)
        value = 0.0
        for i in range(X.shape[0]):
            for k in range(width):
                x[k] = X[i, k]
                total_i[k] = 0.0
            for p in range(start[i], start[i + 1]):
                j = cols[p]
                e = -target[p]
                for k in range(width):
                    if difference:
                        u[k] = x[k] - X[j, k]
                        e += u[k] * u[k]
                    else:
                        u[k] = X[j, k]
                        e += x[k] * u[k]
                we = weight[p] * e if weighted else e
                value += we * e
                for k in range(width):
                    if difference:
                        g = 2 * we * u[k]
                        total_i[k] += g
                        G[j, k] -= g
                    else:
                        total_i[k] += we * u[k]
                        G[j, k] += we * x[k]
            for k in range(width):
                G[i, k] += total_i[k]
        return 0.5 * value

    return run  # type: ignore[no-any-return]


@cache
def value_gradient_and_remainder(rank: int, difference: bool, weighted: bool) -> Callable[..., tuple[float, float]]:
    """Return the pass ``(X, Y, start, cols, target, weight, G) -> f(Y), f(Y) − f(X) − ⟨∇f(X), Y − X⟩``; G is ∇f(Y).

    The remainder is summed from Y − X, pair by pair, so that it keeps its digits however close Y is to X.
    """

    @njit(**_FLAGS)
    def run(X: Any, Y: Any, start: Any, cols: Any, target: Any, weight: Any, G: Any) -> Any:
        width = X.shape[1] if rank == 0 else rank
        G[:] = 0.0
        x, y, d, total_i = np.empty(width), np.empty(width), np.empty(width), np.empty(width)
        value, remainder = 0.0, 0.0
        for i in range(X.shape[0]):
            for k in range(width):
                x[k] = X[i, k]
                y[k] = Y[i, k]
                d[k] = y[k] - x[k]
                total_i[k] = 0.0
            for p in range(start[i], start[i + 1]):
                j = cols[p]
                before, after, b, c = -target[p], -target[p], 0.0, 0.0
                for k in range(width):
                    xj, yj = X[j, k], Y[j, k]
                    dj = yj - xj
                    if difference:
                        u, v, z = x[k] - xj, d[k] - dj, y[k] - yj
                        before += u * u
                        b += 2 * u * v
                        c += v * v
                        after += z * z
                    else:
                        before += x[k] * xj
                        b += x[k] * dj + d[k] * xj
                        c += d[k] * dj
                        after += y[k] * yj
                w = weight[p] if weighted else 1.0
                we = w * after
                value += we * after
                remainder += w * (0.5 * (b + c) * (b + c) + before * c)
                for k in range(width):
                    if difference:
                        g = 2 * we * (y[k] - Y[j, k])
                        total_i[k] += g
                        G[j, k] -= g
                    else:
                        total_i[k] += we * Y[j, k]
                        G[j, k] += we * y[k]
            for k in range(width):
                G[i, k] += total_i[k]
        return 0.5 * value, remainder

    return run  # type: ignore[no-any-return]


@cache
def line_coefficients(rank: int, difference: bool, weighted: bool) -> Callable[..., tuple[float, float, float, float]]:
    """Return the pass ``(X, D, start, cols, target, weight, G1, G2, G3) -> c1, c2, c3, c4``.

    f(X + tD) = f(X) + c1 t + c2 t² + c3 t³ + c4 t⁴ and ∇f(X + tD) = ∇f(X) + t G1 + t² G2 + t³ G3.
    """

    @njit(**_FLAGS)
    def run(X: Any, D: Any, start: Any, cols: Any, target: Any, weight: Any, G1: Any, G2: Any, G3: Any) -> Any:
        width = X.shape[1] if rank == 0 else rank
        G1[:] = 0.0
        G2[:] = 0.0
        G3[:] = 0.0
        c1, c2, c3, c4 = 0.0, 0.0, 0.0, 0.0
        x, d, u, v = np.empty(width), np.empty(width), np.empty(width), np.empty(width)
        s1, s2, s3 = np.empty(width), np.empty(width), np.empty(width)
        for i in range(X.shape[0]):
            for k in range(width):
                x[k] = X[i, k]
                d[k] = D[i, k]
                s1[k] = 0.0
                s2[k] = 0.0
                s3[k] = 0.0
            for p in range(start[i], start[i + 1]):
                j = cols[p]
                e, b, c = -target[p], 0.0, 0.0
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
                    s1[k] += g1
                    s2[k] += g2
                    s3[k] += g3
                    if difference:
                        G1[j, k] -= g1
                        G2[j, k] -= g2
                        G3[j, k] -= g3
                    else:
                        G1[j, k] += e * d[k] + b * x[k]
                        G2[j, k] += b * d[k] + c * x[k]
                        G3[j, k] += c * d[k]
            for k in range(width):
                G1[i, k] += s1[k]
                G2[i, k] += s2[k]
                G3[i, k] += s3[k]
        return c1, c2, c3, c4

    return run  # type: ignore[no-any-return]
