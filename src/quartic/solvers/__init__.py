"""Solvers: one file an algorithm."""

from quartic.solvers.base import NoProgress, Requirements, Solver, State
from quartic.solvers.dyn_nolips import DynNoLips
from quartic.solvers.gradient_descent import GradientDescent
from quartic.solvers.nolips import NoLips
from quartic.solvers.projected_gradient import ProjectedGradient
from quartic.solvers.registry import SOLVERS

__all__ = [
    "SOLVERS",
    "DynNoLips",
    "GradientDescent",
    "NoLips",
    "NoProgress",
    "ProjectedGradient",
    "Requirements",
    "Solver",
    "State",
]
