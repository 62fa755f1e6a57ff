"""SNMPBB: projected gradients with steps of Barzilai and Borwein, and a line search that lets the objective rise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

from quartic.arrays import Array, inner, norm, squared_norm
from quartic.core.problem import Problem
from quartic.losses.point import Line
from quartic.solvers.base import COUNT, NoProgress, Requirements, Solver, State, checked
from quartic.solvers.lines import CarriedState, refreshed

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
    >>> import numpy as np
    >>> from quartic import Problem, minimize
    >>> from quartic.losses import LeastSquares
    >>> from quartic.penalties import Nonnegative
    >>> M = np.kron(np.eye(2), np.ones((3, 3)))
    >>> minimize(Problem(LeastSquares(M), Nonnegative()), rank=2, solver="snmpbb", random_state=0).success
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
        slope = norm(p.gradient)
        return SpectralState(p, alpha=norm(X0) / slope if slope > 0 else 1.0)

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
        return SpectralState(new, t * alpha, carried, fresh, following, above, s.n_steps + 1)


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
