"""LLVM's vectors in compiled passes, for the loops in which numba's compiler does not find them by itself.

It does not join neighbouring scalars into vectors, and writes a sum of several back to memory at every term
(``docs/inside.rst``). There are two uses. A `Lanes` holds a row of ``width`` numbers in float64, filled up with zeros,
which add nothing anywhere: with ``a + b``, ``a - b``, ``number * a`` and the functions below passes over pairs are
written by rows. Three loops, a sparse matrix times a tall one and blocks of rows times r × r, keep the sums of a tile
of columns in registers; every entry is summed in the order of its terms, the same bits for any tiling.

``lanes`` is the tuple ``(0.0,) * width``: how long a tuple is the compiler knows. Arrays are C-ordered, in float64 or
float32; indices are not checked.
"""

from __future__ import annotations

import operator
from functools import cache
from typing import Any

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import extending, types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import register_model
from numpy.typing import NDArray

intrinsic: Any = extending.intrinsic

_I64, _I32, _I8, _DOUBLE = ir.IntType(64), ir.IntType(32), ir.IntType(8), ir.DoubleType()
# What quartic.compiled.flags says of numbers: sums may be reordered and fused.
_FAST = ("contract", "reassoc", "nsz")
# So many columns of a sparse product are summed at once: 48 sums in double precision fit the registers of AVX2.
_PANEL = 48
# So many columns may four rows of sums have without leaving the registers of this machine.
WIDEST = 32 if llvmlite.binding.get_host_cpu_features().get("avx512f", False) else 8


# -- memory -----------------------------------------------------------------------------------------------------------


def _array(context: Any, builder: Any, kind: Any, array: Any) -> tuple[Any, Any]:
    """Return where an array begins, and the length of a row."""
    made = context.make_array(kind)(context, builder, array)
    return made.data, builder.extract_value(made.shape, kind.ndim - 1)


def _place(context: Any, builder: Any, kind: Any, array: Any, i: Any, at: Any) -> Any:
    """Return the address of ``array[i, at]``."""
    first, columns = _array(context, builder, kind, array)
    return builder.gep(first, [builder.add(builder.mul(i, columns), at)])


def _load(builder: Any, place: Any, width: int, wide: Any = _DOUBLE) -> Any:
    """Return neighbouring entries as a vector of a ``wide`` type."""
    entry = place.type.pointee
    loaded = builder.load(builder.bitcast(place, ir.VectorType(entry, width).as_pointer()))
    loaded.align = 8 if entry == _DOUBLE else 4
    return loaded if entry == wide else builder.fpext(loaded, ir.VectorType(wide, width))


def _store(builder: Any, place: Any, v: Any) -> None:
    entry = place.type.pointee
    if entry != v.type.element:
        v = builder.fptrunc(v, ir.VectorType(entry, v.type.count))
    builder.store(v, builder.bitcast(place, v.type.as_pointer())).align = 8 if entry == _DOUBLE else 4


def _spread(builder: Any, number: Any, width: int) -> Any:
    """Return a vector with the number in every lane."""
    empty = ir.Constant(ir.VectorType(number.type, width), ir.Undefined)
    first = builder.insert_element(empty, number, _I32(0))
    return builder.shuffle_vector(first, empty, ir.Constant(ir.VectorType(_I32, width), [0] * width))


def _zero(kind: Any, width: int) -> Any:
    return ir.Constant(ir.VectorType(kind, width), [0.0] * width)


# -- rows -------------------------------------------------------------------------------------------------------------


class Lanes(types.Type):
    """The type of a vector of ``width`` numbers."""

    def __init__(self, width: int) -> None:
        self.width = width
        super().__init__(name=f"Lanes({width})")


@register_model(Lanes)
class _OneVector(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Lanes) -> None:
        super().__init__(manager, kind, ir.VectorType(_DOUBLE, kind.width))


def lanes_for(rank: int, most: int = 32) -> tuple[float, ...]:
    """Return the tuple that stands for the vectors of a rank: the next power of two, or ``most`` of several."""
    return (0.0,) * min(1 << (rank - 1).bit_length(), most)


@intrinsic
def nothing(typingctx: Any, lanes: Any) -> Any:
    """Return zero."""
    kind = Lanes(len(lanes))

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _zero(_DOUBLE, kind.width)

    return kind(lanes), code


@intrinsic
def load(typingctx: Any, lanes: Any, A: Any, i: Any, at: Any) -> Any:
    """Return ``A[i, at : at + width]``."""
    kind = Lanes(len(lanes))

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _load(builder, _place(context, builder, signature.args[1], *args[1:]), kind.width)

    return kind(lanes, A, types.int64, types.int64), code


@intrinsic
def store(typingctx: Any, A: Any, i: Any, at: Any, v: Any) -> Any:
    """Set ``A[i, at : at + width]`` to v."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _store(builder, _place(context, builder, signature.args[0], *args[:3]), args[3])
        return context.get_dummy_value()

    return types.void(A, types.int64, types.int64, v), code


@intrinsic
def dot(typingctx: Any, a: Any, b: Any) -> Any:
    """Return ⟨a, b⟩."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        product = builder.fmul(*args, flags=_FAST)
        name = f"llvm.vector.reduce.fadd.v{a.width}f64"
        kind = ir.FunctionType(_DOUBLE, [_DOUBLE, product.type])
        reduce = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        return builder.call(reduce, [_DOUBLE(-0.0), product], fastmath=_FAST)

    return types.float64(a, b), code


@intrinsic
def add_square(typingctx: Any, A: Any, i: Any, at: Any, number: Any, u: Any) -> Any:
    """Add number·uuᵀ, *turned*, to what lies from ``A[i, at]`` on.

    Row d of a turned block holds the products u_k u_(k+d) for all k, indices modulo the width. Up to half of that these
    are all there are, and each row is one product of u and itself, turned by d lanes.
    """
    width = u.width

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        first, u = _place(context, builder, signature.args[0], *args[:3]), args[4]
        scaled = builder.fmul(_spread(builder, args[3], width), u, flags=_FAST)
        for d in range(width // 2 + 1):
            turn = [(k + d) % width for k in range(width)]
            turned = builder.shuffle_vector(u, u, ir.Constant(ir.VectorType(_I32, width), turn))
            place = builder.gep(first, [_I64(d * width)])
            sums = builder.fadd(_load(builder, place, width), builder.fmul(scaled, turned, flags=_FAST), flags=_FAST)
            _store(builder, place, sums)
        return context.get_dummy_value()

    return types.void(A, types.int64, types.int64, types.float64, u), code


@cache
def where_squared(width: int) -> NDArray[np.int64]:
    """Return where the entries of uuᵀ lie in a turned one."""
    k, l = np.indices((width, width))
    d = abs(k - l)
    return np.where(d <= width // 2, d * width + np.minimum(k, l), (width - d) * width + np.maximum(k, l))


@intrinsic
def prefetch(typingctx: Any, A: Any, i: Any, at: Any) -> Any:
    """Ask for the cache line of ``A[i, at]``, which will be read and written soon."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _I8.as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, _I32, _I32, _I32])
        asked = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        place = builder.bitcast(_place(context, builder, signature.args[0], *args), pointer)
        builder.call(asked, [place, _I32(1), _I32(3), _I32(1)])
        return context.get_dummy_value()

    return types.void(A, types.int64, types.int64), code


@infer_global(operator.add)
@infer_global(operator.sub)
class _OfTwo(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        """Tell what a + b and a − b are."""
        a, b = args
        return signature(a, a, b) if isinstance(a, Lanes) and a == b else None


@infer_global(operator.mul)
class _Scaled(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        """Tell what number * a is."""
        number, a = args
        return signature(a, types.float64, a) if isinstance(number, types.Number) and isinstance(a, Lanes) else None


@extending.lower_builtin(operator.add, Lanes, Lanes)
def _add(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.fadd(*args, flags=_FAST)


@extending.lower_builtin(operator.sub, Lanes, Lanes)
def _subtract(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.fsub(*args, flags=_FAST)


@extending.lower_builtin(operator.mul, types.Float, Lanes)
def _multiply(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.fmul(_spread(builder, args[0], signature.return_type.width), args[1], flags=_FAST)


# -- tiles ------------------------------------------------------------------------------------------------------------


class _Loop:
    """The pieces that the loops below are made of."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any) -> None:
        self.context, self.builder, self.signature, self.args = context, builder, signature, args

    def array(self, position: int) -> tuple[Any, Any]:
        """Return where an argument begins, and the length of its rows."""
        return _array(self.context, self.builder, self.signature.args[position], self.args[position])

    def at(self, pointer: Any, *index: Any) -> Any:
        """Return the address ``pointer + Σ index``."""
        for k in index:
            pointer = self.builder.gep(pointer, [k if isinstance(k, ir.Value) else _I64(k)])
        return pointer

    def integer(self, pointer: Any, index: Any) -> Any:
        """Load an integer of any width, as one of 64 bits."""
        value = self.builder.load(self.at(pointer, index))
        return value if value.type == _I64 else self.builder.sext(value, _I64)

    def add_product(self, total: Any, pointer: Any, factor: Any) -> Any:
        """Return the total plus the entry at an address times a vector, rounded once where the machine can."""
        one, wide = self.builder.load(pointer), factor.type.element
        one = one if one.type == wide else self.builder.fpext(one, wide)
        product = self.builder.fmul(_spread(self.builder, one, factor.type.count), factor, flags=("contract",))
        return self.builder.fadd(total, product, flags=("contract",))

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
        entries, x, y = (loop.array(k)[0] for k in (3, 4, 5))
        kind = x.type.pointee
        first, last = args[6:]
        with cgutils.for_range_slice(builder, first, last, _I64(1), _I64) as (i, _):
            begin, end = loop.integer(starts, i), loop.integer(starts, builder.add(i, _I64(1)))
            for column in range(0, width, _PANEL):
                lengths = _powers_of_two(min(_PANEL, width - column))
                offsets = [column + sum(lengths[:k]) for k in range(len(lengths))]

                def term(p: Any, totals: list[Any], lengths: Any = lengths, offsets: Any = offsets) -> list[Any]:
                    row = loop.at(x, builder.mul(loop.integer(indices, p), _I64(width)))
                    entry = loop.at(entries, p)
                    there = [_load(builder, loop.at(row, o), n, kind) for o, n in zip(offsets, lengths, strict=True)]
                    return [loop.add_product(total, entry, v) for total, v in zip(totals, there, strict=True)]

                totals = loop.sums(begin, end, [_zero(kind, length) for length in lengths], term)
                place = loop.at(y, builder.mul(i, _I64(width)))
                for total, offset in zip(totals, offsets, strict=True):
                    _store(builder, loop.at(place, offset), total)
        return context.get_dummy_value()

    return types.void(lanes, start, cols, values, X, Y, types.int64, types.int64), codegen


def _tiles(loop: _Loop, width: Any, count: Any, left: Any, right: Any, lines: list[Any], add: bool = False) -> None:
    """Set, or add to, ``width`` entries from each of the addresses ``lines`` on: Σ left(k)[h] · the vector at right(k).

    k goes from 0 to ``count`` − 1, sums are of the type of the results. The width is any of those a tile may have on
    this machine: there is a loop for each.
    """
    builder, wide = loop.builder, lines[0].type.pointee
    for size in range(4, WIDEST + 1, 4):
        with builder.if_then(builder.icmp_signed("==", width, _I64(size))):
            lengths = _powers_of_two(size)
            offsets = [sum(lengths[:k]) for k in range(len(lengths))]
            places = [(loop.at(line, o), n) for line in lines for o, n in zip(offsets, lengths, strict=True)]

            def term(k: Any, totals: list[Any], lengths: Any = lengths, offsets: Any = offsets) -> list[Any]:
                there = right(k)
                factors = [_load(builder, loop.at(there, o), n, wide) for o, n in zip(offsets, lengths, strict=True)]
                each = ((pointer, factor) for pointer in left(k) for factor in factors)
                return [loop.add_product(total, *one) for total, one in zip(totals, each, strict=True)]

            begin = [_load(builder, place, n, wide) if add else _zero(wide, n) for place, n in places]
            for total, (place, _) in zip(loop.sums(_I64(0), count, begin, term), places, strict=True):
                _store(builder, place, total)


@intrinsic
def rows_times_small(typingctx: Any, X: Any, A: Any, W: Any, row: Any, column: Any, width: Any) -> Any:
    """W[row + h, column:column + width] = Σ_k X[row + h, k]·A[k, column:column + width] for 0 ≤ h < 4."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        loop = _Loop(context, builder, signature, args)
        (x, inner), (a, columns), (w, stride) = (loop.array(k) for k in range(3))
        row, column, width = args[3:]
        rows = [builder.add(row, _I64(h)) for h in range(4)]
        left = [loop.at(x, builder.mul(i, inner)) for i in rows]
        _tiles(
            loop, width, inner, lambda k: [loop.at(line, k) for line in left],
            lambda k: loop.at(a, builder.mul(k, columns), column),
            [loop.at(w, builder.mul(i, stride), column) for i in rows],
        )  # fmt: skip
        return context.get_dummy_value()

    return types.void(X, A, W, *(types.int64,) * 3), codegen


@intrinsic
def add_to_gram(typingctx: Any, Y: Any, S: Any, count: Any, row: Any, column: Any, width: Any) -> Any:
    """S[row + h, column:column + width] += Σ_i Y[i, row + h]·Y[i, column:column + width] over i < count, in float64."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        loop = _Loop(context, builder, signature, args)
        (y, length), (s, columns) = loop.array(0), loop.array(1)
        count, row, column, width = args[2:]

        def entries(i: Any) -> list[Any]:
            here = loop.at(y, builder.mul(i, length), row)
            return [loop.at(here, h) for h in range(4)]

        _tiles(
            loop, width, count, entries, lambda i: loop.at(y, builder.mul(i, length), column),
            [loop.at(s, builder.mul(builder.add(row, _I64(h)), columns), column) for h in range(4)], add=True,
        )  # fmt: skip
        return context.get_dummy_value()

    return types.void(Y, S, *(types.int64,) * 4), codegen
