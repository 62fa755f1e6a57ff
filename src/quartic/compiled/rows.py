"""Compiled passes over tall arrays: several pointwise operations and a sum while a row is in cache.

Done one by one in NumPy, pointwise operations would cost more than the product with M itself.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quartic.compiled.flags import FLAGS, njit


@njit(**FLAGS)
def combine(A: Any, B: Any, C: Any, a: float, b: float, c: float) -> None:
    """Set A = aA + bB + cC."""
    for i in range(A.shape[0]):
        for k in range(A.shape[1]):
            A[i, k] = a * A[i, k] + b * B[i, k] + c * C[i, k]


@njit(**FLAGS)
def gram_of_few(A: Any, B: Any) -> Any:
    """Return AᵀB by the entries that are not zero."""
    S, r, s = np.zeros((A.shape[1], B.shape[1])), A.shape[1], B.shape[1]
    left, right = np.empty(r + 1, np.int64), np.empty(s + 1, np.int64)
    for i in range(A.shape[0]):
        n_left, n_right = 0, 0
        for k in range(r):  # without a branch: what is written is overwritten unless it counts
            left[n_left] = k
            n_left += A[i, k] != 0
        for k in range(s):
            right[n_right] = k
            n_right += B[i, k] != 0
        for h in range(n_left):
            for k in range(n_right):
                S[left[h], right[k]] += A[i, left[h]] * B[i, right[k]]
    return S


@njit(cache=False, nogil=True, error_model="numpy")
def quartic_minimizer(a: float, b: float) -> float:
    """Return the x ≥ 0 of least ¼x⁴ + ½ax² + bx.

    It is 0 or the largest root of x³ + ax + b. For b < 0 there is one positive root, and it wins. For b ≥ 0 the root
    wins over 0 when 2(−a)³ > 27b², well away from the double root at 4(−a)³ = 27b². In each case an upper bound within
    a factor of two is at hand. From there Newton's steps fall to the root, for x³ + ax + b is convex on x > 0, in five
    or six; Cardano's formula would cancel where |a|³ and b² are far apart.
    """
    if a >= 0.0:
        if b >= 0.0:
            return 0.0
        x = -b / a if -b < a * math.sqrt(a) else np.cbrt(-b)
    elif b < 0.0:
        x = math.sqrt(-a) + np.cbrt(-b)
    elif -a > 3.0 / np.cbrt(2.0) * np.cbrt(b) ** 2:
        x = math.sqrt(-a)
    else:
        return 0.0
    while True:
        below = x - (x * (x * x + a) + b) / (3.0 * x * x + a)
        if not below < x:
            return x
        x = below


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
