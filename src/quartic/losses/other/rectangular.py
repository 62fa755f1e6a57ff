"""Rectangular matrices: ½‖A − UVᵀ‖², with U and V stacked into one tall X, so that UVᵀ is a block of XXᵀ."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from quartic.arrays import (
    Array,
    Space,
    astype,
    finite_csr,
    finite_matrix,
    float_type,
    gram,
    inner,
    matmul,
    namespace,
    real_array,
    space_of,
    to_host,
    total,
)
from quartic.core.units import shifted
from quartic.losses.base import Point
from quartic.losses.devices import brought_here
from quartic.losses.factor.matrix import Matrix
from quartic.losses.factor.spectrum import lanczos_eigenpairs
from quartic.losses.factor.weighted import WeightedLeastSquares, check_weights, known_entries
from quartic.losses.other.quadratic import Blocks, Quadratic


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
        ``weights=A != 0``.

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
    >>> from quartic import Problem, losses, minimize, penalties
    >>> A = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0]])
    >>> loss = losses.Rectangular(A)
    >>> result = minimize(Problem(loss, penalties.Nonnegative()), rank=1, tol=1e-9, random_state=0)
    >>> U, V = loss.factors(result.X)
    >>> bool(np.allclose(U @ V.T, A, atol=1e-6))
    True
    """
    return FullRectangular(A) if weights is None else MaskedRectangular(A, weights)


class _TwoFactors:
    shape: tuple[int, int]

    def factors(self, X: Array) -> tuple[Array, Array]:
        """Return U (m, r) and V (n, r) of X."""
        m, n = self.shape
        if len(X) != m + n:
            raise ValueError(f"X must have m + n = {m} + {n} rows, U's above V's, got shape {np.shape(X)}")
        return X[:m], X[m:]


class FullRectangular(_TwoFactors, Quadratic):
    """½‖A − UVᵀ‖² over all entries of A: `Rectangular` without weights.

    It is `Quadratic` with 𝒜Y = ½[0, Y₁₂; Y₂₁, 0] and B = −½[0, A; Aᵀ, 0], but for the constant ½‖A‖².
    """

    name = "Rectangular"
    linear: BorderedMatrix

    def __init__(self, A: Any) -> None:
        linear = BorderedMatrix(check_rectangular(A), -0.5)
        m, n = self.shape = linear.shape
        super().__init__(Blocks(slice(0, m), slice(m, m + n), scale=0.5), linear)

    def _least_value(self) -> float:
        return 0.0

    @property
    def value_at_zero(self) -> float:
        """½‖A‖² = ‖B‖², both scaled by a power of two where 𝒜 is."""
        return 0.5 * self.linear.squared_norm / self.smoothness

    def curvature_diagonal(self, p: Any) -> Array:
        """Return the diagonal of VᵀV for each row of U, and that of UᵀU for each row of V: exact."""
        U, V = (to_host(S).diagonal() for S in p.grams)
        return in_two(p.X, self.shape[0], V, U)

    def random_start(self, rank: int, nonnegative: bool, generator: np.random.Generator) -> Array:
        """Return a random X of the scale of A: entries about √(mean(A)/r) where X ≥ 0, else a scaled Gaussian."""
        size = self.shape[0] * self.shape[1]
        mean, mean_square = -self.linear.total()[0] / size, 2 * self.linear.squared_norm / size
        return rectangular_random(self.space, self.n_points, rank, nonnegative, mean, math.sqrt(mean_square), generator)


class BorderedMatrix(Matrix):
    """s·[0, A; Aᵀ, 0] for an m × n matrix A, dense or in CSR, NumPy's or torch's.

    A sparse Aᵀ is kept by rows as well, since products with a transpose are slower.
    """

    def __init__(self, A: Any, scale: float) -> None:
        self.A, self.scale, self.shape = A, scale, (int(A.shape[0]), int(A.shape[1]))
        self.transpose = A.T.tocsr() if sp.issparse(A) else A.T
        self.n, self.space, self.dtype = sum(self.shape), space_of(A), float_type(A)
        entries = self.entries()
        with np.errstate(over="ignore", under="ignore"):
            self.squared_norm = 2 * scale**2 * float(inner(entries, entries))

    def entries(self) -> Array:
        return self.A.data[:, None] if sp.issparse(self.A) else self.A

    def product(self, Z: Array, out: Array | None = None) -> Array:
        """Return s·[AV; AᵀU] for Z = [U; V]."""
        m, product = self.shape[0], namespace(Z).empty_like(Z)
        product[:m] = matmul(self.A, Z[m:])
        product[m:] = matmul(self.transpose, Z[:m])
        product *= self.scale
        return cast(Array, product)

    def scaled(self, power: int) -> BorderedMatrix:
        if not sp.issparse(self.A):
            return BorderedMatrix(shifted(self.A, power), self.scale)
        parts = shifted(self.A.data, power), self.A.indices, self.A.indptr
        return BorderedMatrix(sp.csr_array(parts, shape=self.shape), self.scale)

    def total(self) -> tuple[float, int]:
        return 2 * self.scale * float(total(self.entries())), 0


class MaskedRectangular(_TwoFactors, WeightedLeastSquares):
    r"""Weighted fit of known entries, :math:`f(X) = \frac12\sum_{ij} w_{ij}(A_{ij} - (UV^T)_{ij})^2`, X = [U; V].

    Made by ``Rectangular(A, weights=W)``, whose notes have the constants. It is `WeightedLeastSquares` of the
    bordered matrix [0, A; Aᵀ, 0], of which each entry counts twice and so has half its weight.
    """

    name = "Rectangular with weights"

    def __init__(self, A: Any, weights: Any) -> None:
        space, (A, weights) = brought_here(A=A, weights=weights)
        W = check_weights(weights, A, "A").tocoo()
        i, j = W.coords
        m, n = self.shape = W.shape
        M = _bordered(known_entries(A, i, j, "A"), i, j, m, n)
        super().__init__(M, _bordered(0.5 * W.data.astype(np.float64), i, j, m, n), space)

    def curvature_diagonal(self, p: Point) -> Array:
        """Return Σ_j w_ij · mean_j(v_jk²) for the rows of U, and likewise for those of V: exact if all w are equal."""
        m = self.shape[0]
        mean_u, mean_v = (to_host(gram(Z)).diagonal() / len(Z) for Z in self.factors(p.X))
        return in_two(p.X, m, np.outer(self._degrees[:m], mean_v), np.outer(self._degrees[m:], mean_u))

    @cached_property
    def _degrees(self) -> Array:
        """Σ_j w_ij for each row of U, Σ_i w_ij for each row of V."""
        degrees = self._listed.sum_by_point(self._listed.weight)
        return np.maximum(degrees, 1e-3 * degrees.mean())

    default_start = WeightedLeastSquares.spectral_start  # by the leading singular vectors of A

    def random_start(self, rank: int, nonnegative: bool, generator: np.random.Generator) -> Array:
        """Return a random X of the scale of the known entries."""
        size = math.sqrt(2 * self.value_at_zero / float(self._listed.weight.sum()))
        return rectangular_random(self.space, self.n_points, rank, nonnegative, self.mean_entry(), size, generator)


def _bordered(values: Array, i: Any, j: Any, m: int, n: int) -> Any:
    """Return the symmetric matrix with these entries (i, m + j)."""
    rows, cols = np.concatenate([i, m + j]), np.concatenate([m + j, i])
    return sp.coo_array((np.concatenate([values, values]), (rows, cols)), shape=(m + n, m + n)).tocsr()


def check_rectangular(A: Any) -> Any:
    """Return A as a finite array, tensor or CSR matrix of floats, or raise an error that says what is wrong with it."""
    if isinstance(A, LinearOperator):
        raise TypeError("A must be an array or a sparse matrix, got a LinearOperator")
    if not sp.issparse(A):
        A = real_array(A, "A")
        if A.ndim != 2 or 0 in A.shape:
            raise ValueError(f"A must be a 2-D array with at least one row and one column, got shape {tuple(A.shape)}")
        try:
            return finite_matrix(A, "A")
        except ValueError as fault:
            raise ValueError(f"{fault}; if that means unknown, pass weights=np.isfinite(A)") from None
    return finite_csr(A, "A")


def balanced_factors(
    bordered: Callable[[Array], Array], shape: tuple[int, int], rank: int, generator: np.random.Generator
) -> Array:
    """Return [U√σ; V√σ] of the leading singular triplets of A, at most ``rank`` columns.

    ``bordered`` multiplies by [0, A; Aᵀ, 0], whose eigenvectors for eigenvalues σ > 0 are [u; v]/√2. The columns are
    balanced: both halves of X have the Gram matrix diag(σ).
    """
    sigma, vectors = lanczos_eigenpairs(bordered, sum(shape), min(rank, *shape), generator)
    return vectors * np.sqrt(2 * np.maximum(sigma, 0))


def rectangular_random(
    space: Space, n: int, rank: int, nonnegative: bool, mean: float, size: float, generator: np.random.Generator
) -> Array:
    """Return a random start for data with this mean and root mean square, U and V of the same scale."""
    X = space.normal(generator, (n, rank))
    if nonnegative:
        return abs(X) * math.sqrt(max(abs(mean), 1e-10 * size) / rank)
    return X * math.sqrt(size / math.sqrt(rank))


def in_two(X: Array, m: int, above: Array, below: Array) -> Array:
    """Return an array like X with these rows above and below, given on the host, no entry far less than the mean."""
    D = np.empty(tuple(X.shape))
    D[:m], D[m:] = above, below
    floored = np.maximum(D, 1e-3 * float(D.mean()), out=D)
    return astype(space_of(X).adopt(floored), float_type(X))
