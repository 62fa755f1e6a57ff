"""Compiled passes over the entries of Y = XXᵀ that a programme looks at; for tensors they are in `passes_torch`.

Rows are taken out as arrays of their own before the loops over them: only then are these vectorised. X may be float32;
the entries are float64. Passes over rows or pairs that do not depend on each other are spread over threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from quartic.arrays.threads import spread
from quartic.compiled.flags import FLAGS, njit


def taken(matrix: Any, space: Any, dtype: Any) -> Any:
    """Return a sparse matrix as one that multiplies arrays of this type here."""
    return matrix.astype(dtype)


def row_products(A: Any, B: Any) -> Any:
    """Return ⟨a_i, b_i⟩ of all rows."""
    return np.einsum("ij,ij->i", A, B, dtype=np.float64)


def sums_by(group: Any, values: Any, count: int) -> Any:
    """Return the sum of the values of each group."""
    return np.bincount(group, values, count)


def pair_products(X: Any, i: Any, j: Any, u: Any) -> None:
    """Set u_p = ⟨x_i, x_j⟩ for every pair."""
    spread(lambda a, b: _pair_products(X, i[a:b], j[a:b], u[a:b]), len(i), len(i) * X.shape[1])


@njit(**FLAGS)
def _pair_products(X: Any, i: Any, j: Any, u: Any) -> None:
    for p in range(len(i)):
        x, y = X[i[p]], X[j[p]]
        total = 0.0
        for k in range(len(x)):
            total += x[k] * y[k]
        u[p] = total


def curve_terms(X: Any, D: Any, i: Any, j: Any, first: Any, second: Any) -> None:
    """Set first_p = ⟨x_i, d_j⟩ + ⟨d_i, x_j⟩ and second_p = ⟨d_i, d_j⟩ for every pair."""
    spread(lambda a, b: _curve_terms(X, D, i[a:b], j[a:b], first[a:b], second[a:b]), len(i), 3 * len(i) * X.shape[1])


@njit(**FLAGS)
def _curve_terms(X: Any, D: Any, i: Any, j: Any, first: Any, second: Any) -> None:
    for p in range(len(i)):
        x, y, d, e = X[i[p]], X[j[p]], D[i[p]], D[j[p]]
        a, b = 0.0, 0.0
        for k in range(len(x)):
            a += x[k] * e[k] + d[k] * y[k]
            b += d[k] * e[k]
        first[p], second[p] = a, b


def weighted_rows(start: Any, columns: Any, weights: Any, X: Any, G: Any, fresh: bool) -> None:
    """Set G, or add to it, a sparse matrix times X."""
    spread(
        lambda a, b: _weighted_rows(start[a : b + 1], columns, weights, X, G[a:b], fresh),
        len(G), len(columns) * X.shape[1],
    )  # fmt: skip


@njit(**FLAGS)
def _weighted_rows(start: Any, columns: Any, weights: Any, X: Any, G: Any, fresh: bool) -> None:
    for i in range(len(start) - 1):
        out = G[i]
        if fresh:
            for k in range(len(out)):
                out[k] = 0.0
        for q in range(start[i], start[i + 1]):
            weight, x = weights[q], X[columns[q]]
            for k in range(len(out)):
                out[k] += weight * x[k]


@njit(**FLAGS)
def make_tangent(X: Any, group: Any, mu: Any, D: Any, H: Any, sums: Any) -> float:
    """Turn H into the part of H − mu·D along the spheres of the groups, and return its product with D.

    Rows with the same group make up one sphere; the last group is free of any.
    """
    sums[:] = 0.0
    for i in range(X.shape[0]):
        h, d, x, total = H[i], D[i], X[i], 0.0
        weight = mu[group[i]]
        for k in range(len(h)):
            h[k] -= weight * d[k]
            total += x[k] * h[k]
        sums[group[i]] += total
    sums[-1] = 0.0
    product = 0.0
    for i in range(X.shape[0]):
        h, d, x, total = H[i], D[i], X[i], 0.0
        weight = sums[group[i]]
        for k in range(len(h)):
            h[k] -= weight * x[k]
            total += d[k] * h[k]
        product += total
    return product


@njit(**FLAGS)
def conjugate_step(step: float, P: Any, H: Any, D: Any, R: Any, scale: Any) -> Any:
    """Add step·P to D and step·H to R, the residual; return ‖R‖² and ⟨R, R/scale⟩."""
    plain, scaled = 0.0, 0.0
    for i in range(P.shape[0]):
        p, h, d, r, total = P[i], H[i], D[i], R[i], 0.0
        for k in range(len(p)):
            d[k] += step * p[k]
            r[k] += step * h[k]
            total += r[k] * r[k]
        plain += total
        scaled += total / scale[i]
    return plain, scaled


@njit(**FLAGS)
def next_direction(beta: float, R: Any, scale: Any, P: Any) -> None:
    """Set P to beta·P − R/scale."""
    for i in range(P.shape[0]):
        p, r = P[i], R[i]
        weight = 1.0 / scale[i]
        for k in range(len(p)):
            p[k] = beta * p[k] - weight * r[k]


def schur_entries(entries: Any, X: Any, W: Any, M: Any) -> None:
    """Add ⟨A_k, X A_l W⟩ to M_kl for k ≤ l: sums over pairs of entries. X and W are symmetric.

    ``entries`` are which, start, owner, row, column, value: the constraints ``which``, rising, have the entries
    start[a] … start[a + 1], on or above the diagonal, those on it halved; ``owner`` is the constraint of each.
    """
    which, start, owner, row, column, value = entries
    spread(
        lambda a, b: _schur_entries(a, b, which, start, owner, row, column, value, X, W, M),
        len(which), 4.0 * len(owner) * len(owner),
    )  # fmt: skip


@njit(**FLAGS)
def _schur_entries(
    first: int, last: int, which: Any, start: Any, owner: Any, row: Any, column: Any, value: Any, X: Any, W: Any, M: Any
) -> None:
    total = len(owner)
    u = np.empty(total)
    for a in range(first, last):
        begin = start[a]
        for f in range(begin, total):
            u[f] = 0.0
        for e in range(begin, start[a + 1]):
            x, y, w, v = X[row[e]], X[column[e]], W[row[e]], W[column[e]]
            weight = value[e]
            for f in range(begin, total):
                s, t = row[f], column[f]
                u[f] += weight * (y[s] * w[t] + x[s] * v[t] + y[t] * w[s] + x[t] * v[s])
        out = M[which[a]]
        for f in range(begin, total):
            out[owner[f]] += value[f] * u[f]
