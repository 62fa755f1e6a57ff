"""Compiled passes over all pairs of points, whose distances are read from a matrix in place."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from quartic.ops.flags import FLAGS


@njit(**FLAGS)
def linearize(X: Any, D: Any, G: Any, B: Any) -> Any:
    """Return f(X); fill G with the gradient, and B with the packed row blocks of JᵀJ where it has rows."""
    n, rank = X.shape
    G[:] = 0.0
    B[:] = 0.0
    blocks = len(B) > 0
    value = 0.0
    for i in range(n):
        for j in range(i + 1, n):
            e = -np.float64(D[i, j]) * np.float64(D[i, j])
            for k in range(rank):
                e += (X[i, k] - X[j, k]) ** 2
            value += e * e
            at = 0
            for k in range(rank):
                u = X[i, k] - X[j, k]
                G[i, k] += 2 * e * u
                G[j, k] -= 2 * e * u
                if blocks:
                    for l in range(k + 1):
                        b = 4 * u * (X[i, l] - X[j, l])
                        B[i, at] += b
                        B[j, at] += b
                        at += 1
    return 0.5 * value


@njit(**FLAGS)
def product(X: Any, V: Any, D: Any, newton: bool, H: Any) -> None:
    """Fill H with JᵀJ V, or with the whole second derivative times V."""
    n, rank = X.shape
    H[:] = 0.0
    for i in range(n):
        for j in range(i + 1, n):
            e = -np.float64(D[i, j]) * np.float64(D[i, j]) if newton else 0.0
            b = 0.0
            for k in range(rank):
                u = X[i, k] - X[j, k]
                b += u * (V[i, k] - V[j, k])
                if newton:
                    e += u * u
            for k in range(rank):
                h = 4 * b * (X[i, k] - X[j, k])
                if newton:
                    h += 2 * e * (V[i, k] - V[j, k])
                H[i, k] += h
                H[j, k] -= h


@njit(**FLAGS)
def quartic(X: Any, V: Any, D: Any) -> Any:
    """Return c1 … c4 of f(X + tV) = f(X) + c1 t + c2 t² + c3 t³ + c4 t⁴."""
    n, rank = X.shape
    c1, c2, c3, c4 = 0.0, 0.0, 0.0, 0.0
    for i in range(n):
        for j in range(i + 1, n):
            e, b, c = -np.float64(D[i, j]) * np.float64(D[i, j]), 0.0, 0.0
            for k in range(rank):
                u, v = X[i, k] - X[j, k], V[i, k] - V[j, k]
                e += u * u
                b += 2 * u * v
                c += v * v
            c1 += e * b
            c2 += 0.5 * b * b + e * c
            c3 += b * c
            c4 += 0.5 * c * c
    return c1, c2, c3, c4
