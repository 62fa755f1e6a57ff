"""The passes over X of a symmetric factorisation, each fused to read its arrays once.

An iteration on ½‖M − XXᵀ‖² does four things besides the product with M: it extrapolates, takes a Bregman step, adds up
what decides whether the step is accepted, and measures stationarity. A pass loads a block of rows, multiplies it by
r × r matrices, clips, and adds to sums, before it goes on to the next. Nothing is written that is not used afterwards:
gradients, differences and extrapolated points (see `Origin`) exist only block by block.

A search along a line X + tD takes the product MD, XᵀD and DᵀD, and one pass that makes the new point with its gradient,
block of rows by block; (X + tD)ᵀ(X + tD) follows from the small matrices.

Sums are kept for each piece of the rows, in float64, and added in order: the same bits on any number of threads. No
loop both writes and sums: before such a loop the compiler looks how far apart the arrays are, and goes another way,
with another order of summation, where they lie close together.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import Array
from quartic.arrays.space import HOST, LINE, Fresh, mostly_zeros
from quartic.arrays.threads import spread
from quartic.compiled.flags import FLAGS, INNER, njit
from quartic.compiled.vectors import WIDEST, multiply_tile, prefetch, sparse_row
from quartic.losses.factor.passes import Origin, StepSums

# Rows of a block: with 40 columns in double precision 20 kB, beside the small matrix, stay in the first cache.
BLOCK = 64
# X is cut into so many pieces, each of whole blocks; into more, of so many rows, where it is long, for many threads.
_PIECES, _MOST_PIECES, _LONG = 16, 128, 4096
# A direction is measured beside X by about so many rows, and is not stretched by more than this.
_SAMPLE, _STRETCH = 1024, 1e12
# Of so few columns, or entries, whole Gram matrices of a direction take less time than halves of them.
_FEW_COLUMNS, _FEW_ENTRIES = 12, 25_000
# A matrix is cut into at most so many pieces: enough to share among threads, few enough to cost nothing.
_SPARSE_PIECES = 256
# An X of more bytes lies beyond the near caches: its rows are asked for so many entries before they are needed.
_FAR, _AHEAD = 1 << 23, 48
# Every rank has a pass of its own, compiled when first used; beyond this they would grow too long.
WIDEST_RANK = 256


@cache
def _rows_of_a_piece(n: int, rank: int) -> int:
    """Return how many rows a piece has: as many as X has columns at least, or the sums would outgrow X."""
    return BLOCK * max(1, -(-max(min(-(-n // _PIECES), _LONG), -(-n // _MOST_PIECES), rank) // BLOCK))


def _n_pieces(X: Array) -> int:
    return -(-len(X) // _rows_of_a_piece(*X.shape))


def _grams(X: Array, count: int) -> Array:
    """Return room for the Gram matrices of the pieces."""
    return np.zeros((count, _n_pieces(X), *(_padded(X.shape[1]),) * 2))


def _padded(rank: int) -> int:
    """Return the least multiple of four that is not below the rank."""
    return -(-rank // 4) * 4


def _sum_of_grams(parts: Array, rank: int) -> Array:
    """Return the sum of the pieces, whose upper triangles count, as a whole symmetric matrix."""
    S = np.empty((rank, rank))
    _add_up(parts, S)
    return S


def _spread(work: Any, X: Array, multiplications: float) -> None:
    rows = _rows_of_a_piece(*X.shape)
    spread(lambda first, last: work(rows, first, last), _n_pieces(X), multiplications * X.size)


# -- the passes -----------------------------------------------------------------------------------------------------


def extrapolated(origin: Origin, arrays: Fresh) -> tuple[Origin, Array | None]:
    """Return the origin as it is, and nothing of its Gram matrix: here it pays not to form it."""
    return origin, None


def formed(origin: Origin, arrays: Fresh) -> tuple[Array, Array]:
    """Return Y and MY."""
    X, MX, Z, MZ, t = origin
    Y, MY = arrays.like(X), arrays.like(X)
    _form(X.ravel(), Z.ravel(), t, Y.ravel())
    _form(MX.ravel(), MZ.ravel(), t, MY.ravel())
    return Y, MY


def gram_at(origin: Origin) -> Array:
    """Return YᵀY in float64; an extrapolated point's, which a trial makes ahead as a rule, with the same bits."""
    X, MX, Z, MZ, t = origin
    if t == 0:
        return HOST.gram(X)
    S = step_sums(X, MX, Origin.at(Z, MZ), t, False).ahead
    assert S is not None
    return S


def stepped(
    origin: Origin, S: Array, alpha: float, sigma: float, b: float, shift: float, clip: bool, W: Array
) -> float:
    """Fill W = (α·tr S + σ)Y + bG − shift, cut off below zero if ``clip``; return ‖W‖²."""
    X, start = origin.X, tuple(origin)
    wide = _small(S, alpha * float(S.trace()) + sigma, 2 * b, X)
    parts = np.zeros(_n_pieces(X))
    _spread(lambda *piece: _stepped(start, wide, -2 * b, shift, clip, W, parts, *piece), X, 2 * len(S) + 9)
    return float(parts.sum())


def step_sums(X: Array, MX: Array, origin: Origin, ahead: float | None, curved: bool) -> StepSums:
    """Return the sums of the step from the origin to X; the Gram matrix ahead too, since all is in the cache now."""
    rank, looks, start = X.shape[1], ahead is not None, tuple(origin)
    grams, steps, following = made = tuple(_grams(X, 3))
    sums = np.zeros((len(grams), 6))
    wanted = curved, looks, 0.0 if ahead is None else ahead
    _spread(lambda *piece: _step_sums(X, MX, start, *wanted, made, sums, *piece), X, (1 + curved + looks) * rank + 12)
    bend, along, length, fit, pull, feasible = sums.sum(axis=0).tolist()
    return StepSums(
        _sum_of_grams(grams, rank),
        _sum_of_grams(steps, rank) if curved else None,
        _sum_of_grams(following, rank) if looks else None,
        bend, along, length, fit, pull, feasible == X.size,
    )  # fmt: skip


def projected_norm(X: Array, S: Array, MX: Array) -> float:
    """Return ‖∇ᴾ‖² of the gradient G = 2XS − 2MX: G where X > 0, min(G, 0) where X = 0; G itself is not kept."""
    wide = _small(S, 0.0, 2.0, X)
    parts = np.zeros(_n_pieces(X))
    _spread(lambda *piece: _projected_norm(X, wide, MX, parts, *piece), X, 2 * len(S) + 3)
    return float(parts.sum())


def line_sums(X: Array, D: Array, S: Array, G: Array, MD: Array) -> tuple[Array, Array, float, float]:
    """Return U = XᵀD + DᵀX, C = DᵀD, ⟨G, D⟩ and ⟨MD, D⟩, from two Gram matrices of which half is made.

    U follows from that of X + νD, which is S + νU + ν²C, and loses nothing where νD is about as long as X. With X as
    the origin, D − (D − X)/(1 + ν) is (X + νD)/(1 + ν). A direction much longer than X, which is rare, takes XᵀD; so do
    few numbers in double precision, which BLAS multiplies sooner; and where most entries are zero they are left out.
    """
    few = X.dtype == np.float64 and (X.shape[1] < _FEW_COLUMNS or X.size < _FEW_ENTRIES)
    if few or mostly_zeros(X, D):
        T = HOST.gram(X, D)
        return T + T.T, HOST.gram(D), HOST.inner(G, D), HOST.inner(MD, D)
    some = D[:: max(1, len(D) // _SAMPLE)]
    length = HOST.inner(some, some) * len(D) / len(some)
    nu = min(math.sqrt(max(S.trace(), 0.0) / length), _STRETCH) if length > 0 else 1.0  # S may be round-off
    sums = step_sums(D, MD, Origin.at(X, G), -1 / (1 + nu) if nu > 0.1 else None, False)
    if sums.ahead is None:
        T = HOST.gram(X, D)
        U = T + T.T
    else:
        U = ((1 + nu) ** 2 * sums.ahead - S) / nu - nu * sums.gram
    return U, sums.gram, sums.pull, sums.fit


def line_point(
    X: Array, D: Array, MX: Array, MD: Array, t: float, clip: bool, S: Array, new: Array, Mnew: Array, G: Array
) -> tuple[float, float, bool]:
    """Fill X + tD, MX + tMD, and G = 2(X + tD)S − 2(MX + tMD); return ⟨MX, X⟩ and ‖∇ᴾ‖² there, and whether X ≥ 0."""
    A = _small(S, 0.0, 2.0, X)
    sums = np.zeros((_n_pieces(X), 3))
    least = 4 * float(np.finfo(X.dtype).eps)
    _spread(lambda *piece: _line_point(X, D, MX, MD, t, clip, least, A, new, Mnew, G, sums, *piece), X, len(A) + 8)
    fit, projected, feasible = sums.sum(axis=0).tolist()
    return fit, projected, feasible == X.size


# -- blocks of rows: as fast as BLAS on whole arrays, and in the middle of a pass -------------------------------------

# Four rows of a result are made at a time, in tiles of columns that fit the registers, all of about the same width, a
# multiple of four. So a small matrix has its columns padded to such a multiple, and a block has room behind its last
# row: what a tile reads or writes beyond the end of a row is the beginning of the next, and counts for nothing.


@njit(**INNER)
def block(X: Any) -> Any:
    """Return scratch for a block of rows of X, with room behind."""
    return np.zeros((BLOCK + 36, X.shape[1]), X.dtype)


@njit(**INNER)
def _next_width(columns: int) -> int:
    """Return the width of the last of the tiles that so many columns are cut into evenly."""
    tiles = -(-columns // WIDEST)
    return columns - (columns // 4) * (tiles - 1) // tiles * 4


@njit(**INNER)
def block_times_small(rows: int, Y: Any, A: Any, W: Any) -> None:
    """W = YA for the first rows of a block; A is small and padded."""
    for i in range(0, rows, 4):
        # from the right: what a tile writes behind its row is overwritten by the tiles of the next
        end = A.shape[1]
        while end > 0:
            width = _next_width(end)
            end -= width
            multiply_tile((), Y, A, W, Y.shape[1], i, end, width)


@njit(**INNER)
def add_upper_gram(rows: int, Y: Any, S: Any) -> None:
    """S += YᵀY for the first rows of a block; what counts is on and above the diagonal, within the columns of Y."""
    for row in range(0, S.shape[0], 4):
        end = S.shape[1]
        while end > row:
            width = _next_width(end - row)
            end -= width
            multiply_tile((0.0,), Y, Y, S, rows, row, end, width)


# -- compiled ---------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, error_model="numpy")  # rounded twice, as NumPy would, whatever the machine
def _small(S: Any, a: float, b: float, X: Any) -> Any:
    """Return aI + bS in the type of X, padded with columns of zeros."""
    rank = len(S)
    A = np.zeros((rank, -(-rank // 4) * 4), X.dtype)
    for j in range(rank):
        for k in range(rank):
            entry = b * S[j, k]
            A[j, k] = entry + a if j == k else entry
    return A


@njit(**FLAGS)
def _add_up(parts: Any, S: Any) -> None:
    for j in range(len(S)):
        for k in range(j, len(S)):
            total = 0.0
            for piece in range(len(parts)):
                total += parts[piece, j, k]
            S[j, k] = S[k, j] = total


@njit(**FLAGS)
def _form(x: Any, z: Any, t: float, y: Any) -> None:
    """Y = x + t(x − z), of flat arrays; y may be longer."""
    s = x.dtype.type(t)
    if t == 0:
        for k in range(x.size):
            y[k] = x[k]
    else:
        for k in range(x.size):
            y[k] = x[k] + s * (x[k] - z[k])


@njit(**FLAGS)
def _stepped(
    origin: Any, A: Any, factor: float, offset: float, clip: bool, W: Any, parts: Any, rows: int, first: int, last: int
) -> None:
    X, MX, Z, MZ, t = origin
    kind, rank = X.dtype.type, X.shape[1]
    s, u, shift, zero = kind(factor), kind(t), kind(offset), kind(0)
    Y, V = block(X), block(X)
    y, v = Y.ravel(), V.ravel()
    for piece in range(first, last):
        end = min((piece + 1) * rows, X.shape[0])
        total = 0.0
        for i in range(piece * rows, end, BLOCK):
            stop = min(i + BLOCK, end)
            here = slice(i * rank, stop * rank)
            _form(X.ravel()[here], Z.ravel()[here], t, y)
            block_times_small(stop - i, Y, A, V)
            mx, mz, w = MX.ravel()[here], MZ.ravel()[here], W.ravel()[here]
            for k in range(w.size):
                value = v[k] + (s * (mx[k] + u * (mx[k] - mz[k])) - shift)
                if clip:
                    value = max(value, zero)
                w[k] = value
            for k in range(w.size):
                total += np.float64(w[k]) * np.float64(w[k])
        parts[piece] = total


@njit(**FLAGS)
def _step_sums(
    X: Any, MX: Any, origin: Any, curved: bool, looks: bool, ahead: float, made: Any, sums: Any, rows: int, first: int,
    last: int,
) -> None:  # fmt: skip
    (B, MB, Z, MZ, t), (grams, steps, following) = origin, made
    u, rank = X.dtype.type(t), X.shape[1]
    C, D = block(X), block(X)
    c, d = C.ravel(), D.ravel()
    for piece in range(first, last):
        end = min((piece + 1) * rows, X.shape[0])
        bend, along, length, fit, pull = 0.0, 0.0, 0.0, 0.0, 0.0
        feasible = 0
        for i in range(piece * rows, end, BLOCK):
            stop = min(i + BLOCK, end)
            here = slice(i * rank, stop * rank)
            x, b, z = X.ravel()[here], B.ravel()[here], Z.ravel()[here]
            mx, mb, mz = MX.ravel()[here], MB.ravel()[here], MZ.ravel()[here]
            for k in range(x.size):
                c[k] = x[k]
                d[k] = x[k] - (b[k] + u * (b[k] - z[k]))
            for k in range(x.size):
                y = b[k] + u * (b[k] - z[k])
                my = mb[k] + u * (mb[k] - mz[k])
                step = x[k] - y
                bend += (np.float64(mx[k]) - np.float64(my)) * np.float64(step)
                along += np.float64(y) * np.float64(step)
                length += np.float64(step) * np.float64(step)
                fit += np.float64(mx[k]) * np.float64(x[k])
                pull += np.float64(my) * np.float64(x[k])
            for k in range(x.size):
                feasible += x[k] >= 0  # not where it is NaN
            add_upper_gram(stop - i, C, grams[piece])
            if curved:
                add_upper_gram(stop - i, D, steps[piece])
            if looks:
                _form(x, b, ahead, c)
                add_upper_gram(stop - i, C, following[piece])
        sums[piece, 0], sums[piece, 1], sums[piece, 2], sums[piece, 3] = bend, along, length, fit
        sums[piece, 4], sums[piece, 5] = pull, feasible


@njit(**FLAGS)
def _projected_norm(X: Any, S: Any, MX: Any, parts: Any, rows: int, first: int, last: int) -> None:
    rank, Y, G = X.shape[1], block(X), block(X)
    y, g = Y.ravel(), G.ravel()
    for piece in range(first, last):
        end = min((piece + 1) * rows, X.shape[0])
        total = 0.0
        for i in range(piece * rows, end, BLOCK):
            stop = min(i + BLOCK, end)
            here = slice(i * rank, stop * rank)
            x, mx = X.ravel()[here], MX.ravel()[here]
            _form(x, x, 0.0, y)
            block_times_small(stop - i, Y, S, G)
            for k in range(x.size):
                v = np.float64(g[k]) - 2.0 * np.float64(mx[k])
                if x[k] <= 0:
                    v = min(v, np.float64(0))
                total += v * v
        parts[piece] = total


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


# -- a sparse matrix times a tall one ---------------------------------------------------------------------------------


def row_pieces(start: Any) -> NDArray[np.int64]:
    """Return bounds of row ranges with about the same number of entries each, from where the rows start."""
    n = len(start) - 1
    work = np.asarray(start, dtype=np.int64) + np.arange(n + 1)  # an empty row costs something too
    wanted = np.linspace(0, work[-1], min(_SPARSE_PIECES, max(1, int(work[-1]) // 512)) + 1)
    return np.unique(np.concatenate([[0], np.searchsorted(work, wanted[1:-1]), [n]])).astype(np.int64)


@cache
def sparse_pass(rank: int, line: int) -> Any:
    """Return the compiled product of the rows first ≤ i < last with an X of so many columns.

    If X lies far, ``line`` is how many numbers a cache line has; 0 if it is near.
    """
    lanes = (0.0,) * rank

    @njit(**FLAGS)
    def run(start: Any, cols: Any, values: Any, X: Any, Y: Any, first: int, last: int) -> None:
        for i in range(first, last):
            if line:
                for p in range(start[i] + _AHEAD, min(start[i + 1] + _AHEAD, len(cols))):
                    for k in range(0, rank, line):
                        prefetch(X, cols[p], k)
            sparse_row(lanes, cols, values, X, Y, i, start[i], start[i + 1])

    return run


def sparse_product(start: Any, cols: Any, values: Array, bounds: NDArray[np.int64], X: Array, out: Array) -> None:
    """Write M X into ``out``, M in compressed rows (``start``, ``cols``, ``values``), cut at ``bounds``.

    X and ``out`` are C-ordered, of one type, at most `WIDEST_RANK` columns wide. Every entry is summed in the order
    the row is stored in: the answer is the same on any number of threads.
    """
    run = sparse_pass(X.shape[1], LINE // X.itemsize if X.nbytes > _FAR else 0)
    rows = bounds.tolist()

    def work(first: int, last: int) -> None:
        run(start, cols, values, X, out, rows[first], rows[last])

    spread(work, len(rows) - 1, float(len(cols)) * X.shape[1])
