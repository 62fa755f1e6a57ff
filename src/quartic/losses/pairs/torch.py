"""The passes of `quartic.losses.pairs.numba` and `descent` for torch tensors: Triton's on a GPU, gathers elsewhere.

Here every pair stands in the rows of both its points, so that a row's sums are its own: nothing is written twice, and
the answer is the same each time. Numbers summed over pairs come out double and are halved.

The formulas are written once, in `run`, for the plain version, and once, in `quartic.losses.pairs.triton`, for the
kernels; the kernels are for squared distances, q = ‖x_i − x_j‖², the plain version for entries, q = ⟨x_i, x_j⟩, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from quartic.arrays.space_torch import DOUBLE, dot, triton_serves
from quartic.arrays.waiting import Waiting, entries
from quartic.losses.factor.torch_matrix import csr
from quartic.losses.pairs.input import each_once
from quartic.losses.pairs.pairs import HESSIAN, LINE, LINEARIZE, PRODUCT, QUARTIC, REMAINDER, VALUE, Pairs

# A point is in the wrong place where its residuals are so many times the typical ones (as squares), and no neighbour's
# are larger: those of its neighbours are raised by it.
_OUTLIER = 100.0
# The kernels keep a row of X, or of blocks, in registers up to these ranks.
_WIDEST, _WIDEST_BLOCK = 4, 8


def _kernels(X: Any, widest: int = _WIDEST_BLOCK) -> Any:
    if not triton_serves(X, widest):
        return None
    from quartic.losses.pairs import triton

    return triton


# -- the passes --------------------------------------------------------------------------------------------------------


def run(mode: int, X: Any, Y: Any, pairs: Pairs, out: Any = None, B: Any = None) -> Any:
    """Make the pass that `quartic.losses.pairs.pairs.Pairs.run` describes; its numbers may be under way."""
    Y = X if Y is None else Y
    kernels = _kernels(X, _WIDEST) if pairs.difference else None
    if kernels is not None:
        found = kernels.run(mode, X, Y, pairs.start, pairs.cols, pairs.target, pairs.weight, out, B)
        return () if found is None else entries(found)
    i, j, w = _ends(pairs)

    # q(X) = ‖x_i − x_j‖² or ⟨x_i, x_j⟩ has the derivative s·lever(X) in x_i, and is form(X, X)
    def lever(Z: Any) -> Any:
        return (Z[i] - Z[j] if pairs.difference else Z[j]).to(DOUBLE)

    def form(Z: Any, W: Any) -> Any:
        if pairs.difference:
            return (lever(Z) * lever(W)).sum(1)
        return 0.5 * (Z[i].to(DOUBLE) * W[j] + W[i].to(DOUBLE) * Z[j]).sum(1)

    s, u, v = 2.0 if pairs.difference else 1.0, lever(X), lever(Y)
    e = form(X, X) - pairs.target
    if mode in (VALUE, LINEARIZE):
        _by_row(out, i, (s * w * e)[:, None] * u)
        if B is not None:
            rows, columns = torch.tril_indices(X.shape[1], X.shape[1], device=X.device)
            # an entry of the diagonal has both its ends in the row
            _by_row(B, i, (s * s * w * (1 + (i == j).to(DOUBLE)))[:, None] * u[:, rows] * u[:, columns])
        return entries((0.25 * (w * e * e).sum()).reshape(1))
    if mode == REMAINDER:
        after, D = form(Y, Y) - pairs.target, Y - X
        _by_row(out, i, (s * w * after)[:, None] * v)
        b, c = 2 * form(X, D), form(D, D)
        remainder = (w * (0.5 * (b + c).square() + e * c)).sum()
        return entries(torch.stack([0.25 * (w * after * after).sum(), 0.5 * remainder]))
    b, c = 2 * form(X, Y), form(Y, Y)
    e2, b2, c2 = ((s * w * t)[:, None] for t in (e, b, c))
    if mode == PRODUCT:
        _by_row(out, i, b2 * u)
    elif mode == HESSIAN:
        _by_row(out, i, e2 * v + b2 * u)
    elif mode == LINE:
        _by_row(out, i, torch.stack([e2 * v + b2 * u, b2 * v + c2 * u, c2 * v], dim=1))
    if mode not in (LINE, QUARTIC):
        return ()
    terms = (w * e * b, w * (0.5 * b * b + e * c), w * b * c, 0.5 * w * c * c)
    return entries(0.5 * torch.stack([t.sum() for t in terms]))


def rows_of(pairs: Pairs) -> Any:
    """Return the row of each pair."""
    start = pairs.start
    return torch.repeat_interleave(torch.arange(len(start) - 1, device=start.device), start.diff())


def _ends(pairs: Pairs) -> tuple[Any, Any, Any]:
    """Return rows, columns and weights of the pairs."""
    return rows_of(pairs), pairs.cols.to(torch.int64), pairs.weights()


def _by_row(out: Any, rows: Any, terms: Any) -> None:
    """Fill ``out`` with the sums of the terms of each row, taken in float64."""
    total = torch.zeros(out.shape, dtype=DOUBLE, device=out.device)
    out.copy_(total.index_add_(0, rows, terms))


def symmetric_product(pairs: Pairs, numbers: Any) -> Callable[[Any], Any]:
    """Return the product with the matrix that has these entries at the pairs."""
    M = csr(pairs.start, pairs.cols.to(pairs.start.dtype), numbers, pairs.n_points)
    return lambda V: M @ V


# -- pairs as users give them, sorted on the device -----------------------------------------------------------------


def sort_tensors(kind: int, pairs: Any, values: Any, weights: Any | None, n: int) -> Pairs:
    """Return the pairs, each in the rows of both its points, sorted by row and column.

    A row then holds all that its point takes part in: no two rows write to the same place, and sums come in one order.
    """
    low, high = torch.minimum(pairs[:, 0], pairs[:, 1]), torch.maximum(pairs[:, 0], pairs[:, 1])
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
    ends = np.column_stack([pairs.rows, pairs.cols]).astype(np.int64)
    weight = None if pairs.weight is None else torch.from_numpy(pairs.weight).to(device)
    both, target = torch.from_numpy(ends).to(device), torch.from_numpy(pairs.target).to(device)
    return sort_tensors(pairs.kind, both, target, weight, pairs.n_points)


# -- row blocks --------------------------------------------------------------------------------------------------------


def factor_blocks(B: Any, shift: Any, width: int) -> Any:
    """Return the inverses of the blocks B_i + shift·I, (n, r, r); a direction without curvature gets 0.

    The shift is a number, or one that is still on the device.
    """
    kernels = _kernels(B[:, :width])
    if kernels is not None:
        return kernels.invert(B, shift, width)
    rows, columns = torch.tril_indices(width, width, device=B.device)
    A = torch.zeros((len(B), width, width), dtype=B.dtype, device=B.device)
    A[:, rows, columns] = B
    A[:, columns, rows] = B
    least = 1e-14 * A.diagonal(dim1=1, dim2=2) + shift
    A.diagonal(dim1=1, dim2=2).add_(shift)
    for k in range(width):  # Gauss–Jordan: no pivoting, since the blocks are positive semidefinite
        pivot = torch.maximum(A[:, k, k], least[:, k])
        inverse = torch.where(pivot > 0, 1 / pivot, 0.0)
        row, column = A[:, k, :] * inverse[:, None], A[:, :, k].clone()
        row[:, k] = inverse
        column[:, k] = 0.0
        A[:, k, :] = 0.0
        A[:, :, k] = 0.0
        A -= column[:, :, None] * row[:, None, :]
        A[:, k, :] = row
    return A


def solve_blocks(L: Any, R: Any, Z: Any) -> Any:
    """Fill Z with the solutions of (B_i + shift·I) z_i = r_i, and return ⟨R, Z⟩."""
    kernels = _kernels(R)
    if kernels is not None:
        return Waiting(kernels.solve(L, R, Z))
    torch.sum(L * R[:, None, :], dim=2, out=Z)
    return Waiting(dot(R, Z))


def advance(rz: Any, shift: float, P: Any, H: Any, L: Any, D: Any, R: Any, Z: Any) -> Any:
    """Make a step of conjugate gradients with A + shift·I, where H = AP; return ⟨P, (A + shift·I)P⟩ and the new ⟨R, Z⟩.

    Nothing is read from the device. Where the curvature is not positive D, R and Z stay as they are.
    """
    H.add_(P, alpha=shift)
    curvature, kernels = Waiting(dot(P, H)), _kernels(R)
    if kernels is not None:
        following = Waiting(kernels.solve(L, R, Z, (rz.tensor, curvature.tensor, P, H, D)))
    else:
        a = torch.where(curvature.tensor > 0, rz.tensor / curvature.tensor, 0.0)
        D.addcmul_(P, a)
        R.addcmul_(H, a, value=-1.0)
        following = solve_blocks(L, R, Z)
    torch.addcmul(Z, P, following.tensor / rz.tensor, out=P)
    return curvature, following


# -- points in the wrong place -----------------------------------------------------------------------------------------


def replace_outliers(X: Any, pairs: Pairs) -> Any:
    """Return X with the points that fit far worse than the others placed anew, None where there are none.

    ‖x‖² − 2⟨x, x_j⟩ + ‖x_j‖² = d_j is linear in x and ‖x‖²; subtracting the mean over the neighbours j leaves a linear
    least-squares problem of size r for x.
    """
    n, rank = X.shape
    (rows, columns, w), target, start = _ends(pairs), pairs.target, pairs.start
    e = (X[rows] - X[columns]).to(DOUBLE).square().sum(1) - target
    zeros = torch.zeros(n, dtype=DOUBLE, device=X.device)
    weights = zeros.index_add(0, rows, w)
    misfit = zeros.index_add(0, rows, w * e * e) / weights.clamp(min=torch.finfo(DOUBLE).tiny)
    wrong = (misfit > _OUTLIER * misfit.median()) & (start.diff() > rank + 1)
    if not wrong.any():  # as a rule: what follows takes as long as many passes
        return None
    wrong &= misfit >= zeros.scatter_reduce(0, rows, misfit[columns], "amax")
    chosen = wrong.nonzero()[:, 0]
    if not len(chosen):
        return None
    number = torch.full((n,), -1, dtype=torch.int64, device=X.device)
    number[chosen] = torch.arange(len(chosen), device=X.device)
    mine = number[rows] >= 0
    k, j, w, d = number[rows[mine]], columns[mine], w[mine], target[mine].to(DOUBLE)
    centre = X.to(DOUBLE).mean(0)
    Y = X[j].to(DOUBLE) - centre

    def mean(values: Any) -> Any:
        sums = torch.zeros((len(chosen), *values.shape[1:]), dtype=DOUBLE, device=X.device)
        total = weights[chosen].reshape(-1, *(1,) * (values.ndim - 1))
        return sums.index_add_(0, k, w.reshape(-1, *(1,) * (values.ndim - 1)) * values) / total

    U = Y - mean(Y)[k]
    right = Y.square().sum(1) - d
    right = right - mean(right)[k]
    A = mean(U[:, :, None] * U[:, None, :])
    A.diagonal(dim1=1, dim2=2).add_(1e-12 * A.diagonal(dim1=1, dim2=2).sum(1, keepdim=True))
    places = torch.linalg.solve(A, 0.5 * mean(U * right[:, None])) + centre
    new = X.clone()
    new[chosen] = places.to(X.dtype)
    return new
