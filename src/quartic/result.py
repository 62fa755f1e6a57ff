"""What a run returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import Array


class Status(StrEnum):
    """Why a run ended."""

    CONVERGED = "converged"
    MAX_ITER = "max_iter"
    MAX_TIME = "max_time"
    CALLBACK = "callback"
    INTERRUPTED = "interrupted"
    STALLED = "stalled"
    NON_FINITE = "non_finite"


@dataclass(frozen=True)
class History:
    """One entry an iteration, the start included.

    Attributes
    ----------
    time : array
        Seconds since the call, set-up included.
    objective, stationarity : array
        As the solver saw them.
    n_products : array
        Products made so far.
    step : array
        The step size that led to this iterate (NaN where there is none).
    """

    time: NDArray[np.float64]
    objective: NDArray[np.float64]
    stationarity: NDArray[np.float64]
    n_products: NDArray[np.int64]
    step: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.time)


@dataclass(frozen=True)
class Result:
    """The outcome of `quartic.minimize`.

    Attributes
    ----------
    X : array (n, r)
        The point found.
    objective, stationarity : float
        Ψ(X) and the norm of the least element of ∇f + ∂g, measured at X itself, in float64, after the run; for every
        solver by the same function.
    status : Status
        One of converged, max_iter, max_time, callback, interrupted, stalled, non_finite.
    message : str
        The same in a sentence.
    n_iter, n_products : int
        Iterations; products with the data (passes over the pairs), those of the start and of constants included.
    time : float
        Seconds.
    history : History
        Time, objective, stationarity, products and step of every iteration.
    solver : str
        The solver that ran.
    """

    X: Array = field(repr=False)
    objective: float
    stationarity: float
    status: Status
    message: str
    n_iter: int
    n_products: int
    time: float
    history: History = field(repr=False)
    solver: str = ""

    @property
    def success(self) -> bool:
        """Whether the run converged."""
        return self.status is Status.CONVERGED
