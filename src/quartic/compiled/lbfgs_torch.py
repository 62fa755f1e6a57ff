"""The passes of `quartic.compiled.lbfgs` for torch tensors: whole arrays, zero off the face, all on the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from quartic.arrays.space_torch import DOUBLE, DeviceSpace, dot
from quartic.arrays.waiting import Waiting

Pairs = tuple[Any, ...]


def kept(where: Pairs, steps: Pairs, changes: Pairs, X: Any, G: Any) -> tuple[Pairs, Pairs, Pairs]:
    """Return the pairs on the face of X: what left it is forgotten, in place."""
    free = free_entries(X, G)
    for A in (*steps, *changes):
        A.mul_(free)
    return where, steps, changes


def direction(where: Pairs, steps: Pairs, changes: Pairs, X: Any, G: Any, D: Any) -> tuple[Any, Any]:
    """Fill D = max(X − q, 0) − X with q = HG on the face; return ⟨G, D⟩ and the largest t with X + tD ≥ 0."""
    q = two_loop(G * free_entries(X, G), steps, changes, None, lambda q, scale: q * _scale(X, q, scale))
    slope = clipped_direction(X, q, G, D)
    return slope, longest_step(X, D)


def _scale(X: Any, q: Any, scale: Any) -> Any:
    first = DeviceSpace(X.device).quotient_of_norms(X, q)
    return (first if scale is None else torch.where(scale > 0, scale, first)).to(q.dtype)


def pair(where: Pairs, X: Any, G: Any, after: Any, D: Any, t: float) -> tuple[Any, Any, Any, Any]:
    """Return the pair s = D and y = (∇⁺ − G)/t on the face, with ⟨s, y⟩ and ‖s‖·‖y‖."""
    y = (after - G).mul_(1 / t).mul_(free_entries(X, G))
    space = DeviceSpace(D.device)
    return D, y, space.inner(D, y), space.norm(D) * space.norm(y)


def two_loop(
    G: Any, steps: tuple[Any, ...], changes: tuple[Any, ...], free: Any, first_metric: Callable[[Any, Any], Any]
) -> Any:
    """Return H G over the free entries, with H from the pairs (s, y) and H₀ q = ``first_metric(q, sᵀy/yᵀy)``.

    A pair without positive curvature there gets the coefficient 0.
    """

    def masked(A: Any) -> Any:
        return A if free is None else A * free

    q = masked(G).clone() if free is None else masked(G)
    scale = torch.zeros((), dtype=DOUBLE, device=q.device)
    used: list[tuple[Any, Any, Any, Any]] = []
    for s, y in zip(reversed(steps), reversed(changes), strict=True):
        y = masked(y)
        sq, sy, yy = dot(s, q), dot(s, y), dot(y, y)
        good = (sy > 1e-10 * yy * scale) & (sy > 0) & (yy > 0)
        scale = torch.where(good & (scale == 0), sy / yy, scale)
        coefficient = torch.where(good, sq / sy, 0.0)
        q.sub_(coefficient.to(q.dtype) * y)
        used.append((s, y, coefficient, torch.where(good, 1 / sy, 0.0)))
    q = first_metric(q, None) if not used else first_metric(q, scale)
    for s, y, coefficient, inverse in reversed(used):
        change = torch.where(inverse > 0, coefficient - dot(y, q) * inverse, 0.0)
        q.add_(change.to(q.dtype) * masked(s))
    return q


def free_entries(X: Any, G: Any) -> Any:
    """Return where entries may move: those off the bound, and those the gradient pushes off it."""
    return (X > 0) | (G < 0)


def clipped_direction(X: Any, q: Any, G: Any, D: Any) -> Any:
    """D = max(X − q, 0) − X; returns ⟨G, D⟩."""
    torch.sub(X, q, out=D)
    D.clamp_(min=0).sub_(X)
    return Waiting(dot(G, D))


def longest_step(X: Any, D: Any) -> Any:
    """The largest t with X + tD ≥ 0."""
    steps = torch.where(D < 0, -X / D, torch.inf)
    return Waiting(steps.amin().double())
