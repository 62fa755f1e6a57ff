"""The entries a robust loss runs over: all of a matrix, block by block, or the known ones, pair by pair."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from quartic.arrays import Array, working_dtype
from quartic.core.units import exponent, shifted
from quartic.losses.factor.matrix import DenseMatrix, Matrix, SparseMatrix
from quartic.losses.factor.weighted import WeightedLeastSquares

# Blocks of XXᵀ are made and used while they are in cache; no more of it ever exists.
_BLOCK = 512


class Entries(ABC):
    """The entries of M that count, with what passes over them give for ρ of this kind and δ."""

    n: int
    dtype: type[np.floating[Any]]
    largest_weight: float
    #: Σ w over all entries that count
    total_weight: float

    @abstractmethod
    def tangent(self, X: Array, kind: str, delta: float) -> tuple[float, Array]:
        """Return Σ w ρ(XXᵀ − M) and its gradient."""

    @abstractmethod
    def gap(self, X: Array, Y: Array, kind: str, delta: float) -> tuple[float, float, Array]:
        """Return f(Y), f(Y) − f(X) − ⟨∇f(X), Y − X⟩ and ∇f(Y)."""

    @abstractmethod
    def slopes(self, kind: str, delta: float) -> Matrix:
        """Return w ∘ ψ(M), which is −∇F(0)."""

    @abstractmethod
    def size_of_most(self) -> float:
        """Return a size that most |M_ij| do not exceed, whatever a few of them are."""

    @abstractmethod
    def mean(self, limit: float) -> float:
        """Return the mean of the entries, cut off at ±limit."""

    @abstractmethod
    def exponent(self) -> int | None:
        """Return log₂ of the size of M; None for M = 0."""

    @abstractmethod
    def scaled(self, power: int, weight_power: int) -> Entries:
        """Return the entries of 2^power · M, with weights 2^weight_power times as large."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a few words that tell these entries from others."""


class AllEntries(Entries):
    """Every entry of a dense or sparse symmetric matrix."""

    largest_weight = 1.0

    def __init__(self, matrix: Matrix) -> None:
        if not isinstance(matrix, DenseMatrix | SparseMatrix):
            raise TypeError(
                "Robust needs the entries of M, but M is a LinearOperator; pass an array or a sparse matrix"
            )
        self.matrix = matrix
        self.n, self.dtype = matrix.n, matrix.dtype
        self.total_weight = float(self.n) ** 2

    def tangent(self, X: Array, kind: str, delta: float) -> tuple[float, Array]:
        """Go over the blocks on and above the diagonal; those above count twice."""
        from quartic.losses.other.robust_passes import block_tangents

        run, G, value = block_tangents(kind), np.zeros_like(X), 0.0
        for I, J in self._blocks():
            E = self._residual(X, I, J)
            value += (1 if I is J else 2) * run(E, delta)
            _add_products(G, E, X, I, J)
        G *= 2
        return value, G

    def gap(self, X: Array, Y: Array, kind: str, delta: float) -> tuple[float, float, Array]:
        """Go over the blocks, YYᵀ − XXᵀ = D(X + D/2)ᵀ + (X + D/2)Dᵀ with D = Y − X."""
        from quartic.losses.other.robust_passes import block_gaps

        run, G, value, remainder = block_gaps(kind), np.zeros_like(Y), 0.0, 0.0
        D = Y - X
        middle = X + D / 2
        left, right = np.hstack([D, middle]), np.hstack([middle, D])
        for I, J in self._blocks():
            E, times = self._residual(X, I, J), 1 if I is J else 2
            there, missed = run(E, left[I] @ right[J].T, D[I] @ D[J].T, delta)
            value += times * there
            remainder += times * missed
            _add_products(G, E, Y, I, J)
        G *= 2
        return value, remainder, G

    def slopes(self, kind: str, delta: float) -> Matrix:
        """Return ψ(M), sparse where M is: ψ(0) = 0."""
        from quartic.losses.other.robust_passes import block_tangents

        M: Any = self.matrix.M.copy()
        block_tangents(kind)(M.data if sp.issparse(M) else M, delta)
        return SparseMatrix(M) if sp.issparse(M) else DenseMatrix(M)

    def size_of_most(self) -> float:
        """Return the median |M_ij| of (a sample of) the stored entries."""
        return _median_size(self._stored())

    def mean(self, limit: float) -> float:
        """Return the mean over all n² entries."""
        return float(np.clip(self._stored(), -limit, limit).sum(dtype=np.float64)) / self.total_weight

    def exponent(self) -> int | None:
        """Return that of M."""
        return self.matrix.exponent()

    def scaled(self, power: int, weight_power: int) -> AllEntries:
        """Return the entries of 2^power · M, all of weight 1 as here."""
        assert weight_power == 0
        return AllEntries(self.matrix.scaled(power))

    def fingerprint(self) -> str:
        """Return the norm and a checksum of M."""
        return f"n={self.n} squared_norm={self.matrix.squared_norm!r} checksum={self.matrix.checksum():.6e}"

    def _stored(self) -> Array:
        M: Any = self.matrix.M
        stored: Array = M.data if sp.issparse(M) else M.ravel()
        return stored

    def _blocks(self) -> Iterator[tuple[slice, slice]]:
        parts = [slice(k, min(k + _BLOCK, self.n)) for k in range(0, self.n, _BLOCK)]
        return ((I, J) for a, I in enumerate(parts) for J in parts[a:])

    def _residual(self, X: Array, I: slice, J: slice) -> Array:
        E: Array = X[I] @ X[J].T
        M: Any = self.matrix.M
        E -= M[I, J].toarray() if sp.issparse(M) else M[I, J]
        return E


class KnownEntries(Entries):
    """The entries in the pattern of the weights."""

    def __init__(self, M: Any, weights: Any) -> None:
        known = WeightedLeastSquares(M, weights)  # it checks what comes in, and sorts the pairs
        assert known.weight is not None
        self.n, self.dtype = known.n_points, working_dtype(known.target.dtype)
        self.start, self.cols, self.target, self.weight = known.start, known.cols, known.target, known.weight
        self.largest_weight = known.smoothness
        self.total_weight = float(self.weight.sum(dtype=np.float64))
        self._words = known.fingerprint()

    def tangent(self, X: Array, kind: str, delta: float) -> tuple[float, Array]:
        """Go over the pairs."""
        from quartic.losses.other.robust_passes import pair_tangents

        G = np.empty_like(X)
        value = pair_tangents(kind)(X, self.start, self.cols, self.target, self.weight, delta, G)
        return value, G

    def gap(self, X: Array, Y: Array, kind: str, delta: float) -> tuple[float, float, Array]:
        """Go over the pairs."""
        from quartic.losses.other.robust_passes import pair_gaps

        G = np.empty_like(Y)
        data = self.start, self.cols, self.target, self.weight
        value, remainder = pair_gaps(kind)(X, Y, *data, delta, G)
        return value, remainder, G

    def slopes(self, kind: str, delta: float) -> Matrix:
        """Return w ∘ ψ(M) as a sparse matrix."""
        from quartic.losses.other.robust_passes import block_tangents

        psi = self.target.astype(np.float64)
        block_tangents(kind)(psi, delta)
        upper = sp.csr_array((psi * self.weight, self.cols, self.start), shape=(self.n, self.n))
        return SparseMatrix((upper + upper.T) * 0.5)

    def size_of_most(self) -> float:
        """Return the median |M_ij| of (a sample of) the known entries."""
        return _median_size(self.target)

    def mean(self, limit: float) -> float:
        """Return the weighted mean of the known entries."""
        return float(np.dot(np.clip(self.target, -limit, limit), self.weight)) / self.total_weight

    def exponent(self) -> int | None:
        """Return that of the largest known entry."""
        return exponent(self.target)

    def scaled(self, power: int, weight_power: int) -> KnownEntries:
        """Return the entries of 2^power · M, with weights 2^weight_power times as large."""
        twin = copy.copy(self)
        twin.target, twin.weight = shifted(self.target, power), shifted(self.weight, weight_power)
        twin.largest_weight = shifted(self.largest_weight, weight_power)
        twin.total_weight = shifted(self.total_weight, weight_power)
        twin._words = f"{self._words} times 2^{power}, weights times 2^{weight_power}"
        return twin

    def fingerprint(self) -> str:
        """Return sizes and sums of the data."""
        return self._words


def _add_products(G: Array, E: Array, X: Array, I: slice, J: slice) -> None:
    G[I] += E @ X[J]
    if I is not J:
        G[J] += E.T @ X[I]


def _median_size(entries: Array) -> float:
    """Return the median of the |entries| that are not zero, of every k-th of them where there are many."""
    sample = np.abs(entries[:: max(1, len(entries) // 100_000)])
    sample = sample[sample > 0]
    return float(np.median(sample)) if len(sample) else float(np.abs(entries).max(initial=0.0))
