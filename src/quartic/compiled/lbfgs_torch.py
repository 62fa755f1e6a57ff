"""The passes of `quartic.compiled.lbfgs` for torch tensors, all on the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from quartic.arrays.space_torch import DOUBLE, DeviceSpace, dot
from quartic.arrays.waiting import Waiting

Pairs = tuple[Any, ...]


def direction(steps: Pairs, changes: Pairs, X: Any, G: Any, D: Any) -> tuple[Any, Any]:
    """Fill D = max(X − q, 0) − X with q = HG on the face; return ⟨G, D⟩ and the largest t with X + tD ≥ 0."""
    free = (X > 0) | (G < 0)
    for A in (*steps, *changes):
        A.mul_(free)
    q = two_loop(G * free, steps, changes, lambda q, scale: q * _scale(X, q, scale))
    torch.sub(X, q, out=D)
    D.clamp_(min=0).sub_(X)
    return Waiting(dot(G, D)), Waiting(torch.where(D < 0, -X / D, torch.inf).amin().double())


def _scale(X: Any, q: Any, scale: Any) -> Any:
    first = DeviceSpace(X.device).quotient_of_norms(X, q)
    return (first if scale is None else torch.where(scale > 0, scale, first)).to(q.dtype)


def pair(X: Any, G: Any, after: Any, D: Any, t: float) -> tuple[Any, Any, Any, Any]:
    """Return the pair s = D and y = (∇⁺ − G)/t on the face, with ⟨s, y⟩ and ‖s‖·‖y‖."""
    y = (after - G).mul_(1 / t).mul_((X > 0) | (G < 0))
    space = DeviceSpace(D.device)
    return D, y, space.inner(D, y), space.norm(D) * space.norm(y)


def two_loop(G: Any, steps: Pairs, changes: Pairs, first_metric: Callable[[Any, Any], Any]) -> Any:
    """Return H G, with H from the pairs (s, y) and H₀ q = ``first_metric(q, sᵀy/yᵀy)``."""
    q, scale = G.clone(), torch.zeros((), dtype=DOUBLE, device=G.device)
    used: list[tuple[Any, Any, Any, Any]] = []
    for s, y in zip(reversed(steps), reversed(changes), strict=True):
        sq, sy, yy = dot(s, q), dot(s, y), dot(y, y)
        good = (sy > 1e-10 * yy * scale) & (sy > 0) & (yy > 0)
        scale = torch.where(good & (scale == 0), sy / yy, scale)
        coefficient = torch.where(good, sq / sy, 0.0)
        q.sub_(coefficient.to(q.dtype) * y)
        used.append((s, y, coefficient, torch.where(good, 1 / sy, 0.0)))
    q = first_metric(q, None) if not used else first_metric(q, scale)
    for s, y, coefficient, inverse in reversed(used):
        change = torch.where(inverse > 0, coefficient - dot(y, q) * inverse, 0.0)
        q.add_(change.to(q.dtype) * s)
    return q
