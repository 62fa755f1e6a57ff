"""A step from one point to another, with all that decides whether it is accepted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from quartic.arrays import Array, gram
from quartic.losses.point import Point


@dataclass(eq=False)
class Move:
    """The step D from a point p to a new one, and the Gram matrices from which every kernel's divergence follows.

    Parameters
    ----------
    start, point : Point
        p, and the new point p + D.
    remainder : float
        f(p + D) − f(p) − ⟨∇f(p), D⟩, computed without cancellation.
    step : array (n, r), optional
        D, where it is at hand; worked out when asked for otherwise, as are the following two.
    cross, curvature : array (r, r), optional
        XᵀD and DᵀD, with X the start.
    """

    start: Point
    point: Point
    remainder: float
    step: Array | None = None
    cross: Array | None = None
    curvature: Array | None = None

    @cached_property
    def D(self) -> Array:
        """The step p + D − p."""
        return self.point.X - self.start.X if self.step is None else self.step

    @property
    def S(self) -> Array:
        """XᵀX at the start."""
        return self.start.gram

    @cached_property
    def T(self) -> Array:
        """XᵀD."""
        return gram(self.start.X, self.D) if self.cross is None else self.cross

    @cached_property
    def C(self) -> Array:
        """DᵀD."""
        return gram(self.D) if self.curvature is None else self.curvature

    @cached_property
    def sizes(self) -> tuple[float, float, float]:
        """‖X‖², 2⟨X, D⟩ and ‖D‖², with X the start."""
        self.begin()
        return float(self.S.trace()), 2 * float(self.T.trace()), float(self.C.trace())

    def begin(self) -> None:
        """Set going on a device, without waiting for it, what kernels ask for."""
        _ = self.S, self.T, self.C

    @property
    def length(self) -> float:
        """‖D‖."""
        return math.sqrt(max(self.sizes[2], 0.0))

    @property
    def allowance(self) -> float:
        """How well ⟨∇f(p), D⟩ is known: a decrease or increase below this says nothing."""
        return self.start.rounding * self.length
