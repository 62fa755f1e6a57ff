"""Names of earlier days, until nobody imports them from here."""

from quartic.arrays.generic import gram
from quartic.arrays.space import squares_are_safe

__all__ = ["gram", "squares_are_safe"]
