"""Blocks of a tall matrix times a small one, and their Gram matrices, while they are in the first cache.

As fast as BLAS on whole arrays, and in the middle of a pass: what a block of rows is multiplied into is used before it
leaves the cache. Four rows (of the result) at a time, in tiles of columns that fit the registers.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from quartic.ops.flags import FLAGS
from quartic.ops.registers import add_to_gram, rows_times_small, widest_tile

# Rows of a block: with 40 columns in double precision 20 kB, beside the small matrix, stay in the first cache.
BLOCK = 64

_WIDEST = widest_tile()
_W, _16, _8, _4, _2, _1 = ((0.0,) * width for width in (_WIDEST, 16, 8, 4, 2, 1))
_WIDER_THAN_16 = _WIDEST > 16


@njit(**FLAGS)
def _product_row_tiles(rows: Any, X: Any, A: Any, W: Any, i: int) -> None:
    width, k = W.shape[1], 0
    while width - k >= _WIDEST:
        rows_times_small(rows, _W, X, A, W, i, k)
        k += _WIDEST
    if _WIDER_THAN_16:
        if width - k >= 16:
            rows_times_small(rows, _16, X, A, W, i, k)
            k += 16
        if width - k >= 8:
            rows_times_small(rows, _8, X, A, W, i, k)
            k += 8
    if width - k >= 4:
        rows_times_small(rows, _4, X, A, W, i, k)
        k += 4
    if width - k >= 2:
        rows_times_small(rows, _2, X, A, W, i, k)
        k += 2
    if width - k >= 1:
        rows_times_small(rows, _1, X, A, W, i, k)


@njit(**FLAGS)
def block_times_small(X: Any, A: Any, W: Any) -> None:
    """W = XA for a block of rows; A is small, all are C-ordered and of one type."""
    n, i = X.shape[0], 0
    while n - i >= 4:
        _product_row_tiles(_4, X, A, W, i)
        i += 4
    while i < n:
        _product_row_tiles(_1, X, A, W, i)
        i += 1


@njit(**FLAGS)
def _gram_tiles(rows: Any, A: Any, B: Any, S: Any, j: int, k: int) -> None:
    n, width = A.shape[0], B.shape[1]
    while width - k >= _WIDEST:
        add_to_gram(rows, _W, A, B, S, 0, n, j, k)
        k += _WIDEST
    if _WIDER_THAN_16:
        if width - k >= 16:
            add_to_gram(rows, _16, A, B, S, 0, n, j, k)
            k += 16
        if width - k >= 8:
            add_to_gram(rows, _8, A, B, S, 0, n, j, k)
            k += 8
    if width - k >= 4:
        add_to_gram(rows, _4, A, B, S, 0, n, j, k)
        k += 4
    if width - k >= 2:
        add_to_gram(rows, _2, A, B, S, 0, n, j, k)
        k += 2
    if width - k >= 1:
        add_to_gram(rows, _1, A, B, S, 0, n, j, k)


@njit(**FLAGS)
def add_upper_gram(A: Any, S: Any) -> None:
    """S += AᵀA on and above the diagonal (in tiles: some entries below it are touched too), for a block of rows."""
    width, j = A.shape[1], 0
    while width - j >= 4:
        _gram_tiles(_4, A, A, S, j, j)
        j += 4
    while j < width:
        _gram_tiles(_1, A, A, S, j, j)
        j += 1
