"""Each row's best columns, tile by tile: the part of a similarity graph that costs time."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from quartic.arrays import finite_csr, finite_matrix, namespace
from quartic.arrays.threads import one_blas_thread, spread

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Heap = tuple[Floats, Floats, Integers, Integers]  # keys, values and columns kept by each row (n, k), and how many (n,)

BLOCK = 256  # rows of a piece of work
TILE = 4096  # columns of a tile: its sums fit the first-level cache, its features the second
SIGMA_NEIGHBOR = 7  # σ is the distance to the 7th nearest point, the point itself being the first
UNIT = float(np.finfo(np.float64).eps) / 2


def check_features(X: Any) -> Any:
    """Return finite features, a C-ordered float64 array or a csr_array, or say what is wrong with them."""
    if not sp.issparse(X):
        X = np.ascontiguousarray(finite_matrix(X, "X"), dtype=np.float64)
    elif X.ndim != 2:
        raise ValueError(f"X must be 2-D, a row for each point, got shape {X.shape}")
    else:
        X = sp.csr_array(finite_csr(X, "X", "; drop or impute row {row}"), dtype=np.float64)
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


def powers_of_two(largest: Floats) -> Floats:
    """Return powers of two, which round nothing, that bring squares of rows with these largest entries into range.

    Cosines ignore a factor of a row, so that each has its own; for distances all rows share one.
    """
    # Of the smallest subnormals 2**-exponent itself would overflow; a shift of 1000 brings them into range as well.
    shift = np.clip(np.frexp(largest)[1], -1000, 1000)
    safe = (largest == 0) | ((largest > 1e-60) & (largest < 1e60))
    return np.asarray(np.ldexp(1.0, np.where(safe, 0, -shift)))


def scale_rows(X: Any, factors: Any) -> Any:
    """Return X with each row multiplied by its factor, or all by the only one; X itself where all are 1."""
    if np.all(factors == 1):
        return X
    if not sp.issparse(X):
        return (X.T * factors).T
    # in the order of the columns, as rows are compared
    return sp.csr_array(sp.diags_array(np.broadcast_to(factors, X.shape[0])) @ X).sorted_indices()


def square_rows(X: Any) -> Floats:
    """Return the squared norms of the rows."""
    if sp.issparse(X):
        return np.asarray((X * X).sum(axis=1), dtype=np.float64).ravel()
    return np.asarray(np.einsum("ij,ij->i", X, X))


def inverse_roots(x: Any) -> Any:
    """Return 1/√x, and 0 where x is 0."""
    xp, some = namespace(x), x > 0
    return xp.where(some, 1 / xp.sqrt(xp.where(some, x, 1.0)), 0.0)


def find_neighbors(X: Any, scales: Floats, k: int, cosine: bool) -> Heap:
    """Return each row's k best columns: the largest positive cosines, or the smallest d²/σ_j.

    Values are dot products, or d²; ``scales`` (n,) are σ², and not looked at for cosines.
    """
    heap = empty_heap(X.shape[0], k)
    offer_rows(X, scales, heap, cosine, 0)
    return heap


@one_blas_thread()  # in each of our threads: BLAS's own would wait for ever if another thread forks meanwhile
def offer_rows(X: Any, scales: Floats, heap: Heap, cosine: bool, first: int) -> None:
    """Offer the rows of X from ``first`` on, tile by tile, to those that have heaps, which are the first of X."""
    from quartic.compiled.topk import offer

    n, sparse, none, squares = len(heap[0]), sp.issparse(X), np.empty((0, 0)), square_rows(X)
    near = inverse_roots(squares) if cosine else scales
    terms = int(np.diff(X.indptr).max()) if sparse else int(X.shape[1])
    # A bound on the relative error of estimates: with it they are no more than a filter, without it the values
    slack = (2 * (terms + 4) if cosine else 4 * (terms + 8)) * UNIT
    if (sparse and cosine) or _are_exact(X, squares):  # products of sparse rows are summed in one order
        slack = 0.0
    for origin in range(first, X.shape[0], TILE):
        tile = X[origin : origin + TILE].tocsc() if sparse else X[origin : origin + TILE]
        parts: tuple[Any, ...] = ()
        if sparse:
            parts = (X.indptr, X.indices, X.data), (tile.indptr, tile.indices.astype(np.uint32), tile.data)
        others = origin, tile.shape[0], squares, near, slack, heap

        def work(begin: int, end: int, tile: Any = tile, parts: Any = parts, others: Any = others) -> None:
            for at in range(begin * BLOCK, min(end * BLOCK, n), BLOCK):
                last = min(at + BLOCK, n)
                mine = (none, none, *parts) if sparse else (X, X[at:last] @ tile.T, None, None)
                offer(cosine, at, last, *mine, *others)

        spread(work, -(-n // BLOCK), float(n) * tile.shape[0] * (X.nnz / X.shape[0] if sparse else X.shape[1]))


def _are_exact(X: Any, squares: Floats) -> bool:
    """Tell whether features are integers so small that sums of products carry no rounding."""
    entries = X.data if sp.issparse(X) else X.reshape(-1)
    pieces = (entries[at : at + TILE] for at in range(0, entries.size, TILE))
    return 4 * float(squares.max()) < 2.0**53 and all((piece == np.rint(piece)).all() for piece in pieces)


def measure_scales(X: Any) -> Floats:
    """Return σ², the squared distance of each row to its 7th nearest, or a positive stand-in where that is zero.

    Seven or more copies of a point have σ = 0. They take the distance to the nearest point that differs, so that they
    stay tied to the rest; where all points are equal, σ = 1.
    """
    n = X.shape[0]
    scales = read_worst(find_neighbors(X, np.ones(n), min(SIGMA_NEIGHBOR, n), cosine=False))
    copies = np.flatnonzero(scales == 0)
    if copies.size:
        scales[copies] = _nearest_other_of_copies(X, copies)
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
