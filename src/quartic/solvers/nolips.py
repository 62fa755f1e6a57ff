"""NoLips: the Bregman gradient method with a fixed step."""

from __future__ import annotations

from dataclasses import dataclass, replace

from quartic.arrays import Array, check_number
from quartic.core.problem import Problem
from quartic.core.units import Units
from quartic.solvers.base import Requirements, Solver, State


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

    step_size: float = 1.0

    def __post_init__(self) -> None:
        check_number(self.step_size, "step_size")

    def in_units(self, units: Units, problem: Problem) -> NoLips:
        """Return the solver with λ scaled, where the kernel gives it a unit."""
        return replace(self, step_size=units.run_step(self.step_size, self.unit_of_step(problem)))

    def init(self, problem: Problem, X0: Array) -> State:
        """Return the state at X0."""
        return State(problem.loss.at(X0))

    def step(self, problem: Problem, state: State) -> State:
        """Return X⁺ = T_λ(X)."""
        return State(problem.loss.at(problem.bregman_step(state.point, self.step_size)), self.step_size)
