"""Rectangular matrices: ½‖A − UVᵀ‖², with U and V stacked into one tall X, so that UVᵀ is a block of XXᵀ."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from quartic.arrays import (
    Array,
    as_floats,
    finite_matrix,
    first_not_finite,
    gram,
    inner,
    norm,
    trace_inner,
    working_dtype,
)
from quartic.core.units import Units, exponent, shifted
from quartic.losses.base import Loss
from quartic.losses.factor.spectrum import upper_bound_of_spectrum
from quartic.losses.factor.weighted import WeightedLeastSquares
from quartic.losses.line import Line
from quartic.losses.move import Move
from quartic.losses.point import Point


def Rectangular(A: Any, weights: Any = None) -> FullRectangular | MaskedRectangular:
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

    Returns
    -------
    FullRectangular or MaskedRectangular
        The loss; ``loss.factors(X)`` returns U and V.

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
    return FullRectangular(A) if weights is None else MaskedRectangular(A, weights)


class FullRectangular(Loss):
    """½‖A − UVᵀ‖² over all entries of A: `Rectangular` without weights."""

    quadratic = True
    infimum = 0.0

    def __init__(self, A: Any) -> None:
        super().__init__()
        self.matrix = RectangularMatrix(check_rectangular(A))
        self.shape = self.matrix.shape
        self.n_points = sum(self.shape)

    def factors(self, X: Array) -> tuple[Array, Array]:
        """Return U (m, r) and V (n, r) of X."""
        return split_factors(X, self.shape)

    # -- the point --------------------------------------------------------------------------------------------------

    def product(self, X: Array) -> Array:
        """Return [AV; AᵀU], counted."""
        self._count()
        return self.matrix.product(X)

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
        return self._with(matrix=self.matrix.scaled(2 * units.length))

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

            def bordered(Z: Array) -> Array:  # [0, A; Aᵀ, 0], whose largest eigenvalue is σ₁
                return self.product(Z.astype(self.dtype)).astype(np.float64)

            sigma = upper_bound_of_spectrum(bordered, self.n_points, float(np.finfo(self.dtype).eps))
            self._constants["curvature"] = min(0.5 * sigma, self.gradient_norm_at_zero)
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
    """A point of `FullRectangular`: X and P = [AV; AᵀU]; the rest follows."""

    def __init__(self, loss: FullRectangular, X: Array, P: Array) -> None:
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

    def combine(self, alpha: float, sigma: float, b: float, shift: float, clip: bool) -> tuple[Array, float]:
        """Return (α‖X‖² + σ)X + b∇f(X) − shift, clipped, without forming the gradient."""
        from quartic.compiled.rows import add_and_clip

        W = self._combination(alpha * float(np.trace(self.gram)) + sigma, b)
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


class MaskedRectangular(WeightedLeastSquares):
    r"""Weighted fit of known entries, :math:`f(X) = \frac12\sum_{ij} w_{ij}(A_{ij} - (UV^T)_{ij})^2`, X = [U; V].

    Made by ``Rectangular(A, weights=W)``, whose notes have the constants. It is `WeightedLeastSquares` of the
    bordered matrix [0, A; Aᵀ, 0], of which each entry counts twice and so has half its weight.

    Parameters
    ----------
    A : array or sparse (m, n)
        What it holds outside the pattern of the weights does not matter.
    weights : array or sparse (m, n)
        Nonnegative.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.losses import Rectangular
    >>> A = np.array([[1.0, np.nan], [2.0, 4.0]])
    >>> loss = Rectangular(A, weights=np.isfinite(A))
    >>> loss.value(np.array([[1.0], [2.0], [1.0], [2.0]]))
    0.0
    """

    def __init__(self, A: Any, weights: Any) -> None:
        if isinstance(A, LinearOperator):
            raise TypeError("weights need the entries of A, but A is a LinearOperator; pass an array or sparse matrix")
        W = sp.csr_array(weights if sp.issparse(weights) else finite_matrix(weights, "weights")).tocoo()
        if len(np.shape(A)) != 2 or np.shape(A) != W.shape:
            raise ValueError(f"A and weights must be 2-D and of the same shape, got {np.shape(A)} and {W.shape}")
        i, j = W.coords
        values = np.asarray(A.tocsr()[i, j] if sp.issparse(A) else np.asarray(A)[i, j]).ravel()
        known = (W.data != 0) & ~np.isfinite(values)
        if known.any():
            k = int(known.argmax())
            raise ValueError(f"A[{i[k]}, {j[k]}] is {values[k]}, but weights say it is known; give it weight 0")
        values = np.where(W.data != 0, values, 0)
        m, n = W.shape
        self.shape = (m, n)
        dtype = np.float32 if values.dtype == np.float32 else np.float64
        super().__init__(
            _bordered(values.astype(dtype), i, j, m, n), _bordered(0.5 * W.data.astype(np.float64), i, j, m, n)
        )

    def factors(self, X: Array) -> tuple[Array, Array]:
        """Return U (m, r) and V (n, r) of X."""
        return split_factors(X, self.shape)

    def curvature_diagonal(self, p: Point) -> Array:
        """Return Σ_j w_ij · mean_j(v_jk²) for the rows of U, and likewise for those of V: exact if all w are equal."""
        m = self.shape[0]
        U, V = p.X[:m], p.X[m:]
        mean_u, mean_v = ((np.square(Z, dtype=np.float64).mean(axis=0)) for Z in (U, V))
        return in_two(p.X, m, np.outer(self._degrees[:m], mean_v), np.outer(self._degrees[m:], mean_u))

    @cached_property
    def _degrees(self) -> Array:
        """Σ_j w_ij for each row of U, Σ_i w_ij for each row of V."""
        assert self.weight is not None
        degrees = np.bincount(self.rows, self.weight, self.n_points) + np.bincount(
            self.cols, self.weight, self.n_points
        )
        floored: Array = np.maximum(degrees, 1e-3 * degrees.mean())
        return floored

    def default_start(self, rank: int, nonnegative: bool, generator: np.random.Generator) -> Array:
        """Return the leading singular vectors of A filled with zeros, scaled to fit what is known; random if X ≥ 0."""
        if nonnegative:
            return self.random_start(rank, True, generator)

        def product(V: Array) -> Array:
            self._count()
            NV: Array = self._gradient_at_zero @ V  # ½[0, w∘A; (w∘A)ᵀ, 0]
            return NV

        X = balanced_factors(product, self.shape, rank, generator)
        noise = 0.1 * math.sqrt(float(np.square(X).mean())) * generator.standard_normal((self.n_points, rank))
        noise[:, : X.shape[1]] = X  # columns beyond min(m, n) are small, not zero: zero would stay zero
        return self.best_scale(noise) if X.any() else self.random_start(rank, False, generator)

    def random_start(self, rank: int, nonnegative: bool, generator: np.random.Generator) -> Array:
        """Return a random X of the scale of the known entries."""
        assert self.weight is not None
        size = math.sqrt(2 * self.value_at_zero / float(self.weight.sum()))
        return rectangular_random(self.n_points, rank, nonnegative, self.mean_entry(), size, generator)


def _bordered(values: Array, i: Any, j: Any, m: int, n: int) -> Any:
    """Return the symmetric matrix with these entries (i, m + j)."""
    rows, cols = np.concatenate([i, m + j]), np.concatenate([m + j, i])
    return sp.coo_array((np.concatenate([values, values]), (rows, cols)), shape=(m + n, m + n)).tocsr()


class RectangularMatrix:
    """An m × n matrix, dense or in CSR, known by its products.

    A sparse Aᵀ is kept by rows as well, since products with a transpose are slower.
    """

    def __init__(self, A: Any) -> None:
        self.A, self.shape = A, (int(A.shape[0]), int(A.shape[1]))
        self.transpose = A.T.tocsr() if sp.issparse(A) else A.T
        self.dtype = working_dtype(A.dtype)
        self.squared_norm = float(np.square(self.entries(), dtype=np.float64).sum())

    def entries(self) -> Array:
        """Return an array of the entries that are not zero."""
        entries: Array = self.A.data if sp.issparse(self.A) else self.A
        return entries

    def product(self, Z: Array) -> Array:
        """Return [AV; AᵀU] for Z = [U; V]."""
        m, out = self.shape[0], np.empty_like(Z)
        out[:m] = self.A @ Z[m:]
        out[m:] = self.transpose @ Z[:m]
        return out

    def mean(self) -> float:
        """Return the mean of all mn entries."""
        return float(self.entries().sum(dtype=np.float64)) / (self.shape[0] * self.shape[1])

    def scaled(self, power: int) -> RectangularMatrix:
        """Return 2^power · A."""
        if not sp.issparse(self.A):
            return RectangularMatrix(shifted(self.A, power))
        parts = shifted(self.A.data, power), self.A.indices, self.A.indptr
        return RectangularMatrix(sp.csr_array(parts, shape=self.shape))

    def checksum(self) -> float:
        """Return ⟨u, Av⟩ for fixed vectors."""
        z = np.concatenate([np.cos(np.arange(k, dtype=self.dtype)) + self.dtype(0.5) for k in self.shape])[:, None]
        m = self.shape[0]
        return float(np.vdot(z[:m], self.product(z)[:m]))


def check_rectangular(A: Any) -> Any:
    """Return A as a finite array or CSR matrix of floats, or raise an error that says what is wrong with it."""
    if isinstance(A, LinearOperator):
        raise TypeError("A must be an array or a sparse matrix, got a LinearOperator")
    if not sp.issparse(A):
        A = np.asarray(A)
    if A.dtype.kind not in "fiub":
        raise TypeError(f"A must be real numbers, got dtype {A.dtype}")
    if A.ndim != 2 or 0 in A.shape:
        raise ValueError(f"A must be a 2-D array with at least one row and one column, got shape {A.shape}")
    dtype, sparse = working_dtype(A.dtype), sp.issparse(A)
    A = sp.csr_array(A, dtype=dtype) if sparse else np.ascontiguousarray(A, dtype=dtype)
    if sparse and not A.has_canonical_format:
        A = A.copy()
        A.sum_duplicates()
    fault = first_not_finite(A)
    if fault is not None:
        i, j, value = fault
        cure = "" if sparse else "; if that means unknown, pass weights=np.isfinite(A)"
        raise ValueError(f"A must be finite, but A[{i}, {j}] is {value}{cure}")
    return A


def balanced_factors(
    bordered: Callable[[Array], Array],
    shape: tuple[int, int],
    rank: int,
    generator: np.random.Generator,
    n_rounds: int = 4,
    n_extra: int = 8,
) -> Array:
    """Return [U√σ; V√σ] of the leading singular triplets of A, at most ``rank`` columns, by subspace iteration.

    ``bordered`` multiplies by [0, A; Aᵀ, 0]. The columns are balanced: both halves of X have the Gram matrix diag(σ).
    """
    m, n = shape
    columns = min(rank + n_extra, m, n)
    V = np.zeros((m + n, columns))
    V[m:] = np.linalg.qr(generator.standard_normal((n, columns)))[0]
    for _ in range(n_rounds):
        U = np.zeros_like(V)
        U[:m] = np.linalg.qr(bordered(V)[:m])[0]
        V = np.zeros_like(V)
        V[m:], R = np.linalg.qr(bordered(U)[m:])
    left, sigma, right = np.linalg.svd(R.T)  # UᵀA = (VR)ᵀ = RᵀVᵀ
    kept = min(rank, columns)
    roots = np.sqrt(sigma[:kept])
    return np.vstack([U[:m] @ (left[:, :kept] * roots), V[m:] @ (right[:kept].T * roots)])


def split_factors(X: Array, shape: tuple[int, int]) -> tuple[Array, Array]:
    """Return the first m and the last n rows of X."""
    if len(X) != sum(shape):
        raise ValueError(f"X must have m + n = {shape[0]} + {shape[1]} rows, U's above V's, got shape {np.shape(X)}")
    return X[: shape[0]], X[shape[0] :]


def rectangular_random(
    n: int, rank: int, nonnegative: bool, mean: float, size: float, generator: np.random.Generator
) -> Array:
    """Return a random start for data with this mean and root mean square, U and V of the same scale."""
    if nonnegative:
        top = math.sqrt(max(abs(mean), 1e-10 * size) / rank)
        return top * np.abs(generator.standard_normal((n, rank)))
    return generator.standard_normal((n, rank)) * math.sqrt(size / math.sqrt(rank))


def in_two(X: Array, m: int, above: Array, below: Array) -> Array:
    """Return an array like X with these rows above and below, no entry far less than the mean."""
    D = np.empty_like(X)
    D[:m], D[m:] = above, below
    return np.maximum(D, 1e-3 * float(D.mean()), out=D)
