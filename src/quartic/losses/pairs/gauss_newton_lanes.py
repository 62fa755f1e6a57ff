"""The passes of `quartic.losses.pairs.gauss_newton` for small ranks: points in records, vectors in registers.

Letters as in `quartic.losses.pairs.pair_lanes`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from quartic.compiled.flags import FLAGS
from quartic.losses.pairs.lanes import dot, entries, keep, nothing, square, sums
from quartic.losses.pairs.records import ALONE, BOTH, ask_ahead, over_records


@cache
def linearize(rank: int, difference: bool, weighted: bool) -> Callable[..., float]:
    """Return the pass ``(X, chunks, cols, target, weight, G, B) -> f(X)``: G becomes ∇f(X), B the row blocks."""
    size = rank * (rank + 1) // 2
    lanes, corners, place = (0.0,) * rank, (0.0,) * size, rank + size

    @njit(**FLAGS)
    def run(W: Any, far: bool, start: Any, first: int, last: int, cols: Any, target: Any, weight: Any) -> Any:
        value = 0.0
        for i in range(first, last):
            x, s, S = entries(lanes, W, i, place), nothing(lanes), nothing(corners)
            xx = square(x)
            for p in range(np.uint64(start[i]), np.uint64(start[i + 1])):
                if far:
                    ask_ahead(W, cols, p)
                j = np.int64(cols[p])
                e = -np.float64(target[p])
                u = entries(lanes, W, j, place)
                if difference:
                    u = x - u
                    e += dot(u, u)
                else:
                    e += dot(x, u)
                w = weight[p] if weighted else 1.0
                value += w * e * e
                we, ww = w * e, np.float64(w)
                if difference:
                    we, ww = 2 * we, 4 * ww
                elif i == j:
                    ww *= 2  # the two halves of a diagonal entry's gradient fall into the same block
                uu = ww * square(u)
                s, S = s + we * u, S + uu
                # both are read before one is written: the spare lanes of one are the first of the next
                g, h = sums(lanes, W, j, 0), sums(corners, W, j, rank)
                if difference:
                    g, h = g - we * u, h + uu
                else:
                    g, h = g + we * x, h + ww * xx
                keep(W, j, 0, g)
                keep(W, j, rank, h)
            g, h = sums(lanes, W, i, 0), sums(corners, W, i, rank)
            keep(W, i, 0, g + s)
            keep(W, i, rank, h + S)
        return 0.5 * value

    def whole(X: Any, chunks: Any, cols: Any, target: Any, weight: Any, G: Any, B: Any) -> Any:
        return over_records(lambda *rows: run(*rows, cols, target, weight), chunks, X, X, ALONE, G, B)

    return whole


@cache
def product(rank: int, difference: bool, weighted: bool) -> Callable[..., None]:
    """Return the pass ``(X, V, chunks, cols, weight, H)``, which fills H with JᵀWJ V."""
    lanes = (0.0,) * rank

    @njit(**FLAGS)
    def run(W: Any, far: bool, start: Any, first: int, last: int, cols: Any, weight: Any) -> None:
        for i in range(first, last):
            x, d, s = entries(lanes, W, i, rank), entries(lanes, W, i, 2 * rank), nothing(lanes)
            for p in range(np.uint64(start[i]), np.uint64(start[i + 1])):
                if far:
                    ask_ahead(W, cols, p)
                j = np.int64(cols[p])
                u, v = entries(lanes, W, j, rank), entries(lanes, W, j, 2 * rank)
                if difference:
                    u = x - u
                    c = 4 * dot(u, d - v)
                else:
                    c = dot(u, d) + dot(x, v)
                if weighted:
                    c *= weight[p]
                s = s + c * u
                if difference:
                    keep(W, j, 0, sums(lanes, W, j, 0) - c * u)
                else:
                    keep(W, j, 0, sums(lanes, W, j, 0) + c * x)
            keep(W, i, 0, sums(lanes, W, i, 0) + s)

    def whole(X: Any, V: Any, chunks: Any, cols: Any, weight: Any, H: Any) -> Any:
        return over_records(lambda *rows: run(*rows, cols, weight), chunks, X, V, BOTH, H)

    return whole


@cache
def quartic(rank: int, difference: bool, weighted: bool) -> Callable[..., tuple[float, float, float, float]]:
    """Return the pass ``(X, D, chunks, cols, target, weight) -> c1, c2, c3, c4``: the quartic of f on X + tD alone."""
    lanes = (0.0,) * rank

    @njit(**FLAGS)
    def run(W: Any, far: bool, start: Any, first: int, last: int, cols: Any, target: Any, weight: Any) -> Any:
        c1, c2, c3, c4 = 0.0, 0.0, 0.0, 0.0
        for i in range(first, last):
            x, d = entries(lanes, W, i, 0), entries(lanes, W, i, rank)
            for p in range(np.uint64(start[i]), np.uint64(start[i + 1])):
                if far:
                    ask_ahead(W, cols, p)
                j = np.int64(cols[p])
                e = -np.float64(target[p])
                u, v = entries(lanes, W, j, 0), entries(lanes, W, j, rank)
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
                c4 += w * c * c
        return c1, c2, c3, 0.5 * c4

    def whole(X: Any, D: Any, chunks: Any, cols: Any, target: Any, weight: Any) -> Any:
        return over_records(lambda *rows: run(*rows, cols, target, weight), chunks, X, D, BOTH)

    return whole
