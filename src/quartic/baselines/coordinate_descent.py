"""Coordinate descent: one entry of X after the other, each by an exact minimisation (Vandaele et al. 2016).

The part of the loss that depends on row x of X is, with S the Gram matrix of the other rows, p = Σ_{j≠i} M_ij x_j and
m = M_ii,

    ½(m − ‖x‖²)² + xᵀSx − 2pᵀx,

and as a function of one entry x_k alone, up to a constant, twice ¼x_k⁴ + ½a x_k² + b x_k with

    a = S_kk − m + Σ_{l≠k} x_l²,    b = Σ_{l≠k} S_kl x_l − p_k.

S and p do not change while the entries of the row do. The product MX is kept up to date: row i moved by d adds M_ij d
to row j. That is the only use of M, O(nnz·r) a sweep, and it leaves MX of the new X for the next gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from quartic.arrays import Array
from quartic.compiled.flags import njit
from quartic.compiled.rows import quartic_minimizer
from quartic.core.problem import Problem
from quartic.losses import FullLeastSquares
from quartic.losses.factor.loss import LeastSquaresPoint
from quartic.solvers.base import NoProgress, Requirements, Solver, State

# Rows of a dense M that are swept before the product is brought up to date.
_BLOCK = 64


@dataclass(frozen=True)
class CoordinateDescent(Solver):
    """x_ik ← argmin over x ≥ 0 of ½‖M − XXᵀ‖², for every entry in turn; an iteration is a sweep over all of them.

    As a function of one entry the loss is a quartic without cubic term; its least value is at 0 or at the largest root
    of a cubic x³ + ax + b. Sweeps go row by row, which lets the product MX follow along: a sweep takes O(nnz·r + nr²)
    operations, counts as one product, and leaves the loss and the gradient at the new point. It needs the entries of M,
    so M must be a dense or sparse matrix.

    Examples
    --------
    >>> from quartic import SymNMF, datasets
    >>> model = SymNMF(2, solver="cd", random_state=0)
    >>> model.fit(datasets.karate().adjacency).n_iter_ < 20
    True
    """

    name = "cd"
    requires = Requirements(("on_host", "point_from", "entries"), ("only X ≥ 0",))

    def step(self, problem: Problem, state: State) -> State:
        loss, p = cast(FullLeastSquares, problem.loss), cast(LeastSquaresPoint, state.point)
        X, MX, S = (np.array(A, order="C") for A in (p.X, p.MX, p.gram))
        loss.count_products()
        if not _sweep(loss.matrix.M, X, MX, S):  # type: ignore[attr-defined]  # one that shows its entries has them
            raise NoProgress("no entry moves: each is at its best")
        return State(loss.point_from(X, MX))  # whose round-off the loop looks at before it believes in convergence


def _sweep(M: Any, X: Array, MX: Array, S: Array) -> bool:
    """Sweep over all entries, changing X, MX and S = XᵀX in place; return whether any moved."""
    if sp.issparse(M):
        return bool(sweep(X, MX, S, M.indptr, M.indices, M.data))
    moved = False
    for first in range(0, len(X), _BLOCK):
        # Within a block only the block's own rows of MX are needed; the rest follows in one matrix product.
        rows = slice(first, first + _BLOCK)
        before = X[rows].copy()
        if sweep(X[rows], MX[rows].copy(), S, None, None, np.ascontiguousarray(M[rows, rows])):
            MX += M[rows].T @ (X[rows] - before)
            moved = True
    return moved


@njit(cache=True, nogil=True, error_model="numpy")
def _descend_row(x: Any, Mx: Any, m: float, S: Any, u: Any, d: Any) -> bool:
    """Minimise over each entry of a row in turn; return whether any moved.

    ``Mx`` is the row of MX, S the Gram matrix of all rows: this one is taken out and put back. ``u`` is work
    space; ``d`` gets the change of the row. Most entries are 0 and stay so: they cost next to nothing.
    """
    r = len(x)
    _add_outer(S, x, -1.0)
    u[:] = 0.0
    square = 0.0
    for l in range(r):
        if x[l] != 0.0:
            square += x[l] * x[l]
            for k in range(r):
                u[k] += x[l] * S[l, k]
    moved = False
    for k in range(r):
        old = x[k]
        a = S[k, k] - m + (square - old * old)
        b = u[k] - S[k, k] * old - (Mx[k] - m * old)
        x[k] = quartic_minimizer(a, b)
        d[k] = x[k] - old
        if d[k] != 0.0:
            moved = True
            square += d[k] * (x[k] + old)
            for l in range(r):
                u[l] += d[k] * S[k, l]
    _add_outer(S, x, 1.0)
    return moved


@njit(cache=True, nogil=True, error_model="numpy")
def _add_outer(S: Any, x: Any, sign: float) -> None:
    """Add ±xxᵀ to S."""
    for k in range(len(x)):
        if x[k] != 0.0:
            for l in range(len(x)):
                S[k, l] += sign * x[k] * x[l]


@njit(cache=True, nogil=True, error_model="numpy")
def sweep(X: Any, MX: Any, S: Any, indptr: Any, indices: Any, data: Any) -> bool:
    """Sweep over all entries, row by row, changing X, MX and S = XᵀX in place; return whether any moved.

    Without ``indptr`` the data are a dense M, or of a block of rows, those of X and MX, their block of it.
    """
    n, r = X.shape
    u, d = np.empty(r), np.empty(r)
    moved = False
    for i in range(n):
        m = 0.0
        if data.ndim == 2:
            m = data[i, i]
        else:
            for e in range(indptr[i], indptr[i + 1]):
                if indices[e] == i:
                    m = data[e]
        if _descend_row(X[i], MX[i], m, S, u, d):
            moved = True
            if data.ndim == 2:
                for j in range(n):
                    for k in range(r):
                        MX[j, k] += data[i, j] * d[k]
            else:
                for e in range(indptr[i], indptr[i + 1]):
                    for k in range(r):
                        MX[indices[e], k] += data[e] * d[k]
    return moved
