"""Whether X = 0, where the gradient of every F(XXᵀ) vanishes, is a saddle or an answer."""

from __future__ import annotations

import numpy as np

from quartic.arrays import Array, inner, norm
from quartic.arrays.elementwise import to_host
from quartic.core.problem import Problem
from quartic.losses import Loss

# X = t·u is this small beside the X that the data ask for: what f has beyond its square there is below round-off.
_SMALL = 2.0**-27
_STARTS, _STEPS = 5, 40
# a bend below zero by less than this, beside ‖∇F(0)‖, may be round-off
_CLEAR = {np.float64: 1e-9, np.float32: 1e-5}


def objective_falls_from_zero(problem: Problem) -> bool:
    """Tell whether some feasible direction u was found in which Ψ falls from 0: then 0 is no answer but a saddle.

    f(tu) − f(0) = t²⟨∇F(0), uuᵀ⟩ + O(t⁴), so for a penalty that is no more than quadratic at 0 the question is whether
    ∇F(0) has a negative eigenvalue, or uᵀ∇F(0)u < 0 for some u ≥ 0. u is sought by power iterations, projected where
    X ≥ 0. A penalty with a kink at 0, such as ℓ1, holds X there, and 0 is a local minimum. For X ≥ 0 deciding this
    for certain is as hard as telling whether a matrix is copositive; a few starts are tried.
    """
    loss, penalty = problem.loss, problem.penalty
    size = loss.gradient_norm_at_zero
    if not loss.rotations or not (0 < size < np.inf):
        return False
    generator = np.random.default_rng(0)
    length = _SMALL * norm(to_host(loss.random_start(1, penalty.nonnegative, generator)))
    if not length > 0:
        return False
    for _ in range(_STARTS):
        u = generator.standard_normal((loss.n_points, 1))
        u = np.abs(u) if penalty.nonnegative else u
        for _ in range(_STEPS):
            u = (u / norm(u)).astype(loss.dtype, copy=False)
            product = _product(loss, u, length)
            bend = inner(u, product) + (penalty.value(length * u) - penalty.value(0 * u)) / length**2
            if bend < -_CLEAR[loss.dtype] * size:
                return True
            u = size * u - product
            u = np.maximum(u, 0) if penalty.nonnegative else u
            if not (np.isfinite(u).all() and u.any()):
                break
    return False


def _product(loss: Loss, u: Array, length: float) -> Array:
    """Return ∇F(0)u, from the gradient 2∇F(t²uuᵀ)tu close to 0."""
    there = loss.space.adopt(np.ascontiguousarray(loss.dtype(length) * u))
    product: Array = to_host(loss.at(there).gradient) / (2 * length)
    return product
