"""The pass of a step X → Y in space, for points that do not stay in the cache: one cache line a point.

Its sums, y and y − x are nine numbers in three dimensions, one more than a cache line holds, and a pass over pairs far
outside the cache costs as much as the lines it fetches. Hence y − x in float32. The value and the gradient at Y do not
see it. The remainder does: it is summed from differences of second order as ever, and is right to seven digits of the
largest of them however close Y is to X, which is enough to decide whether a step is accepted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from quartic.arrays import Array
from quartic.compiled.flags import FLAGS
from quartic.losses.pairs.lanes import dot, entries, halves, keep, nothing, sums
from quartic.losses.pairs.records import NARROW, ask_ahead, over_records

# From so many bytes of records on, nine numbers each, they are outside the third cache as well, or soon will be.
_OUTSIDE = 8_000_000


def pays(X: Array, Y: Array) -> bool:
    """Return whether this pass is the better one."""
    return X.shape[1] == 3 and X.dtype == Y.dtype == np.float64 and 3 * X.nbytes > _OUTSIDE


@cache
def value_gradient_and_remainder(weighted: bool) -> Callable[..., tuple[float, float]]:
    """Return the pass ``(X, Y, chunks, cols, target, weight, G) -> f(Y), the remainder`` for distances; G is ∇f(Y)."""
    lanes = (0.0,) * 3

    @njit(**FLAGS)
    def run(
        W: Any, far: bool, start: Any, first: int, last: int, cols: Any, target: Any, weight: Any, unit: float
    ) -> Any:
        value, remainder = 0.0, 0.0
        for i in range(first, last):
            y, d, s = entries(lanes, W, i, 3), halves(lanes, W, i, 6), nothing(lanes)
            for p in range(np.uint64(start[i]), np.uint64(start[i + 1])):
                ask_ahead(W, cols, p)
                j = np.int64(cols[p])
                z, v = y - entries(lanes, W, j, 3), unit * (d - halves(lanes, W, j, 6))
                after = dot(z, z) - target[p]
                c = dot(v, v)
                change = 2 * dot(z, v) - c
                w = weight[p] if weighted else 1.0
                we = w * after
                value += we * after
                remainder += w * (0.5 * change * change + (after - change) * c)
                we *= 2
                s = s + we * z
                keep(W, j, 0, sums(lanes, W, j, 0) - we * z)
            keep(W, i, 0, sums(lanes, W, i, 0) + s)
        return 0.5 * value, remainder

    def whole(X: Any, Y: Any, chunks: Any, cols: Any, target: Any, weight: Any, G: Any) -> Any:
        longest = _longest(X, Y)
        unit = math.ldexp(1.0, math.frexp(longest)[1]) if 0 < longest < math.inf else 1.0
        return over_records(lambda *rows: run(*rows, cols, target, weight, unit), chunks, X, Y, NARROW, G, unit=unit)

    return whole


@njit(**FLAGS)
def _longest(X: Any, Y: Any) -> Any:
    """Return max |Y − X|."""
    longest = 0.0
    for i in range(np.uint64(X.shape[0])):
        for k in range(np.uint64(X.shape[1])):
            longest = max(longest, abs(Y[i, k] - X[i, k]))
    return longest
