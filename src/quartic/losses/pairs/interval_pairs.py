"""Compiled passes over pairs whose distance is known to lie in an interval.

A pair with bounds l ≤ u and weight w enters the loss as ½ w e², where e = s − clip(s, l, u) is by how much s leaves the
interval; s is the squared distance q = ‖x_i − x_j‖², or the distance √q itself (``root``). Where l = u these are plain
squares. The derivative of s with respect to x_i is c·(x_i − x_j), with c = 2 or c = 1/√q.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from quartic.arrays import Array
from quartic.compiled.flags import FLAGS
from quartic.compiled.row_chunks import RowChunks, over_rows, wide


@njit(**FLAGS)
def _excess(s: float, low: float, high: float) -> Any:
    """Return by how much s leaves the interval, and on which side: −1, 0 or 1 (2 where the interval is a point)."""
    if low == high:
        return s - low, 2
    if s > high:
        return s - high, 1
    if s < low:
        return s - low, -1
    return 0.0, 0


@njit(**FLAGS)
def _measure(q: float, root: bool) -> Any:
    """Return s and c; two points in one place pull in no direction."""
    if not root:
        return q, 2.0
    s = np.sqrt(q)
    return s, 1.0 / s if s > 0 else 0.0


@njit(**FLAGS)
def _value_and_gradient(
    X: Any, start: Any, cols: Any, lower: Any, upper: Any, weight: Any, weighted: bool, root: bool, G: Any,
    first: int, last: int,
) -> Any:  # fmt: skip
    G[:] = 0.0
    value = 0.0
    for i in range(first, last):
        for p in range(start[i], start[i + 1]):
            j = np.uint64(cols[p])
            q = 0.0
            for k in range(X.shape[1]):
                q += (X[i, k] - X[j, k]) ** 2
            s, c = _measure(q, root)
            e, side = _excess(s, lower[p], upper[p])
            if side == 0:
                continue
            we = weight[p] * e if weighted else e
            value += we * e
            for k in range(X.shape[1]):
                g = we * c * (X[i, k] - X[j, k])
                G[i, k] += g
                G[j, k] -= g
    return 0.5 * value


@njit(**FLAGS)
def _value_gradient_and_remainder(
    X: Any, Y: Any, start: Any, cols: Any, lower: Any, upper: Any, weight: Any, weighted: bool, root: bool, G: Any,
    first: int, last: int,
) -> Any:  # fmt: skip
    G[:] = 0.0
    value, remainder = 0.0, 0.0
    for i in range(first, last):
        for p in range(start[i], start[i + 1]):
            j = np.uint64(cols[p])
            before, after, b, c = 0.0, 0.0, 0.0, 0.0
            for k in range(X.shape[1]):
                u, z = X[i, k] - X[j, k], Y[i, k] - Y[j, k]
                v = (Y[i, k] - X[i, k]) - (Y[j, k] - X[j, k])
                before += u * u
                after += z * z
                b += 2 * u * v
                c += v * v
            s0, _ = _measure(before, root)
            s1, factor = _measure(after, root)
            e0, side0 = _excess(s0, lower[p], upper[p])
            e1, side1 = _excess(s1, lower[p], upper[p])
            if side0 == 0 and side1 == 0:
                continue
            w = weight[p] if weighted else 1.0
            sum_of_roots = s0 + s1
            change = b + c
            if root:
                change = change / sum_of_roots if sum_of_roots > 0 else 0.0
            if side0 != side1:
                change = e1 - e0
            # φ(s1) − φ(s0) − φ'(s0)·(first-order change of s), each term of second order in Y − X where sides agree
            second = c
            if root:
                second = change - (0.5 * b / s0 if s0 > 0 else 0.0)
                if side0 == side1 and s0 > 0 and sum_of_roots > 0:
                    second = (2 * s0 * c - b * (b + c) / sum_of_roots) / (2 * s0 * sum_of_roots)
            elif side0 != side1:
                second = change - b
            remainder += w * (0.5 * change * change + e0 * second)
            we = w * e1
            value += we * e1
            for k in range(X.shape[1]):
                g = we * factor * (Y[i, k] - Y[j, k])
                G[i, k] += g
                G[j, k] -= g
    return 0.5 * value, remainder


@njit(**FLAGS)
def _linearize(
    X: Any, start: Any, cols: Any, lower: Any, upper: Any, weight: Any, weighted: bool, root: bool, G: Any, B: Any,
    first: int, last: int,
) -> Any:  # fmt: skip
    G[:] = 0.0
    B[:] = 0.0
    value = 0.0
    for i in range(first, last):
        for p in range(start[i], start[i + 1]):
            j = np.uint64(cols[p])
            q = 0.0
            for k in range(X.shape[1]):
                q += (X[i, k] - X[j, k]) ** 2
            s, c = _measure(q, root)
            e, side = _excess(s, lower[p], upper[p])
            if side == 0:
                continue
            w = weight[p] if weighted else 1.0
            value += w * e * e
            at = 0
            for k in range(X.shape[1]):
                u = c * (X[i, k] - X[j, k])
                g = w * e * u
                G[i, k] += g
                G[j, k] -= g
                for l in range(k + 1):
                    b = w * u * c * (X[i, l] - X[j, l])
                    B[i, at] += b
                    B[j, at] += b
                    at += 1
    return 0.5 * value


@njit(**FLAGS)
def _product(
    X: Any, V: Any, start: Any, cols: Any, lower: Any, upper: Any, weight: Any, weighted: bool, root: bool, H: Any,
    first: int, last: int,
) -> None:  # fmt: skip
    H[:] = 0.0
    for i in range(first, last):
        for p in range(start[i], start[i + 1]):
            j = np.uint64(cols[p])
            q, b = 0.0, 0.0
            for k in range(X.shape[1]):
                u = X[i, k] - X[j, k]
                q += u * u
                b += u * (V[i, k] - V[j, k])
            s, c = _measure(q, root)
            _, side = _excess(s, lower[p], upper[p])
            if side == 0:
                continue
            b *= c * c
            if weighted:
                b *= weight[p]
            for k in range(X.shape[1]):
                h = b * (X[i, k] - X[j, k])
                H[i, k] += h
                H[j, k] -= h


# -- the passes, by several threads ---------------------------------------------------------------------------------


def value_and_gradient(X: Array, chunks: RowChunks, *pairs: Any, G: Array) -> float:
    """Return f(X), and fill G with the gradient; ``pairs``: cols, lower, upper, weight, weighted, root."""
    X = wide(X)

    def rows(first: int, last: int, G: Array) -> Any:
        return _value_and_gradient(X, chunks.start, *pairs, G, first, last)

    return float(over_rows(rows, chunks, G))


def value_gradient_and_remainder(X: Array, Y: Array, chunks: RowChunks, *pairs: Any, G: Array) -> tuple[float, float]:
    """Return f(Y) and f(Y) − f(X) − ⟨∇f(X), Y − X⟩, summed from Y − X; fill G with ∇f(Y)."""
    X, Y = wide(X), wide(Y)

    def rows(first: int, last: int, G: Array) -> Any:
        return _value_gradient_and_remainder(X, Y, chunks.start, *pairs, G, first, last)

    value, remainder = over_rows(rows, chunks, G)
    return float(value), float(remainder)


def linearize(X: Array, chunks: RowChunks, *pairs: Any, G: Array, B: Array) -> float:
    """Return f(X); fill G with the gradient and B with the packed row blocks of JᵀWJ."""
    X = wide(X)

    def rows(first: int, last: int, G: Array, B: Array) -> Any:
        return _linearize(X, chunks.start, *pairs, G, B, first, last)

    return float(over_rows(rows, chunks, G, B))


def product(X: Array, V: Array, chunks: RowChunks, *pairs: Any, H: Array) -> None:
    """Fill H with JᵀWJ V."""
    X, V = wide(X), wide(V)

    def rows(first: int, last: int, H: Array) -> None:
        _product(X, V, chunks.start, *pairs, H, first, last)

    over_rows(rows, chunks, H)
