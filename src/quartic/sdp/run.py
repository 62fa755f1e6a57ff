"""One run of a method: time, callbacks, interrupts, checkpoints, history. The methods are generators of iterates."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quartic.archives import DAMAGE
from quartic.arrays import Array
from quartic.compiled.clock import solving_time
from quartic.core.checkpoint import Checkpoint, broken, check_folder, digest, keep, load, sweep
from quartic.core.progress import progress_bar
from quartic.core.result import Status
from quartic.sdp.bound import Bound
from quartic.sdp.problem import SDP

_CHECKPOINT_EVERY = 5.0


@dataclass(frozen=True)
class Iterate:
    """What a method hands out after each iteration, of the programme as a minimisation."""

    primal: float  # ⟨C, XXᵀ⟩
    dual: float  # bᵀy
    primal_error: float  # how infeasible they are, relatively
    dual_error: float
    factor: Callable[[], Array]  # X, all rows
    y: Array  # the multipliers
    feasible: Array | None = None  # multipliers with C − 𝒜*(y) ⪰ 0, perhaps older
    state: Callable[[], dict[str, Array]] = dict  # the arrays that a run can go on from
    done: bool = False  # the method has no more to give
    verdict: Status | None = None  # a proof that there is no solution
    bound: Bound | None = None  # what y proves, where it has been worked out

    @property
    def error(self) -> float:
        """The largest of the relative errors."""
        gap = abs(self.primal - self.dual) / (1 + abs(self.primal) + abs(self.dual))
        return max(self.primal_error, self.dual_error, gap)


@dataclass(frozen=True)
class SDPProgress:
    """What a callback sees after each iteration."""

    n_iter: int
    objective: float  # ⟨C, XXᵀ⟩
    dual: float  # bᵀy
    stationarity: float  # the largest of the relative errors: infeasibilities and gap
    time: float
    target: float  # what ``stationarity`` is to come to


@dataclass(frozen=True)
class SDPHistory:
    """One entry an iteration: seconds, ⟨C, XXᵀ⟩, bᵀy, and how infeasible X and y were, relatively."""

    time: Array
    primal: Array
    dual: Array
    primal_infeasibility: Array
    dual_infeasibility: Array

    def __len__(self) -> int:
        return len(self.time)


@dataclass
class Run:
    """What a run has come to."""

    problem: SDP
    tol: float
    max_iter: int | None
    max_time: float | None
    callback: Callable[[SDPProgress], object] | None
    checkpoint: str | os.PathLike[str] | None
    verbose: bool
    started: float
    rows: list[tuple[float, ...]] = field(default_factory=list)
    last: Iterate | None = None
    earlier: float = 0.0

    def elapsed(self) -> float:
        """Return the seconds so far, without those of compiling."""
        return self.earlier + solving_time() - self.started

    def history(self) -> SDPHistory:
        """Return the rows as columns."""
        columns = np.array(self.rows).reshape(-1, 5).T
        return SDPHistory(columns[0], *(self.problem.sign * columns[1:3]), *columns[3:])

    def go(
        self, method: str, begin: Callable[[dict[str, Array] | None], Iterator[Iterate]]
    ) -> tuple[Status | None, str]:
        """Take iterates until there is a reason to stop; return it, or None where the method has come to its end."""
        kept = self._resume(method)
        written = time.perf_counter()
        with progress_bar() if self.verbose else nullcontext(None) as show:
            try:
                for iterate in begin(kept):
                    self.last = iterate
                    row = (iterate.primal, iterate.dual, iterate.primal_error, iterate.dual_error)
                    self.rows.append((self.elapsed(), *row))
                    if iterate.verdict is not None or iterate.done:
                        break
                    if not math.isfinite(iterate.primal):
                        return Status.NON_FINITE, "the objective is not finite"
                    self._tell(iterate, show)
                    if self.checkpoint is not None and time.perf_counter() - written > _CHECKPOINT_EVERY:
                        self._save(method)
                        written = time.perf_counter()
                    if self.max_iter is not None and len(self.rows) > self.max_iter:
                        return Status.MAX_ITER, f"stopped after max_iter = {self.max_iter} iterations"
                    if self.max_time is not None and self.elapsed() > self.max_time:
                        return Status.MAX_TIME, f"stopped after max_time = {self.max_time:g} s"
            except StopIteration as stop:
                return Status.CALLBACK, f"stopped by the callback{f': {stop}' if str(stop) else ''}"
            except KeyboardInterrupt:
                if self.last is None:
                    raise
                return Status.INTERRUPTED, "interrupted"
            finally:
                self._save(method)
        return None, ""

    def _tell(self, iterate: Iterate, show: Any) -> None:
        if self.callback is None and show is None:
            return
        sign = self.problem.sign
        progress = SDPProgress(
            len(self.rows) - 1, sign * iterate.primal, sign * iterate.dual, iterate.error, self.elapsed(), self.tol
        )
        if show is not None:
            show(progress)
        if self.callback is not None:
            self.callback(progress)

    def _identity(self, method: str) -> dict[str, str]:
        p = self.problem
        data = {"b": p.b, "c": p.c, "i": p.i, "j": p.j, "S": p.S.data, "at": p.S.indices, "B": p.B.data}
        return {"solver": f"sdp {method}", "data": digest(data), "blocks": str(p.blocks)}

    def _save(self, method: str) -> None:
        if self.checkpoint is None or self.last is None or not math.isfinite(self.last.primal):
            return
        arrays = {**self.last.state(), "history": np.array(self.rows)}
        keep(self.checkpoint, Checkpoint(self._identity(method), {"time": self.elapsed()}, arrays))

    def _resume(self, method: str) -> dict[str, Array] | None:
        if self.checkpoint is None:
            return None
        check_folder(self.checkpoint)
        sweep(self.checkpoint)
        kept = load(self.checkpoint, self._identity(method))
        if kept is None:
            return None
        try:
            self.rows = [tuple(row) for row in kept.arrays.pop("history").reshape(-1, 5).tolist()]
            self.earlier = kept.numbers["time"]
        except DAMAGE as error:
            raise broken(self.checkpoint, error) from error
        return kept.arrays
