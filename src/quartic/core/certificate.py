"""A proof, up to a tolerance, that X solves the convex problem over all XXᵀ, not just its own low-rank version."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from quartic.arrays import Array, RandomState, check_number, inner, norm, random_generator, squared_norm
from quartic.arrays.space import HostSpace
from quartic.compiled.lanczos import lowest_eigenpairs
from quartic.core.problem import Problem
from quartic.core.units import Units, shifted


@dataclass(frozen=True)
class Certificate:
    r"""How near Y = XXᵀ is to solving :math:`\min_{Y \succeq 0} F(Y) + \frac\rho2\operatorname{tr}Y`.

    Attributes
    ----------
    holds : bool
        Whether Z = ∇F(Y) + ½ρI is positive semidefinite and ZX = 0, both to ``tolerance``.
    min_eigenvalue : float
        λ_min(Z).
    residual : float
        How far λ_min may be from an eigenvalue (0 where Z was formed).
    directions : array (n, k)
        Eigenvectors of Z with negative eigenvalues beyond the tolerance; moving along them lowers the objective.
    stationarity : float
        ‖ZX‖ / ‖X‖.
    tolerance : float
        tol times the spectral norm of Z at Y = 0: what −λ_min and ‖ZX‖/‖X‖ may be.
    objective : float
        Ψ at X.
    gap : float
        No Y ⪰ 0 with tr Y ≤ ``trace_radius`` has an objective below Ψ(X) − gap.
    trace_radius : float
        R.
    global_bound : bool
        Whether the gap holds for Y of any trace: R is proven to be no restriction, or F cannot fall below what is left.
    """

    holds: bool
    min_eigenvalue: float
    residual: float
    directions: Array
    stationarity: float
    tolerance: float
    objective: float
    gap: float
    trace_radius: float
    global_bound: bool

    @property
    def lower_bound(self) -> float:
        """What the objective cannot go below, over Y ⪰ 0 with tr Y ≤ ``trace_radius``."""
        return self.objective - self.gap

    def in_users_units(self, units: Units) -> Certificate:
        """Return the same, made in units of a run's own, in the user's; Z is of the size of Ψ over that of Y."""

        def slope(size: float) -> float:
            return shifted(size, 2 * units.length - units.value)

        return replace(
            self,
            min_eigenvalue=slope(self.min_eigenvalue),
            residual=slope(self.residual),
            stationarity=slope(self.stationarity),
            tolerance=slope(self.tolerance),
            objective=units.objective(self.objective),
            gap=units.objective(self.gap),
            trace_radius=shifted(self.trace_radius, -2 * units.length),
        )

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        where = "" if self.global_bound else f" among all Y of trace at most {self.trace_radius:.3g}"
        verdict = "optimal" if self.holds else "not optimal"
        return (
            f"{verdict}: λ_min = {self.min_eigenvalue:.2e} (allowed {-self.tolerance:.2e}), "
            f"the objective {self.objective:.6g} is within {self.gap:.2e} of the least{where}"
        )


def certify(
    problem: Problem,
    X: Array,
    *,
    tol: float = 1e-6,
    trace_radius: float | None = None,
    n_directions: int = 1,
    random_state: RandomState = 0,
) -> Certificate:
    r"""Return a certificate that X solves the convex problem, or the directions in which it can be improved.

    F is convex, so for every Y' ⪰ 0, with Z = ∇F(Y) + ½ρI at Y = XXᵀ,

    .. math:: F(Y') + \tfrac\rho2\operatorname{tr}Y' \ge F(Y) + \tfrac\rho2\operatorname{tr}Y + \langle Z, Y'\rangle
              - \langle Z, Y\rangle
              \ge \Psi(X) - \langle Z, Y\rangle - \max(0, -\lambda_{\min}(Z))\operatorname{tr}Y'.

    If Z ⪰ 0 and ZX = 0, then X is a global minimiser, over all ranks. If not, the right-hand side bounds the gap for
    all Y' of trace at most R: ``gap`` = ⟨Z, Y⟩ + max(0, −λ_min)·R. Where there is a ridge and F is known to be bounded
    below, a minimiser has ½ρ tr Y ≤ Ψ(X) − inf F, which gives an R that is no restriction. Without a ridge the convex
    problem may have no bounded minimiser; R is then 2‖X‖² unless given, and the gap is a statement about that set.
    If F is known not to fall below ``loss.infimum``, Ψ(X) − inf F is a gap too, and the smaller one is reported.

    Parameters
    ----------
    problem : Problem
        With no penalty, or `quartic.penalties.Ridge`. With X ≥ 0 there is no such certificate: the convex problem
        would be over completely positive matrices, and deciding membership there is NP-hard.
    X : array (n, r)
        As a rule a solution of the low-rank problem.
    tol : float, default=1e-6
        The tolerance of ``holds``, relative to the spectral norm of Z at Y = 0.
    trace_radius : float, optional
        R.
    n_directions : int, default=1
        How many directions to return.
    random_state : int, Generator or RandomState, default=0
        For the first vector of Lanczos' method.

    Returns
    -------
    Certificate

    Notes
    -----
    For n > 200 λ_min is the lowest Ritz value of Lanczos' method, less its residual. A random first vector is
    orthogonal to the eigenvector sought with probability 0, but there is no proof that none lower exists.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic import Problem, certify, minimize
    >>> from quartic.losses import LeastSquares
    >>> problem = Problem(LeastSquares(np.diag([3.0, 2.0, -1.0])))
    >>> certify(problem, minimize(problem, rank=2, tol=1e-9, random_state=0).X).holds
    True
    >>> certify(problem, minimize(problem, rank=1, tol=1e-9, random_state=0).X).holds
    False
    """
    ridge = ridge_to_certify(problem)
    check_number(tol, "tol")
    if trace_radius is not None:
        check_number(trace_radius, "trace_radius")
    X = problem.loss.check(X).astype(np.float64, copy=False)
    problem, units = problem.in_good_units()
    if units:
        radius = None if trace_radius is None else shifted(float(trace_radius), 2 * units.length)
        there = certify(
            problem, shifted(X, units.length), tol=tol, trace_radius=radius, n_directions=n_directions,
            random_state=random_state,
        )  # fmt: skip
        return there.in_users_units(units)
    generator = random_generator(random_state)
    loss, n = problem.loss, problem.loss.n_points

    def with_ridge(apply: Any) -> Any:
        return lambda V: apply(V) + (0.5 * ridge) * V

    at_zero = with_ridge(loss.gradient_operator(loss.at(np.zeros((n, 1)))))
    start = lowest_eigenpairs(at_zero, n, 1, 0.0, generator, steps=15)
    scale = max(abs(float(start.values[0])), abs(start.highest))
    point = loss.at(X)
    found = lowest_eigenpairs(with_ridge(loss.gradient_operator(point)), n, n_directions, 0.2 * tol * scale, generator)
    least = float(found.values[0])
    ZX = 0.5 * (point.gradient + ridge * X)
    objective, size, tolerance = problem.objective(point), norm(X), tol * scale
    radius, proven = _radius(problem, objective, squared_norm(X), ridge, trace_radius)
    gap = max(inner(ZX, X) + max(0.0, found.residual - least) * radius, 0.0)
    if objective - loss.infimum <= gap:  # as at an exact fit: nothing is below the infimum of F, whatever its trace
        gap, proven = max(objective - loss.infimum, 0.0), True
    stationarity = norm(ZX) / size if size > 0 else 0.0
    holds = least - found.residual >= -tolerance and stationarity <= tolerance
    directions = found.vectors[:, found.values < -tolerance]
    return Certificate(
        holds, least, found.residual, directions, stationarity, tolerance, objective, gap, radius, proven
    )


def ridge_to_certify(problem: Any) -> float:
    """Return ρ, or raise an error that says why there is no certificate."""
    if not isinstance(problem, Problem):
        raise TypeError(f"problem must be a quartic.Problem, got {type(problem).__name__}")
    penalty, name = problem.penalty, type(problem.penalty).__name__
    if penalty.nonnegative:
        raise ValueError(
            f"no certificate of optimality exists for {name}: with X ≥ 0 the convex problem is over completely "
            "positive matrices, where even membership is NP-hard; use no penalty or Ridge, or compare several starts"
        )
    if not penalty.smooth or penalty.ridge is None:
        raise ValueError(
            f"no certificate of optimality for {name}: it is not a function of XXᵀ; use no penalty or Ridge"
        )
    if not isinstance(problem.loss.space, HostSpace):
        raise TypeError(
            "no certificate of optimality for data in torch tensors; make the loss of NumPy or SciPy arrays, and pass "
            "X.cpu().numpy()"
        )
    if not problem.loss.rotations:
        raise ValueError(f"no certificate of optimality for {type(problem.loss).__name__}: it is not F(XXᵀ)")
    return penalty.ridge


def _radius(problem: Problem, objective: float, trace: float, ridge: float, given: float | None) -> tuple[float, bool]:
    """Return R, and whether every minimiser is known to have a trace of at most that."""
    bound = 2 * (objective - problem.loss.infimum) / ridge if ridge > 0 else math.inf
    if given is not None:
        return min(float(given), bound), given >= bound
    return (bound, True) if math.isfinite(bound) else (2 * trace, False)
