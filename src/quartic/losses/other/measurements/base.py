"""What every linear map 𝒜 from symmetric matrices to numbers offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from quartic.arrays import Array

# Up to so many rows of X, and multiplications, 𝒜*(y) is made as a matrix; beyond, bounds take the place of constants.
DENSE, WORK = 1500, 4e9


class Measurements(ABC):
    """𝒜, with A_k the matrices of its rows: 𝒜(Y)_k = ⟨A_k, Y⟩.

    ``image(X)`` is whatever is linear in X and saves work: products with X are made there, and carried along lines.
    """

    n: int
    m: int
    dtype: type[np.floating[Any]]
    #: whether every A_k is positive semidefinite
    semidefinite: bool = False

    @abstractmethod
    def image(self, X: Array) -> Array:
        """Return what ``polars`` and ``adjoint`` need of X, linear in X."""

    @abstractmethod
    def polars(self, *pairs: tuple[Array, Array]) -> Array:
        """Return 𝒜((XDᵀ + DXᵀ)/2) for each pair of images of X and D, as the columns of an (m, k) array."""

    @abstractmethod
    def adjoint(self, y: Array, image: Array) -> Array:
        """Return 𝒜*(y) X, from the image of X."""

    @abstractmethod
    def gram_product(self, y: Array) -> Array:
        """Return 𝒜(𝒜*(y)): the product with the Gram matrix of the A_k. It costs like a product with n columns."""

    @property
    def work(self) -> float:
        """About how many multiplications ``gram_product`` or ``adjoint_matrix`` takes."""
        return float(self.m) * self.n**2

    def cheap_bound(self, count: Callable[[int], None]) -> float:
        """Return a bound of L_F = ‖𝒜‖² that needs no ``gram_product``."""
        raise ValueError(
            f"L_F would take about {self.work:.0e} multiplications to find with n = {self.n}; give smoothness=, "
            "a bound of ‖𝒜‖²"
        )

    def adjoint_matrix(self, y: Array) -> Array:
        """Return 𝒜*(y) as an n × n array."""
        return self.adjoint(y, self.image(np.eye(self.n, dtype=self.dtype)))


def row_sums(U: Array, V: Array) -> Array:
    """Return Re Σ conj(U) ∘ V over each row."""
    total: Array
    if U.dtype.kind == "c":
        total = np.einsum("ij,ij->i", U.real, V.real) + np.einsum("ij,ij->i", U.imag, V.imag)
    else:
        total = np.einsum("ij,ij->i", U, V)
    return total
