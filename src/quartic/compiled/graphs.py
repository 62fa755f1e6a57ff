"""Passes over the edges of a sparse graph: random walks, moves of nodes between clusters, symmetric NMF row by row."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quartic.compiled.flags import FLAGS, INNER, njit
from quartic.compiled.rows import quartic_minimizer

# -- short random walks from many nodes, in memory of the order of the nodes ------------------------------------------


@njit(**FLAGS)
def follow_walks(
    first: int, last: int, indptr: Any, indices: Any, chance: Any, scale: Any, mixed: Any, n_steps: int, front: int,
    counts: Any, columns: Any, values: Any,
) -> None:  # fmt: skip
    """Write the largest entries of rows ``first`` to ``last`` of the walk matrix."""
    n, cap = len(scale), columns.shape[1]
    mass, total, sizes = np.zeros(n), np.zeros(n), np.empty(n)
    # What may belong to a list is written at its end, and the list grows or does not: there is no branch to guess wrong
    near, reached, here = np.empty(n + 1, np.int64), np.empty(n + 1, np.int64), np.empty(n + 1, np.int64)
    amount = np.empty(front)
    for i in range(first, last):
        seen, size, lost, here[0], amount[0] = 0, 1, 0.0, i, 1.0
        for _ in range(n_steps):
            found = np.int64(0)  # a number like others: for a constant the calls below would be compiled anew
            for f in range(size):
                share = amount[f]
                for p in range(indptr[here[f]], indptr[here[f] + 1]):
                    j = indices[p]
                    near[found], before = j, mass[j]
                    found += before == 0.0
                    mass[j] = before + share * chance[p]
            size = _take_largest(near, found, mass, front, sizes, here)
            lost += 1.0
            for f in range(size):
                j = reached[seen] = here[f]
                amount[f] = mass[j]
                lost -= amount[f]
                seen += total[j] == 0.0
                total[j] += amount[f]
            for f in range(found):
                mass[near[f]] = 0.0
        kept = np.int64(0)
        for f in range(seen):
            j = reached[f]
            total[j] = total[j] * scale[j] + max(lost, 0.0) * mixed[j]
            near[kept] = j
            kept += total[j] > 1.0 + 1e-9  # round-off at log 1 would be an edge
        counts[i] = _take_largest(near, kept, total, cap, sizes, here)
        for f in range(counts[i]):
            columns[i, f], values[i, f] = here[f], math.log(total[here[f]])
        for f in range(seen):
            total[reached[f]] = 0.0


@njit(**INNER)
def _take_largest(nodes: Any, count: int, weight: Any, most: int, sizes: Any, out: Any) -> int:
    """Write to ``out`` the nodes of the largest weights, ``most`` at most, the first of equals; return how many.

    There must be room for one more.
    """
    least, ties = 0.0, most
    if count > most:
        for f in range(count):
            sizes[f] = weight[nodes[f]]
        least = _rising(sizes, count, count - most)
        for f in range(count):
            ties -= sizes[f] > least
    size = 0
    for f in range(count):
        j = nodes[f]
        tie = weight[j] == least and ties > 0
        ties -= tie
        out[size] = j
        size += weight[j] > least or tie
    return size


@njit(**INNER)
def _rising(x: Any, count: int, place: int) -> float:
    """Return what stands at this place of the first numbers of x when they are sorted; they are put in another order.

    Smaller ones go before a pivot, and then its equals, by swaps that are always made.
    """
    low, high = 0, count
    while True:
        pivot, less = x[(low + high) // 2], low
        for i in range(low, high):
            number = x[i]
            x[i], x[less] = x[less], number
            less += number < pivot
        equal = less
        for i in range(less, high):
            number = x[i]
            x[i], x[equal] = x[equal], number
            equal += number == pivot
        if less <= place < equal:
            return pivot  # type: ignore[no-any-return]
        low, high = (low, less) if place < less else (equal, high)


# -- one row of X after the other, each coordinate to its best, where rows have few nonzeros --------------------------


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
                new = quartic_minimizer(p, q)
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
