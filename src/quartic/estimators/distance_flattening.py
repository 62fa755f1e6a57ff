"""A loss in more dimensions than wanted, with a weight on the extra ones that presses them flat."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import Array
from quartic.losses import Distances, Line, Move, Point
from quartic.losses.sum_of_squares import SumOfSquares
from quartic.ops import inner, squared_norm


class Flattened(SumOfSquares):
    r"""f(X) + ½ρ‖X_{r:}‖², the sum over the columns from r on: pressed flat as ρ grows.

    Parameters
    ----------
    loss : Distances
        f.
    rank : int
        r, the columns that stay free.
    weight : float
        ρ.
    """

    def __init__(self, loss: Distances, rank: int, weight: float) -> None:
        self._constants = {}
        self.loss, self.rank, self.weight = loss, rank, weight
        self.n_points, self.quadratic = loss.n_points, loss.quadratic

    def _point(self, p: Point) -> FlattenedPoint:
        extra = p.X[:, self.rank :]
        G = p.gradient.copy()
        G[:, self.rank :] += self.weight * extra
        return FlattenedPoint(p, p.value + 0.5 * self.weight * squared_norm(extra), G)

    def at(self, X: Array) -> FlattenedPoint:
        """Return the point at X: one pass."""
        return self._point(self.loss.at(X))

    def restore(self, arrays: dict[str, Array]) -> FlattenedPoint:
        """Return the point kept in a checkpoint."""
        return self._point(self.loss.restore(arrays))

    def move(self, p: Point, X: Array) -> Move:
        """Return the step from p to X: one pass."""
        inside = self.loss.move(_inside(p), X)
        curvature = 0.5 * self.weight * squared_norm(inside.D[:, self.rank :])
        return Move(p, self._point(inside.point), inside.remainder + curvature, inside.D)

    def along(self, p: Point, D: Array) -> Line:
        """Return the quartic of f on p + tD: one pass."""
        line = self.loss.along(_inside(p), D)
        return Line(p, self._with_penalty(p, D, line.coefficients), lambda t: self._point(line.point(t)))

    def hessian_product(self, p: Point, D: Array) -> Array:
        """Return ∇²f(p)[D]: one pass."""
        H = self.loss.hessian_product(_inside(p), D)
        H[:, self.rank :] += self.weight * D[:, self.rank :]
        return H

    def linearize(self, X: Array) -> tuple[FlattenedPoint, Array]:
        """Return the point at X and the row blocks: one pass."""
        p, blocks = self.loss.linearize(X)
        for k in range(self.rank, X.shape[1]):
            blocks[:, k * (k + 3) // 2] += self.weight
        return self._point(p), blocks

    def gauss_newton_product(self, p: Point, V: Array, out: Array) -> None:
        """Write (JᵀWJ + ρ) V into ``out``: one pass."""
        self.loss.gauss_newton_product(_inside(p), V, out)
        out[:, self.rank :] += self.weight * V[:, self.rank :]

    def gauss_newton_matrix(self, p: Point) -> Any:
        """Return JᵀWJ + ρ as a sparse matrix: one pass."""
        import scipy.sparse as sp

        extra = np.zeros(p.X.shape)
        extra[:, self.rank :] = self.weight
        return (self.loss.gauss_newton_matrix(_inside(p)) + sp.diags_array(extra.ravel())).tocsc()

    def quartic(self, p: Point, D: Array) -> tuple[float, float, float, float]:
        """Return the quartic of f on p + tD: one pass."""
        return self._with_penalty(p, D, self.loss.quartic(_inside(p), D))

    def _with_penalty(
        self, p: Point, D: Array, c: tuple[float, float, float, float]
    ) -> tuple[float, float, float, float]:
        x, d = p.X[:, self.rank :], D[:, self.rank :]
        return c[0] + self.weight * inner(x, d), c[1] + 0.5 * self.weight * squared_norm(d), c[2], c[3]

    def mean_degree(self) -> float:
        """Return that of the loss."""
        return self.loss.mean_degree()

    def core(self, degree: float, rank: int) -> tuple[Self, NDArray[np.bool_]] | None:
        """Return None: the start is near already."""
        return None

    def place(self, X: Array, placed: NDArray[np.bool_]) -> tuple[Array, NDArray[np.bool_]]:
        """Return X as it is."""
        return X, placed

    @property
    def smoothness(self) -> float:
        """That of the loss."""
        return self.loss.smoothness

    @property
    def gradient_norm_at_zero(self) -> float:
        """That of the loss."""
        return self.loss.gradient_norm_at_zero

    @property
    def curvature_at_zero(self) -> float:
        """That of the loss, and ½ρ."""
        return self.loss.curvature_at_zero + 0.5 * self.weight

    def fingerprint(self) -> str:
        """Return that of the loss, and ρ."""
        return f"{self.loss.fingerprint()} flattened beyond {self.rank} by {self.weight!r}"

    def random_start(self, rank: int, nonnegative: bool, generator: np.random.Generator) -> Array:
        """Return that of the loss."""
        return self.loss.random_start(rank, nonnegative, generator)

    @property
    def n_products(self) -> int:
        """How many passes over the pairs were made so far."""
        return self.loss.n_products

    def counted(self) -> Self:
        """Return the same loss with a counter of its own."""
        twin = copy.copy(self)
        twin.loss = self.loss.counted()
        return twin

    def _count(self, products: int = 1) -> None:
        self.loss._count(products)


class FlattenedPoint(Point):
    """A point of a `Flattened` loss."""

    def __init__(self, inside: Point, value: float, gradient: Array) -> None:
        self.inside, self.X = inside, inside.X
        self._value, self._gradient = value, gradient

    @property
    def value(self) -> float:
        """f(X)."""
        return self._value

    @property
    def gradient(self) -> Array:
        """∇f(X)."""
        return self._gradient

    @property
    def rounding(self) -> float:
        """That of the loss."""
        return self.inside.rounding

    def arrays(self) -> dict[str, Array]:
        """Those of the loss's point."""
        return self.inside.arrays()


def _inside(p: Point) -> Point:
    if not isinstance(p, FlattenedPoint):
        raise TypeError(f"this point was made by another loss: {type(p).__name__}")
    return p.inside
