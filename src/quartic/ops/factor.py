"""The passes over X of a symmetric factorisation, each fused to read its arrays once.

An iteration on ½‖M − XXᵀ‖² does four things besides the product with M: it extrapolates, takes a Bregman step, adds up
what decides whether the step is accepted, and measures stationarity. Each is one pass here: a block of rows is loaded,
multiplied by r × r matrices, clipped, and added to the sums, before the next one is. Nothing is written that is not
used afterwards; gradients and differences exist only block by block.

Sums are kept for each piece of the rows, in float64, and added in order: the same bits on any number of threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from quartic.arrays import Array
from quartic.ops.flags import FLAGS
from quartic.ops.small import BLOCK, add_upper_gram, block_times_small
from quartic.ops.threads import spread

# X is cut into at most so many pieces, each of whole blocks.
_PIECES = 16


def _rows_of_a_piece(n: int, rank: int) -> int:
    """Return how many rows a piece has: as many as X has columns at least, or the sums would outgrow X."""
    return BLOCK * max(1, -(-max(-(-n // _PIECES), rank) // BLOCK))


def _grams(n_pieces: int, rank: int) -> Array:
    return np.zeros((n_pieces, rank, rank))


def _sum_of_grams(parts: Array) -> Array:
    """Return the sum of the pieces, whose upper triangles count, as a whole symmetric matrix."""
    S = np.empty(parts.shape[1:])
    _add_up(parts, S)
    return S


def _spread(work: Any, X: Array, multiplications: float) -> None:
    rows = _rows_of_a_piece(*X.shape)
    spread(lambda first, last: work(rows, first, last), _n_pieces(X), multiplications * X.size)


def _n_pieces(X: Array) -> int:
    return -(-len(X) // _rows_of_a_piece(*X.shape))


# -- the passes -----------------------------------------------------------------------------------------------------


def gram_of(X: Array) -> Array:
    """Return XᵀX in float64."""
    rank = X.shape[1]
    parts = _grams(_n_pieces(X), rank)
    _spread(lambda rows, first, last: _gram(X, parts, rows, first, last), X, rank)
    return _sum_of_grams(parts)


def extrapolated(X: Array, Z: Array, MX: Array, MZ: Array, t: float, Y: Array, MY: Array) -> Array:
    """Fill Y = X + t(X − Z) and MY = MX + t(MX − MZ); return YᵀY."""
    rank = X.shape[1]
    parts = _grams(_n_pieces(X), rank)
    _spread(
        lambda rows, first, last: _extrapolated(X, Z, MX, MZ, t, Y, MY, parts, rows, first, last),
        X,
        rank + 6,
    )
    return _sum_of_grams(parts)


def stepped(X: Array, A: Array, s: float, MX: Array, shift: float, clip: bool, W: Array) -> float:
    """Fill W = XA + s·MX − shift, cut off below zero if ``clip``; return ‖W‖²."""
    A = np.ascontiguousarray(A, dtype=X.dtype)
    parts = np.zeros(_n_pieces(X))
    _spread(
        lambda rows, first, last: _stepped(X, A, s, MX, shift, clip, W, parts, rows, first, last),
        X,
        2 * len(A) + 3,
    )
    return float(parts.sum())


def step_sums(X: Array, Y: Array, MX: Array, MY: Array) -> tuple[Array, Array, tuple[float, float, float, float], bool]:
    """Return of the step D = X − Y, MD = MX − MY: XᵀX, DᵀD, the sums ⟨MD, D⟩, ⟨Y, D⟩, ‖D‖², ⟨MX, X⟩; whether X ≥ 0."""
    rank, pieces = X.shape[1], _n_pieces(X)
    grams, steps, sums = _grams(pieces, rank), _grams(pieces, rank), np.zeros((pieces, 5))
    _spread(
        lambda rows, first, last: _step_sums(X, Y, MX, MY, grams, steps, sums, rows, first, last),
        X,
        2 * rank + 6,
    )
    bend, along, length, fit, feasible = sums.sum(axis=0).tolist()
    return _sum_of_grams(grams), _sum_of_grams(steps), (bend, along, length, fit), feasible == X.size


def projected_norm(X: Array, S: Array, MX: Array) -> float:
    """Return ‖∇ᴾ‖² of the gradient G = XS − 2MX: G where X > 0, min(G, 0) where X = 0; G itself is not kept."""
    S = np.ascontiguousarray(S, dtype=X.dtype)
    parts = np.zeros(_n_pieces(X))
    _spread(lambda rows, first, last: _projected_norm(X, S, MX, parts, rows, first, last), X, 2 * len(S) + 3)
    return float(parts.sum())


@njit(**FLAGS)
def _add_up(parts: Any, S: Any) -> None:
    for j in range(len(S)):
        for k in range(j, len(S)):
            total = 0.0
            for piece in range(len(parts)):
                total += parts[piece, j, k]
            S[j, k] = S[k, j] = total


@njit(**FLAGS)
def _gram(X: Any, parts: Any, rows: int, first: int, last: int) -> None:
    for piece in range(first, last):
        end = min((piece + 1) * rows, X.shape[0])
        for i in range(piece * rows, end, BLOCK):
            add_upper_gram(X[i : min(i + BLOCK, end)], parts[piece])


@njit(**FLAGS)
def _extrapolated(
    X: Any, Z: Any, MX: Any, MZ: Any, t: float, Y: Any, MY: Any, parts: Any, rows: int, first: int, last: int
) -> None:
    s = X.dtype.type(t)
    for piece in range(first, last):
        end = min((piece + 1) * rows, X.shape[0])
        for i in range(piece * rows, end, BLOCK):
            stop = min(i + BLOCK, end)
            x, z, y = X[i:stop].ravel(), Z[i:stop].ravel(), Y[i:stop].ravel()
            mx, mz, my = MX[i:stop].ravel(), MZ[i:stop].ravel(), MY[i:stop].ravel()
            for k in range(x.size):
                y[k] = x[k] + s * (x[k] - z[k])
            for k in range(x.size):
                my[k] = mx[k] + s * (mx[k] - mz[k])
            add_upper_gram(Y[i:stop], parts[piece])


@njit(**FLAGS)
def _stepped(
    X: Any,
    A: Any,
    factor: float,
    MX: Any,
    offset: float,
    clip: bool,
    W: Any,
    parts: Any,
    rows: int,
    first: int,
    last: int,
) -> None:
    kind = X.dtype.type
    s, shift, zero = kind(factor), kind(offset), kind(0)
    for piece in range(first, last):
        end = min((piece + 1) * rows, X.shape[0])
        total = 0.0
        for i in range(piece * rows, end, BLOCK):
            stop = min(i + BLOCK, end)
            block_times_small(X[i:stop], A, W[i:stop])
            w, mx = W[i:stop].ravel(), MX[i:stop].ravel()
            for k in range(w.size):
                v = w[k] + (s * mx[k] - shift)
                if clip:
                    v = max(v, zero)
                w[k] = v
                total += np.float64(v) * np.float64(v)
        parts[piece] = total


@njit(**FLAGS)
def _step_sums(
    X: Any, Y: Any, MX: Any, MY: Any, grams: Any, steps: Any, sums: Any, rows: int, first: int, last: int
) -> None:
    D = np.empty((BLOCK, X.shape[1]), X.dtype)
    for piece in range(first, last):
        end = min((piece + 1) * rows, X.shape[0])
        bend, along, length, fit = 0.0, 0.0, 0.0, 0.0
        feasible = 0
        for i in range(piece * rows, end, BLOCK):
            stop = min(i + BLOCK, end)
            x, y, d = X[i:stop].ravel(), Y[i:stop].ravel(), D[: stop - i].ravel()
            mx, my = MX[i:stop].ravel(), MY[i:stop].ravel()
            for k in range(x.size):
                step = x[k] - y[k]
                d[k] = step
                bend += (np.float64(mx[k]) - np.float64(my[k])) * np.float64(step)
                along += np.float64(y[k]) * np.float64(step)
                length += np.float64(step) * np.float64(step)
                fit += np.float64(mx[k]) * np.float64(x[k])
            for k in range(x.size):
                feasible += x[k] >= 0  # not where it is NaN
            add_upper_gram(X[i:stop], grams[piece])
            add_upper_gram(D[: stop - i], steps[piece])
        sums[piece, 0], sums[piece, 1], sums[piece, 2], sums[piece, 3] = bend, along, length, fit
        sums[piece, 4] = feasible


@njit(**FLAGS)
def _projected_norm(X: Any, S: Any, MX: Any, parts: Any, rows: int, first: int, last: int) -> None:
    G = np.empty((BLOCK, X.shape[1]), X.dtype)
    for piece in range(first, last):
        end = min((piece + 1) * rows, X.shape[0])
        total = 0.0
        for i in range(piece * rows, end, BLOCK):
            stop = min(i + BLOCK, end)
            block_times_small(X[i:stop], S, G[: stop - i])
            x, g, mx = X[i:stop].ravel(), G[: stop - i].ravel(), MX[i:stop].ravel()
            for k in range(x.size):
                v = np.float64(g[k]) - 2.0 * np.float64(mx[k])
                if x[k] <= 0:
                    v = min(v, np.float64(0))
                total += v * v
        parts[piece] = total
