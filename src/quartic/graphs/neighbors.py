"""Each row's best columns, tile by tile: the part of a similarity graph that costs time."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from quartic.arrays.threads import one_blas_thread
from quartic.graphs.features import BLOCK, UNIT, Features, Floats

TILE = 4096  # columns of a tile: its sums fit the first-level cache, its features the second
SIGMA_NEIGHBOR = 7  # σ is the distance to the 7th nearest point, the point itself being the first


@dataclass(frozen=True)
class Neighbors:
    """Pairs kept by the rows: ``value`` is the dot product or the squared distance."""

    row: NDArray[np.int64]
    column: NDArray[np.int64]
    value: Floats


def largest_cosines(features: Features, k: int) -> Neighbors:
    """Return the k largest positive cosines of each row; ``value`` is the dot product."""
    from quartic.compiled import topk

    heap = _heap(features.n, k)
    squares = features.squares
    inverse = np.zeros_like(squares)
    np.divide(1.0, np.sqrt(squares), out=inverse, where=squares > 0)
    X = features.X
    if features.sparse:

        def offer(first: int, last: int, columns: Any, origin: int, width: int) -> None:
            topk.offer_cosines_sparse(
                first, last, X.indptr, X.indices, X.data, columns, origin, width, squares, inverse, heap
            )

        _each_sparse_tile(X, offer)
    else:
        slack = 0.0 if features.exact else 2 * (features.terms + 4) * UNIT

        def offer_dense(first: int, products: Any, origin: int) -> None:
            topk.offer_cosines_dense(first, products, origin, X, squares, inverse, slack, heap)

        _each_dense_tile(X, offer_dense)
    return _pairs(heap)


def local_scales(features: Features) -> Floats:
    """Return σ², the squared distance of each row to its 7th nearest, or a positive stand-in where that is zero.

    Seven or more copies of a point have σ = 0. They take the distance to the nearest point that differs, so that they
    stay tied to the rest; where all points are equal, σ = 1.
    """
    heap = _nearest(features, np.ones(features.n), min(SIGMA_NEIGHBOR, features.n))
    scales: Floats = heap[1][:, 0].copy()  # the root of a full heap is its worst
    copies = np.flatnonzero(scales == 0)
    if copies.size:
        scales[copies] = _nearest_other(features.X, copies)
        scales[scales == 0] = 1.0
    return scales


def smallest_scaled_distances(features: Features, scales: Floats, k: int) -> Neighbors:
    """Return each row's k smallest d²/σ_j (its largest self-tuning weights); ``value`` is d²."""
    return _pairs(_nearest(features, scales, k))


def _nearest(features: Features, scales: Floats, k: int) -> Any:
    from quartic.compiled import topk

    X, heap = features.X, _heap(features.n, k)
    slack = 0.0 if features.exact else 4 * (features.terms + 8) * UNIT
    squares = features.squares
    if features.sparse:

        def offer(first: int, last: int, columns: Any, origin: int, width: int) -> None:
            topk.offer_distances_sparse(
                first, last, X.indptr, X.indices, X.data, columns, origin, width, squares, scales, slack, heap
            )

        _each_sparse_tile(X, offer)
        return heap
    centred = X
    if not features.exact:  # shorter rows lose fewer digits in ‖a‖² + ‖b‖² − 2⟨a, b⟩
        centred = X - X.mean(axis=0)
        squares = np.einsum("ij,ij->i", centred, centred)

    def offer_dense(first: int, products: Any, origin: int) -> None:
        topk.offer_distances_dense(first, products, origin, X, squares, scales, slack, heap)

    _each_dense_tile(centred, offer_dense)
    return heap


def _nearest_other(X: Any, rows: NDArray[np.int64]) -> Floats:
    from quartic.compiled import topk

    if sp.issparse(X):
        ends = zip(X.indptr[rows], X.indptr[rows + 1], strict=True)
        content = [X.indices[a:b].tobytes() + X.data[a:b].tobytes() for a, b in ends]
    else:
        content = [X[i].tobytes() for i in rows]
    seen: dict[bytes, int] = {}  # copies share one search
    group = np.array([seen.setdefault(c, len(seen)) for c in content])
    representative = rows[np.unique(group, return_index=True)[1]]
    if sp.issparse(X):
        nearest = topk.nearest_other_sparse(representative, X.indptr, X.indices, X.data)
    else:
        nearest = topk.nearest_other_dense(representative, X)
    answer: Floats = nearest[group]
    return answer


def _heap(n: int, k: int) -> tuple[Floats, Floats, NDArray[np.int64], NDArray[np.int64]]:
    return np.empty((n, k)), np.empty((n, k)), np.empty((n, k), dtype=np.int64), np.zeros(n, dtype=np.int64)


def _pairs(heap: Any) -> Neighbors:
    _keys, values, columns, counts = heap
    kept = np.arange(values.shape[1]) < counts[:, None]
    return Neighbors(row=np.repeat(np.arange(len(counts)), counts), column=columns[kept], value=values[kept])


def _each_dense_tile(X: Floats, offer: Callable[[int, Any, int], None]) -> None:
    """Run ``offer(first, X[first:last] X[origin:origin + TILE]ᵀ, origin)`` on every block of rows and every tile."""
    n, processors = len(X), _processors()
    room = np.empty(min(BLOCK, n) * min(TILE, n))
    share = max(64, -(-BLOCK // processors))

    def work(first: int, products: Floats, origin: int) -> None:
        np.matmul(X[first : first + len(products)], X[origin : origin + TILE].T, out=products)
        offer(first, products, origin)

    # BLAS at one thread in each of ours: its own would wait for ever if another thread forks meanwhile
    with one_blas_thread(), ThreadPoolExecutor(processors) as pool:
        for first in range(0, n, BLOCK):
            rows = min(BLOCK, n - first)
            for origin in range(0, n, TILE):
                width = min(TILE, n - origin)
                products = room[: rows * width].reshape(rows, width)
                parts = range(0, rows, share)
                jobs = [pool.submit(work, first + at, products[at : at + share], origin) for at in parts]
                for job in jobs:
                    job.result()


def _each_sparse_tile(X: sp.csr_array, offer: Callable[[int, int, Any, int, int], None]) -> None:
    """Run ``offer`` on every block of rows against every tile; each row belongs to one thread at a time."""
    n = X.shape[0]
    starts = range(0, n, BLOCK)
    with ThreadPoolExecutor(min(_processors(), len(starts))) as pool:
        for origin in range(0, n, TILE):
            tile = X[origin : origin + TILE].tocsc()
            columns = (tile.indptr, tile.indices.astype(np.uint32), tile.data)
            width = tile.shape[0]
            jobs = [pool.submit(offer, first, min(first + BLOCK, n), columns, origin, width) for first in starts]
            for job in jobs:
                job.result()


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
