"""Solve a semidefinite programme: choose a method, run it, and judge what it found."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import lsqr

from quartic.arrays import HOST, Array, RandomState, Space, check_number, random_generator, working_dtype
from quartic.arrays.threads import one_blas_thread
from quartic.compiled.clock import solving_time
from quartic.core.result import Status
from quartic.core.stopping import End, check_limits
from quartic.losses.devices import device_for
from quartic.sdp.bound import Bounds, Slack
from quartic.sdp.interior import interior
from quartic.sdp.lowrank import low_rank
from quartic.sdp.problem import SDP
from quartic.sdp.run import SDPHistory, SDPProgress, SDPRun
from quartic.sdp.spheres import Spheres

# What the interior-point method may take: about so many multiplications an iteration, some seconds.
_MOST_WORK = 1e11
# Where it takes so many, the low-rank method is tried first, for so many iterations: much faster, or of no use.
_WORTH_A_TRIAL, _TRIAL = 5e8, 250
# A run that ended so is over.
_ENDED = (Status.MAX_TIME, Status.CALLBACK, Status.INTERRUPTED)
# What right-hand sides may be off by, as a share, and yet not contradict each other: they are rounded.
_ROUNDED = 1e-8
_METHODS = ("auto", "low-rank", "interior")


@dataclass(frozen=True, repr=False)
class SDPResult:
    """The outcome of `solve_sdp`.

    Attributes
    ----------
    X : list of array
        A factor for each block, Y = XXᵀ; of a diagonal block the numbers themselves.
    primal : float
        ⟨C, Y⟩.
    dual : float
        A rigorous bound on the optimum: no feasible Y has a lower (when maximising: higher) value. Infinite where the
        multipliers prove nothing.
    gap : float
        \\|dual − primal\\| / (1 + \\|primal\\|).
    y : array (m,)
        The multipliers.
    errors : dict
        The six error measures of the DIMACS challenge: infeasibility of Y and its lowest eigenvalue, infeasibility of
        y and the lowest eigenvalue of C − 𝒜*(y), the relative gap ⟨C, Y⟩ − bᵀy, and ⟨Y, C − 𝒜*(y)⟩.
    status : Status
        One of converged, infeasible, unbounded, max_iter, max_time, callback, interrupted, stalled, non_finite.
    message : str
        The same in a sentence.
    rank : list of int
        The columns of each factor.
    time : float
        Seconds.
    history : SDPHistory
        Time, values and infeasibilities of every iteration.
    method : str
        "interior" or "low-rank".
    confidence : float
        The probability with which ``dual`` is a bound: 1, or a little less where a random vector was used.
    bound_from : str
        Why ``dual`` is a bound.
    """

    X: list[Array] = field(repr=False)
    primal: float
    dual: float
    gap: float
    y: Array = field(repr=False)
    errors: dict[str, float]
    status: Status
    message: str
    rank: list[int]
    time: float
    history: SDPHistory = field(repr=False)
    method: str
    confidence: float
    bound_from: str

    @property
    def success(self) -> bool:
        """Whether the run converged."""
        return self.status is Status.CONVERGED

    @property
    def n_iter(self) -> int:
        """Iterations."""
        return max(len(self.history) - 1, 0)

    def __repr__(self) -> str:
        rows = {
            "status": self.message,
            "primal": f"{self.primal:.8e}",
            "bound": f"{self.dual:.8e} ({self.bound_from})",
            "gap": f"{self.gap:.1e}",
            "errors": f"{max(self.errors.values()):.1e} at most",
            "rank": str(self.rank[0] if len(self.rank) == 1 else self.rank),
            "time": f"{self.time:.3g} s, {self.n_iter} iterations",
        }
        return f"SDPResult of {self.method}" + "".join(f"\n  {name:8} {value}" for name, value in rows.items())


def solve_sdp(
    problem: SDP,
    *,
    tol: float = 1e-6,
    rank: int | str = "auto",
    method: str = "auto",
    max_iter: int | None = None,
    max_time: float | None = None,
    callback: Callable[[SDPProgress], object] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    random_state: RandomState = 0,
    verbose: bool = False,
    device: str | None = None,
    dtype: Any = np.float64,
) -> SDPResult:
    """Solve a semidefinite programme, and bound its optimum.

    Parameters
    ----------
    problem : SDP
        The programme.
    tol : float, default=1e-6
        What each of the six DIMACS errors may be; the certified gap of a converged run is at most ten times that.
    rank : int or "auto"
        The columns of the factors that the low-rank method begins with; it adds some where they do not suffice.
    method : {"auto", "low-rank", "interior"}
        "low-rank" works with a tall factor of Y, on product spheres and by an augmented Lagrangian; "interior" with Y
        itself, which takes n² memory and n³ time but gives every digit. "auto" takes the faster; where that cannot be
        told, it tries the first for a while.
    max_iter, max_time : int, float, optional
        Limits on iterations and seconds.
    callback : callable, optional
        Called with an `SDPProgress` after each iteration; StopIteration ends the run.
    checkpoint : path, optional
        A file that holds the run's state, written every few seconds and at the end. If it exists the run goes on from
        it.
    random_state : int, Generator or RandomState, default=0
        For starts and for eigenvalues.
    verbose : bool, default=False
        Show a progress bar.
    device : None, "cpu", "cuda" or another device of torch
        Where the low-rank method works. "auto" is low-rank on a device.
    dtype : float64 or float32
        The type of the low-rank method's X: float32 is good for a tol of 1e-4 or so. Errors and bound are always
        worked out in float64.

    Returns
    -------
    SDPResult

    Examples
    --------
    The lowest eigenvalue is the least ⟨C, Y⟩ with trace one:

    >>> import numpy as np
    >>> from quartic.sdp import SDP, solve_sdp
    >>> result = solve_sdp(SDP(np.diag([3.0, 1.0, 2.0]), [np.eye(3)], [1.0]))
    >>> result.status, round(result.primal, 6)
    (<Status.CONVERGED: 'converged'>, 1.0)
    """
    if not isinstance(problem, SDP):
        raise TypeError(f"problem must be a quartic.sdp.SDP, got {type(problem).__name__}")
    check_number(tol, "tol")
    check_limits(0 if max_iter is None else max_iter, max_time, callback)
    if method not in _METHODS:
        raise ValueError(f"method must be one of {', '.join(_METHODS)}, got {method!r}")
    if rank != "auto" and (isinstance(rank, bool) or not isinstance(rank, int | np.integer) or rank < 1):
        raise ValueError(f"rank must be 'auto' or a positive integer, got {rank!r}")
    precision = working_dtype(np.dtype(dtype))
    if np.dtype(dtype) != precision:
        raise ValueError(f"dtype must be float64 or float32, got {dtype!r}")
    place = device_for(device)
    space: Space = HOST
    if place is not None:
        if method == "interior" or problem.operators:
            raise ValueError(f"device = {device!r} is for the low-rank method, and for programmes without operators")
        from quartic.arrays.space_torch import DeviceSpace

        space, method = DeviceSpace(place), "low-rank"
    with one_blas_thread():
        started, generator = solving_time(), random_generator(random_state)
        if _contradictory(problem):
            return _no_solution(problem, solving_time() - started)
        data = Spheres(problem, space, precision)
        chosen = method
        if method == "auto":
            # by measurement: where every constraint is a sphere low rank is the faster, always; where not, its
            # multipliers take some time to converge, and it is where matrices of n² or m² numbers are large
            plain = not data.n_rest and not data.some_free
            chosen = "low-rank" if plain or _work(problem) > _MOST_WORK else "interior"

        def attempt(name: str, path: Any, most: int | None) -> SDPResult:
            if name == "low-rank":
                bounds = Bounds(problem, generator, space)
                begin = partial(low_rank, data, tol, None if rank == "auto" else int(rank), bounds, generator)
            else:
                bounds = Bounds(problem.explicit(), generator)
                begin = partial(interior, bounds.problem, tol)
            run = SDPRun(callback, path, bounds.problem, name, tol, most, max_time, started)
            return _judge(run, run.go(begin, verbose), bounds)

        if chosen == "interior" and method == "auto" and _worth_a_trial(problem):
            most = _TRIAL if max_iter is None else min(_TRIAL, max_iter)
            found = attempt("low-rank", None, most)
            if found.success or found.status in _ENDED or most == max_iter:
                return found
        return attempt(chosen, checkpoint, max_iter)


def _worth_a_trial(problem: SDP) -> bool:
    """Tell whether the low-rank method, with some 30 products an iteration, would take a fraction of the time."""
    each = 100.0 * (problem.n_pairs + problem.S.nnz + problem.B.nnz) * math.sqrt(2 * problem.m)
    return not problem.operators and _work(problem) > max(_WORTH_A_TRIAL, _TRIAL * each / 25)


def _work(problem: SDP) -> float:
    """Return about the multiplications of one iteration of the interior-point method."""
    return problem.m**3 / 3 + 8.0 * sum(float(len(rows)) ** 3 for rows in problem.rows_of_components)


def _contradictory(problem: SDP) -> bool:
    """Tell whether some combination r of the constraints has ΣrA_k = 0 < rᵀb: the residual of 𝒜(Y) = b for any Y."""
    sizes = np.sqrt(np.asarray(problem.S.power(2).sum(axis=1)).ravel())
    scale = sparse.diags_array(1 / np.where(sizes > 0, sizes, 1.0))
    S, b = sparse.csr_array(scale @ problem.S), scale @ problem.b
    r = _residual(S, b)
    some = abs(r) > _ROUNDED * abs(b)  # by themselves: large right-hand sides elsewhere would hide a contradiction
    S, b = S[some], b[some]
    r, size = _residual(S, b), float(np.linalg.norm(b))
    if np.linalg.norm(r) <= _ROUNDED * size:
        return False
    # by the inequality of Cauchy and Schwarz no Y less than a million times as large as b satisfies them
    return bool(1e6 * np.linalg.norm(S.T @ r) * size < r @ r)


def _residual(S: Any, b: Array) -> Array:
    """Return the residual of least squares Sx ≈ b: solved twice, for the digits that the first time loses."""
    for _ in range(2 if np.any(b) else 0):
        b = b - S @ lsqr(S, b, atol=1e-15, btol=1e-12, conlim=0, iter_lim=300)[0]
    return b


def _no_solution(problem: SDP, seconds: float) -> SDPResult:
    nothing = problem.split(np.zeros((problem.n_rows, 1)))
    errors = dict.fromkeys(_ERRORS, math.nan)
    return SDPResult(
        nothing, math.nan, problem.sign * math.inf, math.inf, np.zeros(problem.m), errors, Status.INFEASIBLE,
        "infeasible: constraints contradict each other, some combination of the A_k is zero and that of the b_k is not",
        [0] * len(problem.blocks), seconds, SDPHistory(*np.empty((5, 0))), "presolve", 1.0,
        "no Y satisfies the constraints",
    )  # fmt: skip


_ERRORS = (
    "primal_infeasibility", "primal_cone", "dual_infeasibility", "dual_cone", "gap", "complementarity",
)  # fmt: skip


def _judge(run: SDPRun, ended: End, bounds: Bounds) -> SDPResult:
    """Measure errors and bound at the last iterate, in float64, the same way for every method."""
    problem, last, tol = run.problem, run.last, run.tol
    status, message = ended.status, ended.message
    assert last is not None
    X = last.factor()
    y, off_face = _settle_face(problem, last.y, tol)
    data = Spheres(problem)
    u = data.factor * data.measure(X / data.length[:, None])
    primal = float(problem.c @ u)
    bound = bounds.at(y, tol, 1 + abs(primal), last.feasible) if last.bound is None else last.bound
    errors = _dimacs(problem, u, y, bound.lowest.bound - off_face, bounds.one_c)
    gap = abs(primal - bound.value) / (1 + abs(primal)) if math.isfinite(bound.value) else math.inf
    if status is Status.CONVERGED:  # says the method
        worst = max(errors, key=lambda name: errors[name])
        if errors[worst] <= tol and (gap <= 10 * tol or gap == math.inf):
            proof = f"certified gap {gap:.1e}" if gap < math.inf else f"no bound is proven: {bound.reason}"
            status, message = Status.CONVERGED, f"converged: all errors ≤ {tol:g}, {proof}"
        else:
            fault = f"{worst} is {errors[worst]:.1e}" if errors[worst] > tol else f"the certified gap is {gap:.1e}"
            status, message = Status.STALLED, f"stalled: {fault}, and round-off allows no more"
    parts = problem.split(X)
    sign = problem.sign
    return SDPResult(
        parts, sign * primal, sign * bound.value, gap, sign * y, errors, status, message,
        [part.shape[1] if part.ndim == 2 else 1 for part in parts], run.elapsed(), run.history(), run.name,
        bound.confidence, bound.reason,
    )  # fmt: skip


def _settle_face(problem: SDP, y: Array, tol: float) -> tuple[Array, float]:
    """Return y with multipliers for constraints that confine Y to a face, and how far Z is from its part on the face.

    With Z in blocks, α on the face, γ on its complement and β between them, λ_min(Z) ≥ α − β²/(γ − α) or so. The
    multipliers cost nothing (b = 0) and make γ as large as need be.
    """
    if not len(problem.facing):
        return y, 0.0
    U = np.zeros((problem.n_rows, sum(basis.shape[1] for basis in problem.faces.values())))
    at = 0
    for component, basis in problem.faces.items():
        U[problem.rows_of_components[component], at : at + basis.shape[1]] = basis
        at += basis.shape[1]
    y, ones = y.copy(), np.zeros(problem.m)
    y[problem.facing], ones[problem.facing] = 0.0, 1.0
    ZU = Slack(problem, problem.c - problem.S.T @ y).sparse @ U
    core = U.T @ ZU
    push = float(np.linalg.eigvalsh(U.T @ (Slack(problem, problem.S.T @ ones).sparse @ U))[0])
    lost = 0.3 * tol * (1 + float(np.abs(problem.c).max(initial=0)))
    y[problem.facing] = -(float(np.linalg.norm(ZU - U @ core)) ** 2 / lost + float(np.linalg.norm(core, 2))) / push
    return y, lost


def _dimacs(problem: SDP, u: Array, y: Array, lowest: float, one_c: float) -> dict[str, float]:
    one_b = 1 + float(np.abs(problem.b).max(initial=0))
    primal, dual = float(problem.c @ u), float(problem.b @ y)
    scale = 1 + abs(primal) + abs(dual)
    infeasibility = float(np.linalg.norm(problem.S @ u - problem.b)) / one_b
    complementarity = abs(float((problem.c - problem.S.T @ y) @ u)) / scale
    numbers = infeasibility, 0.0, 0.0, max(0.0, -lowest) / one_c, abs(primal - dual) / scale, complementarity
    return dict(zip(_ERRORS, numbers, strict=True))
