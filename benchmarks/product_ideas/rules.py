"""The inertial method with other rules for the step, the restart and the momentum."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from quartic.arrays import gram, inner, norm, trace_inner
from quartic.losses.point import Point
from quartic.solvers.base import NoProgress, Requirements, Solver, State

_AFTER_RESTART = 0.5 * (1 + math.sqrt(5))


@dataclass(frozen=True)
class RuleState(State):
    """The iterate, the one before, Nesterov's θ, the step to try, the objective, and successes in a row."""

    previous: Point = None
    theta: float = 1.0
    next_step: float = 1.0
    objective: float = math.inf
    successes: int = 0
    failed: int = 0


@dataclass(frozen=True)
class Rules(Solver):
    """X⁺ = T_λ(Y), Y = X + β(X − X₋), under rules one may choose.

    Parameters
    ----------
    step_rule : str
        "grow": λ × ``growth`` after a success, × ``shrink`` after a failure. "wait": it grows only after ``wait``
        successes in a row. "hold": it grows by what the last trial leaves room for, at most ``growth`` times, and never
        less than once. "measure": a trial tells by how much its step was too short or too long, ratio =
        remainder·λ/D_h, and the next λ is 0.9 of what that says, at most ``growth`` times. "damped": the fourth root
        of that. "advised": as "grow", but after a failure by what the ratio says.
    first : str
        Until the first trial fails: "" as ever after; "double": λ is doubled; "measure": it becomes 0.9 of what the
        trial says, at most ten times longer; "powers": it is doubled as often as that allows, three times at most.
    relaxed : float
        A trial is accepted when its remainder is at most so many times D_h/λ; 1 is the method's own.
    restart : str
        What happens where the objective rises. "redo": the step again from X, θ = 1. "keep": keep it, θ = 1. "half":
        redo, θ only halved. "kept": redo, θ as it was. "none": nothing. "slope": redo, and θ = 1 also where
        ⟨Y − X⁺, X⁺ − X⟩ > 0. "speed": redo, and θ = 1 also where ‖X⁺ − X‖ < ‖X − X₋‖ after the fifth step.
    momentum : str
        "theta": β of Nesterov. "line": the t ≤ ``most`` for which f(X + t(X − X₋)) is least, known without a product.
        "full": β = 1 between restarts by slope.
    most : float
        β is at most this.
    salvage : bool
        Where a trial fails, or Ψ rises, the best point on the way from X to it is taken, if it is lower: its product is
        known, by linearity.
    """

    name = "rules"
    requires = Requirements(kernel=True)
    state = RuleState

    growth: float = 1.1
    shrink: float = 0.5
    step_rule: str = "grow"
    first: str = ""
    wait: int = 5
    relaxed: float = 1.0
    restart: str = "redo"
    momentum: str = "theta"
    most: float = 1.0
    salvage: bool = False
    max_trials: int = 100

    def init(self, problem: Any, X0: Any) -> RuleState:
        p = problem.loss.at(X0)
        return RuleState(p, previous=p, objective=problem.objective(p))

    def step(self, problem: Any, state: Any) -> RuleState:
        s = state
        theta = 0.5 * (1 + math.sqrt(1 + 4 * s.theta**2))
        beta = self._momentum(s, theta)
        if beta > 0:
            Y = problem.loss.extrapolate(s.point, s.previous, beta)
            found = self._trial(problem, Y, s)
            if found is not None:
                X = found[0]
                if not problem.objective(X) > s.objective or self.restart == "none":
                    return self._after(problem, s, *found, 1.0 if self._turns(s, Y, X) else theta)
                if self.restart == "keep":
                    return self._after(problem, s, *found, 1.0)
                on_the_way = self._salvaged(problem, s, X)
                if on_the_way is not None:
                    return self._after(problem, s, on_the_way, *found[1:], max(1.0, self._kept_of(s.theta)))
        found = self._trial(problem, s.point, s)
        if found is None:
            raise NoProgress("no step decreases the objective enough")
        return self._after(problem, s, *found, max(_AFTER_RESTART, self._kept_of(s.theta)))

    def _kept_of(self, theta: float) -> float:
        """Return what is left of θ after a restart."""
        return {"half": 0.5 * theta, "kept": theta}.get(self.restart, 1.0)

    def _momentum(self, s: RuleState, theta: float) -> float:
        if s.previous is s.point:
            return 0.0
        if self.momentum == "line":
            return min(best_on_line(s.point, s.previous), self.most)
        if self.momentum == "full":
            return self.most if s.theta > 1 else 0.0
        return min((s.theta - 1) / theta, self.most)

    def _turns(self, s: RuleState, Y: Point, X: Point) -> bool:
        if self.restart == "slope" or self.momentum == "full":
            return inner(Y.X - X.X, X.X - s.point.X) > 0
        if self.restart == "speed":
            return s.theta > 3.5 and norm(X.X - s.point.X) < norm(s.point.X - s.previous.X)
        return False

    def _trial(self, problem: Any, p: Point, s: RuleState) -> tuple[Any, ...] | None:
        step, successes, failed = s.next_step, s.successes, s.failed
        for _ in range(self.max_trials):
            move = problem.loss.move(p, self._map(problem, p, step))
            bound = self._bound(problem, move, step)
            ratio = float(move.remainder) / bound if bound > 0 else 1.0
            enough = move.remainder <= self.relaxed * bound + move.allowance
            successes, failed = (successes + 1, failed) if enough else (0, failed + 1)
            following = step * self._factor(enough, ratio / self.relaxed, successes, failed)
            if enough:
                return move.point, step, following, successes if following <= step else 0, failed
            on_the_way = self._salvaged(problem, s, move.point)
            if on_the_way is not None:
                return on_the_way, step, following, 0, failed
            step = following
        return None

    def _salvaged(self, problem: Any, s: RuleState, point: Any) -> Any:
        """Return the best point between X and this one, if it is lower than X."""
        if not self.salvage:
            return None
        p = s.point
        t = min(best_on_line(p, point, away=False), 1.0)
        if not t > 0:
            return None
        between = type(p)(p.loss, p.X + t * (point.X - p.X), p.MX + t * (point.MX - p.MX))
        return between if problem.objective(between) < s.objective else None

    def _factor(self, enough: bool, ratio: float, successes: int, failed: int) -> float:
        """Return what λ is multiplied by after a trial."""
        advice = 0.9 / ratio if ratio > 0 else math.inf
        if not enough:
            return min(max(advice, 0.1), 0.8) if self.step_rule in ("measure", "advised") else self.shrink
        if self.first == "powers" and not failed:
            return next((power for power in (8.0, 4.0, 2.0) if power <= advice), self.growth)
        if self.first and not failed:
            return 2.0 if self.first == "double" else max(1.0, min(10.0, advice))
        if self.step_rule == "wait":
            return self.growth if successes >= self.wait else 1.0
        if self.step_rule == "hold":
            return max(min(self.growth, advice), 1.0)
        if self.step_rule == "measure":
            return max(min(self.growth, advice), 0.8)
        if self.step_rule == "damped":
            return max(min(self.growth, advice**0.25), 0.9)
        return self.growth

    def _map(self, problem: Any, p: Point, step: float) -> Any:
        return problem.bregman_step(p, step)

    def _bound(self, problem: Any, move: Any, step: float) -> float:
        return float(problem.kernel.divergence_of(move)) / step

    def _after(
        self, problem: Any, s: RuleState, new: Any, step: float, following: float, successes: int, failed: int,
        theta: float,
    ) -> RuleState:  # fmt: skip
        return RuleState(new, step, s.point, theta, following, problem.objective(new), successes, failed)


def best_on_line(p: Any, q: Any, away: bool = True) -> float:
    """Return the t > 0 with the least f(p + tD), D = p − q or q − p, 0 where f rises; its product costs none."""
    sign = 1.0 if away else -1.0
    D, MD = sign * (p.X - q.X), sign * (p.MX - q.MX)
    S, T, C = p.gram, gram(p.X, D), gram(D)
    slope = inner(p.gradient, D)
    if not slope < 0:
        return 0.0
    second = trace_inner(S, C) + trace_inner(T, T.T) + trace_inner(T, T) - inner(MD, D)
    cubic = [2 * trace_inner(C, C), 6 * trace_inner(T, C), 2 * second, slope]
    roots = np.roots(cubic)
    real = roots[(abs(roots.imag) < 1e-8 * abs(roots)) & (roots.real > 0)].real
    return float(real.min()) if len(real) else 0.0
