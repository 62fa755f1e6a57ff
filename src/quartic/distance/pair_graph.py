"""The graph whose edges are the known distances, in compressed rows, and its cores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

Indices: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]


def checked_pairs(pairs: Any, n_points: int) -> Indices:
    """Return ``pairs`` as an (m, 2) array of indices below ``n_points``, or say which row is wrong.

    Examples
    --------
    >>> from quartic.distance.pair_graph import checked_pairs
    >>> checked_pairs([[0, 1], [2, 0]], 3).tolist()
    [[0, 1], [2, 0]]
    """
    pairs = np.asarray(pairs)
    if pairs.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(f"pairs must have shape (m, 2), one row of two point indices per distance, got {pairs.shape}")
    if pairs.dtype.kind not in "iu":
        raise TypeError(f"pairs must hold integers (point indices), got dtype {pairs.dtype}; use pairs.astype(int)")
    checked: Indices = pairs.astype(np.int64, copy=False)
    outside = (checked < 0) | (checked >= n_points)
    if outside.any():
        row = int(np.flatnonzero(outside.any(axis=1))[0])
        raise ValueError(
            f"pairs[{row}] = {tuple(pairs[row].tolist())} names a point outside 0..{n_points - 1}; "
            "indices start at 0, and n_points must cover them all"
        )
    loops = pairs[:, 0] == pairs[:, 1]
    if loops.any():
        row = int(np.flatnonzero(loops)[0])
        raise ValueError(f"pairs[{row}] joins point {int(pairs[row, 0])} to itself; leave such pairs out")
    return checked


@dataclass(frozen=True, eq=False)
class PairGraph:
    """An undirected graph in compressed rows: the neighbours of ``v`` are ``indices[indptr[v]:indptr[v + 1]]``.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.distance.pair_graph import PairGraph
    >>> graph = PairGraph.from_pairs(np.array([[0, 1], [1, 2], [2, 1]]), 4)
    >>> graph.degrees.tolist(), graph.neighbours(1).tolist()
    ([1, 2, 1, 0], [0, 2])
    """

    indptr: Indices
    indices: Indices

    @classmethod
    def from_pairs(cls, pairs: Indices, n_points: int) -> PairGraph:
        """Build the graph; repeated pairs, in either order, count once."""
        low, high = pairs.min(axis=1, initial=n_points), pairs.max(axis=1, initial=0)
        ones = np.ones(len(pairs), dtype=np.int32)
        upper = sp.csr_array((ones, (low, high)), shape=(n_points, n_points))
        both = sp.csr_array(upper + upper.T)
        both.sort_indices()
        return cls(both.indptr.astype(np.int64), both.indices.astype(np.int64))

    @property
    def n_points(self) -> int:
        """The number of points."""
        return len(self.indptr) - 1

    @property
    def degrees(self) -> Indices:
        """The number of distinct neighbours of each point."""
        return np.diff(self.indptr)

    @property
    def pairs(self) -> Indices:
        """The edges, once each, the smaller index first."""
        rows = np.repeat(np.arange(self.n_points), self.degrees)
        once = rows < self.indices
        return np.column_stack([rows[once], self.indices[once]])

    def neighbours(self, v: int) -> Indices:
        """Return the sorted neighbours of the point ``v``."""
        return self.indices[self.indptr[v] : self.indptr[v + 1]]

    def neighbours_of_all(self, points: Indices) -> Indices:
        """Return the neighbours of all ``points``, one list after the other, repetitions kept."""
        starts, counts = self.indptr[points], self.indptr[points + 1] - self.indptr[points]
        offsets = np.repeat(starts - (np.cumsum(counts) - counts), counts)
        neighbours: Indices = self.indices[offsets + np.arange(len(offsets))]
        return neighbours

    def touched_by(self, points: Indices) -> tuple[Indices, Indices]:
        """Return the points with a neighbour among ``points``, and how many such neighbours each has."""
        neighbours = self.neighbours_of_all(points)
        if 8 * len(neighbours) < self.n_points:  # sorting a few is cheaper than counting over all
            return np.unique(neighbours, return_counts=True)
        counts = np.bincount(neighbours, minlength=self.n_points)
        touched = np.flatnonzero(counts)
        return touched, counts[touched]

    def matrix(self) -> Any:
        """Return the adjacency matrix, SciPy CSR."""
        n = self.n_points
        return sp.csr_array((np.ones(len(self.indices)), self.indices, self.indptr), shape=(n, n))

    def restricted_to(self, points: Indices) -> PairGraph:
        """Return the graph on ``points`` alone, numbered in their order."""
        position = np.full(self.n_points, -1, dtype=np.int64)
        position[points] = np.arange(len(points))
        pairs = position[self.pairs]
        return PairGraph.from_pairs(pairs[(pairs >= 0).all(axis=1)], len(points))

    def components(self) -> Indices:
        """Return the label of each point's connected component, the largest component first."""
        _, labels = connected_components(self.matrix(), directed=False)
        sizes = np.bincount(labels)
        rank = np.empty(len(sizes), dtype=np.int64)
        rank[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes))
        result: Indices = rank[labels]
        return result

    def core(self, k: int) -> Mask:
        """Return the mask of the ``k``-core: what is left when points of degree below ``k`` are taken off, repeatedly.

        Examples
        --------
        >>> import numpy as np
        >>> from quartic.distance.pair_graph import PairGraph
        >>> triangle_with_tail = np.array([[0, 1], [1, 2], [0, 2], [2, 3], [3, 4]])
        >>> PairGraph.from_pairs(triangle_with_tail, 5).core(2).tolist()
        [True, True, True, False, False]
        """
        degree = self.degrees.copy()
        alive = np.ones(self.n_points, dtype=bool)
        leaving = np.flatnonzero(degree < k)
        while len(leaving):
            alive[leaving] = False
            touched, losses = self.touched_by(leaving)
            degree[touched] -= losses
            leaving = touched[alive[touched] & (degree[touched] < k)]
        return alive
