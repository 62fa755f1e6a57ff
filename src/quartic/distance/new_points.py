"""Points added to an answer: each is placed from its distances to points that stay where they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from quartic.arrays import Array
from quartic.distance.cuts import FLAT
from quartic.distance.findings import DistanceWarning, UndeterminedWarning, mark
from quartic.distance.moves import fit_places, mirror_images, places_to_try

# Distances agree with a place where they differ by this share of the largest.
_AGREES = 1e-6


def place_new_points(
    embedding: Array, D: Any, lower: Any = None, upper: Any = None
) -> tuple[Array, list[DistanceWarning]]:
    r"""Return places for new points, and a warning of those that their distances leave open.

    Each minimises :math:`\sum_j (\|x - y_j\|^2 - d_j^2)^2` over its known distances to the n fitted points (rows of D
    and bounds are the new ones), for a pair with bounds the square of by how much the squared distance leaves them.
    Tried are the place of linear least squares and its mirror images in the planes of the neighbours; the lowest
    counts. A point at distance 0 from a fitted one is where that is, unless its other distances contradict that.
    """
    n, rank = embedding.shape
    m = D.shape[0]
    columns = [_dense_row_reader(given, (m, n), name) for name, given in (("lower", lower), ("upper", upper))]
    row_of = _dense_row_reader(D, (m, n), "X")
    X = np.empty((m, rank))
    open_ones = []
    for k in range(m):
        d, low, high = row_of(k), columns[0](k), columns[1](k)
        bounded = ~(np.isnan(low) & np.isnan(high))
        known = np.flatnonzero(bounded | ~np.isnan(d))
        if len(known) == 0:
            raise ValueError(f"row {k} holds no known distance or bound; a new point needs {rank + 1} to be placed")
        low = np.where(bounded, np.nan_to_num(low), d)[known]
        high = np.where(bounded, np.where(np.isnan(high), np.inf, high), d)[known]
        if (low < 0).any() or (low > high).any():
            j = int(known[np.argmax((low < 0) | (low > high))])
            raise ValueError(f"X[{k}, {j}]: distances must not be negative, and bounds need lower <= upper")
        Y = embedding[known]
        at_zero = np.flatnonzero(high == 0)
        if len(at_zero):
            there = np.linalg.norm(Y - Y[at_zero[0]], axis=1)
            if (np.abs(there - np.clip(there, low, high)) <= _AGREES * there.max()).all():
                X[k] = Y[at_zero[0]]
                continue
        middle = (low + np.where(np.isinf(high), low, high)) / 2
        X[k] = _place(Y, low, high, np.where(np.isnan(d[known]), middle, d[known]))
        if _is_open(Y[low == high], X[k]):
            open_ones.append(k)
    if not open_ones:
        return X, []
    shown = ", ".join(mark(k) for k in open_ones[:8]) + (", ..." if len(open_ones) > 8 else "")
    few = f"fewer than {rank + 1} exact distances, or neighbours that lie nearly flat"
    return X, [
        UndeterminedWarning(f"{len(open_ones):,} of {m:,} new points have {few}: {shown}; they may sit elsewhere")
    ]


def _place(Y: Array, low: Array, high: Array, guess: Array) -> Array:
    """Return the best place for one point."""
    starts = places_to_try(Y.mean(axis=0), Y, guess, np.random.default_rng(0))
    tries = np.vstack([starts, *(mirror_images(start, Y) for start in starts)])
    x, misfit = fit_places(tries, Y, low, high, steps=25)
    best: Array = x[misfit.argmin()]
    return best


def _is_open(Y: Array, x: Array) -> bool:
    """Tell whether exact distances to Y leave the point x a mirror image."""
    if len(Y) <= Y.shape[1]:
        return True
    center = Y.mean(axis=0)
    extent = np.linalg.svd(Y - center, compute_uv=False)[-1] / np.sqrt(len(Y))
    reach = np.sqrt(np.mean(np.sum((x - Y) ** 2, axis=1)))
    return bool(extent <= 1e-3 * FLAT * reach)


def _dense_row_reader(given: Any, shape: tuple[int, int], name: str) -> Any:
    """Return a function that reads a row as an array with NaN where nothing is known."""
    if given is None:
        return lambda k: np.full(shape[1], np.nan)
    if given.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, one column for each fitted point, got {given.shape}")
    if not sp.issparse(given):
        return lambda k: np.asarray(given[k], dtype=np.float64)
    rows = sp.csr_array(given)

    def read(k: int) -> Array:
        row = np.full(shape[1], np.nan)
        inside = slice(rows.indptr[k], rows.indptr[k + 1])
        row[rows.indices[inside]] = rows.data[inside]
        return row

    return read
