"""Nonnegative least squares with many right-hand sides, by block principal pivoting (Kim and Park 2011)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quartic.arrays import Array
from quartic.compiled.flags import njit
from quartic.compiled.rows import solve_factored, sweep_rows

# Full exchanges that may fail to lower the number of infeasible variables before the backup rule sets in.
_PATIENCE = 3
# A negative value this small beside the row's largest is round-off; pivoting on it could go on for ever.
_ROUND_OFF = 1e-12
# A pivot this small beside its diagonal entry marks a column that depends on those before it.
_DEPENDENT = 1e-13
# Sweeps of coordinate descent for a first passive set: less work than a factorisation, and they save some.
_FIRST_SWEEPS = 3
# Sweeps of coordinate descent for a row on which pivoting does not end (G singular to working precision).
_LAST_SWEEPS = 100


def solve_nnls(G: Array, C: Array, start: Array) -> Array:
    """Return, row by row, argmin over x ≥ 0 of ½xᵀGx − cᵀx: least squares in normal form, G = AᵀA and c = Aᵀb.

    C has a right-hand side a row; the positive entries of ``start``, after a few sweeps of coordinate descent, are the
    first passive set. A set P gives x_P = G_PP⁻¹ c_P and the multipliers y = Gx − c off P. Entries with x < 0 or y < 0
    change sides, all at once while that lowers their number, the last one alone if it does not: with G positive
    definite this ends. Columns of A that depend on others get x = 0. Should a singular G keep a row pivoting,
    coordinate descent from its start takes over, so the call always returns, and never a worse row than the start's.
    """
    G, C = np.ascontiguousarray(G, dtype=np.float64), np.ascontiguousarray(C, dtype=np.float64)
    X = np.zeros(C.shape)
    pending = _pivot(G, C, start.astype(np.float64), X)
    if len(pending):
        rest = start[pending].astype(np.float64)
        for _ in range(_LAST_SWEEPS):
            sweep_rows(rest, G, C[pending])
        X[pending] = rest
    return X.astype(start.dtype, copy=False)


@njit(cache=True, nogil=True, error_model="numpy")
def _pivot(G: Any, C: Any, guess: Any, X: Any) -> Any:
    """Set the rows of X; return those on which pivoting does not end."""
    for _ in range(_FIRST_SWEEPS):
        sweep_rows(guess, G, C)
    passive = guess > 0
    n, r = C.shape
    L, x, y, inside = np.empty((r, r)), np.empty(r), np.empty(r), np.empty(r, np.int64)
    pending, left = np.empty(n, np.int64), 0
    for i in range(n):
        c, fewest, patience = C[i], r + 1, _PATIENCE
        bound = -_ROUND_OFF * np.abs(c).max()
        for _ in range(100 + 20 * r):
            size = 0
            for k in range(r):
                if passive[i, k]:
                    inside[size], x[size] = k, c[k]
                    size += 1
            _factor(G, inside, size, L)
            solve_factored(L, size, x)
            # what is to change sides: multipliers below zero, and values, on their scale
            y[:] = -c
            largest = 0.0
            for p in range(size):
                largest = max(largest, abs(x[p]))
                for k in range(r):
                    y[k] += x[p] * G[inside[p], k]
            for p in range(size):
                y[inside[p]] = -x[p] * (bound / _ROUND_OFF / largest) if largest > 0.0 else 0.0
            count, last = 0, -1
            for k in range(r):
                if y[k] < bound:
                    count, last = count + 1, k
            if count == 0:
                for p in range(size):
                    X[i, inside[p]] = max(x[p], 0.0)
                break
            patience = _PATIENCE if count < fewest else patience - 1
            fewest = min(fewest, count)
            for k in range(r):
                if y[k] < bound and (patience >= 0 or k == last):
                    passive[i, k] = not passive[i, k]
        else:
            pending[left] = i
            left += 1
    return pending[:left]


@njit(cache=True, nogil=True, error_model="numpy")
def _factor(G: Any, inside: Any, size: int, L: Any) -> None:
    """Set L to the Cholesky factor of G on ``inside``; a dependent column gets an infinite pivot, hence x = 0."""
    for p in range(size):
        for q in range(p + 1):
            value = G[inside[p], inside[q]]
            for s in range(q):
                value -= L[p, s] * L[q, s]
            if q < p:
                L[p, q] = value / L[q, q]
            else:
                L[p, p] = math.sqrt(value) if value > _DEPENDENT * G[inside[p], inside[p]] else np.inf
