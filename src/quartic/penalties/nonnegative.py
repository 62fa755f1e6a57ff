"""The constraint X ≥ 0, alone and together with ℓ1 or ridge."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from quartic.arrays import Array
from quartic.ops import inner, norm, squared_norm, squares_are_safe
from quartic.penalties.base import Penalty, Weighted


def projected_gradient(X: Array, gradient: Array) -> Array:
    """Return the paper's ∇ᴾf(X): the gradient where X > 0, its negative part where X = 0."""
    return np.where(X > 0, gradient, np.minimum(gradient, 0))


def _feasible(X: Array) -> bool:
    return bool(X.min(initial=0.0) >= 0)  # False where there is a NaN


@dataclass(frozen=True)
class Nonnegative(Penalty):
    """The constraint X ≥ 0: g(X) = 0 there and +∞ elsewhere.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.penalties import Nonnegative
    >>> Nonnegative().prox(np.array([[1.0, -2.0]]), 1.0)
    array([[1., 0.]])
    """

    nonnegative = True

    def value(self, X: Array) -> float:
        """Return 0 where X ≥ 0, else infinity."""
        return 0.0 if _feasible(X) else math.inf

    def prox(self, V: Array, t: float) -> Array:
        """Return the projection max(V, 0)."""
        return np.maximum(V, 0)

    def stationarity(self, X: Array, gradient: Array) -> Array:
        """Return the projected gradient."""
        return projected_gradient(X, gradient)

    def on_line(self, X: Array, D: Array) -> tuple[float, float]:
        """Return 0 and 0."""
        return 0.0, 0.0

    def stationarity_norm(self, X: Array, gradient: Array) -> float:
        """Return ‖∇ᴾf(X)‖ in one pass."""
        from quartic.ops.fused import projected_norm

        squared = float(projected_norm(X, gradient))
        return math.sqrt(squared) if squares_are_safe(squared) else norm(self.stationarity(X, gradient))

    def value_at(self, point: Any) -> float:
        """Return 0 where X ≥ 0, else infinity."""
        return 0.0 if point.feasible else math.inf

    def stationarity_at(self, point: Any) -> float:
        """Return ‖∇ᴾf(X)‖, which points of some losses have without their gradient."""
        return float(point.projected_norm)


@dataclass(frozen=True)
class NonnegativeL1(Weighted):
    """ℓ1 norm on X ≥ 0: g(X) = weight · Σ X_ij there and +∞ elsewhere.

    Parameters
    ----------
    weight : float
        The factor, positive.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.penalties import NonnegativeL1
    >>> NonnegativeL1(0.5).prox(np.array([[2.0, 0.3, -1.0]]), 1.0)
    array([[1.5, 0. , 0. ]])
    """

    nonnegative = True

    def value(self, X: Array) -> float:
        """Return weight · ΣX where X ≥ 0, else infinity."""
        return self.weight * float(X.sum(dtype=np.float64)) if _feasible(X) else math.inf

    def prox(self, V: Array, t: float) -> Array:
        """Return max(V − t·weight, 0)."""
        W: Array = np.maximum(V - t * self.weight, 0)
        return W

    def smooth_gradient(self, X: Array, gradient: Array) -> Array:
        """Return ∇f + weight."""
        return gradient + self.weight

    def on_line(self, X: Array, D: Array) -> tuple[float, float]:
        """Return weight·ΣD and 0."""
        return self.weight * float(D.sum(dtype=np.float64)), 0.0

    def change(self, X: Array, Y: Array) -> float:
        """Return weight · Σ(Y − X)."""
        return self.weight * float((Y - X).sum(dtype=np.float64)) if _feasible(Y) else math.inf

    def stationarity(self, X: Array, gradient: Array) -> Array:
        """Return the projected gradient of f + weight·ΣX."""
        return projected_gradient(X, gradient + self.weight)


@dataclass(frozen=True)
class NonnegativeRidge(Weighted):
    """Ridge on X ≥ 0: g(X) = ½ · weight · ‖X‖² there and +∞ elsewhere.

    Parameters
    ----------
    weight : float
        The factor, positive.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.penalties import NonnegativeRidge
    >>> NonnegativeRidge(1.0).prox(np.array([[2.0, -1.0]]), 1.0)
    array([[1., 0.]])
    """

    nonnegative = True

    def value(self, X: Array) -> float:
        """Return ½·weight·‖X‖² where X ≥ 0, else infinity."""
        return 0.5 * self.weight * squared_norm(X) if _feasible(X) else math.inf

    def prox(self, V: Array, t: float) -> Array:
        """Return max(V, 0) / (1 + t·weight)."""
        return np.maximum(V, 0) / (1 + t * self.weight)

    def smooth_gradient(self, X: Array, gradient: Array) -> Array:
        """Return ∇f + weight·X."""
        return gradient + self.weight * X

    def on_line(self, X: Array, D: Array) -> tuple[float, float]:
        """Return weight·⟨X, D⟩ and ½·weight·‖D‖²."""
        return self.weight * inner(X, D), 0.5 * self.weight * squared_norm(D)

    def change(self, X: Array, Y: Array) -> float:
        """Return ½·weight·⟨Y − X, Y + X⟩."""
        return 0.5 * self.weight * inner(Y - X, Y + X) if _feasible(Y) else math.inf

    def stationarity(self, X: Array, gradient: Array) -> Array:
        """Return the projected gradient of f + ½·weight·‖X‖²."""
        return projected_gradient(X, gradient + self.weight * X)
