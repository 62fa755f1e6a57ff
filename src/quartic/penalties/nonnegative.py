"""The constraint X ≥ 0, alone and together with ℓ1 or ridge."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

from quartic.arrays import Array, delayed, inner, least, namespace, positive_part, space_of, squared_norm, total
from quartic.core.units import Units
from quartic.penalties.base import Penalty, Weighted


def projected_gradient(X: Array, gradient: Array) -> Array:
    """Return the paper's ∇ᴾf(X): the gradient where X > 0, its negative part where X = 0."""
    xp = namespace(X)
    clipped: Array = xp.where(X > 0, gradient, xp.clip(gradient, None, 0))
    return clipped


def _where_feasible(value: float, X: Array) -> float:
    """Return the value, infinity where X has a negative entry or a NaN."""
    kept: float = delayed(lambda value, low: float(value) if low >= 0 else math.inf, value, least(X))
    return kept


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

    def in_units(self, units: Units) -> Self:
        """Return itself."""
        return self

    def value(self, X: Array) -> float:
        """Return 0 where X ≥ 0, else infinity."""
        return _where_feasible(0.0, X)

    def prox(self, V: Array, t: float) -> Array:
        """Return the projection max(V, 0)."""
        return positive_part(V)

    def stationarity(self, X: Array, gradient: Array) -> Array:
        """Return the projected gradient."""
        return projected_gradient(X, gradient)

    def on_line(self, X: Array, D: Array) -> tuple[float, float]:
        """Return 0 and 0."""
        return 0.0, 0.0

    def stationarity_norm(self, X: Array, gradient: Array) -> float:
        """Return ‖∇ᴾf(X)‖ in one pass."""
        space = space_of(X)
        return space.root(space.projected_norm(X, gradient), lambda: self.stationarity(X, gradient))

    def value_at(self, point: Any) -> float:
        """Return 0 where X ≥ 0, else infinity."""
        return delayed(lambda ok: 0.0 if ok else math.inf, point.feasible)  # type: ignore[no-any-return]

    def stationarity_at(self, point: Any) -> float:
        """Return ‖∇ᴾf(X)‖, which points of some losses have without their gradient."""
        size: float = point.projected_norm
        return size


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
    degree = 1

    def value(self, X: Array) -> float:
        """Return weight · ΣX where X ≥ 0, else infinity."""
        return _where_feasible(self.weight * total(X), X)

    def prox(self, V: Array, t: float) -> Array:
        """Return max(V − t·weight, 0)."""
        return positive_part(V - t * self.weight)

    def smooth_gradient(self, X: Array, gradient: Array) -> Array:
        """Return ∇f + weight."""
        return gradient + self.weight

    def on_line(self, X: Array, D: Array) -> tuple[float, float]:
        """Return weight·ΣD and 0."""
        return self.weight * total(D), 0.0

    def change(self, X: Array, Y: Array) -> float:
        """Return weight · Σ(Y − X)."""
        return _where_feasible(self.weight * total(Y - X), Y)

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
    degree = 2

    def value(self, X: Array) -> float:
        """Return ½·weight·‖X‖² where X ≥ 0, else infinity."""
        return _where_feasible(0.5 * self.weight * squared_norm(X), X)

    def prox(self, V: Array, t: float) -> Array:
        """Return max(V, 0) / (1 + t·weight)."""
        return positive_part(V) / (1 + t * self.weight)

    def smooth_gradient(self, X: Array, gradient: Array) -> Array:
        """Return ∇f + weight·X."""
        return gradient + self.weight * X

    def on_line(self, X: Array, D: Array) -> tuple[float, float]:
        """Return weight·⟨X, D⟩ and ½·weight·‖D‖²."""
        return self.weight * inner(X, D), 0.5 * self.weight * squared_norm(D)

    def change(self, X: Array, Y: Array) -> float:
        """Return ½·weight·⟨Y − X, Y + X⟩."""
        return _where_feasible(0.5 * self.weight * inner(Y - X, Y + X), Y)

    def stationarity(self, X: Array, gradient: Array) -> Array:
        """Return the projected gradient of f + ½·weight·‖X‖²."""
        return projected_gradient(X, gradient + self.weight * X)
