"""Products whose sums stay in vector registers: a sparse matrix times a tall one, and blocks of rows times r × r.

Three loops carry the products with sparse matrices and the r × r work of tall arrays. Each takes a tile of ``width``
columns, known when compiled, and keeps its sums in LLVM vectors of that length; left to itself the compiler writes a
sum back to memory at every term. The width is that of the tuple ``lanes``, ``(0.0,) * width``. Every entry of a result
is summed in the order of its terms, whatever the tile: the same bits for any tiling. Arrays must be C-ordered; indices
are not checked.

Blocks of a tall matrix are multiplied while they are in the first cache: as fast as BLAS on whole arrays, and in the
middle of a pass. What a block of rows is multiplied into is used before it leaves the cache. Four rows (of the result)
at a time, in tiles of columns that fit the registers, all of about the same width. Tiles are multiples of four columns
wide. So a small matrix has its columns padded to such a multiple (`padded`), and a block is a scratch array with room
behind its last row (`block`): what a tile reads or writes beyond the end of a row is the beginning of the next, and
counts for nothing.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import extending, types
from numba.core import cgutils

from quartic.compiled.flags import INNER, njit

# -- the loops in LLVM ------------------------------------------------------------------------------------------------

intrinsic: Any = extending.intrinsic

_I64, _I32 = ir.IntType(64), ir.IntType(32)

# So many columns of a sparse product are summed at once: 48 sums in double precision fit the registers of AVX2.
_PANEL = 48


# So many columns may four rows of sums have without leaving the registers of this machine.
_WIDEST = 32 if llvmlite.binding.get_host_cpu_features().get("avx512f", False) else 8


class _Loop:
    """The pieces that the loops below are made of."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any) -> None:
        self.builder = builder
        self.context = context
        self.signature, self.args = signature, args

    def array(self, position: int) -> tuple[Any, Any, Any]:
        """Return the data pointer, the LLVM type of an entry, and the length of a row."""
        kind = self.signature.args[position]
        made = self.context.make_array(kind)(self.context, self.builder, self.args[position])
        columns = self.builder.extract_value(made.shape, kind.ndim - 1)
        return made.data, self.context.get_value_type(kind.dtype), columns

    def at(self, pointer: Any, *index: Any) -> Any:
        """Return the address ``pointer + Σ index``."""
        for k in index:
            pointer = self.builder.gep(pointer, [k if isinstance(k, ir.Value) else _I64(k)])
        return pointer

    def integer(self, pointer: Any, index: Any) -> Any:
        """Load an integer of any width, as one of 64 bits."""
        value = self.builder.load(self.at(pointer, index))
        return value if value.type == _I64 else self.builder.sext(value, _I64)

    def vector(self, pointer: Any, kind: Any, lanes: int, wide: Any) -> Any:
        """Load neighbouring entries, and widen them to ``wide``."""
        loaded = self.builder.load(self.builder.bitcast(pointer, ir.VectorType(kind, lanes).as_pointer()))
        loaded.align = 8 if isinstance(kind, ir.DoubleType) else 4
        return loaded if kind == wide else self.builder.fpext(loaded, ir.VectorType(wide, lanes))

    def spread(self, pointer: Any, kind: Any, lanes: int, wide: Any) -> Any:
        """Load one entry into every lane."""
        one = self.builder.load(pointer)
        if kind != wide:
            one = self.builder.fpext(one, wide)
        empty = ir.Constant(ir.VectorType(wide, lanes), ir.Undefined)
        first = self.builder.insert_element(empty, one, _I32(0))
        return self.builder.shuffle_vector(first, empty, ir.Constant(ir.VectorType(_I32, lanes), [0] * lanes))

    def store(self, value: Any, pointer: Any, kind: Any) -> None:
        """Store a vector."""
        stored = self.builder.store(value, self.builder.bitcast(pointer, value.type.as_pointer()))
        stored.align = 8 if isinstance(kind, ir.DoubleType) else 4

    def multiply_add(self, total: Any, a: Any, b: Any) -> Any:
        """Return total + ab, rounded once where the machine can."""
        product = self.builder.fmul(a, b, flags=("contract",))
        return self.builder.fadd(total, product, flags=("contract",))

    def outer(self, totals: list[Any], left: list[Any], kind: Any, right: list[Any]) -> list[Any]:
        """Add to the totals, row by row, the entries at the addresses ``left`` times the vectors ``right``."""
        sums = []
        for h, pointer in enumerate(left):
            for k, factor in enumerate(right):
                entry = self.spread(pointer, kind, factor.type.count, factor.type.element)
                sums.append(self.multiply_add(totals[h * len(right) + k], entry, factor))
        return sums

    def sums(self, first: Any, last: Any, begin: list[Any], term: Any) -> list[Any]:
        """Return ``begin`` with ``term(index, totals)`` applied for each index from first to last − 1."""
        builder = self.builder
        entry = builder.block
        head, body, done = (builder.append_basic_block(name) for name in ("head", "body", "done"))
        builder.branch(head)
        builder.position_at_end(head)
        index = builder.phi(_I64)
        index.add_incoming(first, entry)
        totals = [builder.phi(value.type) for value in begin]
        for total, value in zip(totals, begin, strict=True):
            total.add_incoming(value, entry)
        builder.cbranch(builder.icmp_signed("<", index, last), body, done)
        builder.position_at_end(body)
        following = term(index, totals)
        index.add_incoming(builder.add(index, _I64(1)), builder.block)
        for total, value in zip(totals, following, strict=True):
            total.add_incoming(value, builder.block)
        builder.branch(head)
        builder.position_at_end(done)
        return totals


def _zero(kind: Any, lanes: int) -> Any:
    return ir.Constant(ir.VectorType(kind, lanes), [0.0] * lanes)


def _powers_of_two(width: int, most: int = 32) -> list[int]:
    """Return vector lengths that add up to ``width``, each a power of two."""
    lengths = [most] * (width // most)
    return lengths + [1 << k for k in reversed(range(most.bit_length() - 1)) if width % most >> k & 1]


@intrinsic
def sparse_rows(
    typingctx: Any, lanes: Any, start: Any, cols: Any, values: Any, X: Any, Y: Any, first: Any, last: Any
) -> Any:
    """Y[i] = Σ_p values[p]·X[cols[p]] over the entries p of row i, for the rows first ≤ i < last.

    X and Y have ``width`` columns. Up to ``_PANEL`` columns are summed at once, each row of M being read once for all.
    """
    width = len(lanes)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        loop = _Loop(context, builder, signature, args)
        starts, indices = loop.array(1)[0], loop.array(2)[0]
        entries, entry_kind, _ = loop.array(3)
        x, kind, _ = loop.array(4)
        y = loop.array(5)[0]
        first, last = args[6:]
        with cgutils.for_range_slice(builder, first, last, _I64(1), _I64) as (i, _):
            begin, end = loop.integer(starts, i), loop.integer(starts, builder.add(i, _I64(1)))
            for column in range(0, width, _PANEL):
                lengths = _powers_of_two(min(_PANEL, width - column))
                offsets = [column + sum(lengths[:k]) for k in range(len(lengths))]

                def term(p: Any, totals: list[Any], lengths: Any = lengths, offsets: Any = offsets) -> list[Any]:
                    row = loop.at(x, builder.mul(loop.integer(indices, p), _I64(width)))
                    entry = loop.at(entries, p)
                    return [
                        loop.multiply_add(
                            total,
                            loop.spread(entry, entry_kind, length, kind),
                            loop.vector(loop.at(row, offset), kind, length, kind),
                        )
                        for total, length, offset in zip(totals, lengths, offsets, strict=True)
                    ]

                totals = loop.sums(begin, end, [_zero(kind, length) for length in lengths], term)
                place = loop.at(y, builder.mul(i, _I64(width)))
                for total, offset in zip(totals, offsets, strict=True):
                    loop.store(total, loop.at(place, offset), kind)
        return context.get_dummy_value()

    return types.void(lanes, start, cols, values, X, Y, types.int64, types.int64), codegen


def _tiles(
    loop: _Loop, width: Any, count: Any, left: Any, right: Any, lines: list[Any], kind: Any, wide: Any, add: bool
) -> None:
    """Set, or add to, ``width`` entries from each of the addresses ``lines`` on: Σ left(k)[h] · the vector at right(k).

    k goes from 0 to ``count`` − 1. Entries are of a ``kind``, sums and results of a ``wide`` one. The width is any of
    those a tile may have on this machine: there is a loop for each.
    """
    for size in range(4, _WIDEST + 1, 4):
        with loop.builder.if_then(loop.builder.icmp_signed("==", width, _I64(size))):
            lengths = _powers_of_two(size)
            offsets = [sum(lengths[:k]) for k in range(len(lengths))]
            places = [(loop.at(line, o), n) for line in lines for o, n in zip(offsets, lengths, strict=True)]

            def term(k: Any, totals: list[Any], lengths: Any = lengths, offsets: Any = offsets) -> list[Any]:
                there = right(k)
                factors = [loop.vector(loop.at(there, o), kind, n, wide) for o, n in zip(offsets, lengths, strict=True)]
                return loop.outer(totals, left(k), kind, factors)

            begin = [loop.vector(place, wide, n, wide) if add else _zero(wide, n) for place, n in places]
            for total, (place, _) in zip(loop.sums(_I64(0), count, begin, term), places, strict=True):
                loop.store(total, place, wide)


@intrinsic
def rows_times_small(typingctx: Any, X: Any, A: Any, W: Any, row: Any, column: Any, width: Any) -> Any:
    """W[row + h, column:column + width] = Σ_k X[row + h, k]·A[k, column:column + width] for 0 ≤ h < 4."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        loop = _Loop(context, builder, signature, args)
        (x, kind, inner), (a, _, columns), (w, _, stride) = (loop.array(k) for k in range(3))
        row, column, width = args[3:]
        rows = [builder.add(row, _I64(h)) for h in range(4)]
        left = [loop.at(x, builder.mul(i, inner)) for i in rows]
        _tiles(
            loop, width, inner, lambda k: [loop.at(line, k) for line in left],
            lambda k: loop.at(a, builder.mul(k, columns), column),
            [loop.at(w, builder.mul(i, stride), column) for i in rows], kind, kind, add=False,
        )  # fmt: skip
        return context.get_dummy_value()

    return types.void(X, A, W, *(types.int64,) * 3), codegen


@intrinsic
def add_to_gram(typingctx: Any, Y: Any, S: Any, count: Any, row: Any, column: Any, width: Any) -> Any:
    """S[row + h, column:column + width] += Σ_i Y[i, row + h]·Y[i, column:column + width] over i < count, in float64."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        loop = _Loop(context, builder, signature, args)
        (y, kind, length), (s, wide, columns) = loop.array(0), loop.array(1)
        count, row, column, width = args[2:]

        def entries(i: Any) -> list[Any]:
            here = loop.at(y, builder.mul(i, length), row)
            return [loop.at(here, h) for h in range(4)]

        _tiles(
            loop, width, count, entries, lambda i: loop.at(y, builder.mul(i, length), column),
            [loop.at(s, builder.mul(builder.add(row, _I64(h)), columns), column) for h in range(4)], kind, wide,
            add=True,
        )  # fmt: skip
        return context.get_dummy_value()

    return types.void(Y, S, *(types.int64,) * 4), codegen


# -- blocks of rows ---------------------------------------------------------------------------------------------------

# Rows of a block: with 40 columns in double precision 20 kB, beside the small matrix, stay in the first cache.
BLOCK = 64


@cache
def padded(rank: int) -> int:
    """Return the least multiple of four that is not below the rank."""
    return -(-rank // 4) * 4


@njit(**INNER)
def block(X: Any) -> Any:
    """Return scratch for a block of rows of X, with room behind."""
    return np.zeros((BLOCK + 36, X.shape[1]), X.dtype)


@njit(**INNER)
def _next_width(columns: int) -> int:
    """Return the width of the last of the tiles that so many columns are cut into evenly."""
    tiles = -(-columns // _WIDEST)
    return columns - (columns // 4) * (tiles - 1) // tiles * 4


@njit(**INNER)
def block_times_small(rows: int, Y: Any, A: Any, W: Any) -> None:
    """W = YA for the first rows of a block; A is small and padded."""
    for i in range(0, rows, 4):
        # from the right: what a tile writes behind its row is overwritten by the tiles of the next
        end = A.shape[1]
        while end > 0:
            width = _next_width(end)
            end -= width
            rows_times_small(Y, A, W, i, end, width)


@njit(**INNER)
def add_upper_gram(rows: int, Y: Any, S: Any) -> None:
    """S += YᵀY for the first rows of a block; what counts is on and above the diagonal, within the columns of Y."""
    for row in range(0, S.shape[0], 4):
        end = S.shape[1]
        while end > row:
            width = _next_width(end - row)
            end -= width
            add_to_gram(Y, S, rows, row, end, width)
