"""Checks of pair lists given as torch tensors, and their sorting, on the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from quartic.arrays.space import space_of
from quartic.arrays.space_torch import dtype_for
from quartic.losses.pairs.input import each_once
from quartic.losses.pairs.pairs import Pairs


def take_tensors(kind: int, pairs: Any, values: Any, n_points: int | None, weights: Any, name: str) -> Pairs:
    """Return the pairs with their values and weights, or raise an error that names the row and the cure."""
    pairs, values, weights, n = check_pairs(pairs, values, n_points, weights, name)
    with space_of(pairs).errors(f"{n} points with {len(pairs)} pairs", 120.0 * len(pairs)):
        return _in_both_rows(kind, pairs, values, weights, n)


def check_pairs(
    pairs: Any, values: Any, n_points: int | None, weights: Any, name: str
) -> tuple[Any, Any, Any | None, int]:
    """Return pairs, values, weights as clean tensors on one device and the number of points, or raise."""
    device = next(A.device for A in (pairs, values, weights) if isinstance(A, torch.Tensor))
    pairs = _here(pairs, device, "pairs")
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(f"pairs must have shape (m, 2), one pair (i, j) a row, got {tuple(pairs.shape)}")
    if len(pairs) == 0:
        raise ValueError("there are no pairs; at least one known value is needed")
    if (
        pairs.is_complex()
        or pairs.dtype == torch.bool
        or (pairs.is_floating_point() and bool((pairs.frac() != 0).any()))
    ):
        raise TypeError(f"pairs must be integer indices, got dtype {pairs.dtype}")
    pairs = pairs.to(torch.int64)
    low, high = (int(k) for k in torch.stack([pairs.min(), pairs.max()]))
    if low < 0:
        row = _first((pairs < 0).any(dim=1))
        raise ValueError(
            f"pairs must be nonnegative indices (counted from 0), but pairs[{row}] = {pairs[row].tolist()}"
        )
    if n_points is None:
        n_points = high + 1
    elif int(n_points) != n_points or n_points < 1:
        raise ValueError(f"n_points must be a positive integer, got {n_points!r}")
    elif high >= n_points:
        row = _first((pairs >= n_points).any(dim=1))
        raise ValueError(
            f"pairs[{row}] = {pairs[row].tolist()} is outside the {n_points} points; indices count from 0, "
            "so raise n_points or subtract 1 from the indices"
        )
    if n_points >= 2**31:
        raise ValueError(f"n_points must be below 2³¹, got {n_points}")
    values = _column(values, len(pairs), device, name)
    if weights is not None:
        weights = _column(weights, len(pairs), device, "weights").to(values.dtype)
    return pairs, values, weights, int(n_points)


def _here(A: Any, device: torch.device, name: str) -> torch.Tensor:
    if not isinstance(A, torch.Tensor):
        return torch.as_tensor(A).to(device)
    if A.device != device:
        raise ValueError(f'{name} is on {A.device}, but the other arrays are on {device}; pass {name}.to("{device}")')
    return A.detach()


def _column(values: Any, m: int, device: torch.device, name: str) -> torch.Tensor:
    values = _here(values, device, name)
    if values.is_complex():
        raise TypeError(f"{name} must be real numbers, got dtype {values.dtype}")
    if tuple(values.shape) != (m,):
        raise ValueError(f"{name} must have shape ({m},), one number for each pair, got {tuple(values.shape)}")
    clean = values.to(dtype_for(values)).contiguous()
    bad = ~torch.isfinite(clean)
    negative = clean < 0
    some = torch.stack([bad.any(), negative.any()]).tolist()
    if some[0]:
        row = _first(bad)
        raise ValueError(
            f"{name}[{row}] is {float(clean[row])}; leave unknown pairs out, every listed value must be finite"
        )
    if some[1]:
        row = _first(negative)
        raise ValueError(f"{name}[{row}] = {float(clean[row])} is negative; {name} must be nonnegative")
    return clean


def _in_both_rows(kind: int, pairs: Any, values: Any, weights: Any | None, n: int) -> Pairs:
    """Return the pairs, each in the rows of both its points, sorted by row and column.

    A row then holds all that its point takes part in: no two rows write to the same place, and sums come in one order.
    """
    i, j = pairs[:, 0], pairs[:, 1]
    if bool((i == j).any()):
        row = _first(i == j)
        raise ValueError(f"pairs[{row}] = {pairs[row].tolist()} joins a point to itself; leave such pairs out")
    low, high = torch.minimum(i, j), torch.maximum(i, j)
    order = each_once(low, high, n, {"": values, "weight ": weights})
    low, high, values = low[order], high[order], values[order]
    weights = None if weights is None else weights[order]
    # pairs by (low, high) are in order already; those by (high, low) need one stable sort by their row
    turned = high.sort(stable=True)[1]
    rows = torch.cat([low, high[turned]])
    place = rows.sort(stable=True)[1]  # within a row: first the larger columns, then the smaller ones, each rising
    cols = torch.cat([high, low[turned]])[place].to(torch.int32)
    start = torch.zeros(n + 1, dtype=torch.int64, device=rows.device)
    torch.cumsum(torch.bincount(rows, minlength=n), 0, out=start[1:])
    both = [None if A is None else torch.cat([A, A[turned]])[place] for A in (values, weights)]
    return Pairs(kind, start, cols, both[0], both[1], copies=2)


def move_pairs(pairs: Pairs, device: torch.device) -> Pairs:
    """Return pairs of the host, each once, on a device, in the rows of both their points: (i, i) twice in its row."""
    rows, cols = pairs.rows, pairs.cols
    order = np.lexsort((np.concatenate([cols, rows]), np.concatenate([rows, cols])))

    def both(A: Any, B: Any) -> Any:
        return torch.from_numpy(np.concatenate([A, B])[order]).to(device)

    counts = np.bincount(rows, minlength=pairs.n_points) + np.bincount(cols, minlength=pairs.n_points)
    start = torch.from_numpy(np.concatenate([[0], np.cumsum(counts)])).to(device)
    weight = None if pairs.weight is None else both(pairs.weight, pairs.weight)
    return Pairs(pairs.kind, start, both(cols, rows), both(pairs.target, pairs.target), weight, copies=2)


def _first(wanted: torch.Tensor) -> int:
    return int(wanted.nonzero()[0])
