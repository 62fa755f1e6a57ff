"""A sparse tensor as a user gives it: brought into canonical CSR form and checked, some of its rows at a time.

A graph may take half the memory of its device, so that nothing here sorts, copies or widens all of its entries at once.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from quartic.arrays.space_torch import DOUBLE, dtype_for
from quartic.losses.factor.matrix import ASYMMETRY

Parts = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
# About so many entries are looked at together.
_ENTRIES = 1 << 24


def row_pieces(start: torch.Tensor) -> Iterator[tuple[torch.Tensor, slice]]:
    """Yield the row of each entry, and where these entries are, for ranges of rows of about `_ENTRIES` entries."""
    n, total = len(start) - 1, int(start[-1])
    marks = torch.searchsorted(start, torch.arange(0, total, _ENTRIES, dtype=start.dtype, device=start.device))
    ends = torch.unique_consecutive(torch.cat([marks.new_zeros(1), marks, marks.new_full((1,), n)]))
    for (first, a), (last, b) in pairwise(torch.stack([ends, start[ends].to(ends.dtype)], 1).tolist()):
        if b > a:
            rows = torch.arange(first, last, device=start.device)
            yield rows.repeat_interleave(start[first : last + 1].diff(), output_size=b - a), slice(a, b)


def canonical_parts(M: torch.Tensor, name: str) -> Parts:
    """Return row starts, columns and values of a CSR form, each entry once, in the order of rows, then columns.

    Indices are of 32 bits where those suffice; what is so already is not copied.
    """
    n = M.shape[1]
    if M.layout != torch.sparse_csr:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sparse", category=UserWarning)
            M = (M if M.layout == torch.sparse_coo else M.to_sparse()).coalesce().to_sparse_csr()
    start, columns, values = M.crow_indices(), M.col_indices(), M.values()
    ends = start[[0, -1]].tolist()
    if ends != [0, len(columns)] or len(values) != len(columns) or bool((start.diff() < 0).any()):
        raise ValueError(f"{name} is damaged: its crow_indices must rise from 0 to {len(values)}, its stored entries")
    index = torch.int32 if max(len(values), *M.shape) < 2**31 else torch.int64
    sorted_already = True
    for rows, part in row_pieces(start):
        here = columns[part]
        rising = (here[1:] > here[:-1]) | (rows[1:] > rows[:-1])
        least, most, each_once = torch.stack([here.amin(), here.amax(), rising.all().to(here.dtype)]).tolist()
        if least < 0 or most >= n:
            raise ValueError(f"{name} has {n} columns, but an entry with the column {least if least < 0 else most}")
        sorted_already &= bool(each_once)
    start, columns, values = start.to(index), columns.to(index), values.to(dtype_for(values))
    parts = (start, columns, values) if sorted_already else _merged(start, columns, values, n)
    _check_finite(parts, name)
    return parts


def _merged(start: torch.Tensor, columns: torch.Tensor, values: torch.Tensor, n: int) -> Parts:
    """Sort the entries of each row, of n columns, and add those that have one place."""
    found = []
    for rows, part in row_pieces(start):
        keys, place = torch.unique(rows * n + columns[part], return_inverse=True)
        sums = torch.zeros(len(keys), dtype=values.dtype, device=values.device).index_add_(0, place, values[part])
        found.append((torch.bincount(keys // n, minlength=len(start) - 1), (keys % n).to(columns.dtype), sums))
    counts = torch.stack([part[0] for part in found]).sum(0)
    start = torch.cat([start[:1], counts.cumsum(0).to(start.dtype)])
    return start, torch.cat([part[1] for part in found]), torch.cat([part[2] for part in found])


def _check_finite(parts: Parts, name: str) -> None:
    """Raise an error that names the first entry that is not finite."""
    start, columns, values = parts
    for _, part in row_pieces(start):
        bad = ~torch.isfinite(values[part])
        if bool(bad.any()):
            at = part.start + int(bad.byte().argmax())
            row = int(torch.searchsorted(start, at, right=True)) - 1
            raise ValueError(f"{name} must be finite, but {name}[{row}, {int(columns[at])}] is {float(values[at])}")


def random_signs(n: int, generator: torch.Generator) -> torch.Tensor:
    """Return n numbers of random sign and size, between 1 and 2."""
    w = torch.rand(n, generator=generator, dtype=DOUBLE, device=generator.device).mul_(2).sub_(1)
    return w + torch.where(w < 0, -1.0, 1.0)


def check_symmetric(parts: Parts, name: str) -> None:
    r"""Raise where entries differ from their mirror images by more than round-off, and name a pair of them.

    A row is suspect where :math:`(M - M^\top)w` is not small for one of two fixed vectors w with random signs and sizes
    between 1 and 2: one wrong entry in a row always shows, several cannot all cancel, but for vanishing odds. Suspect
    rows, and only those, are compared entry by entry.
    """
    start, columns, values = parts
    n, tolerance = len(start) - 1, ASYMMETRY[np.float32 if values.dtype == torch.float32 else np.float64]
    largest = max(abs(float(end)) for end in values.aminmax()) if len(values) else 0.0
    if largest == 0:
        return
    generator = torch.Generator(values.device).manual_seed(0)
    suspect = torch.zeros(n, dtype=torch.bool, device=values.device)
    for _ in range(2):
        w = random_signs(n, generator)
        gap = torch.zeros_like(w)
        for rows, part in row_pieces(start):
            here, entries = columns[part].to(torch.int64), values[part].to(DOUBLE) / largest
            gap.index_add_(0, rows, entries * w[here]).index_add_(0, here, entries * w[rows], alpha=-1)
        suspect |= ~(gap.abs() <= 0.5 * tolerance)
    _compare(parts, suspect.nonzero()[:, 0], tolerance * largest, name)


def _compare(parts: Parts, suspects: torch.Tensor, tolerance: float, name: str) -> None:
    """Compare all entries in these rows with those in these columns, some rows at a time."""
    start, columns, values = parts
    if not len(suspects):
        return
    n, count = len(start) - 1, start.diff().to(torch.int64)  # entries in a row and its column
    for _, part in row_pieces(start):
        count.index_add_(0, columns[part], torch.ones_like(columns[part], dtype=torch.int64))
    group = count[suspects].cumsum(0) // _ENTRIES
    for some in suspects.split(torch.unique_consecutive(group, return_counts=True)[1].tolist()):
        inside = torch.zeros(n, dtype=torch.bool, device=values.device)
        inside[some] = True
        keys, signed = [], []
        for rows, part in row_pieces(start):
            i, j = rows, columns[part].to(torch.int64)
            wanted = (inside[i] | inside[j]) & (i != j)
            i, j, entries = i[wanted], j[wanted], values[part][wanted].to(DOUBLE)
            keys.append(torch.minimum(i, j) * n + torch.maximum(i, j))
            signed.append(torch.where(i < j, entries, -entries))
        places, at = torch.unique(torch.cat(keys), return_inverse=True)
        gap = torch.zeros(len(places), dtype=DOUBLE, device=values.device).index_add_(0, at, torch.cat(signed)).abs_()
        if len(gap) and float(gap.max()) > tolerance:
            i, j = divmod(int(places[gap.argmax()]), n)
            refuse(i, j, _entry(parts, i, j), _entry(parts, j, i), name)


def _entry(parts: Parts, i: int, j: int) -> float:
    start, columns, values = parts
    row = slice(int(start[i]), int(start[i + 1]))
    return float(values[row][columns[row] == j].sum())


def refuse(i: int, j: int, there: Any, back: Any, name: str) -> None:
    """Raise the error of two entries that should be equal."""
    raise ValueError(
        f"{name} must be symmetric, but {name}[{i}, {j}] = {there} and {name}[{j}, {i}] = {back}; "
        f"if that is not a mistake, pass ({name} + {name}.T) / 2"
    )
