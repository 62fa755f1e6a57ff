"""Compiled passes over tall arrays: several pointwise operations and a sum while a row is in cache.

Done one by one in NumPy, pointwise operations would cost more than the product with M itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from quartic.arrays.checks import Array
from quartic.compiled.flags import FLAGS, njit
from quartic.compiled.tiles import BLOCK, add_cross_gram, block, block_times_small, padded, padded_columns


@njit(**FLAGS)
def extrapolate(X: Any, Z: Any, t: float, out: Any) -> None:
    """Out = X + t(X − Z)."""
    x, z, o = X.ravel(), Z.ravel(), out.ravel()
    t = x.dtype.type(t)
    for k in range(x.size):
        o[k] = x[k] + t * (x[k] - z[k])


@njit(**FLAGS)
def add_scaled(A: Any, s: float, B: Any) -> None:
    """A += s B."""
    a, b = A.ravel(), B.ravel()
    s = a.dtype.type(s)
    for k in range(a.size):
        a[k] += s * b[k]


@njit(**FLAGS)
def add_and_clip(V: Any, s: float, P: Any, shift: float, clip: bool) -> float:
    """V += s P − shift, then cut off below zero if ``clip``; returns ‖V‖²."""
    v, p = V.ravel(), P.ravel()
    s, shift = v.dtype.type(s), v.dtype.type(shift)
    zero = v.dtype.type(0)
    total = 0.0
    for k in range(v.size):
        w = v[k] + (s * p[k] - shift)
        if clip:
            w = max(w, zero)
        v[k] = w
    for k in range(v.size):  # by itself: see `quartic.losses.factor.numba`
        total += np.float64(v[k]) * np.float64(v[k])
    return total


@njit(**FLAGS)
def difference(X: Any, Y: Any, P: Any, Q: Any, D: Any) -> float:
    """D = X − Y; returns ⟨P − Q, D⟩."""
    x, y, p, q, d = X.ravel(), Y.ravel(), P.ravel(), Q.ravel(), D.ravel()
    total = 0.0
    for k in range(x.size):
        d[k] = x[k] - y[k]
    for k in range(x.size):
        total += (np.float64(p[k]) - np.float64(q[k])) * np.float64(d[k])
    return total


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


# -- a spectral start: a step of Chebyshev's recursion, and a turn towards X ≥ 0 ---------------------------------------


def turned_gram(Z: Array, Q: Array) -> Array:
    """Return Zᵀ max(ZQ, 0), of which ZQ exists only block by block."""
    rank = Z.shape[1]
    S = np.zeros((padded(rank),) * 2)
    _turned_gram(np.ascontiguousarray(Z), padded_columns(Q, Z.dtype), S)
    return S[:rank, :rank]


@njit(**FLAGS)
def _turned_gram(Z: Any, Q: Any, S: Any) -> None:
    rank, zero = Z.shape[1], Z.dtype.type(0)
    A, Y = block(Z), block(Z)
    a, y = A.ravel(), Y.ravel()
    for i in range(0, Z.shape[0], BLOCK):
        rows = min(BLOCK, Z.shape[0] - i)
        z = Z.ravel()[i * rank : (i + rows) * rank]
        for k in range(z.size):
            a[k] = z[k]
        block_times_small(rows, A, Q, Y)
        for k in range(z.size):
            y[k] = max(y[k], zero)
        add_cross_gram(rows, A, Y, S)


@njit(**FLAGS)
def chebyshev(MT: Any, T: Any, before: Any, centre: float, half: float) -> None:
    """Before = (2/half)(MT − centre·T) − before."""
    m, t, b = MT.ravel(), T.ravel(), before.ravel()
    kind = t.dtype.type
    s, c = kind(2 / half), kind(centre)
    for k in range(t.size):
        b[k] = s * (m[k] - c * t[k]) - b[k]


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
