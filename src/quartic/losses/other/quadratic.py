"""Any quadratic F: ½⟨𝒜Y, Y⟩ + ⟨B, Y⟩, with the maps 𝒜 there are, used through the factors of XXᵀ."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from quartic.arrays import Array, as_floats, check_number, finite_matrix, gram, inner, norm, working_dtype
from quartic.core.units import Units, exponent, shifted
from quartic.losses.base import Loss
from quartic.losses.factor.matrix import DenseMatrix, Matrix, OperatorMatrix, SparseMatrix
from quartic.losses.factor.spectrum import upper_bound_of_spectrum
from quartic.losses.line import Line
from quartic.losses.move import Move
from quartic.losses.point import Point

# 𝒜(XXᵀ)X is carried along for so many moves, then made anew.
_LONGEST_CHAIN = 20
#: N₁, N₂, N₃ of 𝒜((X + tD)(X + tD)ᵀ)(X + tD) = 𝒜(XXᵀ)X + tN₁ + t²N₂ + t³N₃
Expansion = tuple[Array, Array, Array]

# Up to so many coordinates of symmetric matrices ‖𝒜‖ comes from all eigenvalues.
_DENSE = 20
# Matrices of 𝒜 up to this many rows have all their eigenvalues worked out.
_SMALL = 1500


class Quadratic(Loss):
    r"""Quadratic :math:`f(X) = \frac12\langle\mathcal A(XX^T), XX^T\rangle + \langle B, XX^T\rangle` (section 2.3).

    Semidefinite programmes with a linear objective come in this form when their constraints are penalised: for MaxCut
    ½ρ Σ(Y_ii − 1)² − ¼⟨L, Y⟩ is ``Quadratic(rho * I, -L / 4 - rho * I)`` but for the constant ½ρn.

    Parameters
    ----------
    A : None, array or sparse (n, n), array or sparse (n², n²), or callable
        𝒜, self-adjoint and positive semidefinite: None is the identity; (n, n) weighs the entries, 𝒜Y = A ∘ Y, with
        A ≥ 0, and O(stored entries · r) a pass where it is sparse; (n², n²) maps the entries of Y, row after row; a
        function ``A(X, Z)`` returns 𝒜(XXᵀ)Z for X and Z of any number of columns.
    B : array, sparse or LinearOperator (n, n)
        Symmetric.
    squared_norm : float, optional
        ‖B‖²; needed for a LinearOperator, worked out otherwise.
    smoothness : float, optional
        L_F, if you know it.

    Notes
    -----
    Constants. ∇F(Y) = 𝒜Y + B. The Hessian is 𝒜, so L_F = λ_max(𝒜): 1 for the identity and max A for weights, both
    exact, with μ_F = 1 and min A (0 where an entry is not stored); otherwise bounded by Lanczos' method, but for a
    probability of 1e-6, with μ_F = 0. ∇F(0) = B, so the other constants are ‖B‖ and max(0, λ_max(B)), the latter exact
    for small B, else bounded in the same way, never more than ‖B‖.

    f on X + tD. With P = XDᵀ + DXᵀ the product 𝒜((X + tD)(X + tD)ᵀ)(X + tD) is the cubic 𝒜(XXᵀ)X + tN₁ + t²N₂ + t³N₃
    with N₁ = 𝒜(XXᵀ)D + 𝒜(P)X, N₂ = 𝒜(P)D + 𝒜(DDᵀ)X, N₃ = 𝒜(DDᵀ)D. Twice that plus 2B(X + tD) is the gradient, and its
    product with D the derivative in t: c₁ = ⟨∇f(X), D⟩, c₂ = ⟨N₁ + BD, D⟩, c₃ = ⅔⟨N₂, D⟩, c₄ = ½⟨N₃, D⟩.

    Examples
    --------
    The largest cut of a triangle has two edges; its relaxation has the value 9/4.

    >>> import numpy as np
    >>> from quartic import Problem, minimize
    >>> from quartic.losses import Quadratic
    >>> L = 3 * np.eye(3) - np.ones((3, 3))                      # the triangle's Laplacian
    >>> loss = Quadratic(1e4 * np.eye(3), -L / 4 - 1e4 * np.eye(3))
    >>> X = minimize(Problem(loss), rank=2, tol=1e-8, random_state=0).X
    >>> X /= np.linalg.norm(X, axis=1, keepdims=True)
    >>> round(float(np.sum(L / 4 * (X @ X.T))), 6)
    2.25
    """

    quadratic = True

    def __init__(self, A: Any, B: Any, *, squared_norm: float | None = None, smoothness: float | None = None) -> None:
        super().__init__()
        self.linear: Matrix = _linear_part(B, squared_norm)
        self.n_points = self.linear.n
        self.map: QuadraticMap = as_map(A, self.n_points)
        if smoothness is not None:
            check_number(smoothness, "smoothness")
            self._constants["smoothness"] = float(smoothness)
        self.infimum = self._least_value()

    def _least_value(self) -> float:
        """Return −½n‖B‖²/μ if 𝒜 weighs the diagonal by μ: F(Y) ≥ ½μΣY_ii² − ‖B‖ΣY_ii for Y ⪰ 0; else −∞."""
        weight = self.map.least_on_diagonal()
        return -0.5 * self.n_points * self.linear.squared_norm / weight if weight > 0 else -math.inf

    @property
    def stiff(self) -> bool:
        """Whether 𝒜 weighs hardly more entries of Y than there are rows: penalised constraints."""
        return self.map.weighs_few

    # -- the point --------------------------------------------------------------------------------------------------

    def at(self, X: Array) -> QuadraticPoint:
        """Return the point at X: one product."""
        X = as_floats(X)
        self._count()
        return QuadraticPoint(self, X, self.map.product(X), self.linear.product(X))

    def restore(self, arrays: dict[str, Array]) -> QuadraticPoint:
        """Return the point kept in a checkpoint."""
        return QuadraticPoint(self, arrays["X"], arrays["NX"], arrays["BX"], int(arrays["age"]))

    def move(self, p: Point, X: Array) -> Move:
        """Return the step from p to X, its remainder from D = X − p."""
        assert isinstance(p, QuadraticPoint)
        X = as_floats(X)
        D = X - p.X
        N1, N2, N3, BD, (_, c2, c3, c4) = self._expand(p, D)
        if p.age >= _LONGEST_CHAIN:
            new = self.at(X)
        else:
            new = QuadraticPoint(self, X, p.NX + N1 + N2 + N3, p.BX + BD, p.age + 1)
        return Move(p, new, c2 + c3 + c4, D)

    def along(self, p: Point, D: Array) -> Line:
        """Return the exact quartic of f on p + tD, and its gradient there."""
        assert isinstance(p, QuadraticPoint)
        D = as_floats(D)
        N1, N2, N3, BD, coefficients = self._expand(p, D)

        def move(t: float) -> QuadraticPoint:
            return QuadraticPoint(self, p.X + t * D, p.NX + t * (N1 + t * (N2 + t * N3)), p.BX + t * BD)

        return Line(p, coefficients, move)

    def _expand(
        self, p: QuadraticPoint, D: Array
    ) -> tuple[Array, Array, Array, Array, tuple[float, float, float, float]]:
        self._count(self.map.expansion_cost)
        N1, N2, N3 = self.map.expand(p.X, D)
        BD = self.linear.product(D)
        c = (inner(p.gradient, D), inner(N1, D) + inner(BD, D), inner(N2, D) / 1.5, 0.5 * inner(N3, D))
        return N1, N2, N3, BD, c

    def hessian_product(self, p: Point, D: Array) -> Array:
        """Return ∇²f(X)[D] = 2(N₁ + BD)."""
        assert isinstance(p, QuadraticPoint)
        D = as_floats(D)
        N1, _, _, BD, _ = self._expand(p, D)
        return 2 * (N1 + BD)

    # -- scale ------------------------------------------------------------------------------------------------------

    def exponents(self) -> tuple[int | None, int | None]:
        """Return log₂ of the root of the size of B over that of 𝒜, and log₂ of the latter: one product."""
        self._count()
        probe = np.cos(np.arange(self.n_points, dtype=np.float64))[:, None]
        here, weight = self.linear.exponent(), exponent(self.map.product(probe))
        return (None if here is None or weight is None else (here - weight) // 2), weight

    def in_units(self, units: Units) -> Self:
        """Return the loss with 𝒜 and 4^length · B, both scaled by what value has besides 4·length."""
        power = units.value - self.degree * units.length
        twin = self._with(
            map=ScaledMap(self.map, power) if power else self.map, linear=self.linear.scaled(power + 2 * units.length)
        )
        twin.infimum = twin._least_value()
        if "smoothness" in self._constants:
            twin._constants["smoothness"] = shifted(self._constants["smoothness"], power)
        return twin

    # -- constants --------------------------------------------------------------------------------------------------

    @property
    def smoothness(self) -> float:
        """L_F = λ_max(𝒜)."""
        if "smoothness" not in self._constants:
            largest = self.map.largest(self._count)
            if not largest > 0:
                raise ValueError("A is zero: ⟨B, XXᵀ⟩ alone is unbounded below or least at X = 0")
            self._constants["smoothness"] = largest
        return self._constants["smoothness"]

    @property
    def strong_convexity(self) -> float:
        """μ_F = λ_min(𝒜), where it is known."""
        return self.map.least()

    @property
    def gradient_norm_at_zero(self) -> float:
        """‖B‖."""
        return math.sqrt(self.linear.squared_norm)

    @property
    def curvature_at_zero(self) -> float:
        """max(0, λ_max(B))."""
        if "curvature" not in self._constants:
            bound = upper_bound_of_spectrum(self._linear_product, self.n_points, float(np.finfo(self.linear.dtype).eps))
            self._constants["curvature"] = min(bound, self.gradient_norm_at_zero)
        return self._constants["curvature"]

    def _linear_product(self, V: Array) -> Array:
        self._count()
        return self.linear.product(V.astype(self.linear.dtype)).astype(np.float64)

    # -- bookkeeping ------------------------------------------------------------------------------------------------

    @property
    def dtype(self) -> type[np.floating[Any]]:
        """float32 where B is, and A is or has no entries."""
        single = self.linear.dtype == np.float32 and (self.map.dtype == np.float32 or not hasattr(self.map, "A"))
        return np.float32 if single else np.float64

    def random_start(self, rank: int, nonnegative: bool, generator: np.random.Generator) -> Array:
        """Return a Gaussian X, scaled so that f(tX) is least: one product."""
        X = generator.standard_normal((self.n_points, rank))
        X = np.abs(X) if nonnegative else X
        p = self.at(X)
        quartic, square = inner(p.NX, X), inner(p.BX, X)
        # f(tX) = ½t⁴⟨𝒜(XXᵀ)X, X⟩ + t²⟨BX, X⟩; where B is positive on X, any scale of the data's own will do
        t = -square / quartic if square < 0 < quartic else self.gradient_norm_at_zero / self.smoothness / norm(X) ** 2
        return X * math.sqrt(t)

    def fingerprint(self) -> str:
        """Return kind, size, norm and checksum of B, and a product with A."""
        probe = np.cos(np.arange(self.n_points, dtype=np.float64))[:, None]
        sums = f"B={self.linear.squared_norm!r},{self.linear.checksum():.6e}"
        return f"Quadratic n={self.n_points} {sums} A={inner(self.map.product(probe), probe):.10e}"


def _linear_part(B: Any, squared_norm: float | None) -> Matrix:
    if isinstance(B, LinearOperator):
        return OperatorMatrix(B, squared_norm)
    return SparseMatrix(B, "B") if sp.issparse(B) else DenseMatrix(B, "B")


class QuadraticPoint(Point):
    """A point of `Quadratic`: X, 𝒜(XXᵀ)X and BX."""

    def __init__(self, loss: Quadratic, X: Array, NX: Array, BX: Array, age: int = 0) -> None:
        self.loss, self.X, self.NX, self.BX = loss, X, NX, BX
        self.age = age  # for how many moves the products were carried along

    @property
    def value(self) -> float:
        """½⟨𝒜(XXᵀ)X, X⟩ + ⟨BX, X⟩."""
        return 0.5 * inner(self.NX, self.X) + inner(self.BX, self.X)

    @property
    def gradient(self) -> Array:
        """2(𝒜(XXᵀ)X + BX)."""
        G: Array = 2 * (self.NX + self.BX)
        return G

    @property
    def rounding(self) -> float:
        """eps·(‖𝒜(XXᵀ)X‖ + ‖BX‖), twice."""
        return 2 * float(np.finfo(self.X.dtype).eps) * (norm(self.NX) + norm(self.BX))

    def arrays(self) -> dict[str, Array]:
        """X, both products and their age."""
        return {"X": self.X, "NX": self.NX, "BX": self.BX, "age": np.asarray(self.age)}


class QuadraticMap(ABC):
    """𝒜, with 0 ≤ μ_F ≤ 𝒜 ≤ L_F on symmetric matrices."""

    #: how many applications of 𝒜 a call of ``expand`` makes
    expansion_cost = 1
    dtype: type[np.floating[Any]] = np.float64
    #: whether hardly more entries of Y are weighed than it has rows
    weighs_few: bool = False

    @abstractmethod
    def product(self, X: Array) -> Array:
        """Return 𝒜(XXᵀ)X."""

    @abstractmethod
    def expand(self, X: Array, D: Array) -> Expansion:
        """Return N₁ = 𝒜(XXᵀ)D + 𝒜(P)X, N₂ = 𝒜(P)D + 𝒜(DDᵀ)X and N₃ = 𝒜(DDᵀ)D, with P = XDᵀ + DXᵀ."""

    @abstractmethod
    def largest(self, count: Callable[[int], None]) -> float:
        """Return L_F, or a bound of it; ``count`` is told of products it takes."""

    def least(self) -> float:
        """Return μ_F, or 0."""
        return 0.0

    def least_on_diagonal(self) -> float:
        """Return a μ ≥ 0 with ⟨𝒜Y, Y⟩ ≥ μ Σ Y_ii²."""
        return self.least()


class ScaledMap(QuadraticMap):
    """2^power · 𝒜."""

    def __init__(self, whole: QuadraticMap, power: int) -> None:
        self.whole, self.power, self.dtype = whole, power, whole.dtype
        self.expansion_cost, self.weighs_few = whole.expansion_cost, whole.weighs_few

    def product(self, X: Array) -> Array:
        """Return 2^power · 𝒜(XXᵀ)X."""
        return shifted(self.whole.product(X), self.power)

    def expand(self, X: Array, D: Array) -> Expansion:
        """Return the three matrices of 𝒜, scaled."""
        N1, N2, N3 = self.whole.expand(X, D)
        return shifted(N1, self.power), shifted(N2, self.power), shifted(N3, self.power)

    def largest(self, count: Callable[[int], None]) -> float:
        """Return that of 𝒜, scaled."""
        return shifted(self.whole.largest(count), self.power)

    def least(self) -> float:
        """Return that of 𝒜, scaled."""
        return shifted(self.whole.least(), self.power)

    def least_on_diagonal(self) -> float:
        """Return that of 𝒜, scaled."""
        return shifted(self.whole.least_on_diagonal(), self.power)


class Identity(QuadraticMap):
    """𝒜Y = Y, through r × r Gram matrices."""

    def product(self, X: Array) -> Array:
        """Return X XᵀX."""
        XS: Array = X @ gram(X).astype(X.dtype)
        return XS

    def expand(self, X: Array, D: Array) -> Expansion:
        """Return the three matrices, from S = XᵀX, T = XᵀD, C = DᵀD."""
        S, T, C = (M.astype(X.dtype) for M in (gram(X), gram(X, D), gram(D)))
        return D @ S + X @ (T + T.T), X @ C + D @ (T + T.T), D @ C

    def largest(self, count: Callable[[int], None]) -> float:
        """Return 1."""
        return 1.0

    def least(self) -> float:
        """Return 1."""
        return 1.0


class MatrixMap(QuadraticMap):
    """An 𝒜 whose images of symmetric matrices can be formed, dense or sparse."""

    @abstractmethod
    def images(self, X: Array, D: Array) -> tuple[Any, Any, Any]:
        """Return 𝒜(XXᵀ), 𝒜(P) and 𝒜(DDᵀ)."""

    def expand(self, X: Array, D: Array) -> Expansion:
        """Return the three matrices."""
        Y, P, S = self.images(X, D)
        return Y @ D + P @ X, P @ D + S @ X, S @ D


class DenseWeights(MatrixMap):
    """𝒜Y = A ∘ Y, entrywise, for a nonnegative symmetric array A."""

    def __init__(self, A: Array) -> None:
        self.A, self.dtype = A, working_dtype(A.dtype)

    def product(self, X: Array) -> Array:
        """Return (A ∘ XXᵀ)X."""
        N: Array = (self.A * (X @ X.T)) @ X
        return N

    def images(self, X: Array, D: Array) -> tuple[Any, Any, Any]:
        """Return the entries, weighed."""
        XD = X @ D.T
        return self.A * (X @ X.T), self.A * (XD + XD.T), self.A * (D @ D.T)

    def largest(self, count: Callable[[int], None]) -> float:
        """Return max A."""
        return float(self.A.max())

    def least(self) -> float:
        """Return min A."""
        return float(self.A.min())

    def least_on_diagonal(self) -> float:
        """Return the least A_ii."""
        return float(self.A.diagonal().min())


class SparseWeights(MatrixMap):
    """𝒜Y = A ∘ Y for a sparse nonnegative A: only the entries of Y on its pattern are ever made."""

    def __init__(self, A: Any) -> None:
        self.A, self.dtype = A, working_dtype(A.dtype)
        self.rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
        self.weighs_few = A.nnz <= 2 * A.shape[0]

    def _on_pattern(self, entries: Array) -> Any:
        return sp.csr_array((self.A.data * entries, self.A.indices, self.A.indptr), shape=self.A.shape)

    def product(self, X: Array) -> Array:
        """Return (A ∘ XXᵀ)X."""
        N: Array = self._on_pattern(np.einsum("pk,pk->p", X[self.rows], X[self.A.indices])) @ X
        return N

    def images(self, X: Array, D: Array) -> tuple[Any, Any, Any]:
        """Return the entries on the pattern, weighed."""
        Xi, Xj, Di, Dj = X[self.rows], X[self.A.indices], D[self.rows], D[self.A.indices]
        p = np.einsum("pk,pk->p", Xi, Dj) + np.einsum("pk,pk->p", Di, Xj)
        y, s = np.einsum("pk,pk->p", Xi, Xj), np.einsum("pk,pk->p", Di, Dj)
        return self._on_pattern(y), self._on_pattern(p), self._on_pattern(s)

    def largest(self, count: Callable[[int], None]) -> float:
        """Return max A."""
        return float(self.A.data.max(initial=0.0))

    def least(self) -> float:
        """Return min A, 0 where the pattern has a gap."""
        return float(self.A.data.min()) if self.A.nnz == self.A.shape[0] ** 2 else 0.0

    def least_on_diagonal(self) -> float:
        """Return the least A_ii."""
        return float(self.A.diagonal().min())


class OnProducts(QuadraticMap):
    """𝒜 known by ``apply(X, Z)`` = 𝒜(XXᵀ)Z alone."""

    expansion_cost = 4

    def __init__(self, apply: Callable[[Array, Array], Any], n: int) -> None:
        self.apply, self.n = apply, n

    def _apply(self, X: Array, Z: Array) -> Array:
        N: Array = np.asarray(self.apply(X, Z), dtype=Z.dtype)
        if N.shape != Z.shape:
            raise ValueError(f"A(X, Z) must return 𝒜(XXᵀ)Z, of Z's shape {Z.shape}, got {N.shape}")
        return N

    def product(self, X: Array) -> Array:
        """Return 𝒜(XXᵀ)X."""
        return self._apply(X, X)

    def expand(self, X: Array, D: Array) -> Expansion:
        """Return the three matrices; 𝒜(P) from X ± sD, s such that both are equally long and no digit is lost."""
        size, length = norm(X), norm(D)
        s = size / length if size > 0 and length > 0 else 1.0
        both = np.hstack([X, D])
        r = X.shape[1]
        P = (self._apply(X + s * D, both) - self._apply(X - s * D, both)) / (2 * s)
        YD, S = self._apply(X, D), self._apply(D, both)
        return YD + P[:, :r], P[:, r:] + S[:, :r], S[:, r:]

    def largest(self, count: Callable[[int], None]) -> float:
        """Return a bound of ‖𝒜‖ by Lanczos iterations; each costs like two products with n columns."""
        return _largest_of(self._on_symmetric, self.n, count)

    def _on_symmetric(self, Y: Array) -> Array:
        values, vectors = np.linalg.eigh(Y)
        factors, eye = vectors * np.sqrt(np.abs(values)), np.eye(self.n)
        total = np.zeros((self.n, self.n))
        for sign, part in ((1, factors[:, values > 0]), (-1, factors[:, values < 0])):
            if part.size:
                total += sign * self._apply(np.ascontiguousarray(part), eye)
        return total


class OnEntries(MatrixMap):
    """𝒜 as an (n², n²) matrix, dense or sparse, that maps Y, row after row, to 𝒜Y."""

    def __init__(self, A: Any, n: int) -> None:
        self.A, self.n, self.dtype = A, n, working_dtype(A.dtype)

    def _map(self, Y: Array) -> Array:
        N = np.asarray(self.A @ Y.reshape(self.n**2)).reshape(self.n, self.n)
        M: Array = (N + N.T) / 2
        return M

    def product(self, X: Array) -> Array:
        """Return 𝒜(XXᵀ)X."""
        return self._map(X @ X.T) @ X

    def images(self, X: Array, D: Array) -> tuple[Any, Any, Any]:
        """Return the images."""
        XD = X @ D.T
        return self._map(X @ X.T), self._map(XD + XD.T), self._map(D @ D.T)

    def largest(self, count: Callable[[int], None]) -> float:
        """Return a bound of ‖𝒜‖ by Lanczos' method."""
        return _largest_of(self._map, self.n, count)


def _largest_of(on_symmetric: Callable[[Array], Array], n: int, count: Callable[[int], None]) -> float:
    """Return a bound of λ_max, on the n(n + 1)/2 coordinates of symmetric matrices in which ‖Y‖ is their norm."""
    i, j = np.triu_indices(n)
    weight = np.where(i == j, 1.0, math.sqrt(2.0))

    def product(V: Array) -> Array:
        out = np.empty_like(V)
        for k, y in enumerate(V.T):
            count(1)
            Y = np.zeros((n, n))
            Y[i, j] = Y[j, i] = y / weight
            out[:, k] = on_symmetric(Y)[i, j] * weight
        return out

    return upper_bound_of_spectrum(product, len(i), float(np.finfo(np.float64).eps), _DENSE)


def as_map(A: Any, n: int) -> QuadraticMap:
    """Return the map that A describes (see `quartic.losses.Quadratic`), or raise an error that says what is wrong."""
    if A is None:
        return Identity()
    if callable(A) and not isinstance(A, LinearOperator):
        return OnProducts(A, n)
    if isinstance(A, LinearOperator):
        raise TypeError(
            "A must be an array, a sparse matrix, None or a function A(X, Z) = 𝒜(XXᵀ)Z, got a LinearOperator"
        )
    if not sp.issparse(A):
        A = finite_matrix(A, "A")
    if A.shape == (n, n):
        return _weights(A)
    if A.shape == (n * n, n * n):
        return _on_entries(A, n)
    raise ValueError(
        f"A must have the shape of B, ({n}, {n}), for weights of the entries of XXᵀ, or ({n * n}, {n * n}) for a map "
        f"of all of them, got {A.shape}"
    )


def _weights(A: Any) -> QuadraticMap:
    clean = SparseMatrix(sp.csr_array(A), "A").M
    if clean.data.min(initial=0.0) < 0:
        k = int(clean.data.argmin())
        row = int(np.searchsorted(clean.indptr, k, side="right")) - 1
        raise ValueError(
            f"A[{row}, {clean.indices[k]}] = {clean.data[k]} is negative: F would not be convex, nor bounded below"
        )
    return SparseWeights(clean) if sp.issparse(A) else DenseWeights(A)


def _on_entries(A: Any, n: int) -> QuadraticMap:
    gap = abs(A - A.T)
    if gap.max() > 1e-8 * abs(A).max():
        raise ValueError(f"A must be self-adjoint, but A − Aᵀ has an entry of size {gap.max():.1e}; pass (A + A.T) / 2")
    if n * n <= _SMALL:
        values = np.linalg.eigvalsh(A.toarray() if sp.issparse(A) else A)
        if values[0] < -1e-8 * max(abs(values[-1]), abs(values[0])):
            raise ValueError(
                f"A must be positive semidefinite for F to be convex, but has the eigenvalue {values[0]:.3e}"
            )
    return OnEntries(sp.csr_array(A) if sp.issparse(A) else A, n)
