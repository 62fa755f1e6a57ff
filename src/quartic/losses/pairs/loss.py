"""Sums of squares over pairs (i, j): what distances, bounds and known entries share."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import Array, as_floats, astype, eps, float_type, inner, namespace, norm, total
from quartic.arrays.space import HostSpace, Space
from quartic.core.units import Units, exponent, shifted
from quartic.losses.base import Loss, Point, ProductCounter
from quartic.losses.pairs.pairs import HESSIAN, LINE, LINEARIZE, PRODUCT, QUARTIC, REMAINDER, VALUE, Pairs
from quartic.losses.steps import Line, Move

# Damping is relative to the mean diagonal of JᵀJ. The gauge makes JᵀJ singular, so it never goes down to nothing.
_LEAST, _MOST = 1e-13, 1e8
# The equations are never solved to a smaller residual, relative to where they start.
_LEAST_RESIDUAL = 1e-3
#: A step that lowers the loss by less than this share does next to nothing: residuals are there to stay.
LITTLE = 1e-2
#: A core's added column goes when the variance along it is this share of the variance along the last axis that stays.
#: With three times as much a few more random starts end in local minima.
FLAT = 0.03


def row_blocks_in(space: Space) -> Any:
    """Return the module with the passes over r × r blocks, one a row of X, for the arrays of a space.

    `quartic.losses.pairs.descent` and `quartic.losses.pairs.torch` both have ``factor_blocks``, ``solve_blocks`` and
    ``advance``.
    """
    if isinstance(space, HostSpace):
        from quartic.losses.pairs import descent

        return descent
    from quartic.losses.pairs import torch

    return torch


def diagonal_mean(B: Array, rank: int) -> float:
    """Return the mean diagonal entry of packed blocks: the scale that damping is measured on."""
    sums = B.sum(axis=0) / (rank * max(len(B), 1))
    return total(namespace(B).stack([sums[k * (k + 3) // 2] for k in range(rank)]))


def next_damping(damping: float, gain: float) -> float:
    """Return the damping after a step, by the ratio of the actual to the predicted decrease."""
    factor = 0.2 if gain > 0.75 else 3.0 if gain < 0.25 else 1.0
    return min(max(damping * factor, _LEAST), _MOST)


def residual(forcing: float, slope: float, earlier: float) -> float:
    """Return how far to solve the equations: as far as the last step lowered the gradient, at first not so far."""
    return forcing if math.isinf(earlier) else max(_LEAST_RESIDUAL, min(forcing, slope / earlier))


class SumOfSquares(Loss):
    """A loss f(X) = ½‖e(X)‖², with J the derivative of e (weights are part of e).

    Each pass over the data is counted, the products with JᵀJ like any other. Further methods a loss may have, and
    solvers ask for: ``quartic``, the quartic of f on a line without gradients, where F is quadratic;
    ``gauss_newton_matrix``, JᵀJ as a sparse matrix; and those of `PairSquares` that solve a problem by way of a part of
    its points.
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


# Up to so many pairs one compiled call makes many passes, on one thread.
_FEW_PAIRS = 60_000
#: It takes rows of up to so many columns, the longest vector.
MOST_COLUMNS = 32


def _of_pairs(name: str, words: str) -> Any:
    return property(lambda loss: getattr(loss.pairs, name), doc=words)


# Where there are fewer pairs, equations are solved sooner than it is seen whether they need be.
_MANY_PAIRS = 20_000


class PairLoss(SumOfSquares):
    """f(X) = ½ Σ_p w_p e_p(X)² over pairs p = (i, j): pairs, passes over them, and what is known of the loss.

    ``pairs`` holds the data and says what a pair is (`quartic.losses.pairs.pairs.Pairs`); its passes, compiled or of
    torch, do the work. Each pass gives the value and the gradient.
    """

    pairs: Pairs
    #: ρ of a term ½ρ‖X‖² that goes with the sum
    ridge: float = 0.0

    def __init__(self, pairs: Pairs) -> None:
        super().__init__()
        self.pairs, self.n_points, self.space, self.dtype = pairs, pairs.n_points, pairs.space, pairs.dtype

    # -- the point --------------------------------------------------------------------------------------------------

    def _run(
        self, mode: int, X: Array, Y: Array | None = None, out: Array | None = None, blocks: Array | None = None
    ) -> tuple[float, ...]:
        """Make a pass, counted; see `quartic.losses.pairs.pairs.Pairs.run`."""
        self.count_products()
        return self.pairs.run(mode, X, Y, out, blocks)

    def at(self, X: Array) -> Point:
        """Return the point at X: one pass."""
        X = as_floats(X)
        G = namespace(X).empty_like(X)
        return self._point(X, self._run(VALUE, X, None, G)[0], G)

    def move(self, p: Point, X: Array) -> Move:
        """Return the step from p to X, its remainder summed pair by pair from X − p: one pass."""
        X = as_floats(X)
        G = namespace(X).empty_like(X)
        value, remainder = self._run(REMAINDER, p.X, X, G)
        return Move(p, self._point(X, value, G), remainder)

    # -- Gauss–Newton -----------------------------------------------------------------------------------------------

    def linearize(self, X: Array) -> tuple[Point, Array]:
        """Return the point at X and the packed row blocks of JᵀWJ, 4 Σ_j w (x_i − x_j)(x_i − x_j)ᵀ for distances."""
        G, rank = namespace(X).empty_like(X), X.shape[1]
        B = self.space.zeros((len(X), rank * (rank + 1) // 2), np.float64)
        return self._point(X, self._run(LINEARIZE, X, None, G, B)[0], G), B

    def gauss_newton_product(self, p: Point, V: Array, out: Array) -> None:
        """Write JᵀWJ V into ``out``: one pass, which reads neither targets nor anything stored a pair."""
        self._run(PRODUCT, p.X, V, out)

    def gauss_newton_matrix(self, p: Point) -> Any:
        """Return JᵀWJ as a sparse matrix: one pass."""
        self.count_products()
        return self.pairs.gauss_newton_matrix(p.X)

    def offers(self, capability: str) -> bool:
        """Tell whether the loss has a method; where the pairs are not listed here, some cannot work."""
        unlisted = capability in ("core", "descent", "gauss_newton_matrix") and not self.pairs.listed
        return super().offers(capability) and not unlisted

    # -- scale ------------------------------------------------------------------------------------------------------

    def exponents(self) -> tuple[int | None, int | None] | None:
        """Return log₂ of the size of the points that the data ask for, and of the largest weight."""
        return self.pairs.exponents()

    def in_units(self, units: Units) -> Self:
        """Return the loss of 2^(½ degree · length) · b, with the weights scaled too."""
        power = units.value - self.degree * units.length
        return self.with_pairs(self.pairs.scaled(self.degree // 2 * units.length, power))

    def with_pairs(self, pairs: Pairs) -> Self:
        """Return the same loss of other pairs: what was worked out from the old ones is forgotten."""
        return self._with(pairs=pairs, n_points=pairs.n_points)

    # -- the pairs --------------------------------------------------------------------------------------------------

    @property
    def translations(self) -> bool:
        """Whether only differences of points count."""
        return self.pairs.difference

    rows = _of_pairs("rows", "The row index of each pair, in the order they are kept.")
    cols = _of_pairs("cols", "The column index of each pair.")
    target = _of_pairs("target", "The known value of each pair, or a lower bound of it.")
    weight = _of_pairs("weight", "The weight of each pair; None where all are 1.")

    @property
    def n_pairs(self) -> int:
        """How many pairs there are."""
        return len(self.pairs)

    def mean_degree(self) -> float:
        """Return the mean number of pairs a point is in."""
        return 2 * self.n_pairs / self.n_points

    def is_local(self) -> bool:
        """Tell whether the pairs are those of near points, not ones drawn at random; few pairs are not looked at."""
        return self.n_pairs < _MANY_PAIRS or self.pairs.is_local()

    def size(self) -> tuple[str, float]:
        """Return the number of pairs in words, and about how many bytes they take."""
        return self.pairs.size()

    @abstractmethod
    def best_scale(self, X: Array) -> Array:
        """Return the tX with the least f(tX): passes."""

    @property
    @abstractmethod
    def gradient_scale(self) -> float:
        """What multiplies eps·‖X‖ in the round-off of the gradient."""

    def _rounding(self, p: Point) -> float:
        """Return about eps·Σ w·(|q| + |b|)·|x| in each row, as a norm.

        The residual q − b of a pair cannot be known better than eps·(q + b), however small it is.
        """
        return eps(p.X) * self.gradient_scale * norm(p.X)

    def fingerprint(self) -> str:
        """Return kind, sizes and sums of the data."""
        return f"{type(self).__name__} n={self.n_points} pairs={self.n_pairs} {self.pairs.checksum()}"


class PairSquares(PairLoss):
    """f(X) = ½ Σ_p w_p (q_p(X) − b_p)² over pairs p = (i, j), q_p = ‖x_i − x_j‖² or ⟨x_i, x_j⟩: a quartic on lines."""

    quadratic = True

    def along(self, p: Point, D: Array) -> Line:
        """Return the exact quartic of f on p + tD, and its gradient there, a cubic: one pass."""
        D = as_floats(D)
        C = self.space.zeros((len(D), 3, D.shape[1]), float_type(D))
        c1, c2, c3, c4 = self._run(LINE, p.X, D, C)

        def move(t: float) -> Point:
            G = p.gradient + t * (C[:, 0] + t * (C[:, 1] + t * C[:, 2]))
            return self._point(p.X + t * D, max(line(t), 0.0), G)

        line = Line(p, (c1, c2, c3, c4), move)
        return line

    def quartic(self, p: Point, D: Array) -> tuple[float, float, float, float]:
        """Return c₁ … c₄ of f(p + tD) = f(p) + c₁t + c₂t² + c₃t³ + c₄t⁴: one pass, cheaper than ``along``."""
        c1, c2, c3, c4 = self._run(QUARTIC, p.X, D)
        return c1, c2, c3, c4

    def hessian_product(self, p: Point, D: Array) -> Array:
        """Return ∇²f(p)[D]: one pass."""
        H: Array = namespace(D).empty_like(D)
        self._run(HESSIAN, p.X, D, H)
        return H

    @property
    @abstractmethod
    def value_at_zero(self) -> float:
        """f(0)."""

    def best_scale(self, X: Array) -> Array:
        """Return the tX with the least f(tX): one pass."""
        X = self._of_the_size_of_the_data(X)
        p = self.at(X)
        # f(tX) = f(0) − a t² + b t⁴; its value and slope at t = 1 give a and b, and it is least at t² = a/(2b).
        slope, drop = float(inner(p.gradient, X)), float(p.value) - self.value_at_zero
        b = 0.5 * slope - drop
        a = b - drop
        return X * math.sqrt(a / (2 * b)) if a > 0 and b > 0 else X

    def _of_the_size_of_the_data(self, X: Array) -> Array:
        """Return 2^k·X, about as large as the data ask for: then f(X), f(0) and their difference are of one size."""
        here, wanted = exponent(X), self.pairs.exponent_of_points()
        return X if here is None or wanted is None else shifted(X, wanted - here)

    # -- a part of the points, and the others' places ---------------------------------------------------------------

    def core(self, degree: float, rank: int) -> tuple[Self, NDArray[np.bool_]] | None:
        """Return the loss among part of the points, each with about ``degree`` pairs there, and which points they are.

        None where there is no such part: points with fewer than 2(r + 1) pairs in it are left out, and at least half
        of it must remain. It has a counter of its own.
        """
        self.count_products()
        found = self.pairs.core(degree, rank)
        if found is None:
            return None
        pairs, chosen = found
        part = self.with_pairs(pairs)
        part._counter = ProductCounter()
        return part, chosen

    def place(self, X: Array, placed: NDArray[np.bool_]) -> tuple[Array, NDArray[np.bool_]]:
        """Return X with more points placed, and which are: those with 2(r + 1) placed neighbours or more: one pass."""
        from quartic.losses.pairs.placement import place

        self.count_products()
        return place(self.pairs, X, placed)

    def descent(self, X: Array, forcing: float, max_cg: int, damping: float) -> Any:
        """Return damped steps from X with next to nothing in between them (`quartic.losses.pairs.descent.Descent`)."""
        from quartic.losses.pairs.descent import Descent

        return Descent(astype(X, np.float64), self.pairs, forcing, max_cg, damping, self.count_products)

    def is_small(self, X: Array) -> bool:
        """Tell whether passes take so little time that a `descent`, on one thread, is worth it; all in float64."""
        few = self.n_pairs <= _FEW_PAIRS and X.shape[1] <= MOST_COLUMNS and X.dtype == np.float64
        return few and not self.ridge
