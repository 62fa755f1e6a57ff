"""A sparse matrix times a tall one."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from quartic.arrays.checks import Array
from quartic.arrays.threads import spread
from quartic.compiled.flags import FLAGS
from quartic.compiled.registers import sparse_rows

# A matrix is cut into at most so many pieces: enough to share among threads, few enough to cost nothing.
_PIECES = 64
# Every rank has a pass of its own, compiled when first used; beyond this they would grow too long.
WIDEST_RANK = 256


def row_pieces(start: Any) -> NDArray[np.int64]:
    """Return bounds of row ranges with about the same number of entries each, from where the rows start."""
    n = len(start) - 1
    work = np.asarray(start, dtype=np.int64) + np.arange(n + 1)  # an empty row costs something too
    wanted = np.linspace(0, work[-1], min(_PIECES, max(1, int(work[-1]) // 512)) + 1)
    return np.unique(np.concatenate([[0], np.searchsorted(work, wanted[1:-1]), [n]])).astype(np.int64)


@cache
def _pass(rank: int) -> Any:
    lanes = (0.0,) * rank

    @njit(**FLAGS)
    def run(start: Any, cols: Any, values: Any, X: Any, Y: Any, first: int, last: int) -> None:
        sparse_rows(lanes, start, cols, values, X, Y, first, last)

    return run


def sparse_product(start: Any, cols: Any, values: Array, bounds: NDArray[np.int64], X: Array, out: Array) -> None:
    """Write M X into ``out``, M in compressed rows (``start``, ``cols``, ``values``), cut at ``bounds``.

    X and ``out`` are C-ordered, of one type, at most `WIDEST_RANK` columns wide. Every entry is summed in the order
    the row is stored in: the answer is the same on any number of threads.
    """
    run = _pass(X.shape[1])
    rows = bounds.tolist()

    def work(first: int, last: int) -> None:
        run(start, cols, values, X, out, rows[first], rows[last])

    spread(work, len(rows) - 1, float(len(cols)) * X.shape[1])
