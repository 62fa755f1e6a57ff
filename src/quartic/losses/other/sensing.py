"""Matrix sensing: a positive semidefinite matrix of low rank from linear measurements of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, Self

import numpy as np

from quartic.arrays import (
    Array,
    as_floats,
    astype,
    eps,
    first_entry,
    inner,
    namespace,
    norm,
    positive_part,
    real_array,
    squared_norm,
    to_host,
)
from quartic.core.units import Units, exponent, shifted
from quartic.losses.base import Loss, Point, constant
from quartic.losses.factor.spectrum import (
    called_from_host,
    collatz_wielandt,
    lanczos_eigenpairs,
    least_chi_square,
    upper_bound_of_spectrum,
)
from quartic.losses.other.measurements import DENSE, WORK, Measurements, as_measurements
from quartic.losses.steps import Line, Move

# A start is fitted within the span of the leading eigenvectors up to this rank: r(r + 1)/2 unknowns.
_FITTED = 20
# Power iterations for the bound of Collatz and Wielandt, within a few per cent after six; one where each is dear.
_ROUNDS, _QUICK = 6, 2e8
# Gram matrices up to this size are made.
_SMALL = 20
# Gaussian vectors that measure the traces of the A_k.
_SAMPLES = 64


class Sensing(Loss):
    r"""Sensing :math:`f(X) = \frac12\|\mathcal A(XX^T) - b\|^2`, with :math:`\mathcal A(Y)_k = \langle A_k, Y\rangle`.

    Parameters
    ----------
    A : array, sparse, list, LinearOperator or object
        The A_k, in one of these forms; arrays may be torch tensors, and all is then done on their device:

        - an (m, n) array, or a real `scipy.sparse.linalg.LinearOperator` of that shape: vectors a_k, with
          A_k = a_k a_kᵀ and so ⟨A_k, XXᵀ⟩ = ‖Xᵀa_k‖². A product costs two with A;
        - a list of m sparse symmetric (n, n) matrices, or one sparse (m, n²) stack of them, a matrix a row. A product
          costs O(entries stored + r·places touched);
        - an (m, n, n) array of symmetric matrices;
        - an object with ``n_points``, ``forward(X)`` = 𝒜(XXᵀ), of shape (m,), and ``adjoint(y, X)`` = 𝒜*(y)X, for X of
          any number of columns; with ``polar(X, D)`` = 𝒜((XDᵀ + DXᵀ)/2) a line costs one call instead of two.
    b : array (m,)
        What was measured.
    smoothness : float, optional
        L_F = ‖𝒜‖², if you know it; worked out when first needed otherwise.

    Notes
    -----
    Constants. F(Y) = ½‖𝒜(Y) − b‖² has the Hessian 𝒜*𝒜, so L_F = ‖𝒜‖² = λ_max(K) with K_kl = ⟨A_k, A_l⟩, and μ_F = 0
    (m < n(n+1)/2 as a rule). For vectors K_kl = ⟨a_k, a_l⟩² ≥ 0, and for any x > 0 λ_max(K) ≤ max_k (Kx)_k/x_k (Collatz
    and Wielandt), made tight by power iterations on x: a proven bound. Otherwise Lanczos' method on K bounds it, but
    for a probability of 1e-6. Each iteration costs like a product with n columns. Where that is too much
    (4·10⁹ multiplications) the largest row sum of K takes its place for vectors, K1 ≤ ‖A‖²·max‖a_k‖², each factor
    bounded but for a probability of 1e-6; an operator of your own needs ``smoothness`` then.

    ∇F(0) = −𝒜*(b). Its norm is exact up to n = 1500; beyond, ‖𝒜*(b)‖ ≤ √L_F ‖b‖. Its largest eigenvalue is 0 or less
    where the A_k are semidefinite and b ≥ 0, else exact up to n = 1500, beyond bounded by Lanczos' method.

    The start `minimize` takes is spectral: the span of the leading r eigenvectors U of 𝒜*(b) (for vectors 𝒜*(τ(b)),
    with τ bounded, since a few large b_k would rule otherwise), and within it the S ⪰ 0 for which 𝒜(USUᵀ) is nearest
    to b.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic import Problem, minimize
    >>> from quartic.losses import Sensing
    >>> rng = np.random.default_rng(0)
    >>> truth, A = rng.standard_normal((10, 2)), rng.standard_normal((120, 10))
    >>> loss = Sensing(A, ((A @ truth) ** 2).sum(axis=1))
    >>> X = minimize(Problem(loss), rank=2, tol=1e-10, random_state=0).X
    >>> bool(np.allclose(X @ X.T, truth @ truth.T))
    True
    """

    quadratic = True
    infimum = 0.0

    def __init__(self, A: Any, b: Any, *, smoothness: float | None = None) -> None:
        super().__init__(smoothness)
        b = real_array(b, "b")
        if b.ndim != 1 or not len(b):
            raise ValueError(f"b must be 1-D, one number for each measurement, got shape {tuple(b.shape)}")
        self.measurements: Measurements = as_measurements(A, len(b))
        if len(b) != self.measurements.m:
            raise ValueError(f"A has {self.measurements.m} measurements but b has {len(b)} numbers; they must agree")
        self.space, self.dtype = self.measurements.space, self.measurements.dtype
        b = as_floats(self.space.take(b, "b"))
        bad = first_entry(~namespace(b).isfinite(b))
        if bad is not None:
            raise ValueError(f"b[{bad[0]}] is {b[bad[0]]}; every measurement must be finite, leave out the others")
        self.b: Array = astype(b, self.measurements.dtype)
        self.n_points = self.measurements.n

    # -- the point --------------------------------------------------------------------------------------------------

    def at(self, X: Array) -> SensingPoint:
        X = as_floats(X)
        return self._measured(X, self.measurements.image(X))

    def _measured(self, X: Array, U: Array) -> SensingPoint:
        self.count_products()
        return SensingPoint(self, X, U, self.measurements.polars((U, U))[:, 0] - self.b)

    def restore(self, arrays: dict[str, Array]) -> SensingPoint:
        return SensingPoint(self, *(self.space.adopt(arrays[k]) for k in ("X", "image", "residual", "gradient")))

    def extrapolate(self, p: Any, q: Any, t: float, gram: Array | None = None) -> SensingPoint:
        """Return the point p + t(p − q); the image is linear, the way back is a product all the same."""
        return self._measured(p.X + t * (p.X - q.X), p.image + t * (p.image - q.image))

    def move(self, p: Any, X: Array) -> Move:
        """Return the step from p to X, its remainder from the images' difference: one product."""
        X = as_floats(X)
        self.count_products()
        U, D = self.measurements.image(X), X - p.X
        V = U - p.image if U is not X else D
        there, half, square = self.measurements.polars((U, U), (p.image, V), (V, V)).T
        _, c2, c3, c4 = _quartic(p.residual, half, square)
        return Move(p, SensingPoint(self, X, U, there - self.b), c2 + c3 + c4, D)

    def along(self, p: Any, D: Array) -> Line:
        """Return the exact quartic of f on p + tD: one product, shared with the gradient at one point of the line."""
        D = as_floats(D)
        self.count_products()
        V = self.measurements.image(D)
        half, square = self.measurements.polars((p.image, V), (V, V)).T
        asked: list[float] = []

        def move(t: float) -> SensingPoint:
            if asked and t not in asked:
                self.count_products()
            asked.append(t)
            residual = p.residual + t * (2 * half + t * square)
            return SensingPoint(self, p.X + t * D, p.image + t * V, residual)

        return Line(p, _quartic(p.residual, half, square), move)

    def hessian_product(self, p: Any, D: Array) -> Array:
        """Return ∇²f(X)[D] = 4𝒜*(𝒜((XDᵀ + DXᵀ)/2))X + 2𝒜*(e)D, with e the residual: one product."""
        self.count_products()
        V = self.measurements.image(D)
        half = self.measurements.polars((p.image, V))[:, 0]
        return 4 * self.measurements.adjoint(half, p.image) + 2 * self.measurements.adjoint(p.residual, V)

    def gradient_operator(self, p: Any) -> Callable[[Array], Array]:
        """Return V ↦ 𝒜*(e)V with e the residual: one product a call."""
        return lambda V: self._adjoint_times(p.residual, V)

    # -- scale ------------------------------------------------------------------------------------------------------

    def exponents(self) -> tuple[int | None, int | None]:
        """Return log₂ of the root of |b| over the size of 𝒜, and twice log₂ of the latter: one product."""
        self.count_products()
        here, measured = exponent(self.b), exponent(self._probe())
        if here is None or measured is None:
            return None, None
        return (here - measured) // 2, 2 * measured

    def in_units(self, units: Units) -> Self:
        """Return ½‖2^k 𝒜(XXᵀ) − 2^k 4^length b‖², where 2k is what value has besides 4·length."""
        k = (units.value - self.degree * units.length) // 2
        return self._with(2 * k, measurements=self.measurements.scaled(k), b=shifted(self.b, k + 2 * units.length))

    def _probe(self) -> Array:
        """Return 𝒜(xxᵀ) for a fixed x."""
        x = self.space.adopt(np.cos(np.arange(self.n_points, dtype=self.dtype))[:, None])
        U = self.measurements.image(x)
        return self.measurements.polars((U, U))

    # -- constants --------------------------------------------------------------------------------------------------

    @constant
    def smoothness(self) -> float:
        return largest_gram_eigenvalue(self.measurements, self.count_products)

    @cached_property
    def _adjoint_of_b(self) -> Array | None:
        """𝒜*(b) as a matrix on the host, where that is not too large."""
        if self.n_points > DENSE or self.measurements.work > WORK:
            return None
        self.count_products()
        return np.asarray(to_host(self.measurements.adjoint_matrix(self.b)), dtype=np.float64)

    @property
    def gradient_norm_at_zero(self) -> float:
        """‖𝒜*(b)‖, or the bound √L_F ‖b‖."""
        if self._adjoint_of_b is not None:
            return norm(self._adjoint_of_b)
        size = float(norm(self.b))
        return math.sqrt(self.smoothness) * size if size > 0 else 0.0

    @constant
    def curvature_at_zero(self) -> float:
        """max(0, −λ_min(𝒜*(b)))."""
        if self.measurements.semidefinite and float(self.b.min()) >= 0:
            return 0.0
        N, relative = self._adjoint_of_b, float(np.finfo(self.dtype).eps)
        if N is None:
            bound = upper_bound_of_spectrum(lambda V: -self._on_host(self.b, V), self.n_points, relative)
        else:
            bound = -float(np.linalg.eigvalsh(N)[0])
        return min(max(bound, 0.0), self.gradient_norm_at_zero)

    @cached_property
    def gradient_scale(self) -> float:
        """What multiplies eps·‖X‖ in the gradient's round-off: about 4‖𝒜*(|b|)‖, by power iterations."""
        v: Array = np.random.default_rng(0).standard_normal((self.n_points, 1))
        for _ in range(5):
            v = self._on_host(abs(self.b), v / max(norm(v), np.finfo(np.float64).tiny))
        return 4 * norm(v)

    def _adjoint_times(self, y: Array, V: Array) -> Array:
        self.count_products()
        return self.measurements.adjoint(y, self.measurements.image(as_floats(astype(V, self.dtype))))

    def _on_host(self, y: Array, V: Array) -> Array:
        return np.asarray(to_host(self._adjoint_times(y, self.space.adopt(V))), dtype=np.float64)

    # -- starts -----------------------------------------------------------------------------------------------------

    def best_scale(self, X: Array) -> Array:
        """Return the tX with the least f(tX), where that is not 0: t² = ⟨𝒜(XXᵀ), b⟩ / ‖𝒜(XXᵀ)‖²."""
        self.count_products()
        U = self.measurements.image(as_floats(X))
        q = self.measurements.polars((U, U))[:, 0]  # itself, not the residual plus b: that is b where b is far larger
        fit, size = self.space.read(inner(q, self.b), squared_norm(q))
        return X * math.sqrt(fit / size if fit > 0 else float(norm(self.b)) / max(float(norm(q)), 1e-300))

    def default_start(self, rank: int, nonnegative: bool, generator: np.random.Generator) -> Array:
        """Return the spectral start; for X ≥ 0 and more than one column a random one."""
        if (nonnegative and rank > 1) or rank > _FITTED:
            return self.random_start(rank, nonnegative, generator)
        y = self._preprocessed()
        values, U = lanczos_eigenpairs(lambda V: self._on_host(y, V), self.n_points, rank, generator)
        X = self._fitted(np.ascontiguousarray(U)) if len(values) == rank else None
        if X is None:
            return self.random_start(rank, nonnegative, generator)
        X = self.space.adopt(X)
        return self.best_scale(abs(X)) if nonnegative else X

    def _preprocessed(self) -> Array:
        """Return τ(b): for vectors bounded and rising, (y − 1)/(y + √(m/n) − 1) with y = b/mean b; else b itself."""
        mean = float(self.b.mean())
        if not (self.measurements.semidefinite and mean > 0):
            return self.b
        y = positive_part(self.b) / mean
        scale = max(math.sqrt(self.measurements.m / self.n_points) - 1, 0.2)
        return astype((y - 1) / (y + scale), self.dtype)

    def _fitted(self, U: Array) -> Array | None:
        """Return US^½ with S ⪰ 0 from the least-squares fit of 𝒜(USUᵀ) to b; None where no part of S is positive."""
        rank = U.shape[1]
        i, j = np.triu_indices(rank)
        self.count_products()
        image = self.measurements.image(self.space.adopt(U.astype(self.dtype)))
        column = [image[:, k : k + 1] for k in range(rank)]
        polars = self.measurements.polars(*((column[a], column[b]) for a, b in zip(i, j, strict=True)))
        Q = to_host(polars).astype(np.float64) * np.where(i == j, 1, 2)
        # for complex signals the eigenvectors come in pairs that measure alike; what cannot be told apart is shared
        fit = np.linalg.lstsq(Q, to_host(self.b).astype(np.float64), rcond=1e-2)[0]
        S = np.zeros((rank, rank))
        S[i, j] = S[j, i] = fit
        values, vectors = np.linalg.eigh(S)
        if not values[-1] > 0:
            return None
        return U @ (vectors * np.sqrt(np.maximum(values, 0.01 * values[-1])))

    # -- bookkeeping ------------------------------------------------------------------------------------------------

    def fingerprint(self) -> str:
        b, q = to_host(self.b), to_host(self._probe())[:, 0]
        checksum = float(np.dot(q, np.cos(np.arange(len(b)))))
        sums = f"b={float(b @ np.sin(1.0 + np.arange(len(b))))!r} A={checksum:.10e}"
        return f"{type(self).__name__} n={self.n_points} m={len(b)} {sums}"


def _quartic(e: Array, half: Array, square: Array) -> tuple[float, float, float, float]:
    """Return c₁ … c₄ of ½‖e + 2t·half + t²·square‖² − ½‖e‖²."""
    c2 = 2 * squared_norm(half) + inner(e, square)
    return 2 * inner(e, half), c2, 2 * inner(half, square), 0.5 * squared_norm(square)


class SensingPoint(Point):
    """A point of `Sensing`: X, its image and the residual 𝒜(XXᵀ) − b; the way back is made when first asked for."""

    def __init__(self, loss: Sensing, X: Array, image: Array, residual: Array, gradient: Array | None = None) -> None:
        self.loss, self.X, self.image, self.residual, self._gradient = loss, X, image, residual, gradient

    @cached_property
    def value(self) -> float:
        return 0.5 * squared_norm(self.residual)

    @property
    def gradient(self) -> Array:
        if self._gradient is None:
            self._gradient = 2 * self.loss.measurements.adjoint(self.residual, self.image)
        return self._gradient

    @property
    def rounding(self) -> float:
        """About eps·‖𝒜*(|b|)X‖."""
        return eps(self.X) * self.loss.gradient_scale * norm(self.X)

    def arrays(self) -> dict[str, Array]:
        return {"X": self.X, "image": self.image, "residual": self.residual, "gradient": self.gradient}


def largest_gram_eigenvalue(measurements: Measurements, count: Callable[[int], None]) -> float:
    """Return an upper bound of λ_max(𝒜𝒜*) = ‖𝒜‖².

    Proven where the A_k are semidefinite and the work is not too much, else but for a probability of about 1e-6.
    """
    relative, work, m = float(np.finfo(measurements.dtype).eps), measurements.work, measurements.m
    if work > WORK:
        if not measurements.semidefinite:
            raise ValueError(
                f"L_F would take about {work:.0e} multiplications to find with n = {measurements.n}; give smoothness=, "
                "a bound of ‖𝒜‖²"
            )
        return _largest_row_sum(measurements, count, relative)

    def product(Y: Array) -> Array:
        columns = []
        for y in Y.T:
            count(1)
            here = measurements.space.adopt(y.astype(measurements.dtype))
            columns.append(to_host(measurements.gram_product(here)))
        return np.column_stack(columns).astype(np.float64)

    if measurements.semidefinite:
        rounds = _ROUNDS if work <= _QUICK else 1
        bound = collatz_wielandt(product, np.ones((m, 1)), rounds) * (1 + 8 * relative)  # sums of m terms
    else:
        bound = upper_bound_of_spectrum(product, m, relative, _SMALL)
    return bound if bound > 0 else 1.0


def _largest_row_sum(measurements: Measurements, count: Callable[[int], None], relative: float) -> float:
    """Return a bound of the row sums of the Gram matrix, which is nonnegative for semidefinite A_k.

    They are ⟨A_k, Σ_l A_l⟩ ≤ ‖𝒜*(1)‖ tr A_k. For Gaussian g the sum of q numbers gᵀA_k g is tr A_k times a χ² of q
    degrees of freedom, or more concentrated.
    """
    dtype, adopt = measurements.dtype, measurements.space.adopt
    ones = adopt(np.ones(measurements.m, dtype))

    def product(V: Array) -> Array:
        count(1)
        return measurements.adjoint(ones, measurements.image(V))

    count(1)
    G = np.random.default_rng(0).standard_normal((measurements.n, _SAMPLES)).astype(dtype)
    U = measurements.image(adopt(G))
    traces = float(measurements.polars((U, U)).max()) / least_chi_square(_SAMPLES)
    there = called_from_host(product, measurements.space, dtype)
    return upper_bound_of_spectrum(there, measurements.n, relative) * traces
