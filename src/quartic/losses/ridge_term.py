"""A ridge as part of the loss: ½ρ‖X‖² = ½ρ tr(XXᵀ) is linear in XXᵀ, so F + ½ρ tr stays in the class."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

from quartic.arrays import Array, inner, squared_norm
from quartic.core.units import Units, shifted
from quartic.losses.line import Line
from quartic.losses.move import Move
from quartic.losses.pairs.loss import PairPoint, PairSquares
from quartic.losses.point import Point


class RidgedPairs(PairSquares):
    """A sum over pairs plus ½ρ‖X‖²; for Gauss–Newton the residual has √ρ·X besides."""

    def at(self, X: Array) -> PairPoint:
        """Return the point at X: one pass."""
        return self._with_ridge(super().at(X))

    def move(self, p: Point, X: Array) -> Move:
        """Return the step from p to X; the ridge adds ½ρ‖D‖² to the remainder."""
        move = super().move(p, X)
        if not self.ridge:
            return move
        assert isinstance(move.point, PairPoint)
        remainder = move.remainder + 0.5 * self.ridge * squared_norm(move.D)
        return replace(move, point=self._with_ridge(move.point), remainder=remainder)

    def along(self, p: Point, D: Array) -> Line:
        """Return the exact quartic of f on p + tD, and its gradient there: one pass."""
        bare = super().along(p, D)
        if not self.ridge:
            return bare

        def move(t: float) -> PairPoint:
            q = bare.move(t)
            return PairPoint(self, q.X, max(line(t), 0.0), q.gradient + t * self.ridge * D)

        line = Line(p, self._add_to_line(bare.coefficients, p, D), move)
        return line

    def quartic(self, p: Point, D: Array) -> tuple[float, float, float, float]:
        """Return the quartic of f on p + tD without the gradients there: one pass."""
        return self._add_to_line(super().quartic(p, D), p, D)

    def hessian_product(self, p: Point, D: Array) -> Array:
        """Return ∇²f(p)[D]: one pass."""
        return super().hessian_product(p, D) + self.ridge * D

    def linearize(self, X: Array) -> tuple[PairPoint, Array]:
        """Return the point at X and the packed row blocks of JᵀWJ + ρI."""
        p, blocks = super().linearize(X)
        diagonal = [k * (k + 3) // 2 for k in range(X.shape[1])]
        blocks[:, diagonal] += self.ridge
        return self._with_ridge(p), blocks

    def gauss_newton_product(self, p: Point, V: Array, out: Array) -> None:
        """Write (JᵀWJ + ρI) V into ``out``: one pass."""
        super().gauss_newton_product(p, V, out)
        if self.ridge:
            out += self.ridge * V

    def gauss_newton_matrix(self, p: Point) -> Any:
        """Return JᵀWJ + ρI."""
        import scipy.sparse as sp

        A = super().gauss_newton_matrix(p)
        return (A + self.ridge * sp.eye_array(A.shape[0])).tocsc() if self.ridge else A

    def in_units(self, units: Units) -> Self:
        """Return the loss in other units; ρ‖X‖² is of degree 2 where the squares are of degree 4."""
        twin = super().in_units(units)
        twin.ridge = shifted(self.ridge, units.value - 2 * units.length)
        return twin

    def fingerprint(self) -> str:
        """Return kind, sizes and sums of the data."""
        return super().fingerprint() + (f" ridge={self.ridge!r}" if self.ridge else "")

    def _with_ridge(self, p: PairPoint) -> PairPoint:
        if not self.ridge:
            return p
        G = p.gradient + self.ridge * p.X
        return PairPoint(self, p.X, p.value + 0.5 * self.ridge * squared_norm(p.X), G)

    def _add_to_line(
        self, coefficients: tuple[float, float, float, float], p: Point, D: Array
    ) -> tuple[float, float, float, float]:
        c1, c2, c3, c4 = coefficients
        return c1 + self.ridge * inner(p.X, D), c2 + 0.5 * self.ridge * squared_norm(D), c3, c4
