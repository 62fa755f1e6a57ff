"""Conjugate directions on the face of X ≥ 0: BFGS with a memory of one step, two passes over X beside the line."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from quartic.arrays import Array
from quartic.arrays.threads import spread
from quartic.compiled.flags import FLAGS, njit
from quartic.core.problem import Problem
from quartic.solvers.base import NoProgress, Requirements, Solver, State
from quartic.solvers.lines import CarriedState, refreshed

# Entries are worked on in so many pieces, whose sums are added in order: the same bits on any number of threads.
_PIECES, _BLOCK = 128, 1024
# No step is longer, on a line without bounds.
_LONGEST = 1e12
# The last step is forgotten where its curvature is this small beside ‖s‖·‖y‖.
_FLAT = 1e-12
# Entries on their way to zero are set to it where they hold so much of the squared gradient: a product more.
_MOSTLY = 0.5


@dataclass(frozen=True)
class FaceState(CarriedState):
    """The iterate; the last direction, along which the step went, and the gradient where it began."""

    last: tuple[Array, ...] = ()


@dataclass(frozen=True)
class FaceCG(Solver):
    """D = max(X − HG, 0) − X with H the BFGS update, by the last step alone, of a multiple of the identity.

    All of this is about the face of X, the entries with X > 0 or G < 0. With s the last step and y the change of the
    gradient G along it,

        HG = γG + (2⟨s, G⟩/⟨s, y⟩ − ⟨y, G⟩/⟨y, y⟩) s − (⟨s, G⟩/⟨y, y⟩) y,    γ = ⟨s, y⟩/⟨y, y⟩

    (Shanno 1978). Then the best t of all on X + tD, up to where an entry meets its bound: with an exact search, and
    while no bound is met, these are the directions of conjugate gradients. An iteration costs one product. It needs a
    few more of them than L-BFGS, but two passes over X beside those of the line, where L-BFGS has a dozen.

    Examples
    --------
    >>> from quartic import SymNMF, datasets
    >>> SymNMF(2, solver="face-cg", random_state=0).fit(datasets.karate().adjacency).result_.success
    True
    """

    name = "face-cg"
    requires = Requirements(("on_host", "along"), ("nonnegative", "on_line"))
    state = FaceState

    def step(self, problem: Problem, state: State) -> FaceState:
        s = cast(FaceState, state)
        p, penalty = s.point, problem.penalty
        G = penalty.smooth_gradient(p.X, p.gradient)
        D, slope, n_met, push = _direction(problem, s, G)
        if not slope < 0:
            if not s.last:
                raise NoProgress("the gradient no longer descends: round-off is reached")
            return self.step(problem, replace(s, last=()))
        line = problem.loss.along(p, D)
        linear, quadratic = penalty.on_line(p.X, D)
        t = line.minimizer(math.inf, linear, quadratic)
        if not 0 < t <= 1:  # beyond 1 an entry may meet its bound, if none has
            longest = 1.0 if n_met else _longest(p.X, D)
            t = line.minimizer(longest, linear, quadratic)
        if not t > 0:
            raise NoProgress("the line search finds no lower point: round-off is reached")
        if t < 1 and push > _MOSTLY * problem.stationarity(p) ** 2:
            at_zero = problem.loss.arrays.like(p.X)
            _sums(p.X, 0, _set_to_zero, D, p.X.dtype.type(t), at_zero)
            cut = problem.loss.at(at_zero)
            if problem.objective(cut) < problem.objective(p) + line.change(t) + t * (linear + t * quadratic):
                return FaceState(cut, t, 0, math.inf, (D, G))
        new, carried, fresh = refreshed(problem, line.point_within(t), s.carried + 1, s.fresh)
        return FaceState(new, t, carried, fresh, (D, G))


def _direction(problem: Problem, s: FaceState, G: Array) -> tuple[Array, float, float, float]:
    """Return D, the slope ⟨G, D⟩, how many positive entries of X are zero in X + D, and ‖G‖² there."""
    X, (d, before) = s.point.X, s.last or (G, G)
    gradient, step, change = 0.0, 0.0, 0.0
    if s.last:
        # of d, the last direction, and y, the change of the gradient along the step td
        dy, yy, dd, dG, yG = _sums(X, 5, _look, d, before, G).sum(axis=0).tolist()
        if dy > _FLAT * math.sqrt(dd * yy):
            gradient, step, change = s.step * dy / yy, s.step * (2 * dG / dy - yG / yy), -s.step * dG / yy
    if not gradient > 0:  # as long a step as X is
        gradient, step, change = problem.loss.space.norm(X) / (problem.stationarity(s.point) or 1.0), 0.0, 0.0
    D = problem.loss.arrays.like(X)
    kind = X.dtype.type
    sums = _sums(X, 3, _combine, d, before, G, kind(gradient), kind(step), kind(change), D)
    slope, n_met, push = sums.sum(axis=0).tolist()
    return D, slope, n_met, push


def _longest(X: Array, D: Array) -> float:
    """Return the largest t with X + tD ≥ 0; where X = 0, D ≥ 0."""
    falls = D < 0
    return float(np.min(X[falls] / -D[falls].astype(np.float64), initial=_LONGEST))


def _sums(X: Array, count: int, work: Any, *data: Any) -> Array:
    """Return the sums that a pass over all entries makes, for each piece of them."""
    size = _BLOCK * max(1, -(-X.size // (_PIECES * _BLOCK)))
    n_pieces = -(-X.size // size)
    sums: Array = np.zeros((n_pieces, count))
    flat = (X.ravel(), *(A.ravel() if isinstance(A, np.ndarray) else A for A in data))
    spread(lambda first, last: work(*flat, sums, size, first, last), n_pieces, 6.0 * X.size)
    return sums


@njit(**FLAGS)
def _look(X: Any, D: Any, before: Any, G: Any, sums: Any, size: int, first: int, last: int) -> None:
    """Sum up ⟨d, y⟩, ⟨y, y⟩, ⟨d, d⟩, ⟨d, g⟩ and ⟨y, g⟩ over the face, with y = g − before."""
    for piece in range(first, last):
        part = slice(piece * size, (piece + 1) * size)
        x, d, h, g = X[part], D[part], before[part], G[part]
        dy, yy, dd, dg, yg = 0.0, 0.0, 0.0, 0.0, 0.0
        for k in range(x.size):
            on = np.float64((x[k] > 0) | (g[k] < 0))
            a, b = on * np.float64(d[k]), np.float64(g[k])
            y = on * (b - np.float64(h[k]))
            dy += a * y
            yy += y * y
            dd += a * a
            dg += a * b
            yg += y * b
        sums[piece, 0], sums[piece, 1], sums[piece, 2], sums[piece, 3], sums[piece, 4] = dy, yy, dd, dg, yg


@njit(**FLAGS)
def _combine(
    X: Any, D: Any, before: Any, G: Any, a: Any, b: Any, c: Any, out: Any, sums: Any, size: int, first: int, last: int
) -> None:
    """Fill ``out`` = max(x − q, 0) − x with q = ag + bd + c(g − before) on the face.

    Sum up ⟨g, out⟩; count the x > 0 that ``out`` brings to zero, and sum up their g².
    """
    zero = X.dtype.type(0)
    for piece in range(first, last):
        part = slice(piece * size, (piece + 1) * size)
        x, d, h, g, o = X[part], D[part], before[part], G[part], out[part]
        slope, met, push = 0.0, 0.0, 0.0
        for k in range(x.size):
            to = x[k] - (a * g[k] + b * d[k] + c * (g[k] - h[k]))
            to = (to if to > zero else zero) - x[k]
            o[k] = to if (x[k] > zero) | (g[k] < zero) else zero
        for k in range(x.size):
            slope += np.float64(o[k]) * np.float64(g[k])
        for k in range(x.size):
            on = np.float64((x[k] > zero) & (o[k] == -x[k]))
            met += on
            push += on * np.float64(g[k]) * np.float64(g[k])
        sums[piece, 0], sums[piece, 1], sums[piece, 2] = slope, met, push


@njit(**FLAGS)
def _set_to_zero(X: Any, D: Any, t: Any, out: Any, sums: Any, size: int, first: int, last: int) -> None:
    """Fill ``out`` with x + td, and zero where x + d is zero."""
    for k in range(first * size, min(last * size, X.size)):
        out[k] = X.dtype.type(0) if D[k] == -X[k] else X[k] + t * D[k]
