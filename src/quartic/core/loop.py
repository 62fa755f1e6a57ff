"""The one loop that runs every method: stopping, timing, progress, interrupts, checkpoints."""

from __future__ import annotations

import math
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from quartic.arrays import Array, RandomState, astype, check_number, float_type, norm, random_generator
from quartic.arrays.threads import one_blas_thread
from quartic.compiled.clock import solving_time
from quartic.core.checkpoint import Keeper, check_folder
from quartic.core.own_parts import check_constants, check_penalty, explain_failure
from quartic.core.problem import Problem
from quartic.core.result import History, Result, Status
from quartic.core.run_log import RunLog
from quartic.core.start import Starts, StartStrategy, check_rank
from quartic.core.stopping import End, Stopping, check_limits
from quartic.core.units import Units
from quartic.losses import Point
from quartic.solvers.base import NoProgress, Solver, State
from quartic.solvers.registry import choose_solver

# A checkpoint is written this often, in seconds.
_CHECKPOINT_EVERY = 5.0
# What goes on by itself (a device, small steps made together) is looked after this often, in iterations; where someone
# watches or there is a checkpoint, after each; near a limit of time as often as that asks for.
_BATCH = 32
# The objective is known to so many times the round-off of the gradient times ‖X‖.
_VALUE_ROUND_OFF = 16.0
# A run keeps about so many arrays of X's size, the largest number of any solver with its memory.
_TALL_ARRAYS = 16


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


@one_blas_thread()
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
    >>> from quartic import Problem, losses, minimize, penalties
    >>> groups = np.kron(np.eye(3), np.ones((4, 4)))      # three of four
    >>> problem = Problem(losses.LeastSquares(groups), penalties.Nonnegative())
    >>> minimize(problem, rank=3, tol=1e-8, random_state=0).status
    <Status.CONVERGED: 'converged'>
    """
    started = solving_time()
    Problem.check(problem)
    check_number(tol, "tol", zero=True)
    if reference is not None and not callable(reference):
        check_number(reference, "reference", zero=True)
    check_limits(max_iter, max_time, callback)
    check_constants(problem.loss)
    chosen = choose_solver(solver, problem)
    if checkpoint is not None:
        check_folder(checkpoint)
    given = problem.counted()
    columns = check_rank(given, X0, rank)
    zero = partial(given.loss.space.zeros, (given.loss.n_points, columns), given.loss.dtype)
    check_penalty(given.penalty, zero)
    problem, units = given.in_good_units()
    if problem.loss.gradient_norm_at_zero == 0.0:
        return _zero_is_the_answer(problem, units, columns, chosen, started)
    if chosen.requires.kernel:
        problem = problem.with_kernel(tight=chosen.requires.constants)
    if units:
        chosen = chosen.in_units(units, problem)
    starts = Starts(given, problem, units, columns)

    def begin() -> tuple[Array, float | None]:
        X = starts.start(X0, random_generator(random_state))
        return X, starts.reference(reference, random_generator(random_state))

    log = RunLog(problem, started)
    stopping = Stopping(problem, units, log, tol, max_iter, max_time)
    keeper = None if checkpoint is None else Keeper(checkpoint, problem, units, chosen, columns)
    run = _Minimization(callback, keeper, problem, units, chosen, log, stopping)
    with bar(verbose) as run.show:
        data, size = problem.loss.size()
        tall = problem.loss.n_points * columns * np.dtype(problem.loss.dtype).itemsize
        with problem.loss.space.errors(f"{data}, rank {columns}", size + _TALL_ARRAYS * tall):
            try:
                return run.go(begin)
            except Exception:
                explain_failure(given.loss, zero)
                raise


@dataclass
class Run(ABC):
    """A run under way: who watches it, and where its checkpoint is written; a kind of method says what it does."""

    callback: Callable[[Any], object] | None
    checkpoint: Any

    def __post_init__(self) -> None:
        self.show: Callable[[Any], object] = _no_bar
        self._written = time.perf_counter()

    @property
    def watched(self) -> bool:
        """Whether anything is to be done after each iteration."""
        return self.callback is not None or self.checkpoint is not None or self.show is not _no_bar

    def loop(self) -> End:
        """Iterate until there is a reason to stop."""
        ended: End | None = None
        while ended is None:
            try:
                ended = self.reason()
                if ended is None:
                    ended = self.advance() or self._tell()
            except KeyboardInterrupt:
                if self.n_iter < 0:
                    raise
                words = f"interrupted in iteration {self.n_iter}; the best point so far is returned"
                ended = End(Status.INTERRUPTED, words)
        if ended.status is not Status.NON_FINITE:
            self._save()
        return ended

    def _tell(self) -> End | None:
        """Let the callback and the progress bar see the iterate, and keep a checkpoint now and then."""
        if not self.watched:
            return None
        try:
            progress = self.progress()
            self.show(progress)
            if self.callback is not None:
                self.callback(progress)
            if time.perf_counter() - self._written >= _CHECKPOINT_EVERY:
                self._save()
        except StopIteration as stop:
            words = f": {stop}" if str(stop) else ""
            return End(Status.CALLBACK, f"stopped by the callback in iteration {self.n_iter}{words}")
        except BaseException:
            self._save()
            raise
        return None

    def _save(self) -> None:
        if self.checkpoint is not None:
            self._written = time.perf_counter()
            self.save()

    @property
    @abstractmethod
    def n_iter(self) -> int:
        """Iterations done; −1 before there is anything to return."""

    @abstractmethod
    def reason(self) -> End | None:
        """Return why the run ends at this iterate; None where it goes on."""

    @abstractmethod
    def advance(self) -> End | None:
        """Make an iteration, or several; return an end where that cannot be done."""

    @abstractmethod
    def progress(self) -> Any:
        """Return what those who watch see of this iterate."""

    @abstractmethod
    def save(self) -> None:
        """Write a checkpoint of this iterate."""


@dataclass
class _Minimization(Run):
    """A run of a solver; it works in units of its own, and speaks to the user in the user's."""

    problem: Problem
    units: Units
    solver: Solver
    log: RunLog
    stopping: Stopping

    def go(self, begin: Callable[[], tuple[Array, float | None]]) -> Result:
        """Iterate from the checkpoint, or from what ``begin`` returns, until there is a reason to stop."""
        state = self.checkpoint.resume(self.log) if self.checkpoint is not None else None
        self.state: State = self._begin(*begin()) if state is None else state
        ended = self.loop()
        del self.state, state  # the referee's arrays of float64 take their room
        return self._finish(ended)

    @property
    def n_iter(self) -> int:
        return self.log.n_iter

    # What overflows shows in the objective or the gradient, and is reported by the status rather than by warnings.

    @np.errstate(over="ignore", invalid="ignore")
    def reason(self) -> End | None:
        ended = self.stopping.reason(self.state)
        return ended and (self._believed(ended) or self.stopping.reason(self.state))

    @np.errstate(over="ignore", invalid="ignore")
    def advance(self) -> End | None:
        while True:
            try:
                most = 1 if self.watched else min(self.stopping.max_iter - self.n_iter, _BATCH, self.stopping.in_time())
                following, made = self.solver.advance(self.problem, self.state, most, self.stopping.target)
                self.log.record(following, made)
                self.state = following
                return None
            except NoProgress as stop:
                ended = self._believed(self.stopping.stalled(self.state, f" at iteration {self.n_iter}: {stop}"))
                ended = ended or self.stopping.reason(self.state)
                if ended is not None:
                    return ended

    def save(self) -> None:
        self.checkpoint.save(self.state, self.log)

    @np.errstate(over="ignore", invalid="ignore")
    def _begin(self, X0: Array, reference: float | None) -> State:
        state = self.solver.init(self.problem, X0)
        self.log.begin(state, reference)
        return state

    def _believed(self, end: End) -> End | None:
        """Believe in convergence only at a point whose product is fresh (carried products drift), and at the lowest.

        A solver that is not monotone, or led astray by round-off, may come to rest above a point it has passed. If that
        one is as stationary, it is the answer. If the two are no further apart in height than stationarity explains,
        ⟨∇Ψ(X), X − best⟩, the run goes on: the next claim may be lower.
        """
        if end.status is not Status.CONVERGED:
            return end
        problem, log, state = self.problem, self.log, self.state
        known = state.point if state.is_measured else end.judged
        fresh = known if known is not None else problem.loss.at(state.point.X)
        objective, stationarity = problem.objective(fresh), problem.stationarity(fresh)
        if not stationarity <= end.bound:
            log.correct(stationarity)
            log.doubted = log.n_iter
            self.state = replace(state, point=fresh)
            return None
        # nothing is so uncertain that it could be below all seen so far where it is far above the start
        least = max(abs(log.best_objective), abs(log.rows[0].objective), _round_off(log.best))
        unsure = min(_round_off(fresh), least)
        if objective <= log.best_objective + unsure:
            return replace(end, judged=fresh)
        best = problem.loss.at(log.best.X)
        lowest = problem.objective(best)
        noise = float(fresh.rounding)
        share = min(1.0, float(best.rounding) / noise) if noise > 0 else 1.0
        bound = max(self.stopping.target, share * end.bound)  # what is round-off far out is none at the best point
        if objective <= lowest + unsure or problem.stationarity(best) <= bound:
            return replace(end, judged=fresh if objective <= lowest else best)
        if end.judged is None and objective - lowest <= stationarity * norm(fresh.X - best.X):
            log.doubted = log.n_iter
            return None
        return self.stopping.above_best(stationarity, objective, lowest)

    def progress(self) -> Progress:
        units, (elapsed, objective, stationarity, products, step) = self.units, self.log.latest
        return Progress(
            self.log.n_iter,
            units.X(self.state.point.X),
            units.objective(objective),
            units.gradient(stationarity),
            products,
            elapsed,
            units.step(step, self.solver.unit_of_step(self.problem)),
            units.gradient(self.stopping.target),
        )

    @np.errstate(over="ignore", invalid="ignore")
    def _finish(self, end: End) -> Result:
        """Return the result, with objective and stationarity measured anew at X, in float64."""
        units, converged = self.units, end.status is Status.CONVERGED
        X = end.judged.X if converged and end.judged is not None else self.log.best.X
        objective, stationarity = referee(self.problem, X, end.judged)
        return Result(
            units.X(X),
            units.objective(objective),
            units.gradient(stationarity),
            end.status,
            end.message,
            self.log.n_iter,
            self.log.products(),
            self.log.elapsed(),
            self.log.history(units, self.solver),
            self.solver.name,
        )


def _round_off(point: Point) -> float:
    """Return about what the objective at a point is known to."""
    return _VALUE_ROUND_OFF * float(point.rounding) * norm(point.X)


def referee(problem: Problem, X: Array, judged: Point | None = None) -> tuple[float, float]:
    """Return the objective and the norm of stationarity at X, in float64: the one judge of every solver.

    ``judged`` may hold a point made afresh at this X, which saves the product.
    """
    if judged is None or judged.X is not X or float_type(X) is not np.float64:
        judged = problem.loss.at(astype(X, np.float64))
    return problem.objective(judged), problem.stationarity(judged)


def _zero_is_the_answer(problem: Problem, units: Units, columns: int, solver: Solver, started: float) -> Result:
    """Return X = 0 for data with ∇F(0) = 0: F, which is convex, is least there, and so is every penalty."""
    X = problem.loss.space.zeros((problem.loss.n_points, columns), problem.loss.dtype)
    objective, stationarity = (np.array([x]) for x in referee(problem, X))
    objective, stationarity = units.objective(objective), units.gradient(stationarity)
    seconds, products = solving_time() - started, problem.loss.n_products
    history = History(np.array([seconds]), objective, stationarity, np.array([products]), np.full(1, math.nan))
    words = "converged: the gradient of F vanishes at 0, so X = 0 is the answer"
    facts = float(objective[0]), float(stationarity[0]), Status.CONVERGED, words, 0, products, seconds
    return Result(units.X(X), *facts, history, solver.name)


def bar(verbose: bool) -> AbstractContextManager[Callable[[Any], object]]:
    """Return the progress bar of ``verbose=True``, or a function that shows nothing."""
    if not verbose:
        return nullcontext(_no_bar)
    from quartic.core.progress import progress_bar

    return progress_bar()


def _no_bar(progress: Any) -> None:
    """Show nothing."""
