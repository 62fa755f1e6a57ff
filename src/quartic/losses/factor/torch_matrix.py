"""A symmetric matrix M given as a torch tensor, dense or sparse, checked and multiplied on its own device."""

from __future__ import annotations

import warnings
from typing import Any, cast

import numpy as np
import torch

from quartic.arrays.space_torch import DeviceSpace, dtype_for, finite_matrix, triton_serves
from quartic.losses.factor import torch as torch_passes
from quartic.losses.factor.matrix import ASYMMETRY, Matrix, StoredMatrix, check_square
from quartic.losses.factor.passes import Passes

_SPARSE = (torch.sparse_csr, torch.sparse_coo, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
# Where X has more entries, fused kernels that the host launches one by one are as fast as replayed iterations.
_LAUNCH_BOUND = 4_000_000
# Rows compared at a time with their transposes
_ROWS = 1024


def as_torch_matrix(M: torch.Tensor, name: str = "M") -> Matrix:
    """Return the tensor as a `Matrix`."""
    if M.is_complex() or M.dtype == torch.bool:
        raise TypeError(f"{name} must be real numbers, got dtype {M.dtype}")
    return TorchSparseMatrix(M.detach(), name) if M.layout in _SPARSE else TorchDenseMatrix(M.detach(), name)


class TorchMatrix(StoredMatrix):
    """A tensor."""

    def _sum_of_squares(self, entries: Any) -> float:
        return float(torch.linalg.vector_norm(entries, dtype=torch.float64)) ** 2

    def checksum(self) -> float:
        """Return ⟨w, Mw⟩ for a fixed vector w."""
        w = torch.cos(torch.arange(self.n, dtype=torch.float64, device=self.M.device)).add_(0.5)[:, None]
        return float((w * self.product(w)).sum())

    @property
    def passes(self) -> Passes:
        """Those of torch, which call Triton's kernels on a GPU."""
        return cast("Passes", torch_passes)

    def replays(self, X: Any) -> bool:
        """Tell whether launching would take longer than computing."""
        return triton_serves(X, _LAUNCH_BOUND) and X.numel() <= _LAUNCH_BOUND


class TorchDenseMatrix(TorchMatrix):
    """A dense tensor."""

    def __init__(self, M: torch.Tensor, name: str = "M") -> None:
        check_square(tuple(M.shape), name)
        self.M = finite_matrix(M, name)
        self.n = len(M)
        self.dtype = np.float32 if self.M.dtype == torch.float32 else np.float64
        self.space = DeviceSpace(M.device)
        least, greatest = self.M.aminmax()
        strips = range(0, self.n, _ROWS)
        found = [*(self._gap(first).amax() for first in strips), torch.maximum(-least, greatest)]
        *gaps, largest = torch.stack(found).tolist()
        worst = int(np.argmax(gaps))
        i, j = divmod(int(self._gap(strips[worst]).argmax()), self.n)
        _refuse(gaps[worst], largest, self.dtype, strips[worst] + i, j, self.entry, name)
        self.squared_norm = self._sum_of_squares(self.M)

    def _gap(self, first: int) -> torch.Tensor:
        """Return |M − Mᵀ| in a strip of rows."""
        return (self.M[first : first + _ROWS] - self.M[:, first : first + _ROWS].T).abs_()

    def entry(self, i: int, j: int) -> float:
        """Return M_ij."""
        return float(self.M[i, j])

    def product(self, X: Any, out: Any = None) -> Any:
        """Return M X."""
        return torch.mm(self.M if X.dtype == self.M.dtype else self.M.to(X.dtype), X, out=out)

    def entries(self) -> Any:
        """Return M."""
        return self.M

    def with_entries(self, entries: Any) -> Any:
        """Return the entries."""
        return entries


class TorchSparseMatrix(TorchMatrix):
    """A sparse tensor, kept as CSR with 32-bit indices where they suffice."""

    def __init__(self, M: torch.Tensor, name: str = "M") -> None:
        check_square(tuple(M.shape), name)
        self.n = M.shape[0]
        self.space = DeviceSpace(M.device)
        rows, columns, values = _sorted_entries(M, self.n)
        self.dtype = np.float32 if values.dtype == torch.float32 else np.float64
        bad = ~torch.isfinite(values)
        if bool(bad.any()):
            at = int(bad.nonzero()[0])
            place = f"{name}[{int(rows[at])}, {int(columns[at])}]"
            raise ValueError(f"{name} must be finite, but {place} is {float(values[at])}")
        self._check_symmetric(rows, columns, values, name)
        counts = torch.zeros(self.n + 1, dtype=torch.int64, device=M.device)
        counts[1:] = torch.bincount(rows, minlength=self.n)
        index = torch.int32 if max(len(values), self.n) < 2**31 else torch.int64
        self.M = csr(counts.cumsum(0).to(index), columns.to(index), values, self.n)
        self.squared_norm = self._sum_of_squares(values)

    def _check_symmetric(self, rows: torch.Tensor, columns: torch.Tensor, values: torch.Tensor, name: str) -> None:
        order = torch.argsort(columns * self.n + rows)
        if torch.equal(columns[order], rows) and torch.equal(rows[order], columns):
            gap = (values[order] - values).abs()
            i, j = rows, columns
        else:  # another pattern: what one side lacks is zero there
            keys = torch.cat([rows * self.n + columns, columns * self.n + rows])
            keys, place = torch.unique(keys, return_inverse=True)
            gap = torch.zeros(len(keys), dtype=values.dtype, device=values.device)
            gap = gap.index_add_(0, place, torch.cat([values, -values])).abs_()
            i, j = keys // self.n, keys % self.n
        if len(gap):
            worst = int(gap.argmax())
            at = (int(i[worst]), int(j[worst]))

            def entry(i: int, j: int) -> float:
                return float(values[(rows == i) & (columns == j)].sum())

            _refuse(float(gap[worst]), float(values.abs().max()), self.dtype, *at, entry, name)

    def product(self, X: Any, out: Any = None) -> Any:
        """Return M X."""
        M = self.M
        if X.dtype != M.dtype:
            M = self.with_entries(M.values().to(X.dtype))
        return torch.mm(M, X, out=out)

    def entries(self) -> Any:
        """Return the stored entries."""
        return self.M.values()

    def places(self) -> tuple[Any, Any]:
        """Return the rows and columns of the stored entries."""
        start = self.M.crow_indices()
        rows = torch.repeat_interleave(torch.arange(self.n, device=start.device), start.diff())
        return rows, self.M.col_indices().to(torch.int64)

    def with_entries(self, entries: Any) -> torch.Tensor:
        """Return the matrix with other entries on the same pattern."""
        return csr(self.M.crow_indices(), self.M.col_indices(), entries, self.n)


def csr(start: torch.Tensor, columns: torch.Tensor, values: torch.Tensor, n: int) -> torch.Tensor:
    """Return a CSR tensor (n, n); that torch calls such tensors a beta feature is not passed on."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse", category=UserWarning)
        return torch.sparse_csr_tensor(start, columns, values, (n, n), check_invariants=False)


def _sorted_entries(M: torch.Tensor, n: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return rows, columns and values, by row, then column, each entry once."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse", category=UserWarning)
        if M.layout == torch.sparse_csr:
            start = M.crow_indices().to(torch.int64)
            rows = torch.repeat_interleave(torch.arange(n, device=M.device), start.diff())
            columns, values = M.col_indices().to(torch.int64), M.values()
        else:
            found = (M if M.layout == torch.sparse_coo else M.to_sparse()).coalesce()
            (rows, columns), values = found.indices(), found.values()
    values = values.to(dtype_for(values))
    keys = rows * n + columns
    if len(keys) > 1 and not bool((keys[1:] > keys[:-1]).all()):
        keys, place = torch.unique(keys, return_inverse=True)
        values = torch.zeros(len(keys), dtype=values.dtype, device=values.device).index_add_(0, place, values)
        rows, columns = keys // n, keys % n
    return rows, columns, values


def _refuse(gap: float, largest: float, dtype: Any, i: int, j: int, entry: Any, name: str) -> None:
    if gap > ASYMMETRY[dtype] * largest:
        raise ValueError(
            f"{name} must be symmetric, but {name}[{i}, {j}] = {entry(i, j)} and {name}[{j}, {i}] = {entry(j, i)}; "
            f"if that is not a mistake, pass ({name} + {name}.T) / 2"
        )
