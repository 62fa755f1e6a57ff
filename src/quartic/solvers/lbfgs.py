"""Limited-memory BFGS, with an exact search where the loss is a quartic on lines; projected where X ≥ 0."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import Array, check_count
from quartic.losses import Point
from quartic.ops import gram, inner, norm
from quartic.problem import Problem
from quartic.solvers.base import NoProgress, Requirements, Solver, State
from quartic.solvers.line_search import search_line
from quartic.solvers.refresh import refreshed

# A point on a line, its t, for how many lines it was carried, and the stationarity when last made anew.
_Found: TypeAlias = tuple[Point, float, int, float]


@dataclass(frozen=True)
class LBFGSState(State):
    """The iterate and the curvature pairs (s, y), newest last.

    Attributes
    ----------
    steps, changes : tuple of arrays (n, r)
        s = X⁺ − X and y = ∇Ψ(X⁺) − ∇Ψ(X).
    carried : int
        For how many lines the gradient was carried along.
    fresh : float
        The stationarity when the point was last made anew.
    """

    steps: tuple[Array, ...] = ()
    changes: tuple[Array, ...] = ()
    carried: int = 0
    fresh: float = math.inf


@dataclass(frozen=True)
class LBFGS(Solver):
    """D = −H∇Ψ with H from the last few steps, then the best t of all on X + tD: one product an iteration.

    Where the loss is no quartic on lines, t is found by Armijo's rule, as a rule from one or two trials.

    For X ≥ 0 the two-loop recursion runs over the free entries (X > 0, or pushed off the bound), and
    D = max(X − H∇Ψ, 0) − X, which keeps X + tD feasible up to t = 1 and beyond to the first bound.
    It starts from a diagonal of second derivatives where the loss has one. Where signs are free the recursion starts
    from the metric of the factorisation, G ↦ G(XᵀX + shift)⁻¹.

    Parameters
    ----------
    memory : int, default=7
        How many steps are remembered.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic import Problem, minimize
    >>> from quartic.losses import LeastSquares
    >>> from quartic.penalties import Nonnegative
    >>> M = np.kron(np.eye(2), np.ones((3, 3)))
    >>> problem = Problem(LeastSquares(M), Nonnegative())
    >>> minimize(problem, rank=2, solver="lbfgs", random_state=0).success
    True
    """

    name = "lbfgs"
    requires = Requirements(smooth=True, nonnegative=True, lines=True)
    state = LBFGSState

    memory: int = 7

    def __post_init__(self) -> None:
        check_count(self.memory, "memory")

    def init(self, problem: Problem, X0: Array) -> LBFGSState:
        """Return the state at X0."""
        return LBFGSState(problem.loss.at(X0))

    def step(self, problem: Problem, state: State) -> LBFGSState:
        """Return the best point along the quasi-Newton direction."""
        s = cast(LBFGSState, state)
        p, penalty = s.point, problem.penalty
        G = penalty.smooth_gradient(p.X, p.gradient)
        D = self._direction(problem, s, G)
        if D is None:
            if not s.steps:
                raise NoProgress("the gradient no longer descends: round-off is reached")
            return self.step(problem, LBFGSState(p, s.step, carried=s.carried, fresh=s.fresh))
        upper = _longest(p.X, D) if penalty.nonnegative else math.inf
        found = self._exact(problem, s, D, upper) if problem.loss.quadratic else self._armijo(problem, s, D, upper)
        if found is None:
            raise NoProgress("the line search finds no lower point: round-off is reached")
        new, t, carried, fresh = found
        change = penalty.smooth_gradient(new.X, new.gradient) - G
        steps, changes = s.steps, s.changes
        moved = t * D
        if inner(moved, change) > 1e-12 * norm(moved) * norm(change):
            steps, changes = (*steps, moved)[-self.memory :], (*changes, change)[-self.memory :]
        return LBFGSState(new, t, steps, changes, carried, fresh)

    def _exact(self, problem: Problem, s: LBFGSState, D: Array, upper: float) -> _Found | None:
        """Return the best point on the line, made from the product with D; its t; how it was carried."""
        p, penalty = s.point, problem.penalty
        line = problem.loss.along(p, D)
        t = line.minimizer_with(*penalty.on_line(p.X, D), upper)
        if not t > 0:
            return None
        new = line.point(t)
        if penalty.nonnegative:
            np.maximum(new.X, 0, out=new.X)  # the bound reached at t is met but for round-off
        new, carried, fresh = refreshed(problem, new, s.carried + 1, s.fresh)
        return new, t, carried, fresh

    def _armijo(self, problem: Problem, s: LBFGSState, D: Array, upper: float) -> _Found | None:
        """Return a lower point on the line, which is a fresh one."""
        found = search_line(problem, s.point, D, upper)
        return None if found is None else (*found, 0, math.inf)

    def _direction(self, problem: Problem, s: LBFGSState, G: Array) -> Array | None:
        """Return a direction of descent, or None if the memory gives none."""
        from quartic.ops.memory import clipped_direction, free_entries

        X, nonnegative = s.point.X, problem.penalty.nonnegative
        free = np.ones(X.shape, dtype=np.bool_)
        if nonnegative:
            free_entries(X, G, free)
        q = self._two_loop(problem, s, np.where(free, G, 0), free)
        if nonnegative:
            D = np.empty_like(X)
            slope = clipped_direction(X, q, G, D)
        else:
            D, slope = -q, -inner(G, q)
        return D if slope < 0 else None

    def _two_loop(self, problem: Problem, s: LBFGSState, q: Array, free: NDArray[np.bool_]) -> Array:
        """Return H q, by the two-loop recursion over the free entries."""
        from quartic.ops.memory import add_and_dot, subtract_and_dot

        used: list[tuple[int, float, float]] = []
        coefficient, last, scale = 0.0, q, 0.0
        for i in reversed(range(len(s.steps))):
            sq, sy, yy = subtract_and_dot(q, coefficient, last, s.steps[i], s.changes[i], free)
            coefficient, last = 0.0, q
            if sy > 1e-10 * yy * (scale or 0.0) and sy > 0 and yy > 0:
                scale = scale or sy / yy
                coefficient, last = sq / sy, s.changes[i]
                used.append((i, coefficient, sy))
        if coefficient:
            subtract_and_dot(q, coefficient, last, last, last, free)
        q = self._first_metric(problem, s.point, q, scale, s.steps, s.changes)
        coefficient, last = 0.0, q
        for i, a, sy in reversed(used):
            yq = add_and_dot(q, coefficient, last, s.changes[i], free)
            coefficient, last = a - yq / sy, s.steps[i]
        if coefficient:
            add_and_dot(q, coefficient, last, last, free)
        return q

    def _first_metric(
        self, problem: Problem, p: Point, q: Array, scale: float, steps: tuple[Array, ...], changes: tuple[Array, ...]
    ) -> Array:
        """Return H₀ q: a multiple of q, of q by the loss's diagonal, or of q(XᵀX + shift)⁻¹ where signs are free."""
        if problem.penalty.nonnegative:
            diagonal = problem.loss.curvature_diagonal(p)
            if diagonal is None:
                return q * q.dtype.type(scale or norm(p.X) / norm(q))
            Q: Array = q / diagonal
            factor = inner(steps[-1], changes[-1]) / inner(changes[-1], changes[-1] / diagonal) if steps else 0.0
            return Q * q.dtype.type(factor if factor > 0 else norm(p.X) / norm(Q))
        X = p.X - p.X.mean(axis=0) if getattr(problem.loss, "difference", False) else p.X
        S = gram(X)
        rank = len(S)
        inverse = np.linalg.inv(S + 1e-3 * np.trace(S) / rank * np.eye(rank)).astype(q.dtype)
        Q = q @ inverse
        if steps:
            y = changes[-1]
            return Q * (inner(steps[-1], y) / inner(y, y @ inverse))
        return Q * (norm(p.X) / norm(Q))


def _longest(X: Array, D: Array) -> float:
    from quartic.ops.memory import longest_step

    return float(longest_step(X, D))
