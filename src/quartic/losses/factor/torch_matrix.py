"""A symmetric matrix M given as a torch tensor, dense or sparse, checked and multiplied on its own device."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from quartic.arrays.checks import check_real
from quartic.arrays.space_torch import DOUBLE, DeviceSpace, dtype_for, finite_matrix, triton_serves
from quartic.losses.factor.matrix import ASYMMETRY, Matrix, StoredMatrix, check_square, refuse

_SPARSE = (torch.sparse_csr, torch.sparse_coo, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
# Where X has more entries, kernels that the host launches one by one are as fast as replayed iterations of a method.
_LAUNCH_BOUND = {"inertial": 4_000_000, "lbfgs": 64_000_000}
# Rows compared at a time with their transposes, and entries looked at together
_ROWS, _ENTRIES = 1024, 1 << 24
# So many rows that seem to differ from their columns are compared with them.
_SUSPECTS = 32

Parts = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def as_torch_matrix(M: torch.Tensor, name: str = "M") -> Matrix:
    """Return the tensor as a `Matrix`."""
    check_real(M, name)
    return TorchSparseMatrix(M.detach(), name) if M.layout in _SPARSE else TorchDenseMatrix(M.detach(), name)


class TorchMatrix(StoredMatrix):
    """A tensor."""

    def _sum_of_squares(self, entries: Any) -> float:
        return sum_of_squares(entries)

    def replays(self, X: Any, method: str) -> bool:
        return X.numel() <= _LAUNCH_BOUND[method] and triton_serves(X, 128 if method == "lbfgs" else X.shape[1])


class TorchDenseMatrix(TorchMatrix):
    """A dense tensor."""

    def __init__(self, M: torch.Tensor, name: str = "M") -> None:
        check_square(tuple(M.shape), name)
        self.M = finite_matrix(M, name)
        self.n = len(M)
        self.dtype = np.float32 if self.M.dtype == torch.float32 else np.float64
        self.space = DeviceSpace(M.device)
        largest = max(abs(extreme) for extreme in torch.stack(self.M.aminmax()).tolist())
        strips = range(0, self.n, _ROWS)
        gaps = torch.stack([self._gap(first).amax() for first in strips]).tolist()
        worst = int(np.argmax(gaps))
        if gaps[worst] > ASYMMETRY[self.dtype] * largest:
            first, gap = strips[worst], self._gap(strips[worst])
            i, j = (first + k for k in divmod(int(gap.argmax()), gap.shape[1]))
            refuse(i, j, float(self.M[i, j]), float(self.M[j, i]), name)
        self.squared_norm = self._sum_of_squares(self.M)

    def _gap(self, first: int) -> torch.Tensor:
        """Return |M − Mᵀ| in a strip of rows, from its first on the diagonal."""
        return (self.M[first : first + _ROWS, first:] - self.M[first:, first : first + _ROWS].T).abs_()

    def total(self) -> tuple[float, int]:
        ones = torch.ones((self.n, 1), dtype=self.M.dtype, device=self.M.device)
        return float(self.product(ones).sum(dtype=DOUBLE)), 0  # a third of the time of a sum over all entries

    def product(self, X: Any, out: Any = None) -> Any:
        if X.dtype == self.M.dtype:
            return torch.mm(self.M.T, X, out=out)  # the same, and quicker on a GPU by up to a third where X is narrow
        out = torch.empty_like(X) if out is None else out
        for strip, rows in zip(self.M.split(_ROWS), out.split(_ROWS), strict=True):  # M is not to be had twice
            torch.mm(strip.to(X.dtype), X, out=rows)
        return out


class TorchSparseMatrix(TorchMatrix):
    """A sparse tensor, kept as CSR with 32-bit indices where they suffice."""

    def __init__(self, M: torch.Tensor, name: str = "M") -> None:
        check_square(tuple(M.shape), name)
        self.n = M.shape[0]
        self.space = DeviceSpace(M.device)
        parts = canonical_parts(M, name)
        self.dtype = np.float32 if parts[2].dtype == torch.float32 else np.float64
        self.M = csr(*parts, self.n)
        check_symmetric(self.M, name)
        self.squared_norm = self._sum_of_squares(parts[2])

    def product(self, X: Any, out: Any = None) -> Any:
        if X.dtype == self.M.dtype:
            return torch.mm(self.M, X, out=out)
        out = torch.empty_like(X) if out is None else out
        start, columns, values = csr_parts(self.M)
        step = max(self.n * _ENTRIES // max(len(values), 1), 1)
        bounds = [*range(0, self.n, step), self.n]
        ends = start[bounds].tolist()
        for first, last, a, b in zip(bounds, bounds[1:], ends, ends[1:], strict=False):
            part = csr(start[first : last + 1] - a, columns[a:b], values[a:b].to(X.dtype), self.n)
            torch.mm(part, X, out=out[first:last])
        return out

    def entries(self) -> Any:
        return self.M.values()

    def places(self) -> tuple[Any, Any]:
        start = self.M.crow_indices()
        rows = torch.repeat_interleave(torch.arange(self.n, device=start.device), start.diff())
        return rows, self.M.col_indices().to(torch.int64)

    def with_entries(self, entries: Any) -> torch.Tensor:
        return csr(self.M.crow_indices(), self.M.col_indices(), entries, self.n)


def csr(start: torch.Tensor, columns: torch.Tensor, values: torch.Tensor, n: int) -> torch.Tensor:
    """Return a CSR tensor of n columns; that torch calls such tensors a beta feature is not passed on."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse", category=UserWarning)
        return torch.sparse_csr_tensor(start, columns, values, (len(start) - 1, n), check_invariants=False)


def sum_of_squares(entries: torch.Tensor) -> float:
    """Return the sum in float64, of some entries at a time; launches take longer than the sums where those are few."""
    parts = entries.reshape(-1).split(16 * _ENTRIES)
    return float(sum(torch.linalg.vector_norm(part, dtype=DOUBLE).square() for part in parts))


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
    if not sorted_already:  # one place may have several entries, which add up
        rows = torch.arange(len(start) - 1, device=start.device).repeat_interleave(start.diff())
        merged = torch.sparse_coo_tensor(torch.stack([rows, columns.to(rows.dtype)]), values, M.shape).coalesce()
        (rows, columns), values = merged.indices(), merged.values()
        counts = torch.bincount(rows, minlength=len(start) - 1)
        start, columns = torch.cat([start[:1], counts.cumsum(0).to(index)]), columns.to(index)
    if len(values) and not torch.stack(values.aminmax()).isfinite().all():
        at = int((~torch.isfinite(values)).byte().argmax())
        row = int(torch.searchsorted(start, at, right=True)) - 1
        raise ValueError(f"{name} must be finite, but {name}[{row}, {int(columns[at])}] is {float(values[at])}")
    return start, columns, values


def random_signs(n: int, generator: torch.Generator) -> torch.Tensor:
    """Return n numbers of random sign and size, between 1 and 2."""
    w = torch.rand(n, generator=generator, dtype=DOUBLE, device=generator.device).mul_(2).sub_(1)
    return w + torch.where(w < 0, -1.0, 1.0)


def check_symmetric(M: torch.Tensor, name: str) -> None:
    r"""Raise where entries differ from their mirror images by more than round-off, and name a pair of them.

    A row is suspect where :math:`(M - M^\top)w` is not small for one of two fixed vectors w with random signs and sizes
    between 1 and 2: one wrong entry in a row always shows, several cannot all cancel, but for vanishing odds.
    """
    (start, columns, values), n = csr_parts(M), M.shape[0]
    largest = max(abs(float(end)) for end in values.aminmax()) if len(values) else 0.0
    if largest == 0:
        return
    generator, worst = torch.Generator(values.device).manual_seed(0), 0.0
    for _ in range(2):
        w = random_signs(n, generator)
        gap = torch.zeros_like(w)
        for rows, part in row_pieces(start):
            here, entries = columns[part].to(torch.int64), values[part].to(DOUBLE) / largest
            gap.index_add_(0, rows, entries * w[here]).index_add_(0, here, entries * w[rows], alpha=-1)
        worst = torch.maximum(gap.abs(), torch.as_tensor(worst, dtype=DOUBLE, device=gap.device))

    def row_and_column(i: int) -> tuple[torch.Tensor, torch.Tensor]:
        return dense_row(M, i), column(M, i)

    compare_suspects(worst, largest, M.dtype, row_and_column, name)


def compare_suspects(
    gap: Any, largest: float, dtype: torch.dtype, row_and_column: Callable[[int], tuple[Any, Any]], name: str
) -> None:
    """Compare rows with their columns, those of largest gap, and raise where entries differ by more than round-off."""
    tolerance = ASYMMETRY[np.float32 if dtype == torch.float32 else np.float64]
    n_suspects = min(_SUSPECTS, int((~(gap <= 0.5 * tolerance)).sum()))
    for i in gap.argsort(descending=True)[:n_suspects].tolist():
        row, back = row_and_column(i)
        j = int((row - back).abs().argmax())
        if abs(float(row[j] - back[j])) > tolerance * largest:
            pair = (float(row[j]), float(back[j]))
            refuse(min(i, j), max(i, j), *(pair if i < j else pair[::-1]), name)


def csr_parts(M: torch.Tensor) -> Parts:
    """Return row starts, columns and values."""
    return M.crow_indices(), M.col_indices(), M.values()


def dense_row(M: torch.Tensor, i: int) -> torch.Tensor:
    """Return a row of a dense or CSR tensor, in float64."""
    if M.layout == torch.strided:
        return M[i].to(DOUBLE)
    start, columns, values = csr_parts(M)
    row, some = torch.zeros(M.shape[1], dtype=DOUBLE, device=M.device), slice(int(start[i]), int(start[i + 1]))
    row[columns[some].to(torch.int64)] = values[some].to(DOUBLE)
    return row


def column(M: torch.Tensor, j: int) -> torch.Tensor:
    """Return a column of a dense or CSR tensor, in float64."""
    unit = torch.zeros((M.shape[1], 1), dtype=M.dtype, device=M.device)
    unit[j] = 1
    return (M @ unit)[:, 0].to(DOUBLE)
