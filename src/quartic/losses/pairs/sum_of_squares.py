"""What a loss must offer to be solved by Gauss–Newton: f(X) = ½‖e(X)‖² with a residual e that can be linearised."""

from __future__ import annotations

from abc import abstractmethod

from quartic.arrays import Array
from quartic.losses.base import Loss
from quartic.losses.point import Point


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
