"""Similarity graphs of features in row blocks: the same graph, made where the features are.

The rows of block i meet those of each block j in turn, in ascending order, as they do on one machine tile by tile; what
a row keeps (its heap) goes from one such task to the next. The compiled search is the same, and so is the graph, to the
last bit.
"""

from __future__ import annotations

import pickle
from functools import partial
from itertools import pairwise
from typing import Any

import dask
import numpy as np
import scipy.sparse as sp

from quartic.distributed.blocks import make, pack
from quartic.distributed.inputs import checked_dtype, concatenate_rows, is_persisted, row_recipes
from quartic.graphs import neighbors
from quartic.graphs.neighbors import SIGMA_NEIGHBOR, Floats, Heap, Integers
from quartic.graphs.normalization import scale_blocks
from quartic.graphs.similarity import unite, weigh

# A recipe of fewer bytes is run again by each task that needs its block; a larger one holds the data itself.
_SMALL_RECIPE = 1 << 16

_task = partial(dask.delayed, pure=False)


def similarity_in_blocks(X: Any, cosine: bool, kept: int, normalize: bool) -> Any:
    """Return the graph of a Dask array of features (n, p), ``kept`` weights a row, as CSR row blocks, persisted."""
    checked_dtype(X, "X")
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"X must have rows and columns, a row for each point, got shape {X.shape}")
    recipes, rows = row_recipes(X, "X")
    first, (n, width) = np.concatenate([[0], np.cumsum(rows)]), map(int, X.shape)
    blocks = recipes if is_persisted(X) else [_pack_if_small(recipe) for recipe in recipes]
    looked = dask.compute(
        *(_task(_inspect)(block, a, b, width) for block, (a, b) in zip(blocks, pairwise(first), strict=True))
    )
    for fault, _ in looked:
        if fault is not None:
            raise ValueError(fault)
    unit = None if cosine else neighbors.powers_of_two(np.array(max(largest for _, largest in looked)))

    def heaps(k: int, scales: Any) -> list[Any]:
        """Return tasks that make the heaps of each block's rows: k best columns each."""
        made, scales = [], dask.delayed(scales)
        for i, mine in enumerate(blocks):
            heap: Any = None
            for j, others in enumerate(blocks):
                heap = _task(_offer_block)(heap, mine, others, unit, scales, k, int(first[i]), int(first[j]))
            made.append(heap)
        return made

    scales = np.ones(n)
    if cosine:
        scales = np.concatenate(dask.compute(*(_task(_square_rows)(block, unit) for block in blocks)))
    else:
        worst = map(_task(neighbors.read_worst), heaps(min(SIGMA_NEIGHBOR, n), scales))
        scales = np.concatenate(dask.compute(*worst))
        for mine, (a, b) in zip(blocks, pairwise(first), strict=True):
            copies = np.flatnonzero(scales[a:b] == 0)  # they take the distance to the nearest point that differs
            if copies.size:
                found = dask.compute(*(_task(_find_nearest_other)(mine, other, copies, unit) for other in blocks))
                nearest = np.where(np.array(found) > 0, found, np.inf).min(axis=0)
                scales[a + copies] = np.where(np.isfinite(nearest), nearest, 1.0)
    shared = dask.delayed(scales)
    made = [
        _task(_weigh_block)(heap, shared, int(a), cosine) for heap, a in zip(heaps(kept, scales), first, strict=False)
    ]
    pieces = [_task(_cut_by_block)(block, first) for block in made]
    graph = list(dask.persist(*(_task(_join)(block, [p[i] for p in pieces]) for i, block in enumerate(made))))
    if normalize:
        graph = list(dask.persist(*scale_blocks(graph, rows, "symmetric")))
    return concatenate_rows(graph, rows, n, sp.csr_array((0, 0), dtype=np.float64))


def _pack_if_small(recipe: Any) -> Any:
    """Return a recipe that tasks run for themselves, where it is small; the delayed block otherwise.

    A block that is one task's result stays in memory until all others have met it: with files that is not needed.
    """
    packed = pack(recipe)
    return packed if len(packed) < _SMALL_RECIPE else recipe


# -- what a worker does: one block, or the rows of one against those of another ----------------------------------------


def _rows_of(handle: Any, unit: Any) -> Any:
    """Return a block's features as `neighbors` has them, scaled by the unit of all, or where it is None row by row."""
    X = neighbors.check_features(make(pickle.loads(handle)) if isinstance(handle, bytes) else handle)
    return neighbors.scale_rows(X, neighbors.powers_of_two(neighbors.row_maxima(X)) if unit is None else unit)


def _inspect(handle: Any, first: int, end: int, width: int) -> tuple[str | None, float]:
    """Return what is wrong with a block, and its largest entry."""
    try:
        X = _rows_of(handle, 1.0)
    except (ValueError, TypeError) as fault:
        return f"in the block of X that begins with row {first}: {fault}", 0.0
    if X.shape != (end - first, width):
        said = f"the block of X that begins with row {first} has the shape {X.shape}, not {(end - first, width)}"
        return f"{said}; look at how it is made", 0.0
    return None, float(neighbors.row_maxima(X).max())


def _square_rows(handle: Any, unit: Any) -> Floats:
    return neighbors.square_rows(_rows_of(handle, unit))


def _offer_block(
    heap: Any, mine: Any, others: Any, unit: Any, scales: Floats, k: int, first_mine: int, first_others: int
) -> Heap:
    """Return the heaps of my rows after the others' were offered to them.

    The search counts rows and columns in one array, here mine above the others: columns in the heap are counted from
    there while it runs. The order of columns, which decides ties, stays.
    """
    A, B = _rows_of(mine, unit), _rows_of(others, unit)
    n = A.shape[0]
    keys, values, columns, counts = neighbors.empty_heap(n, k) if heap is None else heap
    heap = keys.copy(), values.copy(), columns + (n - first_others), counts.copy()
    near = np.concatenate([scales[first_mine : first_mine + n], scales[first_others : first_others + B.shape[0]]])
    neighbors.offer_rows(_stack(A, B), near, heap, unit is None, n)
    keys, values, columns, counts = heap
    return keys, values, columns - (n - first_others), counts


def _stack(A: Any, B: Any) -> Any:
    return sp.csr_array(sp.vstack([A, B], format="csr")) if sp.issparse(A) else np.vstack([A, B])


def _find_nearest_other(mine: Any, others: Any, rows: Integers, unit: Any) -> Floats:
    """Return for some of my rows the squared distance to the nearest of the others that differs."""
    stack = _stack(_rows_of(mine, unit)[rows], _rows_of(others, unit))
    return neighbors.find_nearest_other(stack, np.arange(len(rows)))


def _weigh_block(heap: Heap, scales: Floats, first: int, cosine: bool) -> sp.csr_array:
    """Return the weights that the rows of a block keep, a csr_array as wide as the graph."""
    row, column, value = neighbors.read_heap(heap)
    weights = weigh(value, scales[first + row], scales[column], cosine)
    return sp.csr_array((weights, (row, column)), shape=(len(heap[0]), len(scales)))


def _cut_by_block(kept: sp.csr_array, first: Integers) -> list[Any]:
    """Return the columns that belong to each block, transposed: what that block's rows are kept by."""
    by_column = kept.tocsc()
    return [sp.csr_array(by_column[:, a:b].T) for a, b in pairwise(first)]


def _join(kept: sp.csr_array, others: list[Any]) -> sp.csr_array:
    return unite(kept, sp.hstack(others, format="csr"))
