"""Short random walks from many nodes of a sparse graph, in memory of the order of its nodes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quartic.compiled.flags import FLAGS, INNER, njit


@njit(**FLAGS)
def follow_walks(
    first: int, last: int, indptr: Any, indices: Any, chance: Any, scale: Any, mixed: Any, n_steps: int, front: int,
    counts: Any, columns: Any, values: Any,
) -> None:  # fmt: skip
    """Write the largest entries of rows ``first`` to ``last`` of the walk matrix."""
    n, cap = len(scale), columns.shape[1]
    mass, total, sizes = np.zeros(n), np.zeros(n), np.empty(n)
    near, reached = np.empty(n, np.int64), np.empty(n, np.int64)
    here, amount = np.empty(front, np.int64), np.empty(front)
    for i in range(first, last):
        seen, size, lost, here[0], amount[0] = 0, 1, 0.0, i, 1.0
        for _ in range(n_steps):
            found = np.int64(0)  # a number like others: for a constant the calls below would be compiled anew
            for f in range(size):
                for p in range(indptr[here[f]], indptr[here[f] + 1]):
                    j = indices[p]
                    if mass[j] == 0.0:
                        near[found] = j
                        found += 1
                    mass[j] += amount[f] * chance[p]
            size = _take_largest(near, found, mass, front, sizes, here)
            lost += 1.0
            for f in range(size):
                j = here[f]
                amount[f] = mass[j]
                lost -= mass[j]
                if total[j] == 0.0:
                    reached[seen] = j
                    seen += 1
                total[j] += mass[j]
            for f in range(found):
                mass[near[f]] = 0.0
        kept = np.int64(0)
        for f in range(seen):
            j = reached[f]
            total[j] = total[j] * scale[j] + max(lost, 0.0) * mixed[j]
            if total[j] > 1.0 + 1e-9:  # round-off at log 1 would be an edge
                near[kept] = j
                kept += 1
        counts[i] = _take_largest(near, kept, total, cap, sizes, columns[i])
        for f in range(counts[i]):
            values[i, f] = math.log(total[columns[i, f]])
        for f in range(seen):
            total[reached[f]] = 0.0


@njit(**INNER)
def _take_largest(nodes: Any, count: int, weight: Any, most: int, sizes: Any, out: Any) -> int:
    """Write to ``out`` the nodes of the largest weights, ``most`` at most, the first of equals; return how many."""
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
        if weight[j] > least or (weight[j] == least and ties > 0):
            ties -= weight[j] == least
            out[size] = j
            size += 1
    return size


@njit(**INNER)
def _rising(x: Any, count: int, place: int) -> float:
    """Return what stands at this place of the first numbers of x when they are sorted; they are put in another order.

    Hoare's selection. (``np.partition`` within compiled code takes five seconds to compile.)
    """
    low, high = 0, count - 1
    while low < high:
        pivot, i, j = x[(low + high) // 2], low, high
        while i <= j:
            while x[i] < pivot:
                i += 1
            while x[j] > pivot:
                j -= 1
            if i <= j:
                x[i], x[j] = x[j], x[i]
                i += 1
                j -= 1
        if place <= j:
            high = j
        elif place >= i:
            low = i
        else:
            break
    return x[place]  # type: ignore[no-any-return]
