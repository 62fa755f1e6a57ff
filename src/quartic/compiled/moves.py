"""Moves of nodes between the clusters of a graph, uphill in the likelihood of a degree-corrected block model."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quartic.compiled.flags import FLAGS, INNER, njit


@njit(**INNER)
def _xlogx(x: float) -> float:
    return x * math.log(x) if x > 1e-12 else 0.0  # what subtractions leave of zero


@njit(**FLAGS)
def count_edges(
    indptr: Any, indices: Any, weight: Any, degree: Any, labels: Any, edges: Any, volume: Any, size: Any
) -> None:
    """Add up the weights between any two clusters, both ways round, their degrees and their nodes."""
    for i in range(len(labels)):
        volume[labels[i]] += degree[i]
        size[labels[i]] += 1.0
        for p in range(indptr[i], indptr[i + 1]):
            edges[labels[i], labels[indices[p]]] += weight[p]


@njit(**FLAGS)
def move_nodes(
    indptr: Any, indices: Any, weight: Any, degree: Any, labels: Any, edges: Any, volume: Any, size: Any, nodes: Any,
    n_sweeps: int, tol: float,
) -> float:  # fmt: skip
    """Move each of ``nodes`` in turn to the cluster of a neighbour that gains most, until a sweep gains at most tol.

    The last node of a cluster stays. Labels and counts are kept up to date; the gain is returned.
    """
    n_clusters = len(volume)
    to, near, total = np.zeros(n_clusters), np.empty(n_clusters, np.int64), 0.0
    for _ in range(n_sweeps):
        gained = 0.0
        for i in nodes:
            r, mine, loop, found = labels[i], degree[i], 0.0, 0
            if size[r] <= 1 or mine <= 0:
                continue
            for p in range(indptr[i], indptr[i + 1]):
                j = indices[p]
                if j == i:
                    loop += weight[p]
                    continue
                if to[labels[j]] == 0.0:
                    near[found] = labels[j]
                    found += 1
                to[labels[j]] += weight[p]
            leave = 2 * (_xlogx(volume[r]) - _xlogx(volume[r] - mine) + _xlogx(size[r] - 1) - _xlogx(size[r]))
            leave += _xlogx(edges[r, r] - 2 * to[r] - loop) - _xlogx(edges[r, r])
            for a in range(found):
                t = near[a]
                if t != r:
                    leave += 2 * (_xlogx(edges[r, t] - to[t]) - _xlogx(edges[r, t]))
            best, s = tol, -1
            for a in range(found):
                t = near[a]
                if t == r:
                    continue
                gain = leave + 2 * (
                    _xlogx(volume[t]) - _xlogx(volume[t] + mine) + _xlogx(size[t] + 1) - _xlogx(size[t])
                )
                gain += _xlogx(edges[t, t] + 2 * to[t] + loop) - _xlogx(edges[t, t])
                gain += 2 * (_xlogx(edges[r, t] + to[r] - to[t]) - _xlogx(edges[r, t] - to[t]))
                for b in range(found):
                    u = near[b]
                    if u != r and u != t:
                        gain += 2 * (_xlogx(edges[t, u] + to[u]) - _xlogx(edges[t, u]))
                if gain > best:
                    best, s = gain, t
            if s >= 0:
                for a in range(found):
                    t = near[a]
                    if t != r and t != s:
                        edges[r, t] -= to[t]
                        edges[s, t] += to[t]
                        edges[t, r], edges[t, s] = edges[r, t], edges[s, t]
                edges[r, r] -= 2 * to[r] + loop
                edges[s, s] += 2 * to[s] + loop
                edges[r, s] += to[r] - to[s]
                edges[s, r] = edges[r, s]
                volume[r] -= mine
                volume[s] += mine
                size[r] -= 1
                size[s] += 1
                labels[i] = s
                gained += best
            for a in range(found):
                to[near[a]] = 0.0
        total += gained
        if gained <= tol:
            break
    return total
