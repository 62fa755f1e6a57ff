"""Anchors as people have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import Array


def checked_anchors(anchors: Any, n: int, rank: int) -> tuple[NDArray[np.int64], Array]:
    """Return indices and places of the anchors, or raise an error that says what is wrong with them."""
    if anchors is None or (hasattr(anchors, "__len__") and len(anchors) == 0):
        return np.empty(0, dtype=np.int64), np.empty((0, rank))
    if not isinstance(anchors, Mapping):
        raise TypeError(f"anchors must be a dict {{index: coordinates}}, got {type(anchors).__name__}")
    index, places = [], []
    for k, place in anchors.items():
        if isinstance(k, bool) or not isinstance(k, int | np.integer):
            raise TypeError(f"anchors must have integer indices as keys, got {k!r}")
        if not 0 <= k < n:
            raise ValueError(f"anchor {k} is outside the {n} points; indices count from 0")
        row = np.asarray(place, dtype=np.float64)
        if row.shape != (rank,):
            raise ValueError(
                f"anchor {k} has coordinates of shape {row.shape}, but n_components = {rank}: {rank} numbers are needed"
            )
        if not np.isfinite(row).all():
            raise ValueError(f"anchor {k} has coordinates {row.tolist()}; they must be finite")
        index.append(int(k))
        places.append(row)
    order = np.argsort(index)
    found = np.array(places)[order]
    if len(found) > 1 and (found == found[0]).all():
        raise ValueError(f"all {len(found)} anchors are at the same place, {found[0].tolist()}; they must differ")
    if len(index) == n:
        raise ValueError("every point is an anchor; there is nothing to find")
    return np.array(index, dtype=np.int64)[order], found
