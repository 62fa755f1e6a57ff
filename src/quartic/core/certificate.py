"""A proof, up to a tolerance, that X solves the convex problem over all XXᵀ, not just its own low-rank version."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from quartic.arrays import Array, RandomState, check_number, inner, norm, random_generator, squared_norm
from quartic.arrays.space import HostSpace
from quartic.arrays.subspace import lowest_eigenpairs
from quartic.arrays.threads import one_blas_thread
from quartic.core.problem import Problem
from quartic.core.units import Units, shifted

# A gradient within this factor of its round-off cannot be told from zero, as for the loop.
_ROUND_OFF = 4.0


@dataclass(frozen=True)
class Certificate:
    r"""How near Y = XXᵀ is to solving :math:`\min_{Y \succeq 0} F(Y) + \frac\rho2\operatorname{tr}Y`.

    Attributes
    ----------
    holds : bool
        Whether X is proven to be optimal: ``gap`` ≤ ``tolerance``, and Z = ∇F(Y) + ½ρI is positive semidefinite with
        ZX = 0, both to tol times the spectral norm of Z.
    min_eigenvalue : float
        λ_min(Z), or the lowest Ritz value.
    eigenvalue_bound : float
        No eigenvalue of Z lies below this, with probability ``confidence``; the gap is computed from it.
    method : {"dense", "lanczos"}
        Whether all eigenvalues of Z were computed (n ≤ 500), or Lanczos' method bounds them.
    confidence : float
        The probability with which ``eigenvalue_bound`` and ``gap`` are bounds: 1 for "dense", up to round-off;
        1 − 1e-6 for "lanczos", over its random first vector, whatever the spectrum.
    residual : float
        How far ``min_eigenvalue`` may be from an eigenvalue (0 where Z was formed).
    directions : array (n, k)
        Eigenvectors of Z with negative eigenvalues that keep the certificate from holding; moving along them lowers
        the objective. None where X being a little off may be all there is to them: solve to a smaller tol then.
    stationarity : float
        ‖ZX‖ / ‖X‖.
    objective : float
        Ψ at X.
    gap : float
        No Y ⪰ 0 with tr Y ≤ ``trace_radius`` has an objective below Ψ(X) − gap.
    tolerance : float
        What the gap may be: tol·\|Ψ(X)\|, and the round-off of the gap.
    trace_radius : float
        R.
    global_bound : bool
        Whether the gap holds for Y of any trace: R is proven to be no restriction, F is strongly convex, or F cannot
        fall below what is left.
    """

    holds: bool
    min_eigenvalue: float
    eigenvalue_bound: float
    method: str
    confidence: float
    residual: float
    directions: Array
    stationarity: float
    objective: float
    gap: float
    tolerance: float
    trace_radius: float
    global_bound: bool

    @property
    def lower_bound(self) -> float:
        """What the objective cannot go below, over Y ⪰ 0 with tr Y ≤ ``trace_radius``."""
        return self.objective - self.gap

    def in_users_units(self, units: Units) -> Certificate:
        """Return the same, made in units of a run's own, in the user's; Z is of the size of Ψ over that of Y."""

        slopes = ("min_eigenvalue", "eigenvalue_bound", "residual", "stationarity")
        powers = dict.fromkeys(slopes, 2 * units.length - units.value) | {"trace_radius": -2 * units.length}
        powers |= dict.fromkeys(("objective", "gap", "tolerance"), -units.value)
        return replace(self, **{name: shifted(getattr(self, name), power) for name, power in powers.items()})

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        where = "" if self.global_bound else f" among all Y of trace at most {self.trace_radius:.3g}"
        verdict = "optimal" if self.holds else "not proven optimal" if not self.directions.shape[1] else "not optimal"
        sure = "" if self.confidence == 1 else f" with probability 1 - {1 - self.confidence:.0e}"
        return (
            f"{verdict}: λ_min ≥ {self.eigenvalue_bound:.2e}{sure}, the objective {self.objective:.6g} is within "
            f"{self.gap:.2e} of the least{where} (allowed {self.tolerance:.2e})"
        )


@one_blas_thread()
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
    all Y' of trace at most R: ``gap`` = ⟨Z, Y⟩ + max(0, −λ)·R, with λ a lower bound of λ_min(Z). Where there is a ridge
    and F is known to be bounded below, a minimiser has ½ρ tr Y ≤ Ψ(X) − inf F, which gives an R that is no restriction.
    Without a ridge the convex problem may have no bounded minimiser; R is then 2‖X‖² unless given, and the gap is a
    statement about that set. Two more gaps hold for Y' of any trace, and the smallest one is reported: Ψ(X) − inf F,
    where ``loss.infimum`` is known; and ‖ZX‖‖X‖ + n·min(0, λ)²/(2μ_F) where F is strongly convex. (With N the negative
    part of Z, −⟨Z, Y' − Y⟩ − ½μ‖Y' − Y‖² ≤ ⟨Z + N, Y⟩ + ‖N‖²/2μ, and Z + N and N are orthogonal, so that
    ‖ZX‖² = ‖(Z + N)X‖² + ‖NX‖².)

    X is optimal if the gap is small beside the objective, and no eigenvalue of Z is further below zero than tol of the
    largest, or than X being a little off explains: at an exact fit that is all there is of Z.

    Parameters
    ----------
    problem : Problem
        With no penalty, or `quartic.penalties.Ridge`. With X ≥ 0 there is no such certificate: the convex problem
        would be over completely positive matrices, and deciding membership there is NP-hard.
    X : array (n, r)
        As a rule a solution of the low-rank problem.
    tol : float, default=1e-6
        The tolerance of ``holds``: relative to the objective for the gap, to the spectral norm of Z for Z ⪰ 0 and
        ZX = 0. Round-off is allowed for besides.
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
    Up to n = 500 all eigenvalues of Z are computed, and the gap is rigorous up to round-off. Beyond, λ is the bound of
    `quartic.arrays.subspace`: for a random first vector it holds with probability 1 − 1e-6, however the spectrum may
    cluster. It is sharp where zero is well separated from the positive eigenvalues of Z; where it is not, up to 300
    products leave about 1e-3 of the spectral norm, and the certificate says that it could not prove more.

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
    loss, n = problem.loss, problem.loss.n_points
    point = loss.at(X)
    apply = loss.gradient_operator(point)
    ZX = 0.5 * (point.gradient + ridge * X)
    objective, size = problem.objective(point), norm(X)
    excess = objective - loss.infimum
    rounding = _ROUND_OFF * point.rounding
    tolerance = tol * abs(objective) + rounding * size
    noise = rounding / size if size > 0 else 0.0  # in Z
    radius, proven = _radius(problem, objective, squared_norm(X), ridge, trace_radius)
    wanted = 0.5 * tolerance / radius if radius > 0 else 0.0

    def enough(value: float, bound: float, highest: float) -> bool:
        target = min(wanted, tol * max(highest, -value)) + noise
        return bound >= -target or value - bound <= max(target, -0.1 * value)

    generator = random_generator(random_state)
    found = lowest_eigenpairs(lambda V: apply(V) + (0.5 * ridge) * V, n, n_directions, enough, generator)
    below = max(0.0, -found.bound)
    gap = max(inner(ZX, X) + below * radius, 0.0)
    others = [excess]
    if loss.strong_convexity > 0:
        others.append(norm(ZX) * size + 0.5 * n * below**2 / loss.strong_convexity)
    if min(others) <= gap:
        gap, proven = max(min(others), 0.0), True
    stationarity = norm(ZX) / size if size > 0 else 0.0
    # what X being a little off may make of Z, where it is near enough beside the terms whose difference Z is
    near = stationarity <= tol * noise / (_ROUND_OFF * float(np.finfo(np.float64).eps))
    hidden = explained_by(norm(ZX), X) if near else 0.0
    slack = max(tol * max(abs(float(found.values[0])), abs(found.highest)), hidden) + noise
    holds = gap <= tolerance and below <= slack and stationarity <= slack
    real = max(hidden, min(slack - noise, wanted)) + noise
    leads = 0 if holds else int(np.sum(found.values < -real))
    return Certificate(
        holds, float(found.values[0]), found.bound, "dense" if found.confidence == 1 else "lanczos", found.confidence,
        found.residual, found.vectors[:, :leads], stationarity, objective, gap, tolerance, radius, proven,
    )  # fmt: skip


def explained_by(size: float, X: Array) -> float:
    """Return how large eigenvalues of Z may be because ZX, zero at a solution, still has this norm.

    Ten times ‖ZX‖ over the least singular value of X, those that are zero but for round-off left out.
    """
    sizes = np.linalg.svd(X, compute_uv=False)
    return 10 * size / float(sizes[sizes > 1e-8 * sizes[0]].min(initial=math.inf))


def ridge_to_certify(problem: Problem) -> float:
    """Return ρ, or raise an error that says why there is no certificate."""
    Problem.check(problem)
    penalty, name = problem.penalty, type(problem.penalty).__name__
    if penalty.nonnegative:
        raise ValueError(
            f"no certificate of optimality exists for {name}: with X ≥ 0 the convex problem is over completely "
            "positive matrices, where even membership is NP-hard; use no penalty or Ridge, or compare several starts"
        )
    if penalty.only_ridge is None:
        raise ValueError(
            f"no certificate of optimality for {name}: it is not a function of XXᵀ; use no penalty or Ridge"
        )
    if not isinstance(problem.loss.space, HostSpace):
        raise TypeError(
            "no certificate of optimality for data in torch tensors; make the loss of NumPy or SciPy arrays, and pass "
            "X.cpu().numpy()"
        )
    if not problem.loss.rotations:
        raise ValueError(f"no certificate of optimality for {problem.loss.name}: it is not F(XXᵀ)")
    return penalty.only_ridge


def _radius(problem: Problem, objective: float, trace: float, ridge: float, given: float | None) -> tuple[float, bool]:
    """Return R, and whether every minimiser is known to have a trace of at most that."""
    bound = 2 * (objective - problem.loss.infimum) / ridge if ridge > 0 else math.inf
    if given is not None:
        return min(float(given), bound), given >= bound
    return (bound, True) if math.isfinite(bound) else (2 * trace, False)
