"""The start of a run: the user's, checked, one made by a strategy, or the loss's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from quartic.arrays import Array
from quartic.problem import Problem

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
    if penalty.nonnegative and (X < 0).any():
        row, column = (int(k) for k in np.argwhere(X < 0)[0])
        raise ValueError(
            f"X0 must be nonnegative for {type(penalty).__name__}, but X0[{row}, {column}] = {X[row, column]}; "
            "pass np.maximum(X0, 0)"
        )
    return int(X.shape[1])


def start_for(problem: Problem, X0: Any, rank: int | None, generator: np.random.Generator) -> Array:
    """Return a feasible start in the data's precision, or raise an error that says what is wrong with X0 or rank."""
    loss, columns = problem.loss, check_rank(problem, X0, rank)
    if X0 is None:
        return loss.default_start(columns, problem.penalty.nonnegative, generator).astype(loss.dtype, copy=False)
    if callable(X0):
        X0 = X0(problem, columns, generator)
        check_rank(problem, X0, columns)
    X = loss.check(X0, "X0").astype(loss.dtype)  # a copy: a run of no iterations returns it
    if not X.any():
        raise ValueError("X0 is all zero, where the gradient of every such loss vanishes; use a random start (rank=r)")
    return X


def reference_for(problem: Problem, reference: Any, rank: int | None, generator: np.random.Generator) -> float | None:
    """Return the reference of the stopping test: a number, that of a strategy's start, or None for that of X0."""
    if not callable(reference):
        return None if reference is None else float(reference)
    return problem.stationarity(problem.loss.at(start_for(problem, reference, rank, generator)))
