"""`quartic.graphs.normalize_graph` for tensors: all but walks where the graph is, in pieces that fit beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from quartic.arrays.space_torch import DOUBLE, dot
from quartic.graphs.normalization import ONE, PRODUCTS, Kind, decide, refuse_negative, walk_matrix
from quartic.losses.devices import moved, to_scipy
from quartic.losses.factor.torch_matrix import as_torch_matrix, csr

# Entries of a sparse tensor that are gone over at once
_PIECE = 1 << 26


def normalize_tensor(A: Any, kind: str | None) -> tuple[Any, Kind | None]:
    """Return what `normalize_graph` makes of a symmetric tensor, dense or sparse as that, and the kind chosen.

    Raises
    ------
    ValueError
        If A is not square, finite and symmetric; if it has negative weights and a kind is asked for.
    """
    A = as_torch_matrix(A).M
    if kind == "auto":
        kind = _choose(A)
    if kind is None:
        return A, None
    if float(_values(A).min()) < 0:
        refuse_negative(to_scipy(_sparse(A)))
    if kind == "walks":
        return moved(walk_matrix(to_scipy(_sparse(A)).astype("float64")), A.device).to(A.dtype), kind
    degree = torch.mm(A, torch.ones((len(A), 1), dtype=A.dtype, device=A.device))[:, 0].to(DOUBLE)
    if kind == "regularized":
        degree = degree + degree.mean()
    factors = torch.where(degree > 0, degree.rsqrt(), 0.0).to(A.dtype)
    if A.layout == torch.strided:
        return (A * factors[:, None]).mul_(factors), kind
    values = A.values().clone()
    for entries, rows, columns in _pieces(A):
        values[entries] *= factors[rows] * factors[columns]
    return csr(A.crow_indices(), A.col_indices(), values, len(A)), kind


def _choose(A: Any) -> Kind | None:
    n = len(A)
    nnz = int(torch.count_nonzero(_values(A)))
    return decide(n, nnz, lambda: float(_values(A).min()), lambda: _is_normalized(A), lambda: _has_loops(A))


def _values(A: Any) -> Any:
    return A if A.layout == torch.strided else A.values()


def _sparse(A: Any) -> Any:
    return A.to_sparse_csr() if A.layout == torch.strided else A


def _pieces(A: Any) -> Iterator[tuple[slice, Any, Any]]:
    """Yield slices of the entries of a CSR tensor, with their rows and columns."""
    start, columns = A.crow_indices(), A.col_indices()
    for first in range(0, len(columns), _PIECE):
        entries = slice(first, min(first + _PIECE, len(columns)))
        at = torch.arange(entries.start, entries.stop, device=start.device, dtype=start.dtype)
        yield entries, torch.searchsorted(start, at, right=True) - 1, columns[entries]


def _is_normalized(A: Any) -> bool:
    """Tell whether the largest eigenvalue of a nonnegative matrix is 1, by power iterations.

    From a positive vector these go to the eigenvector of that very eigenvalue, and Rayleigh's quotient is a bound from
    below; where it is within 1 ± 10⁻³ and so is the residual, no other is larger by more.
    """
    x = torch.full((len(A), 1), len(A) ** -0.5, dtype=A.dtype, device=A.device)
    for _ in range(PRODUCTS):
        y = torch.mm(A, x)
        value, square = torch.stack([dot(x, y), dot(y, y)]).tolist()
        if value > 1 + ONE or square == 0:
            return False
        if abs(value - 1) <= ONE and square - value**2 <= ONE**2:
            return True
        x = y / square**0.5
    return False


def _has_loops(A: Any) -> bool:
    """Tell whether every node that has an edge has one to itself."""
    if A.layout == torch.strided:
        return bool(((A.diagonal() != 0) | (A == 0).all(dim=1)).all())
    values, loop = A.values(), torch.zeros(len(A), dtype=torch.bool, device=A.device)
    for entries, rows, columns in _pieces(A):
        loop[rows[(rows == columns) & (values[entries] != 0)]] = True
    return bool((loop | (A.crow_indices().diff() == 0)).all())
