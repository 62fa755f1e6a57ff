"""A power of two times a map."""

from __future__ import annotations

from collections.abc import Callable

from quartic.arrays import Array
from quartic.core.units import shifted
from quartic.losses.other.measurements.base import Measurements


class Scaled(Measurements):
    """2^power · 𝒜."""

    def __init__(self, measurements: Measurements, power: int) -> None:
        self.whole, self.power = measurements, power
        self.n, self.m, self.dtype = measurements.n, measurements.m, measurements.dtype
        self.semidefinite = measurements.semidefinite

    def image(self, X: Array) -> Array:
        """Return the image under 𝒜."""
        return self.whole.image(X)

    def polars(self, *pairs: tuple[Array, Array]) -> Array:
        """Return what 𝒜 measures, scaled."""
        return shifted(self.whole.polars(*pairs), self.power)

    def adjoint(self, y: Array, image: Array) -> Array:
        """Return 2^power · 𝒜*(y) X."""
        return self.whole.adjoint(shifted(y, self.power), image)

    def gram_product(self, y: Array) -> Array:
        """Return 4^power · 𝒜(𝒜*(y))."""
        return shifted(self.whole.gram_product(shifted(y, self.power)), self.power)

    @property
    def work(self) -> float:
        """That of 𝒜."""
        return self.whole.work

    def cheap_bound(self, count: Callable[[int], None]) -> float:
        """Return the bound of 𝒜, scaled."""
        return shifted(self.whole.cheap_bound(count), 2 * self.power)
