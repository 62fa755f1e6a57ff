"""Each row's best columns, tile by tile: the part of a similarity graph that costs time."""

from __future__ import annotations

from dataclasses import dataclass
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


def scaling(X: Any, cosine: bool) -> Floats:
    """Return the powers of two that bring squares of checked features into range, which round nothing.

    Cosines ignore a factor of a row, so that each row has its own; for distances all rows share one.
    """
    largest = row_maxima(X)
    if not cosine:
        largest = largest.max(keepdims=True)
    return np.ones(1) if is_safe(largest) else powers_of_two(largest)


def check_features(X: Any) -> Any:
    """Return finite features as `Features` has them, or say what is wrong with them."""
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
    """Return X with each row multiplied by its factor, or all by the only one; X itself where that is 1."""
    if len(factors) == 1:
        return X if factors[0] == 1 else X * factors[0]
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


def inverse_roots(x: Any) -> Any:
    """Return 1/√x, and 0 where x is 0."""
    xp, some = namespace(x), x > 0
    return xp.where(some, 1 / xp.sqrt(xp.where(some, x, 1.0)), 0.0)


def bound_error(terms: int, exact: bool, cosine: bool) -> float:
    """Return a bound on the relative error of an estimated cosine or squared distance; 0 where it is exact."""
    return 0.0 if exact else (2 * (terms + 4) if cosine else 4 * (terms + 8)) * UNIT


def find_neighbors(features: Features, scales: Floats, k: int, cosine: bool) -> Heap:
    """Return each row's k best columns: the largest positive cosines, or the smallest d²/σ_j.

    ``scales`` (n,) are the squared norms of the rows for cosines, with dot products as values, else σ², with d².
    """
    X, heap = features.X, empty_heap(features.n, k)
    # shorter rows lose fewer digits in ‖a‖² + ‖b‖² − 2⟨a, b⟩
    centre = None if cosine or features.exact or features.sparse else X.mean(axis=0)
    slack = bound_error(features.terms, features.exact, cosine)
    offer_rows(X, features.squares, inverse_roots(scales) if cosine else scales, slack, heap, cosine, 0, centre)
    return heap


@one_blas_thread()  # in each of our threads: BLAS's own would wait for ever if another thread forks meanwhile
def offer_rows(
    X: Any, squares: Floats, near: Floats, slack: float, heap: Heap, cosine: bool, first: int, centre: Floats | None
) -> None:
    """Offer the rows of X from ``first`` on, tile by tile, to those that have heaps, which are the first of X."""
    from quartic.compiled.topk import offer

    n, sparse, none = len(heap[0]), sp.issparse(X), np.empty((0, 0))
    estimated = X if centre is None else X - centre
    if centre is not None:
        squares = np.einsum("ij,ij->i", estimated, estimated)
    for origin in range(first, X.shape[0], TILE):
        tile = X[origin : origin + TILE].tocsc() if sparse else estimated[origin : origin + TILE]
        parts: tuple[Any, ...] = ()
        if sparse:
            parts = (X.indptr, X.indices, X.data), (tile.indptr, tile.indices.astype(np.uint32), tile.data)
        # products of sparse rows are summed in one order: for cosines there is nothing to do anew
        others = origin, tile.shape[0], squares, near, 0.0 if sparse and cosine else slack, heap

        def work(begin: int, end: int, tile: Any = tile, parts: Any = parts, others: Any = others) -> None:
            for at in range(begin * BLOCK, min(end * BLOCK, n), BLOCK):
                last = min(at + BLOCK, n)
                mine = (none, none, *parts) if sparse else (X, estimated[at:last] @ tile.T, None, None)
                offer(cosine, at, last, *mine, *others)

        spread(work, -(-n // BLOCK), float(n) * tile.shape[0] * (X.nnz / X.shape[0] if sparse else X.shape[1]))


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
