"""Compiled passes over all pairs of points, whose distances are read from a matrix in place: by several threads."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from quartic.arrays import Array
from quartic.compiled.flags import FLAGS
from quartic.compiled.row_chunks import RowChunks, over_rows, wide


@njit(**FLAGS)
def _linearize(X: Any, D: Any, G: Any, B: Any, first: int, last: int) -> Any:
    n, rank = X.shape
    G[:] = 0.0
    B[:] = 0.0
    blocks = len(B) > 0
    value = 0.0
    for i in range(first, last):
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
def _product(X: Any, V: Any, D: Any, newton: bool, H: Any, first: int, last: int) -> None:
    n, rank = X.shape
    H[:] = 0.0
    for i in range(first, last):
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
def _quartic(X: Any, V: Any, D: Any, first: int, last: int) -> Any:
    n, rank = X.shape
    c1, c2, c3, c4 = 0.0, 0.0, 0.0, 0.0
    for i in range(first, last):
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


def chunks_of(n: int) -> RowChunks:
    """Return how the rows i, with their pairs (i, j), i < j, are cut into chunks."""
    return RowChunks(np.concatenate([[0], np.cumsum(np.arange(n - 1, -1, -1))]))


def linearize(X: Array, D: Array, chunks: RowChunks, G: Array, B: Array | None = None) -> float:
    """Return f(X); fill G with the gradient, and B, if given, with the packed row blocks of JᵀJ."""
    X, none = wide(X), np.empty((0, 0))

    def rows(first: int, last: int, G: Array, B: Array = none) -> Any:
        return _linearize(X, D, G, B, first, last)

    return float(over_rows(rows, chunks, G) if B is None else over_rows(rows, chunks, G, B))


def product(X: Array, V: Array, D: Array, newton: bool, chunks: RowChunks, H: Array) -> None:
    """Fill H with JᵀJ V, or with the whole second derivative times V."""
    X, V = wide(X), wide(V)

    def rows(first: int, last: int, H: Array) -> None:
        _product(X, V, D, newton, H, first, last)

    over_rows(rows, chunks, H)


def quartic(X: Array, V: Array, D: Array, chunks: RowChunks) -> tuple[float, float, float, float]:
    """Return c1 … c4 of f(X + tV) = f(X) + c1 t + c2 t² + c3 t³ + c4 t⁴."""
    X, V = wide(X), wide(V)
    c1, c2, c3, c4 = over_rows(lambda first, last: _quartic(X, V, D, first, last), chunks)
    return float(c1), float(c2), float(c3), float(c4)
