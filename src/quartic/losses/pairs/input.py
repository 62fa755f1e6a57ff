"""Checks of pair lists, and their sorting."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import Array, working_dtype


def check_pairs(
    pairs: Any, values: Any, n_points: int | None, weights: Any, name: str, *, nonnegative: bool = True
) -> tuple[NDArray[np.int64], Array, Array | None, int]:
    """Return pairs, values, weights as clean arrays and the number of points, or raise an error naming row and cure."""
    from quartic.compiled.sorting import extremes

    pairs = np.asarray(pairs)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(f"pairs must have shape (m, 2), one pair (i, j) a row, got {pairs.shape}")
    if len(pairs) == 0:
        raise ValueError("there are no pairs; at least one known value is needed")
    whole = pairs.dtype.kind in "iu" or (pairs.dtype.kind == "f" and np.array_equal(pairs, np.floor(pairs)))
    if not whole:
        raise TypeError(f"pairs must be integer indices, got dtype {pairs.dtype}")
    pairs = np.ascontiguousarray(pairs, dtype=np.int64)
    least, largest = extremes(pairs)
    if least < 0:
        row = int(np.argmax((pairs < 0).any(axis=1)))
        raise ValueError(
            f"pairs must be nonnegative indices (counted from 0), but pairs[{row}] = {pairs[row].tolist()}"
        )
    if n_points is None:
        n_points = largest + 1
    elif int(n_points) != n_points or n_points < 1:
        raise ValueError(f"n_points must be a positive integer, got {n_points!r}")
    elif largest >= n_points:
        row = int(np.argmax((pairs >= n_points).any(axis=1)))
        raise ValueError(
            f"pairs[{row}] = {pairs[row].tolist()} is outside the {n_points} points; indices count from 0, "
            "so raise n_points or subtract 1 from the indices"
        )
    if n_points > np.iinfo(np.int32).max:
        raise ValueError(f"n_points must be below 2³¹, got {n_points}")
    values = check_column(values, len(pairs), name, nonnegative=nonnegative)
    if weights is not None:
        weights = check_column(weights, len(pairs), "weights", nonnegative=True).astype(values.dtype, copy=False)
    return pairs, values, weights, int(n_points)


def check_column(values: Any, m: int, name: str, *, nonnegative: bool) -> Array:
    """Return one finite number a pair, or raise an error that names the row."""
    values = np.asarray(values)
    if values.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be real numbers, got dtype {values.dtype}")
    if values.shape != (m,):
        raise ValueError(f"{name} must have shape ({m},), one number for each pair, got {values.shape}")
    clean: Array = np.ascontiguousarray(values, dtype=working_dtype(values.dtype))
    least, largest = (float(clean.min()), float(clean.max())) if m else (0.0, 0.0)  # NaN where there is one
    if not (math.isfinite(least) and math.isfinite(largest)):
        row = int(np.argmax(~np.isfinite(clean)))
        raise ValueError(f"{name}[{row}] is {clean[row]}; leave unknown pairs out, every listed value must be finite")
    if nonnegative and least < 0:
        row = int(np.argmax(clean < 0))
        raise ValueError(f"{name}[{row}] = {clean[row]} is negative; {name} must be nonnegative")
    return clean


def merge_duplicates(
    pairs: NDArray[np.int64], values: Array, weights: Array | None, n: int, *, diagonal: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.int32], Array, Array | None]:
    """Return the pairs with i < j sorted by row as (start, cols, values, weights), each pair once.

    A pair given more than once must say the same thing each time; otherwise a ValueError names it.
    """
    from quartic.compiled.sorting import has_repeats, row_starts, sort_pairs, survey

    self_pair, ordered = survey(pairs)
    if self_pair >= 0 and not diagonal:
        raise ValueError(
            f"pairs[{self_pair}] = {pairs[self_pair].tolist()} joins a point to itself; leave such pairs out"
        )
    if ordered:
        start, cols = row_starts(pairs, n)
        return start, cols, values.copy(), None if weights is None else weights.copy()
    start, cols, sorted_values, sorted_weights = sort_pairs(
        pairs, values, values[:0] if weights is None else weights, n
    )
    if has_repeats(start, cols):
        return _merge(pairs, values, weights, n)
    return start, cols, sorted_values, None if weights is None else sorted_weights


def _merge(
    pairs: NDArray[np.int64], values: Array, weights: Array | None, n: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], Array, Array | None]:
    i, j = pairs.min(axis=1), pairs.max(axis=1)
    order = np.lexsort((j, i))
    i, j, values = i[order], j[order], values[order]
    weights = None if weights is None else weights[order]
    again = (i[1:] == i[:-1]) & (j[1:] == j[:-1])
    gap = np.abs(values[1:] - values[:-1]) > 1e-9 * np.maximum(np.abs(values[1:]), np.abs(values[:-1]))
    if weights is not None:
        gap |= weights[1:] != weights[:-1]
    gap &= again
    if gap.any():
        k = int(np.argmax(gap))
        raise ValueError(
            f"the pair ({i[k]}, {j[k]}) is given twice and differs: {values[k]} in row {order[k]}, "
            f"{values[k + 1]} in row {order[k + 1]}; keep one of them, or their mean"
        )
    keep = np.concatenate([[True], ~again])
    start = np.concatenate([[0], np.cumsum(np.bincount(i[keep], minlength=n))])
    return start, j[keep].astype(np.int32), values[keep], None if weights is None else weights[keep]
