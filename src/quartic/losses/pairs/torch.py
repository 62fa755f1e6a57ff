"""The passes of `numba.py` for torch tensors: one fused kernel on a GPU, gathers and sums by row elsewhere.

Here every pair stands in the rows of both its points, so that a row's sums are its own: nothing is written twice, and
the answer is the same each time. Numbers summed over pairs come out double and are halved.

The formulas are written once, in `_terms`, for the plain version, and once, in `quartic.losses.pairs.triton`, for the
kernel. Only distances are here: q = ‖x_i − x_j‖².
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from quartic.arrays.torch_tall import DOUBLE
from quartic.arrays.waiting import entries
from quartic.compiled.torch_kernels import kernels_for

Pass = Callable[..., Any]


def value_and_gradient(rank: int, difference: bool, weighted: bool) -> Pass:
    """Return the pass ``(X, start, cols, target, weight, G) -> f(X)``, which fills G with the gradient."""
    _distances_only(difference)

    def run(X: Any, start: Any, cols: Any, target: Any, weight: Any, G: Any) -> Any:
        kernels = kernels_for("triton_pairs", X)
        if kernels is not None:
            return entries(kernels.pairs("value_and_gradient", X, X, start, cols, target, _some(weight, weighted), G))[
                0
            ]
        i, j, w = _pairs(start, cols, target, weight, weighted)
        u = (X[i] - X[j]).to(DOUBLE)
        e = u.square().sum(1) - target
        we = w * e
        _by_row(G, i, 2 * we[:, None] * u)
        return entries((0.25 * (we * e).sum()).reshape(1))[0]

    return run


def value_gradient_and_remainder(rank: int, difference: bool, weighted: bool) -> Pass:
    """Return the pass ``(X, Y, start, cols, target, weight, G) -> f(Y), f(Y) − f(X) − ⟨∇f(X), Y − X⟩``; G is ∇f(Y)."""
    _distances_only(difference)

    def run(X: Any, Y: Any, start: Any, cols: Any, target: Any, weight: Any, G: Any) -> Any:
        kernels = kernels_for("triton_pairs", X)
        if kernels is not None:
            return entries(kernels.pairs("remainder", X, Y, start, cols, target, _some(weight, weighted), G))
        i, j, w = _pairs(start, cols, target, weight, weighted)
        u, z, D = (X[i] - X[j]).to(DOUBLE), (Y[i] - Y[j]).to(DOUBLE), Y - X
        v = (D[i] - D[j]).to(DOUBLE)
        before, after = u.square().sum(1) - target, z.square().sum(1) - target
        b, c = 2 * (u * v).sum(1), v.square().sum(1)
        _by_row(G, i, 2 * (w * after)[:, None] * z)
        remainder = (w * (0.5 * (b + c).square() + before * c)).sum()
        return entries(torch.stack([0.25 * (w * after * after).sum(), 0.5 * remainder]))

    return run


def line_coefficients(rank: int, difference: bool, weighted: bool) -> Pass:
    """Return the pass ``(X, D, start, cols, target, weight, C) -> c1, c2, c3, c4``; C is the cubic of the gradient."""
    _distances_only(difference)

    def run(X: Any, D: Any, start: Any, cols: Any, target: Any, weight: Any, C: Any) -> Any:
        kernels = kernels_for("triton_pairs", X)
        if kernels is not None:
            return entries(kernels.pairs("line", X, D, start, cols, target, _some(weight, weighted), C))
        i, j, w = _pairs(start, cols, target, weight, weighted)
        u, v, e, b, c = _terms(X, D, i, j, target)
        e1, b1, c1 = ((2 * w * s)[:, None] for s in (e, b, c))
        terms = torch.stack([e1 * v + b1 * u, b1 * v + c1 * u, c1 * v], dim=1)
        _by_row(C, i, terms)
        return entries(_quartic(w, e, b, c))

    return run


def hessian_product(rank: int, difference: bool, weighted: bool) -> Pass:
    """Return the pass ``(X, D, start, cols, target, weight, H)``, which fills H with ∇²f(X)[D]."""
    _distances_only(difference)

    def run(X: Any, D: Any, start: Any, cols: Any, target: Any, weight: Any, H: Any) -> None:
        kernels = kernels_for("triton_pairs", X)
        if kernels is not None:
            kernels.pairs("hessian", X, D, start, cols, target, _some(weight, weighted), H)
            return
        i, j, w = _pairs(start, cols, target, weight, weighted)
        u, v, e, b, _ = _terms(X, D, i, j, target)
        _by_row(H, i, (2 * w * e)[:, None] * v + (2 * w * b)[:, None] * u)

    return run


def weighted_degrees(start: Any, cols: Any, target: Any, weight: Any, weighted: bool, total: Any) -> Any:
    """Add w·b of each pair to its two points' entries of ``total``, and return Σ (w·b)² and Σ w·b²."""
    i, _, w = _pairs(start, cols, target, weight, weighted)
    b = target.to(DOUBLE)
    wb = w * b
    total.index_add_(0, i, wb.to(total.dtype).expand(len(i)))
    return entries(0.5 * torch.stack([(wb * wb).sum(), (wb * b).sum()]))


def _distances_only(difference: bool) -> None:
    if not difference:
        raise NotImplementedError("on torch tensors only distances are there, not entries; pass NumPy arrays")


def _some(weight: Any, weighted: bool) -> Any:
    return weight if weighted else None


def _pairs(start: Any, cols: Any, target: Any, weight: Any, weighted: bool) -> tuple[Any, Any, Any]:
    rows = torch.repeat_interleave(torch.arange(len(start) - 1, device=start.device), start.diff())
    return rows, cols.to(torch.int64), weight.to(DOUBLE) if weighted else torch.ones_like(target, dtype=DOUBLE)


def _terms(X: Any, D: Any, i: Any, j: Any, target: Any) -> tuple[Any, ...]:
    """Return u, v and the coefficients of q − b = e + bt + ct² on X + tD, a row for each pair."""
    u, v = (X[i] - X[j]).to(DOUBLE), (D[i] - D[j]).to(DOUBLE)
    return u, v, u.square().sum(1) - target, 2 * (u * v).sum(1), v.square().sum(1)


def _quartic(w: Any, e: Any, b: Any, c: Any) -> torch.Tensor:
    terms = (w * e * b, w * (0.5 * b * b + e * c), w * b * c, 0.5 * w * c * c)
    return 0.5 * torch.stack([t.sum() for t in terms])


def _by_row(out: Any, rows: Any, terms: Any) -> None:
    """Fill ``out`` with the sums of the terms of each row, taken in float64."""
    total = torch.zeros(out.shape, dtype=DOUBLE, device=out.device)
    out.copy_(total.index_add_(0, rows, terms))
