"""What a kernel h must offer."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Self

from quartic.arrays import Array, inner
from quartic.core.parts import drop_stale
from quartic.core.units import Degrees, Units

if TYPE_CHECKING:
    from quartic.losses.base import Loss, Point
    from quartic.losses.steps import Move
    from quartic.penalties.base import Penalty


class Kernel(ABC):
    """A strictly convex function h that sets the geometry: the Bregman distance D_h replaces ½‖X − Y‖².

    A kernel of your own needs ``value``, ``gradient`` and ``mirror``; then it works with every Bregman solver. A class
    derived from one of ours that changes these takes over no formula that followed from them.
    """

    #: the unit of a step λ is that of X to this power, over that of Ψ to the other: none where h has the unit of Ψ
    step_unit: ClassVar[tuple[int, int]] = (0, 0)
    #: for a dataclass: the degrees in X of the terms that its fields are weights of
    degrees: ClassVar[Degrees | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        drop_stale(
            cls, Kernel, ("value", "gradient"), ("divergence", "divergence_of", "in_units", "degrees", "for_loss")
        )
        drop_stale(cls, Kernel, ("gradient", "mirror"), ("iterate", "why_not"))

    @abstractmethod
    def value(self, X: Array) -> float:
        """Return h(X)."""

    @abstractmethod
    def gradient(self, X: Array) -> Array:
        """Return ∇h(X)."""

    @abstractmethod
    def mirror(self, V: Array, penalty: Penalty | None = None, t: float = 1.0) -> Array:
        """Return argmin_U  h(U) + t g(U) − ⟨V, U⟩, with g the penalty (none when left out)."""

    @classmethod
    def why_not(cls, penalty: Penalty) -> str | None:
        """Return why there is no mirror map with this penalty, or None where there is one."""
        return None

    def iterate(self, point: Point, penalty: Penalty, step: float) -> Array:
        """Return the Bregman iteration map T_λ(X) = argmin_U  g(U) + ⟨∇f(X), U − X⟩ + D_h(U, X)/λ."""
        return self.mirror(self.gradient(point.X) - step * point.gradient, penalty, step)

    def divergence(self, X: Array, Y: Array) -> float:
        """Return D_h(X, Y) = h(X) − h(Y) − ⟨∇h(Y), X − Y⟩.

        This default subtracts and so keeps no digit between close neighbours: a kernel that is to converge beyond
        half precision should override it with a formula in X − Y.
        """
        return self.value(X) - self.value(Y) - inner(self.gradient(Y), X - Y)

    def in_units(self, units: Units) -> Self | None:
        """Return h̃(X̃) = 2^value · h(X̃ / 2^length), or None for a kernel that cannot be had in other units."""
        return units.weigh(self, self.degrees)

    def divergence_of(self, move: Move) -> float:
        """Return D_h(X + D, X) of a step, for kernels that can from its Gram matrices."""
        return self.divergence(move.point.X, move.start.X)

    @classmethod
    def for_loss(cls, loss: Loss, tight: bool = True) -> Self:
        """Return the kernel for which the loss is 1-smooth."""
        raise TypeError(
            f"{cls.__name__} has no constants that make every loss relatively smooth; "
            "use NormKernel.for_loss or GramKernel.for_loss, or give your kernel a for_loss of its own"
        )


def sigma_for(loss: Loss, tight: bool) -> float:
    """Return the quadratic weight σ of Propositions 1 and 3.

    Any positive σ at or above twice the curvature bound is valid. Where the bound is zero a small share of
    ‖∇F(0)‖, the loss's own scale, keeps h strictly convex. Points held in place add curvature that ∇F(0) does not show.
    """
    if math.isinf(loss.smoothness):
        raise ValueError(
            f"{loss.name} has no finite smoothness, so no quartic kernel makes it relatively smooth; leave the kernel "
            "out, and the solver's steps find their own way"
        )
    size = loss.gradient_norm_at_zero
    if size == 0.0:
        return 1.0
    if tight:
        return max(2 * loss.curvature_at_zero, 1e-3 * size)
    return 2 * (size if loss.rotations else max(size, loss.curvature_at_zero))
