"""Pairs (i, j) with what is known of them: sorted by row, each once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, Self, cast

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import Array, float_type, to_host, total
from quartic.arrays.space import space_of
from quartic.compiled.row_chunks import RowChunks
from quartic.core.units import exponent, shifted

#: What is known of a pair: ⟨x_i, x_j⟩; ‖x_i − x_j‖²; an interval that holds ‖x_i − x_j‖²; one that holds ‖x_i − x_j‖;
#: or, of all pairs i < j, ‖x_i − x_j‖ in a matrix.
ENTRIES, SQUARES, BOUNDS, ROOTS, COMPLETE = range(5)


# So many wedges, two pairs of one point, tell whether pairs are those of near points.
_WEDGES = 64


class PairPasses(Protocol):
    """The passes over pairs; `quartic.losses.pairs.numba` and `quartic.losses.pairs.torch` have them all."""

    def value_and_gradient(self, X: Array, pairs: Any, G: Array) -> float:
        """Return f(X), and fill G with the gradient."""

    def value_gradient_and_remainder(self, X: Array, Y: Array, pairs: Any, G: Array) -> tuple[float, float]:
        """Return f(Y) and f(Y) − f(X) − ⟨∇f(X), Y − X⟩; G becomes ∇f(Y)."""

    def line_coefficients(self, X: Array, D: Array, pairs: Any, C: Array) -> tuple[float, float, float, float]:
        """Return c₁ … c₄ of f on X + tD, and fill C (n, 3, r) with the coefficients of the gradient."""

    def quartic(self, X: Array, D: Array, pairs: Any) -> tuple[float, float, float, float]:
        """Return c₁ … c₄ alone."""

    def hessian_product(self, X: Array, D: Array, pairs: Any, H: Array) -> None:
        """Fill H with ∇²f(X)[D]."""

    def linearize(self, X: Array, pairs: Any, G: Array, B: Array) -> float:
        """Return f(X); fill G with the gradient and B with the packed row blocks of JᵀWJ."""

    def gauss_newton_product(self, X: Array, V: Array, pairs: Any, H: Array) -> None:
        """Fill H with JᵀWJ V."""

    def degrees(self, pairs: Any) -> tuple[Array, float, float]:
        """Return Σ w·b over each point's pairs, Σ (w·b)² and Σ w·b² over all pairs."""

    def centred(self, pairs: Any) -> tuple[Callable[[Array], Array], float]:
        """Return the product of `quartic.init.sampled`, and where the eigenvalues of noise would end."""

    def largest_eigenvalue(self, pairs: Any, rounds: int) -> float:
        """Return an upper bound of λ_max of the weighted degrees plus the weighted adjacency matrix."""


@dataclass(frozen=True)
class Pairs:
    """Pairs sorted by row, then column, with i ≤ j and each once; of tensors each in the rows of both its points.

    Attributes
    ----------
    kind : int
        What is known of a pair, one of the five above.
    start : int array (n + 1,)
        Where the pairs of each row begin.
    cols : int32 array (m,) or None
        Their columns; None for all pairs.
    target, weight, upper : array (m,), weight and upper or None
        The known value, or a lower bound where ``upper`` has the upper one; the weight, 1 where that is None. For all
        pairs the target is the matrix of their distances, not squared.
    copies : int
        In how many rows a pair stands.
    """

    kind: int
    start: Any
    cols: Any
    target: Any
    weight: Any = None
    upper: Any = None
    copies: int = 1

    def __len__(self) -> int:
        return int(self.start[-1]) if self.kind == COMPLETE else len(self.cols) // self.copies

    @property
    def passes(self) -> PairPasses:
        """The passes for where the pairs are."""
        if self.copies == 1:
            from quartic.losses.pairs import numba

            return cast(PairPasses, numba)
        from quartic.losses.pairs import torch

        return cast(PairPasses, torch)

    @property
    def listed(self) -> bool:
        """Whether the pairs are listed here, in the host's memory, each once."""
        return self.copies == 1 and self.kind != COMPLETE

    @property
    def space(self) -> Any:
        """Where the arrays are."""
        return space_of(self.target)

    @property
    def dtype(self) -> type[np.floating[Any]]:
        """The type of what is known."""
        return float_type(self.target)

    @property
    def n_points(self) -> int:
        """How many points there are."""
        return len(self.start) - 1

    @property
    def difference(self) -> bool:
        """Whether the difference of two points counts, not their inner product."""
        return self.kind != ENTRIES

    @property
    def rows(self) -> NDArray[np.int32]:
        """The row of each pair, in their order."""
        return np.repeat(np.arange(self.n_points, dtype=np.int32), np.diff(self.start))

    @cached_property
    def chunks(self) -> RowChunks:
        """How passes cut the rows into chunks: worked out once."""
        return RowChunks(self.start)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the memory of the passes."""
        return {name: value for name, value in self.__dict__.items() if name != "chunks"}

    def scaled(self, value: int, weight: int) -> Self:
        """Return the pairs with values times 2^value and weights times 2^weight."""
        powers = {"target": value, "upper": value, "weight": weight}
        given = {name: getattr(self, name) for name in powers}
        changed: dict[str, Any] = {k: None if A is None else shifted(A, powers[k]) for k, A in given.items()}
        return replace(self, **changed)

    def exponents(self) -> tuple[int | None, int | None]:
        """Return log₂ of the size of the points that the values ask for, and of the weights."""
        weight = None if self.weight is None else exponent(self.weight)
        if self.kind == COMPLETE:  # half of any distance is at most the largest from the first point
            power = exponent(cast(Array, self.target[0]))
            return exponent(self.target) if power is None else power, weight
        known: Any = self.target
        if self.upper is not None:
            known = np.where(np.isfinite(self.upper), self.upper, known)
        power = exponent(known)
        return None if power is None else power if self.kind == ROOTS else power // 2, weight

    def is_local(self) -> bool:
        """Tell from a few pairs (i, j), (i, k) whether (j, k) is there far more often than if all were drawn at random.

        True where that cannot be told.
        """
        n, generator = self.n_points, np.random.default_rng(0)
        if self.kind != SQUARES:
            return True
        rows = generator.integers(n, size=8 * _WEDGES)
        first, count = (to_host(A) for A in (self.start[rows], self.start[rows + 1] - self.start[rows]))
        some = np.flatnonzero(count > 1)[:_WEDGES]
        if not len(some):
            return True
        a = generator.integers(count[some])
        b = (a + 1 + generator.integers(count[some] - 1)) % count[some]
        j, k = (to_host(self.cols[first[some] + at]) for at in (a, b))
        j, k = np.minimum(j, k), np.maximum(j, k)
        first, last = (to_host(self.start[j + at]) for at in (0, 1))
        closed = sum(bool((self.cols[f:l] == end).any()) for f, l, end in zip(first, last, k, strict=True))
        return closed > len(some) * (0.1 + 8 * len(self) / n**2)

    def sum_by_point(self, values: Array) -> Array:
        """Return for each point the sum, over its pairs, of one value a pair."""
        n = self.n_points
        sums = np.bincount(self.rows, values, n) + np.bincount(self.cols, values, n)
        return sums.astype(np.float64, copy=False)

    def exponent_of_points(self) -> int | None:
        """Return log₂ of about the size of the points that the values ask for."""
        return self.exponents()[0]

    def size(self) -> tuple[str, float]:
        """Return the number of pairs in words, and about how many bytes they take, each in two rows."""
        each = np.dtype(self.dtype).itemsize * (1 if self.weight is None else 2) + 4
        return f"{self.n_points} points with {len(self)} pairs", 2.0 * len(self) * each

    def heaviest(self) -> float:
        """Return the largest weight."""
        return 1.0 if self.weight is None else float(self.weight.max())

    def total_weight(self) -> float:
        """Return Σ w."""
        return float(len(self)) if self.weight is None else float(total(self.weight)) / self.copies

    def checksum(self) -> str:
        """Return sums that tell these pairs from others."""
        target, cols = to_host(self.target), to_host(self.cols)
        place = 1.0 + np.arange(len(target)) % 1009
        found = float(np.dot(target, place) + np.dot(cols.astype(np.float64), place))
        weight = float(len(self) if self.weight is None else total(self.weight))
        words = f"target={found!r} weight={weight!r}"
        if self.upper is None:
            return words
        finite = self.upper[np.isfinite(self.upper)]
        return f"{words} upper={float(finite.sum())!r} of {len(finite)}"

    def on_host(self) -> Self:
        """Return the pairs in the host's memory, each once."""
        if self.copies == 1:
            return self
        start, cols = to_host(self.start), to_host(self.cols)
        rows = np.repeat(np.arange(self.n_points), np.diff(start))
        kept = np.sort(np.concatenate([np.flatnonzero(rows < cols), np.flatnonzero(rows == cols)[::2]]))
        begin = np.concatenate([[0], np.cumsum(np.bincount(rows[kept], minlength=self.n_points))])
        given = {name: getattr(self, name) for name in ("target", "weight", "upper")}
        picked: dict[str, Any] = {name: None if A is None else to_host(A)[kept] for name, A in given.items()}
        return replace(self, start=begin, cols=cols[kept], copies=1, **picked)

    def gauss_newton_matrix(self, X: Array) -> Any:
        """Return JᵀWJ, assembled from J, whose row for a pair (i, j) has 2r entries; within its bounds it has none."""
        import scipy.sparse as sp

        X, rank = X.astype(np.float64, copy=False), X.shape[1]
        rows, cols = self.rows.astype(np.int64), self.cols.astype(np.int64)
        if self.kind == ENTRIES:
            at_i, at_j, slope = X[cols], X[rows], np.ones(len(rows))
        else:
            at_i = X[rows] - X[cols]
            size, slope = np.einsum("ij,ij->i", at_i, at_i), np.full(len(rows), 2.0)
            if self.kind == ROOTS:
                size = np.sqrt(size)
                slope = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
            if self.upper is not None:
                slope[(size >= self.target) & (size <= self.upper) & (self.target != self.upper)] = 0.0
            at_j = -at_i
        if self.weight is not None:
            slope = slope * np.sqrt(self.weight)
        used = slope != 0.0 if self.upper is not None else slice(None)
        values = (slope[:, None] * np.hstack([at_i, at_j]))[used]
        ends = [(end[used, None] * rank + np.arange(rank)) for end in (rows, cols)]
        begin = np.arange(0, values.size + 1, 2 * rank)
        J = sp.csr_array((values.ravel(), np.hstack(ends).ravel(), begin), shape=(len(values), X.size))
        return (J.T @ J).tocsc()

    def core(self, degree: float, rank: int) -> tuple[Self, NDArray[np.bool_]] | None:
        """Return the pairs among part of the points, each in about ``degree`` of them, and which points; or None.

        Points with fewer than 2(r + 1) pairs in it are left out, and at least half of it must remain.
        """
        from quartic.losses.pairs.placement import choose_core

        share = degree * self.n_points / (2 * len(self))
        chosen, rows, kept = choose_core(self.start, self.cols, share, 2 * (rank + 1))
        if chosen.sum() < 0.5 * share * self.n_points or not chosen.any():
            return None
        number = np.cumsum(chosen) - 1
        counts = np.bincount(rows, minlength=self.n_points)[chosen]
        start, cols = np.concatenate([[0], np.cumsum(counts)]), number[self.cols[kept]].astype(np.int32)
        given = {name: getattr(self, name) for name in ("target", "weight", "upper")}
        picked: dict[str, Any] = {name: None if A is None else A[kept] for name, A in given.items()}
        return replace(self, start=start, cols=cols, **picked), chosen
