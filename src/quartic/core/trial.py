"""A Bregman step that is tried: where it leads, and whether it decreases the objective enough to be taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from quartic.arrays import Array

if TYPE_CHECKING:
    from quartic.core.problem import Problem
    from quartic.kernels.base import Kernel
    from quartic.losses.point import Move, Point


class Trial(NamedTuple):
    """The step from a point p to ``point`` X⁺ = T_λ(p), judged.

    ``enough`` is whether f(X⁺) ≤ f(p) + ⟨∇f(p), X⁺ − p⟩ + D_h(X⁺, p)/λ, the condition (suff_decrease) of the paper;
    ``taken`` the part of D_h(X⁺, p)/λ that the remainder f(X⁺) − f(p) − ⟨∇f(p), X⁺ − p⟩ takes up; ``ahead`` the Gram
    matrix of the point that the next step starts from, where the trial was told how far ahead that is and the loss has
    made it on the way: for `Loss.extrapolate`.
    """

    point: Point
    enough: bool
    taken: float
    ahead: Array | None = None


def try_bregman_step(problem: Problem, p: Point, step: float) -> Trial:
    """Return the trial of X⁺ = T_λ(p) for any loss, kernel and penalty: the mirror map, one product, the remainder."""
    move = problem.move(p, problem.bregman_step(p, step))
    assert problem.kernel is not None
    return Trial(move.point, *judge(problem.kernel, move, step))


def judge(kernel: Kernel, move: Move, step: float) -> tuple[bool, float]:
    """Tell whether the decrease is sufficient, and which part of D_h(X⁺, p)/λ the remainder takes up."""
    room = float(kernel.divergence_of(move)) / step
    remainder = float(move.remainder)
    return remainder <= room + float(move.allowance), remainder / room if room > 0 else 1.0
