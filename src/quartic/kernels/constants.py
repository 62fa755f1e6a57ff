"""What the kernels' constants have in common."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quartic.kernels.base import Kernel
    from quartic.losses.base import Loss


def positive_finite(kernel: Kernel, *names: str) -> None:
    """Raise unless the named parameters of the kernel are positive and finite."""
    for name in names:
        value = getattr(kernel, name)
        if not 0 < value < math.inf:
            raise ValueError(f"{type(kernel).__name__}: {name} must be positive and finite, got {value!r}")


def sigma_for(loss: Loss, tight: bool) -> float:
    """Return the quadratic weight σ of Propositions 1 and 3.

    Any positive σ at or above twice the curvature bound is valid. Where the bound is zero a small share of
    ‖∇F(0)‖, the loss's own scale, keeps h strictly convex.
    """
    size = loss.gradient_norm_at_zero
    if size == 0.0:
        return 1.0
    return max(2 * loss.curvature_at_zero, 1e-3 * size) if tight else 2 * size
