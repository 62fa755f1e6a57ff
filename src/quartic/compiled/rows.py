"""Compiled passes over tall arrays: several pointwise operations and a sum while a row is in cache.

Done one by one in NumPy, pointwise operations would cost more than the product with M itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from quartic.compiled.flags import FLAGS, njit


@njit(**FLAGS)
def projected_norm(X: Any, G: Any) -> float:
    """‖∇ᴾ‖² of the projected gradient: G where X > 0, min(G, 0) where X = 0."""
    x, g = X.ravel(), G.ravel()
    total = 0.0
    for k in range(x.size):
        v = np.float64(g[k])
        if x[k] <= 0:
            v = min(v, np.float64(0))
        total += v * v
    return total


# -- coordinate descent on many small nonnegative least-squares problems, one a row ------------------------------------


@njit(cache=True, nogil=True, error_model="numpy")
def sweep_rows(X: Any, G: Any, C: Any) -> None:
    """Minimise ½xᵀGx − cᵀx over each entry x_k ≥ 0 in turn, for every row x of X (in place) and c of C.

    With G fixed, hierarchical alternating least squares over columns is this: the rows do not meet, so a row can stay
    in the cache for all its columns. The residual t = c − Gx is carried, and costs nothing for entries that stay at 0.
    An entry whose G_kk vanishes has no curvature (nor, for least squares, a slope) and is left alone.
    """
    n, r = X.shape
    t = np.empty(r)
    for i in range(n):
        for k in range(r):
            t[k] = C[i, k]
        for l in range(r):
            x = X[i, l]
            if x != 0.0:
                for k in range(r):
                    t[k] -= x * G[l, k]
        for k in range(r):
            if G[k, k] > 0.0:
                old = X[i, k]
                X[i, k] = max(0.0, old + t[k] / G[k, k])
                d = X[i, k] - old
                if d != 0.0:
                    for l in range(r):
                        t[l] -= d * G[k, l]


@njit(cache=False, nogil=True, error_model="numpy")
def solve_factored(L: Any, size: int, x: Any) -> None:
    """Put the solution of LLᵀx = b in place of b = x[:size], L lower triangular; an infinite pivot gives 0."""
    for p in range(size):
        total = x[p]
        for s in range(p):
            total -= L[p, s] * x[s]
        x[p] = total / L[p, p]
    for p in range(size - 1, -1, -1):
        total = x[p]
        for s in range(p + 1, size):
            total -= L[s, p] * x[s]
        x[p] = total / L[p, p]
