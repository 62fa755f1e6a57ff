"""What the kernels' constants have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quartic.losses.base import Loss


def sigma_for(loss: Loss, tight: bool) -> float:
    """Return the quadratic weight σ of Propositions 1 and 3.

    Any positive σ at or above twice the curvature bound is valid. Where the bound is zero a small share of
    ‖∇F(0)‖, the loss's own scale, keeps h strictly convex.
    """
    size = loss.gradient_norm_at_zero
    if size == 0.0:
        return 1.0
    return max(2 * loss.curvature_at_zero, 1e-3 * size) if tight else 2 * size
