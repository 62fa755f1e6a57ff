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
from itertools import product
from typing import Any

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import extending, types
from numba.core.cgutils import alloca_once_value, for_range
from numba.core.datamodel import models
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


def lanes_for(rank: int) -> tuple[float, ...]:
    """Return the tuple that stands for the vectors of a rank: the next power of two, 32 where there are several."""
    return (0.0,) * min(1 << (rank - 1).bit_length(), 32)


@intrinsic
def nothing(typingctx: Any, lanes: Any) -> Any:
    """Return zero."""
    kind = Lanes(len(lanes))

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.VectorType(_DOUBLE, kind.width)(None)

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

    return types.void(A, types.int64, types.int64, v), code


@intrinsic
def dot(typingctx: Any, a: Any, b: Any) -> Any:
    """Return ⟨a, b⟩."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        terms = builder.fmul(*args, flags=_FAST)
        kind = ir.FunctionType(_DOUBLE, [_DOUBLE, terms.type])
        reduce = builder.module.declare_intrinsic(f"llvm.vector.reduce.fadd.v{a.width}f64", (), kind)
        return builder.call(reduce, [_DOUBLE(-0.0), terms], fastmath=_FAST)

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

    return types.void(A, types.int64, types.int64, types.float64, u), code


@cache
def where_squared(width: int) -> NDArray[np.int64]:
    """Return where the entries of uuᵀ lie in a turned one."""
    k, l = np.indices((width, width))
    d = abs(k - l)
    return np.where(d <= width // 2, d * width + np.minimum(k, l), (width - d) * width + np.maximum(k, l))


@intrinsic
def prefetch(typingctx: Any, A: Any, i: Any, at: Any) -> Any:
    """Ask for the cache line of ``A[i, at]``, which will be needed soon."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _I8.as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, _I32, _I32, _I32])
        asked = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        place = builder.bitcast(_place(context, builder, signature.args[0], *args), pointer)
        builder.call(asked, [place, _I32(0), _I32(3), _I32(1)])

    return types.void(A, types.int64, types.int64), code


def _define(operation: Any, instruction: str, *kinds: Any) -> None:
    """Let compiled code write ``a + b``, ``a - b`` or ``number * a``: what it is, and how it is done."""

    @extending.type_callable(operation)
    def typed(context: Any) -> Any:
        return lambda a, b: b if isinstance(b, Lanes) and (a == b or isinstance(a, kinds[0])) else None

    @extending.lower_builtin(operation, *kinds)
    def lowered(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a, b = args
        if kinds[0] is not Lanes:
            a = _spread(builder, context.cast(builder, a, signature.args[0], types.float64), signature.args[1].width)
        return getattr(builder, instruction)(a, b, flags=_FAST)


_define(operator.add, "fadd", Lanes, Lanes)
_define(operator.sub, "fsub", Lanes, Lanes)
_define(operator.mul, "fmul", types.Number, Lanes)


# -- tiles ------------------------------------------------------------------------------------------------------------


def _at(builder: Any, pointer: Any, *index: Any) -> Any:
    """Return the address ``pointer + Σ index``."""
    for k in index:
        pointer = builder.gep(pointer, [k if isinstance(k, ir.Value) else _I64(k)])
    return pointer


def _tile(builder: Any, size: int, first: Any, last: Any, left: Any, right: Any, lines: list[Any], add: bool) -> None:
    """Set, or ``add`` to, ``size`` entries from each of the addresses ``lines``: Σ left(k)[h] · the vector at right(k).

    k goes from first to last − 1. The sums are of the type of the results, and stay in registers, in vectors whose
    lengths are powers of two; a term is rounded once where the machine can.
    """
    wide, once = lines[0].type.pointee, ("contract",)
    lengths = [32] * (size // 32) + [1 << k for k in (4, 3, 2, 1, 0) if size % 32 >> k & 1]
    parts = [(sum(lengths[:k]), length) for k, length in enumerate(lengths)]
    places = [(_at(builder, line, offset), length) for line in lines for offset, length in parts]
    totals = [
        alloca_once_value(builder, _load(builder, place, length, wide) if add else ir.VectorType(wide, length)(None))
        for place, length in places
    ]
    with for_range(builder, last, first) as loop:
        there, pointers = right(loop.index), left(loop.index)
        factors = [_load(builder, _at(builder, there, offset), length, wide) for offset, length in parts]
        for total, (pointer, factor) in zip(totals, product(pointers, factors), strict=True):
            one = builder.load(pointer)
            one = one if one.type == wide else builder.fpext(one, wide)
            term = builder.fmul(_spread(builder, one, factor.type.count), factor, flags=once)
            builder.store(builder.fadd(builder.load(total), term, flags=once), total)
    for total, (place, _) in zip(totals, places, strict=True):
        _store(builder, place, builder.load(total))


@intrinsic
def sparse_row(
    typingctx: Any, lanes: Any, cols: Any, values: Any, X: Any, Y: Any, i: Any, first: Any, last: Any
) -> Any:
    """Y[i] = Σ_p values[p]·X[cols[p]] over the entries first ≤ p < last, X and Y having ``width`` columns.

    Up to ``_PANEL`` columns are summed at once.
    """
    width = len(lanes)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        indices, entries, x, y = (_array(context, builder, signature.args[k], args[k])[0] for k in range(1, 5))
        i, first, last = args[5:]
        for column in range(0, width, _PANEL):

            def row(p: Any, column: int = column) -> Any:
                j = builder.load(_at(builder, indices, p))
                j = j if j.type == _I64 else builder.sext(j, _I64)
                return _at(builder, x, builder.mul(j, _I64(width)), column)

            line = _at(builder, y, builder.mul(i, _I64(width)), column)
            size = min(_PANEL, width - column)
            _tile(builder, size, first, last, lambda p: [_at(builder, entries, p)], row, [line], add=False)

    return types.void(lanes, cols, values, X, Y, *(types.int64,) * 3), codegen


@intrinsic
def multiply_tile(
    typingctx: Any, turned: Any, A: Any, B: Any, C: Any, count: Any, row: Any, column: Any, width: Any
) -> Any:
    """C[row + h, column:column + width] = Σ_k A[row + h, k]·B[k, column:column + width] over k < count, for 0 ≤ h < 4.

    With a number in the tuple ``turned`` it is C += AᵀB. The width is not known before: there is a loop for each that a
    tile may have on this machine.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        (a, inner), (b, columns), (c, stride) = (
            _array(context, builder, signature.args[k], args[k]) for k in (1, 2, 3)
        )
        count, row, column, width = args[4:]
        rows = [builder.add(row, _I64(h)) for h in range(4)]
        lines = [_at(builder, c, builder.mul(i, stride), column) for i in rows]

        def left(k: Any) -> list[Any]:
            if len(turned):
                return [_at(builder, a, builder.mul(k, inner), row, h) for h in range(4)]
            return [_at(builder, a, builder.mul(i, inner), k) for i in rows]

        def right(k: Any) -> Any:
            return _at(builder, b, builder.mul(k, columns), column)

        for size in range(4, WIDEST + 1, 4):
            with builder.if_then(builder.icmp_signed("==", width, _I64(size))):
                _tile(builder, size, _I64(0), count, left, right, lines, add=len(turned) > 0)

    return types.void(turned, A, B, C, *(types.int64,) * 4), codegen
