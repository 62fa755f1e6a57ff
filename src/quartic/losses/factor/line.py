"""The passes over X of a search along a line of ½‖M − XXᵀ‖²: what the quartic needs, and the point on it.

A line X + tD takes the product MD and two passes. Besides sums, the quartic needs DᵀD and U = XᵀD + DᵀX. The latter
comes from the symmetric (X + τD)ᵀ(X + τD) = XᵀX + τU + τ²DᵀD, half the work of XᵀD; with τ = ‖X‖/‖D‖ its parts are of
one size, and nothing cancels. The second pass makes the new point with its gradient, block of rows by block;
(X + tD)ᵀ(X + tD) follows from the small matrices.

Sums are kept for each piece of the rows, in float64, and added in order: the same bits on any number of threads.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from quartic.arrays import Array
from quartic.arrays.threads import spread
from quartic.compiled.flags import FLAGS
from quartic.compiled.small import BLOCK, add_upper_gram, block, block_times_small, padded, padded_columns

# X is cut into at most so many pieces, each of whole blocks.
_PIECES = 16


def line_sums(X: Array, S: Array, D: Array, MD: Array, G: Array) -> tuple[Array, Array, float, float]:
    """Return U = XᵀD + DᵀX, C = DᵀD, ⟨MD, D⟩ and ⟨G, D⟩, where S = XᵀX."""
    tau = _balance(float(S.trace()), float(np.vdot(D, D)))
    rank, pieces = X.shape[1], _n_pieces(X)
    mixed, grams = np.zeros((2, pieces, padded(rank), padded(rank)))
    sums = np.zeros((pieces, 2))
    _spread(lambda *piece: _line_sums(X, D, MD, G, tau, mixed, grams, sums, *piece), X, rank + 4)
    U, C = np.empty((rank, rank)), np.empty((rank, rank))
    _add_up(mixed, grams, S, tau, U, C)
    bend, slope = sums.sum(axis=0).tolist()
    return U, C, bend, slope


def gram_on_line(S: Array, U: Array, C: Array, t: float) -> Array:
    """Return (X + tD)ᵀ(X + tD) = S + tU + t²C."""
    return S + t * (U + t * C)


def line_point(
    X: Array, D: Array, MX: Array, MD: Array, t: float, clip: bool, A: Array, new: Array, Mnew: Array, G: Array
) -> tuple[float, float, bool]:
    """Fill X + tD, MX + tMD, and G = (X + tD)A − 2(MX + tMD); with ``clip`` what is zero but for round-off is zero.

    Returns ⟨MX, X⟩ and ‖∇ᴾ‖² there (G where X > 0, min(G, 0) elsewhere), and whether X ≥ 0.
    """
    A = padded_columns(A, X.dtype)
    sums = np.zeros((_n_pieces(X), 3))
    least = 4 * float(np.finfo(X.dtype).eps)
    _spread(lambda *piece: _line_point(X, D, MX, MD, t, clip, least, A, new, Mnew, G, sums, *piece), X, len(A) + 8)
    fit, projected, feasible = sums.sum(axis=0).tolist()
    return fit, projected, feasible == X.size


def _balance(x: float, d: float) -> float:
    """Return about √(x/d) as a power of two; one where that is no number."""
    if not (0 < x < math.inf and 0 < d < math.inf):
        return 1.0
    return math.ldexp(1.0, (math.frexp(x)[1] - math.frexp(d)[1]) // 2)


def _rows_of_a_piece(n: int, rank: int) -> int:
    """Return how many rows a piece has: as many as X has columns at least, or the sums would outgrow X."""
    return BLOCK * max(1, -(-max(-(-n // _PIECES), rank) // BLOCK))


def _n_pieces(X: Array) -> int:
    return -(-len(X) // _rows_of_a_piece(*X.shape))


def _spread(work: Any, X: Array, multiplications: float) -> None:
    rows = _rows_of_a_piece(*X.shape)
    spread(lambda first, last: work(rows, first, last), _n_pieces(X), multiplications * X.size)


@njit(**FLAGS)
def _add_up(mixed: Any, grams: Any, S: Any, tau: float, U: Any, C: Any) -> None:
    """Add up the pieces, whose upper triangles count, and take U out of what it is mixed with."""
    for j in range(len(S)):
        for k in range(j, len(S)):
            both, square = 0.0, 0.0
            for piece in range(len(grams)):
                both += mixed[piece, j, k]
                square += grams[piece, j, k]
            C[j, k] = C[k, j] = square
            U[j, k] = U[k, j] = (both - S[j, k] - tau * tau * square) / tau


@njit(**FLAGS)
def _line_sums(
    X: Any, D: Any, MD: Any, G: Any, tau: float, mixed: Any, grams: Any, sums: Any, rows: int, first: int, last: int
) -> None:
    rank, B = X.shape[1], block(X)
    Z = B.astype(np.float64)  # in double precision whatever X: the sum of two is to be as good as each
    b, z = B.ravel(), Z.ravel()
    for piece in range(first, last):
        end = min((piece + 1) * rows, X.shape[0])
        bend, slope = 0.0, 0.0
        for i in range(piece * rows, end, BLOCK):
            stop = min(i + BLOCK, end)
            here = slice(i * rank, stop * rank)
            x, d, md, g = X.ravel()[here], D.ravel()[here], MD.ravel()[here], G.ravel()[here]
            for k in range(x.size):
                z[k] = np.float64(x[k]) + tau * np.float64(d[k])
            for k in range(x.size):
                b[k] = d[k]
            for k in range(x.size):
                bend += np.float64(md[k]) * np.float64(b[k])
                slope += np.float64(g[k]) * np.float64(b[k])
            add_upper_gram(stop - i, B, grams[piece])
            add_upper_gram(stop - i, Z, mixed[piece])
        sums[piece, 0], sums[piece, 1] = bend, slope


@njit(**FLAGS)
def _line_point(
    X: Any, D: Any, MX: Any, MD: Any, step: float, clip: bool, least: float, A: Any, new: Any, Mnew: Any, G: Any,
    sums: Any, rows: int, first: int, last: int,
) -> None:  # fmt: skip
    kind, rank, Y, W = X.dtype.type, X.shape[1], block(X), block(X)
    t, two, zero, low = kind(step), kind(2), kind(0), kind(least)
    y, w = Y.ravel(), W.ravel()
    for piece in range(first, last):
        end = min((piece + 1) * rows, X.shape[0])
        fit, projected, feasible = 0.0, 0.0, 0
        for i in range(piece * rows, end, BLOCK):
            stop = min(i + BLOCK, end)
            here = slice(i * rank, stop * rank)
            x, d, mx, md = X.ravel()[here], D.ravel()[here], MX.ravel()[here], MD.ravel()[here]
            kept, product, g = new.ravel()[here], Mnew.ravel()[here], G.ravel()[here]
            # loops over few arrays each: with more the compiler does not see that they are apart
            for k in range(x.size):
                v = x[k] + t * d[k]
                y[k] = zero if clip and v <= low * x[k] else v
            for k in range(x.size):
                kept[k] = y[k]
            block_times_small(stop - i, Y, A, W)
            for k in range(x.size):
                product[k] = mx[k] + t * md[k]
            for k in range(x.size):
                g[k] = w[k] - two * product[k]
            for k in range(x.size):
                v = np.float64(g[k])
                v = v if y[k] > 0 else min(v, 0.0)
                projected += v * v
                fit += np.float64(product[k]) * np.float64(y[k])
            for k in range(x.size):
                feasible += y[k] >= 0  # not where it is NaN
        sums[piece, 0], sums[piece, 1], sums[piece, 2] = fit, projected, feasible
