"""A point X with what its one product gave: the loss and its gradient there."""

from __future__ import annotations

from abc import ABC, abstractmethod

from quartic.arrays import Array


class Point(ABC):
    """X, f(X) and ∇f(X); all come from one product, made when the point was.

    Attributes
    ----------
    X : array (n, r)
    value : float
        f(X).
    gradient : array (n, r)
        ∇f(X).
    rounding : float
        About the norm of the round-off in ``gradient``: below it a gradient, or a decrease predicted by it, means
        nothing.
    """

    X: Array

    @property
    @abstractmethod
    def value(self) -> float:
        """f(X)."""

    @property
    @abstractmethod
    def gradient(self) -> Array:
        """∇f(X)."""

    @property
    @abstractmethod
    def rounding(self) -> float:
        """The size of the round-off in the gradient."""

    @abstractmethod
    def arrays(self) -> dict[str, Array]:
        """Return what a checkpoint must keep to rebuild this very point, bit for bit."""
