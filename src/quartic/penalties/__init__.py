"""Penalties g(X): none, sign constraints, sparsity, ridge."""

from quartic.penalties.base import Penalty
from quartic.penalties.nonnegative import Nonnegative, NonnegativeL1, NonnegativeRidge
from quartic.penalties.ridge import Ridge
from quartic.penalties.sparse import L0, L1
from quartic.penalties.zero import Zero

__all__ = ["L0", "L1", "Nonnegative", "NonnegativeL1", "NonnegativeRidge", "Penalty", "Ridge", "Zero"]
