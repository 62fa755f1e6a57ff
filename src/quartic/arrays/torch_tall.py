"""Names of earlier days, until the torch files of pairs no longer import them from here."""

from quartic.arrays.space_torch import DOUBLE, cross, dot

__all__ = ["DOUBLE", "cross", "dot"]
