"""The passes of `quartic.losses.other.robust_passes` for torch tensors, entry by entry with torch's own functions.

The formulas are the same, written for whole arrays. Known entries stand in the rows of both their points, as in
`quartic.losses.pairs.torch`, so that sums over them come out double and are halved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from quartic.arrays.space_torch import DOUBLE
from quartic.arrays.waiting import Waiting

# Below this d the gap of log cosh comes from series.
_SMALL = 0.05


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


def gap(kind: str, e: Any, d: Any) -> Any:
    """Return ρ(e + d) − ρ(e) − ψ(e)d, of second order in d."""
    a = e + d
    if kind == "huber":
        # within the parabola c is d itself, which the difference of slopes knows to fewer digits
        slope, before = a.clamp(-1.0, 1.0), e.clamp(-1.0, 1.0)
        c = torch.where((slope == a) & (before == e), d, slope - before)
        return c * (0.5 * c + (a - slope))
    if kind == "pseudo-huber":
        A, E, product = (1.0 + a * a).sqrt(), (1.0 + e * e).sqrt(), a * e
        difference = torch.where(product <= 0, A * E - product, 1.0 + d * d / (A * E + product + 1.0))
        return d * d * (difference + 1.0) / ((A + E).square() * E)
    low, T = tangent(kind, e)
    far = tangent(kind, a)[0] - low - T * d
    d = d.clamp(-_SMALL, _SMALL)
    square = d * d
    lift = square * (0.5 + square * (1 / 24 + square * (1 / 720 + square / 40320)))
    bend = d * square * (1 / 6 + square * (1 / 120 + square * (1 / 5040 + square / 362880)))
    z = lift + T * (d + bend)
    series = torch.zeros_like(z)
    for k in range(13, 1, -1):
        series = 1.0 / k - z * series
    return torch.where((a - e).abs() > _SMALL, far, lift + T * bend - z * z * series)


def blocks(kind: str, moving: bool) -> Callable[..., tuple[Any, Any]]:
    """Return the pass ``(E, B, C, delta) -> Σ ρ(E + B), remainder``, which puts ψ(E + B) in place of E."""

    def run(E: Any, B: Any, C: Any, delta: float) -> tuple[Any, Any]:
        e = E.to(DOUBLE) / delta
        d, c = (B.to(DOUBLE) / delta, C.to(DOUBLE) / delta) if moving else (0.0, 0.0)
        value, remainder, slope = _terms(kind, e, d, c, moving)
        E.copy_(slope * delta)
        return Waiting(value.sum() * delta**2), Waiting(remainder.sum() * delta**2) if moving else 0.0

    return run


def pairs(kind: str, moving: bool) -> Callable[..., tuple[Any, Any]]:
    """Return the pass ``(X, Y, start, cols, target, weight, delta, G) -> f(Y), remainder`` over known entries."""

    def run(X: Any, Y: Any, start: Any, cols: Any, target: Any, weight: Any, delta: float, G: Any) -> tuple[Any, Any]:
        i = torch.repeat_interleave(torch.arange(len(X), device=X.device), start.diff())
        j, w = cols.to(torch.int64), weight.to(DOUBLE)
        xi, xj, yj = X[i].to(DOUBLE), X[j].to(DOUBLE), Y[j].to(DOUBLE)
        e, c, d = ((xi * xj).sum(1) - target) / delta, 0.0, 0.0
        if moving:
            di, dj = (Y - X)[i].to(DOUBLE), (Y - X)[j].to(DOUBLE)
            c = (di * dj).sum(1) / delta
            d = ((xi * dj).sum(1) + (di * xj).sum(1)) / delta + c
        value, remainder, slope = _terms(kind, e, d, c, moving)
        total = torch.zeros(G.shape, dtype=DOUBLE, device=G.device)
        G += total.index_add_(0, i, (w * slope * delta)[:, None] * yj)
        half = 0.5 * delta**2
        return Waiting((w * value).sum() * half), Waiting((w * remainder).sum() * half) if moving else 0.0

    return run


def _terms(kind: str, e: Any, d: Any, c: Any, moving: bool) -> tuple[Any, Any, Any]:
    """Return ρ(e + d), what the tangent at e misses of it where c of d is of second order, and ψ(e + d)."""
    value, slope = tangent(kind, e + d)
    return value, gap(kind, e, d) + tangent(kind, e)[1] * c if moving else None, slope
