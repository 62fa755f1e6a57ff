"""What a run returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

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
    UNBOUNDED = "unbounded"
    INFEASIBLE = "infeasible"


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


@dataclass(frozen=True, repr=False)
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
        One of converged, max_iter, max_time, callback, interrupted, stalled, non_finite, unbounded (there is no
        minimiser: the objective falls without end).
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

    def plot(self, against: str = "n_iter", ax: Any = None) -> Any:
        """Draw how the run converged, with matplotlib.

        Parameters
        ----------
        against : {"n_iter", "time", "n_products"}
            The horizontal axis.
        ax : matplotlib axes, optional
            Where to draw; a new figure when left out.

        Returns
        -------
        matplotlib axes
        """
        from quartic import plots

        return plots.history(self.history, against, ax)

    def unless_interrupted(self) -> Self:
        """Return this, unless Ctrl-C ended the run: a run that is a part of something else passes it on."""
        if self.status is Status.INTERRUPTED:
            raise KeyboardInterrupt(self.message)
        return self

    def __repr__(self) -> str:
        rows = "".join(f"\n  {name:12} {value}" for name, value in self._facts().items())
        return f"Result of {self.solver or 'a run'}{rows}"

    def _repr_html_(self) -> str:
        from html import escape

        rows = "".join(
            f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(value)}</td></tr>'
            for name, value in self._facts().items()
        )
        return f"<table><caption>Result of {escape(self.solver or 'a run')}</caption>{rows}</table>"

    def _facts(self) -> dict[str, str]:
        n, r = self.X.shape
        return {
            "status": f"{self.status}: {self.message}" if not self.message.startswith(self.status) else self.message,
            "objective": f"{self.objective:.6e}",
            "stationarity": f"{self.stationarity:.3e}",
            "iterations": f"{self.n_iter} ({self.n_products} products, {self.time:.3g} s)",
            "X": f"{n} × {r}, {self.X.dtype}",
        }
