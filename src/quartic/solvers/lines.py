"""On lines: a search for losses that are no quartics there, and when a point carried along lines is made anew."""

from __future__ import annotations

import math
from dataclasses import dataclass

from quartic.arrays import Array, inner, norm
from quartic.arrays.space import meet_bounds
from quartic.core.problem import Problem
from quartic.losses import Point
from quartic.solvers.base import State

# Ψ must fall by this share of what its slope promises.
_SUFFICIENT = 1e-4
# A trial is at most this many times longer, and at least this much shorter, than the one before.
_LONGER, _SHORTER = 4.0, 0.1
_TRIALS = 40
# A step that leaves no more than this of X was one to zero.
_NOTHING = 1e-6
# A carried point is made anew after so many lines, or when stationarity has shrunk this much: the round-off it
# carries is that of the largest gradient on the way.
LINES, SHRUNK = 50, 1e-3


@dataclass(frozen=True)
class CarriedState(State):
    """An iterate, for how many lines its product was ``carried``, and the stationarity when it was last ``fresh``."""

    carried: int = 0
    fresh: float = math.inf


def search_line(problem: Problem, p: Point, D: Array, upper: float = math.inf) -> tuple[Point, float] | None:
    """Return a point X + tD that is lower, and its t ≤ upper; None where there is none down to round-off.

    Armijo's rule from t = 1. Each trial knows its remainder, Ψ(X + tD) − Ψ(X) − t·slope ≈ ½κt², without cancellation,
    so that the next one goes to the minimiser −slope/κ of that parabola; once more also after a success that
    promises to be far too short, as first steps are. One that ends at X = 0 but for round-off, a saddle as a rule, is
    cut by a tenth where that is lower.
    """
    found = _descend(problem, p, D, upper)
    if found is None or norm(found[0].X) > _NOTHING * norm(p.X):
        return found
    short = 0.9 * found[1]
    near = problem.loss.at(p.X + short * D)
    return (near, short) if problem.objective(near) < problem.objective(found[0]) else found


def _descend(problem: Problem, p: Point, D: Array, upper: float) -> tuple[Point, float] | None:
    upper = float(upper)  # on a device it may be under way
    t, best = min(1.0, upper), None
    for _ in range(_TRIALS):
        X = p.X + t * D
        if problem.penalty.nonnegative:
            meet_bounds(X, p.X)
        move = problem.loss.move(p, X)
        predicted = inner(p.gradient, move.D) + problem.penalty.change(p.X, X)
        parabola = t * float(_vertex(predicted, move.remainder))
        if predicted + move.remainder <= _SUFFICIENT * predicted + move.allowance:
            longer = min(parabola, _LONGER * t, upper)
            if best is None and longer >= 2 * t:
                best, t = (move.point, t, predicted + move.remainder), longer
                continue
            if best is None or predicted + move.remainder < best[2]:
                return move.point, t
            return best[0], best[1]
        if best is not None:
            return best[0], best[1]
        t = min(max(parabola, _SHORTER * t), 0.5 * t)
    return None


def _vertex(slope: float, remainder: float) -> float:
    """Return the s where slope·s + remainder·s² is least; infinity where it falls for ever."""
    if not remainder > 0:
        return math.inf if remainder <= 0 else 0.0
    return -slope / (2 * remainder)


def refreshed(problem: Problem, point: Point, carried: int, fresh: float) -> tuple[Point, int, float]:
    """Return ``carried`` and ``fresh`` after the point they go with, which is made anew if it is time."""
    problem.begin(point)
    stationarity = problem.stationarity(point)
    fresh = stationarity if fresh == math.inf else fresh
    if carried >= LINES or stationarity <= SHRUNK * fresh:
        point = problem.loss.at(point.X)
        problem.begin(point)
        return point, 0, problem.stationarity(point)
    return point, carried, fresh
