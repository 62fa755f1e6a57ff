"""Counting sort of pairs: a general sort would cost as much as solving the problem."""

from __future__ import annotations

from typing import Any

import numpy as np

from quartic.compiled.flags import FLAGS, njit


@njit(**FLAGS)
def extremes(pairs: Any) -> Any:
    """Return the least and the largest index."""
    least, largest = pairs[0, 0], pairs[0, 0]
    for p in range(len(pairs)):
        for k in range(2):
            least = min(least, pairs[p, k])
            largest = max(largest, pairs[p, k])
    return least, largest


@njit(**FLAGS)
def survey(pairs: Any) -> Any:
    """Return the first row that joins a point to itself, or −1, and whether all is in order.

    It is where all pairs have i ≤ j, come by row, then column, and none comes twice.
    """
    itself, ordered = -1, True
    before_i, before_j = -1, -1
    for p in range(len(pairs)):
        i, j = pairs[p, 0], pairs[p, 1]
        if i == j and itself < 0:
            itself = p
        ordered &= (i <= j) & ((i > before_i) | ((i == before_i) & (j > before_j)))
        before_i, before_j = i, j
    return itself, ordered


@njit(**FLAGS)
def row_starts(pairs: Any, n: int) -> Any:
    """Return where each row starts, and the columns, of pairs that are in order."""
    start, cols = np.zeros(n + 1, np.int64), np.empty(len(pairs), np.int32)
    for p in range(len(pairs)):
        start[pairs[p, 0] + 1] += 1
        cols[p] = pairs[p, 1]
    for i in range(n):
        start[i + 1] += start[i]
    return start, cols


@njit(**FLAGS)
def sort_pairs(pairs: Any, values: Any, weights: Any, n: int) -> Any:
    """Return start, cols, values and weights sorted by row, then column, each pair turned so that i ≤ j.

    Two stable counting sorts, first by column, then by row, which carry the values along: to look them up at the end
    would miss the cache at every pair. ``weights`` may be empty.
    """
    m, weighted = len(pairs), len(weights) > 0
    begin, start = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
    for p in range(m):
        i, j = pairs[p, 0], pairs[p, 1]
        start[min(i, j) + 1] += 1
        begin[max(i, j) + 1] += 1
    for i in range(n):
        start[i + 1] += start[i]
        begin[i + 1] += begin[i]
    place = begin[:-1].copy()
    row, value, weight = np.empty(m, np.int32), np.empty_like(values), np.empty_like(weights)
    for p in range(m):
        i, j = pairs[p, 0], pairs[p, 1]
        if i > j:
            i, j = j, i
        k = place[j]
        place[j] = k + 1
        row[k] = i
        value[k] = values[p]
        if weighted:
            weight[k] = weights[p]
    place = start[:-1].copy()
    cols, new_values, new_weights = np.empty(m, np.int32), np.empty_like(values), np.empty_like(weights)
    for j in range(n):
        for k in range(begin[j], begin[j + 1]):
            q = place[row[k]]
            place[row[k]] = q + 1
            cols[q] = j
            new_values[q] = value[k]
            if weighted:
                new_weights[q] = weight[k]
    return start, cols, new_values, new_weights


@njit(**FLAGS)
def has_repeats(start: Any, cols: Any) -> bool:
    """Return whether a pair comes twice in a sorted list."""
    for i in range(len(start) - 1):
        for p in range(start[i] + 1, start[i + 1]):
            if cols[p] == cols[p - 1]:
                return True
    return False
