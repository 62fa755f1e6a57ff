"""The best k columns of every row of XXᵀ or of a distance matrix, from tiles of dot products.

A row keeps a heap of its k best candidates (worst at the root), so no more than one tile of products is ever held.
Columns are offered in ascending order: a candidate that only ties with the root has the higher index and stays out.

The rank keys are ratios of squares, ⟨a,b⟩²/‖b‖² and d⁴/σ²: for integer features numerator and denominator are exact and
the division is correctly rounded, so that true ties are seen as ties.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quartic.compiled.flags import njit

Heap = tuple[Any, Any, Any, Any]  # keys (n, k), values (n, k), columns (n, k), counts (n,)


@njit(cache=True, nogil=True, error_model="numpy")
def _push(i: int, key: float, value: float, column: int, heap: Heap) -> None:
    """Put a candidate into the heap of row i, replacing the worst one if the heap is full."""
    keys, values, columns, counts = heap
    k = keys.shape[1]
    size = counts[i]
    if size < k:
        at = size
        counts[i] = size + 1
        while at > 0:
            up = (at - 1) // 2
            if keys[i, up] > key or (keys[i, up] == key and columns[i, up] > column):
                break
            keys[i, at], values[i, at], columns[i, at] = keys[i, up], values[i, up], columns[i, up]
            at = up
    else:
        at = 0
        while True:
            down = 2 * at + 1
            if down >= k:
                break
            other = down + 1
            if other < k and (
                keys[i, other] > keys[i, down]
                or (keys[i, other] == keys[i, down] and columns[i, other] > columns[i, down])
            ):
                down = other
            if key > keys[i, down] or (key == keys[i, down] and column > columns[i, down]):
                break
            keys[i, at], values[i, at], columns[i, at] = keys[i, down], values[i, down], columns[i, down]
            at = down
    keys[i, at], values[i, at], columns[i, at] = key, value, column


@njit(cache=True, nogil=True, error_model="numpy")
def _dense_dot(X: Any, i: int, j: int) -> float:
    """Return ⟨x_i, x_j⟩ in an order that does not depend on tiles or threads."""
    p = X.shape[1]
    a = b = c = d = 0.0  # four sums, for the processor's pipeline
    whole = p - p % 4
    for t in range(0, whole, 4):
        a += X[i, t] * X[j, t]
        b += X[i, t + 1] * X[j, t + 1]
        c += X[i, t + 2] * X[j, t + 2]
        d += X[i, t + 3] * X[j, t + 3]
    for t in range(whole, p):
        a += X[i, t] * X[j, t]
    return (a + b) + (c + d)


@njit(cache=True, nogil=True, error_model="numpy")
def _dense_distance(X: Any, i: int, j: int) -> float:
    """Return ‖x_i − x_j‖² from the differences, without cancellation."""
    p = X.shape[1]
    a = b = c = d = 0.0
    whole = p - p % 4
    for t in range(0, whole, 4):
        e, f = X[i, t] - X[j, t], X[i, t + 1] - X[j, t + 1]
        g, h = X[i, t + 2] - X[j, t + 2], X[i, t + 3] - X[j, t + 3]
        a += e * e
        b += f * f
        c += g * g
        d += h * h
    for t in range(whole, p):
        e = X[i, t] - X[j, t]
        a += e * e
    return (a + b) + (c + d)


@njit(cache=True, nogil=True, error_model="numpy")
def _sparse_distance(indptr: Any, indices: Any, data: Any, i: int, j: int) -> float:
    """Return ‖x_i − x_j‖² of two sparse rows with sorted indices, from the differences."""
    p, end_p = indptr[i], indptr[i + 1]
    q, end_q = indptr[j], indptr[j + 1]
    total = 0.0
    while p < end_p or q < end_q:
        if q == end_q or (p < end_p and indices[p] < indices[q]):
            difference = data[p]
            p += 1
        elif p == end_p or indices[q] < indices[p]:
            difference = data[q]
            q += 1
        else:
            difference = data[p] - data[q]
            p += 1
            q += 1
        total += difference * difference
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _accumulate(i: int, indptr: Any, indices: Any, data: Any, columns: Any, dots: Any) -> None:
    """Set ``dots[j] = ⟨x_i, y_j⟩`` for the rows y of a tile stored by columns."""
    starts, rows, entries = columns
    dots[:] = 0.0
    for p in range(indptr[i], indptr[i + 1]):
        x = data[p]
        t = indices[p]
        for q in range(starts[t], starts[t + 1]):
            dots[rows[q]] += x * entries[q]


@njit(cache=True, nogil=True, error_model="numpy")
def offer_cosines_dense(
    first: int, products: Any, origin: int, X: Any, squares: Any, inverse_norms: Any, slack: float, heap: Heap
) -> None:
    """Offer the tile ``products ≈ X[first:] X[origin:]ᵀ`` to the heaps of its rows, the largest cosines first.

    ``slack`` bounds |products − exact| / (‖a‖‖b‖). A product that may enter is computed anew by `_dense_dot`, unless
    ``slack`` is 0 (exact products).
    """
    keys, _values, _columns, counts = heap
    k = keys.shape[1]
    for row in range(products.shape[0]):
        i = first + row
        if squares[i] == 0.0:
            continue
        margin = slack * math.sqrt(squares[i])
        limit = math.sqrt(-keys[i, 0]) * (1.0 - 1e-14) - margin if counts[i] == k else 0.0
        for column in range(products.shape[1]):
            dot = products[row, column]
            j = origin + column
            if dot > 0.0 and dot * inverse_norms[j] >= limit:
                if slack > 0.0:
                    dot = _dense_dot(X, i, j)
                    if dot <= 0.0:
                        continue
                key = -(dot * dot) / squares[j]
                if counts[i] < k or key < keys[i, 0]:
                    _push(i, key, dot, j, heap)
                    if counts[i] == k:
                        limit = math.sqrt(-keys[i, 0]) * (1.0 - 1e-14) - margin


@njit(cache=True, nogil=True, error_model="numpy")
def offer_cosines_sparse(
    first: int,
    last: int,
    indptr: Any,
    indices: Any,
    data: Any,
    columns: Any,
    origin: int,
    width: int,
    squares: Any,
    inverse_norms: Any,
    heap: Heap,
) -> None:
    """Offer rows ``origin:origin + width`` (stored by ``columns``) to the heaps of rows ``first:last``."""
    keys, _values, _columns, counts = heap
    k = keys.shape[1]
    dots = np.empty(width)
    for i in range(first, last):
        if squares[i] == 0.0:
            continue
        _accumulate(i, indptr, indices, data, columns, dots)
        limit = math.sqrt(-keys[i, 0]) * (1.0 - 1e-14) if counts[i] == k else 0.0
        for column in range(width):
            dot = dots[column]
            j = origin + column
            if dot > 0.0 and dot * inverse_norms[j] >= limit:
                key = -(dot * dot) / squares[j]
                if counts[i] < k or key < keys[i, 0]:
                    _push(i, key, dot, j, heap)
                    if counts[i] == k:
                        limit = math.sqrt(-keys[i, 0]) * (1.0 - 1e-14)


@njit(cache=True, nogil=True, error_model="numpy")
def offer_distances_dense(
    first: int, products: Any, origin: int, X: Any, squares: Any, scales: Any, slack: float, heap: Heap
) -> None:
    """Offer the squared distances of a tile to the heaps of its rows, the smallest d²/σ_j first.

    ``squares`` are the squared norms that belong to ``products`` (of centred rows, say), ``scales`` the σ_j², and
    ``slack`` bounds the error of the expanded square relative to ‖a‖² + ‖b‖²; ``X`` holds the rows as they were given.
    """
    keys, _values, _columns, counts = heap
    k = keys.shape[1]
    for row in range(products.shape[0]):
        i = first + row
        limit = keys[i, 0] * (1.0 + 1e-14) if counts[i] == k else np.inf
        for column in range(products.shape[1]):
            j = origin + column
            size = squares[i] + squares[j]
            distance = size - 2.0 * products[row, column]
            least = max(distance - slack * size, 0.0)
            if least * least <= limit * scales[j]:
                if slack > 0.0:
                    distance = _dense_distance(X, i, j)
                key = distance * distance / scales[j]
                if counts[i] < k or key < keys[i, 0]:
                    _push(i, key, distance, j, heap)
                    if counts[i] == k:
                        limit = keys[i, 0] * (1.0 + 1e-14)


@njit(cache=True, nogil=True, error_model="numpy")
def offer_distances_sparse(
    first: int,
    last: int,
    indptr: Any,
    indices: Any,
    data: Any,
    columns: Any,
    origin: int,
    width: int,
    squares: Any,
    scales: Any,
    slack: float,
    heap: Heap,
) -> None:
    """Do what `offer_distances_dense` does, for sparse rows against a tile stored by ``columns``."""
    keys, _values, _columns, counts = heap
    k = keys.shape[1]
    dots = np.empty(width)
    for i in range(first, last):
        _accumulate(i, indptr, indices, data, columns, dots)
        limit = keys[i, 0] * (1.0 + 1e-14) if counts[i] == k else np.inf
        for column in range(width):
            j = origin + column
            size = squares[i] + squares[j]
            distance = size - 2.0 * dots[column]
            least = max(distance - slack * size, 0.0)
            if least * least <= limit * scales[j]:
                if slack > 0.0:
                    distance = _sparse_distance(indptr, indices, data, i, j)
                key = distance * distance / scales[j]
                if counts[i] < k or key < keys[i, 0]:
                    _push(i, key, distance, j, heap)
                    if counts[i] == k:
                        limit = keys[i, 0] * (1.0 + 1e-14)


@njit(cache=True, nogil=True, error_model="numpy")
def nearest_other_dense(rows: Any, X: Any) -> Any:
    """Return the smallest positive squared distance from each of ``rows`` to any row of X, 0 where there is none."""
    nearest = np.zeros(rows.size)
    for at in range(rows.size):
        best = np.inf
        for j in range(X.shape[0]):
            distance = _dense_distance(X, rows[at], j)
            if 0.0 < distance < best:
                best = distance
        nearest[at] = best if best < np.inf else 0.0
    return nearest


@njit(cache=True, nogil=True, error_model="numpy")
def nearest_other_sparse(rows: Any, indptr: Any, indices: Any, data: Any) -> Any:
    """Do what `nearest_other_dense` does, for sparse rows."""
    nearest = np.zeros(rows.size)
    for at in range(rows.size):
        best = np.inf
        for j in range(indptr.size - 1):
            distance = _sparse_distance(indptr, indices, data, rows[at], j)
            if 0.0 < distance < best:
                best = distance
        nearest[at] = best if best < np.inf else 0.0
    return nearest
