"""Points whose coordinates are known stay exactly there: any loss over pairs, as a function of the other points."""

from __future__ import annotations

import copy
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import Array, finite_matrix
from quartic.core.units import Units, exponent, shifted
from quartic.losses.base import Point
from quartic.losses.pairs.loss import PairLoss, PairSquares, SumOfSquares
from quartic.losses.steps import Line, Move


class Anchored(SumOfSquares):
    r"""A loss over pairs with some points held: :math:`f(X) = \bar f(\bar X)`, :math:`\bar X` with the anchors' rows.

    X has one row for each point that is *not* an anchor, in their order. Gradient, blocks and products are those of the
    loss over all points, with the anchors' rows left out.

    Parameters
    ----------
    loss : Distances
        The loss over all points (`Distances`, `BoundedDistances`, `RawStress`).
    anchors : int array (a,)
        Which points are held.
    places : array (a, r)
        Where.

    Notes
    -----
    f is not a function of XXᵀ alone, but its second derivative in a direction U is that of the loss over all points in
    the direction that moves no anchor. With the norm or Gram kernel over all points, whose second derivative there is
    at most that of the kernel over the free points plus (α + β)‖A‖²‖U‖², A the anchors' places, the kernels' constants
    of the whole loss stay valid with σ larger by (α + β)‖A‖² ≤ 8 L_F ‖A‖². ``curvature_at_zero`` accounts for that.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic import Problem, minimize
    >>> from quartic.losses import Anchored, Distances
    >>> whole = Distances([[0, 3], [1, 3], [2, 3]], [0.5, 0.5, 0.5])
    >>> loss = Anchored(whole, [0, 1, 2], [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> minimize(Problem(loss), np.array([[0.9, 0.2]]), tol=1e-12).X.round(6)
    array([[0.5, 0.5]])
    """

    rotations = False

    def __init__(self, loss: PairLoss, anchors: Any, places: Any) -> None:
        if not isinstance(loss, PairLoss):
            raise TypeError(f"Anchored takes Distances, BoundedDistances, RawStress or Completion, got {loss!r}")
        if not loss.offers("on_host"):
            raise TypeError("Anchored works on the CPU, but the loss is of torch tensors; make it of NumPy arrays")
        super().__init__()
        self.whole, self._counter = loss, loss._counter  # products are made, and counted, by the loss over all points
        self.anchors = np.asarray(anchors, dtype=np.int64)
        self.places = np.asarray(finite_matrix(places, "places"), dtype=np.float64)
        if self.anchors.ndim != 1 or len(self.anchors) != len(self.places):
            raise ValueError(
                f"anchors must be one index for each of the {len(self.places)} places, got shape {self.anchors.shape}"
            )
        held = np.zeros(loss.n_points, dtype=bool)
        if len(self.anchors) and (self.anchors.min() < 0 or self.anchors.max() >= loss.n_points):
            wrong = int(self.anchors[(self.anchors < 0) | (self.anchors >= loss.n_points)][0])
            raise ValueError(f"anchor {wrong} is outside the {loss.n_points} points; indices count from 0")
        held[self.anchors] = True
        if int(held.sum()) != len(self.anchors):
            raise ValueError("an anchor is given twice; name each once")
        if held.all():
            raise ValueError("every point is an anchor; there is nothing to find")
        self.free = np.flatnonzero(~held)
        self.n_points = len(self.free)
        self.quadratic = loss.quadratic

    # -- between the free points and all of them --------------------------------------------------------------------

    def fill(self, X: Array) -> Array:
        """Return all points: the rows of X, and the anchors where they are."""
        self._check_dimension(X.shape[1])
        return self._widen(X, self.places)

    def _check_dimension(self, rank: int) -> None:
        if rank != self.places.shape[1]:
            raise ValueError(f"X of {rank} columns does not go with anchors of {self.places.shape[1]} coordinates")

    def _widen(self, X: Array, held: Array | float) -> Array:
        whole = np.empty((self.whole.n_points, X.shape[1]), dtype=X.dtype)
        whole[self.free] = X
        whole[self.anchors] = held
        return whole

    def _seen(self, whole: Point) -> AnchoredPoint:
        return AnchoredPoint(whole, self.free)

    # -- the point --------------------------------------------------------------------------------------------------

    def at(self, X: Array) -> AnchoredPoint:
        return self._seen(self.whole.at(self.fill(X)))

    def restore(self, arrays: dict[str, Array]) -> AnchoredPoint:
        return self._seen(self.whole.restore(arrays))

    def move(self, p: Point, X: Array) -> Move:
        whole = self.whole.move(_whole(p), self.fill(X))
        return Move(p, self._seen(whole.point), whole.remainder, X - p.X)

    def along(self, p: Point, D: Array) -> Line:
        line = self.whole.along(_whole(p), self._widen(D, 0.0))
        return Line(p, line.coefficients, lambda t: self._seen(line.point(t)))

    def hessian_product(self, p: Point, D: Array) -> Array:
        return self.whole.hessian_product(_whole(p), self._widen(D, 0.0))[self.free]

    # -- Gauss–Newton -----------------------------------------------------------------------------------------------

    def linearize(self, X: Array) -> tuple[AnchoredPoint, Array]:
        point, blocks = self.whole.linearize(self.fill(X))
        return self._seen(point), blocks[self.free]

    def gauss_newton_product(self, p: Point, V: Array, out: Array) -> None:
        wide = self._widen(V, 0.0)
        product = np.empty_like(wide)
        self.whole.gauss_newton_product(_whole(p), wide, product)
        out[:] = product[self.free]

    def gauss_newton_matrix(self, p: Point) -> Any:
        """Return JᵀWJ as a sparse matrix: one pass."""
        rank = p.X.shape[1]
        kept = (self.free[:, None] * rank + np.arange(rank)).ravel()
        return cast(PairSquares, self.whole).gauss_newton_matrix(_whole(p)).tocsr()[kept][:, kept].tocsc()

    def quartic(self, p: Point, D: Array) -> tuple[float, float, float, float]:
        """Return the quartic of f on p + tD: one pass."""
        return cast(PairSquares, self.whole).quartic(_whole(p), self._widen(D, 0.0))

    # -- scale ------------------------------------------------------------------------------------------------------

    def exponents(self) -> tuple[int | None, int | None] | None:
        """Return those of the loss over all points, or of the anchors' places where they are larger."""
        found, here = self.whole.exponents(), exponent(self.places)
        if found is None or here is None:
            return found
        return here if found[0] is None else max(found[0], here), found[1]

    def in_units(self, units: Units) -> Self:
        twin = copy.copy(self)
        twin.whole = self.whole.in_units(units)
        twin.places = np.asarray(shifted(self.places, units.length), dtype=np.float64)
        return twin

    # -- constants --------------------------------------------------------------------------------------------------

    @property
    def smoothness(self) -> float:
        return self.whole.smoothness

    @property
    def gradient_norm_at_zero(self) -> float:
        """That of the loss over all points."""
        return max(self.whole.gradient_norm_at_zero, float(np.finfo(np.float64).tiny))

    @property
    def curvature_at_zero(self) -> float:
        """That of the loss over all points, and 4 L_F ‖A‖² for the anchors."""
        return self.whole.curvature_at_zero + 4 * self.whole.smoothness * float(np.sum(self.places**2))

    # -- bookkeeping ------------------------------------------------------------------------------------------------

    def fingerprint(self) -> str:
        total = float(np.dot(1.0 + self.anchors, self.places.sum(axis=1)))
        return f"{self.whole.fingerprint()} anchors={len(self.anchors)} places={total!r}"

    def random_start(self, rank: int, nonnegative: bool, generator: np.random.Generator) -> Array:
        """Return a Gaussian cloud about the anchors, as wide as that of the loss over all points."""
        self._check_dimension(rank)
        X = self.whole.random_start(rank, nonnegative, generator)
        return X[self.free] + (0.0 if nonnegative else self.places.mean(axis=0))

    def counted(self) -> Self:
        twin = super().counted()
        twin.whole = self.whole.counted()
        twin._counter = twin.whole._counter
        return twin


class AnchoredPoint(Point):
    """A point of an `Anchored` loss: that of the loss over all points, seen from the free ones."""

    def __init__(self, whole: Point, free: NDArray[np.int64]) -> None:
        super().__init__(whole.X[free], whole.value, whole.gradient[free], lambda _: whole.rounding)
        self.whole = whole

    def arrays(self) -> dict[str, Array]:
        return self.whole.arrays()


def _whole(p: Point) -> Point:
    if not isinstance(p, AnchoredPoint):
        raise TypeError(f"this point was made by another loss: {type(p).__name__}")
    return p.whole
