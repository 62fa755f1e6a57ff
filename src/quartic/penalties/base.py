"""What a penalty g must offer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from quartic.arrays import Array
from quartic.ops import norm


class Penalty(ABC):
    """A simple function g(X) whose proximal map is known.

    Two facts tell solvers what they may do with it: ``nonnegative`` (its domain is X ≥ 0) and ``smooth``
    (it is differentiable, so that its gradient can be followed). ``convex`` is what the convergence theorem asks for.
    """

    nonnegative: ClassVar[bool] = False
    smooth: ClassVar[bool] = False
    convex: ClassVar[bool] = True

    @abstractmethod
    def value(self, X: Array) -> float:
        """Return g(X); infinity outside the domain."""

    @abstractmethod
    def prox(self, V: Array, t: float) -> Array:
        """Return argmin_U  t g(U) + ½‖U − V‖²."""

    @abstractmethod
    def stationarity(self, X: Array, gradient: Array) -> Array:
        """Return the element of ∇f(X) + ∂g(X) of least norm; its norm is the stopping measure."""

    def stationarity_norm(self, X: Array, gradient: Array) -> float:
        """Return the norm of ``stationarity``."""
        return norm(self.stationarity(X, gradient))

    def smooth_gradient(self, X: Array, gradient: Array) -> Array:
        """Return ∇f(X) plus the gradient of g inside its domain, for penalties that have one there."""
        return gradient

    def on_line(self, X: Array, D: Array) -> tuple[float, float]:
        """Return a and b of g(X + tD) = g(X) + at + bt² inside the domain, for penalties that are such there."""
        return 0.0, 0.0

    def change(self, X: Array, Y: Array) -> float:
        """Return g(Y) − g(X); penalties that can do so avoid the cancellation between close neighbours."""
        return self.value(Y) - self.value(X)


@dataclass(frozen=True)
class Weighted(Penalty):
    """A penalty with one positive factor in front.

    Parameters
    ----------
    weight : float
        The factor, positive and finite.
    """

    weight: float

    def __post_init__(self) -> None:
        if not 0 < self.weight < float("inf"):
            raise ValueError(
                f"{type(self).__name__}: weight must be positive and finite, got {self.weight!r}; "
                "for no penalty use Zero() or Nonnegative()"
            )
