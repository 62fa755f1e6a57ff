"""A loss on a line X + tD: an exact quartic in t where F is quadratic."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from quartic.arrays import eps, space_of
from quartic.losses.point import Point
from quartic.polynomials import real_roots_of_cubic

# The relative round-off of a coefficient, a sum over all of the data, in units of eps.
_ROUND_OFF = 64.0
# On a line that falls for ever: a step of so many times its natural length.
_FAR = 1e3


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
        c1, c2, c3, c4 = (float(c) for c in self.coefficients)
        return t * (c1 + t * (c2 + t * (c3 + t * c4)))

    def __call__(self, t: float) -> float:
        """Return f(X + tD)."""
        return float(self.start.value) + self.change(t)

    def minimizer(self, upper: float = math.inf) -> float:
        """Return the t in [0, upper] of least f: the global one, since all roots of the derivative are tried."""
        return self.minimizer_with(0.0, 0.0, upper)

    def minimizer_with(self, linear: float, quadratic: float, upper: float = math.inf) -> float:
        """Return the t in [0, upper] of least f(X + tD) + linear·t + quadratic·t² (a smooth penalty on the line).

        The coefficients are known to a few units of their last digits. Where the exact quartic has no terms of third
        and fourth order, what round-off leaves of them turns it down again at t ≈ 1/eps. So a t counts by the most that
        the change there can be, its round-off added. Where all of the line falls, without a minimiser, t is far out.
        """
        c1, c2, c3, c4 = (float(c) for c in self.coefficients)
        c1, c2, upper = float(c1 + linear), float(c2 + quadratic), float(upper)
        unknown = _ROUND_OFF * eps(self.start.X)

        def most(t: float) -> float:
            change = t * (c1 + t * (c2 + t * (c3 + t * c4)))
            return change + unknown * t * (abs(c1) + t * (abs(c2) + t * (abs(c3) + t * abs(c4))))

        roots = [t for t in real_roots_of_cubic(4 * c4, 3 * c3, 2 * c2, c1) if 0 < t < math.inf]
        candidates = [t for t in roots if t < upper]
        if math.isfinite(upper):
            candidates.append(upper)
        elif c1 < 0 and not roots:
            candidates.append(_FAR * (-c1 / abs(c2) if c2 else 1.0))
        best = min(candidates, key=most, default=0.0)
        return best if most(best) < 0 else 0.0

    def point(self, t: float) -> Point:
        """Return the point X + tD; no product is made."""
        return self.move(t)

    def point_within(self, t: float) -> Point:
        """Return the point X + tD, where a bound X ≥ 0 that is reached at t is met exactly, not but for round-off."""
        if self.move_within is not None:
            return self.move_within(t)
        point = self.move(t)
        space_of(point.X).clip_in_place(point.X)
        return point
