"""Compiled passes over the entries of Y = XXᵀ that a programme looks at."""

from __future__ import annotations

from typing import Any

from quartic.compiled.flags import FLAGS, njit


@njit(**FLAGS)
def pair_products(X: Any, i: Any, j: Any, u: Any) -> None:
    """Set u_p = ⟨x_i, x_j⟩ for every pair."""
    for p in range(len(i)):
        total = 0.0
        for k in range(X.shape[1]):
            total += X[i[p], k] * X[j[p], k]
        u[p] = total


@njit(**FLAGS)
def pair_changes(X: Any, D: Any, i: Any, j: Any, u: Any) -> None:
    """Set u_p = ⟨x_i, d_j⟩ + ⟨d_i, x_j⟩ for every pair."""
    for p in range(len(i)):
        total = 0.0
        for k in range(X.shape[1]):
            total += X[i[p], k] * D[j[p], k] + D[i[p], k] * X[j[p], k]
        u[p] = total


@njit(**FLAGS)
def weighted_rows(start: Any, columns: Any, pairs: Any, v: Any, X: Any, G: Any) -> None:
    """Set G to the gradient of Σ v_p ⟨x_i, x_j⟩: row i is Σ v_p x_j over its pairs, a pair with itself twice."""
    for i in range(len(start) - 1):
        for k in range(X.shape[1]):
            G[i, k] = 0.0
        for q in range(start[i], start[i + 1]):
            j = columns[q]
            weight = v[pairs[q]]
            if j == i:
                weight *= 2.0
            for k in range(X.shape[1]):
                G[i, k] += weight * X[j, k]


@njit(**FLAGS)
def schur_entries(
    order: Any, first: Any, start: Any, row: Any, column: Any, value: Any, X: Any, W: Any, M: Any
) -> None:
    """Add ⟨A_k, X A_l W⟩ to M for l from ``first`` on and all k after it in ``order``: sums over pairs of entries.

    A_k has the entries start[k] … start[k + 1], on or above the diagonal; M gets both triangles.
    """
    for a in range(first, len(order)):
        k = order[a]
        for b in range(a, len(order)):
            h = order[b]
            total = 0.0
            for e in range(start[k], start[k + 1]):
                p, q = row[e], column[e]
                for f in range(start[h], start[h + 1]):
                    s, t = row[f], column[f]
                    part = X[q, s] * W[p, t]
                    if p != q:
                        part += X[p, s] * W[q, t]
                        if s != t:
                            part += X[q, t] * W[p, s] + X[p, t] * W[q, s]
                    elif s != t:
                        part += X[q, t] * W[p, s]
                    total += value[e] * value[f] * part
            M[k, h] += total
            if k != h:
                M[h, k] += total
