"""Two other accelerations of the Bregman method: CoCaIn BPG, and that of Hanzely, Richtárik and Xiao."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

from quartic.arrays import Array, check_number, inner, is_zero
from quartic.core.problem import Problem
from quartic.losses import Point
from quartic.losses.steps import Move
from quartic.solvers.base import COUNT, POSITIVE, NoProgress, Requirements, Solver, State, below, checked

_TRIALS = 100
# Below this θ the accelerated method begins anew: it has become a long average.
_LEAST_THETA = 0.05


def _divergence(problem: Problem, to: Point, start: Point) -> float:
    """Return D_h(to, start)."""
    assert problem.kernel is not None
    return float(problem.kernel.divergence_of(Move(start, to, 0.0)))


def _remainder(to: Point, start: Point) -> float:
    """Return f(to) − f(start) − ⟨∇f(start), to − start⟩, of two points whose products are made."""
    return float(to.value) - float(start.value) - inner(start.gradient, to.X - start.X)


@dataclass(frozen=True)
class CoCaInState(State):
    """The iterate, the one before, Nesterov's θ, and L̄, the upper estimate of relative smoothness."""

    previous: Point = None  # type: ignore[assignment]
    theta: float = 1.0
    upper: float = 1.0


@dataclass(frozen=True)
class CoCaIn(Solver):
    """Convex–concave inertial Bregman proximal gradients (Mukkamala, Ochs, Pock and Sabach 2020).

    Y = X + γ(X − X₋), then X⁺ = T_τ(Y) with τ = 1/L̄. γ begins at Nesterov's and is shortened until

        (δ − ε) D_h(X₋, X) ≥ (1 + L̲τ) D_h(X, Y),

    where L̲ is the least number with f(X) ≥ f(Y) + ⟨∇f(Y), X − Y⟩ − L̲ D_h(X, Y): how concave f is there. L̄ grows
    until f(X⁺) ≤ f(Y) + ⟨∇f(Y), X⁺ − Y⟩ + L̄ D_h(X⁺, Y), and never shrinks, as the proof of convergence asks.

    Parameters
    ----------
    first : float, default=1e-3
        L̄ to begin with; 1 is safe with the constants of ``Kernel.for_loss``, and far too large as a rule.
    delta, epsilon : float, default=0.15, 1e-5
        δ and ε of the condition, 1 > δ > ε > 0.

    Examples
    --------
    >>> from quartic import SymNMF, datasets
    >>> SymNMF(2, solver="cocain", random_state=0).fit(datasets.karate().adjacency).result_.success
    True
    """

    name = "cocain"
    requires = Requirements(kernel=True)
    state = CoCaInState
    checks = checked(first=POSITIVE, delta=below(1.0))

    first: float = 1e-3
    delta: float = 0.15
    epsilon: float = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self.epsilon, "epsilon", below=self.delta)

    def init(self, problem: Problem, X0: Array) -> CoCaInState:
        p = problem.loss.at(X0)
        return CoCaInState(p, previous=p, upper=self.first)

    def step(self, problem: Problem, state: State) -> CoCaInState:
        s = cast(CoCaInState, state)
        theta = 0.5 * (1 + math.sqrt(1 + 4 * s.theta**2))
        y = self._ahead(problem, s, (s.theta - 1) / theta)
        upper = s.upper
        for _ in range(_TRIALS):
            trial = problem.trial(y, 1 / upper)
            if trial.enough:
                return CoCaInState(trial.point, 1 / upper, s.point, theta, upper)
            upper *= 2
        raise NoProgress(f"no L̄ up to {upper:.1e} bounds the loss from above")

    def _ahead(self, problem: Problem, s: CoCaInState, gamma: float) -> Point:
        """Return Y for the first of γ, γ/2, γ/4, … that the condition allows, or X itself."""
        room = (self.delta - self.epsilon) * _divergence(problem, s.previous, s.point) if gamma > 0 else 0.0
        while gamma > 1e-3 and room > 0:
            y = problem.loss.extrapolate(s.point, s.previous, gamma)
            apart = _divergence(problem, s.point, y)
            lower = max(0.0, -_remainder(s.point, y) / apart) if apart > 0 else 0.0
            if (1 + lower / s.upper) * apart <= room:
                return y
            gamma /= 2
        return s.point


@dataclass(frozen=True)
class ABPGState(State):
    """The iterate X, the other sequence Z, the last θ (0 where Z begins at X), the gain G, and Ψ at X."""

    Z: Point = None  # type: ignore[assignment]
    theta: float = 0.0
    gain: float = 1.0
    objective: float = math.inf


@dataclass(frozen=True)
class ABPG(Solver):
    """Accelerated Bregman proximal gradients with adaptive gain (Hanzely, Richtárik and Xiao 2021), restarted.

    | Y  = (1 − θ)X + θZ
    | Z⁺ = argmin_U  g(U) + ⟨∇f(Y), U⟩ + Gθ^(γ−1) D_h(U, Z)
    | X⁺ = (1 − θ)X + θZ⁺

    with the least gain G of a sequence for which f(X⁺) ≤ f(Y) + ⟨∇f(Y), X⁺ − Y⟩ + Gθ^γ D_h(Z⁺, Z), and the next θ from
    (1 − θ⁺)/(G⁺θ⁺^γ) = 1/(Gθ^γ). It is a method for convex f: where the objective rises, Z begins anew at X with θ = 1.
    So it does where θ has become small. Where Z⁺ is lower than X⁺ it takes its place: an average is never at a bound.

    Parameters
    ----------
    gamma : float, default=2.0
        γ, the exponent of triangle scaling.
    growth : float, default=1.2
        What G is multiplied by where a trial fails, and divided by before each first one.
    max_trials : int, default=200
        Gains tried before the run is called stalled.

    Examples
    --------
    >>> from quartic import SymNMF, datasets
    >>> SymNMF(2, solver="abpg", random_state=0).fit(datasets.karate().adjacency).result_.success
    True
    """

    name = "abpg"
    requires = Requirements(kernel=True)
    state = ABPGState
    checks = checked(gamma=POSITIVE, growth=POSITIVE, max_trials=COUNT)

    gamma: float = 2.0
    growth: float = 1.2
    max_trials: int = 200

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.gamma >= 1 or not self.growth > 1:
            raise ValueError(f"gamma must be at least 1 and growth above 1, got {self.gamma!r} and {self.growth!r}")

    def init(self, problem: Problem, X0: Array) -> ABPGState:
        p = problem.loss.at(X0)
        return ABPGState(p, Z=p, objective=problem.objective(p))

    def step(self, problem: Problem, state: State) -> ABPGState:
        s = cast(ABPGState, state)
        assert problem.kernel is not None
        gain, power = s.gain / self.growth, s.gain * s.theta**self.gamma
        for _ in range(self.max_trials):
            theta = _next_theta(power, gain, self.gamma) if s.theta > 0 else 1.0
            y = problem.loss.extrapolate(s.point, s.Z, -theta) if theta < 1 else s.Z
            step = 1 / (gain * theta ** (self.gamma - 1))
            V = problem.kernel.gradient(s.Z.X) - step * y.gradient
            Z = problem.loss.at(problem.kernel.mirror(V, problem.penalty, step))
            if gain < 1 and is_zero(Z.X):  # a saddle, as a rule, that no method leaves; at a gain of 1 it is the answer
                gain *= self.growth
                continue
            X = problem.loss.extrapolate(s.point, Z, -theta) if theta < 1 else Z
            room = gain * theta**self.gamma * _divergence(problem, Z, s.Z)
            if _remainder(X, y) <= room + 16 * float(y.rounding) * float(problem.loss.space.norm(y.X)):
                X = min(X, Z, key=problem.objective)
                objective = problem.objective(X)
                if s.theta > 0 and (objective > s.objective or theta < _LEAST_THETA):
                    return self.step(problem, ABPGState(s.point, s.step, s.point, 0.0, gain, s.objective))
                return ABPGState(X, step, Z, theta, gain, objective)
            gain *= self.growth
        raise NoProgress(f"no gain up to {gain:.1e} bounds the loss from above")


def _next_theta(power: float, gain: float, gamma: float) -> float:
    """Return the θ in (0, 1) with (1 − θ)/(Gθ^γ) = 1/power: one side falls in θ, the other rises."""
    from scipy.optimize import brentq

    return float(brentq(lambda theta: (1 - theta) * power - gain * theta**gamma, 0.0, 1.0, xtol=1e-15))
