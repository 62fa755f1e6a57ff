"""What a loss must offer to be solved by Gauss–Newton: f(X) = ½‖e(X)‖² with a residual e that can be linearised."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import Array
from quartic.losses.base import Loss
from quartic.losses.point import Point


class SumOfSquares(Loss):
    """A loss f(X) = ½‖e(X)‖², with J the derivative of e (weights are part of e).

    Each pass over the data is counted, the products with JᵀJ like any other.
    """

    infimum = 0.0
    #: whether a column more than wanted helps rows of X to get around each other (`quartic.solvers.core`)
    widens: ClassVar[bool] = False

    @abstractmethod
    def linearize(self, X: Array) -> tuple[Point, Array]:
        """Return the point at X and the row blocks of JᵀJ there: one pass.

        The blocks are symmetric r × r, one a row of X; each is packed as the rows of its lower triangle, so that the
        array has the shape (n, r(r+1)/2). They are in float64.
        """

    @abstractmethod
    def gauss_newton_product(self, p: Point, V: Array, out: Array) -> None:
        """Write JᵀJ V into ``out``, with J at p: one pass."""

    def gauss_newton_solve(
        self, p: Point, G: Array, blocks: Array, shift: float, tolerance: float, max_iter: int
    ) -> tuple[Array, int, bool] | None:
        """Return D with (JᵀJ + shift·I) D ≈ −G, the steps it took, and whether the tolerance was reached.

        A loss need not offer it: None leaves conjugate gradients to the solver.
        """
        return None

    def gauss_newton_descent(self, X: Array, *settings: float) -> tuple[Array, float] | None:
        """Return X after damped steps, and the damping then; the settings are those of `pair_descent`.

        A loss need not offer it: None leaves the steps to the solver.
        """
        return None

    @abstractmethod
    def gauss_newton_matrix(self, p: Point) -> Any:
        """Return JᵀJ at p as a sparse matrix, unknowns in the order of X's rows: one pass."""

    @abstractmethod
    def quartic(self, p: Point, D: Array) -> tuple[float, float, float, float]:
        """Return c₁ … c₄ of f(p + tD) = f(p) + c₁t + c₂t² + c₃t³ + c₄t⁴: one pass, cheaper than ``along``.

        Needed only where ``quadratic`` is true.
        """

    @abstractmethod
    def mean_degree(self) -> float:
        """Return how many terms a row of X takes part in, on average."""

    @abstractmethod
    def core(self, degree: float, rank: int) -> tuple[Self, NDArray[np.bool_]] | None:
        """Return the loss over part of the rows of X, each in about ``degree`` terms, and which rows; None if none is.

        It has a counter of its own.
        """

    def widened(self, p: Point) -> Array | None:
        """Return X with another column of noise, as much of it as makes f least; None where that is none.

        Only where ``widens`` is true.
        """
        return None

    def replaced(self, p: Point) -> Array | None:
        """Return X with rows that fit far worse than all others put where their terms say, None where none does.

        A loss need not offer it; one pass where it does.
        """
        return None

    @abstractmethod
    def place(self, X: Array, placed: NDArray[np.bool_]) -> tuple[Array, NDArray[np.bool_]]:
        """Return X with the rows that enough terms tie to placed ones set by them, and which rows are placed then."""
