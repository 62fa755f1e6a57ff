"""Raise the rank until the low-rank solution is proven to solve the convex problem."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from quartic.arrays import Array, RandomState, check_count, random_generator
from quartic.core.certificate import Certificate, certify, ridge_to_certify
from quartic.core.loop import minimize
from quartic.core.problem import Problem
from quartic.core.result import Result
from quartic.solvers.base import Solver


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
        One for each rank.
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
    the best t for a quadratic F and t² = −λ/L_F otherwise, which lowers Ψ by at least λ²/(2L_F). So Ψ falls from rank
    to rank, and strict saddle points, at which a low-rank method may stop, are left.

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
        The tolerance of the certificate. The low-rank problems are solved to a tenth of it.
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
    >>> from quartic import Problem, grow_rank
    >>> from quartic.losses import LeastSquares
    >>> found = grow_rank(Problem(LeastSquares(np.diag([3.0, 2.0, 1.0, -1.0]))), random_state=0)
    >>> found.rank, found.success, bool(found.certificate.gap < 1e-5)
    (3, True, True)
    """
    started, generator = time.perf_counter(), random_generator(random_state)
    ridge_to_certify(problem)
    last = problem.loss.n_points if max_rank is None else max_rank
    for value, name in ((rank, "rank"), (increase, "increase"), (last, "max_rank")):
        check_count(value, name)
    problem = problem.counted()
    start, columns, reference = X0, rank if X0 is None or callable(X0) else None, None
    results: list[Result] = []
    certificates: list[Certificate] = []
    while True:
        left = None if max_time is None else max(max_time - (time.perf_counter() - started), 1e-3)
        result = minimize(
            problem, start, rank=columns, solver=solver, tol=0.1 * tol, reference=reference, max_iter=max_iter,
            max_time=left, random_state=generator,
        )  # fmt: skip
        certificate = certify(
            problem, result.X, tol=tol, trace_radius=trace_radius, n_directions=increase, random_state=generator
        )
        results.append(result)
        certificates.append(certificate)
        reference = reference if reference is not None else float(result.history.stationarity[0])
        reason = _reason_to_stop(result, certificate, last, started, max_time)
        if reason is not None:
            break
        room = last - result.X.shape[1]
        start, columns = _escape(problem, result.X, certificate.directions[:, :room]), None
    return RankGrowth(
        result.X, certificate.objective, certificate, certificate.holds, reason,
        tuple(r.X.shape[1] for r in results), tuple(certificates), tuple(results),
        problem.loss.n_products + sum(r.n_products for r in results), time.perf_counter() - started,
    )  # fmt: skip


def _reason_to_stop(
    result: Result, certificate: Certificate, last: int, started: float, max_time: float | None
) -> str | None:
    rank = result.X.shape[1]
    if certificate.holds:
        return f"rank {rank} is enough; {certificate}"
    if max_time is not None and time.perf_counter() - started >= max_time:
        return f"stopped at max_time = {max_time:g} s with rank {rank}; {certificate}"
    if not certificate.directions.shape[1]:
        return (
            f"stopped at rank {rank}: no direction lowers the objective, but the low-rank problem is not solved to tol "
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
        t = loss.along(point, D).minimizer_with(*penalty.on_line(wide, D))
        return wide + t * D
    ridge = penalty.ridge or 0.0
    drop = -float(np.sum((loss.gradient_operator(point)(V) + 0.5 * ridge * V) * V))
    t = math.sqrt(drop / (loss.smoothness * V.shape[1]))
    here = problem.objective(point)
    for _ in range(60):  # the first t will do where L_F is what it says
        if problem.objective(loss.at(wide + t * D)) < here:
            break
        t /= 2
    return wide + t * D
