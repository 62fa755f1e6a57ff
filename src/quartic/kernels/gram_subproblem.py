"""The mirror map of the Gram kernel (Proposition 4): one eigendecomposition and one scalar equation."""

from __future__ import annotations

import math

import numpy as np

from quartic.arrays import Array, astype, float_type, gram, namespace, times, to_host
from quartic.kernels.norm import unit_cubic_root

# Below this ratio of squared singular values VᵀV has lost too many digits of the small ones: take the SVD of V.
_WELL_CONDITIONED = 1e-8


def gram_mirror(V: Array, alpha: float, beta: float, sigma: float) -> Array:
    """Return the U with U (α‖U‖² I + β UᵀU + σ I) = V.

    U has the singular vectors of V, and singular values μ. Where V is well conditioned they come from the
    eigendecomposition of the r × r matrix VᵀV; otherwise from the SVD of V, whose left vectors keep round-off in the
    small directions from being divided by a small σ.
    """
    squares, P = np.linalg.eigh(gram(V))
    largest = float(squares[-1])
    if largest > 1e-250 and math.isfinite(largest) and float(squares[0]) > _WELL_CONDITIONED * largest:
        mu = solve_subproblem(np.sqrt(squares), alpha, beta, sigma)
        scale = 1 / (alpha * float(mu @ mu) + beta * mu**2 + sigma)
        return times(V, (P * scale) @ P.T)
    W, eta, Pt = namespace(V).linalg.svd(astype(V, np.float64), full_matrices=False)
    U = times(W, solve_subproblem(to_host(eta), alpha, beta, sigma)[:, None] * to_host(Pt))
    return astype(U, float_type(V))


def solve_subproblem(eta: Array, alpha: float, beta: float, sigma: float) -> Array:
    """Return the μ ≥ 0 with (α‖μ‖² + σ) μ_i + β μ_i³ = η_i, to machine precision.

    For a given s = ‖μ‖² each μ_i(s) is the root of a monotone cubic. What is left is log Σμ_i(s)² = log s, an
    equation in log s whose slope always lies between −3 and −1: Newton's method with a bracket needs a handful of
    steps at any scale of the data.
    """
    eta = np.asarray(eta, dtype=np.float64)
    if alpha == 0.0:
        return _cubic(eta, beta, sigma)
    size = float(np.linalg.norm(eta))
    if size == 0.0:
        return np.zeros_like(eta)
    # ‖μ‖ lies between the answers of the norm kernels with α + β and with α in front.
    low = 2 * math.log(_norm_of_mirror(size, alpha + beta, sigma))
    high = 2 * math.log(_norm_of_mirror(size, alpha, sigma))
    low, high = low - 1e-12 * (1 + abs(low)), high + 1e-12 * (1 + abs(high))
    log_s = 0.5 * (low + high)
    mu = eta
    for _ in range(100):
        s = math.exp(log_s)
        mu = _cubic(eta, beta, alpha * s + sigma)
        squares = mu**2
        total = float(squares.sum())
        gap = math.log(total) - log_s
        low, high = (log_s, high) if gap > 0 else (low, log_s)
        slope = 1 + 2 * alpha * s * float((squares / (alpha * s + sigma + 3 * beta * squares)).sum()) / total
        following = log_s + gap / slope
        if not low <= following <= high:
            following = 0.5 * (low + high)
        if abs(following - log_s) <= 4e-16 * max(1.0, abs(log_s)):
            break
        log_s = following
    return mu


def _cubic(eta: Array, beta: float, linear: float) -> Array:
    """Return the roots of β μ³ + linear·μ = η: μ = η / (linear·(1 + y²)) with y³ + y = η√(β/linear)/linear."""
    y = unit_cubic_root(eta * (math.sqrt(beta / linear) / linear))
    return eta / (linear * (1 + y * y))


def _norm_of_mirror(size: float, alpha: float, sigma: float) -> float:
    y = unit_cubic_root(size * (math.sqrt(alpha / sigma) / sigma))
    return size / (sigma * (1 + y * y))
