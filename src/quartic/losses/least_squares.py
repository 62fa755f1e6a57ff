"""The least-squares loss ½‖M − XXᵀ‖² of symmetric (nonnegative) matrix factorisation."""

from __future__ import annotations

import copy
import math
from functools import cached_property
from typing import Any, Self

import numpy as np

from quartic.arrays import Array, as_floats
from quartic.losses.base import Loss
from quartic.losses.line import Line
from quartic.losses.matrix import Matrix, as_matrix
from quartic.losses.move import Move
from quartic.losses.point import Point
from quartic.losses.spectrum import negative_part_of_spectrum
from quartic.ops import (
    delayed,
    eps,
    gram,
    inner,
    moved_gram,
    namespace,
    norm,
    on_host,
    passes,
    shifted,
    small_like,
    squared_norm,
    times,
    trace_inner,
)
from quartic.ops.space import HostSpace
from quartic.units import Units

# XᵀX is carried along for so many moves, then made anew.
_LONGEST_CHAIN = 20
_HOST = HostSpace()


class LeastSquares(Loss):
    r"""Least squares :math:`f(X) = \frac12\|M - XX^T\|^2`, so :math:`F(Y) = \frac12\|M - Y\|^2`.

    One product M X serves the value and the gradient, without an n × n matrix for sparse M:
    f(X) = ½‖M‖² + ½‖XᵀX‖² − ⟨MX, X⟩ and ∇f(X) = 2X(XᵀX) − 2MX.

    Parameters
    ----------
    M : array, sparse matrix or array, LinearOperator, or Dask array of row blocks, (n, n)
        Symmetric. Only its products with tall matrices are used. See `quartic.losses.DaskMatrix`.
    weights : sparse (n, n), optional
        Weights of the known entries; entries outside the pattern are unknown. See `WeightedLeastSquares`.
    squared_norm : float, optional
        ‖M‖²; needed for a LinearOperator, worked out otherwise.

    Notes
    -----
    Constants. ∇F(Y) = Y − M, so L_F = μ_F = 1 and ‖∇F(0)‖ = ‖M‖. For any U, ⟨∇F(0), UUᵀ⟩ = −⟨M, UUᵀ⟩ ≤
    −λ_min(M)‖U‖², which makes ``curvature_at_zero`` = max(0, −λ_min(M)): for a normalised graph at most 1, where ‖M‖
    is in the tens. It is exact for small matrices; for large ones a Lanczos estimate plus its residual, never more
    than ‖M‖.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.losses import LeastSquares
    >>> loss = LeastSquares(np.array([[1.0, 0.5], [0.5, 1.0]]))
    >>> loss.value(np.eye(2))
    0.25
    """

    quadratic = True

    def __new__(
        cls, M: Any = None, *args: Any, weights: Any = None, squared_norm: float | None = None, **kwargs: Any
    ) -> Any:
        """Return a `WeightedLeastSquares` where there are weights: the pattern of known entries is then the data."""
        if weights is None:
            return super().__new__(cls)
        from quartic.losses.weighted import WeightedLeastSquares

        return WeightedLeastSquares(M, weights)

    def __init__(self, M: Any, *, weights: Any = None, squared_norm: float | None = None) -> None:
        super().__init__()
        self.matrix: Matrix = as_matrix(M, squared_norm)
        self.n_points = self.matrix.n

    # -- the point --------------------------------------------------------------------------------------------------

    def product(self, X: Array) -> Array:
        """Return M X, counted."""
        self._count()
        return self.matrix.product(X)

    def at(self, X: Array) -> LeastSquaresPoint:
        """Return the point at X: one product."""
        X = as_floats(X)
        return LeastSquaresPoint(self, X, self.product(X))

    def restore(self, arrays: dict[str, Array]) -> LeastSquaresPoint:
        """Return the point kept in a checkpoint."""
        X, MX = self.space.adopt(arrays["X"]), self.space.adopt(arrays["MX"])
        return LeastSquaresPoint(self, X, MX, small_like(X, arrays["gram"]), int(arrays["age"]))

    def extrapolate(self, p: Point, q: Point, t: float) -> LeastSquaresPoint:
        """Return the point p + t(p − q); the product is linear, so it costs none."""
        assert isinstance(p, LeastSquaresPoint)
        assert isinstance(q, LeastSquaresPoint)
        fused, xp = passes("fused", p.X), namespace(p.X)
        Y, MY = xp.empty_like(p.X), xp.empty_like(p.MX)
        fused.extrapolate(p.X, q.X, t, Y)
        fused.extrapolate(p.MX, q.MX, t, MY)
        return LeastSquaresPoint(self, Y, MY)

    def move(self, p: Point, X: Array) -> Move:
        """Return the step from p to X, its remainder from the difference D = X − p: one product."""
        assert isinstance(p, LeastSquaresPoint)
        X = as_floats(X)
        MX, D = self.product(X), namespace(X).empty_like(X)
        bend = passes("fused", X).difference(X, p.X, MX, p.MX, D)
        T, C = gram(p.X, D), gram(D)
        # (X + D)ᵀ(X + D) follows; every so often it is made anew, since round-off adds up
        fresh = p.age >= _LONGEST_CHAIN
        new = LeastSquaresPoint(self, X, MX, None if fresh else moved_gram(p.gram, T, C), 0 if fresh else p.age + 1)
        move = Move(p, new, delayed(_remainder, p.gram, T, C, bend), D)
        move.__dict__.update(T=T, C=C)
        return move

    def along(self, p: Point, D: Array) -> Line:
        """Return the exact quartic of f on p + tD: one product, M D."""
        assert isinstance(p, LeastSquaresPoint)
        D = as_floats(D)
        MD = self.product(D)

        def move(t: float) -> LeastSquaresPoint:
            return LeastSquaresPoint(self, p.X + t * D, p.MX + t * MD)

        coefficients = delayed(_quartic, inner(p.gradient, D), p.gram, gram(p.X, D), gram(D), inner(MD, D))
        return Line(p, coefficients, move)

    def hessian_product(self, p: Point, D: Array) -> Array:
        """Return ∇²f(X)[D] = 2(D XᵀX + X(DᵀX + XᵀD) − MD): one product."""
        assert isinstance(p, LeastSquaresPoint)
        D = as_floats(D)
        T = gram(p.X, D)
        H = times(D, 2 * p.gram)
        H += times(p.X, 2 * (T + T.T))
        H -= 2 * self.product(D)
        return H

    # -- scale ------------------------------------------------------------------------------------------------------

    def exponents(self) -> tuple[int | None, int | None]:
        """Return log₂ of the root of ‖M‖."""
        power = self.matrix.exponent()
        return None if power is None else power // 2, None

    def in_units(self, units: Units) -> Self:
        """Return the loss of 4^length · M."""
        twin = copy.copy(self)
        twin.matrix = self.matrix.scaled(2 * units.length)
        twin._constants = {}
        return twin

    # -- constants --------------------------------------------------------------------------------------------------

    @property
    def smoothness(self) -> float:
        """L_F = 1."""
        return 1.0

    @property
    def strong_convexity(self) -> float:
        """μ_F = 1."""
        return 1.0

    @property
    def gradient_norm_at_zero(self) -> float:
        """‖∇F(0)‖ = ‖M‖."""
        return math.sqrt(self.matrix.squared_norm)

    @property
    def curvature_at_zero(self) -> float:
        """max(0, −λ_min(M))."""
        if "curvature" not in self._constants:
            bound = negative_part_of_spectrum(self.matrix, self._count)
            self._constants["curvature"] = min(bound, self.gradient_norm_at_zero)
        return self._constants["curvature"]

    # -- bookkeeping ------------------------------------------------------------------------------------------------

    @property
    def dtype(self) -> type[np.floating[Any]]:
        """The type of M."""
        return self.matrix.dtype

    @property
    def space(self) -> Any:
        """Where M is."""
        return self.matrix.space

    def fingerprint(self) -> str:
        """Return kind, size, norm and a checksum of the data."""
        sums = f"squared_norm={self.matrix.squared_norm!r} checksum={self.matrix.checksum():.6e}"
        return f"LeastSquares n={self.n_points} {sums}"

    def mean_entry(self) -> float:
        """Return the mean of all n² entries of M."""
        total, products = self.matrix.total()
        self._count(products)
        return total / self.n_points**2

    def random_start(self, rank: int, nonnegative: bool, generator: np.random.Generator) -> Array:
        """Return the paper's start, 2·uniform(1e-5, √(mean(M)/r)); where signs are free, a scaled Gaussian."""
        if nonnegative:
            size = self.gradient_norm_at_zero / self.n_points
            return nonnegative_start(self.n_points, rank, self.mean_entry(), size, generator, self.space)
        X: Array = self.space.normal(generator, (self.n_points, rank))
        p = self.at(X)
        # f(tX) − f(0) = ½t⁴‖XᵀX‖² − t²⟨MX, X⟩ is least at t² = ⟨MX, X⟩ / ‖XᵀX‖².
        fit, size = inner(p.MX, X), squared_norm(p.gram)
        scale = math.sqrt(abs(fit) / size) if fit != 0 else math.sqrt(self.gradient_norm_at_zero) / float(norm(X))
        return X * scale


def nonnegative_start(
    n: int, rank: int, mean: float, size: float, generator: np.random.Generator, space: Any = _HOST
) -> Array:
    """Return the paper's start 2·uniform(1e-5, √(mean/r)) for a matrix with this mean entry.

    The 1e-5 is for similarities. Where they are so small that it would not lie well below √(mean/r), or cancel in the
    mean beside their root mean square ``size``, the bounds follow the scale of the data.
    """
    top = max(math.sqrt(abs(mean) / rank), 2e-5 * math.sqrt(size))
    X: Array = 2 * space.uniform(generator, min(1e-5, top / 2), top, (n, rank))
    return X


def _quartic(slope: float, S: Array, T: Array, C: Array, bend: float) -> tuple[float, float, float, float]:
    """Return c₁ … c₄ of f on X + tD from S = XᵀX, T = XᵀD, C = DᵀD and bend = ⟨MD, D⟩."""
    quadratic = trace_inner(S, C) + trace_inner(T, T.T) + trace_inner(T, T) - bend
    return float(slope), float(quadratic), 2 * trace_inner(T, C), 0.5 * trace_inner(C, C)


def _remainder(S: Array, T: Array, C: Array, bend: float) -> float:
    """Return what f(X + D) − f(X) is beyond the first order."""
    _, c2, c3, c4 = _quartic(0.0, S, T, C, bend)
    return c2 + c3 + c4


class LeastSquaresPoint(Point):
    """A point of `LeastSquares`: X and the product MX; the rest follows."""

    def __init__(self, loss: LeastSquares, X: Array, MX: Array, gram: Array | None = None, age: int = 0) -> None:
        self.loss = loss
        self.X = X
        self.MX = MX
        self.age = age  # for how many moves XᵀX was carried along
        if gram is not None:
            self.__dict__["gram"] = gram

    @cached_property
    def value(self) -> float:
        """½‖M − XXᵀ‖²."""
        constant = 0.5 * self.loss.matrix.squared_norm

        def finish(S: Array, fit: float) -> float:
            value = constant + 0.5 * trace_inner(S, S) - fit
            return max(value, 0.0) if math.isfinite(value) else value

        value: float = delayed(finish, self.gram, inner(self.MX, self.X))
        return value

    @cached_property
    def gradient(self) -> Array:
        """2X(XᵀX) − 2MX."""
        G = times(self.X, shifted(self.gram, 0.0, 2.0))
        passes("fused", G).add_scaled(G, -2.0, self.MX)
        return G

    def combine(self, a: float, b: float, shift: float, clip: bool) -> tuple[Array, float]:
        """Return aX + b∇f(X) − shift = X(aI + 2bS) − 2b·MX − shift, clipped, without forming the gradient."""
        W = times(self.X, shifted(self.gram, a, 2 * b))
        return W, passes("fused", W).add_and_clip(W, -2 * b, self.MX, shift, clip)

    @cached_property
    def rounding(self) -> float:
        """eps·(‖X(XᵀX)‖ + ‖MX‖), twice; near a solution the two are equal."""
        S = on_host(self.gram)
        size = norm(S)
        if size == 0.0:
            return 0.0
        S = S / size  # cubes over- and underflow long before S does
        return 4 * eps(self.X) * size * math.sqrt(size) * math.sqrt(max(trace_inner(S @ S, S), 0.0))

    def arrays(self) -> dict[str, Array]:
        """X, MX, XᵀX and its age."""
        return {"X": self.X, "MX": self.MX, "gram": self.gram, "age": np.asarray(self.age)}
