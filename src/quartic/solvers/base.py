"""What a solver is: its settings, what it requires, ``init`` and ``step``. All else is the loop's."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from quartic.arrays import Array
from quartic.arrays.space import HostSpace
from quartic.core.problem import Problem
from quartic.core.units import Units
from quartic.losses import LeastSquares, Point
from quartic.losses.factor.matrix import OperatorMatrix
from quartic.losses.pairs.sum_of_squares import SumOfSquares
from quartic.penalties import Penalty


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

    point: Point
    step: float = math.nan

    def check(self, shape: tuple[int, int]) -> None:
        """Raise a ValueError where what a checkpoint held under ``listed`` does not go with an X of this shape."""


@dataclass(frozen=True)
class Requirements:
    """What a solver needs of the problem.

    Attributes
    ----------
    kernel : bool
        A Bregman kernel with a mirror map for the penalty.
    constants : bool
        Constants of that kernel as tight as can be proved; a dynamic step does as well with cheaper ones.
    quadratic : bool
        A loss whose F is quadratic, so that it is a quartic on lines.
    lines : bool
        A penalty that says what it is on lines, where the loss is a quartic there.
    rotations : bool
        A loss that rotations of X leave as it is.
    sum_of_squares : bool
        A loss ½‖e(X)‖² whose residuals can be linearised.
    products : bool
        The least-squares loss of symmetric NMF, through products M X.
    entries : bool
        The entries of M, dense or sparse; a LinearOperator shows none.
    smooth, nonnegative : bool
        Penalties it can handle: a smooth one (or none), one with X ≥ 0. Both: either. Neither: any.
    plain : bool
        X ≥ 0 and nothing besides.
    ridge : bool
        A smooth penalty that is a multiple of ½‖X‖².
    host : bool
        NumPy or SciPy data: its compiled passes know no torch tensors.
    """

    kernel: bool = False
    constants: bool = False
    quadratic: bool = False
    lines: bool = False
    rotations: bool = False
    sum_of_squares: bool = False
    products: bool = False
    entries: bool = False
    smooth: bool = False
    nonnegative: bool = False
    plain: bool = False
    ridge: bool = False
    host: bool = False

    def unmet(self, problem: Problem) -> str | None:
        """Return what is missing, in words, or None."""
        loss, penalty = problem.loss, problem.penalty
        if self.constants and loss.estimated and problem.kernel is None:
            kind = type(loss).__name__
            return f"constants that are known, but those of {kind} are estimated: give smoothness=, or a kernel"
        if self.constants and math.isinf(loss.smoothness) and problem.kernel is None:
            return f"a loss with a finite smoothness, but that of {type(loss).__name__} is infinite: take dyn-nolips"
        if self.host and not isinstance(loss.space, HostSpace):
            return "data in NumPy or SciPy arrays, but they are torch tensors (pass them .cpu() and as NumPy)"
        if self.products and not isinstance(loss, LeastSquares):
            return f"a LeastSquares loss (symmetric NMF), but the loss is {type(loss).__name__}"
        if self.entries and isinstance(loss, LeastSquares) and not loss.matrix.shows_entries:
            kind = "a LinearOperator" if isinstance(loss.matrix, OperatorMatrix) else "spread over blocks"
            return f"the entries of M (a dense or sparse matrix), but M is {kind}"
        if self.sum_of_squares and not isinstance(loss, SumOfSquares):
            return (
                f"a loss that is a sum of squares over pairs (such as Distances), but the loss is {type(loss).__name__}"
            )
        if self.quadratic and not loss.quadratic:
            return f"a loss that is quartic on lines, but {type(loss).__name__} is not"
        if self.rotations and not loss.rotations:
            return f"a loss that does not change when X is rotated, but {type(loss).__name__} holds points in place"
        name = type(penalty).__name__
        if self.plain and self.nonnegative and not (penalty.nonnegative and not hasattr(penalty, "weight")):
            return f"the penalty Nonnegative(), but the penalty is {name}"
        fits = (self.smooth and penalty.smooth) or (self.nonnegative and penalty.nonnegative)
        if (self.smooth or self.nonnegative) and not fits:
            wanted = " or ".join(
                words
                for flag, words in ((self.smooth, "is smooth (Zero, Ridge)"), (self.nonnegative, "keeps X ≥ 0"))
                if flag
            )
            return f"a penalty that {wanted}, but the penalty is {name}"
        if self.ridge and penalty.ridge is None:
            return f"a penalty that is a multiple of ½‖X‖² (Zero, Ridge), but the penalty is {name}"
        searches = self.quadratic or (self.lines and loss.quadratic)
        if searches and type(penalty).on_line is Penalty.on_line:
            return f"a penalty that says what it is on lines, but {name} has no method on_line"
        return None


class Solver(ABC):
    """An algorithm: a frozen dataclass of its settings."""

    name: ClassVar[str]
    requires: ClassVar[Requirements] = Requirements()
    state: ClassVar[type[State]] = State
    #: the unit of ``State.step`` is that of X to this power, over that of Ψ to the other; most steps are bare numbers
    step_unit: ClassVar[tuple[int, int]] = (0, 0)

    def unit_of_step(self, problem: Problem) -> tuple[int, int]:
        """Return ``step_unit``, or what takes its place where it depends on settings and problem."""
        return self.step_unit

    def in_units(self, units: Units, problem: Problem) -> Solver:
        """Return the solver with those of its settings scaled that are not bare numbers."""
        return self

    @abstractmethod
    def init(self, problem: Problem, X0: Array) -> State:
        """Return the state at X0."""

    @abstractmethod
    def step(self, problem: Problem, state: State) -> State:
        """Return the state after one iteration, or raise `NoProgress`."""
