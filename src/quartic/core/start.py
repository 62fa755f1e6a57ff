"""The start of a run: the user's, checked, one made by a strategy, or the loss's own."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from quartic.arrays import Array, astype, copy, first_entry
from quartic.core.problem import Problem
from quartic.core.units import COMFORTABLE, Units, exponent, shifted

# A step so short that prox is no more than the projection to where a penalty is finite.
_LITTLE = 1e-8
# X0 may be so many times further from one, in powers of two, than data that are not scaled.
_FARTHEST = 2

#: What makes a start: it is called with the problem, whose loss counts its products, the rank and a generator.
StartStrategy: TypeAlias = Callable[[Problem, int, np.random.Generator], Array]


def check_rank(problem: Problem, X0: Any, rank: int | None) -> int:
    """Return the number of columns the start will have, or raise an error that says what is wrong with X0 or rank."""
    loss, penalty = problem.loss, problem.penalty
    if rank is not None:
        if not isinstance(rank, int | np.integer) or isinstance(rank, bool):
            raise TypeError(f"rank must be an integer, got {rank!r}")
        if not 1 <= rank <= loss.n_points:
            raise ValueError(f"rank must lie between 1 and the number of points, {loss.n_points}, got {rank}")
    if X0 is None or callable(X0):
        if rank is None:
            raise ValueError(
                "give a start X0 of shape (n, r), or rank=r for a random one"
                if X0 is None
                else "X0 is a strategy that makes a start; give rank=r, the number of its columns"
            )
        return int(rank)
    X = loss.check(X0, "X0")
    if rank is not None and X.shape[1] != rank:
        raise ValueError(f"X0 has {X.shape[1]} columns but rank = {rank}; give one of them, or make them agree")
    negative = first_entry(X < 0) if penalty.nonnegative else None
    if negative is not None:
        row, column = negative
        raise ValueError(
            f"X0 must be nonnegative for {type(penalty).__name__}, but X0[{row}, {column}] = {float(X[row, column])}; "
            "pass np.maximum(X0, 0)"
        )
    return int(X.shape[1])


@dataclass(frozen=True)
class Starts:
    """Makes starts of a rank in the units of a run.

    Strategies see the user's problem, ``given``: what they know besides it is in the user's units too. ``problem`` is
    the same in the units of the run.
    """

    given: Problem
    problem: Problem
    units: Units
    rank: int

    def start(self, X0: Any, generator: np.random.Generator) -> Array:
        """Return a feasible start in the data's precision, or raise an error that says what is wrong with X0."""
        from quartic.init.relaxed import relaxed_start, relaxing_helps, sampled_start

        loss = self.problem.loss
        if X0 is None and (suggested := sampled_start(self.problem, self.rank, generator)) is not None:
            return suggested
        if X0 is None and relaxing_helps(self.problem):
            return astype(relaxed_start(self.problem, self.rank, generator), loss.dtype)
        if X0 is None:
            penalty = self.problem.penalty
            X = astype(loss.default_start(self.rank, penalty.nonnegative, generator), loss.dtype)
            # a penalty of one's own may have a domain of its own, which its prox leads to
            own = penalty.cut(1.0) is None and not math.isfinite(penalty.value(X))
            return penalty.prox(X, _LITTLE) if own else X
        made = callable(X0)
        if made:
            X0 = X0(self.given, self.rank, generator)
            check_rank(self.given, X0, self.rank)
        X = loss.check(X0, "X0")
        power = exponent(X)
        if power is None:
            raise ValueError(
                "X0 is all zero, where the gradient of every such loss vanishes; use a random start (rank=r)"
            )
        if abs(power + self.units.length) > _FARTHEST * COMFORTABLE[loss.dtype]:
            raise ValueError(
                f"X0 is so far from the size that the data ask for (its largest entry is about {2.0**power:.0e}) that "
                "squares under- or overflow; scale it, or use a random start (rank=r)"
            )
        X = astype(X, loss.dtype)
        X = X if made else copy(X)  # a run of no iterations returns it
        return shifted(X, self.units.length)

    def reference(self, reference: Any, generator: np.random.Generator) -> float | None:
        """Return the reference of the stopping test: a number, that of a strategy's start, or None for that of X0."""
        if reference is None:
            return None
        if not callable(reference):
            return shifted(float(reference), self.units.value - self.units.length)
        return self.problem.stationarity(self.problem.loss.at(self.start(reference, generator)))
