"""Maps by functions of the user's own."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from quartic.arrays import Array, norm
from quartic.losses.other.measurements.base import Measurements


@runtime_checkable
class Operator(Protocol):
    """What a user's own 𝒜 must offer: ``forward(X)`` = 𝒜(XXᵀ), ``adjoint(y, X)`` = 𝒜*(y)X, and ``n_points``.

    𝒜(XXᵀ) is real, of shape (m,), for X of any number of columns; 𝒜*(y) is symmetric, with ⟨𝒜(Y), y⟩ = ⟨Y, 𝒜*(y)⟩.
    It may offer ``polar(X, D)`` = 𝒜((XDᵀ + DXᵀ)/2) as well, which is otherwise made of two forward calls.
    """

    n_points: int

    def forward(self, X: Array) -> Array:
        """Return 𝒜(XXᵀ)."""

    def adjoint(self, y: Array, X: Array) -> Array:
        """Return 𝒜*(y) X."""


class Own(Measurements):
    """A user's `Operator`."""

    def __init__(self, operator: Operator, n: int, m: int) -> None:
        self.operator, self.n, self.m, self.dtype = operator, n, m, np.float64

    def image(self, X: Array) -> Array:
        """Return X."""
        return X

    def polars(self, *pairs: tuple[Array, Array]) -> Array:
        """Return 𝒜((XDᵀ + DXᵀ)/2) for each pair, by ``polar`` or by ``forward``."""
        return np.stack([self._polar(X, D) for X, D in pairs], axis=1)

    def _polar(self, X: Array, D: Array) -> Array:
        if D is X:
            return self._measured(self.operator.forward(X))
        if hasattr(self.operator, "polar"):
            return self._measured(self.operator.polar(X, D))
        size, length = norm(X), norm(D)
        if size == 0 or length == 0:
            return np.zeros(self.m)
        # (X + sD)(X + sD)ᵀ − (X − sD)(X − sD)ᵀ = 2s(XDᵀ + DXᵀ); s makes both terms equally long, so no digit is lost
        s = size / length
        gap = self._measured(self.operator.forward(X + s * D)) - self._measured(self.operator.forward(X - s * D))
        return gap / (4 * s)

    def _measured(self, given: Any) -> Array:
        q: Array = np.asarray(given, dtype=np.float64)
        if q.shape != (self.m,):
            raise ValueError(f"forward(X) must return one number for each of the {self.m} of b, got shape {q.shape}")
        return q

    def adjoint(self, y: Array, image: Array) -> Array:
        """Return 𝒜*(y) X."""
        G = np.asarray(self.operator.adjoint(y, image), dtype=image.dtype)
        if G.shape != image.shape:
            raise ValueError(f"adjoint(y, X) must return an array of X's shape {image.shape}, got {G.shape}")
        return np.ascontiguousarray(G)

    @property
    def work(self) -> float:
        """About that of an eigendecomposition; what the operator itself costs is not known."""
        return float(self.n) ** 3

    def gram_product(self, y: Array) -> Array:
        """Return 𝒜(U₊U₊ᵀ) − 𝒜(U₋U₋ᵀ), the two parts of the spectrum of 𝒜*(y)."""
        N = self.adjoint_matrix(y)
        values, vectors = np.linalg.eigh((N + N.T) / 2)
        factors = vectors * np.sqrt(np.abs(values))
        q = np.zeros(self.m)
        for sign, part in ((1, factors[:, values > 0]), (-1, factors[:, values < 0])):
            if part.size:
                q += sign * self._measured(self.operator.forward(np.ascontiguousarray(part)))
        return q
