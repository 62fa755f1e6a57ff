"""Any quadratic F: ½⟨𝒜Y, Y⟩ + ⟨B, Y⟩, with the maps 𝒜 there are, used through the factors of XXᵀ."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from quartic.arrays import (
    HOST,
    Array,
    Space,
    as_floats,
    astype,
    bare,
    eps,
    first_entry,
    float_type,
    gram,
    inner,
    namespace,
    norm,
    times,
    to_host,
    trace_inner,
)
from quartic.core.units import Units, exponent, shifted
from quartic.losses.base import Loss, Point, constant
from quartic.losses.factor.matrix import Matrix, as_matrix
from quartic.losses.factor.spectrum import called_from_host, signed_factors, upper_bound_of_spectrum
from quartic.losses.steps import Line, Move

# 𝒜(XXᵀ)X and BX are carried along for so many moves, then made anew.
_LONGEST_CHAIN = 20
# Up to so many coordinates of symmetric matrices ‖𝒜‖ comes from all eigenvalues.
_DENSE = 20


class Quadratic(Loss):
    r"""Quadratic :math:`f(X) = \frac12\langle\mathcal A(XX^T), XX^T\rangle + \langle B, XX^T\rangle` (section 2.3).

    Semidefinite programmes with a linear objective come in this form when their constraints are penalised: for MaxCut
    ½ρ Σ(Y_ii − 1)² − ¼⟨L, Y⟩ is ``Quadratic(rho * I, -L / 4 - rho * I)`` but for the constant ½ρn.

    Parameters
    ----------
    A : None, array or sparse (n, n), or callable
        𝒜, self-adjoint and positive semidefinite: None is the identity; (n, n) weighs the entries, 𝒜Y = A ∘ Y, with
        A ≥ 0, and O(stored entries · r) a pass where it is sparse; a function ``A(X, Z)`` returns 𝒜(XXᵀ)Z for X and Z
        of any number of columns.
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
        super().__init__(smoothness)
        linear = as_matrix(B, squared_norm, "B")
        self._take(as_map(A, linear.n, linear.space), linear)

    def _take(self, map: QuadraticMap, linear: Matrix) -> None:
        self.map, self.linear, self.n_points, self.space = map, linear, linear.n, linear.space
        self.dtype = np.float64 if np.float64 in (linear.dtype, map.dtype) else np.float32
        self.infimum, self.stiff = self._least_value(), map.weighs_few

    def _least_value(self) -> float:
        """Return −½n‖B‖²/μ if 𝒜 weighs the diagonal by μ: F(Y) ≥ ½μΣY_ii² − ‖B‖ΣY_ii for Y ⪰ 0; else −∞."""
        weight = self.map.least_on_diagonal()
        return -0.5 * self.n_points * self.linear.squared_norm / weight if weight > 0 else -math.inf

    @property
    def value_at_zero(self) -> float:
        """F(0)."""
        return 0.0

    # -- the point --------------------------------------------------------------------------------------------------

    def product(self, X: Array) -> Array:
        """Return BX, counted."""
        self.count_products()
        return self.linear.product(X)

    def at(self, X: Array) -> QuadraticPoint:
        X = as_floats(X)
        return QuadraticPoint(self, X, self.product(X))

    def restore(self, arrays: dict[str, Array]) -> QuadraticPoint:
        X, BX, NX = (self.space.adopt(arrays[name]) for name in ("X", "BX", "NX"))
        return QuadraticPoint(self, X, BX, NX, int(arrays["age"]))

    def extrapolate(self, p: Any, q: Any, t: float, gram: Array | None = None) -> Point:
        """Return the point p + t(p − q); where 𝒜 costs no product, BX being linear, it costs none."""
        if not self.map.free:
            return super().extrapolate(p, q, t)
        X = p.X + t * (p.X - q.X)
        return QuadraticPoint(self, X, p.BX + t * (p.BX - q.BX), age=max(p.age, q.age))

    def move(self, p: Any, X: Array) -> Move:
        """Return the step from p to X, its remainder from D = X − p."""
        X = as_floats(X)
        D = X - p.X
        self.count_products(self.map.cost)
        line = self.map.line(p, D)
        if p.age < _LONGEST_CHAIN:
            BD = self.linear.product(D)
            new = QuadraticPoint(self, X, p.BX + BD, line.product(1.0), p.age + 1)
        else:
            self.count_products(not self.map.free)
            new = QuadraticPoint(self, X, self.linear.product(X))
            BD = new.BX - p.BX
        return Move(p, new, line.c2 + inner(BD, D) + line.c3 + line.c4, D, line.cross, line.curvature)

    def along(self, p: Any, D: Array) -> Line:
        D = as_floats(D)
        self.count_products(self.map.cost)
        line, BD = self.map.line(p, D), self.linear.product(D)

        def move(t: float) -> QuadraticPoint:
            return QuadraticPoint(self, p.X + t * D, p.BX + t * BD, line.product(t))

        return Line(p, (inner(p.gradient, D), line.c2 + inner(BD, D), line.c3, line.c4), move)

    def hessian_product(self, p: Any, D: Array) -> Array:
        """Return ∇²f(X)[D] = 2(N₁ + BD)."""
        D = as_floats(D)
        self.count_products(self.map.cost)
        N1 = self.map.times(self.map.image(p.X), D) + self.map.times(self.map.mixed(p.X, D), p.X)
        return 2 * (N1 + self.linear.product(D))

    def gradient_operator(self, p: Point) -> Callable[[Array], Array]:
        """Return the map V ↦ 𝒜(XXᵀ)V + BV: one product each time."""
        N = self.map.image(p.X)
        return lambda V: self.map.times(N, as_floats(V)) + self.product(as_floats(V))

    # -- scale ------------------------------------------------------------------------------------------------------

    def exponents(self) -> tuple[int | None, int | None]:
        """Return log₂ of the root of the size of B over that of 𝒜, and log₂ of the latter: a product with 𝒜."""
        self.count_products(not self.map.free)
        here, weight = self.linear.exponent(), self.map.exponent(self._probe())
        return (None if here is None or weight is None else (here - weight) // 2), weight

    def in_units(self, units: Units) -> Self:
        """Return the loss with 𝒜 and 4^length · B, both scaled by what value has besides 4·length."""
        power = units.value - self.degree * units.length
        twin = self._with(power)
        twin._take(self.map.scaled(power), self.linear.scaled(power + 2 * units.length))
        return twin

    # -- constants --------------------------------------------------------------------------------------------------

    @constant
    def smoothness(self) -> float:
        largest = self.map.largest(self.count_products)
        if not largest > 0:
            raise ValueError("A is zero: ⟨B, XXᵀ⟩ alone is unbounded below or least at X = 0")
        return largest

    @property
    def strong_convexity(self) -> float:
        return self.map.least()

    @property
    def gradient_norm_at_zero(self) -> float:
        return math.sqrt(self.linear.squared_norm)

    @constant
    def curvature_at_zero(self) -> float:
        product = called_from_host(self.product, self.space, self.linear.dtype)
        bound = upper_bound_of_spectrum(product, self.n_points, float(np.finfo(self.linear.dtype).eps))
        return min(bound, self.gradient_norm_at_zero)

    # -- bookkeeping ------------------------------------------------------------------------------------------------

    def best_scale(self, X: Array) -> Array:
        """Return the tX with the least f(tX): one product."""
        p = self.at(X)
        quartic, square = self.space.read(inner(p.NX, X), inner(p.BX, X))
        # f(tX) = ½t⁴⟨𝒜(XXᵀ)X, X⟩ + t²⟨BX, X⟩; where B is positive on X, any scale of the data's own will do
        t = -square / quartic if square < 0 < quartic else self.gradient_norm_at_zero / self.smoothness / norm(X) ** 2
        return X * math.sqrt(t)

    def _probe(self) -> Array:
        return self.space.adopt(np.cos(np.arange(self.n_points, dtype=np.float64))[:, None])

    def fingerprint(self) -> str:
        probe = self._probe()
        sums = f"B={self.linear.squared_norm!r},{self.linear.checksum():.6e}"
        return f"{type(self).__name__} n={self.n_points} {sums} A={float(inner(self.map.product(probe), probe)):.10e}"


class QuadraticPoint(Point):
    """A point of `Quadratic`: X, BX and 𝒜(XXᵀ)X, which is made where it was not carried along."""

    def __init__(self, loss: Quadratic, X: Array, BX: Array, NX: Array | None = None, age: int = 0) -> None:
        self.loss, self.X, self.BX = loss, X, BX
        self.grams = loss.map.grams(X)
        self.NX = loss.map.product(X, self.grams) if NX is None else NX
        self.age = age  # for how many moves the products were carried along

    @cached_property
    def gram(self) -> Array:
        if not self.grams or self.space is not HOST:
            return super().gram
        return sum(self.grams[1:], start=self.grams[0])

    @cached_property
    def value(self) -> float:
        """F(0) + ½⟨𝒜(XXᵀ)X, X⟩ + ⟨BX, X⟩, which round-off may have put below what F falls to."""
        constant, least = self.loss.value_at_zero, self.loss.infimum
        return self.space.later(
            lambda a, b: max(constant + 0.5 * a + b, least), inner(self.NX, self.X), inner(self.BX, self.X)
        )

    @cached_property
    def gradient(self) -> Array:
        G: Array = self.NX + self.BX
        G *= 2
        return G

    @cached_property
    def rounding(self) -> float:
        """eps·(‖𝒜(XXᵀ)X‖ + ‖BX‖), twice."""
        return 2 * eps(self.X) * (norm(self.NX) + norm(self.BX))

    def arrays(self) -> dict[str, Array]:
        return {"X": self.X, "NX": self.NX, "BX": self.BX, "age": np.asarray(self.age)}


@dataclass
class MapLine:
    """What 𝒜 adds to c₂, c₃ and c₄ of f on X + tD, with XᵀD and DᵀD where they were made for it.

    ``product(t)`` returns 𝒜(XXᵀ)X at the point X + tD, or None where it is best made there.
    """

    c2: float
    c3: float
    c4: float
    product: Callable[[float], Array | None]
    cross: Array | None = None
    curvature: Array | None = None


class QuadraticMap(ABC):
    """𝒜, with 0 ≤ μ_F ≤ 𝒜 ≤ L_F on symmetric matrices, and its images in whatever form ``times`` takes."""

    #: how many products with the data a line costs
    cost = 1
    #: whether a point costs no product with the data of 𝒜: it has none
    free = False
    #: the type of its entries, None where it has none
    dtype: type[np.floating[Any]] | None = None
    #: whether hardly more entries of Y are weighed than it has rows: penalised constraints
    weighs_few: bool = False
    #: log₂ of what 𝒜 is multiplied by
    power: int = 0

    @abstractmethod
    def image(self, X: Array) -> Any:
        """Return 𝒜(XXᵀ)."""

    @abstractmethod
    def mixed(self, X: Array, D: Array) -> Any:
        """Return 𝒜(P), P = XDᵀ + DXᵀ."""

    def times(self, N: Any, Z: Array) -> Array:
        """Return NZ for an image N."""
        return N @ Z

    def grams(self, X: Array) -> list[Array]:
        """Return the small matrices that serve ``product`` and ``line``, if any."""
        return []

    def product(self, X: Array, grams: Sequence[Array] = ()) -> Array:
        """Return 𝒜(XXᵀ)X."""
        return self.times(self.image(X), X)

    def line(self, p: QuadraticPoint, D: Array) -> MapLine:
        """Return 𝒜 on the line p + tD."""
        X, rank, both = p.X, D.shape[1], namespace(D).hstack([p.X, D])
        P, S = self.times(self.mixed(X, D), both), self.times(self.image(D), both)
        N1 = self.times(self.image(X), D) + P[:, :rank]
        N2, N3 = P[:, rank:] + S[:, :rank], S[:, rank:]
        return MapLine(
            inner(N1, D), inner(N2, D) / 1.5, 0.5 * inner(N3, D), lambda t: p.NX + t * (N1 + t * (N2 + t * N3))
        )

    @abstractmethod
    def largest(self, count: Callable[[int], None]) -> float:
        """Return L_F, or a bound of it; ``count`` is told of products it takes."""

    def least(self) -> float:
        """Return μ_F, or 0."""
        return 0.0

    def least_on_diagonal(self) -> float:
        """Return a μ ≥ 0 with ⟨𝒜Y, Y⟩ ≥ μ Σ Y_ii²."""
        return self.least()

    def exponent(self, probe: Array) -> int | None:
        """Return log₂ of its size, by its product with a vector of size one."""
        return exponent(self.product(probe))

    def scaled(self, power: int) -> QuadraticMap:
        """Return 2^power · 𝒜; this default is for maps that multiply what they give by 2^``power``."""
        twin = copy.copy(self)
        twin.power = self.power + power
        return twin


class Blocks(QuadraticMap):
    """𝒜Y = s·Y; or, where the rows are in two ``parts``, s·[0, Y₁₂; Y₂₁, 0]: through r × r Gram matrices."""

    free = True

    def __init__(self, *parts: slice, scale: float = 1.0) -> None:
        self.parts, self.scale = parts, scale

    def image(self, X: Array) -> Any:
        return X, X

    def mixed(self, X: Array, D: Array) -> Any:
        xp = namespace(X)
        return xp.hstack([X, D]), xp.hstack([D, X])

    def times(self, N: Any, Z: Array) -> Array:
        """Return s·L_I(R_JᵀZ_J), block by block, for factors L and R."""
        L, R = N
        return self._together(L, [gram(R[I], Z[I]) for I in self.parts])

    def _together(self, L: Array, grams: Sequence[Array]) -> Array:
        """Return s·L_I S_J, block by block."""
        found = [times(L[I], self.scale * bare(S)) for I, S in zip(self.parts, reversed(grams), strict=True)]
        return found[0] if len(found) == 1 else namespace(L).concatenate(found)

    def grams(self, X: Array) -> list[Array]:
        return [gram(X[I]) for I in self.parts]

    def product(self, X: Array, grams: Sequence[Array] = ()) -> Array:
        """Return s·X_I S_J, block by block."""
        return self._together(X, grams or self.grams(X))

    def line(self, p: QuadraticPoint, D: Array) -> MapLine:
        """Return the coefficients from S = XᵀX, T = XᵀD and C = DᵀD of the rows of each part."""
        later = [(S, gram(p.X[I], D[I]), gram(D[I])) for S, I in zip(p.grams, self.parts, strict=True)]
        small = [[to_host(M) for M in part] for part in later]
        c2 = c3 = c4 = 0.0
        for (S, T, C), (S_, T_, C_) in zip(small, reversed(small), strict=True):
            c2 += 0.5 * (trace_inner(S, C_) + trace_inner(C, S_)) + trace_inner(T, T_.T) + trace_inner(T, T_)
            c3 += trace_inner(T, C_) + trace_inner(C, T_)
            c4 += 0.5 * trace_inner(C, C_)
        cross, curvature = (p.space.small(sum(part[k] for part in small)) for k in (1, 2))
        coefficients = self.scale * c2, self.scale * c3, self.scale * c4
        return MapLine(*coefficients, lambda t: None, cross, curvature)

    def largest(self, count: Callable[[int], None]) -> float:
        return self.scale

    def least(self) -> float:
        """Return s where there is one block, all of Y; else 0."""
        return self.scale if len(self.parts) == 1 else 0.0

    def scaled(self, power: int) -> Blocks:
        return Blocks(*self.parts, scale=shifted(self.scale, power))


class Weights(QuadraticMap):
    """𝒜Y = A ∘ Y, entrywise, for a nonnegative symmetric A; of a sparse one only Y on its pattern is ever made."""

    def __init__(self, A: Any) -> None:
        self.A, self.dtype, self.places = A, A.dtype, A.places()
        entries = A.entries()
        found = first_entry(entries < 0)
        if found is not None:
            i, j = found if self.places is None else (int(ends[found[0]]) for ends in self.places)
            raise ValueError(
                f"A[{i}, {j}] = {float(entries[found])} is negative: F would not be convex, nor bounded below"
            )
        self.weighs_few = self.places is not None and len(entries) <= 2 * A.n
        self._extremes = (float(entries.min()), float(entries.max())) if len(entries) else (0.0, 0.0)

    def image(self, X: Array) -> Any:
        return self._of(X, X)

    def mixed(self, X: Array, D: Array) -> Any:
        xp = namespace(X)
        return self._of(xp.hstack([X, D]), xp.hstack([D, X]))

    def _of(self, L: Array, R: Array) -> Any:
        """Return A ∘ LRᵀ."""
        if self.places is None:
            return self.A.entries() * (L @ R.T)
        rows, cols = self.places
        return self.A.with_entries(self.A.entries() * namespace(L).einsum("pk,pk->p", L[rows], R[cols]))

    def largest(self, count: Callable[[int], None]) -> float:
        return max(self._extremes[1], 0.0)

    def least(self) -> float:
        """Return min A, 0 where the pattern has a gap."""
        full = self.places is None or len(self.A.entries()) == self.A.n**2
        return self._extremes[0] if full else 0.0

    def least_on_diagonal(self) -> float:
        if self.places is None:
            return float(self.A.entries().diagonal().min())
        rows, cols = self.places
        diagonal = self.A.entries()[rows == cols]
        return float(diagonal.min()) if len(diagonal) == self.A.n else 0.0

    def scaled(self, power: int) -> Weights:
        return Weights(self.A.scaled(power))


class OnProducts(QuadraticMap):
    """𝒜 known by ``apply(X, Z)`` = 𝒜(XXᵀ)Z alone; an image is a list of factors X, with what to multiply each by."""

    cost = 4

    def __init__(self, apply: Callable[[Array, Array], Any], n: int, space: Space) -> None:
        self.apply, self.n, self.space = apply, n, space

    def image(self, X: Array) -> Any:
        return [(1.0, X)]

    def mixed(self, X: Array, D: Array) -> Any:
        """Return X ± sD, with s such that both terms are equally long and no digit is lost."""
        size, length = float(norm(X)), float(norm(D))
        s = size / length if size > 0 and length > 0 else 1.0
        return [(0.5 / s, X + s * D), (-0.5 / s, X - s * D)]

    def times(self, N: Any, Z: Array) -> Array:
        """Return the sum of the products with the factors."""
        total: Array = 0.0  # type: ignore[assignment]
        for factor, X in N:
            product = self.apply(X, Z)
            if tuple(np.shape(product)) != tuple(Z.shape):
                raise ValueError(
                    f"A(X, Z) must return 𝒜(XXᵀ)Z, of Z's shape {tuple(Z.shape)}, got {tuple(np.shape(product))}"
                )
            total = total + factor * astype(as_floats(product), float_type(Z))
        return shifted(total, self.power)

    def largest(self, count: Callable[[int], None]) -> float:
        """Return a bound of ‖𝒜‖ by Lanczos iterations; each costs like two products with n columns."""

        def on_symmetric(Y: Array) -> Array:
            there = [(sign, self.space.adopt(F)) for sign, F in signed_factors(Y)]
            return np.asarray(to_host(self.times(there, self.space.adopt(np.eye(self.n)))))

        # in the n(n + 1)/2 coordinates of symmetric matrices in which ‖Y‖ is their norm
        i, j = np.triu_indices(self.n)
        weight = np.where(i == j, 1.0, math.sqrt(2.0))

        def product(V: Array) -> Array:
            out = np.empty_like(V)
            for k, y in enumerate(V.T):
                count(1)
                Y = np.zeros((self.n, self.n))
                Y[i, j] = Y[j, i] = y / weight
                out[:, k] = on_symmetric(Y)[i, j] * weight if Y.any() else 0.0
            return out

        return upper_bound_of_spectrum(product, len(i), float(np.finfo(np.float64).eps), _DENSE)


def as_map(A: Any, n: int, space: Space) -> QuadraticMap:
    """Return the map that A describes (see `quartic.losses.Quadratic`), or raise an error that says what is wrong."""
    if isinstance(A, QuadraticMap):
        return A
    if A is None:
        return Blocks(slice(None))
    if isinstance(A, LinearOperator):
        raise TypeError(
            "A must be an array, a sparse matrix, None or a function A(X, Z) = 𝒜(XXᵀ)Z, got a LinearOperator"
        )
    if callable(A):
        return OnProducts(A, n, space)
    A = A if sp.issparse(A) else space.take(A, "A")
    if tuple(A.shape) == (n, n):
        return Weights(as_matrix(A, None, "A"))
    raise ValueError(
        f"A must have the shape of B, ({n}, {n}), for weights of the entries of XXᵀ, got {tuple(A.shape)}; a map "
        "of all of them is a function A(X, Z) = 𝒜(XXᵀ)Z"
    )
