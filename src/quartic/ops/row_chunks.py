"""A pass over pairs by several threads: fixed chunks of rows, each with sums of its own, added up in order.

A pair (i, j) adds to row i and to row j of the result. Two threads must not add to one row at the same time, and which
comes first must not change the bits. So the rows are cut into chunks by the data alone, each chunk fills a result of
its own, and those are added in order; on one thread too. It pays where there are many more pairs than entries of the
result; elsewhere there is one chunk, and the pass is what it would be without this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from quartic.arrays import Array
from quartic.ops.flags import FLAGS
from quartic.ops.threads import spread

# At least so many pairs in a chunk, and so many for each row of the result it fills.
_PAIRS_IN_A_CHUNK, _PAIRS_FOR_A_ROW = 32768, 4
# All results together are at most this many times the size of X.
_MOST = 8
# What a pair costs, in multiplications.
_COST = 10.0


def wide(X: Array) -> Array:
    """Return X in float64, itself where it is: a pass reads each row many times, and would convert it each time."""
    return X.astype(np.float64, copy=False)


def over_rows(call: Callable[..., Any], start: Any, X: Array, *outputs: Array) -> Any:
    """Return ``call(first, last, *outputs)`` over all rows; it fills the outputs, and may return numbers to add up.

    Sums are made in float64, and rounded at the end where the output is coarser.
    """
    n, n_pairs = len(X), int(start[-1])
    most = _MOST if not outputs else _MOST * X.size // max(1, sum(out.size for out in outputs))
    n_chunks = min(most, n_pairs // _PAIRS_IN_A_CHUNK, n_pairs // max(1, _PAIRS_FOR_A_ROW * n))
    n_chunks = max(1, n_chunks)
    if n_chunks == 1 and all(out.dtype == np.float64 for out in outputs):
        return call(0, n, *outputs)
    bounds = [0, *np.searchsorted(start, np.linspace(0, n_pairs, n_chunks + 1)[1:-1]).tolist(), n]
    parts = [np.empty((n_chunks, *out.shape)) for out in outputs]
    found: list[Any] = [None] * n_chunks

    def work(first: int, last: int) -> None:
        for k in range(first, last):
            found[k] = call(bounds[k], bounds[k + 1], *(part[k] for part in parts))

    spread(work, n_chunks, _COST * n_pairs)
    for part, out in zip(parts, outputs, strict=True):
        _add_up(part.reshape(n_chunks, -1), out.reshape(-1))
    if isinstance(found[0], tuple):
        return tuple(float(sum(column)) for column in zip(*found, strict=True))
    return None if found[0] is None else float(sum(found))


@njit(**FLAGS)
def _add_up(parts: Any, out: Any) -> None:
    for k in range(out.size):
        total = parts[0, k]
        for c in range(1, parts.shape[0]):
            total += parts[c, k]
        out[k] = total
