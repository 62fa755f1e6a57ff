"""The passes of `quartic.losses.pairs.numba` for small ranks: points in records, vectors in registers.

In each, i is a row, p a pair of that row and j its column; x and d are of row i, u and v of the pair,
and s, s1, … what is added to row i. A record holds first the sums, r numbers each, then x, then d.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from quartic.compiled.flags import FLAGS
from quartic.losses.pairs import quad_steps
from quartic.losses.pairs.lanes import dot, entries, keep, nothing, sums
from quartic.losses.pairs.records import ALONE, BOTH, STEP, ask_ahead, over_records


@cache
def value_and_gradient(rank: int, difference: bool, weighted: bool) -> Callable[..., float]:
    """Return the pass ``(X, chunks, cols, target, weight, G) -> f(X)``, which fills G with the gradient."""
    lanes = (0.0,) * rank

    @njit(**FLAGS)
    def run(W: Any, far: bool, start: Any, first: int, last: int, cols: Any, target: Any, weight: Any) -> Any:
        value = 0.0
        for i in range(first, last):
            x, s = entries(lanes, W, i, rank), nothing(lanes)
            for p in range(np.uint64(start[i]), np.uint64(start[i + 1])):
                if far:
                    ask_ahead(W, cols, p)
                j = np.int64(cols[p])
                e = -np.float64(target[p])
                u = entries(lanes, W, j, rank)
                if difference:
                    u = x - u
                    e += dot(u, u)
                else:
                    e += dot(x, u)
                we = weight[p] * e if weighted else e
                value += we * e
                if difference:
                    we *= 2
                s = s + we * u
                if difference:
                    keep(W, j, 0, sums(lanes, W, j, 0) - we * u)
                else:
                    keep(W, j, 0, sums(lanes, W, j, 0) + we * x)
            keep(W, i, 0, sums(lanes, W, i, 0) + s)
        return 0.5 * value

    def whole(X: Any, chunks: Any, cols: Any, target: Any, weight: Any, G: Any) -> Any:
        return over_records(lambda *rows: run(*rows, cols, target, weight), chunks, X, X, ALONE, G)

    return whole


@cache
def value_gradient_and_remainder(rank: int, difference: bool, weighted: bool) -> Callable[..., tuple[float, float]]:
    """Return the pass ``(X, Y, chunks, cols, target, weight, G) -> f(Y), the remainder``; G is ∇f(Y)."""
    if difference:
        return quad_steps.value_gradient_and_remainder(rank, weighted)
    lanes = (0.0,) * rank

    @njit(**FLAGS)
    def run(W: Any, far: bool, start: Any, first: int, last: int, cols: Any, target: Any, weight: Any) -> Any:
        value, remainder = 0.0, 0.0
        for i in range(first, last):
            x, d, s = entries(lanes, W, i, rank), entries(lanes, W, i, 2 * rank), nothing(lanes)
            y = x + d
            for p in range(np.uint64(start[i]), np.uint64(start[i + 1])):
                if far:
                    ask_ahead(W, cols, p)
                j = np.int64(cols[p])
                u, v = entries(lanes, W, j, rank), entries(lanes, W, j, 2 * rank)
                z = u + v
                after = dot(y, z) - target[p]
                change, c = dot(x, v) + dot(d, z), dot(d, v)
                w = weight[p] if weighted else 1.0
                we = w * after
                value += we * after
                remainder += w * (0.5 * change * change + (after - change) * c)
                s = s + we * z
                keep(W, j, 0, sums(lanes, W, j, 0) + we * y)
            keep(W, i, 0, sums(lanes, W, i, 0) + s)
        return 0.5 * value, remainder

    def whole(X: Any, Y: Any, chunks: Any, cols: Any, target: Any, weight: Any, G: Any) -> Any:
        return over_records(lambda *rows: run(*rows, cols, target, weight), chunks, X, Y, STEP, G)

    return whole


@cache
def line_coefficients(rank: int, difference: bool, weighted: bool) -> Callable[..., tuple[float, float, float, float]]:
    """Return the pass ``(X, D, chunks, cols, target, weight, C) -> c1, c2, c3, c4``."""
    lanes = (0.0,) * rank
    second, third, place, direction = rank, 2 * rank, 3 * rank, 4 * rank

    @njit(**FLAGS)
    def run(W: Any, far: bool, start: Any, first: int, last: int, cols: Any, target: Any, weight: Any) -> Any:
        c1, c2, c3, c4 = 0.0, 0.0, 0.0, 0.0
        for i in range(first, last):
            x, d = entries(lanes, W, i, place), entries(lanes, W, i, direction)
            s1, s2, s3 = nothing(lanes), nothing(lanes), nothing(lanes)
            for p in range(np.uint64(start[i]), np.uint64(start[i + 1])):
                if far:
                    ask_ahead(W, cols, p)
                j = np.int64(cols[p])
                e = -np.float64(target[p])
                u, v = entries(lanes, W, j, place), entries(lanes, W, j, direction)
                if difference:
                    u, v = x - u, d - v
                    e += dot(u, u)
                    b, c = 2 * dot(u, v), dot(v, v)
                else:
                    e += dot(x, u)
                    b, c = dot(x, v) + dot(d, u), dot(d, v)
                w = weight[p] if weighted else 1.0
                c1 += w * e * b
                c2 += w * (0.5 * b * b + e * c)
                c3 += w * b * c
                c4 += 0.5 * w * c * c
                if difference:
                    w *= 2
                e, b, c = w * e, w * b, w * c
                g1, g2, g3 = e * v + b * u, b * v + c * u, c * v
                s1, s2, s3 = s1 + g1, s2 + g2, s3 + g3
                # all are read before one is written: the spare lanes of one are the first of the next
                h1, h2, h3 = sums(lanes, W, j, 0), sums(lanes, W, j, second), sums(lanes, W, j, third)
                if difference:
                    h1, h2, h3 = h1 - g1, h2 - g2, h3 - g3
                else:
                    h1, h2, h3 = h1 + (e * d + b * x), h2 + (b * d + c * x), h3 + c * d
                keep(W, j, 0, h1)
                keep(W, j, second, h2)
                keep(W, j, third, h3)
            h1, h2, h3 = sums(lanes, W, i, 0), sums(lanes, W, i, second), sums(lanes, W, i, third)
            keep(W, i, 0, h1 + s1)
            keep(W, i, second, h2 + s2)
            keep(W, i, third, h3 + s3)
        return c1, c2, c3, c4

    def whole(X: Any, D: Any, chunks: Any, cols: Any, target: Any, weight: Any, C: Any) -> Any:
        return over_records(lambda *rows: run(*rows, cols, target, weight), chunks, X, D, BOTH, C)

    return whole


@cache
def hessian_product(rank: int, difference: bool, weighted: bool) -> Callable[..., None]:
    """Return the pass ``(X, D, chunks, cols, target, weight, H)``, which fills H with ∇²f(X)[D]."""
    lanes = (0.0,) * rank

    @njit(**FLAGS)
    def run(W: Any, far: bool, start: Any, first: int, last: int, cols: Any, target: Any, weight: Any) -> Any:
        for i in range(first, last):
            x, d, s = entries(lanes, W, i, rank), entries(lanes, W, i, 2 * rank), nothing(lanes)
            for p in range(np.uint64(start[i]), np.uint64(start[i + 1])):
                if far:
                    ask_ahead(W, cols, p)
                j = np.int64(cols[p])
                e = -np.float64(target[p])
                u, v = entries(lanes, W, j, rank), entries(lanes, W, j, 2 * rank)
                if difference:
                    u, v = x - u, d - v
                    e += dot(u, u)
                    c = 2 * dot(u, v)
                else:
                    e += dot(x, u)
                    c = dot(x, v) + dot(d, u)
                w = weight[p] if weighted else 1.0
                if difference:
                    w *= 2
                e, c = w * e, w * c
                g = e * v + c * u
                s = s + g
                if difference:
                    keep(W, j, 0, sums(lanes, W, j, 0) - g)
                else:
                    keep(W, j, 0, sums(lanes, W, j, 0) + (e * d + c * x))
            keep(W, i, 0, sums(lanes, W, i, 0) + s)

    def whole(X: Any, D: Any, chunks: Any, cols: Any, target: Any, weight: Any, H: Any) -> Any:
        return over_records(lambda *rows: run(*rows, cols, target, weight), chunks, X, D, BOTH, H)

    return whole
