"""Rivals that search the loss, a quartic on every line, along one direction an iteration: one product each.

BetaSNMF, SNMPBB and projected Gauss–Newton are for symmetric NMF, ScaledGD is for any loss of free sign.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import numpy as np

from quartic.arrays import Array, gram, inner, namespace, norm, on_host, squared_norm, times
from quartic.arrays.subspace import inverse_of_gram
from quartic.core.problem import Problem
from quartic.losses import Point
from quartic.losses.factor.loss import LeastSquaresPoint
from quartic.losses.steps import Line
from quartic.solvers.base import COUNT, NONNEGATIVE, POSITIVE, NoProgress, Requirements, Solver, State, below, checked
from quartic.solvers.lines import CarriedState, refreshed
from quartic.solvers.nolips import DynState

# The share of the predicted decrease that must be seen, below the highest of the last values.
_SUFFICIENT = 1e-4
# A step along D is cut to between these shares of the last one tried.
_LEAST, _MOST = 0.1, 0.5
_TRIALS = 60
# Where the loss is concave along a step, the next one is longer by this factor.
_LONGER = 4.0


@dataclass(frozen=True)
class SpectralState(CarriedState):
    """The iterate, the Barzilai–Borwein step, and how many steps were made: its two formulas take turns.

    ``above`` says how much higher than here the last points were, the newest last: differences, which do not cancel.
    """

    alpha: float = math.nan
    above: tuple[float, ...] = (0.0,)
    n_steps: int = 0


@dataclass(frozen=True)
class SNMPBB(Solver):
    """X⁺ = X + tD with D = max(X − α∇f(X), 0) − X and α of Barzilai and Borwein; the objective may rise on the way.

    With s = X⁺ − X and y = ∇f(X⁺) − ∇f(X), the two steps ⟨s, s⟩/⟨s, y⟩ and ⟨s, y⟩/⟨y, y⟩ take turns. t begins at 1 and
    is shortened until f(X + tD) ≤ max of the last ``memory`` values + 10⁻⁴ t⟨∇f(X), D⟩ (Grippo, Lampariello and
    Lucidi 1986; Birgin, Martínez and Raydan 2000); on symmetric NMF that is SNMPBB (arXiv 2606.02887). The loss being a
    quartic on the line, the one product MD of an iteration decides every t, and carries MX along.

    Parameters
    ----------
    memory : int, default=10
        Among how many of the last values the highest is taken; with 1 the objective never rises.
    alternate : bool, default=True
        Let the two steps take turns; if not, the first, which is the longer, is taken always.

    Examples
    --------
    >>> from quartic import SymNMF, datasets
    >>> SymNMF(2, solver="snmpbb", random_state=0).fit(datasets.karate().adjacency).result_.success
    True
    """

    name = "snmpbb"
    requires = Requirements(("along",), ("only X ≥ 0",))
    state = SpectralState
    step_unit = (2, 1)
    checks = checked(memory=COUNT)

    memory: int = 10
    alternate: bool = True

    def init(self, problem: Problem, X0: Array) -> SpectralState:
        """Return the state at X0; the first step is as long as X0, were nothing cut off."""
        p = problem.loss.at(X0)
        slope = float(norm(p.gradient))
        return SpectralState(p, alpha=float(norm(X0)) / slope if slope > 0 else 1.0)

    def step(self, problem: Problem, state: State) -> SpectralState:
        s = cast(SpectralState, state)
        p, alpha = s.point, s.alpha
        D = problem.penalty.prox(p.X - alpha * p.gradient, alpha) - p.X
        line = problem.loss.along(p, D)
        t = _first_enough(line, max(s.above))
        if t is None:
            raise NoProgress("no step along the projected gradient decreases the objective: round-off is reached")
        new, rise = line.point_within(t), line.change(t)
        y = new.gradient - p.gradient
        bend = inner(D, y)  # ⟨s, y⟩/t, negative where the loss is concave: then a longer step
        if not bend > 0:
            following = _LONGER * alpha
        elif self.alternate and s.n_steps % 2:
            following = t * bend / squared_norm(y)
        else:
            following = t * squared_norm(D) / bend
        above = (*(value - rise for value in s.above), 0.0)[-self.memory :]
        new, carried, fresh = refreshed(problem, new, s.carried + 1, s.fresh)
        return SpectralState(new, t * alpha, carried, fresh, float(following), above, s.n_steps + 1)


def _first_enough(line: Line, above: float) -> float | None:
    """Return the first t ≤ 1 at which f is enough below a value ``above`` that of the start; None without descent."""
    slope, t = float(line.coefficients[0]), 1.0
    if not slope < 0:
        return None
    for _ in range(_TRIALS):
        change = line.change(t)
        if change <= above + _SUFFICIENT * t * slope:
            return t
        # the minimiser of the parabola through what is known
        vertex = -0.5 * slope * t * t / (change - t * slope)
        t = min(max(vertex, _LEAST * t), _MOST * t)
    return None


@dataclass(frozen=True)
class BetaSNMF(Solver):
    """X⁺ = X ∘ (1 − β + β MX / (X XᵀX)), entrywise; where that raises the loss, the best point on the way to it.

    The multiplicative update of He, Xie, Zdunek, Zhou and Cichocki 2011, kept from going up. X⁺ − X has the sign of −∇f
    in every entry, so it is a direction of descent, but for β near 1 the full update may overshoot. The loss on the
    line is a quartic whose coefficients the product MX⁺ gives, and with it the product at the point taken: one product
    an iteration in any case. Entries that are 0 stay 0, as in every multiplicative method: start from X₀ > 0.

    Parameters
    ----------
    beta : float, default=0.99
        β, between 0 and 1 (1 is allowed).

    Examples
    --------
    >>> import numpy as np
    >>> from quartic import Problem, losses, minimize, penalties, solvers
    >>> problem = Problem(losses.LeastSquares(np.kron(np.eye(2), np.ones((3, 3)))), penalties.Nonnegative())
    >>> result = minimize(problem, rank=2, solver=solvers.BetaSNMF(beta=0.5), random_state=0)
    >>> result.success, result.objective < 1e-3
    (True, True)
    """

    name = "beta"
    requires = Requirements(("on_host", "point_from"), ("only X ≥ 0",))
    state = CarriedState
    checks = checked(beta=NONNEGATIVE)

    beta: float = 0.99

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.beta <= 1:
            raise ValueError(f"beta must be positive and at most 1, got {self.beta!r}")

    def step(self, problem: Problem, state: State) -> CarriedState:
        s = cast(CarriedState, state)
        p = cast(LeastSquaresPoint, s.point)
        line = problem.loss.along(p, self._update(p) - p.X)
        t = 1.0 if line.change(1.0) < 0 else line.minimizer(1.0)
        if not line.change(t) < 0:
            raise NoProgress("the multiplicative update does not decrease the loss; entries that are 0 stay 0")
        return _moved_to(problem, s, line, t)

    def _update(self, p: LeastSquaresPoint) -> Array:
        size = p.X @ p.gram.astype(p.X.dtype, copy=False)
        # X / (X XᵀX) ≤ 1 / (XᵀX)_kk stays bounded where X is tiny; it is 0 where X is 0, whatever the denominator
        ratio = np.divide(p.X, size, out=np.zeros_like(p.X), where=size > 0)
        X: Array = np.maximum((1 - self.beta) * p.X + self.beta * ratio * p.MX, 0)
        # an entry on its way to 0 would never arrive; below round-off beside the others it is there
        negligible = float(np.finfo(X.dtype).eps) * norm(X) / math.sqrt(X.size)
        X[(negligible > X) & (size > p.MX)] = 0
        return X


@dataclass(frozen=True)
class ProjectedGaussNewton(Solver):
    """D = max(X + E, 0) − X, where E nearly solves JᵀJE = −∇f(X) on the face of X; then the best t on X + tD.

    SymPGNCG of Hayashi, Aksoy, Ballard and Park. With J(E) = EXᵀ + XEᵀ the derivative of XXᵀ, JᵀJE = 2(E XᵀX + X EᵀX):
    products with it need no M, only a few conjugate gradient steps of 4nr² multiplications each. One product an
    iteration, for the line.

    Parameters
    ----------
    n_cg : int, default=20
        The most conjugate gradient steps of an iteration.
    forcing : float, default=0.1
        They end where the residual is down to this share.

    Examples
    --------
    >>> from quartic import SymNMF, datasets
    >>> SymNMF(2, solver="pgncg", random_state=0).fit(datasets.karate().adjacency).result_.success
    True
    """

    name = "pgncg"
    requires = Requirements(("point_from",), ("only X ≥ 0",))
    state = CarriedState
    checks = checked(n_cg=COUNT, forcing=below(1.0))

    n_cg: int = 20
    forcing: float = 0.1

    def step(self, problem: Problem, state: State) -> CarriedState:
        """Return the best point along the projected direction, or the projected gradient where that is no descent."""
        s = cast(CarriedState, state)
        p = cast(LeastSquaresPoint, s.point)
        for E in (self._solve(p), -p.gradient / (2 * float(p.gram.trace()))):
            D = problem.penalty.prox(p.X + E, 1.0) - p.X
            if inner(p.gradient, D) < 0:
                line = problem.loss.along(p, D)
                t = line.minimizer(1.0)
                if t > 0:
                    return _moved_to(problem, s, line, t)
        raise NoProgress("no step along the projected direction decreases the loss: round-off is reached")

    def _solve(self, p: LeastSquaresPoint) -> Array:
        """Return E after a few conjugate gradient steps on JᵀJE = −∇f(X) over the entries that are free."""
        X, G, xp = p.X, p.gradient, namespace(p.X)
        free = (X > 0) | (G < 0)
        R = xp.where(free, -G, 0 * G)
        E, P, rr = 0 * G, R, float(inner(R, R))
        goal = self.forcing**2 * rr
        for _ in range(self.n_cg):
            if not rr > goal:
                break
            A = xp.where(free, 2 * (times(P, p.gram) + times(X, gram(P, X))), 0 * P)
            bend = float(inner(P, A))
            if not bend > 1e-14 * inner(P, P) * float(p.gram.trace()):
                break
            E = E + (rr / bend) * P
            R = R - (rr / bend) * A
            before, rr = rr, float(inner(R, R))
            P = R + (rr / before) * P
        return E


def _moved_to(problem: Problem, s: CarriedState, line: Line, t: float) -> CarriedState:
    """Return the state at t on a line from the point of another, without leaving X ≥ 0."""
    point, carried, fresh = refreshed(problem, line.point_within(t), s.carried + 1, s.fresh)
    return CarriedState(point, t, carried, fresh)


@dataclass(frozen=True)
class ScaledGD(Solver):
    """X⁺ = X − t∇Ψ(X)(XᵀX + λI)⁻¹ (Tong, Ma and Chi 2021), whose rate does not depend on the condition of the truth.

    With rank above the truth's XᵀX becomes singular, and λ > 0 is needed. As in preconditioned gradient descent
    (Zhang, Fattahi and Zhang 2023) it is in proportion to the error that is left, λ = damping · (f(X)/f(X₀))^½ ‖XᵀX‖.

    Parameters
    ----------
    step_size : float, optional
        t, fixed, as a multiple of 1/L_F: 0.5 in the papers. When left out the best t on the line is taken.
    damping : float, default=1.0
        What λ is multiplied by; 0 for plain ScaledGD.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic import Problem, minimize
    >>> from quartic.losses import LeastSquares
    >>> A = np.arange(12.0).reshape(6, 2)
    >>> minimize(Problem(LeastSquares(A @ A.T)), rank=3, solver="scaledgd", random_state=0).success
    True
    """

    name = "scaledgd"
    requires = Requirements(("along",), ("smooth", "on_line"))
    state = DynState
    step_unit = (4, 1)
    checks = checked(step_size=POSITIVE, damping=NONNEGATIVE)

    step_size: float | None = None
    damping: float = 1.0

    def init(self, problem: Problem, X0: Array) -> DynState:
        """Return the state at X0, with the value there to measure errors by."""
        p = problem.loss.at(X0)
        return DynState(p, next_step=float(p.value))

    def step(self, problem: Problem, state: State) -> DynState:
        p, first = state.point, cast(DynState, state).next_step
        G = problem.penalty.stationarity(p.X, p.gradient)  # ∇Ψ, since the penalty is smooth
        D = -times(G, self._inverse(p, float(p.value) / first if first > 0 else 0.0))
        found = self._along(problem, p, D)
        if found is None or not inner(G, D) < 0:
            raise NoProgress("no step along the scaled gradient decreases the objective: round-off is reached")
        return DynState(found[0], step=found[1], next_step=first)

    def _inverse(self, p: Point, left: float) -> Array:
        """Return (XᵀX + λI)⁻¹, where ``left`` is the share of the loss that is left."""
        S, least = on_host(p.gram), self.damping * math.sqrt(min(max(left, 0.0), 1.0)) + np.finfo(np.float64).eps
        return inverse_of_gram(S, least * float(np.linalg.norm(S, 2)) or 1.0)

    def _along(self, problem: Problem, p: Point, D: Array) -> tuple[Point, float] | None:
        if self.step_size is not None:
            t = self.step_size / problem.loss.smoothness
            return problem.loss.at(p.X + t * D), t
        t = problem.loss.along(p, D).minimizer(math.inf, *problem.penalty.on_line(p.X, D))
        return (problem.loss.at(p.X + t * D), t) if t > 0 else None
