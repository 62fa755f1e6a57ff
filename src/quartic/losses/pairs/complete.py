"""The distance loss where every distance is known: read from the matrix in place."""

from __future__ import annotations

import copy
import math
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import Array, finite_matrix, inner, norm
from quartic.core.units import Units, exponent, shifted
from quartic.losses.gradient_point import GradientPoint
from quartic.losses.line import Line
from quartic.losses.move import Move
from quartic.losses.pairs.sum_of_squares import SumOfSquares
from quartic.losses.point import Point


class CompleteDistances(SumOfSquares):
    r"""All distances known: :math:`f(X) = \frac12\sum_{i<j}(\|x_i - x_j\|^2 - d_{ij}^2)^2`.

    What `Distances` is for a list of pairs, without the list: nothing of size n × n is made besides D.

    Parameters
    ----------
    D : array (n, n)
        Distances, not squares; symmetric. It is kept, not copied.

    Notes
    -----
    Constants: those of `Distances` with every degree n − 1, so L_F = 2n.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.losses import CompleteDistances
    >>> CompleteDistances(np.array([[0.0, 2.0], [2.0, 0.0]])).value(np.array([[0.0], [1.0]]))
    4.5
    """

    quadratic = True
    difference = True

    def __init__(self, D: Any) -> None:
        super().__init__()
        self.D = finite_matrix(D, "D")
        self.n_points = len(self.D)
        if self.D.shape[0] != self.D.shape[1]:
            raise ValueError(f"D must be square, one row and one column for each point, got shape {self.D.shape}")
        self._layout: list[Any] = []

    def at(self, X: Array) -> GradientPoint:
        """Return the point at X: one pass."""
        from quartic.losses.pairs.complete_pairs import linearize

        self._count()
        G = np.empty_like(X)
        return self._point(X, linearize(X, self.D, self._chunks, G), G)

    def restore(self, arrays: dict[str, Array]) -> GradientPoint:
        """Return the point kept in a checkpoint."""
        return self._point(arrays["X"], float(arrays["value"]), arrays["gradient"])

    def move(self, p: Point, X: Array) -> Move:
        """Return the step from p to X, its remainder from the quartic on the line between them: two passes."""
        D = X - p.X
        _, c2, c3, c4 = self.quartic(p, D)
        return Move(p, self.at(X), c2 + c3 + c4, D)

    def along(self, p: Point, D: Array) -> Line:
        """Return the quartic of f on p + tD: one pass; a point on the line takes another."""
        return Line(p, self.quartic(p, D), lambda t: self.at(p.X + t * D))

    def hessian_product(self, p: Point, D: Array) -> Array:
        """Return ∇²f(p)[D]: one pass."""
        H = np.empty_like(D)
        self._product(p, D, True, H)
        return H

    def linearize(self, X: Array) -> tuple[GradientPoint, Array]:
        """Return the point at X and the packed row blocks of JᵀJ: one pass."""
        from quartic.losses.pairs.complete_pairs import linearize

        self._count()
        G, rank = np.empty_like(X), X.shape[1]
        B = np.empty((len(X), rank * (rank + 1) // 2))
        value = linearize(X, self.D, self._chunks, G, B)
        return self._point(X, value, G), B

    def gauss_newton_product(self, p: Point, V: Array, out: Array) -> None:
        """Write JᵀJ V into ``out``: one pass."""
        self._product(p, V, False, out)

    def _product(self, p: Point, V: Array, newton: bool, out: Array) -> None:
        from quartic.losses.pairs.complete_pairs import product

        self._count()
        product(p.X, V, self.D, newton, self._chunks, out)

    def gauss_newton_matrix(self, p: Point) -> Any:
        """Raise: every block of it is full."""
        raise MemoryError("the Gauss–Newton matrix of complete distances is dense; use conjugate gradients")

    def quartic(self, p: Point, D: Array) -> tuple[float, float, float, float]:
        """Return the quartic of f on p + tD: one pass."""
        from quartic.losses.pairs.complete_pairs import quartic

        self._count()
        return quartic(p.X, D, self.D, self._chunks)

    @property
    def _chunks(self) -> Any:
        """How passes cut the rows into chunks: worked out once, for all copies."""
        if not self._layout:
            from quartic.losses.pairs.complete_pairs import chunks_of

            self._layout.append(chunks_of(self.n_points))
        return self._layout[0]

    def mean_degree(self) -> float:
        """Return n − 1."""
        return float(self.n_points - 1)

    def core(self, degree: float, rank: int) -> tuple[Self, NDArray[np.bool_]] | None:
        """Return None: classical scaling is the better beginning."""
        return None

    def place(self, X: Array, placed: NDArray[np.bool_]) -> tuple[Array, NDArray[np.bool_]]:
        """Return X as it is."""
        return X, placed

    def exponents(self) -> tuple[int | None, int | None]:
        """Return log₂ of the largest distance from the first point, which half of any other is at most."""
        power = exponent(self.D[0])
        return exponent(self.D) if power is None else power, None

    def in_units(self, units: Units) -> Self:
        """Return the loss of 2^length · D."""
        twin = copy.copy(self)
        twin.__dict__.pop("_sums", None)
        twin.D = shifted(self.D, units.length)
        return twin

    @property
    def smoothness(self) -> float:
        """2n."""
        return 2.0 * self.n_points

    @cached_property
    def _sums(self) -> tuple[Array, float]:
        """The sums of d² in each row, and of d⁴ over the pairs."""
        self._count()
        rows, fourth = np.empty(self.n_points), 0.0
        step = max(1, 2**19 // self.n_points)
        for first in range(0, self.n_points, step):
            squares = self.D[first : first + step].astype(np.float64) ** 2
            rows[first : first + step] = squares.sum(axis=1)
            fourth += float(np.einsum("ij,ij->", squares, squares))
        return rows, 0.5 * fourth

    @property
    def gradient_norm_at_zero(self) -> float:
        """‖∇F(0)‖, the norm of the graph Laplacian with weights d²."""
        rows, fourth = self._sums
        return math.sqrt(float(rows @ rows) + 2 * fourth)

    @property
    def curvature_at_zero(self) -> float:
        """0: ∇F(0) is negative semidefinite."""
        return 0.0

    def random_start(self, rank: int, nonnegative: bool, generator: np.random.Generator) -> Array:
        """Return a centred Gaussian cloud, scaled so that f(tX) is least: one pass."""
        X: Array = generator.standard_normal((self.n_points, rank))
        X = np.abs(X) if nonnegative else X - X.mean(axis=0)
        wanted, here = self.exponents()[0], exponent(X)
        if wanted is not None and here is not None:
            X = shifted(X, wanted - here)  # of the size of the data: f(X) − f(0) would be lost beside either otherwise
        p = self.at(X)
        # f(tX) = f(0) − a t² + b t⁴, as for `Distances`
        slope, drop = inner(p.gradient, X), p.value - 0.5 * self._sums[1]
        b = 0.5 * slope - drop
        a = b - drop
        return X * math.sqrt(a / (2 * b)) if a > 0 and b > 0 else X

    def fingerprint(self) -> str:
        """Return kind, size and sums of the data."""
        rows, fourth = self._sums
        return f"CompleteDistances n={self.n_points} rows={float(rows @ np.arange(len(rows)))!r} fourth={fourth!r}"

    def _point(self, X: Array, value: float, gradient: Array) -> GradientPoint:
        return GradientPoint(X, float(value), gradient, self._rounding)

    def _rounding(self, p: Point) -> float:
        """Return about eps times the largest row of the Laplacian, thrice, times ‖X‖."""
        return 4 * float(np.finfo(p.X.dtype).eps) * float(self._sums[0].max(initial=0.0)) * norm(p.X)
