"""What a pass over pairs reads and adds to at a point, side by side: one or two cache lines a pair instead of four.

A pass goes through pairs (i, j) row by row, and j is anywhere. What it needs of a point, first its sums, then its place
and what goes with it, is put into one record for the time of the pass; the sums are taken out at the end. Records that
do not stay in the cache are asked for some pairs ahead. Both together keep the time of a pass in proportion to the
number of pairs. (To cut rows and columns into tiles instead is no cure: where n points have d pairs each, a tile of
b × b points finds a row again only if b·d/n is well above one, and then it is too large for the second cache.)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from quartic.arrays import Array
from quartic.arrays.threads import spread
from quartic.compiled.flags import FLAGS
from quartic.compiled.row_chunks import RowChunks, total
from quartic.losses.pairs.lanes import prefetch

# Up to so many bytes of records stay in the second cache: nothing needs to be asked for.
_NEAR = 400_000
# Records are asked for so many pairs ahead.
_AHEAD = np.uint64(16)
# Bytes in a cache line.
_LINE = 64
# Points that are put into records at a time.
_PIECE = 1 << 14

# What a record holds besides its sums: x; x and v; x and v − x; v, and v − x in float32, as a multiple of a given unit.
ALONE, BOTH, STEP, NARROW = range(4)


def over_records(
    call: Callable[..., Any], chunks: RowChunks, X: Array, V: Array, how: int, *outputs: Array, unit: float = 1.0
) -> Any:
    """Return ``call(W, far, start, first, last)`` over all rows, W being the records; their sums go to ``outputs``.

    Records are in float64, and rounded at the end where an output is coarser. Where all data are in float32 and records
    do not stay in the cache, they are float32: half the memory to fetch. A row's own sum and what is computed of a pair
    are in float64 even then; what is rounded is what its pairs as a column add to a point, each time.
    """
    n, rank = X.shape
    flat = [out if out.ndim == 2 else out.reshape(n, -1) for out in outputs]
    width = sum([out.shape[1] for out in flat])
    size = width + {ALONE: rank, NARROW: rank + (rank + 1) // 2}.get(how, 2 * rank)
    far = 8 * n * size > _NEAR
    coarse = far and all(A.dtype == np.float32 for A in (X, V, *outputs))
    dtype: Any = np.float32 if coarse else np.float64
    stride = _stride(size, _LINE // (4 if coarse else 8))
    parts = np.empty((len(chunks), n, width)) if len(chunks) > 1 else None
    found: list[Any] = [None] * len(chunks)

    def work(k: int) -> None:
        first, last = chunks.bounds[k], chunks.bounds[k + 1]
        room = chunks.take_room(n * stride // (2 if coarse else 1) + 16)
        W = room.view(dtype)[: n * stride].reshape(n, stride)
        if how == NARROW:
            _in_pieces(_fill_narrow, first, n, W, X, V, W.view(np.float32), unit)
        else:
            _in_pieces(_filling(width, rank, how), first, n, W, X, V)
        found[k] = call(W, far, chunks.start, first, last)
        at = 0
        for out in flat if parts is None else [parts[k]]:
            _in_pieces(_taking(at, out.shape[1]), first, n, W, out)
            at += out.shape[1]
        chunks.leave_room(room)

    chunks.each(work)
    if parts is not None:
        at, bounds = 0, np.array(chunks.bounds)
        for out in flat:
            _add_up(parts, bounds, at, out)
            at += out.shape[1]
    return total(found)


def _stride(size: int, line: int) -> int:
    """Return the length of a record that lies in as few cache lines as it can."""
    if size <= line:
        return 1 << (size - 1).bit_length()
    return size if 2 * size <= 3 * line else -(-size // line) * line


def _in_pieces(call: Callable[..., None], first: int, last: int, *arrays: Any) -> None:
    """Call ``call(first, last, *arrays)`` on ranges that make up the rows, by several threads if it pays."""
    n_pieces = -(-(last - first) // _PIECE)
    if n_pieces <= 1:
        call(first, last, *arrays)
        return

    def work(a: int, b: int) -> None:
        call(first + a * _PIECE, min(last, first + b * _PIECE), *arrays)

    spread(work, n_pieces, 4.0 * arrays[0].size)


@cache
def _filling(width: int, rank: int, how: int) -> Callable[..., None]:
    """Return the pass that makes records of zeros, X, and V or V − X."""

    @njit(**FLAGS)
    def fill(first: int, last: int, W: Any, X: Any, V: Any) -> None:
        for i in range(np.uint64(first), np.uint64(last)):
            for k in range(width):
                W[i, k] = 0.0
            for k in range(rank):
                W[i, width + k] = X[i, k]
                if how == BOTH:
                    W[i, width + rank + k] = V[i, k]
                elif how == STEP:
                    W[i, width + rank + k] = np.float64(V[i, k]) - np.float64(X[i, k])

    return fill  # type: ignore[no-any-return]


@njit(**FLAGS)
def _fill_narrow(first: int, last: int, W: Any, X: Any, Y: Any, halves: Any, unit: float) -> None:
    rank = X.shape[1]
    for i in range(np.uint64(first), np.uint64(last)):
        for k in range(rank):
            W[i, k] = 0.0
            W[i, rank + k] = Y[i, k]
            halves[i, 4 * rank + k] = (Y[i, k] - X[i, k]) / unit


@cache
def _taking(at: int, width: int) -> Callable[..., None]:
    """Return the pass that copies sums out of the records."""

    @njit(**FLAGS)
    def take(first: int, last: int, W: Any, out: Any) -> None:
        for i in range(np.uint64(first), np.uint64(last)):
            for k in range(width):
                out[i, k] = W[i, at + k]

    return take  # type: ignore[no-any-return]


@njit(**FLAGS)
def _add_up(parts: Any, bounds: Any, at: int, out: Any) -> None:
    """Set ``out`` to the sum of the parts, in order; part c begins at the row ``bounds[c]``."""
    for c in range(len(parts)):
        for i in range(bounds[c], bounds[c + 1]):
            for k in range(out.shape[1]):
                sum_here = parts[0, i, at + k]
                for b in range(1, c + 1):
                    sum_here += parts[b, i, at + k]
                out[i, k] = sum_here


@njit(**FLAGS)
def ask_ahead(W: Any, cols: Any, p: Any) -> None:
    """Ask for the record that a pair somewhat after p will need."""
    j = np.int64(cols[min(p + _AHEAD, np.uint64(len(cols) - 1))])
    prefetch(W, j, 0)
    if W.shape[1] * W.itemsize > _LINE:
        prefetch(W, j, W.shape[1] - 1)
