"""Distances known to lie between bounds: the penalty is zero inside, and grows smoothly outside."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import Array
from quartic.core.units import Units, exponent, shifted
from quartic.losses.base import Loss
from quartic.losses.line import Line
from quartic.losses.move import Move
from quartic.losses.pairs.distances import Distances
from quartic.losses.pairs.input import check_column, check_pairs, merge_duplicates
from quartic.losses.pairs.pair_squares import PairPoint, PairSquares
from quartic.losses.point import Point


class BoundedDistances(Distances):
    r"""Bounds on squared distances :math:`f = \frac12\sum w_{ij}(\max(0, q_{ij}-u_{ij})^2+\max(0, l_{ij}-q_{ij})^2)`.

    Here :math:`q_{ij} = \|x_i - x_j\|^2`. A pair within its bounds costs nothing; where l = u it is the term of
    `Distances`. F is convex and smooth but not quadratic, so solvers that need a quartic on lines do not apply: ``lm``,
    ``gd`` and the Bregman methods do.

    Parameters
    ----------
    pairs : int array (m, 2)
        The pairs (i, j), i ≠ j.
    lower, upper : array (m,)
        Bounds on the *squared* distances; ``upper`` may be infinite.
    n_points : int, optional
        The number of points; the largest index + 1 when left out.
    weights : array (m,), optional
        Nonnegative weights; 1 when left out.

    Notes
    -----
    Constants. Each term is ½w·dist(⟨A_ij, Y⟩, [l, u])², whose second derivative is that of the term of `Distances`
    outside the interval and 0 inside: L_F of `Distances` is an upper bound. ∇F(0) = −Σ w l A_ij.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.losses import BoundedDistances
    >>> loss = BoundedDistances([[0, 1]], lower=[1.0], upper=[4.0])
    >>> loss.value(np.array([[0.0], [1.5]])), loss.value(np.array([[0.0], [3.0]]))
    (0.0, 12.5)
    """

    quadratic = False
    #: whether residuals are of distances rather than of their squares
    root: ClassVar[bool] = False
    per_pair = ("target", "weight", "upper")

    upper: Array

    def __init__(self, pairs: Any, lower: Any, upper: Any, n_points: int | None = None, weights: Any = None) -> None:
        PairSquares.__init__(self)
        pairs, lower, weights, self.n_points = check_pairs(pairs, lower, n_points, weights, "lower")
        given = np.asarray(upper)
        if given.dtype.kind not in "fiub":
            raise TypeError(f"upper must be real numbers, got dtype {given.dtype}")
        free = np.isposinf(given)
        upper = check_column(np.where(free, 0.0, given), len(pairs), "upper", nonnegative=True)
        upper = np.where(free, np.inf, upper.astype(np.float64))
        lower = lower.astype(np.float64, copy=False)
        weights = None if weights is None else weights.astype(np.float64)
        if (lower > upper).any():
            k = int(np.argmax(lower > upper))
            raise ValueError(
                f"lower[{k}] = {lower[k]} is above upper[{k}] = {upper[k]}; bounds must satisfy lower <= upper"
            )
        merged = merge_duplicates(pairs, lower, weights, self.n_points)
        self.start, self.cols, self.target, self.weight = merged
        # the same pairs in the same order; an infinite bound is sorted as a number that no bound has
        _, _, sorted_upper, _ = merge_duplicates(pairs, np.where(free, -1.0, upper), weights, self.n_points)
        self.upper = np.where(sorted_upper == -1.0, np.inf, sorted_upper)

    # -- the point --------------------------------------------------------------------------------------------------

    def at(self, X: Array) -> PairPoint:
        """Return the point at X: one pass."""
        from quartic.losses.pairs.interval_pairs import value_and_gradient

        self._count()
        G = np.empty_like(X)
        return PairPoint(self, X, value_and_gradient(X, *self._intervals, G=G), G)

    def move(self, p: Point, X: Array) -> Move:
        """Return the step from p to X, its remainder summed pair by pair from X − p: one pass."""
        from quartic.losses.pairs.interval_pairs import value_gradient_and_remainder

        self._count()
        G = np.empty_like(X)
        value, remainder = value_gradient_and_remainder(p.X, X, *self._intervals, G=G)
        return Move(p, PairPoint(self, X, value, G), remainder, X - p.X)

    def along(self, p: Point, D: Array) -> Line:
        """Raise: on a line this loss is a quartic only piece by piece."""
        return Loss.along(self, p, D)

    def hessian_product(self, p: Point, D: Array) -> Array:
        """Raise: the second derivative jumps at the bounds."""
        return Loss.hessian_product(self, p, D)

    # -- Gauss–Newton -----------------------------------------------------------------------------------------------

    def linearize(self, X: Array) -> tuple[PairPoint, Array]:
        """Return the point at X and the packed row blocks of JᵀWJ: one pass."""
        from quartic.losses.pairs.interval_pairs import linearize

        self._count()
        G, rank = np.empty_like(X), X.shape[1]
        B = np.empty((len(X), rank * (rank + 1) // 2))
        value = linearize(X, *self._intervals, G=G, B=B)
        return PairPoint(self, X, value, G), B

    def gauss_newton_product(self, p: Point, V: Array, out: Array) -> None:
        """Write JᵀWJ V into ``out``; pairs within their bounds at p have no part in it."""
        from quartic.losses.pairs.interval_pairs import product

        self._count()
        product(p.X, V, *self._intervals, H=out)

    def gauss_newton_matrix(self, p: Point) -> Any:
        """Return JᵀWJ, assembled from the rows of J of the pairs outside their bounds."""
        import scipy.sparse as sp

        self._count()
        X, rank = p.X.astype(np.float64, copy=False), p.X.shape[1]
        rows, cols = self.rows.astype(np.int64), self.cols.astype(np.int64)
        difference = X[rows] - X[cols]
        size = np.einsum("ij,ij->i", difference, difference)
        measure = np.sqrt(size) if self.root else size
        outside = (measure < self.target) | (measure > self.upper) | (self.target == self.upper)
        factor = np.full(len(size), 2.0)
        if self.root:
            factor = np.divide(1.0, measure, out=np.zeros_like(measure), where=measure > 0)
        if self.weight is not None:
            factor *= np.sqrt(self.weight)
        values = (factor[:, None] * difference)[outside]
        rows, cols, m = rows[outside], cols[outside], int(outside.sum())
        columns = np.hstack([rows[:, None] * rank + np.arange(rank), cols[:, None] * rank + np.arange(rank)])
        J = sp.csr_array(
            (np.hstack([values, -values]).ravel(), columns.ravel(), np.arange(0, 2 * rank * m + 1, 2 * rank)),
            shape=(m, X.size),
        )
        return (J.T @ J).tocsc()

    def quartic(self, p: Point, D: Array) -> NoReturn:
        """Raise: on a line this loss is a quartic only piece by piece."""
        raise TypeError(f"{type(self).__name__} is not a quartic on lines")

    def core(self, degree: float, rank: int) -> tuple[Self, NDArray[np.bool_]] | None:
        """Return None: bounds do not place a point by linear equations."""
        return None

    @property
    def _intervals(self) -> tuple[Any, ...]:
        chunks, cols, lower, weight = self._passed
        return chunks, cols, lower, self.upper, weight, self.weight is not None, self.root

    # -- scale ------------------------------------------------------------------------------------------------------

    def exponents(self) -> tuple[int | None, int | None]:
        """Return log₂ of the root of the largest finite bound (raw stress: of the bound itself), and of the weights."""
        power = exponent(np.where(np.isfinite(self.upper), self.upper, self.target))
        weight = None if self.weight is None else exponent(self.weight)
        return None if power is None else 2 * power // self.degree, weight

    def in_units(self, units: Units) -> Self:
        """Return the loss of scaled bounds and weights."""
        power, twin = self.degree // 2 * units.length, super().in_units(units)
        return twin._twin(target=shifted(self.target, power), upper=shifted(self.upper, power))

    @cached_property
    def _reach(self) -> float:
        """The largest sum over a point's pairs of w times its finite bounds."""
        bound = np.where(np.isfinite(self.upper), self.upper, self.target)
        wb = bound if self.weight is None else self.weight * bound
        total = np.bincount(self.rows, wb, self.n_points) + np.bincount(self.cols, wb, self.n_points)
        return float(total.max(initial=0.0))

    @property
    def gradient_scale(self) -> float:
        """What multiplies eps·‖X‖ in the gradient's round-off."""
        return 4 * self._reach

    def best_scale(self, X: Array) -> Array:
        """Return the tX with the least f(tX), among a hundred t on a logarithmic scale and their neighbours: passes."""
        from scipy.optimize import minimize_scalar

        sizes = np.linalg.norm(X[self.rows] - X[self.cols], axis=1)
        wanted = np.where(np.isfinite(self.upper), 0.5 * (self.target + self.upper), self.target)
        wanted = wanted if self.root else np.sqrt(wanted)
        known = (sizes > 0) & (wanted > 0)
        if not known.any():
            return X
        guess = float(np.median(wanted[known] / sizes[known]))
        found = minimize_scalar(lambda t: self.at(X * (guess * np.exp(t))).value, bounds=(-2.0, 2.0), method="bounded")
        scaled: Array = X * (guess * np.exp(float(found.x)))
        return scaled

    def random_start(self, rank: int, nonnegative: bool, generator: np.random.Generator) -> Array:
        """Return a centred Gaussian cloud, scaled so that f(tX) is least: passes."""
        X: Array = generator.standard_normal((self.n_points, rank))
        return self.best_scale(np.abs(X) if nonnegative else X - X.mean(axis=0))

    def fingerprint(self) -> str:
        """Return kind, sizes and sums of the data."""
        finite = self.upper[np.isfinite(self.upper)]
        return f"{super().fingerprint()} upper={float(finite.sum())!r} of {len(finite)}"
