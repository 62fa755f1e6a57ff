"""Nonlinear conjugate gradients with a preconditioner and an exact search of the quartic on each line."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, cast

import numpy as np

from quartic.arrays import Array, inner, norm
from quartic.core.problem import Problem
from quartic.losses.pairs.loss import PairSquares, SumOfSquares, diagonal_mean, row_blocks_in
from quartic.solvers.base import NoProgress, Requirements, Solver, State
from quartic.solvers.lines import CarriedState, refreshed

# What is added to a preconditioner, relative to its mean diagonal: rows with few pairs and lost columns stay bounded.
SHIFT = 1e-3
# Blocks are made anew when X has moved by this share of its norm, and by then the gradient is fresh too.
_STALE = 0.02

Preconditioner = Literal["auto", "none", "gram", "block"]


def nothing() -> Array:
    """Return what stands for an array that is not there."""
    return np.empty((0, 0))


@dataclass(frozen=True)
class CGState(CarriedState):
    """The iterate, and what the next step takes over; arrays that are not there are empty.

    ``direction`` and ``earlier`` are the last direction and the gradient G where it began, ``scale`` is ⟨G, P⁻¹G⟩
    there; ``blocks`` are the row blocks of the preconditioner, packed, ``mean`` their mean diagonal entry,
    ``made_at`` where they were made.
    """

    direction: Array = field(default_factory=nothing)
    earlier: Array = field(default_factory=nothing)
    scale: float = math.nan
    blocks: Array = field(default_factory=nothing)
    mean: float = 0.0
    made_at: Array = field(default_factory=nothing)


@dataclass(frozen=True)
class ConjugateGradient(Solver):
    r"""Nonlinear conjugate gradients: :math:`D = -P^{-1}G + \beta D_-`, :math:`X^+ = X + tD` with the best t of all.

    β is that of Polak and Ribière, and 0 where it would be negative or D no descent. On a line the loss is an exact
    quartic, so t is found from one pass.

    Parameters
    ----------
    preconditioner : {"auto", "none", "gram", "block"}, default="auto"
        P. "gram": G ↦ G(XᵀX + shift)⁻¹, the metric of the factorisation. "block": the r × r row blocks of the
        Gauss–Newton matrix, for losses that are sums of squares over pairs. "auto" takes blocks where there are
        pairs, else Gram.

    Notes
    -----
    With blocks an iteration makes two cheap passes, one for the quartic and one for the new gradient, which is
    therefore never carried. Otherwise it makes one, which gives both, and the carried gradient is made anew now and
    then.

    Examples
    --------
    >>> from quartic import Problem, losses, minimize
    >>> known = losses.Completion([0, 0, 1], [0, 1, 2], [1.0, 2.0, 6.0], 3)
    >>> result = minimize(Problem(known), rank=1, solver="ncg", tol=1e-8, random_state=0)
    >>> (result.X @ result.X.T).round(4)[2].tolist()
    [3.0, 6.0, 9.0]
    """

    name = "ncg"
    requires = Requirements(loss=("along",), penalty=("smooth", "ridge", "on_line"))
    state = CGState

    preconditioner: Preconditioner = "auto"

    def __post_init__(self) -> None:
        if self.preconditioner not in ("auto", "none", "gram", "block"):
            raise ValueError(f'preconditioner must be "auto", "none", "gram" or "block", got {self.preconditioner!r}')

    def unit_of_step(self, problem: Problem) -> tuple[int, int]:
        """Return the unit of t = X/D, where D is P⁻¹G and G is Ψ/X: P is 1, or XᵀX, or the blocks of ∇²f, Ψ/X²."""
        return {"none": (2, 1), "gram": (4, 1), "block": (0, 0)}[self._kind(problem)]

    def _kind(self, problem: Problem) -> str:
        pairs = problem.loss.offers("linearize")
        if self.preconditioner == "block" and not pairs:
            raise TypeError(
                f'preconditioner="block" needs a sum of squares over pairs, but the loss is '
                f'{problem.loss.name}; take "gram"'
            )
        return ("block" if pairs else "gram") if self.preconditioner == "auto" else self.preconditioner

    def init(self, problem: Problem, X0: Array) -> CGState:
        if self._kind(problem) != "block":
            return CGState(problem.loss.at(X0))
        point, blocks = cast(SumOfSquares, problem.loss).linearize(X0)
        return CGState(point, blocks=blocks, mean=diagonal_mean(blocks, X0.shape[1]), made_at=X0)

    def step(self, problem: Problem, state: State) -> CGState:
        s, kind = cast(CGState, state), self._kind(problem)
        p = s.point
        G = problem.penalty.stationarity(p.X, p.gradient)
        Z = _apply(kind, problem, s, G)
        scale = inner(G, Z)
        D = -Z
        if len(s.direction):
            overlap, along = inner(Z, s.earlier), inner(G, s.direction)
            beta = float(scale - overlap) / float(s.scale)
            if beta > 0 and beta * along < scale:  # else D would not descend
                D += beta * s.direction
        if kind == "block":
            return self._two_passes(problem, s, G, D, scale)
        return self._one_pass(problem, s, G, D, scale)

    def _one_pass(self, problem: Problem, s: CGState, G: Array, D: Array, scale: float) -> CGState:
        p = s.point
        line = problem.loss.along(p, D)
        t = _positive(line.minimizer(math.inf, *problem.penalty.on_line(p.X, D)))
        new, carried, fresh = refreshed(problem, line.point(t), s.carried + 1, s.fresh)
        return CGState(new, step=t, direction=D, earlier=G, scale=scale, carried=carried, fresh=fresh)

    def _two_passes(self, problem: Problem, s: CGState, G: Array, D: Array, scale: float) -> CGState:
        from quartic.losses.steps import Line

        p, loss = s.point, cast(PairSquares, problem.loss)
        line = Line(p, loss.quartic(p, D), lambda t: loss.at(p.X + t * D))
        t = _positive(line.minimizer(math.inf, *problem.penalty.on_line(p.X, D)))
        X = p.X + t * D
        moved, size = norm(X - s.made_at), norm(X)
        if moved > _STALE * size:
            new, blocks = loss.linearize(X)
            mean = diagonal_mean(blocks, X.shape[1])
            return CGState(new, step=t, direction=D, earlier=G, scale=scale, blocks=blocks, mean=mean, made_at=X)
        return CGState(
            loss.at(X), step=t, direction=D, earlier=G, scale=scale, blocks=s.blocks, mean=s.mean,
            made_at=s.made_at,
        )  # fmt: skip


def _positive(t: float) -> float:
    if not t > 0:
        raise NoProgress("the conjugate direction no longer descends: round-off is reached")
    return t


def _apply(kind: str, problem: Problem, s: CGState, G: Array) -> Array:
    """Return P⁻¹G."""
    p = s.point
    if kind == "none":
        return G
    rank, space = G.shape[1], problem.loss.space
    if kind == "gram":
        # where only differences of rows count, the mean of X is no part of the metric
        X = p.X - p.X.mean(axis=0) if problem.loss.translations else p.X
        return space.times(G, space.regular_inverse(space.gram(X), SHIFT))
    ops = row_blocks_in(space)
    Z: Array = space.xp.empty_like(G)
    L = ops.factor_blocks(s.blocks, (problem.penalty.ridge or 0.0) + SHIFT * float(s.mean), rank)
    ops.solve_blocks(L, G, Z)
    return Z
