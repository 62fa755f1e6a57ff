"""Which points hang together: by distances, and by being anchors."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from quartic.arrays import Array
from quartic.locating.input import Measurements

# Anchors are linked to each other, all of them up to this many, else each to so many others.
_ALL_LINKED, _LINKS = 40, 12


def components_of(data: Measurements) -> tuple[NDArray[np.int64], int]:
    """Return the component of each point, the largest first, and how many; anchors hang together."""
    i, j = data.pairs[data.linked].T
    if len(data.anchors):
        first = np.full(len(data.anchors), data.anchors[0])
        i, j = np.concatenate([i, first]), np.concatenate([j, data.anchors])
    graph = sp.coo_array((np.ones(len(i)), (i, j)), shape=(data.n_points, data.n_points))
    count, labels = connected_components(graph, directed=False)
    sizes = np.bincount(labels)
    rank = np.empty(count, dtype=np.int64)
    rank[np.argsort(-sizes, kind="stable")] = np.arange(count)
    return rank[labels], int(count)


def with_anchor_pairs(data: Measurements) -> tuple[NDArray[np.int64], Array, Array, Array, Array | None]:
    """Return the pairs with those between anchors added, or replaced, by the distances of their places."""
    columns = data.pairs, data.lower, data.upper, data.guess, data.weights
    a = len(data.anchors)
    if a < 2:
        return columns
    if a <= _ALL_LINKED:
        at = np.column_stack(np.triu_indices(a, 1))
    else:
        generator = np.random.default_rng(0)
        at = np.column_stack([np.repeat(np.arange(a), _LINKS), generator.integers(a, size=a * _LINKS)])
        at = np.unique(np.sort(at[at[:, 0] != at[:, 1]], axis=1), axis=0)
    place = np.zeros(data.n_points, dtype=bool)
    place[data.anchors] = True
    kept = ~place[data.pairs].all(axis=1)
    d = np.linalg.norm(data.places[at[:, 0]] - data.places[at[:, 1]], axis=1)
    lower, upper, guess = (np.concatenate([column[kept], d]) for column in (data.lower, data.upper, data.guess))
    weights = data.weights
    if weights is not None:
        weights = np.concatenate([weights[kept], np.full(len(d), float(weights.max()))])
    return np.concatenate([data.pairs[kept], data.anchors[at]]), lower, upper, guess, weights
