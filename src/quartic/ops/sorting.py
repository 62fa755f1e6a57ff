"""Counting sort of pairs: a general sort would cost as much as solving the problem."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def sort_pairs(rows: Any, cols: Any, n: int) -> Any:
    """Return the order that sorts pairs by row, then column, and where each row starts: two stable counting sorts."""
    m = len(rows)
    first = np.zeros(n + 1, np.int64)
    for p in range(m):
        first[cols[p] + 1] += 1
    for i in range(n):
        first[i + 1] += first[i]
    by_column = np.empty(m, np.int64)
    for p in range(m):
        by_column[first[cols[p]]] = p
        first[cols[p]] += 1
    start = np.zeros(n + 1, np.int64)
    for p in range(m):
        start[rows[p] + 1] += 1
    for i in range(n):
        start[i + 1] += start[i]
    place = start[:-1].copy()
    order = np.empty(m, np.int64)
    for k in range(m):
        p = by_column[k]
        order[place[rows[p]]] = p
        place[rows[p]] += 1
    return order, start
