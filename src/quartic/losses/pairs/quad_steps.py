"""The pass of a step X → Y over distances, for small ranks: four pairs of a row at a time.

It is the pass of every step of the Bregman methods, and has three inner products a pair where others have one or two.
Letters as in `pair_lanes`; z is the difference at Y. ‖z‖² = ‖u‖² + change with change = 2⟨z, v⟩ − ‖v‖².
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from quartic.compiled.flags import FLAGS
from quartic.losses.pairs import narrow_steps
from quartic.losses.pairs.lanes import dot, entries, keep, nothing, sums
from quartic.losses.pairs.quads import added, dots, each, four, lane
from quartic.losses.pairs.records import STEP, ask_ahead, over_records

# Unsigned, as the indices are: a signed one would be tested for counting from the end.
_1, _2, _3, _4 = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)


@cache
def value_gradient_and_remainder(rank: int, weighted: bool) -> Callable[..., tuple[float, float]]:
    """Return the pass ``(X, Y, chunks, cols, target, weight, G) -> f(Y), the remainder``; G is ∇f(Y)."""
    lanes, quad = (0.0,) * rank, (0.0,) * 4
    place, step = rank, 2 * rank

    @njit(**FLAGS)
    def run(W: Any, far: bool, start: Any, first: int, last: int, cols: Any, target: Any, weight: Any) -> Any:
        value, remainder = 0.0, 0.0
        values, remainders = nothing(quad), nothing(quad)
        for i in range(first, last):
            x, d, s = entries(lanes, W, i, place), entries(lanes, W, i, step), nothing(lanes)
            p, end = np.uint64(start[i]), np.uint64(start[i + 1])
            while p + _4 <= end:
                if far:
                    ask_ahead(W, cols, p)
                    ask_ahead(W, cols, p + _1)
                    ask_ahead(W, cols, p + _2)
                    ask_ahead(W, cols, p + _3)
                i0, i1 = np.int64(cols[p]), np.int64(cols[p + _1])
                i2, i3 = np.int64(cols[p + _2]), np.int64(cols[p + _3])
                v0, v1 = d - entries(lanes, W, i0, step), d - entries(lanes, W, i1, step)
                v2, v3 = d - entries(lanes, W, i2, step), d - entries(lanes, W, i3, step)
                z0, z1 = (x - entries(lanes, W, i0, place)) + v0, (x - entries(lanes, W, i1, place)) + v1
                z2, z3 = (x - entries(lanes, W, i2, place)) + v2, (x - entries(lanes, W, i3, place)) + v3
                after = dots(z0, z1, z2, z3, z0, z1, z2, z3) - four(target, p)
                c = dots(v0, v1, v2, v3, v0, v1, v2, v3)
                change = 2.0 * dots(z0, z1, z2, z3, v0, v1, v2, v3) - c
                we, terms = after, 0.5 * each(change, change) + each(after - change, c)
                if weighted:
                    we, terms = each(four(weight, p), we), each(four(weight, p), terms)
                values, remainders = values + each(we, after), remainders + terms
                we = 2.0 * we
                g0, g1, g2, g3 = lane(we, 0) * z0, lane(we, 1) * z1, lane(we, 2) * z2, lane(we, 3) * z3
                s = s + ((g0 + g1) + (g2 + g3))
                # four different points: the pairs of a row have different columns
                keep(W, i0, 0, sums(lanes, W, i0, 0) - g0)
                keep(W, i1, 0, sums(lanes, W, i1, 0) - g1)
                keep(W, i2, 0, sums(lanes, W, i2, 0) - g2)
                keep(W, i3, 0, sums(lanes, W, i3, 0) - g3)
                p += _4
            for q in range(p, end):
                if far:
                    ask_ahead(W, cols, q)
                j = np.int64(cols[q])
                v = d - entries(lanes, W, j, step)
                z = (x - entries(lanes, W, j, place)) + v
                q_after, q_c = dot(z, z) - target[q], dot(v, v)
                q_change = 2 * dot(z, v) - q_c
                w = weight[q] if weighted else 1.0
                q_we = w * q_after
                value += q_we * q_after
                remainder += w * (0.5 * q_change * q_change + (q_after - q_change) * q_c)
                g = (2 * q_we) * z
                s = s + g
                keep(W, j, 0, sums(lanes, W, j, 0) - g)
            keep(W, i, 0, sums(lanes, W, i, 0) + s)
        return 0.5 * (value + added(values)), remainder + added(remainders)

    def whole(X: Any, Y: Any, chunks: Any, cols: Any, target: Any, weight: Any, G: Any) -> Any:
        if narrow_steps.pays(X, Y):
            return narrow_steps.value_gradient_and_remainder(weighted)(X, Y, chunks, cols, target, weight, G)
        return over_records(lambda *rows: run(*rows, cols, target, weight), chunks, X, Y, STEP, G)

    return whole
