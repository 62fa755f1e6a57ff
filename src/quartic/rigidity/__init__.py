"""What distances fix: components, rigidity, flips, and standard errors."""

from quartic.distance.cuts import may_flip
from quartic.distance.determination import Determination, assess
from quartic.distance.framework import rigidity_matrix, stress_matrix
from quartic.distance.noise import standard_errors

__all__ = ["Determination", "assess", "may_flip", "rigidity_matrix", "standard_errors", "stress_matrix"]
