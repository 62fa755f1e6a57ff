"""Compiled sweeps of coordinate descent on many small nonnegative least-squares problems, one a row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


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
