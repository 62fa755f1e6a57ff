"""Linear maps 𝒜 from symmetric n × n matrices to m numbers, used through the factors of XXᵀ alone.

``base`` says what such a map offers; ``vectors``, ``matrices`` and ``operator`` are the kinds there are; ``scaled`` is
a power of two times any of them; ``reading`` tells from what the user gave which it is.
"""

from quartic.losses.other.measurements.base import DENSE, WORK, Measurements
from quartic.losses.other.measurements.matrices import Matrices
from quartic.losses.other.measurements.operator import Operator, Own
from quartic.losses.other.measurements.reading import as_measurements
from quartic.losses.other.measurements.scaled import Scaled
from quartic.losses.other.measurements.vectors import Vectors

__all__ = ["DENSE", "WORK", "Matrices", "Measurements", "Operator", "Own", "Scaled", "Vectors", "as_measurements"]
