"""Solvers: one file an algorithm."""

from quartic.baselines.accelerated import ABPG, CoCaIn
from quartic.baselines.coordinate_descent import CoordinateDescent
from quartic.baselines.directions import SNMPBB, BetaSNMF, ProjectedGaussNewton, ScaledGD
from quartic.baselines.smacof import SMACOF
from quartic.baselines.splitting import ADMM, LAI, LvSHALS, SymANLS, SymHALS
from quartic.solvers.base import NoProgress, Requirements, Solver, State
from quartic.solvers.conjugate_face import FaceCG
from quartic.solvers.conjugate_gradient import ConjugateGradient
from quartic.solvers.gradient_descent import GradientDescent, ProjectedGradient
from quartic.solvers.inertial import InertialNoLips
from quartic.solvers.lbfgs import LBFGS
from quartic.solvers.levenberg_marquardt import LevenbergMarquardt
from quartic.solvers.nolips import DynNoLips, NoLips
from quartic.solvers.registry import SOLVERS
from quartic.solvers.trust_region import TrustRegion

__all__ = [
    "ABPG",
    "ADMM",
    "LAI",
    "LBFGS",
    "SMACOF",
    "SNMPBB",
    "SOLVERS",
    "BetaSNMF",
    "CoCaIn",
    "ConjugateGradient",
    "CoordinateDescent",
    "DynNoLips",
    "FaceCG",
    "GradientDescent",
    "InertialNoLips",
    "LevenbergMarquardt",
    "LvSHALS",
    "NoLips",
    "NoProgress",
    "ProjectedGaussNewton",
    "ProjectedGradient",
    "Requirements",
    "ScaledGD",
    "Solver",
    "State",
    "SymANLS",
    "SymHALS",
    "TrustRegion",
]
