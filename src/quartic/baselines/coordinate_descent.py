"""Coordinate descent: one entry of X after the other, each by an exact minimisation (Vandaele et al. 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from quartic.arrays import Array
from quartic.core.problem import Problem
from quartic.losses import LeastSquares
from quartic.losses.factor.loss import LeastSquaresPoint
from quartic.losses.factor.matrix import DenseMatrix, Matrix, SparseMatrix
from quartic.solvers.base import NoProgress, Requirements, Solver, State

# Sweeps after which the carried product is made anew, lest its round-off grow.
_REFRESH = 50
# Rows of a dense M that are swept before the product is brought up to date.
_BLOCK = 64


@dataclass(frozen=True)
class SweepState(State):
    """The iterate, and how many sweeps its product has been carried."""

    age: int = 0


@dataclass(frozen=True)
class CoordinateDescent(Solver):
    """x_ik ← argmin over x ≥ 0 of ½‖M − XXᵀ‖², for every entry in turn; an iteration is a sweep over all of them.

    As a function of one entry the loss is a quartic without cubic term; its least value is at 0 or at the largest root
    of a cubic x³ + ax + b. Sweeps go row by row, which lets the product MX follow along: a sweep takes O(nnz·r + nr²)
    operations, counts as one product, and leaves the loss and the gradient at the new point. It needs the entries of M,
    so M must be a dense or sparse matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic import Problem, minimize
    >>> from quartic.losses import LeastSquares
    >>> from quartic.penalties import Nonnegative
    >>> M = np.kron(np.eye(2), np.ones((3, 3)))
    >>> result = minimize(Problem(LeastSquares(M), Nonnegative()), rank=2, solver="cd", random_state=0)
    >>> bool(result.objective < 1e-3)
    True
    """

    name = "cd"
    requires = Requirements(("on_host", "point_from", "entries"), ("only X ≥ 0",))
    state = SweepState

    def init(self, problem: Problem, X0: Array) -> SweepState:
        """Return the state at X0."""
        return SweepState(problem.loss.at(X0))

    def step(self, problem: Problem, state: State) -> SweepState:
        """Return the state after a sweep."""
        loss, p = cast(LeastSquares, problem.loss), cast(LeastSquaresPoint, state.point)
        X, MX, S = (np.array(A, order="C") for A in (p.X, p.MX, p.gram))
        loss._count()
        if not _sweep(loss.matrix, X, MX, S):
            raise NoProgress("no entry moves: each is at its best")
        age = cast(SweepState, state).age + 1
        return SweepState(loss.point_from(X, MX), age=age) if age < _REFRESH else SweepState(loss.at(X))


def _sweep(matrix: Matrix, X: Array, MX: Array, S: Array) -> bool:
    """Sweep over all entries, changing X, MX and S = XᵀX in place; return whether any moved."""
    from quartic.baselines.entry_descent import sweep_dense, sweep_sparse

    if isinstance(matrix, SparseMatrix):
        return bool(sweep_sparse(X, MX, S, matrix.M.indptr, matrix.M.indices, matrix.M.data))
    assert isinstance(matrix, DenseMatrix)
    M, moved = matrix.M, False
    for first in range(0, len(X), _BLOCK):
        # Within a block only the block's own rows of MX are needed; the rest follows in one matrix product.
        rows = slice(first, first + _BLOCK)
        before = X[rows].copy()
        if sweep_dense(X[rows], MX[rows].copy(), S, np.ascontiguousarray(M[rows, rows])):
            MX += M[rows].T @ (X[rows] - before)
            moved = True
    return moved
