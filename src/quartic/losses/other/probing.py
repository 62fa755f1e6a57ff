"""Constants of a function of which nothing is known but its values and gradients: found by looking at a few points."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from quartic.arrays import Array, gram, inner, norm
from quartic.losses.base import Loss

# Differences of ∇F are believed where they are this share of it.
_VISIBLE = 1e-10


@np.errstate(all="ignore")
def length_beside_zero(loss: Loss) -> float:
    """Return a length that is not large beside the X the data ask for: 1, unless products near zero tell better.

    With e = eps·length, ∇F(e²vvᵀ)v is ∇F(0)v where a much smaller e gives the same.
    """
    v = np.abs(np.cos(np.arange(loss.n_points, dtype=np.float64)))[:, None]
    v /= norm(v)

    def product(e: float) -> Array:
        return loss.at(e * v).gradient / (2 * e)

    length = 1.0
    while length > 2.0**-500:
        e = float(np.finfo(np.float64).eps) * length
        far, near = product(e), product(2.0**-20 * e)
        if not 0 < norm(near) < math.inf:
            return 1.0  # ∇F(0) is zero, or there is none
        if norm(far - near) <= 1e-6 * norm(near):
            return length
        length *= 2.0**-60
    return 1.0


@np.errstate(all="ignore")
def largest_curvature(loss: Loss, at_zero: Callable[[Array], Array]) -> float:
    """Return the largest curvature of F seen along a few random Y = xxᵀ, at the scale of the data."""
    generator, largest = np.random.default_rng(0), 0.0
    slope = loss.gradient_norm_at_zero
    for columns in (1, 1, 2, 4):
        # X ≥ 0: there every entry of XXᵀ is positive, and logarithms and roots of them exist
        X = np.abs(generator.standard_normal((loss.n_points, min(columns, loss.n_points))))
        X /= math.sqrt(norm(gram(X)))  # ‖XXᵀ‖ = 1
        before = inner(at_zero(X), X)

        def change(tau: float, X: Array = X, before: float = before) -> float:
            return abs(0.5 * inner(loss.at(math.sqrt(tau) * X).gradient, X) / math.sqrt(tau) - before)

        tau, step, seen = 1.0, 1e6, change(1.0)
        while seen <= _VISIBLE * abs(before) and tau * step < 1e280:  # large data, beside which τY is not seen
            tau, step = tau * step, step**2
            seen = change(tau)
        for k in range(3):
            curvature = (seen if k == 0 else change(tau)) / tau
            if not (math.isfinite(curvature) and curvature > 0):
                break
            largest = max(largest, curvature)
            tau = slope / curvature if slope > 0 else tau / 10
    return largest if largest > 0 else 1.0
