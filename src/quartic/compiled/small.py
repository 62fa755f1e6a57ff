"""Blocks of a tall matrix times a small one, and their Gram matrices, while they are in the first cache.

As fast as BLAS on whole arrays, and in the middle of a pass: what a block of rows is multiplied into is used before it
leaves the cache. Four rows (of the result) at a time, in tiles of columns that fit the registers, all of about the same
width.

Tiles are multiples of four columns wide. So a small matrix has its columns padded to such a multiple (`padded`), and a
block is a scratch array with room behind its last row (`block`): what a tile reads or writes beyond the end of a row is
the beginning of the next, and counts for nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from quartic.arrays.checks import Array
from quartic.compiled.flags import FLAGS
from quartic.compiled.registers import add_to_gram, rows_times_small, widest_tile

# Rows of a block: with 40 columns in double precision 20 kB, beside the small matrix, stay in the first cache.
BLOCK = 64

_WIDEST = widest_tile()
_4, _8, _12, _16, _20, _24, _28, _32 = ((0.0,) * width for width in range(4, 33, 4))


def padded(rank: int) -> int:
    """Return the least multiple of four that is not below the rank."""
    return -(-rank // 4) * 4


def padded_columns(A: Array, dtype: Any) -> Array:
    """Return a small matrix with zeros for the columns that are added."""
    wide = np.zeros((len(A), padded(A.shape[1])), dtype)
    wide[:, : A.shape[1]] = A
    return wide


@njit(**FLAGS)
def block(X: Any) -> Any:
    """Return scratch for a block of rows of X, with room behind."""
    return np.zeros((BLOCK + 36, X.shape[1]), X.dtype)


@njit(**FLAGS)
def _next_width(columns: int) -> int:
    """Return the width of the last of the tiles that so many columns are cut into evenly."""
    tiles = -(-columns // _WIDEST)
    return columns - (columns // 4) * (tiles - 1) // tiles * 4


@njit(**FLAGS)
def block_times_small(rows: int, Y: Any, A: Any, W: Any) -> None:
    """W = YA for the first rows of a block; A is small and padded."""
    right = A.shape[1]
    for i in range(0, rows, 4):
        # from the right: what a tile writes behind its row is overwritten by the tiles of the next
        end = right
        while end > 0:
            width = _next_width(end)
            end -= width
            if width == 4:
                rows_times_small(_4, _4, Y, A, W, i, end)
            elif width == 8:
                rows_times_small(_4, _8, Y, A, W, i, end)
            elif width == 12:
                rows_times_small(_4, _12, Y, A, W, i, end)
            elif width == 16:
                rows_times_small(_4, _16, Y, A, W, i, end)
            elif width == 20:
                rows_times_small(_4, _20, Y, A, W, i, end)
            elif width == 24:
                rows_times_small(_4, _24, Y, A, W, i, end)
            elif width == 28:
                rows_times_small(_4, _28, Y, A, W, i, end)
            else:
                rows_times_small(_4, _32, Y, A, W, i, end)


@njit(**FLAGS)
def _add_tiles(rows: int, Y: Any, W: Any, S: Any, row: int, first: int) -> None:
    """S += YᵀW in four rows, from the first column on."""
    end = S.shape[1]
    while end > first:
        width = _next_width(end - first)
        end -= width
        if width == 4:
            add_to_gram(_4, _4, Y, W, S, 0, rows, row, end)
        elif width == 8:
            add_to_gram(_4, _8, Y, W, S, 0, rows, row, end)
        elif width == 12:
            add_to_gram(_4, _12, Y, W, S, 0, rows, row, end)
        elif width == 16:
            add_to_gram(_4, _16, Y, W, S, 0, rows, row, end)
        elif width == 20:
            add_to_gram(_4, _20, Y, W, S, 0, rows, row, end)
        elif width == 24:
            add_to_gram(_4, _24, Y, W, S, 0, rows, row, end)
        elif width == 28:
            add_to_gram(_4, _28, Y, W, S, 0, rows, row, end)
        else:
            add_to_gram(_4, _32, Y, W, S, 0, rows, row, end)


@njit(**FLAGS)
def add_upper_gram(rows: int, Y: Any, S: Any) -> None:
    """S += YᵀY for the first rows of a block; what counts is on and above the diagonal, within the columns of Y."""
    for row in range(0, S.shape[0], 4):
        _add_tiles(rows, Y, Y, S, row, row)


@njit(**FLAGS)
def add_cross_gram(rows: int, Y: Any, W: Any, S: Any) -> None:
    """S += YᵀW for the first rows of two blocks; what counts is within their columns."""
    for row in range(0, S.shape[0], 4):
        _add_tiles(rows, Y, W, S, row, 0)
