"""The Euclidean kernel: the geometry of ordinary gradient methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from quartic.arrays import Array, as_floats, check_number, squared_norm
from quartic.core.units import Units
from quartic.kernels.base import Kernel

if TYPE_CHECKING:
    from quartic.penalties.base import Penalty


@dataclass(frozen=True)
class EuclideanKernel(Kernel):
    """h(X) = ½‖X‖². No quartic loss is smooth relative to it: it serves with a dynamic step, and to compare with.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.kernels import EuclideanKernel
    >>> EuclideanKernel().value(np.ones((2, 2)))
    2.0
    """

    step_unit = (2, 1)

    def in_units(self, units: Units) -> Self:
        """Return itself: it has no constants, and the step takes up the units."""
        return self

    def value(self, X: Array) -> float:
        """Return ½‖X‖²."""
        return 0.5 * squared_norm(as_floats(X))

    def gradient(self, X: Array) -> Array:
        """Return X."""
        return as_floats(X)

    def divergence(self, X: Array, Y: Array) -> float:
        """Return ½‖X − Y‖²."""
        return 0.5 * squared_norm(as_floats(X) - as_floats(Y))

    def mirror(self, V: Array, penalty: Penalty | None = None, t: float = 1.0) -> Array:
        """Return prox_{t g}(V)."""
        check_number(t, "t", zero=True)
        return as_floats(V) if penalty is None else penalty.prox(as_floats(V), t)
