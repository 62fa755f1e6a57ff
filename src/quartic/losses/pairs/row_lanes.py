"""Rows of X in vector registers, inside compiled passes over few pairs, or for many columns.

numba's compiler does not join neighbouring scalars into vectors: a pass over pairs would spend an instruction on each
coordinate. A `Row` of known length is one LLVM vector; the functions below are all that the passes need of
it. ``zeros``, the tuple ``(0.0,) * width``, says the width when compiled. Arrays are C-ordered float64 with as many
columns; indices are not checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.core.datamodel import models

intrinsic: Any = extending.intrinsic

_DOUBLE, _I32, _I64 = ir.DoubleType(), ir.IntType(32), ir.IntType(64)
_FLAGS = ("contract", "reassoc", "nsz")


class Row(types.Type):
    """The type of a row of ``width`` numbers."""

    def __init__(self, width: int) -> None:
        self.width = width
        super().__init__(name=f"Row({width})")


@extending.register_model(Row)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Row) -> None:
        super().__init__(manager, kind, ir.VectorType(_DOUBLE, kind.width))  # type: ignore[no-untyped-call]


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
    kind = Row(len(zeros))

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(ir.VectorType(_DOUBLE, kind.width), [0.0] * kind.width)

    return kind(zeros), code


@intrinsic
def load(typingctx: Any, zeros: Any, A: Any, i: Any) -> Any:
    """Return row i of A."""
    kind = Row(len(zeros))

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


# -- symmetric blocks --------------------------------------------------------------------------------------------------
#
# Of Σ a uuᵀ row d of a *turned* block holds Σ a u_k u_(k+d) for all k, indices modulo the width. Up to half the width
# these are all the products, and each row is one product of u and itself, turned by d lanes.


class Block(types.Type):
    """The type of a turned block of rows of ``width`` numbers."""

    def __init__(self, width: int) -> None:
        self.width, self.height = width, width // 2 + 1
        super().__init__(name=f"Block({width})")


@extending.register_model(Block)
class _BlockModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Block) -> None:
        rows = ir.ArrayType(ir.VectorType(_DOUBLE, kind.width), kind.height)
        super().__init__(manager, kind, rows)  # type: ignore[no-untyped-call]


def _block(builder: Any, kind: Block, row: Callable[[int], Any]) -> Any:
    """Return the block whose rows the function makes."""
    made = ir.Constant(ir.ArrayType(ir.VectorType(_DOUBLE, kind.width), kind.height), ir.Undefined)
    for d in range(kind.height):
        made = builder.insert_value(made, row(d), d)
    return made


def _rows_of_block(context: Any, builder: Any, array: Any, value: Any, index: Any, kind: Block) -> list[Any]:
    """Return pointers to the rows of block ``index`` of a C-ordered array (n, height, width)."""
    data = context.make_array(array)(context, builder, value).data
    first = builder.mul(index, _I64(kind.height * kind.width))
    rows = (builder.gep(data, [builder.add(first, _I64(d * kind.width))]) for d in range(kind.height))
    return [builder.bitcast(row, ir.VectorType(_DOUBLE, kind.width).as_pointer()) for row in rows]


@intrinsic
def no_block(typingctx: Any, zeros: Any) -> Any:
    """Return a block of zeros."""
    kind = Block(len(zeros))

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _block(builder, kind, lambda d: ir.Constant(ir.VectorType(_DOUBLE, kind.width), [0.0] * kind.width))

    return kind(zeros), code


@intrinsic
def load_block(typingctx: Any, zeros: Any, T: Any, i: Any) -> Any:
    """Return block i of T."""
    kind = Block(len(zeros))

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        rows = _rows_of_block(context, builder, signature.args[1], args[1], args[2], kind)

        def row(d: int) -> Any:
            loaded = builder.load(rows[d])
            loaded.align = 8
            return loaded

        return _block(builder, kind, row)

    return kind(zeros, T, types.int64), code


@intrinsic
def store_block(typingctx: Any, T: Any, i: Any, S: Any) -> Any:
    """Set block i of T to S."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        for d, row in enumerate(_rows_of_block(context, builder, signature.args[0], args[0], args[1], S)):
            builder.store(builder.extract_value(args[2], d), row).align = 8
        return context.get_dummy_value()

    return types.void(T, types.int64, S), code


@intrinsic
def plus_block(typingctx: Any, S: Any, R: Any) -> Any:
    """Return S + R."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def row(d: int) -> Any:
            return builder.fadd(*(builder.extract_value(block, d) for block in args), flags=_FLAGS)

        return _block(builder, S, row)

    return S(S, R), code


@intrinsic
def plus_square(typingctx: Any, S: Any, a: Any, u: Any) -> Any:
    """Return S + a·uuᵀ, for a number a."""
    width = u.width

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        scaled = builder.fmul(_spread(builder, args[1], width), args[2], flags=_FLAGS)

        def row(d: int) -> Any:
            turn = ir.Constant(ir.VectorType(_I32, width), [(k + d) % width for k in range(width)])
            product = builder.fmul(scaled, builder.shuffle_vector(args[2], args[2], turn), flags=_FLAGS)
            return builder.fadd(builder.extract_value(args[0], d), product, flags=_FLAGS)

        return _block(builder, S, row)

    return S(S, types.float64, u), code
