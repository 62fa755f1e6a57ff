"""Similarity graphs of features in row blocks: the same graph, made where the features are.

The rows of block i meet those of each block j in turn, in ascending order, as they do on one machine tile by tile; what
a row keeps (its heap) goes from one such task to the next. The compiled search is the same, and so is the graph, to the
last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from quartic.distributed.inputs import checked_dtype, is_persisted, row_recipes
from quartic.graphs import features as one_machine
from quartic.graphs.dask_tasks import (
    Rule,
    cut_by_block,
    degree_of,
    described,
    looked_at,
    nearest_other,
    offered,
    scaled_block,
    squares_of,
    united,
    weighed,
    worst_kept,
)
from quartic.graphs.features import Floats
from quartic.graphs.neighbors import SIGMA_NEIGHBOR

# A recipe of fewer bytes is run again by each task that needs its block; a larger one holds the data itself.
_SMALL_RECIPE = 1 << 16


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
        looked = self._each(looked_at, [(self.rows[k], width, int(self.first[k])) for k in range(len(self.rows))])
        for fault, _, _ in looked:
            if fault is not None:
                raise ValueError(fault)
        largest = np.array([bound for _, *bounds in looked for bound in bounds])
        if rule.cosine:
            rule = replace(rule, power=1.0 if one_machine._safe(largest) else None)
        elif not one_machine._safe(largest.max(keepdims=True)):
            rule = replace(rule, power=float(one_machine._power_of_two(largest.max(keepdims=True))[0]))
        found = self._each(described, [(rule,)] * len(self.rows))
        squares, terms = max(d[1] for d in found), max(d[2] for d in found)
        rule = replace(rule, exact=all(d[0] for d in found) and 4 * squares < 2.0**53, terms=terms)
        if rule.exact or rule.cosine or found[0][3] is None:
            return rule
        return replace(rule, centre=np.sum([d[3] for d in found], axis=0) / self.n)

    def _each(self, function: Any, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        import dask

        tasks = [self._delayed(function)(block, *more) for block, more in zip(self.blocks, arguments, strict=True)]
        return list(dask.compute(*tasks))

    # -- neighbours --------------------------------------------------------------------------------------------------

    def _heaps(self, k: int, scales: Floats) -> list[Any]:
        """Return tasks that make the heaps of each block's rows: k best columns each."""
        from dask import delayed

        offer, rule, scales = self._delayed(offered), delayed(self.rule), delayed(scales)
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
        scales = np.concatenate(dask.compute(*(self._delayed(worst_kept)(heap) for heap in heaps)))
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
                search = self._delayed(nearest_other)
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

        weigh, cut, unite = (self._delayed(function) for function in (weighed, cut_by_block, united))
        ones = np.ones(self.n)
        if self.rule.cosine:
            scales = np.concatenate(self._each(squares_of, [(self.rule,)] * len(self.rows)))
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
            degree = np.concatenate(dask.compute(*(self._delayed(degree_of)(block) for block in rows)))
            factor = np.zeros_like(degree)
            np.divide(1.0, np.sqrt(degree), out=factor, where=degree > 0)
            factor = delayed(factor)
            scale = self._delayed(scaled_block)
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
