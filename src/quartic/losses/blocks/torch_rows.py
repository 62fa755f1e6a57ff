"""A symmetric matrix whose rows are divided among the processes of a torch group, a device each."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from quartic.arrays.checks import check_real
from quartic.arrays.space_torch import DOUBLE, DeviceSpace, finite_matrix
from quartic.losses.factor.matrix import Matrix, check_square
from quartic.losses.factor.torch_matrix import (
    canonical_parts,
    column,
    compare_suspects,
    csr,
    csr_parts,
    dense_row,
    random_signs,
    row_pieces,
    sum_of_squares,
)  # fmt: skip


class RowBlocks(Matrix):
    r"""The rows of M that this process has; the processes together have all of them, in the order of their ranks.

    Each makes the rows of :math:`MX` that it has the rows of M for, and these are exchanged: nothing else is. X, and
    all that is computed from it, every process has for itself: the same numbers in the same order, so that all decide
    alike.

    Parameters
    ----------
    rows : tensor (n_k, n)
        The block of this process, dense or sparse, on its device.
    group : torch.distributed.ProcessGroup, optional
        The processes; all of them when left out.

    Notes
    -----
    Every process makes the same calls with the same settings: the same seed (an int for ``random_state``, not None),
    and limits on iterations rather than on time. Shapes, finite numbers and symmetry are checked by all together.
    """

    shows_entries = False
    largest: float

    def __init__(self, rows: torch.Tensor, group: Any = None) -> None:
        if not (dist.is_available() and dist.is_initialized()):
            raise RuntimeError(
                "row blocks need a group of processes: start them with torchrun, and call "
                'torch.distributed.init_process_group("nccl") first ("gloo" on CPUs)'
            )
        self.group, self.device, self.space = group, rows.device, DeviceSpace(rows.device)
        fault, facts = "", (0, 0.0, 0.0, 0.0)
        try:
            self.M, values = _checked(rows.detach())
            self.dtype = np.float32 if values.dtype == torch.float32 else np.float64
            largest = float(values.abs().max()) if values.numel() else 0.0
            facts = (values.numel(), sum_of_squares(values), float(values.sum(dtype=DOUBLE)), largest)
        except (TypeError, ValueError) as error:  # told to all, or the others would wait for ever
            fault = str(error)
        told: list[Any] = [None] * dist.get_world_size(group)
        dist.all_gather_object(told, (fault, tuple(rows.shape), str(rows.dtype), facts), group)
        for rank, (what, shape, dtype, _) in enumerate(told):
            if what or dtype != told[0][2] or shape[1] != told[0][1][1]:
                raise ValueError(f"process {rank}: {what or f'rows has shape {shape} and {dtype}, unlike process 0'}")
        self.sizes = [shape[0] for _, shape, _, _ in told]
        self.n = sum(self.sizes)
        check_square((self.n, told[0][1][1]), "M, all rows together,")
        self.first = sum(self.sizes[: dist.get_rank(group)])
        entries, squares, totals, extremes = zip(*(part[3] for part in told), strict=True)
        self._entries, self._total = float(sum(entries)), float(sum(totals))
        self.squared_norm, self.largest = float(sum(squares)), float(max(extremes))
        self._check_symmetric()

    def product(self, X: Any, out: Any = None) -> Any:
        M, most = self.M, max(self.sizes)
        if X.dtype != M.dtype:
            M = M.to(X.dtype) if M.layout == torch.strided else csr(*csr_parts(M)[:2], M.values().to(X.dtype), self.n)
        mine = X.new_zeros((most + 1, X.shape[1]))
        mine[: len(M)] = M @ X
        mine[most] = X.sum(dim=0)  # by which all see that they have the same X
        blocks = X.new_empty((len(self.sizes), *mine.shape))
        dist.all_gather(list(blocks.unbind()), mine, self.group)
        if not bool(((blocks[:, most] == mine[most]) | mine[most].isnan()).all()):
            raise ValueError("the processes have different X; give all of them the same start or random_state (an int)")
        return torch.cat([block[:size] for block, size in zip(blocks, self.sizes, strict=True)])

    def entries_per_row(self) -> float:
        return self._entries / self.n

    def total(self) -> tuple[float, int]:
        return self._total, 0

    def _check_symmetric(self) -> None:
        """Compare Mw with Mᵀw, and where they differ rows with columns."""
        if self.largest == 0:
            return
        w = random_signs(self.n, torch.Generator(self.device).manual_seed(0))
        back, mine = torch.zeros_like(w), slice(self.first, self.first + len(self.M))
        if self.M.layout == torch.strided:
            for part, weights in zip(self.M.split(1024), w[mine].split(1024), strict=True):
                back += weights @ part.to(DOUBLE)
        else:
            start, columns, values = csr_parts(self.M)
            for rows, some in row_pieces(start):
                back.index_add_(0, columns[some].to(torch.int64), values[some].to(DOUBLE) * w[mine][rows])
        dist.all_reduce(back, group=self.group)

        def row_and_column(i: int) -> tuple[torch.Tensor, torch.Tensor]:
            pair = torch.zeros((2, self.n), dtype=DOUBLE, device=self.device)
            if mine.start <= i < mine.stop:
                pair[0] = dense_row(self.M, i - self.first)
            pair[1, mine] = column(self.M, i)
            dist.all_reduce(pair, group=self.group)
            return pair[0], pair[1]

        gap = (self.product(w[:, None])[:, 0] - back).abs() / self.largest
        compare_suspects(gap, self.largest, self.M.dtype, row_and_column, "M")


def _checked(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a block as this process multiplies with it, and its entries."""
    if rows.ndim != 2:
        raise ValueError(f"rows must be a 2-D tensor, got shape {tuple(rows.shape)}")
    if rows.layout == torch.strided:
        block = finite_matrix(rows, "rows")
        return block, block
    check_real(rows, "rows")
    parts = canonical_parts(rows, "rows")
    return csr(*parts, rows.shape[1]), parts[2]
