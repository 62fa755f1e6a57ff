"""A point that keeps no more than the value and the gradient."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from quartic.arrays import Array
from quartic.losses.point import Point


class GradientPoint(Point):
    """X, f(X) and ∇f(X), for losses whose points carry nothing else.

    Parameters
    ----------
    X, value, gradient
        What the pass over the data gave.
    rounding : callable
        Says how large the round-off in the gradient is at such a point; called when first asked.
    """

    def __init__(self, X: Array, value: float, gradient: Array, rounding: Callable[[Point], float]) -> None:
        self.X = X
        self._value = value
        self._gradient = gradient
        self._rounding = rounding

    @property
    def value(self) -> float:
        """f(X)."""
        return self._value

    @property
    def gradient(self) -> Array:
        """∇f(X)."""
        return self._gradient

    @cached_property
    def rounding(self) -> float:
        """About the norm of the round-off in the gradient."""
        return self._rounding(self)

    def arrays(self) -> dict[str, Array]:
        """X, the value and the gradient."""
        return {"X": self.X, "value": np.asarray(float(self._value)), "gradient": self._gradient}
