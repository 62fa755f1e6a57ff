"""The one loop that runs every solver: stopping, timing, history, progress, checkpoints, interrupts."""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from quartic import checkpoint as checkpoints
from quartic.archives import DAMAGE
from quartic.arrays import Array, RandomState, check_number, random_generator
from quartic.checkpoint import Checkpoint
from quartic.losses import Point
from quartic.ops import astype, float_type, is_zero
from quartic.ops.threads import one_blas_thread
from quartic.problem import Problem
from quartic.result import History, Result, Status
from quartic.saddle import objective_falls_from_zero
from quartic.solvers.base import NoProgress, Solver, State
from quartic.solvers.registry import choose_solver
from quartic.start import Starts, StartStrategy, check_rank
from quartic.units import Units

# A checkpoint is written this often, in seconds.
_CHECKPOINT_EVERY = 5.0
# Stationarity within this factor of the gradient's round-off cannot be told from zero.
_ROUND_OFF = 4.0
# A solver that can go no further within this factor of it has come as far as its own arithmetic allows.
_ROUND_OFF_OF_SOLVER = 1000.0
# A run keeps about so many arrays of X's size, the largest number of any solver with its memory.
_TALL_ARRAYS = 16
# A run is stalled when neither objective nor stationarity has improved for so many iterations.
_PATIENCE = 500


@dataclass(frozen=True)
class Progress:
    """What a callback sees after each iteration."""

    n_iter: int
    X: Array
    objective: float
    stationarity: float
    n_products: int
    time: float
    step: float
    target: float


def minimize(
    problem: Problem,
    X0: Any = None,
    *,
    rank: int | None = None,
    solver: str | Solver = "auto",
    tol: float = 1e-3,
    reference: float | StartStrategy | None = None,
    max_iter: int = 10_000,
    max_time: float | None = None,
    callback: Callable[[Progress], object] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    random_state: RandomState = None,
    verbose: bool = False,
) -> Result:
    """Minimise F(XXᵀ) + g(X) over X (n, r).

    Parameters
    ----------
    problem : Problem
        The loss, the penalty, the kernel.
    X0 : array (n, r) or callable, optional
        The start. It must be feasible and not zero, a saddle of every such loss. A strategy of `quartic.init`, or any
        ``X0(problem, rank, generator)`` that returns an array, is called within the run: its time and its products
        count.
    rank : int, optional
        r, for the loss's own start (random, or spectral where the data suggest one) or a strategy; needed when X0 is
        not an array.
    solver : str or Solver, default="auto"
        A name from `quartic.solvers.SOLVERS`, or an object. "auto" takes the fastest that fits.
    tol, reference : float
        The run has converged when ‖stationarity(X)‖ ≤ tol · reference; the reference is that of the start when left
        out. It also counts as converged when stationarity is at round-off. A strategy in place of a number stands for
        the stationarity of the start it makes: ``reference=quartic.init.random_start`` gives tol one meaning for all
        starts.
    max_iter, max_time : int, float
        Limits on iterations and seconds.
    callback : callable, optional
        Called with a `Progress` after each iteration. StopIteration ends the run; any other exception passes through
        after the checkpoint is written.
    checkpoint : path, optional
        A file that holds the run's state, written every few seconds and at the end. If it exists the run goes on from
        it.
    random_state : int, Generator or RandomState, optional
        For the start.
    verbose : bool, default=False
        Show a progress bar.

    Returns
    -------
    Result

    Examples
    --------
    >>> import numpy as np
    >>> from quartic import Problem, minimize
    >>> from quartic.losses import LeastSquares
    >>> from quartic.penalties import Nonnegative
    >>> M = np.kron(np.eye(3), np.ones((4, 4)))      # three groups of four
    >>> result = minimize(Problem(LeastSquares(M), Nonnegative()), rank=3, tol=1e-8, random_state=0)
    >>> result.status
    <Status.CONVERGED: 'converged'>
    """
    with one_blas_thread():
        return _minimize(
            problem, X0, rank, solver, tol, reference, max_iter, max_time, callback, checkpoint, random_state, verbose
        )


def _minimize(
    problem: Problem,
    X0: Any,
    rank: int | None,
    solver: str | Solver,
    tol: float,
    reference: float | StartStrategy | None,
    max_iter: int,
    max_time: float | None,
    callback: Callable[[Progress], object] | None,
    checkpoint: str | os.PathLike[str] | None,
    random_state: RandomState,
    verbose: bool,
) -> Result:
    started = time.perf_counter()
    if not isinstance(problem, Problem):
        raise TypeError(f"problem must be a quartic.Problem, got {type(problem).__name__}")
    _check_limits(tol, reference, max_iter, max_time)
    chosen = choose_solver(solver, problem)
    if checkpoint is not None:
        checkpoints.check_folder(checkpoint)
    given = problem.counted()
    columns = check_rank(given, X0, rank)
    problem, units = given.in_good_units()
    if problem.loss.gradient_norm_at_zero == 0.0:
        return _zero_is_the_answer(problem, columns, chosen, started)
    if units:
        chosen = chosen.in_units(units)
    if chosen.requires.kernel:
        problem = problem.with_kernel(tight=chosen.requires.constants)
    starts = Starts(given, problem, units, columns)

    def begin() -> tuple[Array, float | None]:
        X = starts.start(X0, random_generator(random_state))
        return X, starts.reference(reference, random_generator(random_state))

    run = _Run(problem, units, chosen, columns, tol, max_iter, max_time, callback, checkpoint, started)
    with _bar(verbose) as show:
        data, size = problem.loss.size()
        tall = problem.loss.n_points * columns * np.dtype(problem.loss.dtype).itemsize
        with problem.loss.space.errors(f"{data}, rank {columns}", size + _TALL_ARRAYS * tall):
            return run.go(begin, show)


@dataclass(frozen=True)
class _End:
    """Why a run ends; a claim to have converged is only believed if fresh stationarity is within ``bound``."""

    status: Status
    message: str
    bound: float = math.inf


class _Run:
    """One run under way; it works in units of its own, and speaks to the user in the user's."""

    def __init__(
        self,
        problem: Problem,
        units: Units,
        solver: Solver,
        rank: int,
        tol: float,
        max_iter: int,
        max_time: float | None,
        callback: Callable[[Progress], object] | None,
        path: str | os.PathLike[str] | None,
        started: float,
    ) -> None:
        self.problem, self.units, self.solver, self.rank, self.tol = problem, units, solver, rank, tol
        self.max_iter, self.max_time = max_iter, math.inf if max_time is None else max_time
        self.callback, self.path, self.started = callback, path, started
        self.earlier_time, self.earlier_products = 0.0, 0  # of the runs this one goes on from
        self.rows: list[tuple[float, float, float, int, float]] = []
        self.saved = time.perf_counter()
        self.judged: Point | None = None  # the final point, evaluated afresh

    # -- the loop ---------------------------------------------------------------------------------------------------

    @property
    def n_iter(self) -> int:
        """Iterations done: the rows but for the start's."""
        return len(self.rows) - 1

    def go(self, begin: Callable[[], tuple[Array, float | None]], show: Callable[[Progress], object]) -> Result:
        """Iterate from the checkpoint, or from what ``begin`` returns, until there is a reason to stop."""
        state = self._resume() if self.path is not None else None
        if state is None:
            state = self._begin(*begin())
        while True:
            try:
                ended = self._reason_to_stop(state)
                if ended is None:
                    state = self._advance(state)
                    ended = self._tell(state, show)
                elif ended.status is Status.CONVERGED:
                    state, ended = self._confirm(state, ended)
            except NoProgress as stop:
                ended = self._stalled(state, f" at iteration {self.n_iter}: {stop}")
            except KeyboardInterrupt:
                ended = self._interrupted()
            if ended is not None:
                return self._finish(state, ended)

    # What overflows shows in the objective or the gradient, and is reported by the status rather than by warnings.

    @np.errstate(over="ignore", invalid="ignore")
    def _begin(self, X0: Array, reference: float | None) -> State:
        state = self.solver.init(self.problem, X0)
        self.best, self.best_objective = state.point, math.inf
        self.reference = self.problem.stationarity(state.point) if reference is None else float(reference)
        self.last_gain, self.least = 0, math.inf
        self._record(state)
        self.least = self.rows[-1][2]
        return state

    @np.errstate(over="ignore", invalid="ignore")
    def _advance(self, state: State) -> State:
        following = self.solver.step(self.problem, state)
        self._record(following)
        return following

    def _reason_to_stop(self, state: State) -> _End | None:
        elapsed, objective, stationarity, _, _ = self.rows[-1]
        if not (math.isfinite(objective) and math.isfinite(stationarity)):
            return self._non_finite(objective)
        target, floor = self.tol * self.reference, _ROUND_OFF * state.point.rounding
        at_saddle = stationarity <= max(target, floor) and self._at_saddle(state.point)
        if stationarity <= target and not at_saddle:
            shown = (
                f"{self.units.gradient(stationarity):.3e} ≤ {self.tol:g} × {self.units.gradient(self.reference):.3e}"
            )
            words = f"converged: stationarity {shown}"
            return _End(Status.CONVERGED, words, target * (1 + 1e-6))
        if stationarity <= floor and not at_saddle:
            return _End(Status.CONVERGED, self._at_round_off(stationarity), 4 * floor)
        if self.n_iter >= self.max_iter:
            return _End(Status.MAX_ITER, f"stopped at max_iter = {self.max_iter}{self._distance(stationarity)}")
        if elapsed >= self.max_time:
            return _End(Status.MAX_TIME, f"stopped at max_time = {self.max_time:g} s{self._distance(stationarity)}")
        if self.n_iter - self.last_gain >= _PATIENCE:
            return self._stalled(state, f": no gain in {_PATIENCE} iterations")
        return None

    def _non_finite(self, objective: float) -> _End:
        what = "objective" if not math.isfinite(objective) else "gradient"
        where = f"the {what} became non-finite in iteration {self.n_iter}; the best point before it is returned"
        where += f"; {self.problem.loss.advice}" if self.problem.loss.advice else ""
        return _End(Status.NON_FINITE, where)

    @np.errstate(over="ignore", invalid="ignore")
    def _stalled(self, state: State, words: str) -> _End:
        """Tell why there was no progress; where a product made anew is not finite, no trial could have been better."""
        self.judged = self.problem.loss.at(state.point.X)
        objective, stationarity = self.problem.objective(self.judged), self.rows[-1][2]
        if not (math.isfinite(objective) and math.isfinite(self.problem.stationarity(self.judged))):
            return self._non_finite(objective)
        if self._at_saddle(state.point):
            words = "stalled at X = 0, a saddle from which the objective falls; try another start or solver"
            return _End(Status.STALLED, words)
        if stationarity <= _ROUND_OFF_OF_SOLVER * state.point.rounding:
            return _End(Status.CONVERGED, self._at_round_off(stationarity))
        cure = self.problem.loss.advice or "try another solver or start"
        return _End(Status.STALLED, f"stalled{words}{self._distance(stationarity, cure)}")

    def _at_saddle(self, point: Point) -> bool:
        """Tell whether the point is zero and no answer: stationarity vanishes there whatever the data."""
        return is_zero(point.X) and self._falls_from_zero

    @cached_property
    def _falls_from_zero(self) -> bool:
        return objective_falls_from_zero(self.problem)

    def _at_round_off(self, stationarity: float) -> str:
        return f"converged: stationarity {self.units.gradient(stationarity):.3e} is at round-off"

    def _distance(self, stationarity: float, cure: str = "raise the limit or tol") -> str:
        share = stationarity / self.reference if self.reference > 0 else math.inf
        return f", with stationarity at {share:.1e} of the reference (tol = {self.tol:g}); {cure}"

    @np.errstate(over="ignore", invalid="ignore")
    def _confirm(self, state: State, end: _End) -> tuple[State, _End | None]:
        """Believe in convergence only at a point whose product is fresh: carried products drift."""
        fresh = self.problem.loss.at(state.point.X)
        stationarity = self.problem.stationarity(fresh)
        if not stationarity <= end.bound:
            state = replace(state, point=fresh)
            self.rows[-1] = (*self.rows[-1][:2], stationarity, *self.rows[-1][3:])
            return state, None
        self.judged = fresh
        return state, end

    def _record(self, state: State) -> None:
        point = state.point
        self.problem.anticipate(point)
        objective, stationarity = self.problem.objective(point), self.problem.stationarity(point)
        self.rows.append((self._elapsed(), objective, stationarity, self._products(), state.step))
        if objective < self.best_objective and math.isfinite(objective) and math.isfinite(stationarity):
            self.best, self.best_objective = point, objective
            self.last_gain = self.n_iter
        if self.n_iter and stationarity < self.least:
            self.least, self.last_gain = stationarity, self.n_iter

    def _tell(self, state: State, show: Callable[[Progress], object]) -> _End | None:
        """Let the callback and the progress bar see the iterate, and keep a checkpoint now and then."""
        if self.callback is None and self.path is None and show is _no_bar:
            return None
        try:
            progress = self._progress(state.point.X)
            show(progress)
            if self.callback is not None:
                self.callback(progress)
            if self.path is not None and time.perf_counter() - self.saved >= _CHECKPOINT_EVERY:
                self._save(state)
        except StopIteration as stop:
            words = f": {stop}" if str(stop) else ""
            return _End(Status.CALLBACK, f"stopped by the callback in iteration {self.n_iter}{words}")
        except KeyboardInterrupt:
            return self._interrupted()
        except BaseException:
            self._save(state)
            raise
        return None

    def _progress(self, X: Array) -> Progress:
        units, (elapsed, objective, stationarity, products, step) = self.units, self.rows[-1]
        return Progress(
            self.n_iter,
            units.X(X),
            units.objective(objective),
            units.gradient(stationarity),
            products,
            elapsed,
            units.step(step, self.solver.unit_of_step(self.problem)),
            units.gradient(self.tol * self.reference),
        )

    def _interrupted(self) -> _End:
        words = f"interrupted in iteration {self.n_iter}; the best point so far is returned"
        return _End(Status.INTERRUPTED, words)

    @np.errstate(over="ignore", invalid="ignore")
    def _finish(self, state: State, end: _End) -> Result:
        """Return the result, with objective and stationarity measured anew at X, in float64."""
        if end.status is not Status.NON_FINITE:
            self._save(state)
        X, units = state.point.X if end.status is Status.CONVERGED else self.best.X, self.units
        objective, stationarity = referee(self.problem, X, self.judged)
        return Result(
            units.X(X), units.objective(objective), units.gradient(stationarity), end.status, end.message, self.n_iter,
            self._products(), self._elapsed(), self._history(), self.solver.name,
        )  # fmt: skip

    def _elapsed(self) -> float:
        return self.earlier_time + time.perf_counter() - self.started

    def _products(self) -> int:
        return self.earlier_products + self.problem.loss.n_products

    def _history(self) -> History:
        seconds, objective, stationarity, products, step = (np.array(column) for column in zip(*self.rows, strict=True))
        units = self.units
        return History(
            seconds,
            units.objective(objective),
            units.gradient(stationarity),
            products.astype(np.int64),
            units.step(step, self.solver.unit_of_step(self.problem)),
        )

    # -- checkpoints ------------------------------------------------------------------------------------------------

    @cached_property
    def _identity(self) -> dict[str, str]:
        problem = self.problem
        return {
            "solver": repr(self.solver),
            "data": problem.loss.fingerprint(),
            "units": f"2^{-self.units.length}",
            "rank": str(self.rank),
            "penalty": repr(problem.penalty),
            "kernel": repr(problem.kernel) if self.solver.requires.kernel else "",
        }

    def _save(self, state: State) -> None:
        """Write a checkpoint; where that fails the run goes on, since its result is worth more."""
        if self.path is None:
            return
        numbers = {
            "time": self._elapsed(),
            "n_products": self._products(),
            "reference": self.reference,
            "best_objective": self.best_objective,
            "last_gain": self.last_gain,
            "least": self.least,
        }
        arrays = checkpoints.pack_state(state)
        checkpoints.pack(arrays, "best", self.best)
        arrays["history"] = np.array(self.rows)
        self.saved = time.perf_counter()
        try:
            checkpoints.save(self.path, Checkpoint(self._identity, numbers, arrays))
        except OSError as error:
            words = f"the checkpoint {str(self.path)!r} could not be written ({error}); the run goes on without"
            warnings.warn(words, RuntimeWarning, stacklevel=2)

    def _resume(self) -> State | None:
        assert self.path is not None
        checkpoints.sweep(self.path)
        kept = checkpoints.load(self.path, self._identity)
        if kept is None:
            return None
        loss, numbers, shape = self.problem.loss, kept.numbers, (self.problem.loss.n_points, self.rank)
        try:
            state = checkpoints.unpack_state(self.solver.state, kept.arrays, loss, shape)
            best = checkpoints.unpack(kept.arrays, "best", loss)
            checkpoints.check_shape(best, shape)
            rows = [(t, f, s, int(p), step) for t, f, s, p, step in kept.arrays["history"].tolist()]
            gain = int(numbers["last_gain"]), numbers["least"]
            reference, best_objective = numbers["reference"], numbers["best_objective"]
            earlier = numbers["time"], int(numbers["n_products"])
        except (AttributeError, *DAMAGE) as error:
            raise checkpoints.broken(self.path, error) from error
        # only now that all of it is there: a checkpoint is never half read
        self.rows, self.best, self.best_objective, self.reference = rows, best, best_objective, reference
        (self.last_gain, self.least), (self.earlier_time, self.earlier_products) = gain, earlier
        return state


def referee(problem: Problem, X: Array, judged: Point | None = None) -> tuple[float, float]:
    """Return the objective and the norm of stationarity at X, in float64: the one judge of every solver.

    ``judged`` may hold a point made afresh at this X, which saves the product.
    """
    if judged is None or judged.X is not X or float_type(X) is not np.float64:
        judged = problem.loss.at(astype(X, np.float64))
    return problem.objective(judged), problem.stationarity(judged)


def _zero_is_the_answer(problem: Problem, columns: int, solver: Solver, started: float) -> Result:
    """Data that are all zero: F is least at 0, and so is every penalty."""
    X = problem.loss.space.zeros((problem.loss.n_points, columns), problem.loss.dtype)
    seconds = time.perf_counter() - started
    products = problem.loss.n_products
    nothing = History(np.array([seconds]), np.zeros(1), np.zeros(1), np.array([products]), np.full(1, math.nan))
    message = "converged: the data are all zero, and so is the answer"
    return Result(X, 0.0, 0.0, Status.CONVERGED, message, 0, products, seconds, nothing, solver.name)


def _check_limits(tol: Any, reference: Any, max_iter: Any, max_time: Any) -> None:
    check_number(tol, "tol", zero=True)
    if reference is not None and not callable(reference):
        check_number(reference, "reference", zero=True)
    if not isinstance(max_iter, int | np.integer) or isinstance(max_iter, bool) or max_iter < 0:
        raise ValueError(f"max_iter must be a nonnegative integer, got {max_iter!r}")
    if max_time is not None and max_time != math.inf:
        check_number(max_time, "max_time", cure="; None is no limit")


def _bar(verbose: bool) -> AbstractContextManager[Callable[[Progress], object]]:
    if not verbose:
        return nullcontext(_no_bar)
    from quartic.progress import progress_bar

    return progress_bar()


def _no_bar(progress: Progress) -> None:
    """Show nothing."""
