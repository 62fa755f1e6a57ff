"""What Ψ does on rays from X = 0: whether it falls there, so that 0 is no answer, and whether it falls for ever."""

from __future__ import annotations

import math

import numpy as np

from quartic.arrays import Array, astype, inner, norm, to_host
from quartic.core.problem import Problem
from quartic.losses import Loss

# X = t·u is this small beside the X that the data ask for: what f has beyond its square there is below round-off.
_SMALL = 2.0**-27
_STARTS, _STEPS = 5, 40
# a bend below zero by less than this, beside ‖∇F(0)‖, may be round-off
_CLEAR = {np.float64: 1e-9, np.float32: 1e-5}
# To find a ray on which Ψ falls for ever, it is minimised from so many starts, so much larger than usual.
_FAR_STARTS, _LARGER, _FAR_STEPS = 6, 30.0, 30
# Ψ falls for ever if it falls by the square of t at this t, from a drop of so many times ‖∇F(0)‖²/L_F.
_FAR, _DROP = 2.0**23, 100.0


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
    return to_host(loss.at(there).gradient) / (2 * length)


@np.errstate(over="ignore", invalid="ignore")
def objective_falls_for_ever(problem: Problem, X: Array) -> bool:
    """Tell whether Ψ(tX) falls without end, to working precision: then it has no minimiser.

    F(Y) ≥ F(0) + ⟨∇F(0), Y⟩ + ½μ‖Y‖² ≥ F(0) − ‖∇F(0)‖²/(2μ) wherever F curves by μ or more. On the ray through XXᵀ a
    loss with F quadratic is F(0) − bt² + at⁴. Where bt² is still all there is at t = 2²³, after a drop b of a hundred
    times ‖∇F(0)‖²/L_F, the curvature of F along the ray is below eps·L_F: as good as none. In float64, two or three
    products.
    """
    loss = problem.loss
    if loss.infimum > -math.inf:
        return False
    X = astype(X, np.float64)
    origin = problem.objective(loss.at(0 * X))
    drop = origin - problem.objective(loss.at(X))
    scale = loss.gradient_norm_at_zero**2 / loss.smoothness
    if not (drop > _DROP * scale and math.isfinite(drop)):
        return False
    if drop > scale / (2 * float(np.finfo(np.float64).eps)):
        return True
    fall = origin - problem.objective(loss.at(_FAR * X))
    return bool(fall >= 0.25 * _FAR**2 * drop)


@np.errstate(over="ignore", invalid="ignore")
def find_endless_fall(problem: Problem, rank: int) -> bool:
    """Tell whether Ψ was found to fall for ever somewhere, though a run has come to rest.

    For quadratic F without a known infimum: far out the quartic term rules, and a descent leads to where it
    vanishes, if there is such a place.
    """
    from quartic.solvers.base import NoProgress
    from quartic.solvers.lbfgs import LBFGS

    loss, penalty, solver = problem.loss, problem.penalty, LBFGS()
    if solver.requires.unmet(problem) is not None:
        return False
    generator = np.random.default_rng(0)
    for _ in range(_FAR_STARTS):
        start = loss.random_start(rank, penalty.nonnegative, generator)
        state = solver.init(problem, astype(_LARGER * start, loss.dtype))
        try:
            for _ in range(_FAR_STEPS):
                if not state.point.rounding < problem.stationarity(state.point) < math.inf:
                    break
                state = solver.step(problem, state)
        except NoProgress:
            pass
        if objective_falls_for_ever(problem, state.point.X):
            return True
    return False
