"""Rectangular matrices: ½‖A − UVᵀ‖², with U and V stacked into one tall X, so that UVᵀ is a block of XXᵀ."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, Self

import numpy as np

from quartic.arrays import Array, as_floats, gram, inner, norm, trace_inner
from quartic.core.units import Units, exponent
from quartic.losses.base import Loss
from quartic.losses.line import Line
from quartic.losses.move import Move
from quartic.losses.other.masked_rectangular import MaskedRectangular
from quartic.losses.other.rectangular_matrix import (
    RectangularMatrix,
    as_rectangular,
    largest_singular_value,
)
from quartic.losses.other.stacked_factors import in_two, rectangular_random, split_factors
from quartic.losses.point import Point


class Rectangular(Loss):
    r"""Low-rank fit of a rectangular matrix, :math:`f(X) = \frac12\|A - UV^T\|^2` with :math:`X = [U; V]`.

    UVᵀ is the upper right block of XXᵀ, so every kernel, penalty and solver serves: with ``Nonnegative()`` this is
    nonnegative matrix factorisation, with weights and ``Ridge(ρ)`` it is matrix completion with the nuclear norm
    ρ‖UVᵀ‖_* = min ½ρ(‖U‖² + ‖V‖²), with ``L1`` or ``NonnegativeL1`` it is sparse coding.

    Parameters
    ----------
    A : array or sparse (m, n)
        Without weights every entry counts, also those a sparse A does not store, which are zeros.
    weights : array or sparse (m, n), optional
        Nonnegative weights; entries outside their pattern are unknown, and A may hold anything there, NaN included.
        For known and unknown entries ``weights=np.isfinite(A)``; for the stored entries of a sparse matrix of ratings
        ``weights=A != 0``. See `MaskedRectangular`.

    Notes
    -----
    Constants. As a function of a symmetric Y, F(Y) = ½ Σ w (A − Y₁₂)² with Y₁₂ = ½(Y₁₂ + Y₂₁ᵀ), and ∇F(Y) has the
    blocks ½ w∘(Y₁₂ − A) and its transpose. Hence ‖∇F(Y) − ∇F(Z)‖² = ½‖w∘(Y₁₂ − Z₁₂)‖² while
    ‖Y − Z‖² ≥ 2‖Y₁₂ − Z₁₂‖²: L_F = ½ max w. μ_F = 0, since F does not see the diagonal blocks.
    ∇F(0) = −½[0, w∘A; (w∘A)ᵀ, 0] has the norm ‖w∘A‖/√2 and the largest eigenvalue ½σ₁(w∘A).

    One product [AV; AᵀU] serves the value ½‖A‖² − ⟨AV, U⟩ + ½⟨UᵀU, VᵀV⟩ and the gradient
    [U·VᵀV − AV; V·UᵀU − AᵀU]; it is linear in X, so extrapolation costs none.

    f does not change when U and V become UT and VT⁻ᵀ. Badly balanced factors make it badly conditioned; starts made
    here are balanced (UᵀU = VᵀV, or equal norms of columns), a descent from there nearly keeps that, and a ridge
    enforces it.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic import Problem, minimize
    >>> from quartic.losses import Rectangular
    >>> from quartic.penalties import Nonnegative
    >>> A = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0]])
    >>> loss = Rectangular(A)
    >>> result = minimize(Problem(loss, Nonnegative()), rank=1, tol=1e-9, random_state=0)
    >>> U, V = loss.factors(result.X)
    >>> bool(np.allclose(U @ V.T, A, atol=1e-6))
    True
    """

    quadratic = True
    infimum = 0.0

    def __new__(cls, A: Any = None, weights: Any = None) -> Any:
        """Return a `MaskedRectangular` where there are weights: the pattern of known entries is then the data."""
        return super().__new__(cls) if weights is None else MaskedRectangular(A, weights)

    def __init__(self, A: Any, weights: Any = None) -> None:
        super().__init__()
        self.matrix: RectangularMatrix = as_rectangular(A)
        self.shape = self.matrix.shape
        self.n_points = sum(self.shape)

    def factors(self, X: Array) -> tuple[Array, Array]:
        """Return U (m, r) and V (n, r) of X."""
        return split_factors(X, self.shape)

    # -- the point --------------------------------------------------------------------------------------------------

    def product(self, X: Array) -> Array:
        """Return [AV; AᵀU], counted."""
        self._count()
        m = self.shape[0]
        P = np.empty_like(X)
        self.matrix.products(X[:m], X[m:], P)
        return P

    def at(self, X: Array) -> RectangularPoint:
        """Return the point at X: one product with A and one with Aᵀ, counted as one."""
        X = as_floats(X)
        return RectangularPoint(self, X, self.product(X))

    def restore(self, arrays: dict[str, Array]) -> RectangularPoint:
        """Return the point kept in a checkpoint."""
        return RectangularPoint(self, arrays["X"], arrays["P"])

    def extrapolate(self, p: Point, q: Point, t: float, gram: Array | None = None) -> RectangularPoint:
        """Return the point p + t(p − q); the product is linear, so it costs none."""
        assert isinstance(p, RectangularPoint)
        assert isinstance(q, RectangularPoint)
        from quartic.compiled.rows import extrapolate

        Y, P = np.empty_like(p.X), np.empty_like(p.P)
        extrapolate(p.X, q.X, t, Y)
        extrapolate(p.P, q.P, t, P)
        return RectangularPoint(self, Y, P)

    def move(self, p: Point, X: Array) -> Move:
        """Return the step from p to X, its remainder from the difference D = X − p: one product."""
        assert isinstance(p, RectangularPoint)
        from quartic.compiled.rows import difference

        X = as_floats(X)
        P, D = self.product(X), np.empty_like(X)
        bend = 0.5 * difference(X, p.X, P, p.P, D)
        small = _SmallMatrices.of(p, D, self.shape[0])
        _, c2, c3, c4 = small.quartic(0.0, bend)
        return Move(p, RectangularPoint(self, X, P), c2 + c3 + c4, D, small.TU + small.TV, small.CU + small.CV)

    def along(self, p: Point, D: Array) -> Line:
        """Return the exact quartic of f on p + tD: one product."""
        assert isinstance(p, RectangularPoint)
        D = as_floats(D)
        PD = self.product(D)

        def move(t: float) -> RectangularPoint:
            return RectangularPoint(self, p.X + t * D, p.P + t * PD)

        small = _SmallMatrices.of(p, D, self.shape[0])
        return Line(p, small.quartic(inner(p.gradient, D), 0.5 * inner(PD, D)), move)

    def hessian_product(self, p: Point, D: Array) -> Array:
        """Return ∇²f(X)[D]: [D_U·VᵀV + U·(D_VᵀV + VᵀD_V) − AD_V; …]: one product."""
        assert isinstance(p, RectangularPoint)
        D = as_floats(D)
        m = self.shape[0]
        TU, TV = gram(p.X[:m], D[:m]), gram(p.X[m:], D[m:])
        H = -self.product(D)
        for rows, S, T in ((slice(0, m), p.SV, TV), (slice(m, None), p.SU, TU)):
            H[rows] += D[rows] @ S.astype(D.dtype, copy=False)
            H[rows] += p.X[rows] @ (T + T.T).astype(D.dtype, copy=False)
        return H

    def curvature_diagonal(self, p: Point) -> Array:
        """Return the diagonal of VᵀV for each row of U, and that of UᵀU for each row of V: exact."""
        assert isinstance(p, RectangularPoint)
        return in_two(p.X, self.shape[0], np.diag(p.SV), np.diag(p.SU))

    def gradient_operator(self, p: Point) -> Callable[[Array], Array]:
        """Return the map Z ↦ ∇F(XXᵀ)Z = ½[(UVᵀ − A)Z_V; (UVᵀ − A)ᵀZ_U]; a product each time."""
        m = self.shape[0]
        U, V = p.X[:m], p.X[m:]

        def apply(Z: Array) -> Array:
            Z = as_floats(Z)
            out = -self.product(Z)
            out[:m] += U @ (V.T @ Z[m:])
            out[m:] += V @ (U.T @ Z[:m])
            return 0.5 * out

        return apply

    # -- scale ------------------------------------------------------------------------------------------------------

    def exponents(self) -> tuple[int | None, int | None]:
        """Return log₂ of the root of the largest |A_ij|."""
        power = exponent(self.matrix.entries())
        return None if power is None else power // 2, None

    def in_units(self, units: Units) -> Self:
        """Return the loss of 4^length · A."""
        twin = copy.copy(self)
        twin.matrix = self.matrix.scaled(2 * units.length)
        twin._constants = {}
        return twin

    # -- constants --------------------------------------------------------------------------------------------------

    @property
    def smoothness(self) -> float:
        """L_F = ½."""
        return 0.5

    @property
    def gradient_norm_at_zero(self) -> float:
        """‖A‖/√2."""
        return math.sqrt(0.5 * self.matrix.squared_norm)

    @property
    def curvature_at_zero(self) -> float:
        """½σ₁(A), the largest singular value."""
        if "curvature" not in self._constants:
            bound = 0.5 * largest_singular_value(self.matrix, self._count)
            self._constants["curvature"] = min(bound, self.gradient_norm_at_zero)
        return self._constants["curvature"]

    # -- bookkeeping ------------------------------------------------------------------------------------------------

    @property
    def dtype(self) -> type[np.floating[Any]]:
        """The type of A."""
        return self.matrix.dtype

    def fingerprint(self) -> str:
        """Return kind, shape, norm and a checksum of the data."""
        m, n = self.shape
        return f"Rectangular {m}x{n} squared_norm={self.matrix.squared_norm!r} checksum={self.matrix.checksum():.6e}"

    def random_start(self, rank: int, nonnegative: bool, generator: np.random.Generator) -> Array:
        """Return a random X of the scale of A: entries about √(mean(A)/r) where X ≥ 0, else a scaled Gaussian."""
        mean_square = self.matrix.squared_norm / (self.shape[0] * self.shape[1])
        mean = self.matrix.mean()
        return rectangular_random(self.n_points, rank, nonnegative, mean, math.sqrt(mean_square), generator)


class _SmallMatrices:
    """The r × r matrices from which the quartic on a line follows: S of X, T = XᵀD and C = DᵀD, of U and of V."""

    def __init__(self, SU: Array, SV: Array, TU: Array, TV: Array, CU: Array, CV: Array) -> None:
        self.SU, self.SV, self.TU, self.TV, self.CU, self.CV = SU, SV, TU, TV, CU, CV

    @classmethod
    def of(cls, p: RectangularPoint, D: Array, m: int) -> _SmallMatrices:
        """Return those of the line p + tD."""
        X = p.X
        return cls(p.SU, p.SV, gram(X[:m], D[:m]), gram(X[m:], D[m:]), gram(D[:m]), gram(D[m:]))

    def quartic(self, slope: float, bend: float) -> tuple[float, float, float, float]:
        """Return c₁ … c₄, with bend = ⟨A D_V, D_U⟩.

        UVᵀ changes by tB + t²C with B = D_U Vᵀ + U D_Vᵀ and C = D_U D_Vᵀ, so c₂ = ½‖B‖² + ⟨UVᵀ − A, C⟩,
        c₃ = ⟨B, C⟩ and c₄ = ½‖C‖².
        """
        B = trace_inner(self.CU, self.SV) + trace_inner(self.SU, self.CV) + 2 * trace_inner(self.TU, self.TV.T)
        c2 = 0.5 * B + trace_inner(self.TU, self.TV) - bend
        c3 = trace_inner(self.CU, self.TV) + trace_inner(self.TU, self.CV)
        return slope, c2, c3, 0.5 * trace_inner(self.CU, self.CV)


class RectangularPoint(Point):
    """A point of `Rectangular`: X and P = [AV; AᵀU]; the rest follows."""

    def __init__(self, loss: Rectangular, X: Array, P: Array) -> None:
        self.loss = loss
        self.X = X
        self.P = P

    @cached_property
    def SU(self) -> Array:
        """UᵀU."""
        return gram(self.X[: self.loss.shape[0]])

    @cached_property
    def SV(self) -> Array:
        """VᵀV."""
        return gram(self.X[self.loss.shape[0] :])

    @cached_property
    def gram(self) -> Array:
        """XᵀX = UᵀU + VᵀV."""
        return self.SU + self.SV

    @cached_property
    def value(self) -> float:
        """½‖A − UVᵀ‖²."""
        m = self.loss.shape[0]
        value = 0.5 * self.loss.matrix.squared_norm - inner(self.P[:m], self.X[:m])
        value += 0.5 * trace_inner(self.SU, self.SV)
        return max(value, 0.0) if math.isfinite(value) else value

    @cached_property
    def gradient(self) -> Array:
        """[U·VᵀV − AV; V·UᵀU − AᵀU]."""
        from quartic.compiled.rows import add_scaled

        G = self._combination(0.0, 1.0)
        add_scaled(G, -1.0, self.P)
        return G

    def _combination(self, a: float, b: float) -> Array:
        """Return aX + b∇f(X) + bP."""
        W = np.empty_like(self.X)
        m, identity = self.loss.shape[0], a * np.eye(self.X.shape[1])
        np.matmul(self.X[:m], (b * self.SV + identity).astype(W.dtype, copy=False), out=W[:m])
        np.matmul(self.X[m:], (b * self.SU + identity).astype(W.dtype, copy=False), out=W[m:])
        return W

    def combine(self, a: float, b: float, shift: float, clip: bool) -> tuple[Array, float]:
        """Return aX + b∇f(X) − shift, clipped, without forming the gradient."""
        from quartic.compiled.rows import add_and_clip

        W = self._combination(a, b)
        return W, add_and_clip(W, -b, self.P, shift, clip)

    @cached_property
    def rounding(self) -> float:
        """eps·(‖U·VᵀV‖ + ‖V·UᵀU‖), four times: near a solution AV and AᵀU have those sizes too."""
        size = norm(self.gram)
        if size == 0.0 or not math.isfinite(size):
            return 0.0
        SU, SV = self.SU / size, self.SV / size
        eps = float(np.finfo(self.X.dtype).eps)
        cubes = max(trace_inner(SU, SV @ SV), 0.0) + max(trace_inner(SV, SU @ SU), 0.0)
        return 4 * eps * size * math.sqrt(size) * math.sqrt(cubes)

    def arrays(self) -> dict[str, Array]:
        """X and P."""
        return {"X": self.X, "P": self.P}
