"""The ridge penalty."""

from __future__ import annotations

from dataclasses import dataclass

from quartic.arrays import Array, inner, squared_norm
from quartic.penalties.base import Weighted


@dataclass(frozen=True)
class Ridge(Weighted):
    """Ridge: g(X) = ½ · weight · ‖X‖².

    Parameters
    ----------
    weight : float
        The factor, positive.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.penalties import Ridge
    >>> Ridge(1.0).prox(np.array([[2.0, -1.0]]), 1.0)
    array([[ 1. , -0.5]])
    """

    smooth = True
    degree = 2

    def value(self, X: Array) -> float:
        """Return ½·weight·‖X‖²."""
        return 0.5 * self.weight * squared_norm(X)

    def prox(self, V: Array, t: float) -> Array:
        """Return V / (1 + t·weight)."""
        return V / (1 + t * self.weight)

    def stationarity(self, X: Array, gradient: Array) -> Array:
        """Return ∇f + weight·X."""
        return gradient + self.weight * X

    @property
    def ridge(self) -> float:
        """The weight."""
        return self.weight

    def on_line(self, X: Array, D: Array) -> tuple[float, float]:
        """Return weight·⟨X, D⟩ and ½·weight·‖D‖²."""
        return self.weight * inner(X, D), 0.5 * self.weight * squared_norm(D)

    def change(self, X: Array, Y: Array) -> float:
        """Return ½·weight·⟨Y − X, Y + X⟩."""
        return 0.5 * self.weight * inner(Y - X, Y + X)
