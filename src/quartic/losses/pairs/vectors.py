"""Short vectors inside compiled passes: tuples where the rank is small and known, so that they live in registers.

An array made inside a compiled function lies on the heap, and the compiler must assume that a store into the result
changes it. A tuple has no address: its entries stay in registers. With these two functions one source serves both,
``(0.0,) * rank`` as the model of a vector for ranks that are compiled in, ``()`` for any other rank.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.cpython.unsafe.tuple import tuple_setitem
from numba.extending import overload


def vector(zeros: Any, width: int) -> Any:
    """Return a vector of zeros: the tuple ``zeros``, or an array of ``width`` where that is empty."""
    raise NotImplementedError("for compiled code only")


def put(v: Any, k: int, value: float) -> Any:
    """Return v with ``v[k] = value``; an array is changed in place."""
    raise NotImplementedError("for compiled code only")


# numba asks an implementation to have the very signature of its overload, annotations included: hence no lambdas.


@overload(vector)
def _vector(zeros: Any, width: Any) -> Any:
    def array(zeros: Any, width: Any) -> Any:
        return np.zeros(width)

    def registers(zeros: Any, width: Any) -> Any:
        return zeros

    return array if len(zeros) == 0 else registers


@overload(put)
def _put(v: Any, k: Any, value: Any) -> Any:
    def array(v: Any, k: Any, value: Any) -> Any:
        v[k] = value
        return v

    def registers(v: Any, k: Any, value: Any) -> Any:
        return tuple_setitem(v, k, value)  # type: ignore[call-arg]  # numba adds the context

    return registers if isinstance(v, types.UniTuple) else array
