"""Pairs (i, j) with what is known of them: sorted by row, each once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import Array, float_type, inner, namespace, space_of, to_host, total
from quartic.arrays.checks import count
from quartic.core.units import exponent, shifted
from quartic.losses.factor.spectrum import collatz_wielandt

#: What is known of a pair: ⟨x_i, x_j⟩; ‖x_i − x_j‖²; an interval that holds ‖x_i − x_j‖²; one that holds ‖x_i − x_j‖;
#: or, of all pairs i < j, ‖x_i − x_j‖ in a matrix.
ENTRIES, SQUARES, BOUNDS, ROOTS, COMPLETE = range(5)


#: What is asked of a pass, and what it gives (`Pairs.run`).
VALUE, REMAINDER, LINE, HESSIAN, LINEARIZE, PRODUCT, QUARTIC = range(7)

# So many wedges, two pairs of one point, tell whether pairs are those of near points.
_WEDGES = 64

# At least so many pairs in a chunk of rows, so many for each row of the result it fills, and at most so many chunks.
_PAIRS_IN_A_CHUNK, _PAIRS_FOR_A_ROW, _MOST_CHUNKS = 32768, 16, 8


@dataclass(frozen=True)
class Pairs:
    """Pairs sorted by row, then column, with i ≤ j and each once; of tensors each in the rows of both its points.

    ``kind`` is one of the five above. The pairs of a row begin at ``start``; ``cols`` are their columns, None for all
    pairs. ``target`` is the known value, or a lower bound where ``upper`` has the upper one; for all pairs the matrix
    of their distances, not squared. ``weight`` None stands for 1. A pair stands in ``copies`` rows.
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

    def run(
        self, mode: int, X: Array, Y: Array | None = None, out: Array | None = None, blocks: Array | None = None
    ) -> tuple[float, ...]:
        """Make one pass; return what it sums up, and fill ``out`` (n, r) and ``blocks`` (n, r(r + 1)/2).

        =========  ===  =======================================  =============================================
        mode       Y    returned                                 filled
        =========  ===  =======================================  =============================================
        VALUE           f(X)                                     out: ∇f(X)
        REMAINDER  Y    f(Y), f(Y) − f(X) − ⟨∇f(X), Y − X⟩       out: ∇f(Y)
        LINE       D    c₁ … c₄ of f(X + tD) − f(X)              out (n, 3, r): t, t², t³ of ∇f(X + tD) − ∇f(X)
        HESSIAN    D                                             out: ∇²f(X)[D]
        LINEARIZE       f(X)                                     out: ∇f(X); blocks: the row blocks of JᵀWJ, packed
        PRODUCT    V                                             out: JᵀWJ V
        QUARTIC    D    c₁ … c₄
        =========  ===  =======================================  =============================================

        Remainders are summed from Y − X, pair by pair, so that they keep their digits however close Y is to X.
        """
        if self.copies == 1:
            from quartic.losses.pairs import numba

            return numba.run(mode, X, Y, self, out, blocks)
        from quartic.losses.pairs import torch

        return cast(tuple[float, ...], torch.run(mode, X, Y, self, out, blocks))

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
    def rows(self) -> Any:
        """The row of each pair, in their order."""
        if self.copies > 1:
            from quartic.losses.pairs.torch import rows_of

            return rows_of(self)
        return np.repeat(np.arange(self.n_points, dtype=np.int32), np.diff(self.start))

    @cached_property
    def chunks(self) -> RowChunks:
        """How passes cut the rows into chunks: worked out once."""
        return RowChunks(self.start)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the memory of the passes."""
        return {name: value for name, value in self.__dict__.items() if name != "chunks"}

    def _with(self, change: Callable[[str, Any], Any], **others: Any) -> Self:
        """Return the pairs with what is known of them changed, by name, and perhaps others of their arrays."""
        given = {name: getattr(self, name) for name in ("target", "weight", "upper")}
        changed: dict[str, Any] = {name: None if A is None else change(name, A) for name, A in given.items()}
        return replace(self, **changed, **others)

    def scaled(self, value: int, weight: int) -> Self:
        """Return the pairs with values times 2^value and weights times 2^weight."""
        return self._with(lambda name, A: shifted(A, weight if name == "weight" else value))

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

    def weights(self) -> Any:
        """Return the weights in float64, ones where there are none."""
        space = self.space
        return space.astype(space.xp.ones_like(self.target) if self.weight is None else self.weight, np.float64)

    def is_local(self) -> bool:
        """Tell from a few pairs (i, j), (i, k) whether (j, k) is there far more often than if all were drawn at random.

        True where that cannot be told.
        """
        n, generator = self.n_points, np.random.default_rng(0)
        if self.kind not in (SQUARES, ROOTS):
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
        if self.copies > 1:
            return self.matrix(values)(self.space.astype(self.space.xp.ones_like(self.start[1:]), np.float64))
        from quartic.losses.pairs.numba import sum_by_point

        sums: Array = sum_by_point(self.start, self.cols, values)
        return sums

    def matrix(self, entries: Array) -> Callable[[Array], Array]:
        """Return the product with the symmetric matrix that has these entries at the pairs, and 0 elsewhere."""
        if self.copies > 1:
            from quartic.losses.pairs.torch import symmetric_product

            return cast(Callable[[Array], Array], symmetric_product(self, entries))
        import scipy.sparse as sp

        upper = sp.csr_array((entries, self.cols, self.start), shape=(self.n_points, self.n_points))
        return lambda V: upper @ V + upper.T @ V

    def sum_of_neighbours(self, x: Array) -> Array:
        """Return Σ w_ij x_j for each point i, over its pairs: the product with the weighted adjacency matrix."""
        return self.matrix(self.weights())(x)

    def centred(self) -> tuple[Callable[[Array], Array], float] | None:
        """Return the product with −½w(d − m_i − m_j + m) at the pairs, 0 elsewhere, and where Wigner's noise would end.

        See `quartic.init.relaxed`: m_i is the mean of the known d of point i, m that of all.
        """
        xp, d, w = self.space.xp, self.space.astype(self.target, np.float64), self.weights()
        w, i, j = w / w.mean(), self.rows, self.cols if self.copies == 1 else self.cols.long()
        weights = self.sum_by_point(w)
        mean = self.sum_by_point(w * d) / xp.where(weights > 0, weights, 1.0)
        entries = self.space.astype(-0.5 * w * (d - mean[i] - mean[j] + (w * d).mean()), self.dtype)
        squares = 2 / self.copies * float(inner(entries, entries))
        return self.matrix(entries), 2 * math.sqrt(squares / self.n_points)

    def degrees(self) -> tuple[Array, float, float]:
        """Return Σ w·b over each point's pairs, Σ (w·b)² and Σ w·b² over all pairs; b is d² where all d are known."""
        if self.kind == COMPLETE:
            rows, step, fourth = np.empty(self.n_points), max(1, 2**19 // self.n_points), 0.0
            for first in range(0, self.n_points, step):  # nothing of the size of the matrix is made
                squares = self.target[first : first + step].astype(np.float64) ** 2
                rows[first : first + step] = squares.sum(axis=1)
                fourth += 0.5 * float(np.einsum("ij,ij->", squares, squares))
            return rows, fourth, fourth
        b = self.space.astype(self.target, np.float64)
        wb = b if self.weight is None else self.weight * b
        squares = inner(wb, wb) / self.copies
        return self.sum_by_point(wb), squares, squares if wb is b else inner(wb, b) / self.copies

    def largest_eigenvalue(self, rounds: int) -> float:
        """Return an upper bound of λ_max of the weighted degrees plus the weighted adjacency matrix."""
        w = self.weights()
        return bound_by_degrees(self.sum_by_point(w), self.matrix(w), rounds)

    def exponent_of_points(self) -> int | None:
        """Return log₂ of about the size of the points that the values ask for."""
        return self.exponents()[0]

    def size(self) -> tuple[str, float]:
        """Return the number of pairs in words, and about how many bytes they take, each in two rows."""
        each = np.dtype(self.dtype).itemsize * (1 if self.weight is None else 2) + 4
        return f"{count(self.n_points, 'point')} with {count(len(self), 'pair')}", 2.0 * len(self) * each

    def heaviest(self) -> float:
        """Return the largest weight."""
        return 1.0 if self.weight is None else float(self.weight.max())

    def total_weight(self) -> float:
        """Return Σ w."""
        return float(len(self)) if self.weight is None else float(total(self.weight)) / self.copies

    def checksum(self) -> str:
        """Return sums that tell these pairs from others."""
        if self.kind == COMPLETE:
            rows, fourth, _ = self.degrees()
            return f"rows={float(rows @ np.arange(len(rows)))!r} fourth={fourth!r}"
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
        return self._with(lambda _, A: to_host(A)[kept], start=begin, cols=cols[kept], copies=1)

    def gauss_newton_matrix(self, X: Array) -> Any:
        """Return JᵀWJ, assembled from J, whose row for a pair (i, j) has 2r entries; within its bounds it has none."""
        import scipy.sparse as sp

        rank, (ends, values) = X.shape[1], self._gradients(X)
        places = [(end[:, None] * rank + np.arange(rank)) for end in ends]
        begin = np.arange(0, values.size + 1, 2 * rank)
        J = sp.csr_array((values.ravel(), np.hstack(places).ravel(), begin), shape=(len(values), X.size))
        return (J.T @ J).tocsc()

    def row_blocks(self, X: Array) -> Array:
        """Return the row blocks of JᵀWJ, packed: for X of more columns than a pass has blocks for."""
        (n, rank), (k, l) = X.shape, np.tril_indices(X.shape[1])
        if self.kind == COMPLETE:  # 4 Σ_j (x_i − x_j)(x_i − x_j)ᵀ, of centred points
            X = X - X.mean(axis=0, dtype=np.float64)
            blocks: Array = 4 * (n * X[:, k] * X[:, l] + (X.T @ X)[k, l])
            return blocks
        (ends, values), B = self._gradients(X), np.zeros((n, len(k)))
        twice = ends[0] == ends[1]  # an entry of the diagonal has both its gradients in one block
        values[twice, :rank] += values[twice, rank:]
        values[twice, rank:] = 0.0
        for end, u in zip(ends, np.hsplit(values, 2), strict=True):
            for at in range(len(k)):
                B[:, at] += np.bincount(end, u[:, k[at]] * u[:, l[at]], n)
        return B

    def _gradients(self, X: Array) -> tuple[list[Any], Array]:
        """Return the two ends of the pairs, and the gradients there of their weighted residuals, side by side."""
        X = X.astype(np.float64, copy=False)
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
        return [rows[used], cols[used]], (slope[:, None] * np.hstack([at_i, at_j]))[used]

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
        return self._with(lambda _, A: A[kept], start=start, cols=cols), chosen


class RowChunks:
    """How the rows of a list of pairs are cut for several threads: fixed chunks, each with sums of its own.

    A pair (i, j) adds to row i and to row j of the result. Two threads must not add to one row at the same time, and
    which comes first must not change the bits. So the rows are cut into chunks by the data alone, each chunk fills a
    result of its own, and those are added in order; on one thread too. It pays where there are many more pairs than
    entries of the result; elsewhere there is one chunk, and the pass is what it would be without this.

    Pairs are sorted by row with i ≤ j: a chunk adds to no row before its first.
    """

    def __init__(self, start: NDArray[np.int64]) -> None:
        n, m = len(start) - 1, int(start[-1])
        most = max(1, min(_MOST_CHUNKS, m // _PAIRS_IN_A_CHUNK, m // max(1, _PAIRS_FOR_A_ROW * n)))
        n_chunks = 1 << (most.bit_length() - 1)  # a power of two: equal shares for two threads, for four …
        inner = np.searchsorted(start, [m * k / n_chunks for k in range(1, n_chunks)])
        #: chunk k has the rows ``bounds[k]`` to ``bounds[k + 1]`` − 1
        self.bounds = np.array([0, *inner, n])
        self._rooms: list[Array] = []

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def take_room(self, size: int) -> Array:
        """Return an array of so many float64, which no other pass has, and which begins at a cache line."""
        try:
            room = self._rooms.pop()
        except IndexError:
            room = np.empty(0)
        if len(room) < size:
            room = np.empty(size + 8)
            room = room[-room.ctypes.data % 64 // 8 :]
        return room

    def leave_room(self, room: Array) -> None:
        """Keep the array for the next pass: one for records, one for sums; those of several threads would add up."""
        if len(self._rooms) < 2:
            self._rooms.append(room)


def bound_by_degrees(degree: Array, adjacency: Callable[[Array], Array], rounds: int) -> float:
    """Return an upper bound of λ_max of the degrees plus the adjacency matrix, from powers of it."""
    largest = float(degree.max())
    x = namespace(degree).sqrt(degree) + 1e-3 * math.sqrt(largest)
    return min(2 * largest, collatz_wielandt(lambda x: degree * x + adjacency(x), x, rounds))
