"""Points whose coordinates are known."""

from __future__ import annotations

from typing import Any

import numpy as np

from quartic.arrays import Array
from quartic.distance.pair_graph import Indices


def checked_anchors(anchors: Any, n_points: int) -> Indices:
    """Return anchors as sorted distinct indices, or say which is wrong."""
    if anchors is None:
        return np.empty(0, dtype=np.int64)
    known = np.asarray(list(anchors) if not isinstance(anchors, np.ndarray) else anchors)
    if known.size == 0:
        return np.empty(0, dtype=np.int64)
    if known.dtype.kind not in "iu" or known.ndim != 1:
        raise TypeError("anchors must be a sequence of point indices; their coordinates are read from X")
    if known.min() < 0 or known.max() >= n_points:
        worst = int(known.min() if known.min() < 0 else known.max())
        raise ValueError(f"anchor {worst} is outside 0..{n_points - 1}")
    if len(np.unique(known)) < len(known):
        values, counts = np.unique(known, return_counts=True)
        raise ValueError(f"anchor {int(values[counts > 1][0])} is listed twice")
    return np.sort(known.astype(np.int64))


def spanning_anchors(X: Array, known: Indices) -> Indices:
    """Return affinely independent anchors, at most d + 1, chosen far apart."""
    if len(known) == 0:
        return known
    A = X[known] - X[known].mean(axis=0)
    chosen = [int(np.argmax(np.sum(A**2, axis=1)))]
    A = A - A[chosen[0]]
    scale = np.sqrt(np.sum(A**2, axis=1).max())
    for _ in range(X.shape[1]):
        lengths = np.sqrt(np.sum(A**2, axis=1))
        best = int(np.argmax(lengths))
        if lengths[best] <= 1e-6 * scale:
            break
        chosen.append(best)
        direction = A[best] / lengths[best]
        A = A - np.outer(A @ direction, direction)
    result: Indices = np.sort(known[chosen])
    return result
