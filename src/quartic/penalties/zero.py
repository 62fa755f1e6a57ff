"""No penalty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from quartic.arrays import Array
from quartic.core.units import Units
from quartic.penalties.base import Penalty


@dataclass(frozen=True)
class Zero(Penalty):
    """No penalty: g(X) = 0.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.penalties import Zero
    >>> Zero().value(np.ones((3, 2)))
    0.0
    """

    smooth = True

    def in_units(self, units: Units) -> Self:
        """Return itself."""
        return self

    def value(self, X: Array) -> float:
        """Return 0."""
        return 0.0

    def prox(self, V: Array, t: float) -> Array:
        """Return V itself."""
        return V

    def stationarity(self, X: Array, gradient: Array) -> Array:
        """Return the gradient."""
        return gradient

    @property
    def ridge(self) -> float:
        """0."""
        return 0.0

    def on_line(self, X: Array, D: Array) -> tuple[float, float]:
        """Return 0 and 0."""
        return 0.0, 0.0
