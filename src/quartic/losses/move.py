"""A step from one point to another, with all that decides whether it is accepted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from quartic.arrays import Array, gram
from quartic.losses.estimates import Estimate
from quartic.losses.point import Point


@dataclass(frozen=True)
class Move:
    """The step D from a point p to a new one, and the Gram matrices from which every kernel's divergence follows.

    Attributes
    ----------
    start, point : Point
        p, and the new point p + D.
    remainder : float
        f(p + D) − f(p) − ⟨∇f(p), D⟩, computed without cancellation.
    step : array (n, r), optional
        D, where it is at hand; worked out when asked for otherwise.
    """

    start: Point
    point: Point
    remainder: float
    step: Array | None = None

    @cached_property
    def D(self) -> Array:
        """The step p + D − p."""
        return self.point.X - self.start.X if self.step is None else self.step

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

    @cached_property
    def sizes(self) -> tuple[float, float, float]:
        """‖X‖², 2⟨X, D⟩ and ‖D‖², with X the start."""
        S, T, C = self.S, self.T, self.C  # all three under way before one is read
        return float(S.trace()), 2 * float(T.trace()), float(C.trace())

    @property
    def length(self) -> float:
        """‖D‖."""
        return math.sqrt(max(self.sizes[2], 0.0))

    @property
    def allowance(self) -> float:
        """How well ⟨∇f(p), D⟩ is known: a decrease or increase below this says nothing."""
        return self.start.rounding * self.length

    @property
    def rough(self) -> bool:
        """Whether the remainder is not at hand, and an `estimate` is."""
        return False

    def estimate(self, slope: Estimate) -> Estimate:
        """Return the remainder from ⟨∇f(p), p + D⟩, where that is cheaper."""
        raise NotImplementedError
