"""Penalties g(X): none, sign constraints, sparsity, ridge."""

from quartic.penalties.base import Penalty
from quartic.penalties.separable import (
    L0,
    L1,
    Nonnegative,
    NonnegativeL1,
    NonnegativeRidge,
    Ridge,
    Separable,
    Zero,
)

__all__ = ["L0", "L1", "Nonnegative", "NonnegativeL1", "NonnegativeRidge", "Penalty", "Ridge", "Separable", "Zero"]
