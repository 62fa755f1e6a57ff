"""Compiled passes over tall arrays: several pointwise operations and a sum while a row is in cache.

The r × r work (Gram matrices, products with small matrices) stays with BLAS, which does it at near the peak of the
machine; what is left are pointwise operations, and done one by one in NumPy they would cost more than the product
with M itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from quartic.compiled.flags import FLAGS


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
