"""What the kernels' constants have in common."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, TypeVar

from quartic.core.units import Units
from quartic.kernels.base import Kernel

if TYPE_CHECKING:
    from quartic.losses.base import Loss

_K = TypeVar("_K", bound=Kernel)


def scaled_constants(kernel: _K, units: Units) -> _K | None:
    """Return the kernel with σ, the weight of a square, and the weights of its quartic terms in other units."""
    scaled: dict[str, float] = {}
    for field in fields(kernel):  # type: ignore[arg-type]  # the kernels that call this are dataclasses
        value = getattr(kernel, field.name)
        there = units.factor(value, 2 if field.name == "sigma" else 4) if value else 0.0
        if there is None:
            return None
        scaled[field.name] = there
    return replace(kernel, **scaled)  # type: ignore[type-var]


def sigma_for(loss: Loss, tight: bool) -> float:
    """Return the quadratic weight σ of Propositions 1 and 3.

    Any positive σ at or above twice the curvature bound is valid. Where the bound is zero a small share of
    ‖∇F(0)‖, the loss's own scale, keeps h strictly convex. Points held in place add curvature that ∇F(0) does not show.
    """
    size = loss.gradient_norm_at_zero
    if size == 0.0:
        return 1.0
    if tight:
        return max(2 * loss.curvature_at_zero, 1e-3 * size)
    return 2 * (size if loss.rotations else max(size, loss.curvature_at_zero))
