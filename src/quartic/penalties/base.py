"""What a penalty g must offer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from quartic.arrays import Array, check_number, norm
from quartic.core.units import Units


class Penalty(ABC):
    """A simple function g(X) whose proximal map is known.

    Two facts tell solvers what they may do with it: ``nonnegative`` (its domain is X ≥ 0) and ``smooth``
    (it is differentiable, so that its gradient can be followed). ``convex`` is what the convergence theorem asks for.
    ``ridge`` is ρ where g(X) = ½ρ‖X‖², for solvers that work with its second derivative.
    """

    nonnegative: ClassVar[bool] = False
    smooth: ClassVar[bool] = False
    convex: ClassVar[bool] = True

    @property
    def ridge(self) -> float | None:
        """ρ where g(X) = ½ρ‖X‖² (0 for no penalty), None for any other g."""
        return None

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

    def value_at(self, point: Any) -> float:
        """Return g at a `quartic.losses.Point`, which may know already what g asks of X."""
        return self.value(point.X)

    def stationarity_at(self, point: Any) -> float:
        """Return the norm of ``stationarity`` at a `quartic.losses.Point`, which may have it without its gradient."""
        return self.stationarity_norm(point.X, point.gradient)

    def smooth_gradient(self, X: Array, gradient: Array) -> Array:
        """Return ∇f(X) plus the gradient of g inside its domain, for penalties that have one there."""
        return self.stationarity(X, gradient) if self.smooth else gradient

    def on_line(self, X: Array, D: Array) -> tuple[float, float]:
        """Return a and b of g(X + tD) = g(X) + at + bt² inside the domain, for penalties that are such there."""
        raise TypeError(f"{type(self).__name__} does not say what it is on lines (it has no method on_line)")

    def change(self, X: Array, Y: Array) -> float:
        """Return g(Y) − g(X); penalties that can do so avoid the cancellation between close neighbours."""
        return self.value(Y) - self.value(X)

    def in_units(self, units: Units) -> Self | None:
        """Return g̃(X̃) = 2^value · g(X̃ / 2^length), or None for a penalty that cannot be had in other units."""
        return None


@dataclass(frozen=True)
class Weighted(Penalty):
    """A penalty with one positive factor in front.

    Parameters
    ----------
    weight : float
        The factor, positive and finite.
    """

    #: g(tX) = t^degree · g(X)
    degree: ClassVar[int]

    weight: float

    def in_units(self, units: Units) -> Self | None:
        """Return the same with the weight scaled."""
        weight = units.factor(self.weight, self.degree)
        return None if weight is None else replace(self, weight=weight)

    def __post_init__(self) -> None:
        cure = "; for no penalty use Zero() or Nonnegative()"
        check_number(self.weight, f"{type(self).__name__}: weight", cure=cure)
