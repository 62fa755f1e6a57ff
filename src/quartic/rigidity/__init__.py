"""What distances fix: components, rigidity, flips, and standard errors."""

from quartic.rigidity.assessment import assess
from quartic.rigidity.determination import Determination
from quartic.rigidity.flips import may_flip
from quartic.rigidity.framework import rigidity_matrix, stress_matrix
from quartic.rigidity.uncertainty import standard_errors

__all__ = ["Determination", "assess", "may_flip", "rigidity_matrix", "standard_errors", "stress_matrix"]
