"""Levenberg–Marquardt over few pairs in one compiled call.

It does what `quartic.solvers.LevenbergMarquardt` does, by the same rules (`damping.py`) and the same passes. With a few
thousand pairs a pass takes some microseconds, and all that Python does between two of them would take longer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from quartic.arrays import Array
from quartic.compiled.flags import FLAGS
from quartic.losses.pairs import damping as rules
from quartic.losses.pairs.gauss_newton import filled, kind_of, lanes_for, linearize_rows, pack, quartic_rows, solve_rows
from quartic.losses.pairs.placement import variances
from quartic.losses.pairs.row_blocks import diagonal_sum, factor_all, row_model

_next_damping, _residual = njit(**FLAGS)(rules.next_damping), njit(**FLAGS)(rules.residual)


@cache
def descend(rank: int, difference: bool, weighted: bool) -> Callable[..., tuple[Array, float, int]]:
    """Return ``(X, start, cols, target, weight, *settings) -> X, damping, passes``, the settings being those below."""
    kind = kind_of(difference)

    def run(X: Any, start: Any, cols: Any, target: Any, weight: Any, *settings: float) -> tuple[Array, float, int]:
        zeros, Y = lanes_for(X.shape[1]), filled(X, len(lanes_for(X.shape[1])))
        Y = Y.copy() if Y is X else Y
        model, weight = row_model(X.shape[1]), weight if weighted else None
        damping, passes = descend_rows(zeros, model, kind, X.shape[1], Y, start, cols, target, weight, *settings)
        return Y[:, : X.shape[1]], damping, passes

    return run


@njit(**FLAGS)
def descend_rows(
    zeros: Any, model: Any, kind: Any, rank: int, X: Any, start: Any, cols: Any, target: Any, weight: Any,
    damping: float, forcing: float, max_cg: int, least_slope: float, least_gain: float, most: int,
    axes: int, flat: float,
) -> Any:  # fmt: skip
    """Move X by damped steps; return the damping and how many passes were made.

    The end is where the gradient is down to ``least_slope``, where a step lowers the loss by a smaller share than
    ``least_gain``, or after ``most`` steps; with ``axes`` > 0 also where the variance along the next axis is no more
    than ``flat`` times the one along the last of those.
    """
    n, width = X.shape
    G, D, T = np.empty((n, width)), np.zeros((n, width)), np.empty((n, width // 2 + 1, width))
    B, N = np.empty((n, rank * (rank + 1) // 2)), np.empty((n, rank * (rank + 1) // 2))
    value = linearize_rows(zeros, kind, X, start, cols, target, weight, G, T, 0, n)
    passes, earlier = 1, np.inf
    for _ in range(most):
        slope = np.sqrt(_inner(G, G))
        if slope <= least_slope or (axes > 0 and _is_flat(X, rank, axes, flat)):
            break
        pack(T, rank, B)
        shift = damping * diagonal_sum(B, rank) / (rank * n)
        factor_all(model, rank, B, shift, N)
        tolerance = _residual(forcing, slope, earlier)
        steps, _ = solve_rows(zeros, model, kind, X, start, cols, weight, G, N, shift, tolerance, max_cg, rank, D)
        predicted = 0.5 * (shift * _inner(D, D) - _inner(G, D))
        c1, c2, c3, c4 = quartic_rows(zeros, kind, X, D, start, cols, target, weight, 0, n)
        t = _first_minimum(c1, c2, c3, c4)
        passes += steps + 1
        if not t > 0:
            break
        damping = _next_damping(damping, -(c1 + c2 + c3 + c4) / predicted if predicted > 0 else 0.0)
        for i in range(n):
            for k in range(rank):
                X[i, k] += t * D[i, k]
        before, earlier = value, slope
        value = linearize_rows(zeros, kind, X, start, cols, target, weight, G, T, 0, n)
        passes += 1
        if not value <= (1 - least_gain) * before:
            break
    return damping, passes


@njit(**FLAGS)
def _inner(A: Any, B: Any) -> Any:
    total = 0.0
    for i in range(A.shape[0]):
        for k in range(A.shape[1]):
            total += A[i, k] * B[i, k]
    return total


@njit(**FLAGS)
def _is_flat(X: Any, rank: int, axes: int, flat: float) -> Any:
    found = variances(X, rank)
    return found[rank - axes - 1] <= flat * found[rank - axes]


@njit(**FLAGS)
def _first_minimum(c1: float, c2: float, c3: float, c4: float) -> Any:
    """Return the t > 0 at which c₁t + c₂t² + c₃t³ + c₄t⁴ stops falling; 0 where it does not fall, or never stops.

    Newton's method for the derivative, between points at which it is negative and positive.
    """
    if not c1 < 0:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(60):
        if c1 + high * (2 * c2 + high * (3 * c3 + high * 4 * c4)) >= 0:
            break
        low, high = high, 2 * high
    else:
        return 0.0
    t = 0.5 * (low + high)
    for _ in range(60):
        slope = c1 + t * (2 * c2 + t * (3 * c3 + t * 4 * c4))
        if slope < 0:
            low = t
        else:
            high = t
        curvature = 2 * c2 + t * (6 * c3 + t * 12 * c4)
        following = t - slope / curvature if curvature > 0 else low
        if not low < following < high:
            following = 0.5 * (low + high)
        if abs(following - t) <= 1e-12 * t:
            break
        t = following
    return t
