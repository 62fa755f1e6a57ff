"""A step from one point to another, with all that decides whether it is accepted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from quartic.arrays import Array
from quartic.losses.point import Point
from quartic.ops import gram


@dataclass(frozen=True)
class Move:
    """The step D from a point p to a new one, and the Gram matrices from which every kernel's divergence follows.

    Attributes
    ----------
    start, point : Point
        p, and the new point p + D.
    remainder : float
        f(p + D) − f(p) − ⟨∇f(p), D⟩, computed without cancellation.
    D : array (n, r)
        The step.
    """

    start: Point
    point: Point
    remainder: float
    D: Array

    @cached_property
    def S(self) -> Array:
        """XᵀX at the start."""
        return self.start.gram

    @cached_property
    def T(self) -> Array:
        """XᵀD."""
        return gram(self.start.X, self.D)

    @cached_property
    def C(self) -> Array:
        """DᵀD."""
        return gram(self.D)

    @property
    def length(self) -> float:
        """‖D‖."""
        return math.sqrt(max(float(self.C.trace()), 0.0))

    @property
    def allowance(self) -> float:
        """How well ⟨∇f(p), D⟩ is known: a decrease or increase below this says nothing."""
        return self.start.rounding * self.length
