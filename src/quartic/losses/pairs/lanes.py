"""Rows of X inside compiled passes, each one vector of the machine: what the compiler does not find by itself.

numba's compiler does not join neighbouring scalars into vectors: a pass over pairs would spend an instruction on each
coordinate. Up to three columns that costs nothing, from four on it takes 1.3 to 3 times as long
(``docs/inside.rst``). A `Lanes` holds a row of ``width`` numbers, filled up with zeros, which add nothing anywhere.
Besides ``a + b``, ``a - b`` and ``number * a`` there are the functions below; vectors exist in compiled code only.

``lanes`` is the tuple ``(0.0,) * width``: how long a tuple is the compiler knows. Arrays are C-ordered with two axes,
in float64 or float32; indices are not checked.
"""

from __future__ import annotations

import operator
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import extending, types
from numba.core.datamodel import models
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import register_model
from numpy.typing import NDArray

intrinsic: Any = extending.intrinsic

_I64, _I32, _I8, _DOUBLE = ir.IntType(64), ir.IntType(32), ir.IntType(8), ir.DoubleType()
# What quartic.compiled.flags says of numbers: sums may be reordered and fused.
_FAST = ("contract", "reassoc", "nsz")


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
        return ir.Constant(ir.VectorType(_DOUBLE, kind.width), [0.0] * kind.width)

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


def _place(context: Any, builder: Any, kind: Any, array: Any, i: Any, at: Any) -> Any:
    """Return the address of ``array[i, at]``."""
    made = context.make_array(kind)(context, builder, array)
    offset = builder.add(builder.mul(i, builder.extract_value(made.shape, 1)), at)
    return builder.gep(made.data, [offset])


def _load(builder: Any, place: Any, width: int) -> Any:
    entry = place.type.pointee
    loaded = builder.load(builder.bitcast(place, ir.VectorType(entry, width).as_pointer()))
    loaded.align = 8 if entry == _DOUBLE else 4
    return loaded if entry == _DOUBLE else builder.fpext(loaded, ir.VectorType(_DOUBLE, width))


def _store(builder: Any, place: Any, v: Any) -> None:
    entry = place.type.pointee
    if entry != _DOUBLE:
        v = builder.fptrunc(v, ir.VectorType(entry, v.type.count))
    builder.store(v, builder.bitcast(place, v.type.as_pointer())).align = 8 if entry == _DOUBLE else 4


def _spread(builder: Any, number: Any, width: int) -> Any:
    """Return a vector with the number in every lane."""
    empty = ir.Constant(ir.VectorType(_DOUBLE, width), ir.Undefined)
    first = builder.insert_element(empty, number, _I32(0))
    return builder.shuffle_vector(first, empty, ir.Constant(ir.VectorType(_I32, width), [0] * width))


# -- operators ------------------------------------------------------------------------------------------------------


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
