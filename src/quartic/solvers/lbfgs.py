"""Limited-memory BFGS, with an exact search where the loss is a quartic on lines; projected where X ≥ 0."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import cast

from quartic.arrays import Array, check_count
from quartic.ops import (
    clip_in_place,
    gram,
    inner,
    namespace,
    norm,
    passes,
    quotient,
    quotient_of_norms,
    regular_inverse,
    times,
)
from quartic.problem import Problem
from quartic.solvers.base import NoProgress, Requirements, Solver, State
from quartic.solvers.line_search import search_line
from quartic.solvers.refresh import refreshed


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
        D, slope = self._direction(problem, s, G)
        upper = passes("memory", D).longest_step(p.X, D) if penalty.nonnegative else math.inf
        # made before the slope is looked at: a device then answers for both at once
        line = problem.loss.along(p, D) if problem.loss.quadratic else None
        t = 0.0 if line is None else line.minimizer_with(*penalty.on_line(p.X, D), upper)
        if not slope < 0:
            if not s.steps:
                raise NoProgress("the gradient no longer descends: round-off is reached")
            return self.step(problem, LBFGSState(p, s.step, carried=s.carried, fresh=s.fresh))
        found = search_line(problem, p, D, upper) if line is None else (line.point(t), t) if t > 0 else None
        if found is None:
            raise NoProgress("the line search finds no lower point: round-off is reached")
        new, t = found
        if line is not None and penalty.nonnegative:
            clip_in_place(new.X)  # the bound reached at t is met but for round-off
        moved, change = t * D, penalty.smooth_gradient(new.X, new.gradient) - G
        bend, sizes = inner(moved, change), norm(moved) * norm(change)
        carried, fresh = 0, math.inf
        if line is not None:
            new, carried, fresh = refreshed(problem, new, s.carried + 1, s.fresh)
        steps, changes = s.steps, s.changes
        if bend > 1e-12 * sizes:
            steps, changes = (*steps, moved)[-self.memory :], (*changes, change)[-self.memory :]
        return LBFGSState(new, t, steps, changes, carried, fresh)

    def _direction(self, problem: Problem, s: LBFGSState, G: Array) -> tuple[Array, float]:
        """Return a direction and the slope along it, negative unless the memory misleads."""
        X, memory = s.point.X, passes("memory", s.point.X)
        free = memory.free_entries(X, G) if problem.penalty.nonnegative else None
        q = memory.two_loop(G, s.steps, s.changes, free, partial(self._first_metric, problem, s))
        if problem.penalty.nonnegative:
            D = namespace(X).empty_like(X)
            return D, memory.clipped_direction(X, q, G, D)
        return -q, -inner(G, q)

    def _first_metric(self, problem: Problem, s: LBFGSState, q: Array, scale: float | None) -> Array:
        """Return H₀ q: a multiple of q, of q by the loss's diagonal, or of q(XᵀX + shift)⁻¹ where signs are free."""
        X = s.point.X
        if problem.penalty.nonnegative:
            diagonal = problem.loss.curvature_diagonal(s.point)
            if diagonal is None:
                return q * (quotient_of_norms(X, q) if scale is None else scale)
            Q: Array = q / diagonal
            y = s.changes[-1] if s.steps else None
            factor = 0.0 if y is None else float(inner(s.steps[-1], y) / inner(y, y / diagonal))
            return Q * (factor if factor > 0 else quotient_of_norms(X, Q))
        if getattr(problem.loss, "difference", False):
            X = X - X.mean(axis=0)
        inverse = regular_inverse(gram(X), 1e-3)
        Q = times(q, inverse)
        if s.steps:
            y = s.changes[-1]
            return Q * quotient(inner(s.steps[-1], y), inner(y, times(y, inverse)))
        return Q * quotient_of_norms(s.point.X, Q)
