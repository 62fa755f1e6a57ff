"""Limited-memory BFGS, with an exact search where the loss is a quartic on lines; projected where X ≥ 0."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from quartic.arrays import Array, Space
from quartic.core.problem import Problem
from quartic.losses import Point
from quartic.solvers.base import COUNT, Iterations, NoProgress, Requirements, Solver, State, checked
from quartic.solvers.lines import LINES, SHRUNK, CarriedState, refreshed, search_line


@dataclass(frozen=True)
class LBFGSState(CarriedState):
    """The iterate and the curvature pairs s = (X⁺ − X)/t and y = (∇Ψ(X⁺) − ∇Ψ(X))/t, newest last.

    Where X ≥ 0 they are set to zero off the face; ``replay`` has the iterations recorded on a device
    (`quartic.losses.Loss.replay`), which no checkpoint keeps.
    """

    steps: tuple[Array, ...] = ()
    changes: tuple[Array, ...] = ()
    replay: Any = None

    def check(self, shape: tuple[int, int]) -> None:
        """Raise unless pairs are of the shape and type of X: compiled passes do not look."""
        if not isinstance(self.steps, tuple) or not isinstance(self.changes, tuple):
            raise ValueError("pairs are no tuples")
        if len(self.steps) != len(self.changes):
            raise ValueError(f"{len(self.steps)} steps, but {len(self.changes)} changes of the gradient")
        for A in (*self.steps, *self.changes):
            if tuple(A.shape) != shape or A.dtype != self.point.X.dtype:
                raise ValueError(f"a pair of shape {tuple(A.shape)} and type {A.dtype} does not go with X")


@dataclass(frozen=True)
class LBFGS(Solver):
    """D = −H∇Ψ with H from the last few steps, then the best t of all on X + tD: one product an iteration.

    Where the loss is no quartic on lines, t is found by Armijo's rule, as a rule from one or two trials.

    For X ≥ 0 all of this is about the free entries (X > 0, or pushed off the bound), and
    D = max(X − H∇Ψ, 0) − X, which keeps X + tD feasible up to t = 1 and beyond to the first bound. What steps and
    changes of the gradient were at an entry that comes to the bound is forgotten. Where the loss has a diagonal of
    second derivatives, H starts from that. Where signs are free it starts from the metric of the factorisation,
    G ↦ G(XᵀX + shift)⁻¹.

    Parameters
    ----------
    memory : int, default=7
        How many steps are remembered.

    Examples
    --------
    >>> from quartic import Problem, losses, minimize, penalties
    >>> A = [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]]
    >>> problem = Problem(losses.Rectangular(A), penalties.Nonnegative())
    >>> minimize(problem, rank=1, solver="lbfgs", tol=1e-6, random_state=0).objective < 1e-8
    True
    """

    name = "lbfgs"
    requires = Requirements(penalty=("smooth|nonnegative", "on_line"))
    state = LBFGSState
    checks = checked(memory=COUNT)

    memory: int = 7

    def step(self, problem: Problem, state: State) -> LBFGSState:
        s = cast(LBFGSState, state)
        p, penalty, loss = s.point, problem.penalty, problem.loss
        G = penalty.smooth_gradient(p.X, p.gradient)
        D, slope, upper = self._direction(problem, s, G)
        # made before the slope is looked at: a device then answers for both at once
        line = loss.along(p, D) if loss.quadratic else None
        t = 0.0 if line is None else line.minimizer(upper, *penalty.on_line(p.X, D))
        if not slope < 0:
            if not s.steps:
                raise NoProgress("the gradient no longer descends: round-off is reached")
            del D, line, G  # memory is short where arrays are large
            return self.step(problem, LBFGSState(p, s.step, s.carried, s.fresh))
        found: tuple[Point, float] | None
        if line is None:
            found = search_line(problem, p, D, upper)
        else:
            found = ((line.point_within if penalty.nonnegative else line.point)(t), t) if t > 0 else None
        if found is None:
            raise NoProgress("the line search finds no lower point: round-off is reached")
        new, t = found
        del line, found  # and with them MD
        space, change = loss.space, penalty.smooth_gradient(new.X, new.gradient) - G
        change *= 1 / t
        if penalty.nonnegative:
            change *= _face(space, p.X, G)
        bend, sizes = space.inner(D, change), space.norm(D) * space.norm(change)
        carried, fresh = 0, math.inf
        if loss.quadratic:
            new, carried, fresh = refreshed(problem, new, s.carried + 1, s.fresh)
        steps, changes = s.steps, s.changes
        if bend > 1e-12 * sizes:
            steps, changes = (*steps, D)[-self.memory :], (*changes, change)[-self.memory :]
        return LBFGSState(new, t, carried, fresh, steps, changes)

    def advance(self, problem: Problem, state: State, most: int, target: float) -> tuple[State, Iterations]:
        s = cast(LBFGSState, state)
        settings = (self.memory, LINES, SHRUNK)
        replay = problem.loss.replay(problem, s.point, s.replay, "lbfgs", *settings) if most > 1 else None
        if replay is None:
            return self.step(problem, state), ()
        replay.load(s.point, s.steps, s.changes, s.carried, s.fresh)
        made = replay.run(most, target)
        if not made:
            return replace(self.step(problem, state), replay=replay), ()
        point, steps, changes, carried, fresh = replay.state()
        if carried >= LINES or made[-1][1] <= SHRUNK * fresh:
            point, carried, fresh = refreshed(problem, point, carried, fresh)
        return LBFGSState(point, made[-1][2], carried, fresh, steps, changes, replay), made

    def _direction(self, problem: Problem, s: LBFGSState, G: Array) -> tuple[Array, float, float]:
        """Return a direction, the slope along it (negative unless the memory misleads), and the longest step.

        Pairs are set to zero off the face.
        """
        X, space, F = s.point.X, problem.loss.space, G
        if problem.penalty.nonnegative:
            F = _face(space, X, G)
            for A in (*s.steps, *s.changes):
                A *= F
            F *= G
        q = space.lbfgs.two_loop(F, s.steps, s.changes, partial(self._first_metric, problem, s))
        del F  # memory is short where arrays are large
        if not problem.penalty.nonnegative:
            return -q, -space.inner(G, q), math.inf
        D: Array = space.xp.subtract(X, q, out=problem.loss.arrays.like(X))
        space.clip_in_place(D)
        D -= X
        least = space.least(space.xp.divide(D, space.xp.where(X > 0, X, 1), out=q))
        return D, space.inner(G, D), space.later(lambda share: -1 / share if share < 0 else math.inf, least)

    def _first_metric(self, problem: Problem, s: LBFGSState, q: Array, scale: float | None) -> Array:
        """Return H₀ q: a multiple of q, by the diagonal of a loss that has one; of q(XᵀX + shift)⁻¹ for free signs."""
        X, space = s.point.X, problem.loss.space
        if problem.penalty.nonnegative:
            diagonal = problem.loss.curvature_diagonal(s.point)
            if diagonal is None:
                return space.lbfgs.scaled(q, scale, X)
            Q: Array = q / diagonal
            y = s.changes[-1] if s.steps else None
            factor = 0.0 if y is None else float(space.inner(s.steps[-1], y) / space.inner(y, y / diagonal))
            return Q * (factor if factor > 0 else space.quotient_of_norms(X, Q))
        if problem.loss.translations:  # the mean of X is no part of the metric
            X = X - X.sum(axis=0) / len(X)
        inverse = space.regular_inverse(space.gram(X), 1e-3)
        Q = space.times(q, inverse)
        if s.steps:
            y = s.changes[-1]
            return Q * space.quotient(space.inner(s.steps[-1], y), space.inner(y, space.times(y, inverse)))
        return Q * space.quotient_of_norms(s.point.X, Q)


def _face(space: Space, X: Array, G: Array) -> Array:
    """Return ones at the free entries and zeros elsewhere, of X's type: products with truth values take far longer."""
    face: Array = space.xp.asarray((X > 0) | (G < 0), dtype=X.dtype)
    return face
