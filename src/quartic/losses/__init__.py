"""Losses f(X) = F(XXᵀ)."""

from quartic.losses.anchored import Anchored
from quartic.losses.base import Loss
from quartic.losses.bounded_distances import BoundedDistances
from quartic.losses.coded_diffraction import CodedDiffraction
from quartic.losses.complete_distances import CompleteDistances
from quartic.losses.completion import Completion
from quartic.losses.dask_distances import DaskDistances
from quartic.losses.dask_matrix import DaskMatrix
from quartic.losses.distances import Distances
from quartic.losses.least_squares import LeastSquares
from quartic.losses.line import Line
from quartic.losses.masked_rectangular import MaskedRectangular
from quartic.losses.move import Move
from quartic.losses.phase_retrieval import PhaseRetrieval
from quartic.losses.point import Point
from quartic.losses.quadratic import Quadratic
from quartic.losses.raw_stress import RawStress
from quartic.losses.rectangular import Rectangular
from quartic.losses.robust import Robust
from quartic.losses.sensing import Sensing
from quartic.losses.smooth import Smooth
from quartic.losses.weighted import WeightedLeastSquares

__all__ = [
    "Anchored",
    "BoundedDistances",
    "CodedDiffraction",
    "CompleteDistances",
    "Completion",
    "DaskDistances",
    "DaskMatrix",
    "Distances",
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
