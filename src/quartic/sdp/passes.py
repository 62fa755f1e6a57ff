"""Compiled passes over the entries of Y = XXᵀ that a programme looks at.

Rows are taken out as arrays of their own before the loops over them: only then are these vectorised.
"""

from __future__ import annotations

from typing import Any

from quartic.compiled.flags import FLAGS, njit


@njit(**FLAGS)
def pair_products(X: Any, i: Any, j: Any, u: Any) -> None:
    """Set u_p = ⟨x_i, x_j⟩ for every pair."""
    for p in range(len(i)):
        x, y = X[i[p]], X[j[p]]
        total = 0.0
        for k in range(len(x)):
            total += x[k] * y[k]
        u[p] = total


@njit(**FLAGS)
def curve_terms(X: Any, D: Any, i: Any, j: Any, first: Any, second: Any) -> None:
    """Set first_p = ⟨x_i, d_j⟩ + ⟨d_i, x_j⟩ and second_p = ⟨d_i, d_j⟩ for every pair."""
    for p in range(len(i)):
        x, y, d, e = X[i[p]], X[j[p]], D[i[p]], D[j[p]]
        a, b = 0.0, 0.0
        for k in range(len(x)):
            a += x[k] * e[k] + d[k] * y[k]
            b += d[k] * e[k]
        first[p], second[p] = a, b


@njit(**FLAGS)
def weighted_rows(start: Any, columns: Any, weights: Any, X: Any, G: Any, fresh: bool) -> None:
    """Set G, or add to it, a sparse matrix times X."""
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
def chebyshev_step(start: Any, columns: Any, weights: Any, centre: float, factor: float, new: Any, old: Any) -> None:
    """Set old to factor·(Z − centre)·new − old, Z a sparse matrix: the three-term recurrence."""
    for i in range(len(start) - 1):
        out, x = old[i], new[i]
        for k in range(len(out)):
            out[k] = -factor * centre * x[k] - out[k]
        for q in range(start[i], start[i + 1]):
            weight, x = factor * weights[q], new[columns[q]]
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


@njit(**FLAGS)
def schur_entries(
    order: Any, first: int, start: Any, row: Any, column: Any, value: Any, X: Any, W: Any, M: Any
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
