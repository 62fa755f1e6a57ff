"""Levenberg–Marquardt, and its conjugate gradients, over few pairs in one compiled call, on one thread.

It does what `quartic.solvers.LevenbergMarquardt` does, by the same rules (`damping.py`), the same passes
(`numba.py`) and the same steps of conjugate gradients (`row_blocks.py`). With a few thousand pairs a pass takes
some microseconds, and all that Python does between two of them would take longer.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from quartic.arrays import Array
from quartic.compiled.flags import FLAGS, njit
from quartic.losses.pairs import damping as rules
from quartic.losses.pairs.lanes import lanes_for
from quartic.losses.pairs.numba import LINEARIZE, PRODUCT, QUARTIC, fill, pair_rows, sums_in_record, take, take_blocks
from quartic.losses.pairs.pairs import Pairs
from quartic.losses.pairs.row_blocks import advance, diagonal_sum, factor_blocks, invert, solve_blocks

_next_damping, _residual = njit(**FLAGS)(rules.next_damping), njit(**FLAGS)(rules.residual)
# The modes as the passes want them. They are handed over: a constant of the module would be a type of its own to the
# compiler, and so would be a number written out, and all that takes it compiled once more.
_MODES = (0,) * LINEARIZE, (0,) * PRODUCT, (0,) * QUARTIC


def descend(X: Array, pairs: Pairs, *settings: float) -> tuple[Array, float, int]:
    """Return X after damped steps, the damping then, and how many passes were made; the settings are those below."""
    Y, rank = X.astype(np.float64, order="C"), X.shape[1]
    lanes, kind = lanes_for(rank), (0,) * pairs.kind
    size = (0,) * len(lanes)  # that of the blocks: one for all ranks with such vectors, hence compiled once for them
    records = np.empty((len(Y), sums_in_record(LINEARIZE, len(size), len(lanes)) + len(lanes)))
    data = pairs.start, pairs.cols, pairs.target, pairs.upper, pairs.weight
    damping, passes = descend_rows(*_MODES, kind, size, lanes, Y, records, *data, *settings)
    return Y, damping, passes


def solve(
    X: Array, pairs: Pairs, G: Array, B: Array, shift: float, tolerance: float, most: int
) -> tuple[Array, int, bool]:
    """Return D with (JᵀJ + shift·I) D ≈ −G, the steps of conjugate gradients, and whether the tolerance was reached."""
    X, G = (np.ascontiguousarray(A, dtype=np.float64) for A in (X, G))
    lanes, (n, rank) = lanes_for(X.shape[1]), X.shape
    D, R, Z, P, H = np.empty((5, n, rank))
    data = pairs.start, pairs.cols, pairs.target, pairs.upper, pairs.weight
    L, V = factor_blocks(B, shift, rank), np.empty((n, 3 * len(lanes)))
    steps, reached = solve_rows(
        _MODES[1], (0,) * pairs.kind, lanes, X, V, *data, G, L, float(shift), float(tolerance), most, D, R, Z, P, H
    )
    return D, steps, reached


@njit(**FLAGS)
def descend_rows(
    linearize: Any, product: Any, quartic: Any, kind: Any, size: Any, lanes: Any, X: Any, W: Any,
    start: Any, cols: Any, target: Any, upper: Any, weight: Any,
    damping: float, forcing: float, max_cg: int, least_slope: float, least_gain: float, most: int,
    axes: int, flat: float,
) -> Any:  # fmt: skip
    """Move X by damped steps; return the damping and how many passes were made.

    The end is where the gradient is down to ``least_slope``, where a step lowers the loss by a smaller share than
    ``least_gain``, or after ``most`` steps; with ``axes`` > 0 also where the variance along the next axis is no more
    than ``flat`` times the one along the last of those.
    """
    n, rank = X.shape
    width, none = np.int64(len(lanes)), np.int64(0)
    yes, no = np.bool_(True), np.bool_(False)
    G, D, R, Z, P, H = (np.empty((n, rank)), np.empty((n, rank)), np.empty((n, rank)), np.empty((n, rank)),
                        np.empty((n, rank)), np.empty((n, rank)))  # fmt: skip
    B, L, V = np.empty((n, rank * (rank + 1) // 2)), np.empty((n, rank * rank)), np.empty((n, 3 * width))
    value, before, earlier, passes = 0.0, np.inf, np.inf, 0
    for step in range(most + 1):
        fill(none, n, W, W.shape[1] - width, width, X, X, no, no)
        value = (
            0.5
            * pair_rows(linearize, kind, size, lanes, None, None, W, no, none, n, start, cols, target, upper, weight)[0]
        )
        passes += 1
        take(none, n, W, none, G, none, rank)
        slope = np.sqrt(inner(G, G))
        if step == most or not value <= (1 - least_gain) * before or slope <= least_slope:
            break
        if axes > 0 and is_flat(X, axes, flat):
            break
        take_blocks(none, n, W, width, width, width, rank, B)
        shift = damping * diagonal_sum(B, rank) / (rank * n)
        invert(rank, B, shift, L)
        tolerance = _residual(forcing, slope, earlier)
        passes += solve_rows(
            product,
            kind,
            lanes,
            X,
            V,
            start,
            cols,
            target,
            upper,
            weight,
            G,
            L,
            shift,
            tolerance,
            max_cg,
            D,
            R,
            Z,
            P,
            H,
        )[0]
        predicted = 0.5 * (shift * inner(D, D) - inner(G, D))
        fill(none, n, V, none, width, X, D, yes, no)
        c1, c2, c3, c4 = pair_rows(
            quartic, kind, (), lanes, None, none, V, no, none, n, start, cols, target, upper, weight
        )
        passes += 1
        t = first_minimum(c1, c2, c3, c4)
        if not t > 0:
            break
        damping = _next_damping(damping, -(c1 + c2 + c3 + c4) / predicted if predicted > 0 else 0.0)
        for i in range(n):
            for k in range(rank):
                X[i, k] += t * D[i, k]
        before, earlier = value, slope
    return damping, passes


@njit(**FLAGS)
def solve_rows(
    product: Any, kind: Any, lanes: Any, X: Any, V: Any, start: Any, cols: Any, target: Any, upper: Any, weight: Any,
    G: Any, L: Any, shift: float, tolerance: float, most: int, D: Any, R: Any, Z: Any, P: Any, H: Any,
) -> Any:  # fmt: skip
    """Fill D with that of (JᵀJ + shift·I) D = −G by conjugate gradients; return the steps, and if that is enough.

    V has the records of a product; R, Z, P and H are for use in between.
    """
    n, rank = X.shape
    width, none = np.int64(len(lanes)), np.int64(0)
    yes, no = np.bool_(True), np.bool_(False)
    for i in range(n):
        for k in range(rank):
            D[i, k], R[i, k] = 0.0, -G[i, k]
    first = rz = solve_blocks(L, R, Z)
    for i in range(n):
        for k in range(rank):
            P[i, k] = Z[i, k]
    for step in range(most):
        fill(none, n, V, width, width, X, P, yes, no)
        pair_rows(product, kind, (), lanes, None, none, V, no, none, n, start, cols, target, upper, weight)
        take(none, n, V, none, H, none, rank)
        curvature, rz = advance(rz, shift, P, H, L, D, R, Z)
        if not curvature > 0 and step == 0:
            for i in range(n):
                for k in range(rank):
                    D[i, k] = Z[i, k]
        if not (curvature > 0 and rz > tolerance**2 * first):
            return step + 1, True
    return most, False


@njit(**FLAGS)
def inner(A: Any, B: Any) -> Any:
    """Return ⟨A, B⟩."""
    total = 0.0
    for i in range(A.shape[0]):
        for k in range(A.shape[1]):
            total += A[i, k] * B[i, k]
    return total


@njit(**FLAGS)
def is_flat(X: Any, axes: int, flat: float) -> Any:
    """Tell whether X has so little variance beyond its first principal axes that they will do."""
    n, rank = X.shape
    mean, A = np.zeros(rank), np.zeros((rank, rank))
    for i in range(n):
        for k in range(rank):
            mean[k] += X[i, k] / n
    for i in range(n):
        for k in range(rank):
            for l in range(k + 1):
                A[k, l] += (X[i, k] - mean[k]) * (X[i, l] - mean[l])
    variances = np.linalg.eigvalsh(A)
    return variances[rank - axes - 1] <= flat * variances[rank - axes]


@njit(**FLAGS)
def first_minimum(c1: float, c2: float, c3: float, c4: float) -> Any:
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
