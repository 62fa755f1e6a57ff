"""Estimators in the manner of scikit-learn."""

from quartic.clustering.symnmf import SymNMF
from quartic.distance.completion import DistanceCompletion
from quartic.distance.findings import (
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
