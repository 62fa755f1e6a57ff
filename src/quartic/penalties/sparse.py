"""Penalties that make X sparse: ℓ1 and ℓ0."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from quartic.arrays import Array
from quartic.penalties.base import Weighted


def soft_threshold(V: Array, level: float) -> Array:
    """Return sign(V) · max(|V| − level, 0)."""
    return np.sign(V) * np.maximum(np.abs(V) - level, 0)


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
        return self.weight * float(np.abs(X).sum(dtype=np.float64))

    def prox(self, V: Array, t: float) -> Array:
        """Return V soft-thresholded at t·weight."""
        return soft_threshold(V, t * self.weight)

    def change(self, X: Array, Y: Array) -> float:
        """Return weight · Σ(|Y| − |X|)."""
        return self.weight * float((np.abs(Y) - np.abs(X)).sum(dtype=np.float64))

    def stationarity(self, X: Array, gradient: Array) -> Array:
        """Return ∇f + weight·sign(X) where X ≠ 0, and the part of ∇f that the ℓ1 norm cannot hold where X = 0."""
        return np.where(X != 0, gradient + self.weight * np.sign(X), soft_threshold(gradient, self.weight))


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
        return self.weight * float(np.count_nonzero(X))

    def prox(self, V: Array, t: float) -> Array:
        """Return V with the entries below √(2·t·weight) set to zero."""
        return np.where(np.abs(V) > math.sqrt(2 * t * self.weight), V, 0)

    def stationarity(self, X: Array, gradient: Array) -> Array:
        """Return the gradient on the nonzeros: where X = 0 the limiting subdifferential of g is the whole line."""
        return np.where(X != 0, gradient, 0)
