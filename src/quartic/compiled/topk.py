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

# No sum is put in another order, but for the dense ones below, which have one of their own: ties must stay ties.
_FLAGS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
_INNER: dict[str, Any] = {**_FLAGS, "cache": False, "no_cpython_wrapper": True}


@njit(**_INNER)
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


@njit(**_INNER, fastmath={"reassoc"})
def _dense_dot(X: Any, i: int, j: int) -> float:
    """Return ⟨x_i, x_j⟩ in an order that does not depend on tiles or threads."""
    total = 0.0
    for t in range(X.shape[1]):
        total += X[i, t] * X[j, t]
    return total


@njit(**_INNER, fastmath={"reassoc"})
def _dense_distance(X: Any, i: int, j: int) -> float:
    """Return ‖x_i − x_j‖² from the differences, without cancellation."""
    total = 0.0
    for t in range(X.shape[1]):
        difference = X[i, t] - X[j, t]
        total += difference * difference
    return total


@njit(**_INNER)
def _sparse_distance(X: Any, i: int, j: int) -> float:
    """Return ‖x_i − x_j‖² of two rows in CSR with sorted indices, from the differences."""
    indptr, indices, data = X
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


@njit(**_INNER)
def _accumulate(i: int, X: Any, columns: Any, dots: Any) -> None:
    """Set ``dots[j] = ⟨x_i, y_j⟩`` for the rows y of a tile stored by columns."""
    indptr, indices, data = X
    starts, rows, entries = columns
    dots[:] = 0.0
    for p in range(indptr[i], indptr[i + 1]):
        x = data[p]
        t = indices[p]
        for q in range(starts[t], starts[t + 1]):
            dots[rows[q]] += x * entries[q]


@njit(**_INNER)
def _limit(cosine: bool, key: float, margin: float) -> float:
    """Return what a candidate must reach to be looked at closely, where this is the worst key in a full heap."""
    return math.sqrt(-key) * (1.0 - 1e-14) - margin if cosine else key * (1.0 + 1e-14)


@njit(**_FLAGS)
def offer(
    cosine: bool, first: int, last: int, X: Any, products: Any, sparse: Any, columns: Any, origin: int, width: int,
    squares: Any, near: Any, slack: float, heap: Heap,
) -> None:  # fmt: skip
    """Offer the rows ``origin:origin + width`` to the heaps of the rows ``first:last``.

    The largest cosines come first, ``near`` being 1/‖b‖, or the smallest d²/σ_j, ``near`` being σ_j². Rows are dense
    in X, with a tile of ``products``, ``sparse`` and ``columns`` being None; or in CSR in the tuple ``sparse``, with
    the tile by ``columns`` in another, the first two being empty arrays. ``slack`` bounds the error of products beside
    ‖a‖‖b‖, or of expanded squares beside ‖a‖² + ‖b‖². What may enter is then computed anew, from the rows; 0 says that
    they are exact. ``squares`` are the squared norms that belong to the products, of centred rows, say.
    """
    keys, _values, _columns, counts = heap
    k = keys.shape[1]
    dots = np.empty(width)
    for i in range(first, last):
        if cosine and squares[i] == 0.0:
            continue
        if columns is None:
            dots = products[i - first]
        else:
            _accumulate(i, sparse, columns, dots)
        margin = slack * math.sqrt(squares[i])
        limit = _limit(cosine, keys[i, 0], margin) if counts[i] == k else 0.0 if cosine else np.inf
        for column in range(width):
            j, value = origin + column, dots[column]
            if cosine:
                if not (value > 0.0 and value * near[j] >= limit):
                    continue
                if slack > 0.0:
                    value = _dense_dot(X, i, j)
                    if value <= 0.0:
                        continue
                key = -(value * value) / squares[j]
            else:
                size = squares[i] + squares[j]
                value = size - 2.0 * value
                least = max(value - slack * size, 0.0)
                if not least * least <= limit * near[j]:
                    continue
                if slack > 0.0:
                    value = _distance(X, sparse, i, j)
                key = value * value / near[j]
            if counts[i] < k or key < keys[i, 0]:
                _push(i, key, value, j, heap)
                if counts[i] == k:
                    limit = _limit(cosine, keys[i, 0], margin)


@njit(**_INNER)
def _distance(X: Any, sparse: Any, i: int, j: int) -> float:
    if sparse is not None:  # an argument that is None cuts a branch out, one that is not does not
        return _sparse_distance(sparse, i, j)  # type: ignore[no-any-return]
    return _dense_distance(X, i, j)  # type: ignore[no-any-return]


@njit(**_FLAGS)
def nearest_other(rows: Any, n: int, X: Any, sparse: Any) -> Any:
    """Return the smallest positive squared distance from each of ``rows`` to any of n rows, 0 where there is none."""
    nearest = np.zeros(rows.size)
    for at in range(rows.size):
        best = np.inf
        for j in range(n):
            distance = _distance(X, sparse, rows[at], j)
            if 0.0 < distance < best:
                best = distance
        nearest[at] = best if best < np.inf else 0.0
    return nearest
