"""The graph whose edges are the known distances: cores, cliques, growth by trilateration, bodies made small."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from quartic.losses.pairs.input import check_pairs, refuse_self_pairs

Indices: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]


def check_indices(pairs: Any, n_points: int) -> Indices:
    """Return ``pairs`` as an (m, 2) array of indices below ``n_points``, or say which row is wrong."""
    pairs = np.asarray(pairs)
    if pairs.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    checked: Indices = check_pairs(pairs, np.zeros(len(pairs)), n_points, None, "distances")[0]
    refuse_self_pairs(checked)
    return checked


def mask_of(points: Any, n: int) -> Mask:
    """Return the mask of some of n points."""
    mask: Mask = np.zeros(n, dtype=bool)
    mask[points] = True
    return mask


@dataclass(frozen=True, eq=False)
class PairGraph:
    """An undirected graph in compressed rows: the neighbours of ``v`` are ``indices[indptr[v]:indptr[v + 1]]``."""

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

    def degrees_of(self, points: Indices) -> Indices:
        """Return the number of distinct neighbours of some points."""
        counts: Indices = self.indptr[points + 1] - self.indptr[points]
        return counts

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
        starts, counts = self.indptr[points], self.degrees_of(points)
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

    @cached_property
    def matrix(self) -> Any:
        """The adjacency matrix, SciPy CSR."""
        n = self.n_points
        return sp.csr_array((np.ones(len(self.indices)), self.indices, self.indptr), shape=(n, n))

    def restricted_to(self, points: Indices) -> PairGraph:
        """Return the graph on ``points`` alone, in ascending order, numbered so."""
        A = self.matrix[points][:, points]
        return PairGraph(A.indptr.astype(np.int64), A.indices.astype(np.int64))

    def components(self) -> Indices:
        """Return the label of each point's connected component, the largest component first."""
        _, labels = connected_components(self.matrix, directed=False)
        sizes = np.bincount(labels)
        rank = np.empty(len(sizes), dtype=np.int64)
        rank[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes))
        result: Indices = rank[labels]
        return result

    def core(self, k: int) -> Mask:
        """Return the mask of the ``k``-core: what is left when points of degree below k are taken off, repeatedly."""
        degree = self.degrees.copy()
        alive = np.ones(self.n_points, dtype=bool)
        leaving = np.flatnonzero(degree < k)
        while len(leaving):
            alive[leaving] = False
            touched, losses = self.touched_by(leaving)
            degree[touched] -= losses
            leaving = touched[alive[touched] & (degree[touched] < k)]
        return alive


# Pairs count as local where neighbours of a point are linked so many times as often as any two points.
_LOCAL, _LOOKED_AT = 3.0, 60


def is_local(A: sp.csr_array, rng: np.random.Generator) -> bool:
    """Tell whether only near points are linked, as far as a sample shows: all links of A, or each one way round."""
    n = A.shape[0]
    rows = A[rng.choice(n, min(n, _LOOKED_AT), replace=False)]
    rows.data = np.ones(rows.nnz)
    counts = np.diff(rows.indptr)
    closed = (rows @ (A > 0)).multiply(rows).sum()
    # links run one way: the neighbours of a point make half as many pairs, and all points have twice the links
    open_or_closed, share = float(np.sum(counts * (counts - 1.0))), A.nnz / (n * (n - 1))
    return bool(closed > _LOCAL * share * open_or_closed) or open_or_closed == 0


def grow(graph: PairGraph, start: Indices, threshold: int) -> Mask:
    """Return the mask of ``start`` and of every point reached by adding points with ``threshold`` neighbours inside.

    With ``threshold = d + 1`` global rigidity of ``start`` passes on to the result, with ``threshold = d`` local
    rigidity does (both for generic positions).
    """
    inside = mask_of(start, graph.n_points)
    count = np.zeros(graph.n_points, dtype=np.int64)
    frontier = np.flatnonzero(inside)
    while len(frontier):
        touched, gains = graph.touched_by(frontier)
        count[touched] += gains
        frontier = touched[~inside[touched] & (count[touched] >= threshold)]
        inside[frontier] = True
    return inside


def find_clique(graph: PairGraph, v: int, size: int, allowed: Mask, rng: np.random.Generator) -> Indices | None:
    """Return ``size`` mutually linked points, ``v`` among them, or None when a greedy search finds none.

    Each step takes, of a few candidates drawn at random, the first that leaves most candidates over.
    """
    clique = [v]
    candidates = graph.neighbours(v)
    candidates = candidates[allowed[candidates]]
    while len(clique) < size:
        if len(candidates) < size - len(clique):
            return None
        tried = rng.permutation(candidates)[:24]
        common = [np.intersect1d(candidates, graph.neighbours(int(u)), assume_unique=True) for u in tried]
        best = int(np.argmax([len(c) for c in common]))
        clique.append(int(tried[best]))
        candidates = common[best]
    return np.sort(np.array(clique, dtype=np.int64))


def merge_bodies(
    bodies: list[Mask], may_join: Callable[[Mask, Mask], bool], grown: Callable[[Mask], Mask] = lambda body: body
) -> list[Mask]:
    """Join bodies, and grow their unions, until no two may be joined; the largest comes first."""
    merged: list[Mask] = []
    waiting = list(bodies)
    while waiting:
        body = waiting.pop()
        partner = next((k for k, other in enumerate(merged) if may_join(body, other)), None)
        if partner is None:
            merged.append(body)
        else:
            waiting.append(grown(body | merged.pop(partner)))
    return sorted(merged, key=lambda body: (-np.count_nonzero(body), int(np.argmax(body))))


def sharing(n_shared: int) -> Callable[[Mask, Mask], bool]:
    """Return what tells whether two bodies share so many points."""
    return lambda body, other: bool(np.count_nonzero(body & other) >= n_shared)


# Complete graphs on d + 1 points from which bodies are grown.
_SEEDS = 60


def grow_bodies(
    graph: PairGraph, d: int, rng: np.random.Generator, grown: Callable[[Mask], Mask],
    may_join: Callable[[Mask, Mask], bool], first: Mask | None = None,
) -> list[Mask]:  # fmt: skip
    """Return bodies grown from complete graphs on ``d + 1`` points, largest first.

    ``first`` is a body that is known (of anchors, say). Fewer bodies than there are is no error: the stress test
    decides about the rest.
    """
    core, covered = graph.core(d), np.zeros(graph.n_points, dtype=bool)
    bodies = [] if first is None else [grown(first)]
    waiting = rng.permutation(np.flatnonzero(core))  # at random, so that the seeds lie apart
    for _ in range(_SEEDS):
        for body in bodies:
            covered |= body
        waiting = waiting[~covered[waiting]]
        if len(waiting) == 0:
            break
        seed = find_clique(graph, int(waiting[0]), d + 1, core, rng)
        waiting = waiting[1:]
        if seed is not None:
            body = grown(mask_of(seed, graph.n_points))
            if body.any():
                bodies = merge_bodies([*bodies, body], may_join, grown)
    return bodies


def skeleton(points: Indices, d: int) -> Indices:
    """Return pairs that fix the shape of ``points``: a complete graph on d + 1 of them, the others linked to those."""
    core, rest = points[: d + 1], points[d + 1 :]
    first, second = np.triu_indices(len(core), 1)
    inner = np.column_stack([core[first], core[second]])
    outer = np.column_stack([np.repeat(core, len(rest)), np.tile(rest, len(core))])
    return np.concatenate([inner, outer]) if len(rest) else inner


def reduce_graph(graph: PairGraph, bodies: list[Mask], d: int) -> tuple[PairGraph, Indices, list[Indices]]:
    """Return a smaller graph in which the same points are tied to each other, its points, and the bodies' rims in it.

    Of each body (a set of points whose mutual distances are fixed) only the rim stays, the points linked to others,
    held together by a skeleton; then all but the d-core comes off, since a point of fewer than ``d`` distances ties
    nothing.
    """
    n = graph.n_points
    pairs = graph.pairs
    for body in bodies:
        inside = body[pairs[:, 0]] & body[pairs[:, 1]]
        rim = np.zeros(n, dtype=bool)
        leaving = pairs[body[pairs[:, 0]] != body[pairs[:, 1]]].ravel()
        rim[leaving[body[leaving]]] = True
        pairs = np.concatenate([pairs[~inside], skeleton(np.flatnonzero(rim), d)])
    trimmed = PairGraph.from_pairs(pairs, n)
    points = np.flatnonzero(trimmed.core(d))
    position = np.full(n, -1, dtype=np.int64)
    position[points] = np.arange(len(points))
    rims = [position[body & (position >= 0)] for body in bodies]
    return trimmed.restricted_to(points), points, rims
