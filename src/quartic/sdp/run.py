"""A run of one of the methods, in the loop that all solvers run in. The methods are generators of iterates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from quartic.archives import DAMAGE
from quartic.arrays import Array
from quartic.compiled.clock import solving_time
from quartic.core.checkpoint import Checkpoint, broken, check_folder, digest, keep, load, sweep
from quartic.core.loop import Run, bar
from quartic.core.result import Status
from quartic.core.stopping import End
from quartic.sdp.bound import Bound
from quartic.sdp.problem import SDP


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


_PROOFS = {
    Status.INFEASIBLE: "infeasible: multipliers y with 𝒜*(y) ⪯ 0 < bᵀy prove that no Y ⪰ 0 satisfies the constraints",
    Status.UNBOUNDED: "unbounded: some Y ⪰ 0 with 𝒜(Y) = 0 improves the objective without end; the dual is infeasible",
}


@dataclass
class SDPRun(Run):
    """A run of a method, and what it has come to; ``name`` is that of the method."""

    problem: SDP
    name: str
    tol: float
    max_iter: int | None
    max_time: float | None
    started: float
    earlier: float = 0.0
    rows: list[tuple[float, ...]] = field(default_factory=list)
    last: Iterate | None = None

    def go(self, begin: Callable[[dict[str, Array] | None], Iterator[Iterate]], verbose: bool) -> End:
        """Take iterates until there is a reason to stop; where the method has come to its end, it says converged."""
        self.iterates = begin(self._resume())
        with bar(verbose) as self.show:
            return self.loop()

    @property
    def n_iter(self) -> int:
        return len(self.rows) - 1 if self.last is not None else -1

    def elapsed(self) -> float:
        """Return the seconds so far, without those of compiling."""
        return self.earlier + solving_time() - self.started

    def history(self) -> SDPHistory:
        """Return the rows as columns."""
        columns = np.array(self.rows).reshape(-1, 5).T
        return SDPHistory(columns[0], *(self.problem.sign * columns[1:3]), *columns[3:])

    def advance(self) -> None:
        self.last = now = next(self.iterates)
        self.rows.append((self.elapsed(), now.primal, now.dual, now.primal_error, now.dual_error))

    def reason(self) -> End | None:
        now = self.last
        if now is None:
            return None
        if now.verdict is not None:
            return End(now.verdict, _PROOFS[now.verdict])
        if now.done:
            return End(Status.CONVERGED, "the method has no more to give")
        if not math.isfinite(now.primal):
            return End(Status.NON_FINITE, "the objective is not finite")
        if self.max_iter is not None and self.n_iter >= self.max_iter:
            return End(Status.MAX_ITER, f"stopped after max_iter = {self.max_iter} iterations")
        if self.max_time is not None and self.elapsed() > self.max_time:
            return End(Status.MAX_TIME, f"stopped after max_time = {self.max_time:g} s")
        return None

    def progress(self) -> SDPProgress:
        now, sign = self.last, self.problem.sign
        assert now is not None
        return SDPProgress(self.n_iter, sign * now.primal, sign * now.dual, now.error, self.elapsed(), self.tol)

    # -- checkpoints -------------------------------------------------------------------------------------------------

    @property
    def _identity(self) -> dict[str, str]:
        p = self.problem
        data = {"b": p.b, "c": p.c, "i": p.i, "j": p.j, "S": p.S.data, "at": p.S.indices, "B": p.B.data}
        return {"solver": f"sdp {self.name}", "data": digest(data), "blocks": str(p.blocks)}

    def save(self) -> None:
        assert self.last is not None
        arrays = {**self.last.state(), "history": np.array(self.rows)}
        keep(self.checkpoint, Checkpoint(self._identity, {"time": self.elapsed()}, arrays))

    def _resume(self) -> dict[str, Array] | None:
        if self.checkpoint is None:
            return None
        check_folder(self.checkpoint)
        sweep(self.checkpoint)
        kept = load(self.checkpoint, self._identity)
        if kept is None:
            return None
        try:
            self.rows = [tuple(row) for row in kept.arrays.pop("history").reshape(-1, 5).tolist()]
            self.earlier = kept.numbers["time"]
        except DAMAGE as error:
            raise broken(self.checkpoint, error) from error
        return kept.arrays
