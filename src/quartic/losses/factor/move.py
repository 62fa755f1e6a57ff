"""A step of the least-squares loss, and two ways to tell how far f is from its tangent there."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from quartic.arrays import Array, delayed, eps, passes, trace_inner
from quartic.losses.estimates import ROUND_OFF, Estimate
from quartic.losses.factor.origin import StepSums
from quartic.losses.move import Move

if TYPE_CHECKING:
    from quartic.losses.factor.point import LeastSquaresPoint


class LeastSquaresMove(Move):
    """A step D from p to X = p + D.

    With S = pᵀp, C = DᵀD and B = XᵀX − S the remainder is ⟨S, C⟩ + ½‖B‖² − ⟨MD, D⟩. Every term is of second order in
    D, and the round-off in B, eps·‖S‖, enters only times B itself: the remainder is known to eps·‖X‖/‖D‖ of its size,
    where a difference of values would lose it below √eps. But C costs as much as XᵀX. So it is made when somebody asks,
    and for long steps an `estimate` decides.
    """

    start: LeastSquaresPoint
    point: LeastSquaresPoint
    sums: StepSums

    def __init__(self, start: LeastSquaresPoint, point: LeastSquaresPoint, sums: StepSums) -> None:
        size = delayed(lambda S: float(S.trace()), start.gram)
        self.__dict__.update(start=start, point=point, step=None, sizes=(size, 2 * sums.along, sums.length), sums=sums)
        if sums.curved is not None:
            self.__dict__["C"] = sums.curved

    @cached_property
    def C(self) -> Array:
        """DᵀD."""
        C: Array = passes("factor", self.point.X).curvature(self.point.X, self.start.origin)
        return C

    @cached_property
    def remainder(self) -> float:
        """f(p + D) − f(p) − ⟨∇f(p), D⟩."""
        remainder: float = delayed(_remainder, self.start.gram, self.sums.gram, self.C, self.sums.bend)
        return remainder

    @property
    def rough(self) -> bool:
        """Whether the remainder is not at hand, and an estimate is."""
        return "C" not in self.__dict__

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
        return Estimate(value, slope.error + ROUND_OFF * eps(self.point.X) * size)


def _remainder(S: Array, new: Array, C: Array, bend: float) -> float:
    """Return what f(X + D) − f(X) is beyond the first order, from XᵀX, that of X + D, DᵀD and bend = ⟨MD, D⟩."""
    B = new - S
    return trace_inner(S, C) + 0.5 * trace_inner(B, B) - bend
