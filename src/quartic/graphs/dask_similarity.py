"""Similarity graphs of features in row blocks: the same graph, made where the features are.

The rows of block i meet those of each block j in turn, in ascending order, as they do on one machine tile by tile; what
a row keeps (its heap) goes from one such task to the next. The compiled search is the same, and so is the graph, to the
last bit.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

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


@dataclass(frozen=True, eq=False)
class Rule:
    """What all blocks must agree on."""

    cosine: bool  # distances otherwise
    exact: bool = False  # features are integers so small that sums of products carry no rounding
    terms: int = 0  # most products summed in one dot product
    power: float | None = 1.0  # the factor of all features, a power of two; None where each row has its own
    centre: Floats | None = None  # what is subtracted before distances are estimated


def similarity_in_blocks(X: Any, cosine: bool, kept: int, normalize: bool) -> Any:
    """Return the graph of a Dask array of features (n, p), ``kept`` weights a row, as CSR row blocks, persisted."""
    return _Building(X, cosine, kept).build(normalize)


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
        self.blocks = recipes if is_persisted(X) else [_pack_if_small(recipe) for recipe in recipes]
        self._delayed: Any = partial(dask.delayed, pure=False)
        self.rule = self._agree_on(Rule(cosine), int(X.shape[1]))

    def _agree_on(self, rule: Rule, width: int) -> Rule:
        """Return the rule, having looked at every block: its faults, its scale, whether its numbers are whole."""
        looked = self._each(_inspect, [(self.rows[k], width, int(self.first[k])) for k in range(len(self.rows))])
        for fault, _, _ in looked:
            if fault is not None:
                raise ValueError(fault)
        largest = np.array([bound for _, *bounds in looked for bound in bounds])
        if rule.cosine:
            rule = replace(rule, power=1.0 if neighbors.is_safe(largest) else None)
        elif not neighbors.is_safe(largest.max(keepdims=True)):
            rule = replace(rule, power=float(neighbors.powers_of_two(largest.max(keepdims=True))[0]))
        found = self._each(_describe, [(rule,)] * len(self.rows))
        exact, terms, sums = zip(*found, strict=True)
        rule = replace(rule, exact=all(exact), terms=max(terms))
        if rule.exact or rule.cosine or sums[0] is None:
            return rule
        return replace(rule, centre=np.sum(sums, axis=0) / self.n)

    def _each(self, function: Any, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        import dask

        tasks = [self._delayed(function)(block, *more) for block, more in zip(self.blocks, arguments, strict=True)]
        return list(dask.compute(*tasks))

    # -- neighbours --------------------------------------------------------------------------------------------------

    def _heaps(self, k: int, scales: Floats) -> list[Any]:
        """Return tasks that make the heaps of each block's rows: k best columns each."""
        from dask import delayed

        offer, rule, scales = self._delayed(_offer_block), delayed(self.rule), delayed(scales)
        heaps = []
        for i in range(len(self.rows)):
            heap: Any = None
            for j in range(len(self.rows)):
                heap = offer(
                    heap, self.blocks[i], self.blocks[j], rule, scales, k, int(self.first[i]), int(self.first[j])
                )
            heaps.append(heap)
        return heaps

    def _scales(self) -> Floats:
        """Return σ² of each row: its squared distance to the 7th nearest, or a positive stand-in where that is zero."""
        import dask

        heaps = self._heaps(min(SIGMA_NEIGHBOR, self.n), np.ones(self.n))
        scales = np.concatenate(dask.compute(*(self._delayed(neighbors.read_worst)(heap) for heap in heaps)))
        return scales if scales.all() else self._separate_copies(scales)

    def _separate_copies(self, scales: Floats) -> Floats:
        """Return the scales, those of seven or more copies being the distance to the nearest point that differs."""
        import dask

        scales = scales.copy()
        for i in range(len(self.rows)):
            mine = scales[self.first[i] : self.first[i + 1]]
            copies = np.flatnonzero(mine == 0)
            if copies.size:
                search = self._delayed(_find_nearest_other)
                found = dask.compute(*(search(self.blocks[i], other, copies, self.rule) for other in self.blocks))
                nearest = np.where(np.array(found) > 0, found, np.inf).min(axis=0)
                mine[copies] = np.where(np.isfinite(nearest), nearest, 0.0)
        scales[scales == 0] = 1.0
        return scales

    # -- the graph ---------------------------------------------------------------------------------------------------

    def build(self, normalize: bool) -> Any:
        """Return the graph."""
        import dask
        from dask import delayed

        weigh_block, cut, join = (self._delayed(function) for function in (_weigh_block, _cut_by_block, _join))
        if self.rule.cosine:
            scales = np.concatenate(self._each(_square_rows, [(self.rule,)] * len(self.rows)))
            heaps = self._heaps(self.kept, np.ones(self.n))
        else:
            scales = self._scales()
            heaps = self._heaps(self.kept, scales)
        shared = delayed(scales)
        kept = [
            weigh_block(heap, shared, int(first), self.rule.cosine)
            for heap, first in zip(heaps, self.first, strict=False)
        ]
        pieces = [cut(block, self.first) for block in kept]
        rows = [join(block, [piece[i] for piece in pieces]) for i, block in enumerate(kept)]
        rows = list(dask.persist(*rows))
        if normalize:
            rows = list(dask.persist(*scale_blocks(rows, self.rows, "symmetric")))
        return concatenate_rows(rows, self.rows, self.n, sp.csr_array((0, 0), dtype=np.float64))


def _pack_if_small(recipe: Any) -> Any:
    """Return a recipe that tasks run for themselves, where it is small; the delayed block otherwise.

    A block that is one task's result stays in memory until all others have met it: with files that is not needed.
    """
    packed = pack(recipe)
    return packed if len(packed) < _SMALL_RECIPE else recipe


# -- what a worker does: one block, or the rows of one against those of another ----------------------------------------


def _rows_of(handle: Any, rule: Rule | None = None) -> Any:
    """Return a block's features, C-ordered float64 or csr_array, scaled as agreed."""
    X = neighbors.check_features(make(pickle.loads(handle)) if isinstance(handle, bytes) else handle)
    if rule is None or rule.power == 1.0:
        return X
    if rule.power is not None:
        return X * rule.power
    return neighbors.scale_rows(X, neighbors.powers_of_two(neighbors.row_maxima(X)))


def _inspect(handle: Any, rows: int, width: int, first: int) -> tuple[str | None, float, float]:
    """Return what is wrong with a block, and the least positive and the largest of its rows' largest entries."""
    try:
        X = _rows_of(handle)
    except (ValueError, TypeError) as fault:
        return f"in the block of X that begins with row {first}: {fault}", 0.0, 0.0
    if X.shape != (rows, width):
        said = f"the block of X that begins with row {first} has the shape {X.shape}, not {(rows, width)}"
        return f"{said}; look at how it is made", 0.0, 0.0
    largest = neighbors.row_maxima(X)
    return (
        None,
        float(largest[largest > 0].min(initial=np.inf)) if largest.any() else 0.0,
        float(largest.max(initial=0.0)),
    )


def _describe(handle: Any, rule: Rule) -> tuple[bool, int, Floats | None]:
    """Return whether products of a block's rows are exact, the most terms of one, and the sum of the rows."""
    found = neighbors.describe(_rows_of(handle, rule))
    return found.exact, found.terms, None if found.sparse else found.X.sum(axis=0)


def _square_rows(handle: Any, rule: Rule) -> Floats:
    """Return the squared norms of the rows."""
    return neighbors.describe(_rows_of(handle, rule)).squares


def _offer_block(
    heap: Any, mine: Any, others: Any, rule: Rule, scales: Floats, k: int, first_mine: int, first_others: int
) -> Any:
    """Return the heaps of my rows after the others' were offered to them.

    The search counts rows and columns in one array, here mine above the others: columns in the heap are counted from
    there while it runs. The order of columns, which decides ties, stays.
    """
    A, B = _rows_of(mine, rule), _rows_of(others, rule)
    n = A.shape[0]
    keys, values, columns, counts = neighbors.empty_heap(n, k) if heap is None else heap
    heap = keys.copy(), values.copy(), columns + (n - first_others), counts.copy()
    stack = _stack(A, B)
    squares = neighbors.describe(stack).squares
    near = np.concatenate([scales[first_mine : first_mine + n], scales[first_others : first_others + B.shape[0]]])
    if rule.cosine:
        near = neighbors.inverse_roots(squares)
    slack = neighbors.bound_error(rule.terms, rule.exact, rule.cosine)
    neighbors.offer_rows(stack, squares, near, slack, heap, rule.cosine, n, rule.centre)
    keys, values, columns, counts = heap
    return keys, values, columns - (n - first_others), counts


def _stack(A: Any, B: Any) -> Any:
    return sp.csr_array(sp.vstack([A, B], format="csr")) if sp.issparse(A) else np.vstack([A, B])


def _find_nearest_other(mine: Any, others: Any, rows: Integers, rule: Rule) -> Floats:
    """Return for some of my rows the squared distance to the nearest of the others that differs."""
    stack = _stack(_rows_of(mine, rule)[rows], _rows_of(others, rule))
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
