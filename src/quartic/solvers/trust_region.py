"""The Riemannian trust region on X up to rotations, after Mishra, Meyer and Sepulchre (2011)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import numpy as np

from quartic.arrays import Array, inner, norm, space_of, squared_norm
from quartic.core.problem import Problem
from quartic.losses.base import Point
from quartic.solvers.base import COUNT, NONNEGATIVE, NoProgress, Requirements, Solver, State, below, checked


@dataclass(frozen=True)
class TRState(State):
    """The iterate, the radius to trust, and the gradient's norm at the start, which makes tolerances scale-free."""

    radius: float = math.inf
    first: float = math.nan


@dataclass(frozen=True)
class TrustRegion(Solver):
    r"""Riemannian trust region on the quotient of the n × r matrices by rotations :math:`X \sim XQ`.

    A step Z minimises ⟨G, Z⟩ + ½⟨Z, H[Z]⟩ over horizontal Z with ‖Z‖ ≤ Δ, by truncated conjugate gradients (Steihaug
    and Toint), and X⁺ = X + Z if the decrease is worth it. Horizontal are the Z with XᵀZ symmetric: those that do not
    merely rotate X. H[Z] is the horizontal part of ∇²Ψ(X)[Z], one exact product. The radius grows and shrinks with the
    ratio of the actual to the predicted decrease, both computed from Z, without cancellation.

    Parameters
    ----------
    max_inner : int, default=500
        Limit on the products within one step.
    kappa, theta : float, default=0.1, 1.0
        The inner solve ends when its residual has shrunk by min(κ, (‖G‖/‖G₀‖)^θ), G₀ the gradient at the start.
    accept : float, default=0.1
        The least share of the predicted decrease at which a step is taken.

    References
    ----------
    B. Mishra, G. Meyer, R. Sepulchre, "Low-rank optimization for distance matrix completion", CDC 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic import Problem, losses, minimize
    >>> problem = Problem(losses.LeastSquares(np.diag([3.0, 2.0, 1.0])))
    >>> round(minimize(problem, rank=2, solver="tr", tol=1e-10, random_state=0).objective, 12)
    0.5
    """

    name = "tr"
    requires = Requirements(loss=("along", "hessian_product", "rotations"), penalty=("smooth", "ridge"))
    state = TRState
    step_unit = (1, 0)
    checks = checked(max_inner=COUNT, kappa=below(1.0), theta=NONNEGATIVE, accept=below(0.25))

    max_inner: int = 500
    kappa: float = 0.1
    theta: float = 1.0
    accept: float = 0.1

    def init(self, problem: Problem, X0: Array) -> TRState:
        """Return the state at X0, with a quarter of its norm as radius."""
        p = problem.loss.at(X0)
        return TRState(p, radius=0.25 * float(norm(X0)), first=problem.stationarity(p))

    def step(self, problem: Problem, state: State) -> TRState:
        s = cast(TRState, state)
        p = s.point
        if s.radius < 1e-15 * math.sqrt(max(float(p.gram.trace()), 0.0)):
            raise NoProgress(f"the trust region has shrunk to a radius of {s.radius:.1e}")
        Z, predicted, at_edge = self._inner(problem, p, s.radius, s.first)
        X = p.X + Z
        move = problem.move(p, X)
        change = inner(p.gradient, move.D) + move.remainder + problem.penalty.change(p.X, X)
        # a decrease below what ⟨G, D⟩ is known to says nothing: it counts as predicted
        unknown = move.allowance
        ratio = (unknown - change) / (unknown + predicted) if unknown + predicted > 0 else -math.inf
        radius = s.radius
        if not ratio >= 0.25:
            radius = 0.25 * min(radius, move.length)
        elif ratio > 0.75 and at_edge:
            radius = 2 * radius
        taken = ratio >= self.accept
        return TRState(move.point if taken else p, step=move.length if taken else 0.0, radius=radius, first=s.first)

    def _inner(self, problem: Problem, p: Point, radius: float, first: float) -> tuple[Array, float, bool]:
        """Return the step, the decrease the model predicts, and whether the step ends at the edge of the region."""
        weight = problem.penalty.ridge
        horizontal = Horizontal(p.X)
        R = horizontal(problem.penalty.stationarity(p.X, p.gradient))
        space = problem.loss.space
        Z, HZ = space.xp.zeros_like(R), space.xp.zeros_like(R)
        G, P, rr = R, -R, squared_norm(R)
        if not rr > 0.0:
            raise NoProgress("the square of the gradient is zero in floating point; scale the data up")
        slope = math.sqrt(rr)
        target = slope * min(self.kappa, (slope / first) ** self.theta if first > 0 else 1.0)
        at_edge = False
        for _ in range(self.max_inner):
            HP = problem.loss.hessian_product(p, P)
            if weight:
                HP += weight * P
            HP = horizontal(HP)
            curvature = inner(P, HP)
            size, overlap, pp = squared_norm(Z), inner(Z, P), squared_norm(P)
            following = R + space.quotient(rr, curvature) * HP  # the next residual, unless the step ends here
            before, rr = rr, squared_norm(following)
            a = float(before) / float(curvature) if curvature > 0 else math.inf
            if a == math.inf or size + 2 * a * overlap + a * a * pp >= radius * radius:
                # to the edge: the root a > 0 of ‖Z + aP‖ = Δ
                gap = max(radius * radius - float(size), 0.0)
                reach = float(overlap) + math.sqrt(overlap * overlap + pp * gap)
                a = gap / reach if reach > 0 else 0.0
                at_edge = True
            Z, HZ = Z + a * P, HZ + a * HP
            if at_edge:
                break
            R = following
            if math.sqrt(rr) <= target:
                break
            P = -R + space.quotient(rr, before) * P
        return Z, -(inner(G, Z) + 0.5 * inner(Z, HZ)), at_edge


class Horizontal:
    """The projection Z − XΩ onto {Z : XᵀZ symmetric}, with Ω the skew solution of Ω XᵀX + XᵀX Ω = XᵀZ − ZᵀX."""

    def __init__(self, X: Array) -> None:
        self.X, self.space = X, space_of(X)
        values, vectors = np.linalg.eigh(self.space.gram(X))
        sums = values[:, None] + values[None, :]
        # where two directions of X are lost the equation says nothing of their rotation
        self.sums = self._here(np.where(sums > 1e-15 * values[-1], sums, np.inf))
        self.vectors = self._here(vectors)

    def __call__(self, Z: Array) -> Array:
        """Return the horizontal part of Z."""
        T, Q = self.space.bare(self.space.gram(self.X, Z)), self.vectors
        omega = Q @ ((Q.T @ (T - T.T) @ Q) / self.sums) @ Q.T
        return Z - self.space.times(self.X, omega)

    def _here(self, S: Array) -> Array:
        return cast(Array, self.space.bare(self.space.small(S)))
