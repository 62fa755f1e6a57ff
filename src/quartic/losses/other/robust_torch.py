"""The passes of `quartic.losses.other.robust_passes` for torch tensors, entry by entry with torch's own functions.

The formulas are the same, written for whole arrays.
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


def residuals(kind: str, moving: bool) -> Callable[..., tuple[Any, Any]]:
    """Return the pass ``(E, B, C, W, delta) -> Σ w ρ(E + B), remainder``, which puts ψ(E + B) in place of E."""

    def run(E: Any, B: Any, C: Any, W: Any, delta: float) -> tuple[Any, Any]:
        e, w = E.to(DOUBLE) / delta, (1.0 if W is None else W) * delta**2
        d = B.to(DOUBLE) / delta if moving else 0.0
        value, slope = tangent(kind, e + d)
        E.copy_(slope * delta)
        total = Waiting((w * value).sum())
        if not moving:
            return total, 0.0
        return total, Waiting((w * (gap(kind, e, d) + tangent(kind, e)[1] * (C.to(DOUBLE) / delta))).sum())

    return run
