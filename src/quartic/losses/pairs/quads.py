"""Four pairs at a time: their inner products side by side in one vector, so that what follows is done once for four.

An inner product of two vectors of `lanes` ends with its lanes being added up, which takes longer than the
products. For four of them at a time the lanes are added by turning the four vectors into one.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import extending, types

from quartic.losses.pairs.lanes import _DOUBLE, _FAST, _I32, Lanes, _shuffled

intrinsic: Any = extending.intrinsic


@intrinsic
def dots(typingctx: Any, a0: Any, a1: Any, a2: Any, a3: Any, b0: Any, b1: Any, b2: Any, b3: Any) -> Any:
    """Return (⟨a0, b0⟩, ⟨a1, b1⟩, ⟨a2, b2⟩, ⟨a3, b3⟩)."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        rows = [builder.fmul(args[k], args[4 + k], flags=_FAST) for k in range(4)]
        width = rows[0].type.count
        if width == 1:
            low, high = (_shuffled(builder, rows[k], rows[k + 1], [0, 1]) for k in (0, 2))
            return _shuffled(builder, low, high, [0, 1, 2, 3])
        # pairs of rows are laced into one another, and the even lanes added to the odd ones
        even = [x for k in range(0, width, 2) for x in (k, width + k)]
        odd = [x + 1 for x in even]
        first, second = (
            builder.fadd(
                _shuffled(builder, rows[k], rows[k + 1], even),
                _shuffled(builder, rows[k], rows[k + 1], odd),
                flags=_FAST,
            )
            for k in (0, 2)
        )
        if width == 2:
            return _shuffled(builder, first, second, [0, 1, 2, 3])
        low, high = (_shuffled(builder, first, second, [k, k + 1, 4 + k, 5 + k]) for k in (0, 2))
        return builder.fadd(low, high, flags=_FAST)

    return Lanes(4)(a0, a1, a2, a3, b0, b1, b2, b3), codegen


@intrinsic
def four(typingctx: Any, A: Any, p: Any) -> Any:
    """Return ``A[p : p + 4]`` in float64."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = signature.args[0]
        made = context.make_array(kind)(context, builder, args[0])
        entry = context.get_value_type(kind.dtype)
        place = builder.gep(made.data, [args[1]])
        loaded = builder.load(builder.bitcast(place, ir.VectorType(entry, 4).as_pointer()))
        loaded.align = kind.dtype.bitwidth // 8
        return loaded if entry == _DOUBLE else builder.fpext(loaded, ir.VectorType(_DOUBLE, 4))

    return Lanes(4)(A, types.uint64), codegen


@intrinsic
def each(typingctx: Any, a: Any, b: Any) -> Any:
    """Return the products of the numbers of a with those of b, one by one."""
    return a(a, b), lambda context, builder, signature, args: builder.fmul(*args, flags=_FAST)


@intrinsic
def lane(typingctx: Any, v: Any, k: Any) -> Any:
    """Return the number k, which is known when compiled, of v."""
    if not isinstance(k, types.IntegerLiteral):
        return None
    place = k.literal_value

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.extract_element(args[0], _I32(place))

    return types.float64(v, k), codegen


@intrinsic
def added(typingctx: Any, v: Any) -> Any:
    """Return the sum of the four numbers of v."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        found = [builder.extract_element(args[0], _I32(k)) for k in range(4)]
        low, high = (builder.fadd(found[k], found[k + 1], flags=_FAST) for k in (0, 2))
        return builder.fadd(low, high, flags=_FAST)

    return types.float64(v), codegen
