"""Addresses as pointers, so that compiled code takes any number of arrays without being compiled for each number."""

from __future__ import annotations

from typing import Any

from numba import extending, types

intrinsic: Any = extending.intrinsic


@intrinsic
def pointer_to(context: Any, address: Any, like: Any) -> Any:
    """Return the address as a pointer to entries of the type of ``like``; ``numba.carray`` makes an array of it."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

    pointer: Any = types.CPointer
    return pointer(like.dtype)(types.int64, like), generate
