"""The steps of ½‖M − XXᵀ‖²: two ways to tell how far f is from its tangent, and the short way to try a Bregman step.

The remainder of a step D is a matter of DᵀD, which costs as much as XᵀX: a third of the pass over the new X. A Bregman
step of the norm kernel is optimal, which gives ⟨∇f(p), X⁺⟩ for nothing; from there the remainder follows by a
difference of sums that are made anyway. The difference loses digits, but says how many. While steps are long it
decides, and DᵀD is made only where it cannot.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from quartic.arrays import Array, eps, trace_inner
from quartic.core.trial import Trial, judge, try_bregman_step
from quartic.kernels.norm import NormKernel
from quartic.losses.point import Move
from quartic.penalties.base import Penalty

if TYPE_CHECKING:
    from quartic.core.problem import Problem
    from quartic.losses.factor.loss import LeastSquaresPoint
    from quartic.losses.factor.passes import StepSums

# Sums over tall arrays are made in blocks; their round-off is within so many units of the size of their terms.
_ROUND_OFF = 32.0


class Estimate(NamedTuple):
    """A number that may be wrong by ``error``."""

    value: float
    error: float


class LeastSquaresMove(Move):
    """A step D from p to X = p + D, known by the sums of one pass.

    With S = pᵀp, C = DᵀD and B = XᵀX − S the remainder is ⟨S, C⟩ + ½‖B‖² − ⟨MD, D⟩. Every term is of second order in
    D, and the round-off in B, eps·‖S‖, enters only times B itself: the remainder is known to eps·‖X‖/‖D‖ of its size,
    where a difference of values would lose it below √eps.
    """

    start: LeastSquaresPoint
    point: LeastSquaresPoint

    def __init__(self, start: LeastSquaresPoint, point: LeastSquaresPoint, sums: StepSums) -> None:
        self.start, self.point, self.sums = start, point, sums

    @cached_property
    def C(self) -> Array:
        """DᵀD, by another pass if the first has not made it, which is rare."""
        sums = self.sums
        if sums.curved is None:
            sums = self.start.loss.passes.step_sums(self.point.X, self.point.MX, self.start.origin, None, True)
        assert sums.curved is not None
        return sums.curved

    @cached_property
    def sizes(self) -> tuple[float, float, float]:
        """‖X‖², 2⟨X, D⟩ and ‖D‖², with X the start."""
        size = self.start.space.later(_trace, self.start.gram)
        return size, 2 * self.sums.along, self.sums.length

    @property
    def allowance(self) -> float:
        """How well ⟨∇f(p), D⟩ is known."""
        return self.start.rounding * math.sqrt(max(float(self.sums.length), 0.0))

    def begin(self) -> None:
        """Nothing: the pass has set all of it going."""

    @cached_property
    def remainder(self) -> float:  # type: ignore[override]  # worked out when asked for
        """f(p + D) − f(p) − ⟨∇f(p), D⟩."""
        remainder: float = self.start.space.later(_remainder, self.start.gram, self.sums.gram, self.C, self.sums.bend)
        return remainder

    def estimate(self, slope: Estimate) -> Estimate:
        """Return the remainder from ⟨∇f(p), X⟩, by differences of sums that were made anyway.

        With 2⟨pS, X⟩ = ⟨∇f(p), X⟩ + 2⟨Mp, X⟩ and 2⟨pS, p⟩ = 2‖S‖² the remainder ½‖XᵀX‖² − ½‖S‖² − ⟨MD, D⟩ − 2⟨pS, D⟩ is
        ½‖XᵀX‖² + (3/2)‖S‖² − ⟨MD, D⟩ − ⟨∇f(p), X⟩ − 2⟨Mp, X⟩. Its terms are of order ‖X‖⁴ where it is of order
        ‖X‖²‖D‖²: good enough for long steps, and it says how good.
        """
        S, sums = self.start.gram, self.sums
        before, after = 1.5 * trace_inner(S, S), 0.5 * trace_inner(sums.gram, sums.gram)
        value = (after + before) - sums.bend - slope.value - 2 * sums.pull
        size = after + before + abs(sums.bend) + 2 * abs(sums.pull)
        return Estimate(value, slope.error + _ROUND_OFF * eps(self.point.X) * size)


def _trace(S: Array) -> float:
    return float(S.trace())


def _remainder(S: Array, new: Array, C: Array, bend: float) -> float:
    """Return what f(X + D) − f(X) is beyond the first order, from XᵀX, that of X + D, DᵀD and bend = ⟨MD, D⟩."""
    B = new - S
    return trace_inner(S, C) + 0.5 * trace_inner(B, B) - bend


def try_short(problem: Problem, p: LeastSquaresPoint, step: float, ahead: float | None) -> Trial:
    """Return the trial of T_λ(p), judged by an estimate where that is clear; the long way where there is none.

    The next step is to start ``ahead`` times as far beyond T_λ(p) as that is from the iterate before.
    """
    kernel, penalty = problem.kernel, problem.penalty
    # exactly this kernel: another, derived from it, may come to its step in its own way
    if type(kernel) is not NormKernel or penalty.cut(step) is None:
        return try_bregman_step(problem, p, step)
    move = p.loss.measured_move(p, kernel.iterate(p, penalty, step), ahead, curved=p.takes_short_steps)
    problem.begin(move.point)
    if move.sums.curved is None:
        room = float(kernel.divergence_of(move)) / step
        most = room + float(move.allowance)
        value, error = move.estimate(slope_of_step(kernel, penalty, move, step))
        if abs(value - most) > error:
            return Trial(move.point, value <= most, value / room if room > 0 else 1.0, move.sums.ahead)
    return Trial(move.point, *judge(kernel, move, step), move.sums.ahead)


def slope_of_step(kernel: NormKernel, penalty: Penalty, move: Move, step: float) -> Estimate:
    """Return ⟨∇f(X), X⁺⟩ where X⁺ = T_λ(X), from the optimality of X⁺.

    ∇h(X) − λ∇f(X) − ∇h(X⁺) lies in λ∂g(X⁺), whose inner product with X⁺ is kλg(X⁺) for a g of degree k, and 0 for a
    constraint to a cone: λ⟨∇f(X), X⁺⟩ = (α‖X‖² + σ)⟨X, X⁺⟩ − (α‖X⁺‖² + σ)‖X⁺‖² − kλg(X⁺).
    """
    a, b, c = move.sizes
    new = a + b + c
    before = (kernel.alpha * a + kernel.sigma) * (a + 0.5 * b) / step
    after = (kernel.alpha * new + kernel.sigma) * new / step
    pull = penalty.pull_at(move.point)
    return Estimate(before - after - pull, _ROUND_OFF * eps(move.point.X) * (abs(before) + after + pull))
