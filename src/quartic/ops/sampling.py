"""A sample of the pairs that leaves every point with enough of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def sample_pairs(start: Any, cols: Any, degree: float) -> Any:
    """Return which pairs to keep, in order, and where each row of the sample starts.

    A pair stays with probability degree / d, where d is the smaller of its two points' numbers of pairs: a point that
    has few keeps them all. The draw is a hash of the pair's place, hence always the same.
    """
    n = len(start) - 1
    count = np.zeros(n, np.int64)
    for i in range(n):
        count[i] += start[i + 1] - start[i]
        for p in range(start[i], start[i + 1]):
            count[cols[p]] += 1
    kept = np.empty(len(cols), np.int64)
    new_start = np.zeros(n + 1, np.int64)
    size = 0
    for i in range(n):
        for p in range(start[i], start[i + 1]):
            # the finalizer of SplitMix64
            z = np.uint64(p + 1) * np.uint64(0x9E3779B97F4A7C15)
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            draw = np.float64((z ^ (z >> np.uint64(31))) >> np.uint64(11)) / 9007199254740992.0
            if draw * min(count[i], count[cols[p]]) < degree:
                kept[size] = p
                size += 1
        new_start[i + 1] = size
    return kept[:size].copy(), new_start
