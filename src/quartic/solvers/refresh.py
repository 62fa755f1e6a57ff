"""Products and gradients carried along lines drift: when to make a point anew."""

from __future__ import annotations

from quartic.core.problem import Problem
from quartic.losses import Point

# A carried point is made anew after so many lines, or when stationarity has shrunk this much: the round-off it
# carries is that of the largest gradient on the way.
_LINES, _SHRUNK = 50, 1e-3


def refreshed(problem: Problem, point: Point, carried: int, fresh: float) -> tuple[Point, int, float]:
    """Return the point, made anew if it is time; for how many lines it was carried; stationarity when last anew."""
    problem.begin(point)
    stationarity = problem.stationarity(point)
    if fresh == float("inf"):
        fresh = stationarity
    if carried >= _LINES or stationarity <= _SHRUNK * fresh:
        point = problem.loss.at(point.X)
        problem.begin(point)
        return point, 0, problem.stationarity(point)
    return point, carried, fresh
