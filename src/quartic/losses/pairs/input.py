"""Pairs as users give them: checked, sorted, each once; as NumPy arrays, torch tensors or in chunks of Dask."""

from __future__ import annotations

import math
import sys
from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from quartic.arrays import (
    HOST,
    Array,
    Space,
    as_array,
    as_floats,
    first_entry,
    is_torch,
    kind_of,
    namespace,
    real_array,
    space_of,
)
from quartic.losses.pairs.pairs import Pairs


def take_pairs(kind: int, pairs: Any, values: Any, n_points: int | None, weights: Any, name: str) -> Pairs:
    """Return the pairs with their values and weights, or raise an error that names the row and the cure."""
    if "dask" in sys.modules and not isinstance(pairs, np.ndarray | list):
        from quartic.distributed.inputs import is_dask_array, is_dask_frame

        if is_dask_array(pairs) or is_dask_frame(pairs):
            from quartic.losses.blocks.dask_distances import DaskPairs

            return cast(Pairs, DaskPairs(pairs, values, n_points, weights))
    space = next((space_of(A) for A in (pairs, values, weights) if is_torch(A)), HOST)
    pairs, values, weights, n = check_pairs(pairs, values, n_points, weights, name, space=space)
    if space is HOST:
        return sort_pairs(kind, pairs, values, weights, n)
    from quartic.losses.pairs.torch import sort_tensors

    with space.errors(f"{n} points with {len(pairs)} pairs", 120.0 * len(pairs)):
        refuse_self_pairs(pairs)
        return sort_tensors(kind, pairs, values, weights, n)


def place_pairs(pairs: Pairs, space: Space) -> Pairs:
    """Return pairs of the host where they are to live."""
    if space is HOST:
        return pairs
    from quartic.losses.pairs.torch import move_pairs

    return move_pairs(pairs, cast(Any, space).device)


def take_intervals(kind: int, pairs: Any, lower: Any, upper: Any, n_points: int | None, weights: Any) -> Pairs:
    """Return the pairs with bounds, of which the upper ones may be infinite."""
    pairs, lower, weights, n = check_pairs(pairs, lower, n_points, weights, "lower")
    given = real_array(upper, "upper")
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
    pairs: Any, values: Any, n_points: int | None, weights: Any, name: str, *, space: Space = HOST
) -> tuple[Any, Any, Any, int]:
    """Return pairs, values, weights as clean arrays and the number of points, or raise an error naming row and cure.

    All are brought to the ``space``; tensors must be there already.
    """
    pairs, xp = as_array(space.take(pairs, "pairs"), "pairs"), space.xp
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(f"pairs must have shape (m, 2), one pair (i, j) a row, got {tuple(pairs.shape)}")
    if len(pairs) == 0:
        raise ValueError("there are no pairs; at least one known value is needed")
    if not (kind_of(pairs) in "iu" or (kind_of(pairs) == "f" and bool((pairs == xp.floor(pairs)).all()))):
        raise TypeError(f"pairs must be integer indices, got dtype {pairs.dtype}")
    pairs = xp.asarray(pairs, dtype=xp.int64)
    if int(pairs.min()) < 0:
        row = _first((pairs < 0).any(1))
        raise ValueError(
            f"pairs must be nonnegative indices (counted from 0), but pairs[{row}] = {pairs[row].tolist()}"
        )
    largest = int(pairs.max())
    if n_points is None:
        n_points = largest + 1
    elif int(n_points) != n_points or n_points < 1:
        raise ValueError(f"n_points must be a positive integer, got {n_points!r}")
    elif largest >= n_points:
        row = _first((pairs >= n_points).any(1))
        raise ValueError(
            f"pairs[{row}] = {pairs[row].tolist()} is outside the {n_points} points; indices count from 0, "
            "so raise n_points or subtract 1 from the indices"
        )
    if n_points > np.iinfo(np.int32).max:
        raise ValueError(f"n_points must be below 2³¹, got {n_points}")
    values = check_column(values, len(pairs), name, nonnegative=True, space=space)
    if weights is not None:
        weights = check_column(weights, len(pairs), "weights", nonnegative=True, space=space)
        weights = space.astype(weights, space.float_type(values))
    return pairs, values, weights, int(n_points)


def check_column(values: Any, m: int, name: str, *, nonnegative: bool, space: Space = HOST) -> Array:
    """Return one finite number a pair, or raise an error that names the row."""
    values = real_array(space.take(values, name), name)
    if tuple(values.shape) != (m,):
        raise ValueError(f"{name} must have shape ({m},), one number for each pair, got {tuple(values.shape)}")
    clean = as_floats(values)
    least, largest = (float(clean.min()), float(clean.max())) if m else (0.0, 0.0)  # NaN where there is one
    if not (math.isfinite(least) and math.isfinite(largest)):
        row = _first(~space.xp.isfinite(clean))
        found = float(clean[row])
        raise ValueError(f"{name}[{row}] is {found}; leave unknown pairs out, every listed value must be finite")
    if nonnegative and least < 0:
        row = _first(clean < 0)
        raise ValueError(f"{name}[{row}] = {float(clean[row])} is negative; {name} must be nonnegative")
    return clean


def _first(wanted: Any) -> int:
    found = first_entry(wanted)
    assert found is not None
    return found[0]


def refuse_self_pairs(pairs: Any) -> None:
    """Raise where a pair joins a point to itself."""
    itself = first_entry(pairs[:, 0] == pairs[:, 1])
    if itself is not None:
        found = pairs[itself[0]].tolist()
        raise ValueError(f"pairs[{itself[0]}] = {found} joins a point to itself; leave such pairs out")


def survey(pairs: Any, n: int | None = None) -> tuple[int, bool]:
    """Return the first row that joins a point to itself, or −1, and whether all is in order.

    It is where all pairs have i ≤ j, come by row, then column, and none comes twice.
    """
    from quartic.losses.pairs.numba import look_over

    rising, ordered = look_over(pairs, int(pairs.max(initial=0)) + 1 if n is None else n)
    itself: Any = () if rising else np.flatnonzero(pairs[:, 0] == pairs[:, 1])[:1]
    return int(itself[0]) if len(itself) else -1, ordered


def sort_pairs(
    kind: int, pairs: Any, values: Array, weights: Array | None, n: int, *, upper: Array | None = None,
    diagonal: bool = False,
) -> Pairs:  # fmt: skip
    """Return the pairs with i < j (i ≤ j where the ``diagonal`` may be among them) sorted by row, each once.

    A pair given more than once must say the same thing each time; otherwise a ValueError names it.
    """
    itself, ordered = survey(pairs, n)
    if itself >= 0 and not diagonal:
        refuse_self_pairs(pairs)
    low, high = pairs[:, 0], pairs[:, 1]
    order: Any = None
    if not ordered:
        low, high = np.minimum(low, high), np.maximum(low, high)
        # a conversion of SciPy's sorts by counting: a general sort would cost as much as solving the problem
        places = sp.coo_array((np.arange(len(pairs)) + 1, (low, high)), shape=(n, n)).tocsr()
        named = {"": values, "weight ": weights, "upper bound ": upper}
        order = places.data - 1 if places.nnz == len(pairs) else each_once(low, high, n, named)
        low, high = low[order], high[order]
    start = np.searchsorted(low, np.arange(n + 1))
    target = values.copy() if order is None else values[order]
    weight, top = (None if A is None else A.copy() if order is None else A[order] for A in (weights, upper))
    return Pairs(kind, start, high.astype(np.int32), target, weight, top)


def each_once(low: Any, high: Any, n: int, columns: dict[str, Any], what: str = "pair", of: str = "") -> Any:
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
                f"the {what} ({int(key[k]) // n}, {int(key[k]) % n}){of} is given twice and differs: "
                f"{word}{float(one[k])} in row {int(order[k])}, {float(two[k])} in row {int(order[k + 1])}; "
                "keep one of them, or their mean"
            )
    return order[xp.concatenate([xp.ones_like(again[:1]), ~again])]
