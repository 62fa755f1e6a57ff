"""The passes of `gauss_newton.py` for ranks whose rows do not fit into registers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from quartic.compiled.flags import FLAGS
from quartic.compiled.row_chunks import over_rows, wide


@cache
def linearize(difference: bool, weighted: bool) -> Callable[..., float]:
    """Return the pass ``(X, chunks, cols, target, weight, G, B) -> f(X)``, which fills G with ∇f and B with row blocks.

    B_i = Σ_p w_p g gᵀ with g the gradient in row i of the residual of the pair p.
    """

    @njit(**FLAGS)
    def rows(X: Any, start: Any, cols: Any, target: Any, weight: Any, G: Any, B: Any, first: int, last: int) -> Any:
        width = X.shape[1]
        G[:] = 0.0
        B[:] = 0.0
        x, u, s = np.zeros(width), np.zeros(width), np.zeros(width)
        S = np.zeros(width * (width + 1) // 2)
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
                    s[k] = s[k] + we * u[k]
                    if difference:
                        G[j, k] -= we * u[k]
                    else:
                        G[j, k] += we * x[k]
                    for l in range(k + 1):
                        q = k * (k + 1) // 2 + l
                        S[q] = S[q] + ww * u[k] * u[l]
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
def product(difference: bool, weighted: bool) -> Callable[..., None]:
    """Return the pass ``(X, V, chunks, cols, weight, H)``, which fills H with JᵀWJ V."""

    @njit(**FLAGS)
    def rows(X: Any, V: Any, start: Any, cols: Any, weight: Any, H: Any, first: int, last: int) -> None:
        width = X.shape[1]
        H[:] = 0.0
        x, v, u, s = np.zeros(width), np.zeros(width), np.zeros(width), np.zeros(width)
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
                    s[k] = s[k] + b * u[k]
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
def quartic(difference: bool, weighted: bool) -> Callable[..., tuple[float, float, float, float]]:
    """Return the pass ``(X, D, chunks, cols, target, weight) -> c1, c2, c3, c4``: the quartic of f on X + tD alone.

    Nothing is written, so it costs half of a pass that gathers gradients.
    """

    @njit(**FLAGS)
    def rows(X: Any, D: Any, start: Any, cols: Any, target: Any, weight: Any, first: int, last: int) -> Any:
        width = X.shape[1]
        c1, c2, c3, c4 = 0.0, 0.0, 0.0, 0.0
        x, d = np.zeros(width), np.zeros(width)
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
