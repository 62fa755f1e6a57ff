"""What a penalty g must offer, and what it may."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

from quartic.arrays import Array, check_number, norm, squared_norm
from quartic.core.parts import drop_stale
from quartic.core.units import Degrees, Units


class Penalty(ABC):
    """A simple function g(X) whose proximal map is known.

    A penalty of your own needs ``value``, ``prox`` and ``stationarity``; with them it works with the Euclidean kernel,
    and where it is convex with the norm kernel. Three facts tell solvers what they may do with it besides:
    ``nonnegative`` (its domain is X ≥ 0), ``smooth`` (it is differentiable, so that its gradient can be followed) and
    ``convex``, which the convergence theorem asks for. The other methods are capabilities: with them a problem is
    solved faster, or by more solvers.

    A class derived from one of ours that changes what g is, its value, prox or stationarity, takes over no formula
    that followed from them: it has the defaults here in their place.
    """

    nonnegative: bool = False
    smooth: bool = False
    convex: bool = True
    #: ρ where a smooth g is ½ρ‖X‖², for solvers that use its second derivative
    ridge: float | None = None
    #: for a dataclass: the degrees in X of the terms that its fields are weights of
    degrees: ClassVar[Degrees | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        formulas = (
            "smooth", "ridge", "has_lines", "value_at", "stationarity_at", "smooth_gradient",
            "on_line", "change", "in_units", "degrees", "cut", "norm_mirror", "pull_at",
        )  # fmt: skip
        drop_stale(cls, Penalty, ("value", "prox", "stationarity"), formulas)

    @abstractmethod
    def value(self, X: Array) -> float:
        """Return g(X); infinity outside the domain."""

    @abstractmethod
    def prox(self, V: Array, t: float) -> Array:
        """Return argmin_U  t g(U) + ½‖U − V‖²."""

    @abstractmethod
    def stationarity(self, X: Array, gradient: Array) -> Array:
        """Return the element of ∇f(X) + ∂g(X) of least norm; its norm is the stopping measure."""

    @property
    def only_ridge(self) -> float | None:
        """ρ where g is ½ρ‖X‖² and nothing else; None for other penalties."""
        return self.ridge if self.smooth else None

    # -- capabilities -----------------------------------------------------------------------------------------------

    @property
    def has_lines(self) -> bool:
        """Whether there is a method ``on_line``."""
        return type(self).on_line is not Penalty.on_line

    def on_line(self, X: Array, D: Array) -> tuple[float, float]:
        """Return a and b of g(X + tD) = g(X) + at + bt² inside the domain, for penalties that are such there."""
        raise TypeError(f"{type(self).__name__} does not say what it is on lines (it has no method on_line)")

    def in_units(self, units: Units) -> Self | None:
        """Return g̃(X̃) = 2^value · g(X̃ / 2^length), or None for a penalty that cannot be had in other units."""
        return units.weigh(self, self.degrees)

    def cut(self, t: float) -> tuple[bool, float, float] | None:
        """Return (clip, shift, ridge) where prox_t(V) is V − shift, cut off below zero if clip, over 1 + ridge."""
        return None

    def norm_mirror(self, V: Array, t: float, alpha: float, sigma: float) -> Array:
        """Return argmin_U  α/4‖U‖⁴ + σ/2‖U‖² + t g(U) − ⟨V, U⟩: the mirror map of the norm kernel.

        With z = α‖U‖² + σ the answer is U(z) = prox_{t/z}(V/z). ½‖U(z)‖² is the slope in z of the minimum of
        ½z‖U‖² + t g(U) − ⟨V, U⟩, which is concave in z, so α‖U(z)‖² + σ − z falls and has one root. A dozen calls of
        ``prox`` or so find it, in log z; a penalty with a formula of its own should use that.
        """
        if not self.convex:
            raise ValueError(
                f"no mirror map for NormKernel with {type(self).__name__}, which is not convex: give it a method "
                "norm_mirror(V, t, alpha, sigma), or use EuclideanKernel"
            )
        from scipy.optimize import brentq

        def gap(log_z: float) -> float:
            z = math.exp(log_z)
            return math.log(alpha * float(squared_norm(self.prox(V / z, t / z))) + sigma) - log_z

        low = math.log(sigma)
        high = low + gap(low) + 1e-12
        z = math.exp(brentq(gap, low, high, xtol=1e-16)) if gap(low) > 0 else sigma
        return self.prox(V / z, t / z)

    def pull_at(self, point: Any) -> float:
        """Return ⟨s, X⟩ for the subgradients s of g at a point, for penalties with a `cut`."""
        raise NotImplementedError

    # -- measures ---------------------------------------------------------------------------------------------------

    def value_at(self, point: Any) -> float:
        """Return g at a `quartic.losses.Point`, which may know already what g asks of X."""
        return self.value(point.X)

    def stationarity_at(self, point: Any) -> float:
        """Return the norm of ``stationarity`` at a `quartic.losses.Point`, which may have it without its gradient."""
        return norm(self.stationarity(point.X, point.gradient))

    def smooth_gradient(self, X: Array, gradient: Array) -> Array:
        """Return ∇f(X) plus the gradient of g inside its domain, for penalties that have one there."""
        return self.stationarity(X, gradient) if self.smooth else gradient

    def change(self, X: Array, Y: Array) -> float:
        """Return g(Y) − g(X); penalties that can do so avoid the cancellation between close neighbours."""
        return self.value(Y) - self.value(X)


def check_weight(value: float, name: str, zero: bool = False) -> None:
    """Raise unless this is a positive number (or zero where that is allowed), and say what to use instead."""
    check_number(value, name, zero=zero, cure="; for no penalty use Zero() or Nonnegative()")
