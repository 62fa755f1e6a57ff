"""The number of nonzero entries."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from quartic.arrays import Array, astype, namespace, space_of, total
from quartic.core.units import Units
from quartic.penalties.base import Penalty, check_weight, scale_weight
from quartic.polynomials import norm_length, unit_cubic_root


@dataclass(frozen=True)
class L0(Penalty):
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

    weight: float

    def __post_init__(self) -> None:
        check_weight(self.weight, "L0: weight")

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

    def in_units(self, units: Units) -> Self | None:
        """Return the same with the weight scaled."""
        weight = scale_weight(self.weight, 0, units)
        return None if math.isnan(weight) else replace(self, weight=weight)

    def norm_mirror(self, V: Array, t: float, alpha: float, sigma: float) -> Array:
        """Keep the k largest |V|, where k minimises k·t·weight − h*(‖V_top-k‖), convex in k.

        With p = ‖U‖² the conjugate is h* = ¾αp² + ½σp, and ‖V‖² = p(αp + σ)². Taking one more entry v adds v² to ‖V‖²;
        what it adds to p and to h* follows from divided differences, without cancellation.
        """
        xp, flat = namespace(V), V.reshape(-1)
        order = space_of(V).falling_order(abs(flat))
        squares = astype(flat[order], np.float64) ** 2
        length = math.sqrt(sigma / alpha)
        y = unit_cubic_root(xp.sqrt(xp.cumsum(squares, 0)) / (length * sigma))
        p = (length * y) ** 2
        before = xp.zeros_like(p)
        before[1:] = p[:-1]
        slope = alpha**2 * (p * p + p * before + before * before) + 2 * alpha * sigma * (p + before) + sigma**2
        gain = squares / slope * (0.75 * alpha * (p + before) + 0.5 * sigma)
        kept = order[: int((gain > t * self.weight).sum())]
        W = xp.zeros_like(flat)
        W[kept] = flat[kept]
        return norm_length(W.reshape(V.shape), alpha, sigma)
