"""Penalties that make X sparse: ℓ1 and ℓ0."""

from __future__ import annotations

import math
from dataclasses import dataclass

from quartic.arrays import Array, namespace, positive_part, total
from quartic.penalties.base import Weighted


def soft_threshold(V: Array, level: float) -> Array:
    """Return sign(V) · max(|V| − level, 0)."""
    kept: Array = namespace(V).sign(V) * positive_part(abs(V) - level)
    return kept


@dataclass(frozen=True)
class L1(Weighted):
    """Lasso penalty: g(X) = weight · Σ |X_ij|.

    Parameters
    ----------
    weight : float
        The factor, positive.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.penalties import L1
    >>> L1(1.0).prox(np.array([[3.0, -0.5]]), 1.0)
    array([[ 2., -0.]])
    """

    degree = 1

    def value(self, X: Array) -> float:
        """Return weight · Σ|X|."""
        return self.weight * total(abs(X))

    def prox(self, V: Array, t: float) -> Array:
        """Return V soft-thresholded at t·weight."""
        return soft_threshold(V, t * self.weight)

    def change(self, X: Array, Y: Array) -> float:
        """Return weight · Σ(|Y| − |X|)."""
        return self.weight * total(abs(Y) - abs(X))

    def stationarity(self, X: Array, gradient: Array) -> Array:
        """Return ∇f + weight·sign(X) where X ≠ 0, and the part of ∇f that the ℓ1 norm cannot hold where X = 0."""
        xp = namespace(X)
        element: Array = xp.where(X != 0, gradient + self.weight * xp.sign(X), soft_threshold(gradient, self.weight))
        return element


@dataclass(frozen=True)
class L0(Weighted):
    """Number of nonzero entries: g(X) = weight · #{X_ij ≠ 0}. Not convex; runs are monotone all the same.

    Parameters
    ----------
    weight : float
        The price of an entry, positive.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.penalties import L0
    >>> L0(1.0).prox(np.array([[3.0, -0.5]]), 1.0)
    array([[3., 0.]])
    """

    convex = False
    degree = 0

    def value(self, X: Array) -> float:
        """Return weight times the number of nonzeros."""
        return self.weight * total(X != 0)

    def prox(self, V: Array, t: float) -> Array:
        """Return V with the entries below √(2·t·weight) set to zero."""
        kept: Array = namespace(V).where(abs(V) > math.sqrt(2 * t * self.weight), V, 0)
        return kept

    def stationarity(self, X: Array, gradient: Array) -> Array:
        """Return the gradient on the nonzeros: where X = 0 the limiting subdifferential of g is the whole line."""
        element: Array = namespace(X).where(X != 0, gradient, 0)
        return element
