"""What a loss must offer to be solved by Gauss–Newton: f(X) = ½‖e(X)‖² with a residual e that can be linearised."""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol, cast

from quartic.arrays import Array
from quartic.arrays.space import HostSpace, Space
from quartic.losses.base import Loss
from quartic.losses.point import Point


class RowBlocks(Protocol):
    """Passes over X with r × r blocks, one a row, packed as the rows of their lower triangles."""

    def factor_blocks(self, B: Array, shift: float, rank: int) -> Array:
        """Return the inverses of the blocks B_i + shift·I; a direction without curvature gets 0."""

    def solve_blocks(self, L: Array, R: Array, Z: Array) -> float:
        """Fill Z with the solutions of (B_i + shift·I) z_i = r_i, and return ⟨R, Z⟩."""

    def first_direction(self, G: Array, L: Array, R: Array, Z: Array, P: Array) -> float:
        """Set R = −G and P = Z = the preconditioned R; return ⟨R, Z⟩."""

    def advance(
        self, rz: float, shift: float, P: Array, H: Array, L: Array, D: Array, R: Array, Z: Array
    ) -> tuple[float, float]:
        """Make a step of conjugate gradients with A + shift·I, where H = AP; return curvature and new ⟨R, Z⟩."""

    def diagonal_mean(self, B: Array, rank: int) -> float:
        """Return the mean diagonal entry of the packed blocks."""


def row_blocks_in(space: Space) -> RowBlocks:
    """Return the passes with row blocks for the arrays of a space."""
    if isinstance(space, HostSpace):
        from quartic.losses.pairs import row_blocks

        return cast(RowBlocks, row_blocks)
    from quartic.losses.pairs import torch

    return cast(RowBlocks, torch)


class SumOfSquares(Loss):
    """A loss f(X) = ½‖e(X)‖², with J the derivative of e (weights are part of e).

    Each pass over the data is counted, the products with JᵀJ like any other. Further methods a loss may have, and
    solvers ask for: ``quartic``, the quartic of f on a line without gradients, where F is quadratic;
    ``gauss_newton_matrix``, JᵀJ as a sparse matrix; and those of `quartic.losses.pairs.loss.PairSquares` that solve a
    problem by way of a part of its points.
    """

    infimum = 0.0

    @abstractmethod
    def linearize(self, X: Array) -> tuple[Point, Array]:
        """Return the point at X and the row blocks of JᵀJ there: one pass.

        The blocks are symmetric r × r, one a row of X; each is packed as the rows of its lower triangle, so that the
        array has the shape (n, r(r+1)/2). They are in float64.
        """

    @abstractmethod
    def gauss_newton_product(self, p: Point, V: Array, out: Array) -> None:
        """Write JᵀJ V into ``out``, with J at p: one pass."""
