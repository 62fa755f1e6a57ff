"""Penalties g(X): none, sign constraints, sparsity, ridge."""

from quartic.penalties.base import Penalty
from quartic.penalties.l0 import L0
from quartic.penalties.separable import (
    L1,
    Nonnegative,
    NonnegativeL1,
    NonnegativeRidge,
    Ridge,
    Separable,
    Zero,
)

__all__ = ["L0", "L1", "Nonnegative", "NonnegativeL1", "NonnegativeRidge", "Penalty", "Ridge", "Separable", "Zero"]
