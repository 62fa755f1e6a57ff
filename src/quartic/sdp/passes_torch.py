"""The passes of `quartic.sdp.passes` for torch tensors: the same names and arguments, whole arrays at a time."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import torch

from quartic.arrays.space_torch import DOUBLE

# Entries of X that are gathered at a time.
_AT_ONCE = 1 << 27


def taken(matrix: Any, space: Any, dtype: Any) -> Any:
    """Return a sparse matrix of SciPy as a tensor."""
    start, columns, values = (space.adopt(part) for part in (matrix.indptr, matrix.indices, matrix.data.astype(dtype)))
    return _matrix(start, columns, values, matrix.shape)


def row_products(A: Any, B: Any) -> Any:
    """Return ⟨a_i, b_i⟩ of all rows."""
    return (A * B).sum(dim=1, dtype=DOUBLE)


def sums_by(group: Any, values: Any, count: int) -> Any:
    """Return the sum of the values of each group."""
    return torch.zeros(count, dtype=DOUBLE, device=values.device).index_add_(0, group, values)


def pair_products(X: Any, i: Any, j: Any, u: Any) -> None:
    """Set u_p = ⟨x_i, x_j⟩ for every pair."""
    for part in _parts(len(i), X.shape[1]):
        u[part] = row_products(X[i[part]], X[j[part]])


def curve_terms(X: Any, D: Any, i: Any, j: Any, first: Any, second: Any) -> None:
    """Set first_p = ⟨x_i, d_j⟩ + ⟨d_i, x_j⟩ and second_p = ⟨d_i, d_j⟩ for every pair."""
    for part in _parts(len(i), X.shape[1]):
        d, e = D[i[part]], D[j[part]]
        second[part] = row_products(d, e)
        first[part] = row_products(X[i[part]], e) + row_products(d, X[j[part]])


def weighted_rows(start: Any, columns: Any, weights: Any, X: Any, G: Any, fresh: bool) -> None:
    """Set G, or add to it, a sparse matrix times X."""
    product = _matrix(start, columns, weights.to(X.dtype), (len(G), len(X))) @ X
    if fresh:
        G.copy_(product)
    else:
        G += product


def make_tangent(X: Any, group: Any, mu: Any, D: Any, H: Any, sums: Any) -> Any:
    """Turn H into the part of H − mu·D along the spheres of the groups, and return its product with D."""
    H -= mu[group].to(H.dtype)[:, None] * D
    sums.zero_().index_add_(0, group, row_products(X, H))
    sums[-1] = 0.0
    H -= sums[group].to(H.dtype)[:, None] * X
    return row_products(D, H).sum()


def conjugate_step(step: float, P: Any, H: Any, D: Any, R: Any, scale: Any) -> tuple[float, float]:
    """Add step·P to D and step·H to R, the residual; return ‖R‖² and ⟨R, R/scale⟩."""
    D.add_(P, alpha=step)
    R.add_(H, alpha=step)
    squares = row_products(R, R)
    plain, scaled = torch.stack([squares.sum(), (squares / scale).sum()]).tolist()
    return plain, scaled


def next_direction(beta: float, R: Any, scale: Any, P: Any) -> None:
    """Set P to beta·P − R/scale."""
    P.mul_(beta).sub_(R / scale.to(R.dtype)[:, None])


def _parts(count: int, columns: int) -> Iterator[slice]:
    size = max(_AT_ONCE // max(columns, 1), 1)
    for first in range(0, count, size):
        yield slice(first, first + size)


def _matrix(start: Any, columns: Any, weights: Any, shape: tuple[int, int]) -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR")
        return torch.sparse_csr_tensor(start, columns, weights, shape, check_invariants=False)
