"""What a solver is: its settings, what it requires, ``init`` and ``step``. All else is the loop's."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from quartic.arrays import Array, check_count, check_number
from quartic.core.problem import Problem
from quartic.core.units import Units
from quartic.losses import Loss, Point
from quartic.losses.base import defines
from quartic.penalties import Penalty

#: objective, stationarity, step and number of products of each iteration
Iterations = Sequence[tuple[float, float, float, int]]


class NoProgress(Exception):
    """Raised by a step that can go no further; the loop ends the run as stalled."""


@dataclass(frozen=True)
class State:
    """Where a solver is. Fields are points, arrays, numbers, or tuples of those: a checkpoint keeps them all.

    Attributes
    ----------
    point : Point
        The current iterate.
    step : float
        The step size that led to it, for the history.
    """

    #: fields whose arrays are not of the shape of X; ``check`` knows what they must be
    listed: ClassVar[tuple[str, ...]] = ()
    #: whether every point was made by a product at X; one carried along drifts, and is made anew at the end
    is_measured: ClassVar[bool] = False

    point: Point
    step: float = math.nan

    def check(self, shape: tuple[int, int]) -> None:
        """Raise a ValueError where what a checkpoint held under ``listed`` does not go with an X of this shape."""


# What a solver may need of a loss, by the method it calls, in words.
_LOSS = {
    "on_host": "data in NumPy or SciPy arrays, but they are torch tensors (pass them .cpu() and as NumPy)",
    "point_from": "a loss that is least squares ½‖M − XXᵀ‖² (symmetric NMF), with points made from products MX",
    "entries": "the entries of M (a dense or sparse matrix), but M is a LinearOperator or spread over blocks",
    "linearize": "a loss that is a sum of squares over pairs (such as Distances)",
    "along": "a loss that is a quartic on lines",
    "hessian_product": "a loss that multiplies by its second derivative",
    "laplacian_solve": "a loss that a graph Laplacian bounds (RawStress)",
    "rotations": "a loss that does not change when X is rotated, but some points are held (Anchored)",
}
# The same of a penalty; of two with "|" between them one will do.
_PENALTY: dict[str, tuple[Callable[[Penalty, Loss], bool], str]] = {
    "only X ≥ 0": (lambda g, f: g.cut(1.0) == (True, 0.0, 0.0), "the penalty Nonnegative()"),
    "none": (lambda g, f: g.only_ridge == 0.0, "no penalty"),
    "smooth": (lambda g, f: g.smooth, "a penalty that is smooth (Zero, Ridge)"),
    "nonnegative": (lambda g, f: g.nonnegative, "a penalty that keeps X ≥ 0"),
    "ridge": (lambda g, f: g.only_ridge is not None, "a penalty ½ρ‖X‖² (Zero, Ridge, or with an attribute ridge)"),
    "on_line": (
        # on a domain such as X ≥ 0 only this tells what g is inside
        lambda g, f: g.has_lines or (g.smooth and not f.offers("along")),
        "a penalty with a method on_line, for searches of lines",
    ),
}


@dataclass(frozen=True)
class Requirements:
    """What a solver needs of the parts of a problem: a capability is a method that is there.

    Attributes
    ----------
    loss : tuple of str
        What it calls that not every loss has, such as "along", "hessian_product", "linearize" or "point_from".
    penalty : tuple of str
        Facts and methods of the penalty, such as "smooth|nonnegative" or "on_line".
    kernel : bool
        A Bregman kernel with a mirror map for the penalty.
    constants : bool
        Constants of that kernel as tight as can be proved; a dynamic step does as well with cheaper ones.
    """

    loss: tuple[str, ...] = ()
    penalty: tuple[str, ...] = ()
    kernel: bool = False
    constants: bool = False

    def unmet(self, problem: Problem) -> str | None:
        """Return what is missing, in words, or None."""
        loss, penalty, kernel, name = problem.loss, problem.penalty, problem.kernel, problem.loss.name
        reason = kernel.why_not(penalty) if self.kernel and kernel is not None else None
        if reason is not None:
            return f"a kernel that goes with the penalty: {reason}"
        if self.constants and loss.estimated and kernel is None:
            return f"constants that are known, but those of {name} are estimated: give smoothness=, or a kernel"
        if self.constants and kernel is None and math.isinf(loss.smoothness):
            return f"a loss with a finite smoothness, but that of {name} is infinite: take dyn-nolips"
        for method in self.loss:
            if not loss.offers(method):
                others = "" if "but" in _LOSS[method] else f", but {name} is not: {_those_with(method)}"
                return f"{_LOSS[method]}{others}"
        for kinds in self.penalty:
            found = [_PENALTY[kind] for kind in kinds.split("|")]
            if not any(test(penalty, loss) for test, _ in found):
                wanted = " or ".join(words for _, words in found)
                return f"{wanted}, but the penalty is {type(penalty).__name__}"
        return None


def _those_with(method: str) -> str:
    """Return which losses have a method, in words."""
    from quartic import losses

    kinds = (getattr(losses, name) for name in losses.__all__)
    found = (kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Loss) and defines(kind, method))
    names = list(dict.fromkeys(kind.name for kind in found))
    return f"those with a method {method} are {', '.join(names)}" if names else f"it has no method {method}"


Checks = tuple[tuple[str, Callable[[Any, str], object]], ...]
COUNT, POSITIVE, NONNEGATIVE = check_count, check_number, partial(check_number, zero=True)


def below(limit: float) -> partial[None]:
    """Return the check of a positive number below a limit."""
    return partial(check_number, below=limit)


def checked(**checks: Callable[[Any, str], object]) -> Checks:
    """Return the checks of a solver's settings, by name; None, the default of some, is not checked."""
    return tuple(checks.items())


class Solver(ABC):
    """An algorithm: a frozen dataclass of its settings."""

    name: ClassVar[str]
    checks: ClassVar[Checks] = ()
    requires: ClassVar[Requirements] = Requirements()
    state: ClassVar[type[State]] = State
    #: the unit of ``State.step`` is that of X to this power, over that of Ψ to the other; most steps are bare numbers
    step_unit: ClassVar[tuple[int, int]] = (0, 0)

    def __post_init__(self) -> None:
        for name, check in self.checks:
            if getattr(self, name) is not None:
                check(getattr(self, name), name)

    def unit_of_step(self, problem: Problem) -> tuple[int, int]:
        """Return ``step_unit``, that of the kernel's λ for Bregman steps, or what follows from the settings."""
        return problem.kernel.step_unit if self.requires.kernel and problem.kernel is not None else self.step_unit

    def in_units(self, units: Units, problem: Problem) -> Solver:
        """Return the solver with those of its settings scaled that are not bare numbers."""
        return self

    def init(self, problem: Problem, X0: Array) -> State:
        """Return the state at X0."""
        return self.state(problem.loss.at(X0))

    @abstractmethod
    def step(self, problem: Problem, state: State) -> State:
        """Return the state after one iteration, or raise `NoProgress`."""

    def advance(self, problem: Problem, state: State, most: int, target: float) -> tuple[State, Iterations]:
        """Return the state after up to ``most`` iterations made together, and what there is to tell of them.

        It stops where stationarity is within ``target``. For most solvers: one ``step``, and nothing to tell.
        """
        return self.step(problem, state), ()
