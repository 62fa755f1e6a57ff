"""What distances fix: components, rigidity, flips, and standard errors."""

from quartic.distance.assessment import assess
from quartic.distance.determination import Determination
from quartic.distance.flips import may_flip
from quartic.distance.framework import rigidity_matrix, stress_matrix
from quartic.distance.uncertainty import standard_errors

__all__ = ["Determination", "assess", "may_flip", "rigidity_matrix", "standard_errors", "stress_matrix"]
