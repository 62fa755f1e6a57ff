"""Solvers: one file an algorithm."""

from quartic.baselines.beta_snmf import BetaSNMF
from quartic.baselines.coordinate_descent import CoordinateDescent
from quartic.baselines.snmpbb import SNMPBB
from quartic.baselines.splitting import ADMM, SymANLS, SymHALS
from quartic.solvers.base import NoProgress, Requirements, Solver, State
from quartic.solvers.conjugate_face import FaceCG
from quartic.solvers.conjugate_gradient import ConjugateGradient
from quartic.solvers.dyn_nolips import DynNoLips
from quartic.solvers.gradient_descent import GradientDescent
from quartic.solvers.inertial import InertialNoLips
from quartic.solvers.lbfgs import LBFGS
from quartic.solvers.levenberg_marquardt import LevenbergMarquardt
from quartic.solvers.nolips import NoLips
from quartic.solvers.projected_gradient import ProjectedGradient
from quartic.solvers.registry import SOLVERS
from quartic.solvers.trust_region import TrustRegion

__all__ = [
    "ADMM",
    "LBFGS",
    "SNMPBB",
    "SOLVERS",
    "BetaSNMF",
    "ConjugateGradient",
    "CoordinateDescent",
    "DynNoLips",
    "FaceCG",
    "GradientDescent",
    "InertialNoLips",
    "LevenbergMarquardt",
    "NoLips",
    "NoProgress",
    "ProjectedGradient",
    "Requirements",
    "Solver",
    "State",
    "SymANLS",
    "SymHALS",
    "TrustRegion",
]
