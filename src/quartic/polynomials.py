"""Small polynomial equations, solved to the last digit: y³ + y = w, the length of a mirror map, roots of a cubic."""

from __future__ import annotations

import math

from quartic.arrays import Array, norm
from quartic.arrays.space import norm_scale, unit_cubic_root

__all__ = ["norm_length", "norm_scale", "real_roots_of_cubic", "unit_cubic_root"]


def norm_length(W: Array, alpha: float, sigma: float) -> Array:
    """Return the U parallel to W with (α‖U‖² + σ) U = W."""
    return W / norm_scale(float(norm(W)), alpha, sigma)


def real_roots_of_cubic(a: float, b: float, c: float, d: float) -> list[float]:
    """Return the real roots of a x³ + b x² + c x + d; of the polynomial of lower degree where leading terms vanish.

    A pair of roots that is real but for round-off counts as real.

    Examples
    --------
    >>> from quartic.polynomials import real_roots_of_cubic
    >>> [round(x, 12) for x in real_roots_of_cubic(1.0, -6.0, 11.0, -6.0)]
    [1.0, 2.0, 3.0]
    """
    scale = max(abs(a), abs(b), abs(c), abs(d))
    if scale == 0.0 or not math.isfinite(scale):
        return []
    a, b, c, d = a / scale, b / scale, c / scale, d / scale
    if abs(a) < 1e-300 or (abs(b) > 0 and abs(a / b) < 1e-150):
        return _roots_of_quadratic(b, c, d)
    # Divide by the natural length of x before depressing, so that a tiny leading term does not swamp the rest.
    length = max(abs(b / a), math.sqrt(abs(c / a)), math.cbrt(abs(d / a)))
    if length == 0.0:
        return [0.0]
    b, c, d = b / a / length, c / a / length / length, d / a / length / length / length
    p, q = c - b * b / 3, 2 * b**3 / 27 - b * c / 3 + d
    discriminant = (q / 2) ** 2 + (p / 3) ** 3
    # The coefficients are at most 1, so q and p are known to a few eps: less than this is a double root in round-off.
    if discriminant > 1e-15 * (abs(q) + p * p) + 1e-30:
        u = math.cbrt(-q / 2 - math.copysign(math.sqrt(discriminant), q))
        roots = [u - p / (3 * u) - b / 3 if u != 0.0 else -b / 3]
    else:
        radius = 2 * math.sqrt(max(-p / 3, 0.0))
        angle = math.acos(max(-1.0, min(1.0, 3 * q / (p * radius)))) if p < 0 and radius > 0 else 0.0
        roots = [radius * math.cos((angle - 2 * math.pi * k) / 3) - b / 3 for k in range(3)]
    return sorted(_polish(x, b, c, d) * length for x in roots)


def _polish(x: float, b: float, c: float, d: float) -> float:
    """Return x after Newton steps that lower the residual: at a double root they would jump about in round-off."""
    value = ((x + b) * x + c) * x + d
    for _ in range(3):
        slope = (3 * x + 2 * b) * x + c
        if slope == 0.0:
            break
        y = x - value / slope
        following = ((y + b) * y + c) * y + d
        if not abs(following) < 0.5 * abs(value):
            break
        x, value = y, following
    return x


def _roots_of_quadratic(a: float, b: float, c: float) -> list[float]:
    if abs(a) < 1e-300 * max(abs(b), abs(c), 1e-300) or a == 0.0:
        return [-c / b] if b != 0.0 else []
    discriminant = b * b - 4 * a * c
    if discriminant < 0:
        return []
    q = -(b + math.copysign(math.sqrt(discriminant), b)) / 2
    return sorted({q / a, c / q} if q != 0.0 else {0.0})
