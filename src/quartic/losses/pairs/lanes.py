"""Short vectors inside compiled passes, each in one vector register: the places of points, and what is done with them.

A vector of r ≤ 4 numbers is held in the next power of two of float64 lanes, the rest of them zero. Left to itself the
compiler handles its numbers one by one. Besides the operators ``a + b``, ``a - b`` and ``number * a`` there are the
functions below; vectors exist in compiled code only.

``lanes`` is the tuple ``(0.0,) * r``: its length is known when a pass is compiled. Arrays are C-ordered with two axes,
and indices are not checked.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.core.datamodel import models
from numba.extending import overload, register_model

intrinsic: Any = extending.intrinsic

_I64, _I32, _I8, _DOUBLE = ir.IntType(64), ir.IntType(32), ir.IntType(8), ir.DoubleType()
# What quartic.compiled.flags says of numbers: sums may be reordered and fused.
_FAST = ("contract", "reassoc", "nsz")


class Lanes(types.Type):
    """The type of a vector of ``size`` numbers."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.width = 1 << (size - 1).bit_length()
        super().__init__(name=f"Lanes({size})")


@register_model(Lanes)
class _InOneRegister(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Lanes) -> None:
        super().__init__(manager, kind, ir.VectorType(_DOUBLE, kind.width))  # type: ignore[no-untyped-call]


def _place(context: Any, builder: Any, kind: Any, array: Any, i: Any, at: Any) -> tuple[Any, Any]:
    """Return the address of ``array[i, at]`` and the LLVM type of an entry."""
    made = context.make_array(kind)(context, builder, array)
    offset = builder.add(builder.mul(i, builder.extract_value(made.shape, 1)), at)
    return builder.gep(made.data, [offset]), context.get_value_type(kind.dtype)


def _load(context: Any, builder: Any, kind: Any, array_and_place: Any, width: int) -> Any:
    place, entry = _place(context, builder, kind, *array_and_place)
    loaded = builder.load(builder.bitcast(place, ir.VectorType(entry, width).as_pointer()))
    loaded.align = kind.dtype.bitwidth // 8
    return loaded if entry == _DOUBLE else builder.fpext(loaded, ir.VectorType(_DOUBLE, width))


def _shuffled(builder: Any, a: Any, b: Any, places: list[int]) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_I32, len(places)), places))


def _without_spare(builder: Any, v: Any, size: int) -> Any:
    """Return v with zeros behind its first ``size`` lanes."""
    width = v.type.count
    zero = ir.Constant(v.type, [0.0] * width)
    return v if size == width else _shuffled(builder, v, zero, [*range(size), *range(width, 2 * width - size)])


@intrinsic
def nothing(typingctx: Any, lanes: Any) -> Any:
    """Return zero."""
    kind = Lanes(len(lanes))

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(ir.VectorType(_DOUBLE, kind.width), [0.0] * kind.width)

    return kind(lanes), codegen


@intrinsic
def entries(typingctx: Any, lanes: Any, A: Any, i: Any, at: Any) -> Any:
    """Return ``A[i, at : at + r]``; up to three numbers behind it are read too, and must be there."""
    kind = Lanes(len(lanes))

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _without_spare(builder, _load(context, builder, signature.args[1], args[1:], kind.width), kind.size)

    return kind(lanes, A, types.int64, types.int64), codegen


@intrinsic
def halves(typingctx: Any, lanes: Any, A: Any, i: Any, at: Any) -> Any:
    """Return the r numbers in float32 that lie in place of ``A[i, at:]``; A is float64."""
    kind = Lanes(len(lanes))

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place, _ = _place(context, builder, signature.args[1], *args[1:])
        loaded = builder.load(builder.bitcast(place, ir.VectorType(ir.FloatType(), kind.width).as_pointer()))
        loaded.align = 8
        return _without_spare(builder, builder.fpext(loaded, ir.VectorType(_DOUBLE, kind.width)), kind.size)

    return kind(lanes, A, types.int64, types.int64), codegen


@intrinsic
def sums(typingctx: Any, lanes: Any, A: Any, i: Any, at: Any) -> Any:
    """Return ``A[i, at : at + r]`` for `keep`: what lies in the spare lanes is held too."""
    kind = Lanes(len(lanes))

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _load(context, builder, signature.args[1], args[1:], kind.width)

    return kind(lanes, A, types.int64, types.int64), codegen


@intrinsic
def keep(typingctx: Any, A: Any, i: Any, at: Any, v: Any) -> Any:
    """Write the sums v to ``A[i, at:]``, and what lay behind them, held in the spare lanes, to its place again."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array, i, at, v = args
        place, entry = _place(context, builder, signature.args[0], array, i, at)
        if entry != _DOUBLE:
            v = builder.fptrunc(v, ir.VectorType(entry, v.type.count))
        stored = builder.store(v, builder.bitcast(place, v.type.as_pointer()))
        stored.align = signature.args[0].dtype.bitwidth // 8
        return context.get_dummy_value()

    return types.void(A, types.int64, types.int64, v), codegen


@intrinsic
def dot(typingctx: Any, a: Any, b: Any) -> Any:
    """Return ⟨a, b⟩."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        total = builder.fmul(*args, flags=_FAST)
        while total.type.count > 1:
            half = total.type.count // 2
            low, high = (_shuffled(builder, total, total, list(range(k, k + half))) for k in (0, half))
            total = builder.fadd(low, high, flags=_FAST)
        return builder.extract_element(total, _I32(0))

    return types.float64(a, b), codegen


@intrinsic
def square(typingctx: Any, v: Any) -> Any:
    """Return the lower triangle of v vᵀ, row by row, as one vector of r(r + 1)/2 numbers."""
    size = v.size
    kind = Lanes(size * (size + 1) // 2)
    rows = [k for k in range(size) for _ in range(k + 1)]
    columns = [l for k in range(size) for l in range(k + 1)]
    spare = [v.width] * (kind.width - kind.size)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        zero = ir.Constant(args[0].type, [0.0] * v.width)
        return builder.fmul(
            _shuffled(builder, args[0], zero, rows + spare),
            _shuffled(builder, args[0], zero, columns + spare),
            flags=_FAST,
        )

    return kind(v), codegen


@intrinsic
def prefetch(typingctx: Any, A: Any, i: Any, at: Any) -> Any:
    """Ask for the cache line of ``A[i, at]``, which will be read and written soon."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place, _ = _place(context, builder, signature.args[0], *args)
        pointer = _I8.as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, _I32, _I32, _I32])
        asked = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        builder.call(asked, [builder.bitcast(place, pointer), _I32(1), _I32(3), _I32(1)])
        return context.get_dummy_value()

    return types.void(A, types.int64, types.int64), codegen


# -- operators ------------------------------------------------------------------------------------------------------


@intrinsic
def _plus(typingctx: Any, a: Any, b: Any) -> Any:
    return a(a, b), lambda context, builder, signature, args: builder.fadd(*args, flags=_FAST)


@intrinsic
def _minus(typingctx: Any, a: Any, b: Any) -> Any:
    return a(a, b), lambda context, builder, signature, args: builder.fsub(*args, flags=_FAST)


@intrinsic
def _times(typingctx: Any, number: Any, v: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        number, v = args
        one = builder.insert_element(ir.Constant(v.type, ir.Undefined), number, _I32(0))
        return builder.fmul(_shuffled(builder, one, one, [0] * v.type.count), v, flags=_FAST)

    return v(types.float64, v), codegen


# numba asks an implementation to have the very signature of its overload, annotations included: hence no lambdas.


@overload(operator.add)
def _add(a: Any, b: Any) -> Any:
    def run(a: Any, b: Any) -> Any:
        return _plus(a, b)

    return run if isinstance(a, Lanes) and isinstance(b, Lanes) else None


@overload(operator.sub)
def _subtract(a: Any, b: Any) -> Any:
    def run(a: Any, b: Any) -> Any:
        return _minus(a, b)

    return run if isinstance(a, Lanes) and isinstance(b, Lanes) else None


@overload(operator.mul)
def _multiply(a: Any, b: Any) -> Any:
    def run(a: Any, b: Any) -> Any:
        return _times(a, b)

    return run if isinstance(a, types.Number) and isinstance(b, Lanes) else None
