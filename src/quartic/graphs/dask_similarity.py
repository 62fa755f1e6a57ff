"""Similarity graphs of features in row blocks: the same graph, made where the features are.

The rows of block i meet those of each block j in turn, in ascending order, as they do on one machine tile by tile; what
a row keeps (its heap) goes from one such task to the next. The compiled search is the same, and so is the graph, to the
last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from quartic.distributed.blocks import made
from quartic.distributed.inputs import checked_dtype, is_persisted, row_recipes
from quartic.graphs import features as one_machine
from quartic.graphs.features import BLOCK, UNIT, Floats
from quartic.graphs.neighbors import SIGMA_NEIGHBOR, TILE

# A recipe of fewer bytes is run again by each task that needs its block; a larger one holds the data itself.
_SMALL_RECIPE = 1 << 16


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


def similarity_in_blocks(X: Any, cosine: bool, kept: int, normalize: bool) -> Any:
    """Return the similarity graph of a Dask array of features as a Dask array of CSR row blocks, persisted.

    Parameters
    ----------
    X : dask.array.Array (n, p)
        Dense or sparse features in row blocks.
    cosine : bool
        Cosines; self-tuning weights otherwise.
    kept : int
        Weights a row keeps.
    normalize : bool
        Whether to scale by D^-1/2 on both sides.
    """
    return _Building(X, cosine, kept).graph(normalize)


class _Building:
    """One graph under way."""

    def __init__(self, X: Any, cosine: bool, kept: int) -> None:
        import dask

        checked_dtype(X, "X")
        if X.ndim != 2 or 0 in X.shape:
            raise ValueError(f"X must have rows and columns, a row for each point, got shape {X.shape}")
        recipes, self.rows = row_recipes(X, "X")
        self.n, self.kept = int(X.shape[0]), kept
        self.first = np.concatenate([[0], np.cumsum(self.rows)])
        self.blocks = recipes if is_persisted(X) else [_handle(recipe) for recipe in recipes]
        self._delayed: Any = partial(dask.delayed, pure=False)
        self.rule = self._agreed(Rule(cosine), int(X.shape[1]))

    def _agreed(self, rule: Rule, width: int) -> Rule:
        """Return the rule, having looked at every block: its faults, its scale, whether its numbers are whole."""
        looked = self._each(_looked_at, [(self.rows[k], width, int(self.first[k])) for k in range(len(self.rows))])
        for fault, _, _ in looked:
            if fault is not None:
                raise ValueError(fault)
        largest = np.array([bound for _, *bounds in looked for bound in bounds])
        if rule.cosine:
            rule = replace(rule, power=1.0 if one_machine._safe(largest) else None)
        elif not one_machine._safe(largest.max(keepdims=True)):
            rule = replace(rule, power=float(one_machine._power_of_two(largest.max(keepdims=True))[0]))
        described = self._each(_described, [(rule,)] * len(self.rows))
        squares, terms = max(d[1] for d in described), max(d[2] for d in described)
        rule = replace(rule, exact=all(d[0] for d in described) and 4 * squares < 2.0**53, terms=terms)
        if rule.exact or rule.cosine or described[0][3] is None:
            return rule
        return replace(rule, centre=np.sum([d[3] for d in described], axis=0) / self.n)

    def _each(self, function: Any, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        import dask

        tasks = [self._delayed(function)(block, *more) for block, more in zip(self.blocks, arguments, strict=True)]
        return list(dask.compute(*tasks))

    # -- neighbours --------------------------------------------------------------------------------------------------

    def _heaps(self, k: int, scales: Floats) -> list[Any]:
        """Return tasks that make the heaps of each block's rows: k best columns each."""
        from dask import delayed

        offer, rule, scales = self._delayed(_offered), delayed(self.rule), delayed(scales)
        heaps = []
        for i in range(len(self.rows)):
            heap: Any = None
            for j in range(len(self.rows)):
                heap = offer(
                    heap, self.blocks[i], self.blocks[j], rule, scales, k, int(self.first[i]), int(self.first[j])
                )
            heaps.append(heap)
        return heaps

    @cached_property
    def scales(self) -> Floats:
        """σ² of each row: its squared distance to the 7th nearest, or a positive stand-in where that is zero."""
        import dask

        heaps = self._heaps(min(SIGMA_NEIGHBOR, self.n), np.ones(self.n))
        scales = np.concatenate(dask.compute(*(self._delayed(_worst)(heap) for heap in heaps)))
        if not scales.all():
            scales = self._for_copies(scales)
        return scales

    def _for_copies(self, scales: Floats) -> Floats:
        """Return the scales, those of seven or more copies being the distance to the nearest point that differs."""
        import dask

        scales = scales.copy()
        for i in range(len(self.rows)):
            mine = scales[self.first[i] : self.first[i + 1]]
            copies = np.flatnonzero(mine == 0)
            if copies.size:
                search = self._delayed(_nearest_other)
                found = dask.compute(*(search(self.blocks[i], other, copies, self.rule) for other in self.blocks))
                nearest = np.where(np.array(found) > 0, found, np.inf).min(axis=0)
                mine[copies] = np.where(np.isfinite(nearest), nearest, 0.0)
        scales[scales == 0] = 1.0
        return scales

    # -- the graph ---------------------------------------------------------------------------------------------------

    def graph(self, normalize: bool) -> Any:
        """Return the graph."""
        import dask
        import dask.array as da
        from dask import delayed

        weigh, cut, unite = (self._delayed(function) for function in (_weighed, _cut, _united))
        ones = np.ones(self.n)
        if self.rule.cosine:
            scales = np.concatenate(self._each(_squares, [(self.rule,)] * len(self.rows)))
            heaps = self._heaps(self.kept, ones)
        else:
            scales = self.scales
            heaps = self._heaps(self.kept, scales)
        shared = delayed(scales)
        kept = [
            weigh(heap, shared, int(first), self.rule.cosine) for heap, first in zip(heaps, self.first, strict=False)
        ]
        pieces = [cut(block, self.first) for block in kept]
        rows = [unite(block, [piece[i] for piece in pieces]) for i, block in enumerate(kept)]
        rows = list(dask.persist(*rows))
        if normalize:
            degree = np.concatenate(dask.compute(*(self._delayed(_degree)(block) for block in rows)))
            factor = np.zeros_like(degree)
            np.divide(1.0, np.sqrt(degree), out=factor, where=degree > 0)
            factor = delayed(factor)
            scale = self._delayed(_scaled)
            rows = list(dask.persist(*(scale(rows[k], factor, int(self.first[k])) for k in range(len(rows)))))
        meta = sp.csr_array((0, 0), dtype=np.float64)
        shapes = [(size, self.n) for size in self.rows]
        return da.concatenate(
            [
                da.from_delayed(block, shape=shape, dtype=np.float64, meta=meta)
                for block, shape in zip(rows, shapes, strict=True)
            ]
        )


def _handle(recipe: Any) -> Any:
    """Return a recipe that tasks run for themselves, where it is small; the delayed block otherwise.

    A block that is one task's result stays in memory until all others have met it: with files that is not needed.
    """
    import cloudpickle

    packed = cloudpickle.dumps(recipe)
    return packed if len(packed) < _SMALL_RECIPE else recipe


# -- tasks ----------------------------------------------------------------------------------------------------------


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


def _looked_at(handle: Any, rows: int, width: int, first: int) -> tuple[str | None, float, float]:
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


def _described(handle: Any, rule: Rule) -> tuple[bool, float, int, Floats | None]:
    """Return whether the numbers are whole, the largest square of a row, the most terms, and the sum of the rows."""
    X = _rows_of(handle, rule)
    found = one_machine._described(X)
    values = X.data if sp.issparse(X) else X
    whole = bool((values == np.rint(values)).all())
    return whole, float(found.squares.max()), found.terms, None if found.sparse else X.sum(axis=0)


def _squares(handle: Any, rule: Rule) -> Floats:
    return one_machine._described(_rows_of(handle, rule)).squares


def _offered(
    heap: Any, mine: Any, others: Any, rule: Rule, scales: Floats, k: int, first_mine: int, first_others: int
) -> Any:
    """Return the heaps of my rows after the others' were offered to them.

    The search counts rows and columns in one array, here mine above the others: columns in the heap are counted from
    there while it runs. The order of columns, which decides ties, stays.
    """
    from quartic.ops import topk

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


def _worst(heap: Any) -> Floats:
    worst: Floats = heap[1][:, 0].copy()  # the root of a full heap
    return worst


def _nearest_other(mine: Any, others: Any, rows: NDArray[np.int64], rule: Rule) -> Floats:
    from quartic.ops import topk

    A, B = _rows_of(mine, rule)[rows], _rows_of(others, rule)
    which = np.arange(len(rows))
    if sp.issparse(B):
        stack = sp.csr_array(sp.vstack([A, B], format="csr"))
        nearest: Floats = topk.nearest_other_sparse(which, stack.indptr, stack.indices, stack.data)
    else:
        nearest = topk.nearest_other_dense(which, np.vstack([A, B]))
    return nearest


def _weighed(heap: Any, scales: Floats, first: int, cosine: bool) -> sp.csr_array:
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


def _cut(kept: sp.csr_array, first: NDArray[np.int64]) -> list[Any]:
    """Return the columns that belong to each block, transposed: what that block's rows are kept by."""
    by_column = kept.tocsc()
    return [sp.csr_array(by_column[:, a:b].T) for a, b in pairwise(first)]


def _united(kept: sp.csr_array, others: list[Any]) -> sp.csr_array:
    """Return the rows of the graph: an edge stays if either end kept it."""
    W = sp.csr_array(kept.maximum(sp.hstack(others, format="csr")))
    W.eliminate_zeros()
    W.sort_indices()
    return W


def _degree(W: sp.csr_array) -> Floats:
    degree: Floats = W.sum(axis=1)
    return degree


def _scaled(W: sp.csr_array, factor: Floats, first: int) -> sp.csr_array:
    W = W.copy()
    mine = factor[first : first + W.shape[0]]
    W.data *= np.repeat(mine, np.diff(W.indptr)) * factor[W.indices]
    return W
