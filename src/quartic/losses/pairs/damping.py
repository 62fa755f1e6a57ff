"""The rules of Levenberg and Marquardt that are numbers only: for the solver, and compiled within passes."""

from __future__ import annotations

import math

# Damping is relative to the mean diagonal of JᵀJ. The gauge makes JᵀJ singular, so it never goes down to nothing.
_LEAST, _MOST = 1e-13, 1e8
# The equations are never solved to a smaller residual, relative to where they start.
_LEAST_RESIDUAL = 1e-3


def next_damping(damping: float, gain: float) -> float:
    """Return the damping after a step, by the ratio of the actual to the predicted decrease."""
    factor = 0.2 if gain > 0.75 else 3.0 if gain < 0.25 else 1.0
    return min(max(damping * factor, _LEAST), _MOST)


def residual(forcing: float, slope: float, earlier: float) -> float:
    """Return how far to solve the equations: as far as the last step lowered the gradient, at first not so far."""
    return forcing if math.isinf(earlier) else max(_LEAST_RESIDUAL, min(forcing, slope / earlier))
