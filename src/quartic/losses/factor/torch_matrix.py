"""A symmetric matrix M given as a torch tensor, dense or sparse, checked and multiplied on its own device."""

from __future__ import annotations

import warnings
from typing import Any, cast

import numpy as np
import torch

from quartic.arrays.space_torch import DeviceSpace, finite_matrix, triton_serves
from quartic.losses.factor import torch as torch_passes
from quartic.losses.factor.matrix import ASYMMETRY, Matrix, StoredMatrix, check_square
from quartic.losses.factor.passes import Passes
from quartic.losses.factor.torch_input import canonical_parts, check_symmetric, refuse

_SPARSE = (torch.sparse_csr, torch.sparse_coo, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
# Where X has more entries, fused kernels that the host launches one by one are as fast as replayed iterations.
_LAUNCH_BOUND = 4_000_000
# Rows compared at a time with their transposes, and entries squared at a time
_ROWS, _ENTRIES = 1024, 1 << 24


def as_torch_matrix(M: torch.Tensor, name: str = "M") -> Matrix:
    """Return the tensor as a `Matrix`."""
    if M.is_complex() or M.dtype == torch.bool:
        raise TypeError(f"{name} must be real numbers, got dtype {M.dtype}")
    return TorchSparseMatrix(M.detach(), name) if M.layout in _SPARSE else TorchDenseMatrix(M.detach(), name)


class TorchMatrix(StoredMatrix):
    """A tensor."""

    def _sum_of_squares(self, entries: Any) -> float:
        return sum_of_squares(entries)

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
        largest = max(abs(extreme) for extreme in torch.stack(self.M.aminmax()).tolist())
        strips = range(0, self.n, _ROWS)
        gaps = torch.stack([self._gap(first).amax() for first in strips]).tolist()
        worst = int(np.argmax(gaps))
        if gaps[worst] > ASYMMETRY[self.dtype] * largest:
            i, j = divmod(int(self._gap(strips[worst]).argmax()) + strips[worst] * self.n, self.n)
            refuse(i, j, float(self.M[i, j]), float(self.M[j, i]), name)
        self.squared_norm = self._sum_of_squares(self.M)

    def _gap(self, first: int) -> torch.Tensor:
        """Return |M − Mᵀ| in a strip of rows."""
        return (self.M[first : first + _ROWS] - self.M[:, first : first + _ROWS].T).abs_()

    def product(self, X: Any, out: Any = None) -> Any:
        """Return M X."""
        if X.dtype == self.M.dtype:
            return torch.mm(self.M.T, X, out=out)  # the same, and quicker on a GPU by up to a third where X is narrow
        out = torch.empty_like(X) if out is None else out
        for strip, rows in zip(self.M.split(_ROWS), out.split(_ROWS), strict=True):  # M is not to be had twice
            torch.mm(strip.to(X.dtype), X, out=rows)
        return out

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
        parts = canonical_parts(M, name)
        self.dtype = np.float32 if parts[2].dtype == torch.float32 else np.float64
        check_symmetric(parts, name)
        self.M = csr(*parts, self.n)
        self.squared_norm = self._sum_of_squares(parts[2])

    def product(self, X: Any, out: Any = None) -> Any:
        """Return M X."""
        if X.dtype == self.M.dtype:
            return torch.mm(self.M, X, out=out)
        out = torch.empty_like(X) if out is None else out
        start, columns, values = self.M.crow_indices(), self.M.col_indices(), self.M.values()
        step = max(self.n * _ENTRIES // max(len(values), 1), 1)
        bounds = [*range(0, self.n, step), self.n]
        ends = start[bounds].tolist()
        for first, last, a, b in zip(bounds, bounds[1:], ends, ends[1:], strict=False):
            part = csr(start[first : last + 1] - a, columns[a:b], values[a:b].to(X.dtype), self.n)
            torch.mm(part, X, out=out[first:last])
        return out

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
    """Return a CSR tensor of n columns; that torch calls such tensors a beta feature is not passed on."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse", category=UserWarning)
        return torch.sparse_csr_tensor(start, columns, values, (len(start) - 1, n), check_invariants=False)


def sum_of_squares(entries: torch.Tensor) -> float:
    """Return the sum in float64, of some entries at a time."""
    return float(sum(part.to(torch.float64).square().sum() for part in entries.reshape(-1).split(_ENTRIES)))
