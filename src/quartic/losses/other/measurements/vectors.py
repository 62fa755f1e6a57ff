"""Maps by vectors: 𝒜(XXᵀ)_k = ‖a_kᵀX‖²."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from quartic.arrays import Array
from quartic.losses.factor.spectrum import least_chi_square, upper_bound_of_spectrum
from quartic.losses.other.measurements.base import Measurements, row_sums

# Gaussian vectors that measure the rows of an operator.
_SAMPLES = 64


class Vectors(Measurements):
    """A_k = Re(a_k a_kᴴ): 𝒜(XXᵀ)_k = ‖a_kᵀX‖², with A (m, n) an array or a LinearOperator, real or complex.

    With ``pairs`` the signal is complex and carried as [Re; Im] in 2n real rows.
    """

    semidefinite = True

    def __init__(self, A: Any, pairs: bool = False) -> None:
        self.A, self.pairs = A, pairs
        self.m, self.columns = A.shape
        self.n = 2 * self.columns if pairs else self.columns
        kind = np.dtype(np.float64 if A.dtype is None else A.dtype)
        self.complex = kind.kind == "c"
        self.dtype = np.float32 if kind in (np.dtype(np.float32), np.dtype(np.complex64)) else np.float64

    def image(self, X: Array) -> Array:
        """Return A X, complex for complex signals."""
        Z = X[: self.columns] + 1j * X[self.columns :] if self.pairs else X
        if isinstance(self.A, LinearOperator):
            image = np.asarray(self.A.matmat(Z))
            return image.astype(np.result_type(X.dtype, np.complex64) if self.complex else X.dtype, copy=False)
        AX: Array = self.A @ Z
        return AX

    def polars(self, *pairs: tuple[Array, Array]) -> Array:
        """Return Re Σ conj(AX) ∘ AD over the columns."""
        return np.stack([row_sums(U, V) for U, V in pairs], axis=1)

    def adjoint(self, y: Array, image: Array) -> Array:
        """Return Aᴴ(y ∘ AX), real."""
        W = y.astype(image.real.dtype, copy=False)[:, None] * image
        if isinstance(self.A, LinearOperator):
            B = np.asarray(self.A.rmatmat(W))
        else:
            B = (W.conj().T @ self.A).conj().T  # no copy of A, conjugated or not
        B = np.concatenate([B.real, B.imag]) if self.pairs else B.real
        return np.ascontiguousarray(B, dtype=image.real.dtype)

    def gram_product(self, y: Array) -> Array:
        """Return a_kᵀ N conj(a_k) with N = Aᴴ diag(y) A, twice where each complex number stands for two real ones."""
        A = self._entries()
        N = (A.conj().T * y) @ A
        if not self.pairs:
            N = N.real
        return (2 if self.pairs else 1) * row_sums(A @ N, A)

    @property
    def work(self) -> float:
        """About m·n², four times that for complex numbers."""
        return (4.0 if self.complex else 1.0) * float(self.m) * float(self.columns) ** 2

    def cheap_bound(self, count: Callable[[int], None]) -> float:
        """Return a bound of ‖A‖² max ‖a_k‖² (twice for complex signals).

        The Gram matrix of the A_k is nonnegative, so its largest row sum bounds it: Σ_l |⟨a_k, a_l⟩|² = a_kᵀAᴴA a_k.
        ‖A‖² is bounded by Lanczos' method, and so is the longest row of an operator, by its products with Gaussian
        vectors; each bound fails with a probability of at most 1e-6.
        """
        ones, eps = np.ones(self.m, self.dtype), float(np.finfo(self.dtype).eps)

        def product(V: Array) -> Array:
            count(1)
            return self.adjoint(ones, self.image(V.astype(self.dtype))).astype(np.float64)

        largest = upper_bound_of_spectrum(product, self.n, eps)
        if isinstance(self.A, LinearOperator):
            count(1)
            U = self.image(np.random.default_rng(0).standard_normal((self.n, _SAMPLES)).astype(self.dtype))
            # with pairs a row of A meets two vectors of its own length
            freedom = 2 * _SAMPLES if self.pairs else _SAMPLES
            longest = min(float(row_sums(U, U).max()) / least_chi_square(freedom), largest)
        else:
            longest = float(row_sums(self.A, self.A).max())
        return (2 if self.pairs else 1) * largest * longest

    def _entries(self) -> Array:
        if not isinstance(self.A, LinearOperator):
            return self.A  # type: ignore[no-any-return]
        return np.asarray(self.A.matmat(np.eye(self.columns)))
