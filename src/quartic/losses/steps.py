"""From one point to others: steps, Bregman steps that are judged, and lines, on which a quadratic F is a quartic."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from quartic.arrays import Array, eps, gram
from quartic.arrays.space import meet_bounds

if TYPE_CHECKING:
    from quartic.losses.base import Point

# The relative round-off of a coefficient of a line, a sum over all of the data, in units of eps.
_LINE_ROUND_OFF = 64.0
# On a line that falls for ever: a step of so many times its natural length.
_FAR = 1e3


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


class Trial(NamedTuple):
    """The step from a point p to ``point`` X⁺ = T_λ(p), judged.

    ``enough`` is whether f(X⁺) ≤ f(p) + ⟨∇f(p), X⁺ − p⟩ + D_h(X⁺, p)/λ, the condition (suff_decrease) of the paper;
    ``taken`` the part of D_h(X⁺, p)/λ that the remainder f(X⁺) − f(p) − ⟨∇f(p), X⁺ − p⟩ takes up; ``ahead`` the Gram
    matrix of the point that the next step starts from, where the trial was told how far ahead that is and the loss has
    made it on the way: for `Loss.extrapolate`.
    """

    point: Point
    enough: bool
    taken: float
    ahead: Array | None = None


@dataclass(frozen=True)
class Line:
    """f(X + tD) = f(X) + c₁t + c₂t² + c₃t³ + c₄t⁴.

    Parameters
    ----------
    start : Point
        The point at t = 0.
    coefficients : tuple of 4 floats
        c₁ … c₄.
    move : callable
        Makes the point at t, without another product.
    move_within : callable, optional
        The same with X cut off at zero, where that is best done on the way.
    """

    start: Point
    coefficients: tuple[float, float, float, float]
    move: Callable[[float], Point]
    move_within: Callable[[float], Point] | None = None

    def change(self, t: float) -> float:
        """Return f(X + tD) − f(X), without cancellation."""
        c1, c2, c3, c4 = map(float, self.coefficients)
        return t * (c1 + t * (c2 + t * (c3 + t * c4)))

    def __call__(self, t: float) -> float:
        """Return f(X + tD)."""
        return float(self.start.value) + self.change(t)

    def minimizer(self, upper: float = math.inf, linear: float = 0.0, quadratic: float = 0.0) -> float:
        """Return the t in [0, upper] of least f(X + tD) + linear·t + quadratic·t² (a smooth penalty on the line).

        The global one, but for t at which the change is lost in round-off; far out where the line falls for ever.
        """
        from quartic.compiled.quartics import minimize_quartic

        c1, c2, c3, c4 = map(float, self.coefficients)
        c = c1 + float(linear), c2 + float(quadratic), c3, c4
        t: float = minimize_quartic(c, _LINE_ROUND_OFF * eps(self.start.X), float(upper), True)
        return t if math.isfinite(t) else _FAR * (-c[0] / abs(c[1]) if c[1] else 1.0)

    def point(self, t: float) -> Point:
        """Return the point X + tD; no product is made."""
        return self.move(t)

    def point_within(self, t: float) -> Point:
        """Return the point X + tD, where a bound X ≥ 0 that is reached at t is met exactly, not but for round-off."""
        if self.move_within is not None:
            return self.move_within(t)
        point = self.move(t)
        meet_bounds(point.X, self.start.X)
        return point
