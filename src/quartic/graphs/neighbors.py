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

from quartic.arrays import finite_matrix, first_not_finite
from quartic.arrays.threads import one_blas_thread

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Heap = tuple[Floats, Floats, Integers, Integers]  # keys, values and columns kept by each row (n, k), and how many (n,)

BLOCK = 1024  # rows of a block of dense work
TILE = 4096  # columns of a tile: its sums fit the first-level cache, its features the second
SIGMA_NEIGHBOR = 7  # σ is the distance to the 7th nearest point, the point itself being the first
UNIT = np.finfo(np.float64).eps / 2


@dataclass(frozen=True)
class Features:
    """Rows to compare: ``X`` is a C-ordered float64 array or a csr_array with sorted indices."""

    X: Any
    squares: Floats
    exact: bool  # integers so small that sums of products carry no rounding

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def sparse(self) -> bool:
        """Whether the rows are stored sparse."""
        return bool(sp.issparse(self.X))

    @property
    def terms(self) -> int:
        """Most products summed in one dot product."""
        return int(np.diff(self.X.indptr).max()) if self.sparse else int(self.X.shape[1])


def prepare_features(X: Any, cosine: bool) -> Features:
    """Check ``X``; where squares would over- or underflow, scale by powers of two, which round nothing.

    Cosines ignore a factor of a row, so that each row has its own; for distances all rows share one.
    """
    X = check_features(X)
    largest = row_maxima(X)
    if not cosine:
        largest = largest.max(keepdims=True)
    return describe(X if is_safe(largest) else scale_rows(X, powers_of_two(largest)))


def check_features(X: Any) -> Any:
    """Return finite features as `Features` has them, or say what is wrong with them."""
    if not sp.issparse(X):
        X = np.ascontiguousarray(finite_matrix(X, "X"), dtype=np.float64)
    elif X.dtype.kind not in "fiub":
        raise TypeError(f"X must be real numbers, got dtype {X.dtype}")
    elif X.ndim != 2:
        raise ValueError(f"X must be 2-D, a row for each point, got shape {X.shape}")
    else:
        given, X = X, sp.csr_array(X, dtype=np.float64)
        if not X.has_canonical_format:
            X = X.copy() if np.shares_memory(X.data, getattr(given, "data", X.data)) else X
            X.sum_duplicates()
        fault = first_not_finite(X)
        if fault is not None:
            row, column, value = fault
            raise ValueError(f"X must be finite, but X[{row}, {column}] is {value}; drop or impute row {row}")
    if X.shape[0] == 0:
        raise ValueError(f"X has no rows (shape {X.shape}); a similarity graph needs at least one point")
    if X.shape[1] == 0:
        raise ValueError(f"X has no columns (shape {X.shape}); a similarity graph needs at least one feature")
    return X


def row_maxima(X: Any) -> Floats:
    """Return the largest absolute value of each row."""
    if sp.issparse(X):
        return np.asarray(abs(X).max(axis=1).toarray(), dtype=np.float64).ravel()
    return np.asarray(np.maximum(X.max(axis=1), -X.min(axis=1)))


def is_safe(largest: Floats) -> bool:
    """Tell whether squares of rows with these largest entries stay in range."""
    positive = largest[largest > 0]
    return bool(positive.size == 0 or (positive.min() > 1e-60 and positive.max() < 1e60))


def powers_of_two(largest: Floats) -> Floats:
    """Return powers of two that bring these numbers near 1."""
    # Of the smallest subnormals 2**-exponent itself would overflow; a shift of 1000 brings them into range as well.
    shift = np.clip(np.frexp(largest)[1], -1000, 1000)
    return np.asarray(np.ldexp(np.ones_like(largest), -shift))


def scale_rows(X: Any, factors: Floats) -> Any:
    """Return X with each row multiplied by its factor, or all by the only one."""
    if len(factors) == 1:
        return X * factors[0]
    return sp.csr_array(sp.diags_array(factors) @ X) if sp.issparse(X) else X * factors[:, None]


def describe(X: Any) -> Features:
    """Return features with the squared norms of the rows, and whether products of them are exact."""
    if sp.issparse(X):
        squares = np.asarray((X * X).sum(axis=1), dtype=np.float64).ravel()
        whole = bool((X.data == np.rint(X.data)).all())
    else:
        squares = np.einsum("ij,ij->i", X, X)
        blocks = (X[at : at + BLOCK] for at in range(0, len(X), BLOCK))
        whole = all((block == np.rint(block)).all() for block in blocks)
    return Features(X=X, squares=squares, exact=whole and 4 * float(squares.max()) < 2.0**53)


def inverse_roots(x: Floats) -> Floats:
    """Return 1/√x, and 0 where x is 0."""
    roots = np.zeros_like(x)
    np.divide(1.0, np.sqrt(x), out=roots, where=x > 0)
    return roots


def bound_error(terms: int, exact: bool, cosine: bool) -> float:
    """Return a bound on the relative error of an estimated cosine or squared distance; 0 where it is exact."""
    return 0.0 if exact else (2 * (terms + 4) if cosine else 4 * (terms + 8)) * UNIT


def find_neighbors(features: Features, scales: Floats, k: int, cosine: bool) -> Heap:
    """Return each row's k best columns: the largest positive cosines, or the smallest d²/σ_j.

    Parameters
    ----------
    features : Features
        The rows.
    scales : array (n,)
        The squared norms of the rows for cosines, the σ² otherwise.
    k : int
        Columns kept by a row.
    cosine : bool
        Cosines, the value kept being the dot product; otherwise distances, the value being d².
    """
    X, squares, heap = features.X, features.squares, empty_heap(features.n, k)
    near = inverse_roots(scales) if cosine else scales
    slack = bound_error(features.terms, features.exact, cosine)
    if features.sparse:

        def offer_tile(first: int, last: int, tile: Any, origin: int) -> None:
            offer_sparse(X, first, last, tile, origin, squares, near, slack, heap, cosine)

        _each_sparse_tile(X, offer_tile)
        return heap
    centred = X
    if not (cosine or features.exact):  # shorter rows lose fewer digits in ‖a‖² + ‖b‖² − 2⟨a, b⟩
        centred = X - X.mean(axis=0)
        squares = np.einsum("ij,ij->i", centred, centred)

    def offer_products(first: int, products: Any, origin: int) -> None:
        offer_dense(X, first, products, origin, squares, near, slack, heap, cosine)

    _each_dense_tile(centred, offer_products)
    return heap


def offer_dense(
    X: Floats, first: int, products: Floats, origin: int, squares: Floats, near: Floats, slack: float, heap: Heap,
    cosine: bool,
) -> None:  # fmt: skip
    """Offer the rows of X from ``origin`` on to those from ``first`` on, of whose products this is a tile."""
    from quartic.compiled.topk import offer

    rows, width = products.shape
    offer(cosine, first, first + rows, X, products, None, None, origin, width, squares, near, slack, heap)


def offer_sparse(
    X: sp.csr_array, first: int, last: int, tile: sp.csc_array, origin: int, squares: Floats, near: Floats,
    slack: float, heap: Heap, cosine: bool,
) -> None:  # fmt: skip
    """Offer the rows of a tile, which are those of X from ``origin`` on, to rows ``first`` to ``last`` of X."""
    from quartic.compiled.topk import offer

    none, parts = np.empty((0, 0)), [(A.indptr, A.indices, A.data) for A in (X, tile)]
    slack = 0.0 if cosine else slack  # products of sparse rows are summed in one order: there is nothing to do anew
    offer(cosine, first, last, none, none, *parts, origin, tile.shape[0], squares, near, slack, heap)


def measure_scales(features: Features) -> Floats:
    """Return σ², the squared distance of each row to its 7th nearest, or a positive stand-in where that is zero.

    Seven or more copies of a point have σ = 0. They take the distance to the nearest point that differs, so that they
    stay tied to the rest; where all points are equal, σ = 1.
    """
    heap = find_neighbors(features, np.ones(features.n), min(SIGMA_NEIGHBOR, features.n), cosine=False)
    scales = read_worst(heap)
    copies = np.flatnonzero(scales == 0)
    if copies.size:
        scales[copies] = _nearest_other_of_copies(features.X, copies)
        scales[scales == 0] = 1.0
    return scales


def _nearest_other_of_copies(X: Any, rows: Integers) -> Floats:
    if sp.issparse(X):
        ends = zip(X.indptr[rows], X.indptr[rows + 1], strict=True)
        content = [X.indices[a:b].tobytes() + X.data[a:b].tobytes() for a, b in ends]
    else:
        content = [X[i].tobytes() for i in rows]
    seen: dict[bytes, int] = {}  # copies share one search
    group = np.array([seen.setdefault(c, len(seen)) for c in content])
    representative = rows[np.unique(group, return_index=True)[1]]
    nearest: Floats = find_nearest_other(X, representative)[group]
    return nearest


def find_nearest_other(X: Any, rows: Integers) -> Floats:
    """Return the squared distance of these rows to the nearest row that differs, 0 where none does."""
    from quartic.compiled.topk import nearest_other

    data = (np.empty((0, 0)), (X.indptr, X.indices, X.data)) if sp.issparse(X) else (X, None)
    nearest: Floats = nearest_other(rows, X.shape[0], *data)
    return nearest


def empty_heap(n: int, k: int) -> Heap:
    """Return heaps of n rows with room for k columns each."""
    return np.zeros((n, k)), np.zeros((n, k)), np.zeros((n, k), dtype=np.int64), np.zeros(n, dtype=np.int64)


def read_heap(heap: Heap) -> tuple[Integers, Integers, Floats]:
    """Return row, column and value of everything kept."""
    _keys, values, columns, counts = heap
    kept = np.arange(values.shape[1]) < counts[:, None]
    return np.repeat(np.arange(len(counts)), counts), columns[kept], values[kept]


def read_worst(heap: Heap) -> Floats:
    """Return the worst value that each row keeps, its heap being full: the root."""
    return heap[1][:, 0].copy()


def take_tile(X: sp.csr_array, origin: int) -> sp.csc_array:
    """Return the rows of a tile by columns, with indices as the compiled search wants them."""
    tile = X[origin : origin + TILE].tocsc()
    tile.indices = tile.indices.astype(np.uint32)
    return tile


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


def _each_sparse_tile(X: sp.csr_array, offer: Callable[[int, int, Any, int], None]) -> None:
    """Run ``offer`` on every block of rows against every tile; each row belongs to one thread at a time."""
    n = X.shape[0]
    starts = range(0, n, BLOCK)
    with ThreadPoolExecutor(min(_processors(), len(starts))) as pool:
        for origin in range(0, n, TILE):
            tile = take_tile(X, origin)
            jobs = [pool.submit(offer, first, min(first + BLOCK, n), tile, origin) for first in starts]
            for job in jobs:
                job.result()


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
