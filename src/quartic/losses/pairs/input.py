"""Pairs as users give them: checked, sorted, each once; as NumPy arrays, torch tensors or in chunks of Dask."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import HOST, Array, Space, is_torch, namespace, working_dtype
from quartic.distributed.inputs import is_dask_array, is_dask_frame
from quartic.losses.pairs.pairs import Pairs


def take_pairs(kind: int, pairs: Any, values: Any, n_points: int | None, weights: Any, name: str) -> Pairs:
    """Return the pairs with their values and weights, or raise an error that names the row and the cure."""
    if is_dask_array(pairs) or is_dask_frame(pairs):
        from quartic.losses.blocks.dask_distances import DaskPairs

        return cast(Pairs, DaskPairs(pairs, values, n_points, weights))
    if any(is_torch(A) for A in (pairs, values, weights)):
        from quartic.losses.pairs.torch_input import take_tensors

        return take_tensors(kind, pairs, values, n_points, weights, name)
    pairs, values, weights, n = check_pairs(pairs, values, n_points, weights, name)
    return sort_pairs(kind, pairs, values, weights, n)


def place_pairs(pairs: Pairs, space: Space) -> Pairs:
    """Return pairs of the host where they are to live."""
    if space is HOST:
        return pairs
    from quartic.losses.pairs.torch_input import move_pairs

    return move_pairs(pairs, cast(Any, space).device)


def take_intervals(kind: int, pairs: Any, lower: Any, upper: Any, n_points: int | None, weights: Any) -> Pairs:
    """Return the pairs with bounds, of which the upper ones may be infinite."""
    pairs, lower, weights, n = check_pairs(pairs, lower, n_points, weights, "lower")
    given = np.asarray(upper)
    if given.dtype.kind not in "fiub":
        raise TypeError(f"upper must be real numbers, got dtype {given.dtype}")
    free = np.isposinf(given)
    upper = check_column(np.where(free, 0.0, given), len(pairs), "upper", nonnegative=True)
    upper = np.where(free, np.inf, upper.astype(np.float64))
    lower = lower.astype(np.float64, copy=False)
    if (lower > upper).any():
        k = int(np.argmax(lower > upper))
        raise ValueError(
            f"lower[{k}] = {lower[k]} is above upper[{k}] = {upper[k]}; bounds must satisfy lower <= upper"
        )
    return sort_pairs(kind, pairs, lower, None if weights is None else weights.astype(np.float64), n, upper=upper)


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


def sort_pairs(
    kind: int,
    pairs: NDArray[np.int64],
    values: Array,
    weights: Array | None,
    n: int,
    *,
    upper: Array | None = None,
    diagonal: bool = False,
) -> Pairs:
    """Return the pairs with i < j (i ≤ j where the ``diagonal`` may be among them) sorted by row, each once.

    A pair given more than once must say the same thing each time; otherwise a ValueError names it.
    """
    from quartic.compiled import sorting

    self_pair, ordered = sorting.survey(pairs)
    if self_pair >= 0 and not diagonal:
        raise ValueError(
            f"pairs[{self_pair}] = {pairs[self_pair].tolist()} joins a point to itself; leave such pairs out"
        )
    if ordered:
        start, cols = sorting.row_starts(pairs, n)
        copied = [None if A is None else A.copy() for A in (weights, upper)]
        return Pairs(kind, start, cols, values.copy(), copied[0], copied[1])
    none = values[:0]
    start, cols, sorted_values, sorted_weights = sorting.sort_pairs(
        pairs, values, none if weights is None else weights, n
    )
    if sorting.has_repeats(start, cols):
        named = {"": values, "weight ": weights, "upper bound ": upper}
        order = each_once(pairs.min(axis=1), pairs.max(axis=1), n, named)
        start, cols = sorting.row_starts(np.sort(pairs[order], axis=1), n)
        kept = [None if A is None else A[order] for A in (weights, upper)]
        return Pairs(kind, start, cols, values[order], kept[0], kept[1])
    sorted_upper = None if upper is None else sorting.sort_pairs(pairs, upper, none, n)[2]
    return Pairs(kind, start, cols, sorted_values, None if weights is None else sorted_weights, sorted_upper)


def each_once(low: Any, high: Any, n: int, columns: dict[str, Any], what: str = "pair") -> Any:
    """Return the rows of the pairs (low, high) to keep, sorted by pair: of each the first. NumPy arrays or tensors.

    ``columns`` has what a pair is given with, or None, by a word that goes before it in the message. Where a pair comes
    again it must say the same, to nine digits (five in float32); otherwise a ValueError names both rows.
    """
    xp, key = namespace(low), low * n + high
    order = key.argsort(stable=True) if is_torch(key) else np.argsort(key, kind="stable")
    key = key[order]
    again = key[1:] == key[:-1]
    if not bool(again.any()):
        return order
    for word, column in columns.items():
        if column is None:
            continue
        there = column[order]
        one, two = there[:-1], there[1:]
        near = 1e-9 if there.itemsize == 8 else 1e-5
        differs = again & (one != two) & ~(abs(one - two) <= near * xp.maximum(abs(one), abs(two)))
        if bool(differs.any()):
            k = int(xp.nonzero(differs)[0].ravel()[0])
            raise ValueError(
                f"the {what} ({int(key[k]) // n}, {int(key[k]) % n}) is given twice and differs: {word}{float(one[k])} "
                f"in row {int(order[k])}, {float(two[k])} in row {int(order[k + 1])}; keep one of them, or their mean"
            )
    return order[xp.concatenate([xp.ones_like(again[:1]), ~again])]
