"""Where a quartic is least: every exact line search, compiled since it is made once or twice an iteration."""

from __future__ import annotations

from typing import Any

import numpy as np

from quartic.compiled.flags import FLAGS, INNER, njit

_EPS = float(np.finfo(np.float64).eps)
# Farther out than this no turn of a line is looked for.
_NOWHERE = 1e100


@njit(**FLAGS)
def minimize_quartic(c: Any, unknown: float, upper: float, far: bool) -> float:
    """Return the t in [0, upper] of least c₁t + c₂t² + c₃t³ + c₄t⁴; not ``far``, where it first stops falling.

    The coefficients are known to the relative error ``unknown``. Where the exact quartic has no terms of third and
    fourth order, what round-off leaves of them turns it down again at t ≈ 1/eps. So a t counts by the most that the
    change there can be, its round-off added; it is 0 where none lowers the quartic. Where all of an endless line falls,
    without a minimiser, it is infinite.

    Between the turns of the slope, which are known, it is monotone: where it crosses zero there, from below, the
    quartic has a local minimum.
    """
    scale = max(abs(c[0]), abs(c[1]), abs(c[2]), abs(c[3]))
    if not 0.0 < scale < np.inf:
        return 0.0
    c = c[0] / scale, c[1] / scale, c[2] / scale, c[3] / scale
    best, least, begin, falls = 0.0, 0.0, 0.0, c[0] < 0.0
    low, high = _turns(2 * c[1], 6 * c[2], 12 * c[3])
    for turn in (low, high, upper):
        end = min(turn, upper)
        if not end > begin:
            continue
        if end == np.inf:
            end = 2.0 * begin if begin > 0.0 else _length(c)
            while _slope(c, end) < 0.0 and end < _NOWHERE:
                end *= 2.0
        crosses, falls = _slope(c, begin) < 0.0 <= _slope(c, end), falls and _slope(c, end) < 0.0
        if crosses or end == upper:
            t = _cross(c, begin, end) if crosses else end
            change = _highest(c, t, unknown)
            if change < least:
                best, least = t, change
                if not far:
                    break
        begin = end
    return np.inf if falls and upper == np.inf else best


@njit(**INNER)
def _turns(a: float, b: float, c: float) -> Any:
    """Return the zeros of a + bt + ct² above 0 in order, 0 in place of those that are not there."""
    square = b * b - 4.0 * a * c
    if not square > 0.0:
        return 0.0, 0.0
    q = -0.5 * (b + np.copysign(np.sqrt(square), b))
    one, other = q / c if c != 0.0 else 0.0, a / q if q != 0.0 else 0.0
    one, other = one if one > 0.0 else 0.0, other if other > 0.0 else 0.0
    return min(one, other), max(one, other)


@njit(**INNER)
def _length(c: Any) -> float:
    """Return the least t at which one term of the slope alone outweighs its value at 0; 1 where none does."""
    t = np.inf
    if c[1] > 0.0:
        t = -c[0] / (2 * c[1])
    if c[2] > 0.0:
        t = min(t, np.sqrt(-c[0] / (3 * c[2])))
    if c[3] > 0.0:
        t = min(t, np.cbrt(-c[0] / (4 * c[3])))
    return t if 0.0 < t < np.inf else 1.0


@njit(**INNER)
def _slope(c: Any, t: float) -> Any:
    """Return the slope of the quartic."""
    return c[0] + t * (2 * c[1] + t * (3 * c[2] + t * 4 * c[3]))


@njit(**INNER)
def _highest(c: Any, t: float, unknown: float) -> Any:
    """Return the most that the quartic can be at t."""
    change = t * (c[0] + t * (c[1] + t * (c[2] + t * c[3])))
    return change + unknown * t * (abs(c[0]) + t * (abs(c[1]) + t * (abs(c[2]) + t * abs(c[3]))))


@njit(**INNER)
def _cross(c: Any, low: float, high: float) -> float:
    """Return where the slope crosses zero, which is negative at ``low`` and not at ``high``: Newton, or halving."""
    t = high
    for _ in range(300):
        slope, curvature = _slope(c, t), 2 * c[1] + t * (6 * c[2] + t * 12 * c[3])
        if slope == 0.0:
            break
        if slope < 0.0:
            low = t
        else:
            high = t
        new = t - slope / curvature if curvature != 0.0 else low
        new = new if low < new < high else 0.5 * (low + high)
        gap, t = abs(new - t), new
        if gap <= 2 * _EPS * t:
            break
    return t
