"""What a fit is asked to do, and what comes of it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import Array, RandomState
from quartic.core.result import Result
from quartic.core.units import shifted
from quartic.distance.cuts import OtherSide
from quartic.distance.determination import Determination
from quartic.locating.frame import checked_signs, checked_targets
from quartic.locating.input import Measurements
from quartic.locating.part import Effort
from quartic.locating.placing import Known
from quartic.locating.uncertainty import errors_of_points
from quartic.solvers import Solver


@dataclass(frozen=True)
class Settings:
    """The parameters of `DistanceCompletion` that a fit depends on; ``device`` is a torch device, or None."""

    n_components: int
    solver: str | Solver
    init: Any
    n_init: int
    tol: float
    max_iter: int
    max_time: float | None
    n_jobs: int | None
    device: Any
    random_state: RandomState
    verbose: bool
    align_to: Any
    signs: Any
    refine: str | None
    noise: float | None = None

    def frame(self, n: int) -> tuple[Known | None, Known | None]:
        """Return ``align_to`` and ``signs``, checked, as indices and what is wanted of them."""
        targets = None if self.align_to is None else checked_targets(self.align_to, n, self.n_components)
        simplices = None if self.signs is None else checked_signs(self.signs, n, self.n_components)
        return targets, simplices

    def effort(self, power: int = 0) -> Effort:
        """Return how runs are made, from now on; the user's lengths are 2^power times those worked with."""
        deadline = np.inf if self.max_time is None else time.perf_counter() + self.max_time
        return Effort(
            self.n_components, self.solver, self.tol, self.max_iter, deadline, bool(self.verbose), self.device, power
        )

    def may_scale(self) -> bool:
        """Tell whether the start may be classical scaling."""
        return isinstance(self.init, str) and self.init in ("auto", "mds")


@dataclass
class Account:
    """What was done on the way.

    Attributes
    ----------
    result, n_iter, start
        The last run, the iterations of all, and what was tried, in words.
    unexplained : array of bool (n,)
        Points of components whose misfit is neither round-off nor noise.
    sides : list of OtherSide
        Answers that fit as well, with a piece on the other side of a flat cut.
    """

    result: Result
    n_iter: int
    start: str
    unexplained: NDArray[np.bool_]
    sides: list[OtherSide]


@dataclass(frozen=True, eq=False)
class Located:
    """Points, and what is known of them: the attributes of a fitted `DistanceCompletion`.

    Attributes
    ----------
    data : Measurements
        What they were found from.
    X : array (n, r)
        The points.
    rmse, determination, component, chirality, account
        What the attributes of these names say.
    found_as : (Located, int) or None
        Where the data are far from one: the same in units 2^power times the user's, and the power.
    """

    data: Measurements
    X: Array
    rmse: float
    determination: Determination
    component: NDArray[np.int64]
    chirality: str
    account: Account
    found_as: tuple[Located, int] | None = None

    def standard_errors(self, noise: float | None, stress: bool) -> Array:
        """Return the standard error of each point, in the units in which it was found first of all."""
        if self.found_as is None:
            return errors_of_points(self.data, self.X, noise, stress)
        inner, power = self.found_as
        scaled = None if noise is None else shifted(float(noise), -power)
        return shifted(inner.standard_errors(scaled, stress), power)
