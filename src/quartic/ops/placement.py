"""Compiled passes that solve a large problem by way of a small one: pairs among some points, and the others' places."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from quartic.arrays import Array
from quartic.ops.flags import FLAGS


@njit(cache=True, nogil=True)
def choose_core(start: Any, cols: Any, share: float, least: int) -> Any:
    """Return a mask of about this share of the points, of which each has ``least`` pairs or more with the others.

    The draw is a hash of the point's number, hence always the same. Points with too few pairs are dropped until none
    is left that has; the mask may end up empty.
    """
    n = len(start) - 1
    chosen = np.zeros(n, np.bool_)
    for i in range(n):
        # the finalizer of SplitMix64
        z = np.uint64(i + 1) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        chosen[i] = np.float64((z ^ (z >> np.uint64(31))) >> np.uint64(11)) / 9007199254740992.0 < share
    count = np.empty(n, np.int64)
    dropped = True
    while dropped:
        dropped = False
        count[:] = 0
        for i in range(n):
            if chosen[i]:
                for p in range(start[i], start[i + 1]):
                    if chosen[cols[p]]:
                        count[i] += 1
                        count[cols[p]] += 1
        for i in range(n):
            if chosen[i] and count[i] < least:
                chosen[i] = False
                dropped = True
    return chosen


@njit(cache=True, nogil=True)
def pairs_among(start: Any, cols: Any, chosen: Any) -> Any:
    """Return which pairs have both points chosen, and start and cols of those pairs, the points numbered anew."""
    n = len(start) - 1
    number = np.empty(n, np.int32)
    size, m = 0, 0
    for i in range(n):
        number[i] = size
        size += chosen[i]
    for i in range(n):
        if chosen[i]:
            for p in range(start[i], start[i + 1]):
                m += chosen[cols[p]]
    kept, new_cols, new_start = np.empty(m, np.int64), np.empty(m, np.int32), np.zeros(size + 1, np.int64)
    m = 0
    for i in range(n):
        if chosen[i]:
            for p in range(start[i], start[i + 1]):
                if chosen[cols[p]]:
                    kept[m] = p
                    new_cols[m] = number[cols[p]]
                    m += 1
            new_start[number[i] + 1] = m
    return kept, new_start, new_cols


@cache
def gather(difference: bool, weighted: bool) -> Callable[..., None]:
    """Return the pass ``(X, placed, start, cols, target, weight, S)``, which sums up what places the other points.

    For a point i and its placed neighbours j, S_i holds the lower triangle of Σ w a aᵀ with a = (1, x_j, g), where g is
    ‖x_j‖² − b (distances) or b (entries); the last corner holds the number of those neighbours instead of g².
    """

    @njit(**FLAGS)
    def run(X: Any, placed: Any, start: Any, cols: Any, target: Any, weight: Any, S: Any) -> None:
        rank = X.shape[1]
        for i in range(X.shape[0]):
            for p in range(start[i], start[i + 1]):
                j = np.int64(cols[p])
                if placed[i] == placed[j]:
                    continue
                known, other = (i, j) if placed[i] else (j, i)
                w = np.float64(weight[p]) if weighted else 1.0
                g = np.float64(target[p])
                if difference:
                    g = -g
                    for k in range(rank):
                        g += X[known, k] * X[known, k]
                S[other, 0] += w
                for k in range(rank):
                    row = (k + 1) * (k + 2) // 2
                    wx = w * X[known, k]
                    S[other, row] += wx
                    for l in range(k + 1):
                        S[other, row + l + 1] += wx * X[known, l]
                row = (rank + 1) * (rank + 2) // 2
                S[other, row] += w * g
                for k in range(rank):
                    S[other, row + k + 1] += w * g * X[known, k]
                S[other, row + rank + 1] += 1.0

    return run  # type: ignore[no-any-return]


def least_squares_places(S: Array, rank: int, difference: bool) -> Array:
    """Return the places that fit the sums of `gather` best, one row a point."""
    k = np.arange(rank)
    firsts = (k + 1) * (k + 2) // 2  # where Σ w x_j stands, and before the products of its coordinates
    rows, columns = np.tril_indices(rank)
    A = np.zeros((len(S), rank, rank))
    A[:, rows, columns] = A[:, columns, rows] = S[:, firsts[rows] + columns + 1]
    corner = (rank + 1) * (rank + 2) // 2
    right = S[:, corner + 1 : corner + 1 + rank]
    if difference:
        mean = S[:, firsts] / S[:, :1]
        A -= S[:, :1, None] * mean[:, :, None] * mean[:, None, :]
        right = 0.5 * (right - S[:, corner, None] * mean)
    # neighbours in a plane leave a direction open: there x stays at 0, the middle of what is placed
    values, vectors = np.linalg.eigh(A)
    inverse = np.where(values > 1e-10 * values[:, -1:], 1 / np.where(values > 0, values, 1.0), 0.0)
    coordinates = inverse[:, :, None] * (vectors.transpose(0, 2, 1) @ right[:, :, None])
    places: Array = (vectors @ coordinates)[:, :, 0]
    return places
