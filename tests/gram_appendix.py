"""The appendix's inner loop for the Gram kernel, kept as the reference that the scalar solve is tested against."""

from __future__ import annotations

import math

import numpy as np

from quartic.arrays import Array
from quartic.arrays.space import unit_cubic_root


def solve_subproblem_by_nolips(
    eta: Array, alpha: float, beta: float, sigma: float, tol: float = 1e-6, max_iter: int = 100_000
) -> Array:
    """Minimise φ(x) = α/4‖x‖⁴ + β/4 Σx_i⁴ + σ/2‖x‖² − ⟨η, x⟩ by NoLips with the norm kernel (the paper's Algorithm 2).

    φ is 1-smooth relative to the norm kernel with α + 3β and σ. The cubic z²(z − σ) = c is solved by z = σ(1 + y²),
    y³ + y = √(c/σ³): with Cardano's formula as printed the loop comes to rest at 1e-5 where c ≫ σ³.

    Examples
    --------
    >>> import numpy as np
    >>> from gram_appendix import solve_subproblem_by_nolips
    >>> mu = solve_subproblem_by_nolips(np.array([3.0, 1.0]), 1.0, 1.0, 1.0, tol=1e-12)
    >>> residual = (mu @ mu + 1) * mu + mu**3 - [3, 1]
    >>> bool(abs(residual).max() < 1e-11)
    True
    """
    mu = np.zeros_like(eta)
    upper = alpha + 3 * beta
    for _ in range(max_iter):
        gradient = (alpha * (mu @ mu) + sigma) * mu + beta * mu**3 - eta
        if np.linalg.norm(gradient) <= tol * np.linalg.norm(eta):
            break
        v = (upper * (mu @ mu) + sigma) * mu - gradient
        y = unit_cubic_root(math.sqrt(upper / sigma) * float(np.linalg.norm(v)) / sigma)
        mu = v / (sigma * (1 + y * y))
    return mu


def cardano(c: float, sigma: float) -> float:
    """Return the z with z²(z − σ) = c, by Cardano's formula as the paper prints it.

    It overflows for c above 1e154 and loses digits for c ≫ σ³: here for reference only.
    """
    root = math.sqrt(c * c + 4 / 27 * c * sigma**3)
    cube = sigma**3 / 27
    return sigma / 3 + math.cbrt((c + root) / 2 + cube) + math.cbrt((c - root) / 2 + cube)
