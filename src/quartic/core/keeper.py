"""Keeping a run: its state and its log written to a checkpoint, and taken up again from there."""

from __future__ import annotations

import os
import time
import warnings
from functools import cached_property

import numpy as np

from quartic.archives import DAMAGE
from quartic.core import checkpoint as checkpoints
from quartic.core.checkpoint import Checkpoint
from quartic.core.problem import Problem
from quartic.core.run_log import Row, RunLog
from quartic.core.units import Units
from quartic.solvers.base import Solver, State


class Keeper:
    """Writes the checkpoints of one run, and reads the one it goes on from."""

    def __init__(self, path: str | os.PathLike[str], problem: Problem, units: Units, solver: Solver, rank: int) -> None:
        self.path, self.problem, self.units, self.solver, self.rank = path, problem, units, solver, rank
        self._written = time.perf_counter()

    @property
    def age(self) -> float:
        """Seconds since the last checkpoint, or since the run began."""
        return time.perf_counter() - self._written

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

    def save(self, state: State, log: RunLog) -> None:
        """Write a checkpoint; where that fails the run goes on, since its result is worth more."""
        numbers = {
            "time": log.elapsed(),
            "n_products": log.products(),
            "reference": log.reference,
            "best_objective": log.best_objective,
            "last_gain": log.last_gain,
            "least": log.least,
        }
        arrays = checkpoints.pack_state(state)
        checkpoints.pack(arrays, "best", log.best)
        arrays["history"] = np.array(log.rows)
        self._written = time.perf_counter()
        try:
            checkpoints.save(self.path, Checkpoint(self._identity, numbers, arrays))
        except OSError as error:
            words = f"the checkpoint {str(self.path)!r} could not be written ({error}); the run goes on without"
            warnings.warn(words, RuntimeWarning, stacklevel=2)

    def resume(self, log: RunLog) -> State | None:
        """Return the state in the checkpoint, its log read into ``log``; None where there is no file."""
        checkpoints.sweep(self.path)
        kept = checkpoints.load(self.path, self._identity)
        if kept is None:
            return None
        loss, numbers, shape = self.problem.loss, kept.numbers, (self.problem.loss.n_points, self.rank)
        try:
            state = checkpoints.unpack_state(self.solver.state, kept.arrays, loss, shape)
            best = checkpoints.unpack(kept.arrays, "best", loss)
            checkpoints.check_shape(best, shape)
            rows = [Row(t, f, s, int(p), step) for t, f, s, p, step in kept.arrays["history"].tolist()]
            gain = int(numbers["last_gain"]), numbers["least"]
            reference, best_objective = numbers["reference"], numbers["best_objective"]
            earlier = numbers["time"], int(numbers["n_products"])
        except (AttributeError, *DAMAGE) as error:
            raise checkpoints.broken(self.path, error) from error
        # only now that all of it is there: a checkpoint is never half read
        log.rows, log.best, log.best_objective, log.reference = rows, best, best_objective, reference
        (log.last_gain, log.least), (log.earlier_time, log.earlier_products) = gain, earlier
        return state
