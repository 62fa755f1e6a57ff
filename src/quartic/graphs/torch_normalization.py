"""`normalize_graph` of a tensor, on its device and a piece at a time; only walks are followed on the host."""

from __future__ import annotations

from typing import Any

import torch

from quartic.arrays.space_torch import DOUBLE
from quartic.graphs.inputs import as_adjacency
from quartic.graphs.normalization import Kind, choose, is_normalized, refuse_negative, walk_matrix
from quartic.losses.devices import moved, to_scipy
from quartic.losses.factor.torch_matrix import csr, row_pieces

_ROWS, _ENTRIES = 1024, 1 << 24  # rows of a dense graph scaled together, entries looked at together


def choose_for_tensor(matrix: Any) -> Kind | None:
    """Return how a graph should be normalised, given as the `Matrix` of a tensor."""
    M, entries = matrix.M, matrix.entries()

    def similar_to_itself() -> bool:
        diagonal = M.diagonal() if M.layout == torch.strided else M.values().new_zeros(matrix.n)
        if M.layout != torch.strided:
            for rows, part in row_pieces(M.crow_indices()):
                on = M.col_indices()[part] == rows
                diagonal[rows[on]] = entries[part][on]
        return bool((diagonal[_row_sums(matrix) > 0] != 0).all())

    def normalized() -> bool:
        return is_normalized(matrix.product, entries.new_ones((matrix.n, 1)))

    least = float(entries.min()) if entries.numel() else 0.0
    count = sum(part.count_nonzero() for part in entries.reshape(-1).split(_ENTRIES))  # it takes nine bytes an entry
    return choose(matrix.n, int(count), least, normalized, similar_to_itself)


def normalize_tensor(matrix: Any, kind: Kind | None) -> torch.Tensor:
    """Return the matrix to factorise of such a graph, as a tensor on its device."""
    M: torch.Tensor = matrix.M
    entries = matrix.entries()
    if kind is None:
        return M
    if entries.numel() and float(entries.min()) < 0:
        refuse_negative(as_adjacency(to_scipy(M)))
    if kind == "walks":
        walks: torch.Tensor = moved(walk_matrix(as_adjacency(to_scipy(M))).astype(matrix.dtype), M.device)
        return walks
    degree = _row_sums(matrix)
    return scale_both_sides(M, inverse_roots(degree + degree.mean() if kind == "regularized" else degree))


def _row_sums(matrix: Any) -> Any:
    return matrix.product(torch.ones((matrix.n, 1), dtype=DOUBLE, device=matrix.M.device))[:, 0]


def inverse_roots(x: torch.Tensor) -> torch.Tensor:
    """Return 1/√x, and 0 where x is 0."""
    return torch.where(x > 0, x.rsqrt(), 0.0)


def scale_both_sides(M: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
    """Return M with each entry multiplied by the factors of both ends."""
    # s_i s_j first: the product is then the same for (i, j) and (j, i), to the last bit.
    if M.layout == torch.strided:
        both = zip(M.split(_ROWS), factors.split(_ROWS), strict=True)
        return torch.cat([(rows * (mine[:, None] * factors)).to(M.dtype) for rows, mine in both])
    values = torch.empty_like(M.values())
    for rows, part in row_pieces(M.crow_indices()):
        values[part] = M.values()[part] * (factors[rows] * factors[M.col_indices()[part].to(torch.int64)])
    return csr(M.crow_indices(), M.col_indices(), values, M.shape[0])
