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


def widest_tile() -> int:
    """Return how many columns four rows of sums may have without leaving the registers of this machine."""
    features = llvmlite.binding.get_host_cpu_features()
    return 32 if features.get("avx512f", False) else 8


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


@intrinsic
def rows_times_small(typingctx: Any, rows: Any, lanes: Any, X: Any, A: Any, W: Any, row: Any, column: Any) -> Any:
    """W[row + h, column:column + width] = Σ_k X[row + h, k]·A[k, column:column + width] for 0 ≤ h < len(rows)."""
    height, lengths = len(rows), _powers_of_two(len(lanes))
    offsets = [sum(lengths[:k]) for k in range(len(lengths))]

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        loop = _Loop(context, builder, signature, args)
        x, kind, inner = loop.array(2)
        a, _, columns = loop.array(3)
        w, _, stride = loop.array(4)
        row, column = args[5:]
        left = [loop.at(x, builder.mul(builder.add(row, _I64(h)), inner)) for h in range(height)]

        def term(k: Any, totals: list[Any]) -> list[Any]:
            here = loop.at(a, builder.mul(k, columns), column)
            right = [loop.vector(loop.at(here, o), kind, n, kind) for o, n in zip(offsets, lengths, strict=True)]
            return loop.outer(totals, [loop.at(left[h], k) for h in range(height)], kind, right)

        totals = loop.sums(_I64(0), inner, [_zero(kind, n) for _ in range(height) for n in lengths], term)
        for h in range(height):
            place = loop.at(w, builder.mul(builder.add(row, _I64(h)), stride), column)
            for k, offset in enumerate(offsets):
                loop.store(totals[h * len(lengths) + k], loop.at(place, offset), kind)
        return context.get_dummy_value()

    return types.void(rows, lanes, X, A, W, types.int64, types.int64), codegen


@intrinsic
def add_to_gram(
    typingctx: Any, rows: Any, lanes: Any, A: Any, B: Any, S: Any, first: Any, last: Any, row: Any, column: Any
) -> Any:
    """S[row + h, column:column + width] += Σ_i A[i, row + h]·B[i, column:column + width], in float64."""
    height, lengths = len(rows), _powers_of_two(len(lanes))
    offsets = [sum(lengths[:k]) for k in range(len(lengths))]

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        loop = _Loop(context, builder, signature, args)
        a, kind, left = loop.array(2)
        b, _, right = loop.array(3)
        s, wide, columns = loop.array(4)
        first, last, row, column = args[5:]
        lines = [loop.at(s, builder.mul(builder.add(row, _I64(h)), columns), column) for h in range(height)]
        places = [(loop.at(line, o), n) for line in lines for o, n in zip(offsets, lengths, strict=True)]

        def term(i: Any, totals: list[Any]) -> list[Any]:
            there = loop.at(b, builder.mul(i, right), column)
            factors = [loop.vector(loop.at(there, o), kind, n, wide) for o, n in zip(offsets, lengths, strict=True)]
            here = loop.at(a, builder.mul(i, left), row)
            return loop.outer(totals, [loop.at(here, h) for h in range(height)], kind, factors)

        totals = loop.sums(first, last, [loop.vector(place, wide, n, wide) for place, n in places], term)
        for total, (place, _) in zip(totals, places, strict=True):
            loop.store(total, place, wide)
        return context.get_dummy_value()

    return types.void(rows, lanes, A, B, S, *(types.int64,) * 4), codegen


# -- blocks of rows ---------------------------------------------------------------------------------------------------

# Rows of a block: with 40 columns in double precision 20 kB, beside the small matrix, stay in the first cache.
BLOCK = 64

_WIDEST = widest_tile()
_4, _8, _12, _16, _20, _24, _28, _32 = ((0.0,) * width for width in range(4, 33, 4))


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
    right = A.shape[1]
    for i in range(0, rows, 4):
        # from the right: what a tile writes behind its row is overwritten by the tiles of the next
        end = right
        while end > 0:
            width = _next_width(end)
            end -= width
            if width == 4:
                rows_times_small(_4, _4, Y, A, W, i, end)
            elif width == 8:
                rows_times_small(_4, _8, Y, A, W, i, end)
            elif width == 12:
                rows_times_small(_4, _12, Y, A, W, i, end)
            elif width == 16:
                rows_times_small(_4, _16, Y, A, W, i, end)
            elif width == 20:
                rows_times_small(_4, _20, Y, A, W, i, end)
            elif width == 24:
                rows_times_small(_4, _24, Y, A, W, i, end)
            elif width == 28:
                rows_times_small(_4, _28, Y, A, W, i, end)
            else:
                rows_times_small(_4, _32, Y, A, W, i, end)


@njit(**INNER)
def add_upper_gram(rows: int, Y: Any, S: Any) -> None:
    """S += YᵀY for the first rows of a block; what counts is on and above the diagonal, within the columns of Y."""
    for row in range(0, S.shape[0], 4):
        end = S.shape[1]
        while end > row:
            width = _next_width(end - row)
            end -= width
            if width == 4:
                add_to_gram(_4, _4, Y, Y, S, 0, rows, row, end)
            elif width == 8:
                add_to_gram(_4, _8, Y, Y, S, 0, rows, row, end)
            elif width == 12:
                add_to_gram(_4, _12, Y, Y, S, 0, rows, row, end)
            elif width == 16:
                add_to_gram(_4, _16, Y, Y, S, 0, rows, row, end)
            elif width == 20:
                add_to_gram(_4, _20, Y, Y, S, 0, rows, row, end)
            elif width == 24:
                add_to_gram(_4, _24, Y, Y, S, 0, rows, row, end)
            elif width == 28:
                add_to_gram(_4, _28, Y, Y, S, 0, rows, row, end)
            else:
                add_to_gram(_4, _32, Y, Y, S, 0, rows, row, end)
