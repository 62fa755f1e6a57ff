"""One row of X after the other, each coordinate to its best: symmetric NMF where rows have few nonzeros."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quartic.compiled.flags import FLAGS, INNER, njit


@njit(**INNER)
def best_coordinate(p: float, q: float) -> float:
    """Return the least x ≥ 0 of x⁴/4 + px²/2 + qx: 0, or the largest root of x³ + px + q, by Newton from the right."""
    if p >= 0.0:
        if q >= 0.0:
            return 0.0
        x = (-q) ** (1 / 3)
        if p > 0.0:
            x = min(x, -q / p)
    else:
        turn = math.sqrt(-p / 3)
        if q + 2 * p * turn / 3 >= 0.0:  # the cubic stays above zero
            return 0.0
        x = 2 * turn + max(-q, 0.0) ** (1 / 3)
    for _ in range(60):
        step = (x * x * x + p * x + q) / (3 * x * x + p)
        x -= step
        if abs(step) <= 1e-14 * x:
            break
    return x if x > 0.0 and 0.25 * x * x * x + 0.5 * p * x + q < 0.0 else 0.0


@njit(**FLAGS)
def descend_rows(
    indptr: Any, indices: Any, data: Any, order: Any, columns: Any, values: Any, count: Any, G: Any, n_rounds: int
) -> float:  # fmt: skip
    r"""Minimise ½‖M − XXᵀ‖² over X ≥ 0 in each row of ``order`` in turn; return the square of the projected gradient.

    Row i of X has ``count[i]`` nonzeros ``values[i]`` in ``columns[i]``, and G = XᵀX is kept up to date. With the other
    rows as they are, a coordinate x of row i has the gradient 2(x³ + px + q), where p and q follow from the row's norm,
    G and the neighbours' rows; it can only leave zero where a neighbour's is positive. The gradients are those that the
    rows have when their turn comes. Where a row has no room for another nonzero, the last ones found are left out.
    """
    rank, room, total = G.shape[0], columns.shape[1], 0.0
    y, pull, push = np.zeros(rank), np.zeros(rank), np.zeros(rank)
    seen, near = np.zeros(rank, np.bool_), np.empty(rank, np.int64)
    for i in order:
        n_near, own, norm = count[i], 0.0, 0.0
        for a in range(n_near):
            j, x = columns[i, a], values[i, a]
            seen[j], near[a], y[j] = True, j, x
            norm += x * x
            for b in range(n_near):
                G[j, columns[i, b]] -= x * values[i, b]
        for e in range(indptr[i], indptr[i + 1]):
            k = indices[e]
            if k == i:
                own = data[e]
                continue
            for a in range(count[k]):
                j = columns[k, a]
                if not seen[j]:
                    seen[j], near[n_near] = True, j
                    n_near += 1
                pull[j] += data[e] * values[k, a]
        push[:] = 0.0
        for a in range(count[i]):
            j = columns[i, a]
            for b in range(rank):
                push[b] += y[j] * G[j, b]
        for turn in range(n_rounds):
            moved, largest = 0.0, 0.0
            for a in range(n_near):
                j = near[a]
                x = y[j]
                if turn > 0 and x == 0.0:
                    continue
                p, q = norm - x * x - own + G[j, j], push[j] - x * G[j, j] - pull[j]
                slope = x * x * x + p * x + q
                if turn == 0 and (x > 0.0 or slope < 0.0):
                    total += 4 * slope * slope
                new = best_coordinate(p, q)
                if new != x:
                    y[j] = new
                    norm += new * new - x * x
                    for b in range(rank):
                        push[b] += (new - x) * G[j, b]
                    moved = max(moved, abs(new - x))
                largest = max(largest, new)
            if moved <= 1e-3 * largest:
                break
        kept = 0
        for a in range(n_near):
            j = near[a]
            if y[j] > 0.0 and kept < room:
                columns[i, kept], values[i, kept] = j, y[j]
                kept += 1
            seen[j], y[j], pull[j] = False, 0.0, 0.0
        count[i] = kept
        for a in range(kept):
            for b in range(kept):
                G[columns[i, a], columns[i, b]] += values[i, a] * values[i, b]
    return total
