"""NoLips, the Bregman gradient method, with a fixed step and with the dynamical one of the paper's Algorithm 1."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

from quartic.arrays import Array
from quartic.core.problem import Problem
from quartic.core.units import Units
from quartic.solvers.base import COUNT, POSITIVE, NoProgress, Requirements, Solver, State, checked


@dataclass(frozen=True)
class DynState(State):
    """The iterate, and the step to try next."""

    next_step: float = 1.0


@dataclass(frozen=True)
class DynNoLips(Solver):
    """X⁺ = T_λ(X), with the first λ of λ_k, λ_k/2, λ_k/4, … for which sufficient decrease holds; then λ_{k+1} = 2λ.

    Sufficient decrease is f(X⁺) ≤ f(X) + ⟨∇f(X), X⁺ − X⟩ + D_h(X⁺, X)/λ. Both sides are computed from X⁺ − X, so
    the test still sees a decrease far below the round-off of f.

    Parameters
    ----------
    first_step : float, default=1.0
        λ to try first; 1 is safe with the constants of ``Kernel.for_loss``. Where the run works in units of its own, as
        with data of 1e120, this λ is one in those.
    max_step : float, default=1e12
        λ_max of the paper.
    max_halvings : int, default=100
        How often a step is halved before the run is called stalled.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic import Problem, kernels, losses, minimize
    >>> loss = losses.LeastSquares(np.diag([2.0, 1.0]))
    >>> problem = Problem(loss, kernel=kernels.GramKernel.for_loss(loss))
    >>> round(minimize(problem, rank=1, solver="dyn-nolips", tol=1e-8, random_state=0).objective, 12)
    0.5
    """

    name = "dyn-nolips"
    requires = Requirements(kernel=True)
    state = DynState
    checks = checked(first_step=POSITIVE, max_step=POSITIVE, max_halvings=COUNT)

    first_step: float = 1.0
    max_step: float = 1e12
    max_halvings: int = 100

    def init(self, problem: Problem, X0: Array) -> DynState:
        return DynState(problem.loss.at(X0), next_step=self.first_step)

    def step(self, problem: Problem, state: State) -> DynState:
        p, step = state.point, min(cast(DynState, state).next_step, self.max_step)
        for _ in range(self.max_halvings):
            trial = problem.trial(p, step)
            if trial.enough:
                return DynState(trial.point, step=step, next_step=2 * step)
            step /= 2
        raise NoProgress(f"no step down to λ = {step:.1e} decreases the objective enough")


@dataclass(frozen=True)
class NoLips(Solver):
    """X⁺ = T_λ(X) with λ fixed.

    With the constants of ``Kernel.for_loss`` the loss is 1-smooth, and λ = 1 never increases the objective.

    Parameters
    ----------
    step_size : float, default=1.0
        λ = 1/L, with L the relative smoothness of the loss.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic import Problem, minimize
    >>> from quartic.losses import LeastSquares
    >>> result = minimize(Problem(LeastSquares(np.eye(4))), rank=2, solver="nolips", random_state=0)
    >>> result.success
    True
    """

    name = "nolips"
    requires = Requirements(kernel=True, constants=True)
    checks = checked(step_size=POSITIVE)

    step_size: float = 1.0

    def in_units(self, units: Units, problem: Problem) -> NoLips:
        """Return the solver with λ scaled, where the kernel gives it a unit."""
        return replace(self, step_size=units.run_step(self.step_size, self.unit_of_step(problem)))

    def step(self, problem: Problem, state: State) -> State:
        return State(problem.loss.at(problem.bregman_step(state.point, self.step_size)), self.step_size)
