"""Distances in a matrix, with gaps or without, made into a list of pairs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from quartic.arrays import Array
from quartic.locating.input import Measurements, from_pairs, keys_of

_BLOCK = 1 << 22  # entries of a matrix looked at together
_ASYMMETRY = 1e-8  # relative; what rounding in somebody's file may leave


def from_matrix(D: Any, weights: Any, lower: Any, upper: Any, anchors: Any, rank: int) -> Measurements:
    """Return the measurements of a matrix with NaN where unknown, or a sparse one whose stored entries are known."""
    n = D.shape[0]
    pairs, distances = known_entries(D, "D")
    if lower is not None or upper is not None:
        keys = [keys_of(pairs, n)]
        found: dict[str, tuple[NDArray[np.int64], Array]] = {}
        for name, bound in (("lower", lower), ("upper", upper)):
            if bound is not None:
                at, values = known_entries(_square(bound, n, name), name)
                useful = np.isfinite(values) & ((values > 0) | (name == "upper"))
                found[name] = keys_of(at[useful], n), values[useful]
                keys.append(found[name][0])
        every = np.unique(np.concatenate(keys))
        distances = _spread(every, keys[0], distances)
        bounds = {name: _spread(every, *pair) for name, pair in found.items()}
        lower, upper = bounds.get("lower"), bounds.get("upper")
        pairs = np.column_stack(np.divmod(every, n))
    if weights is not None and not isinstance(weights, str):
        at, values = known_entries(_square(weights, n, "weights"), "weights")
        weights = _spread(keys_of(pairs, n), keys_of(at, n), values, outside=False)
        missing = np.isnan(weights)
        if missing.any():
            i, j = pairs[int(np.argmax(missing))].tolist()
            raise ValueError(f"weights has no entry for the known pair ({i}, {j}); give one, 0 to leave the pair out")
    if len(pairs) == 0:
        raise ValueError(
            "D holds no known distance: every entry off the diagonal is NaN or not stored; at least one is needed"
        )
    return from_pairs(pairs, distances, n, weights, lower, upper, anchors, rank)


def known_entries(D: Any, name: str) -> tuple[NDArray[np.int64], Array]:
    """Return the pairs i < j of a symmetric matrix that are known, and their values, a block of rows at a time.

    An entry may be given on one side of the diagonal only; given on both, the two must agree.
    """
    if sp.issparse(D):
        return _known_sparse(D, name)
    pairs, values = [], []
    for first, one in _upper_blocks(D, name):
        known = ~np.isnan(one) & (np.arange(one.shape[1]) > np.arange(len(one))[:, None])
        pairs.append(np.argwhere(known) + first)
        values.append(one[known])
    return np.concatenate(pairs).astype(np.int64), np.concatenate(values)


def is_complete(D: Any) -> bool:
    """Tell whether every distance is known, having checked them as `known_entries` does."""
    if sp.issparse(D):
        return False
    for _, one in _upper_blocks(D, "D"):
        missing = np.isnan(one)
        np.fill_diagonal(missing, False)
        if missing.any():
            return False
    return True


def _upper_blocks(D: Any, name: str) -> Iterator[tuple[int, Array]]:
    """Yield blocks of rows from the diagonal on, checked; an entry that stands only below it is taken from there."""
    n = D.shape[0]
    rows = max(1, _BLOCK // max(n, 1))
    for first in range(0, n, rows):
        upper = np.asarray(D[first : first + rows, first:], dtype=np.float64)
        mirror = np.asarray(D[first:, first : first + rows], dtype=np.float64).T
        diagonal = np.diagonal(upper)
        if name == "D" and (diagonal > 0).any():
            i = first + int(np.argmax(diagonal > 0))
            raise ValueError(f"{name}[{i}, {i}] = {float(D[i, i])}, but a point has distance 0 to itself")
        _refuse_negative(upper, name, first)
        _refuse_negative(mirror, name, first)
        gap = np.abs(upper - mirror) > _ASYMMETRY * np.maximum(np.abs(upper), np.abs(mirror))
        if gap.any():
            i, j = np.argwhere(gap)[0] + first
            raise ValueError(
                f"{name} is not symmetric: {name}[{i}, {j}] = {float(D[i, j])} but {name}[{j}, {i}] = "
                f"{float(D[j, i])}; give one of them and NaN for the other, or their mean"
            )
        yield first, np.where(np.isnan(upper), mirror, upper)


def _refuse_negative(block: Array, name: str, first: int) -> None:
    if (block < 0).any():
        i, j = np.argwhere(block < 0)[0] + first
        value = float(block[i - first, j - first])
        raise ValueError(f"Negative values in data: {name}[{i}, {j}] = {value}, but a distance cannot be negative")


def _known_sparse(D: Any, name: str) -> tuple[NDArray[np.int64], Array]:
    entries = sp.coo_array(D)
    i, j, values = entries.row.astype(np.int64), entries.col.astype(np.int64), entries.data.astype(np.float64)
    if name == "D" and (values[i == j] > 0).any():
        at = int(i[(i == j) & (values > 0)][0])
        raise ValueError(f"{name}[{at}, {at}] is not 0, but a point has distance 0 to itself")
    if (values < 0).any():
        at = int(np.argmax(values < 0))
        raise ValueError(
            f"Negative values in data: {name}[{i[at]}, {j[at]}] = {values[at]}, but a distance cannot be negative"
        )
    known = (i != j) & ~np.isnan(values)
    i, j, values = i[known], j[known], values[known]
    n = D.shape[0]
    key = np.minimum(i, j) * n + np.maximum(i, j)
    order = np.argsort(key, kind="stable")
    key, values = key[order], values[order]
    again = np.concatenate([[False], key[1:] == key[:-1]]) if len(key) else np.zeros(0, dtype=bool)
    later = np.flatnonzero(again)
    gap = np.abs(values[later] - values[later - 1]) > _ASYMMETRY * np.maximum(values[later], values[later - 1])
    if gap.any():
        at = int(later[np.argmax(gap)])
        a, b = divmod(int(key[at]), n)
        raise ValueError(
            f"{name} is not symmetric: the pair ({a}, {b}) is stored as {values[at - 1]} and as {values[at]}; "
            "store one of them, or their mean"
        )
    return np.column_stack(np.divmod(key[~again], n)), values[~again]


def _square(M: Any, n: int, name: str) -> Any:
    M = M if sp.issparse(M) else np.asarray(M)
    if M.shape != (n, n):
        raise ValueError(f"{name} must have the shape of D, ({n}, {n}), got {M.shape}")
    return M


def _spread(every: NDArray[np.int64], keys: NDArray[np.int64], values: Array, outside: bool = True) -> Array:
    """Return one number for each of the sorted keys ``every``, NaN where there is none."""
    column = np.full(len(every), np.nan)
    at = np.searchsorted(every, keys)
    if not outside:
        inside = (at < len(every)) & (every[np.minimum(at, len(every) - 1)] == keys)
        at, values = at[inside], values[inside]
    column[at] = values
    return column
