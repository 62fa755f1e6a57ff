"""Solvers by name, and which one fits a problem."""

from __future__ import annotations

from quartic.baselines.accelerated import ABPG, CoCaIn
from quartic.baselines.coordinate_descent import CoordinateDescent
from quartic.baselines.directions import SNMPBB, BetaSNMF, ProjectedGaussNewton, ScaledGD
from quartic.baselines.smacof import SMACOF
from quartic.baselines.splitting import ADMM, LAI, LvSHALS, SymANLS, SymHALS
from quartic.core.problem import Problem
from quartic.solvers.base import Solver
from quartic.solvers.conjugate_face import FaceCG
from quartic.solvers.conjugate_gradient import ConjugateGradient
from quartic.solvers.gradient_descent import GradientDescent, ProjectedGradient
from quartic.solvers.inertial import InertialNoLips
from quartic.solvers.lbfgs import LBFGS
from quartic.solvers.levenberg_marquardt import LevenbergMarquardt
from quartic.solvers.nolips import DynNoLips, NoLips
from quartic.solvers.trust_region import TrustRegion

# With so many entries a row L-BFGS makes up for the work it has besides products; BLAS multiplies those of a dense
# array several times as fast.
_MANY, _MANY_DENSE = 200, 1700
# Up to so many nodes a sweep over the entries of X takes less time than what surrounds a product in other solvers.
_FEW = 120

SOLVERS: dict[str, type[Solver]] = {
    cls.name: cls
    for cls in (
        NoLips,
        DynNoLips,
        InertialNoLips,
        LBFGS,
        FaceCG,
        ProjectedGradient,
        BetaSNMF,
        CoordinateDescent,
        SymHALS,
        SymANLS,
        ADMM,
        SNMPBB,
        ProjectedGaussNewton,
        LAI,
        LvSHALS,
        CoCaIn,
        ABPG,
        ScaledGD,
        SMACOF,
        GradientDescent,
        TrustRegion,
        ConjugateGradient,
        LevenbergMarquardt,
    )
}


def choose_solver(solver: str | Solver, problem: Problem) -> Solver:
    """Return the solver object asked for, checked against the problem.

    Raises
    ------
    ValueError
        If the name is unknown, or the solver does not fit; the message lists those that do.
    """
    if isinstance(solver, str):
        if solver == "auto":
            solver = _automatic(problem)
        elif solver in SOLVERS:
            solver = SOLVERS[solver]()
        else:
            raise ValueError(f"unknown solver {solver!r}; there are: auto, {', '.join(SOLVERS)}")
    elif isinstance(solver, type) or not isinstance(solver, Solver):
        raise TypeError(
            f"solver must be a name or a solver object such as DynNoLips(), got {solver!r}; "
            f"names are: auto, {', '.join(SOLVERS)}"
        )
    reason = why_not(solver, problem)
    if reason is not None:
        fitting = [name for name, cls in SOLVERS.items() if why_not(cls(), problem) is None]
        if why_not(_automatic(problem), problem) is None:
            fitting.insert(0, "auto")
        raise ValueError(f"solver {solver.name!r} needs {reason}; solvers that fit: {', '.join(fitting) or 'none'}")
    return solver


def why_not(solver: Solver, problem: Problem) -> str | None:
    """Return why the solver does not fit the problem, or None if it does."""
    return solver.requires.unmet(problem)


def _automatic(problem: Problem) -> Solver:
    """Return the fastest solver that fits, by the measurements in ``benchmarks/``.

    - A kernel was asked for: the inertial method, the fastest that uses one (Dyn-NoLips for a penalty that is not
      convex, for which extrapolation has no theory).
    - Sums of squares over pairs, signs free: Levenberg–Marquardt; conjugate gradients for a rectangular matrix
      with a ridge, which is never fitted exactly.
    - X ≥ 0 and an M of few rows, most of it zeros: coordinate descent, whose iteration is one compiled call.
    - X ≥ 0 otherwise: conjugate directions on the face where products are cheap (M sparse or small); elsewhere L-BFGS,
      which needs fewer products, a tenth where the loss knows its diagonal of second derivatives (rectangular
      factorisation), but more passes over X. On torch devices, and for penalties without a quadratic on lines, the
      inertial method.
    - Signs free, constraints penalised (`Quadratic` that weighs few entries of XXᵀ, as for MaxCut): the trust region,
      since such a loss is *stiff* across the constraints and flat along them.
    - Any other loss, signs free: L-BFGS.
    """
    loss, penalty = problem.loss, problem.penalty
    if problem.kernel is None:
        if penalty.smooth and LevenbergMarquardt.requires.unmet(problem) is None:
            return ConjugateGradient() if loss.offers("factors") and penalty.ridge else LevenbergMarquardt()
        if loss.stiff and TrustRegion.requires.unmet(problem) is None:
            return TrustRegion()
        scaled = loss.offers("curvature_diagonal")
        entries = loss.entries_per_row()
        few = CoordinateDescent.requires.unmet(problem) is None and loss.n_points <= _FEW
        if few and loss.share_of_zeros() > 0.5:
            return CoordinateDescent()
        dense = loss.offers("entries") and loss.offers("on_host") and entries == loss.n_points
        costly = entries is None or entries > (_MANY_DENSE if dense else _MANY)
        pays = penalty.smooth or (penalty.nonnegative and (scaled or costly))
        if pays and LBFGS.requires.unmet(problem) is None:
            return LBFGS()
        if FaceCG.requires.unmet(problem) is None:
            return FaceCG()
    return InertialNoLips() if penalty.convex else DynNoLips()
