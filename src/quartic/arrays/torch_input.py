"""Names of earlier days, until the torch files of pairs no longer import them from here."""

from quartic.arrays.space_torch import TYPES, as_floats, dtype_for, finite_matrix

__all__ = ["TYPES", "as_floats", "dtype_for", "finite_matrix"]
