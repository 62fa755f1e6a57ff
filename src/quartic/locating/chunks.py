"""Pairs that stay in Dask's chunks: some of each point are brought here, to begin with."""

from __future__ import annotations

from typing import Any

import numpy as np

from quartic.distributed.inputs import is_dask_frame
from quartic.locating.input import Measurements, from_pairs
from quartic.losses.blocks.dask_distances import DaskDistances

# So many pairs a point are brought here.
_PAIRS_EACH = 60.0


def from_chunks(
    pairs: Any, distances: Any, n_points: int | None, weights: Any, anchors: Any, rank: int
) -> tuple[Measurements, DaskDistances | None]:
    """Return measurements to search with, and all pairs, None where the measurements are all."""
    if isinstance(weights, str) and not is_dask_frame(pairs):
        raise TypeError(f"weights = {weights!r} is for pairs in memory; give a Dask array of weights")
    if distances is None:
        raise ValueError("give the distances of the pairs")
    everything = DaskDistances(pairs, distances, n_points, weights, power=1)
    few, squared, w = everything.thinned(_PAIRS_EACH)
    data = from_pairs(few, np.sqrt(squared), everything.n_points, w, None, None, anchors, rank)
    return data, everything if len(few) < everything.n_pairs else None
