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
# Sweeps of coordinate descent for a row on which pivoting does not end (G singular to working precision).
_LAST_SWEEPS = 100


def solve_nnls(G: Array, C: Array, start: Array) -> Array:
    """Return, row by row, argmin over x ≥ 0 of ½xᵀGx − cᵀx: least squares in normal form, G = AᵀA and c = Aᵀb.

    C has a right-hand side a row; the positive entries of ``start`` are the first passive set. A passive set P gives
    x_P = G_PP⁻¹ c_P and the multipliers y = Gx − c off P. Entries with x < 0 or y < 0 change sides, all at once while
    that lowers their number, the last one alone if it does not: with G positive definite this ends. Rows with the same
    passive set share one Cholesky factor. Columns of A that depend on others get x = 0. Should a singular G keep a row
    pivoting, coordinate descent from its start takes over, so the call always returns, and never a worse row than the
    start's.
    """
    n, r = C.shape
    G, C = np.ascontiguousarray(G, dtype=np.float64), np.ascontiguousarray(C, dtype=np.float64)
    X, passive = np.zeros((n, r)), start > 0
    fewest, patience = np.full(n, r + 1), np.full(n, _PATIENCE)
    pending = np.arange(n)
    for _ in range(100 + 20 * r):
        order = pending[_by_pattern(passive[pending])]
        pending = _pivot(order, G, C, passive, X, fewest, patience)
        if not len(pending):
            break
    else:
        rest = start[pending].astype(np.float64)
        for _ in range(_LAST_SWEEPS):
            sweep_rows(rest, G, C[pending])
        X[pending] = rest
    return X.astype(start.dtype, copy=False)


def _by_pattern(passive: Any) -> Any:
    """Return an order of the rows that brings equal rows together."""
    bits = np.packbits(passive, axis=1)
    words = np.zeros((len(bits), 8 * -(-bits.shape[1] // 8)), dtype=np.uint8)
    words[:, : bits.shape[1]] = bits
    return np.lexsort(words.view(np.uint64).T)


@njit(cache=True, nogil=True, error_model="numpy")
def _pivot(order: Any, G: Any, C: Any, passive: Any, X: Any, fewest: Any, patience: Any) -> Any:
    """Solve the rows in ``order`` on their passive sets, exchange what is infeasible, return the rows not done."""
    r = C.shape[1]
    L, x, inside, before = np.empty((r, r)), np.empty(r), np.empty(r, np.int64), np.empty(r, np.bool_)
    pending = np.empty(len(order), np.int64)
    left, size = 0, 0
    for at in range(len(order)):
        i = order[at]
        same = at > 0
        for k in range(r):
            if same and passive[i, k] != before[k]:
                same = False
        if not same:
            size = 0
            for k in range(r):
                before[k] = passive[i, k]
                if passive[i, k]:
                    inside[size] = k
                    size += 1
            _factor(G, inside, size, L)
        for p in range(size):
            x[p] = C[i, inside[p]]
        solve_factored(L, size, x)
        if _exchange(i, G, C[i], x, inside, size, passive, X, fewest, patience):
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


@njit(cache=True, nogil=True, error_model="numpy")
def _exchange(
    i: int, G: Any, c: Any, x: Any, inside: Any, size: int, passive: Any, X: Any, fewest: Any, patience: Any
) -> bool:
    """Write the solution to row i of X, clipped, and change its passive set if infeasible; return whether it was."""
    r = len(c)
    y = -c
    largest_x, largest_c = 0.0, 0.0
    X[i, :] = 0.0
    for p in range(size):
        k = inside[p]
        X[i, k] = max(x[p], 0.0)
        largest_x = max(largest_x, abs(x[p]))
        for l in range(r):
            y[l] += x[p] * G[k, l]
    for k in range(r):
        largest_c = max(largest_c, abs(c[k]))
    for p in range(size):
        y[inside[p]] = x[p] * (largest_c / largest_x) if largest_x > 0.0 else 0.0
    bound = -_ROUND_OFF * largest_c
    count, last = 0, -1
    for k in range(r):
        if y[k] < bound:
            count += 1
            last = k
    if count == 0:
        return False
    if count < fewest[i]:
        fewest[i] = count
        patience[i] = _PATIENCE
    elif patience[i] > 0:
        patience[i] -= 1
    else:
        passive[i, last] = not passive[i, last]
        return True
    for k in range(r):
        if y[k] < bound:
            passive[i, k] = not passive[i, k]
    return True
