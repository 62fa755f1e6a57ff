"""What a worker does for a similarity graph in row blocks: one block, or the rows of one against those of another."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from quartic.distributed.blocks import made
from quartic.graphs import features as one_machine
from quartic.graphs.features import BLOCK, UNIT, Floats
from quartic.graphs.neighbors import TILE


@dataclass(frozen=True, eq=False)
class Rule:
    """What all blocks must agree on.

    Attributes
    ----------
    cosine : bool
        Cosines; distances otherwise.
    exact : bool
        Whether the features are integers so small that sums of products carry no rounding.
    terms : int
        Most products summed in one dot product.
    power : float or None
        The factor of all features, a power of two; None where each row has its own.
    centre : array or None
        What is subtracted before distances are estimated.
    """

    cosine: bool
    exact: bool = False
    terms: int = 0
    power: float | None = 1.0
    centre: Floats | None = None

    @property
    def slack(self) -> float:
        """The bound on the error of an estimate; 0 where it is exact."""
        if self.exact:
            return 0.0
        return (2 * (self.terms + 4) if self.cosine else 4 * (self.terms + 8)) * UNIT


def _rows_of(handle: Any, rule: Rule | None = None) -> Any:
    """Return a block's features, C-ordered float64 or csr_array, scaled as agreed."""
    if isinstance(handle, bytes):
        import pickle

        handle = made(pickle.loads(handle))
    X = one_machine._checked(handle)
    if rule is None or rule.power == 1.0:
        return X
    if rule.power is not None:
        return X * rule.power
    powers = one_machine._power_of_two(one_machine._row_maxima(X))
    return sp.csr_array(sp.diags_array(powers) @ X) if sp.issparse(X) else X * powers[:, None]


def looked_at(handle: Any, rows: int, width: int, first: int) -> tuple[str | None, float, float]:
    """Return what is wrong with a block, and the least positive and the largest of its rows' largest entries."""
    try:
        X = _rows_of(handle)
    except (ValueError, TypeError) as fault:
        return f"in the block of X that begins with row {first}: {fault}", 0.0, 0.0
    if X.shape != (rows, width):
        said = f"the block of X that begins with row {first} has the shape {X.shape}, not {(rows, width)}"
        return f"{said}; look at how it is made", 0.0, 0.0
    largest = one_machine._row_maxima(X)
    return (
        None,
        float(largest[largest > 0].min(initial=np.inf)) if largest.any() else 0.0,
        float(largest.max(initial=0.0)),
    )


def described(handle: Any, rule: Rule) -> tuple[bool, float, int, Floats | None]:
    """Return whether the numbers are whole, the largest square of a row, the most terms, and the sum of the rows."""
    X = _rows_of(handle, rule)
    found = one_machine._described(X)
    values = X.data if sp.issparse(X) else X
    whole = bool((values == np.rint(values)).all())
    return whole, float(found.squares.max()), found.terms, None if found.sparse else X.sum(axis=0)


def squares_of(handle: Any, rule: Rule) -> Floats:
    """Return the squared norms of the rows."""
    return one_machine._described(_rows_of(handle, rule)).squares


def offered(
    heap: Any, mine: Any, others: Any, rule: Rule, scales: Floats, k: int, first_mine: int, first_others: int
) -> Any:
    """Return the heaps of my rows after the others' were offered to them.

    The search counts rows and columns in one array, here mine above the others: columns in the heap are counted from
    there while it runs. The order of columns, which decides ties, stays.
    """
    from quartic.compiled import topk

    A, B = _rows_of(mine, rule), _rows_of(others, rule)
    n = A.shape[0]
    keys, values, columns, counts = heap if heap is not None else _empty_heap(n, k)
    heap = keys.copy(), values.copy(), columns + (n - first_others), counts.copy()
    stack: Any = sp.csr_array(sp.vstack([A, B], format="csr")) if sp.issparse(A) else np.vstack([A, B])
    squares = one_machine._described(stack).squares
    near = np.concatenate([scales[first_mine : first_mine + n], scales[first_others : first_others + B.shape[0]]])
    if rule.cosine:
        near = np.zeros_like(squares)
        np.divide(1.0, np.sqrt(squares), out=near, where=squares > 0)
    if sp.issparse(stack):
        for at in range(0, B.shape[0], TILE):
            tile = B[at : at + TILE].tocsc()
            stored = (tile.indptr, tile.indices.astype(np.uint32), tile.data)
            arrays = 0, n, stack.indptr, stack.indices, stack.data, stored, n + at, tile.shape[0], squares, near
            if rule.cosine:
                topk.offer_cosines_sparse(*arrays, heap)
            else:
                topk.offer_distances_sparse(*arrays, rule.slack, heap)
    else:
        estimated = stack
        if rule.centre is not None:
            estimated = stack - rule.centre
            squares = np.einsum("ij,ij->i", estimated, estimated)
        offer = topk.offer_cosines_dense if rule.cosine else topk.offer_distances_dense
        for first in range(0, n, BLOCK):
            for origin in range(n, len(stack), TILE):
                products = estimated[first : min(first + BLOCK, n)] @ estimated[origin : origin + TILE].T
                offer(first, products, origin, stack, squares, near, rule.slack, heap)
    keys, values, columns, counts = heap
    return keys, values, columns - (n - first_others), counts


def _empty_heap(n: int, k: int) -> Any:
    return np.zeros((n, k)), np.zeros((n, k)), np.zeros((n, k), dtype=np.int64), np.zeros(n, dtype=np.int64)


def worst_kept(heap: Any) -> Floats:
    """Return for each row the worst of what its heap, a full one, keeps."""
    worst: Floats = heap[1][:, 0].copy()  # the root of a full heap
    return worst


def nearest_other(mine: Any, others: Any, rows: NDArray[np.int64], rule: Rule) -> Floats:
    """Return for some of my rows the squared distance to the nearest of the others that differs."""
    from quartic.compiled import topk

    A, B = _rows_of(mine, rule)[rows], _rows_of(others, rule)
    which = np.arange(len(rows))
    if sp.issparse(B):
        stack = sp.csr_array(sp.vstack([A, B], format="csr"))
        nearest: Floats = topk.nearest_other_sparse(which, stack.indptr, stack.indices, stack.data)
    else:
        nearest = topk.nearest_other_dense(which, np.vstack([A, B]))
    return nearest


def weighed(heap: Any, scales: Floats, first: int, cosine: bool) -> sp.csr_array:
    """Return the weights that the rows of a block keep, a csr_array as wide as the graph."""
    _, values, columns, counts = heap
    full = np.arange(values.shape[1]) < counts[:, None]
    row, column, value = np.repeat(np.arange(len(counts)), counts), columns[full], values[full]
    if cosine:
        weights = np.minimum(value / np.sqrt(scales[first + row] * scales[column]), 1.0)
    else:
        sigma = np.sqrt(scales)
        weights = np.exp(-value / (sigma[first + row] * sigma[column]))
    return sp.csr_array((weights, (row, column)), shape=(len(counts), len(scales)))


def cut_by_block(kept: sp.csr_array, first: NDArray[np.int64]) -> list[Any]:
    """Return the columns that belong to each block, transposed: what that block's rows are kept by."""
    by_column = kept.tocsc()
    return [sp.csr_array(by_column[:, a:b].T) for a, b in pairwise(first)]


def united(kept: sp.csr_array, others: list[Any]) -> sp.csr_array:
    """Return the rows of the graph: an edge stays if either end kept it."""
    W = sp.csr_array(kept.maximum(sp.hstack(others, format="csr")))
    W.eliminate_zeros()
    W.sort_indices()
    return W


def degree_of(W: sp.csr_array) -> Floats:
    """Return the sums of the rows."""
    degree: Floats = W.sum(axis=1)
    return degree


def scaled_block(W: sp.csr_array, factor: Floats, first: int) -> sp.csr_array:
    """Return rows of the graph with the factors of both ends on each weight."""
    W = W.copy()
    mine = factor[first : first + W.shape[0]]
    W.data *= np.repeat(mine, np.diff(W.indptr)) * factor[W.indices]
    return W
