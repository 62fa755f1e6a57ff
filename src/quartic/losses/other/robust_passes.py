"""Compiled passes of the robust losses: ρ of residuals and its slopes, for δ = 1, since ρ_δ(e) = δ²ρ(e/δ)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from quartic.compiled.flags import FLAGS, njit
from quartic.losses.other.robust import KINDS

# The formulas are written so that nothing cancels: their terms must not be put in another order.
_EXACT: dict[str, Any] = {**FLAGS, "fastmath": {"contract"}}


# A pass knows its loss by its place in KINDS, a constant when it is compiled: numba keeps on disk what closes over
# numbers, but not what closes over functions.


@njit(**_EXACT)
def tangent(which: int, e: float) -> Any:
    """Return ρ(e) and ψ(e) = ρ'(e), by formulas that do not cancel.

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


@cache
def blocks(kind: str) -> Callable[..., float]:
    """Return the pass ``(E, delta) -> Σ ρ(E)``, which puts ψ(E) in place of the residuals E."""
    which = KINDS.index(kind)

    @njit(**FLAGS)
    def run(E: Any, delta: float) -> Any:
        flat, scale, total = E.ravel(), 1.0 / delta, 0.0
        for k in range(flat.size):
            value, slope = tangent(which, flat[k] * scale)
            total += value
            flat[k] = slope * delta
        return total * delta * delta

    return run


@cache
def pairs(kind: str) -> Callable[..., float]:
    """Return the pass ``(X, start, cols, target, weight, delta, G) -> f(X)`` over known entries; G takes ∇f(X)."""
    which = KINDS.index(kind)

    @njit(**FLAGS)
    def run(X: Any, start: Any, cols: Any, target: Any, weight: Any, delta: float, G: Any) -> Any:
        total, scale = 0.0, 1.0 / delta
        for i in range(X.shape[0]):
            for p in range(start[i], start[i + 1]):
                j = np.uint64(cols[p])
                e = -np.float64(target[p])
                for k in range(X.shape[1]):
                    e += X[i, k] * X[j, k]
                value, slope = tangent(which, e * scale)
                total += weight[p] * value
                g = weight[p] * slope * delta
                for k in range(X.shape[1]):
                    xj = X[j, k]
                    G[j, k] += g * X[i, k]
                    G[i, k] += g * xj
        return total * delta * delta

    return run
