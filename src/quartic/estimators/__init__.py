"""Estimators in the manner of scikit-learn."""

from quartic.clustering.symnmf import SymNMF
from quartic.estimators.distance_completion import DistanceCompletion
from quartic.locating.warnings import (
    DistanceWarning,
    DuplicateWarning,
    FlatWarning,
    InconsistentWarning,
    MisfitWarning,
    UndeterminedWarning,
)

__all__ = [
    "DistanceCompletion",
    "DistanceWarning",
    "DuplicateWarning",
    "FlatWarning",
    "InconsistentWarning",
    "MisfitWarning",
    "SymNMF",
    "UndeterminedWarning",
]
