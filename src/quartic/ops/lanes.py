"""Rows of X in vector registers, inside compiled passes.

numba's compiler does not join neighbouring scalars into vectors, so a pass over pairs would spend an instruction on each
coordinate. A `Lanes` is a row of known length as one LLVM vector; the functions below are all that the passes need of
it. ``zeros``, the tuple ``(0.0,) * width``, says the width when compiled. Arrays are C-ordered float64 with as many
columns; indices are not checked.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.core.datamodel import models

intrinsic: Any = extending.intrinsic

_DOUBLE, _I32, _I64 = ir.DoubleType(), ir.IntType(32), ir.IntType(64)
_FLAGS = ("contract", "reassoc", "nsz")


class Lanes(types.Type):  # type: ignore[misc]
    """The type of a row of ``width`` numbers."""

    def __init__(self, width: int) -> None:
        self.width = width
        super().__init__(name=f"Lanes({width})")


@extending.register_model(Lanes)  # type: ignore[misc]
class _Model(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Lanes) -> None:
        super().__init__(manager, kind, ir.VectorType(_DOUBLE, kind.width))


def _row(context: Any, builder: Any, kind: Any, value: Any, index: Any, width: int) -> Any:
    """Return a pointer to row ``index`` of a C-ordered array."""
    data = context.make_array(kind)(context, builder, value).data
    first = builder.gep(data, [builder.mul(index, _I64(width))])
    return builder.bitcast(first, ir.VectorType(_DOUBLE, width).as_pointer())


def _spread(builder: Any, number: Any, width: int) -> Any:
    """Return a vector with the number in every lane."""
    empty = ir.Constant(ir.VectorType(_DOUBLE, width), ir.Undefined)
    first = builder.insert_element(empty, number, _I32(0))
    return builder.shuffle_vector(first, empty, ir.Constant(ir.VectorType(_I32, width), [0] * width))


@intrinsic
def nothing(typingctx: Any, zeros: Any) -> Any:
    """Return a row of zeros."""
    kind = Lanes(len(zeros))

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(ir.VectorType(_DOUBLE, kind.width), [0.0] * kind.width)

    return kind(zeros), code


@intrinsic
def load(typingctx: Any, zeros: Any, A: Any, i: Any) -> Any:
    """Return row i of A."""
    kind = Lanes(len(zeros))

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        loaded = builder.load(_row(context, builder, signature.args[1], args[1], args[2], kind.width))
        loaded.align = 8
        return loaded

    return kind(zeros, A, types.int64), code


@intrinsic
def store(typingctx: Any, A: Any, i: Any, v: Any) -> Any:
    """Set row i of A to v."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        stored = builder.store(args[2], _row(context, builder, signature.args[0], args[0], args[1], v.width))
        stored.align = 8
        return context.get_dummy_value()

    return types.void(A, types.int64, v), code


@intrinsic
def minus(typingctx: Any, u: Any, v: Any) -> Any:
    """Return u − v."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fsub(args[0], args[1], flags=_FLAGS)

    return u(u, v), code


@intrinsic
def plus(typingctx: Any, u: Any, a: Any, v: Any) -> Any:
    """Return u + a·v, for a number a."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        product = builder.fmul(_spread(builder, args[1], u.width), args[2], flags=_FLAGS)
        return builder.fadd(args[0], product, flags=_FLAGS)

    return u(u, types.float64, v), code


@intrinsic
def dot(typingctx: Any, u: Any, v: Any) -> Any:
    """Return ⟨u, v⟩."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        product = builder.fmul(args[0], args[1], flags=_FLAGS)
        name = f"llvm.vector.reduce.fadd.v{u.width}f64"
        kind = ir.FunctionType(_DOUBLE, [_DOUBLE, product.type])
        reduce = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        return builder.call(reduce, [_DOUBLE(-0.0), product], fastmath=("reassoc", "contract", "nsz"))

    return types.float64(u, v), code


@intrinsic
def lane(typingctx: Any, u: Any, k: Any) -> Any:
    """Return entry k of u, k known when compiled."""
    if not isinstance(k, types.Integer):
        return None

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.extract_element(args[0], args[1])

    return types.float64(u, types.int64), code
