"""Compiled passes of the robust losses: ρ of a residual, its slope, and by how much a step misses the tangent.

Each loss is known by two functions. ``tangent(e)`` returns ρ(e) and ψ(e) = ρ'(e). ``gap(e, d)`` returns the Bregman
distance ρ(e + d) − ρ(e) − ψ(e)d, by a formula of second order in d: subtraction would leave nothing of it for small d.
All are for δ = 1, since ρ_δ(e) = δ²ρ(e/δ).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from quartic.compiled.flags import FLAGS, njit
from quartic.losses.other.robust import KINDS

# The gaps are differences written so that nothing cancels: their terms must not be put in another order.
_EXACT: dict[str, Any] = {**FLAGS, "fastmath": {"contract"}}


# A pass knows its loss by its place in KINDS, a constant when it is compiled: numba keeps on disk what closes over
# numbers, but not what closes over functions.


@njit(**_EXACT)
def tangent(which: int, e: float) -> Any:
    """Return ρ(e) and ψ(e), by formulas that do not cancel.

    Huber: ½e² up to 1, then |e| − ½. Pseudo-Huber: √(1 + e²) − 1 = e²/(√(1 + e²) + 1). With m = exp(−2|e|) − 1:
    log cosh e = |e| + log(1 + m/2) and tanh |e| = −m/(2 + m).
    """
    if which == 0:
        if e > 1.0:
            return e - 0.5, 1.0
        if e < -1.0:
            return -e - 0.5, -1.0
        return 0.5 * e * e, e
    if which == 1:
        r = math.sqrt(1.0 + e * e)
        return e * e / (r + 1.0), e / r
    size = abs(e)
    m = math.expm1(-2.0 * size)
    slope = -m / (2.0 + m)
    return size + math.log1p(0.5 * m), slope if e >= 0 else -slope


@njit(**_EXACT)
def gap(which: int, e: float, d: float) -> Any:
    """Return ρ(e + d) − ρ(e) − ψ(e)d, with a = e + d.

    Huber, with c = ψ(a) − ψ(e): c(½c + a − ψ(a)), since ρ(u) = ½u² − ½(u − ψ(u))². Pseudo-Huber, with A = √(1 + a²)
    and E = √(1 + e²): d²(AE − ae + 1) / ((A + E)²E), where AE − ae = 1 + d²/(AE + ae + 1) for a and e of the same sign,
    and does not cancel otherwise. Log cosh, with T = tanh e: log(cosh d + T sinh d) − Td; for small d by series whose
    terms are all of second order: with z = cosh d − 1 + T sinh d it is (log(1 + z) − z) + (cosh d − 1) + T(sinh d − d).
    """
    a = e + d
    if which == 0:
        if abs(e) <= 1.0 and abs(a) <= 1.0:
            return 0.5 * d * d
        if (e > 1.0 and a > 1.0) or (e < -1.0 and a < -1.0):
            return 0.0
        slope = min(max(a, -1.0), 1.0)
        c = slope - min(max(e, -1.0), 1.0)
        return c * (0.5 * c + (a - slope))
    if which == 1:
        A, E = math.sqrt(1.0 + a * a), math.sqrt(1.0 + e * e)
        difference = A * E - a * e if a * e <= 0.0 else 1.0 + d * d / (A * E + a * e + 1.0)
        return d * d * (difference + 1.0) / ((A + E) * (A + E) * E)
    low, T = tangent(which, e)
    if abs(d) > 0.05:
        return tangent(which, a)[0] - low - T * d
    square = d * d
    lift = square * (0.5 + square * (1 / 24 + square * (1 / 720 + square / 40320)))
    bend = d * square * (1 / 6 + square * (1 / 120 + square * (1 / 5040 + square / 362880)))
    z = lift + T * (d + bend)
    # log(1 + z) − z = −z²/2 + z³/3 − …, |z| ≤ 0.06: twelve terms leave less than a unit in the last place
    series = 0.0
    for k in range(13, 1, -1):
        series = 1.0 / k - z * series
    return lift + T * bend - z * z * series


@cache
def blocks(kind: str, moving: bool) -> Callable[..., tuple[float, float]]:
    """Return the pass ``(E, B, C, delta) -> Σ ρ(E + B), remainder``, which puts ψ(E + B) in place of the residuals E.

    B is by how much the entries of XXᵀ change and C the part of that of second order, DDᵀ: the remainder is
    Σ ρ(E + B) − ρ(E) − ψ(E)(B − C). Without ``moving`` both are zero, and not looked at.
    """
    which = KINDS.index(kind)

    @njit(**FLAGS)
    def run(E: Any, B: Any, C: Any, delta: float) -> Any:
        e_, b_, c_, scale = E.ravel(), B.ravel(), C.ravel(), 1.0 / delta
        total, remainder = 0.0, 0.0
        for k in range(e_.size):
            e, d = e_[k] * scale, 0.0
            if moving:
                d = b_[k] * scale
                remainder += gap(which, e, d) + tangent(which, e)[1] * (c_[k] * scale)
            value, slope = tangent(which, e + d)
            total += value
            e_[k] = slope * delta
        return total * delta * delta, remainder * delta * delta

    return run


@cache
def pairs(kind: str, moving: bool) -> Callable[..., tuple[float, float]]:
    """Return the pass ``(X, Y, start, cols, target, weight, delta, G) -> f(Y), remainder`` over known entries.

    The gradient at Y is added to G. Without ``moving`` X is Y, and the remainder 0.
    """
    which = KINDS.index(kind)

    @njit(**FLAGS)
    def run(X: Any, Y: Any, start: Any, cols: Any, target: Any, weight: Any, delta: float, G: Any) -> Any:
        total, remainder, scale = 0.0, 0.0, 1.0 / delta
        for i in range(X.shape[0]):
            for p in range(start[i], start[i + 1]):
                j = np.uint64(cols[p])
                e, b, c = -np.float64(target[p]), 0.0, 0.0
                for k in range(X.shape[1]):
                    e += X[i, k] * X[j, k]
                    if moving:
                        di, dj = Y[i, k] - X[i, k], Y[j, k] - X[j, k]
                        b += X[i, k] * dj + di * X[j, k]
                        c += di * dj
                e, d = e * scale, (b + c) * scale
                if moving:
                    remainder += weight[p] * (gap(which, e, d) + tangent(which, e)[1] * (c * scale))
                value, slope = tangent(which, e + d)
                total += weight[p] * value
                g = weight[p] * slope * delta
                for k in range(X.shape[1]):
                    yj = Y[j, k]
                    G[j, k] += g * Y[i, k]
                    G[i, k] += g * yj
        return total * delta * delta, remainder * delta * delta

    return run
