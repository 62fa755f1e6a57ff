"""Any quadratic F: ½⟨𝒜Y, Y⟩ + ⟨B, Y⟩."""

from __future__ import annotations

import copy
import math
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from quartic.arrays import Array, as_floats, check_number, inner, norm
from quartic.core.units import Units, exponent, shifted
from quartic.losses.base import Loss
from quartic.losses.factor.matrix import DenseMatrix, Matrix, OperatorMatrix, SparseMatrix
from quartic.losses.factor.spectrum import negative_part_of_spectrum
from quartic.losses.line import Line
from quartic.losses.move import Move
from quartic.losses.other.quadratic_maps import QuadraticMap, Scaled, as_map
from quartic.losses.point import Point

# 𝒜(XXᵀ)X is carried along for so many moves, then made anew.
_LONGEST_CHAIN = 20


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
    def weighs_few(self) -> bool:
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
        twin, power = copy.copy(self), units.value - self.degree * units.length
        twin.map = Scaled(self.map, power) if power else self.map
        twin.linear = self.linear.scaled(power + 2 * units.length)
        twin.infimum = twin._least_value()
        known = self._constants.get("smoothness")
        twin._constants = {} if known is None else {"smoothness": shifted(known, power)}
        return twin

    # -- constants --------------------------------------------------------------------------------------------------

    @property
    def smoothness(self) -> float:
        """L_F = λ_max(𝒜)."""
        if "smoothness" not in self._constants:
            largest = self.map.largest()
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
            bound = negative_part_of_spectrum(_Negative(self.linear), self._count)
            self._constants["curvature"] = min(bound, self.gradient_norm_at_zero)
        return self._constants["curvature"]

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


class _Negative(Matrix):
    """−B."""

    def __init__(self, B: Matrix) -> None:
        self.B, self.n, self.dtype, self.squared_norm = B, B.n, B.dtype, B.squared_norm

    def product(self, X: Array, out: Array | None = None) -> Array:
        """Return −BX."""
        return -self.B.product(X, out)

    def total(self) -> tuple[float, int]:
        """Return −ΣB."""
        total, products = self.B.total()
        return -total, products

    def dense(self) -> Array | None:
        """Return −B, where B is at hand."""
        B = self.B.dense()
        return None if B is None else -B


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
