"""Names of earlier days, until nobody imports them from here."""

from quartic.arrays.generic import float_type, times, to_host
from quartic.arrays.space import eps

__all__ = ["eps", "float_type", "times", "to_host"]
