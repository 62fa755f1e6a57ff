"""The passes of `quartic.losses.other.robust_passes` for torch tensors, by the same formulas for whole arrays.

Known entries stand in the rows of both their points, as in `quartic.losses.pairs.torch`, so that sums over them come
out double and are halved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from quartic.arrays.space_torch import DOUBLE
from quartic.arrays.waiting import Waiting


def tangent(kind: str, e: Any) -> tuple[Any, Any]:
    """Return ρ(e) and ψ(e)."""
    if kind == "huber":
        slope = e.clamp(-1.0, 1.0)
        return slope * (e - 0.5 * slope), slope
    if kind == "pseudo-huber":
        r = (1.0 + e * e).sqrt()
        return e * e / (r + 1.0), e / r
    m = torch.expm1(-2.0 * e.abs())
    return e.abs() + torch.log1p(0.5 * m), -m / (2.0 + m) * e.sign()


def blocks(kind: str) -> Callable[..., Any]:
    """Return the pass ``(E, delta) -> Σ ρ(E)``, which puts ψ(E) in place of the residuals E."""

    def run(E: Any, delta: float) -> Any:
        value, slope = tangent(kind, E.to(DOUBLE) / delta)
        E.copy_(slope * delta)
        return Waiting(value.sum() * delta**2)

    return run


def pairs(kind: str) -> Callable[..., Any]:
    """Return the pass ``(X, start, cols, target, weight, delta, G) -> f(X)`` over known entries; G takes ∇f(X)."""

    def run(X: Any, start: Any, cols: Any, target: Any, weight: Any, delta: float, G: Any) -> Any:
        i = torch.repeat_interleave(torch.arange(len(X), device=X.device), start.diff())
        w, xi, xj = weight.to(DOUBLE), X[i].to(DOUBLE), X[cols.to(torch.int64)].to(DOUBLE)
        value, slope = tangent(kind, ((xi * xj).sum(1) - target) / delta)
        total = torch.zeros(G.shape, dtype=DOUBLE, device=G.device)
        G += total.index_add_(0, i, (w * slope * delta)[:, None] * xj)
        return Waiting((w * value).sum() * 0.5 * delta**2)

    return run
