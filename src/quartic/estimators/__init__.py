"""Estimators in the manner of scikit-learn."""

from quartic.estimators.distance_completion import DistanceCompletion
from quartic.estimators.distance_warnings import (
    DistanceWarning,
    DuplicateWarning,
    FlatWarning,
    InconsistentWarning,
    MisfitWarning,
    UndeterminedWarning,
)
from quartic.estimators.symnmf import SymNMF

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
