"""Raise the rank until the low-rank solution is proven to solve the convex problem."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from quartic.arrays import Array, RandomState, check_count, random_generator
from quartic.arrays.threads import one_blas_thread
from quartic.core.certificate import Certificate, certify, explained_by, ridge_to_certify
from quartic.core.loop import minimize
from quartic.core.problem import Problem
from quartic.core.result import Result, Status
from quartic.solvers.base import Solver

# Iterations to make sure of an exact fit.
_A_FEW = 100


@dataclass(frozen=True)
class RankGrowth:
    """What `grow_rank` found.

    Attributes
    ----------
    X : array (n, r)
        The last solution.
    objective : float
        Ψ there.
    certificate : Certificate
        For X; ``certificate.gap`` is the duality gap.
    success : bool
        Whether the certificate holds.
    message : str
        In words.
    ranks : tuple of int
        The ranks tried.
    certificates, results : tuple
        The last one for each rank.
    n_products : int
        Products with the data, those of the certificates included.
    time : float
        Seconds.
    """

    X: Array
    objective: float
    certificate: Certificate
    success: bool
    message: str
    ranks: tuple[int, ...]
    certificates: tuple[Certificate, ...]
    results: tuple[Result, ...]
    n_products: int
    time: float

    @property
    def rank(self) -> int:
        """The number of columns of X."""
        return int(self.X.shape[1])


@one_blas_thread()
def grow_rank(
    problem: Problem,
    X0: Any = None,
    *,
    rank: int = 1,
    max_rank: int | None = None,
    increase: int = 1,
    tol: float = 1e-6,
    trace_radius: float | None = None,
    solver: str | Solver = "auto",
    max_iter: int = 10_000,
    max_time: float | None = None,
    random_state: RandomState = None,
) -> RankGrowth:
    r"""Solve :math:`\min_{Y \succeq 0} F(Y) + \frac\rho2\operatorname{tr}Y` by low-rank problems of growing rank.

    At each rank the low-rank problem is minimised. `certify` then looks for an eigenvector v of Z = ∇F(XXᵀ) + ½ρI with
    a negative eigenvalue λ. If there is none, XXᵀ solves the convex problem. If there is one, it is appended as a new
    column, [X, tv], along which the objective falls: Ψ changes by λt² + O(t⁴). The next rank starts from there, with
    the best t for a quadratic F and the best of a sequence otherwise. So Ψ falls from rank to rank, and strict saddle
    points, at which a low-rank method may stop, are left.

    What is left of ZX at the end of a run hides small eigenvalues: where they are no larger than that, or the gap is
    due to it, the low-rank problem is solved further before the rank is raised.

    A rank above √(2·(number of measurements)) is never needed in theory; in practice it is that of the solution.

    Parameters
    ----------
    problem : Problem
        With no penalty or `quartic.penalties.Ridge`.
    X0 : array (n, r) or callable, optional
        A start, as in `minimize`; a random one when left out.
    rank : int, default=1
        The first rank.
    max_rank : int, optional
        The last one; the number of points when left out.
    increase : int, default=1
        At most so many columns are added at a time.
    tol : float, default=1e-6
        The tolerance of the certificate. The low-rank problems are solved to a tenth of it, further where the
        certificate needs it.
    trace_radius : float, optional
        See `certify`.
    solver, max_iter, max_time, random_state
        As in `minimize`; the limits are for each rank, and for the whole in seconds.

    Returns
    -------
    RankGrowth

    Examples
    --------
    >>> import numpy as np
    >>> from quartic import Problem, grow_rank, losses
    >>> found = grow_rank(Problem(losses.LeastSquares(np.diag([3.0, 2.0, 1.0, -1.0]))), random_state=0)
    >>> found.rank, found.success, bool(found.certificate.gap < 1e-5)
    (3, True, True)
    """
    started, generator = time.perf_counter(), random_generator(random_state)
    ridge_to_certify(problem)
    last = problem.loss.n_points if max_rank is None else max_rank
    for value, name in ((rank, "rank"), (increase, "increase"), (last, "max_rank")):
        check_count(value, name)
    problem = problem.counted()
    start, columns = X0, rank if X0 is None or callable(X0) else None
    usual, target = 0.0, 0.0  # of stationarity; known after the first run
    solved = math.inf  # stationarity of the run before at the same rank
    results: dict[int, Result] = {}
    certificates: dict[int, Certificate] = {}
    n_products, limit = 0, max_iter
    while True:
        left = None if max_time is None else max(max_time - (time.perf_counter() - started), 1e-3)
        begun = bool(results)
        result = minimize(
            problem, start, rank=columns, solver=solver, tol=1.0 if begun else 0.1 * tol,
            reference=target if begun else None, max_iter=limit, max_time=left, random_state=generator,
        )  # fmt: skip
        if not begun:
            usual = 0.1 * tol * float(result.history.stationarity[0])
        X, n_products = result.X, n_products + result.n_products
        certificate = certify(
            problem, X, tol=tol, trace_radius=trace_radius, n_directions=increase, random_state=generator
        )
        results[X.shape[1]], certificates[X.shape[1]] = result, certificate
        further = result.stationarity <= 0.5 * solved and _needs_precision(result, certificate)
        reason = _reason_to_stop(result, certificate, last, started, max_time, further)
        if reason is not None:
            break
        if further:
            start, solved = X, result.stationarity
            limit = min(max_iter, _A_FEW) if certificate.holds else max_iter
            target = min(certificate.tolerance / float(np.linalg.norm(X)), 0.01 * solved)
        else:
            room = last - X.shape[1]
            start, solved, target = _escape(problem, X, certificate.directions[:, :room]), math.inf, usual
            limit = max_iter
        columns = None
    return RankGrowth(
        X, certificate.objective, certificate, certificate.holds, reason, tuple(results),
        tuple(certificates.values()), tuple(results.values()), problem.loss.n_products + n_products,
        time.perf_counter() - started,
    )  # fmt: skip


def _needs_precision(result: Result, certificate: Certificate) -> bool:
    """Tell whether X being a little off may be what keeps the certificate from holding, or what lets it hold.

    The latter at an exact fit, where eigenvalues below zero are put down to that while they may be real.
    """
    lowest, size = -certificate.min_eigenvalue, float(np.linalg.norm(result.X))
    if not (result.stationarity > 0 and size > 0):
        return False
    hidden = lowest <= explained_by(0.5 * result.stationarity, result.X)
    if certificate.holds:
        return hidden and lowest > 10 * certificate.tolerance / size**2
    return hidden or not certificate.directions.shape[1]


def _reason_to_stop(
    result: Result, certificate: Certificate, last: int, started: float, max_time: float | None, further: bool
) -> str | None:
    rank = result.X.shape[1]
    if result.status in (Status.UNBOUNDED, Status.INTERRUPTED):
        return f"stopped at rank {rank}: {result.message}"
    late = max_time is not None and time.perf_counter() - started >= max_time
    if certificate.holds and (late or not further):
        return f"rank {rank} is enough; {certificate}"
    if late:
        return f"stopped at max_time = {max_time:g} s with rank {rank}; {certificate}"
    if further:
        return None
    if not certificate.directions.shape[1]:
        return (
            f"stopped at rank {rank}: no direction lowers the objective, but there is no proof to tol "
            f"({result.message}); {certificate}"
        )
    if rank >= last:
        return f"stopped at max_rank = {last}; {certificate}"
    return None


def _escape(problem: Problem, X: Array, V: Array) -> Array:
    """Return [X, tV] with a t that lowers the objective."""
    X = X.astype(np.float64, copy=False)
    wide = np.hstack([X, np.zeros_like(V)])
    D = np.hstack([np.zeros_like(X), V])
    loss, penalty = problem.loss, problem.penalty
    point = loss.at(wide)
    if loss.quadratic:
        t = loss.along(point, D).minimizer(math.inf, *penalty.on_line(wide, D))
        return wide + t * D
    here, t = problem.objective(point), float(np.linalg.norm(X)) / math.sqrt(X.shape[1]) or 1.0
    best, lowest = 0.0, here
    for _ in range(60):  # from the length of a column on t, t/2, t/4, … to the best
        value = problem.objective(loss.at(wide + t * D))
        if value < lowest:
            best, lowest = t, value
        elif lowest < here:
            break
        t /= 2
    return wide + (best or t) * D
