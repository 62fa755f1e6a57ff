"""Whether the curvature pairs of a checkpoint are what compiled passes may follow: those do not look."""

from __future__ import annotations

from typing import Any

import numpy as np

from quartic.arrays import to_host


def check_lists(where: Any, steps: Any, changes: Any, shape: tuple[int, int]) -> None:
    """Raise unless ``where`` lists places of an X of this shape, none twice, and pairs are no longer than it.

    Without a list pairs are of the shape of X.
    """
    if not (isinstance(where, tuple) and isinstance(steps, tuple) and isinstance(changes, tuple)) or len(where) > 1:
        raise ValueError("pairs are no tuples")
    if len(steps) != len(changes):
        raise ValueError(f"{len(steps)} steps, but {len(changes)} changes of the gradient")
    if where:
        _check_places(np.asarray(to_host(where[0])), shape[0] * shape[1])
    for s, y in zip(steps, changes, strict=True):
        fits = (s.ndim == 1 and len(s) <= len(where[0])) if where else tuple(s.shape) == shape
        if not (fits and s.shape == y.shape and s.dtype == y.dtype):
            raise ValueError(f"a pair of shapes {tuple(s.shape)} and {tuple(y.shape)} does not go with X")


def _check_places(places: Any, size: int) -> None:
    if places.ndim != 1 or places.dtype.kind != "i":
        raise ValueError(f"a list of places is {places.dtype} of shape {places.shape}")
    there = places[places >= 0]
    if len(there) and (there.max() >= size or len(np.unique(there)) < len(there)):
        raise ValueError("a list of places leads out of X, or to one place twice")
