"""Losses f(X) = F(XXᵀ)."""

from quartic.losses.base import Loss, Point
from quartic.losses.blocks.dask_distances import DaskDistances
from quartic.losses.blocks.dask_matrix import DaskMatrix
from quartic.losses.factor.loss import FullLeastSquares
from quartic.losses.factor.weighted import LeastSquares, WeightedLeastSquares
from quartic.losses.other.phase_retrieval import CodedDiffraction, PhaseRetrieval
from quartic.losses.other.quadratic import Quadratic
from quartic.losses.other.rectangular import MaskedRectangular, Rectangular
from quartic.losses.other.robust import Robust
from quartic.losses.other.sensing import Sensing
from quartic.losses.other.smooth import Smooth
from quartic.losses.pairs.anchored import Anchored
from quartic.losses.pairs.completion import Completion
from quartic.losses.pairs.distances import BoundedDistances, CompleteDistances, Distances, RawStress
from quartic.losses.steps import Line, Move

__all__ = [
    "Anchored",
    "BoundedDistances",
    "CodedDiffraction",
    "CompleteDistances",
    "Completion",
    "DaskDistances",
    "DaskMatrix",
    "Distances",
    "FullLeastSquares",
    "LeastSquares",
    "Line",
    "Loss",
    "MaskedRectangular",
    "Move",
    "PhaseRetrieval",
    "Point",
    "Quadratic",
    "RawStress",
    "Rectangular",
    "Robust",
    "Sensing",
    "Smooth",
    "WeightedLeastSquares",
]
