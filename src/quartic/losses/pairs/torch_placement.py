"""Points that a run has left in the wrong place, put where their distances say, on the device."""

from __future__ import annotations

from typing import Any

import torch

from quartic.arrays.torch_tall import DOUBLE

# A point is in the wrong place where its residuals are so many times the typical ones (as squares), and no neighbour's
# are larger: those of its neighbours are raised by it.
_OUTLIER = 100.0


def replaced(X: Any, start: Any, cols: Any, target: Any, weight: Any) -> Any:
    """Return X with the points that fit far worse than the others placed anew, None where there are none.

    ‖x‖² − 2⟨x, x_j⟩ + ‖x_j‖² = d_j is linear in x and ‖x‖²; subtracting the mean over the neighbours j leaves a linear
    least-squares problem of size r for x.
    """
    n, rank = X.shape
    rows = torch.repeat_interleave(torch.arange(n, device=X.device), start.diff())
    columns = cols.to(torch.int64)
    w = torch.ones_like(target, dtype=DOUBLE) if weight is None else weight.to(DOUBLE)
    e = (X[rows] - X[columns]).to(DOUBLE).square().sum(1) - target
    zeros = torch.zeros(n, dtype=DOUBLE, device=X.device)
    weights = zeros.index_add(0, rows, w)
    misfit = zeros.index_add(0, rows, w * e * e) / weights.clamp(min=torch.finfo(DOUBLE).tiny)
    around = zeros.scatter_reduce(0, rows, misfit[columns], "amax")
    enough = start.diff() > rank + 1
    wrong = (misfit > _OUTLIER * misfit.median()) & (misfit >= around) & enough
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
