"""Lists of pairs as people have them, made into one in which each pair stands once, with bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import Array
from quartic.core.units import exponent, shifted
from quartic.locating.anchors_input import checked_anchors
from quartic.losses.pairs.input import check_column, check_pairs

_FAR = 100  # log₂ of distances that are scaled before they are worked with: beyond 1e±30


@dataclass(frozen=True, eq=False)
class Measurements:
    """Pairs i < j, each once and in order, with bounds on their distances and what else is known.

    Attributes
    ----------
    n_points : int
    pairs : array of int64 (m, 2)
    lower, upper : array (m,)
        Bounds on the distance; equal where it is known exactly. ``upper`` may be infinite.
    guess : array (m,)
        A value within the bounds, for starts.
    weights : array (m,) or None
        Weights of the residuals of squared distances.
    anchors : array of int64 (a,)
    places : array (a, r)
        Where the anchors are.
    n_repeated : int
        Pairs that were given more than once.
    power : int
        Distances and places are in a unit 2^power times the user's; 0 unless those are far from one.
    proportional : bool
        Whether the noise is said to be in proportion to the distances.
    """

    n_points: int
    pairs: NDArray[np.int64]
    lower: Array
    upper: Array
    guess: Array
    weights: Array | None
    anchors: NDArray[np.int64]
    places: Array
    n_repeated: int = 0
    power: int = 0
    proportional: bool = False

    @property
    def exact(self) -> NDArray[np.bool_]:
        """Where the distance is known exactly."""
        return np.asarray(self.lower == self.upper)

    @property
    def linked(self) -> NDArray[np.bool_]:
        """Where the pair holds its points together; a lower bound alone only keeps them apart."""
        return np.isfinite(self.upper)


def from_pairs(
    pairs: Any, distances: Any, n_points: int | None, weights: Any, lower: Any, upper: Any, anchors: Any, rank: int
) -> Measurements:
    """Return the measurements of a list of pairs."""
    given = np.asarray(pairs)
    m = len(given) if given.ndim == 2 else 0
    pairs, _, _, n = check_pairs(pairs, np.zeros(m), _points_with_anchors(given, n_points, anchors), None, "distances")
    same = pairs[:, 0] == pairs[:, 1]
    if same.any():
        at = int(np.argmax(same))
        raise ValueError(f"pairs[{at}] = {pairs[at].tolist()} joins a point to itself; leave such pairs out")
    low, high, guess = _bounds(m, distances, lower, upper)
    w: Array | None = None
    if isinstance(weights, str):
        _check_noise_word(weights)
    elif weights is not None:
        w = check_column(weights, m, "weights", nonnegative=True).astype(np.float64)
    flipped = pairs[:, 0] > pairs[:, 1]
    pairs[flipped] = pairs[flipped][:, ::-1]
    pairs, low, high, guess, w, repeated = _each_once(pairs, low, high, guess, w, n)
    index, places = checked_anchors(anchors, n, rank)
    power = power_of_distances(high, low)
    low, high, guess, places = (shifted(column, -power) for column in (low, high, guess, places))
    if isinstance(weights, str):
        w = noise_weights(guess)
    return Measurements(n, pairs, low, high, guess, w, index, places, repeated, power, isinstance(weights, str))


def keys_of(pairs: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Return a number for each pair, which sorts them by row."""
    keys: NDArray[np.int64] = pairs[:, 0] * n + pairs[:, 1]
    return keys


def _points_with_anchors(pairs: NDArray[Any], n_points: int | None, anchors: Any) -> int | None:
    """Return the number of points where it is left out: enough for the anchors too."""
    if n_points is not None or not isinstance(anchors, Mapping) or pairs.size == 0 or pairs.dtype.kind not in "iu":
        return n_points
    try:
        highest = max((int(k) for k in anchors), default=-1)
    except (TypeError, ValueError):
        return n_points
    return max(int(pairs.max()), highest) + 1


def _bounds(m: int, distances: Any, lower: Any, upper: Any) -> tuple[Array, Array, Array]:
    """Return lower and upper bounds and a guess between them, or raise an error that names the row."""

    def column(values: Any, name: str) -> Array:
        values = np.asarray(values)
        if values.dtype.kind not in "fiub":
            raise TypeError(f"{name} must be real numbers, got dtype {values.dtype}")
        if values.ndim == 0:
            values = np.full(m, float(values))
        if values.shape != (m,):
            raise ValueError(f"{name} must have shape ({m},), one number for each pair, got {values.shape}")
        clean: Array = values.astype(np.float64)
        if (clean < 0).any():
            at = int(np.argmax(clean < 0))
            raise ValueError(f"{name}[{at}] = {clean[at]} is negative; a distance cannot be")
        return clean

    bounded = lower is not None or upper is not None
    if distances is None and not bounded:
        raise ValueError("give distances, or lower and upper bounds of them")
    d = np.full(m, np.nan) if distances is None else column(distances, "distances")
    bad = np.isinf(d) if bounded else ~np.isfinite(d)
    if bad.any():
        at = int(np.argmax(bad))
        raise ValueError(f"distances[{at}] is {d[at]}; leave unknown pairs out, every listed distance must be finite")
    low = np.full(m, np.nan) if lower is None else column(lower, "lower")
    high = np.full(m, np.nan) if upper is None else column(upper, "upper")
    if np.isinf(low).any():
        at = int(np.argmax(np.isinf(low)))
        raise ValueError(f"lower[{at}] is infinite; a lower bound must be finite")
    free = np.isnan(low) & np.isnan(high)
    nothing = free & np.isnan(d)
    if nothing.any():
        at = int(np.argmax(nothing))
        raise ValueError(f"pair {at} has neither a distance nor a bound; leave it out")
    low, high = np.where(free, d, np.nan_to_num(low)), np.where(free, d, np.where(np.isnan(high), np.inf, high))
    wrong = low > high
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ValueError(f"lower[{at}] = {low[at]} is above upper[{at}] = {high[at]}; bounds need lower <= upper")
    outside = (d < low * (1 - 1e-9)) | (d > high * (1 + 1e-9))
    if outside.any():
        at = int(np.argmax(outside))
        raise ValueError(
            f"distances[{at}] = {d[at]} is outside its bounds [{low[at]}, {high[at]}]; bounds are what is kept, the "
            "distance of such a pair is only where the search begins"
        )
    middle = np.where(np.isfinite(high), 0.5 * (low + np.where(np.isfinite(high), high, 0.0)), low)
    return low, high, np.where(np.isnan(d), middle, d)


def _each_once(
    pairs: NDArray[np.int64], low: Array, high: Array, guess: Array, w: Array | None, n: int
) -> tuple[NDArray[np.int64], Array, Array, Array, Array | None, int]:
    """Return the pairs in order, each once; a pair given again must say the same."""
    key = keys_of(pairs, n)
    if (key[1:] > key[:-1]).all():
        return pairs, low, high, guess, w, 0
    order = np.argsort(key, kind="stable")
    key, pairs, low, high, guess = key[order], pairs[order], low[order], high[order], guess[order]
    w = None if w is None else w[order]
    later = np.flatnonzero(key[1:] == key[:-1]) + 1
    for name, column in (("distance", low), ("distance", high), ("weight", w)):
        if column is None:
            continue
        one, two = column[later], column[later - 1]
        differs = (one != two) & ~(np.abs(one - two) <= 1e-9 * np.maximum(np.abs(one), np.abs(two)))
        if differs.any():
            at = int(later[np.argmax(differs)])
            raise ValueError(
                f"the pair ({pairs[at, 0]}, {pairs[at, 1]}) is given twice and differs: {name} {column[at - 1]} in row "
                f"{order[at - 1]}, {column[at]} in row {order[at]}; keep one of them, or their mean"
            )
    kept = np.ones(len(key), dtype=bool)
    kept[later] = False
    repeated = len(np.unique(key[later]))
    return pairs[kept], low[kept], high[kept], guess[kept], None if w is None else w[kept], repeated


def noise_weights(distances: Array) -> Array:
    """Return w = 1/(δ + 0.01·mean δ), δ = d²: the weights that make up for noise in proportion to the distance."""
    squares = distances**2
    scale = float(squares.mean())
    weights: Array = 1.0 / (squares + 0.01 * scale) if scale > 0 else np.ones_like(squares)
    return weights


def _check_noise_word(weights: str) -> None:
    if weights != "noise":
        raise ValueError(f'weights must be an array, None or "noise", got {weights!r}')


def power_of_distances(upper: Array, lower: Array) -> int:
    """Return log₂ of the unit to work in: 0, but where the squares of squares would come near the ends of the range."""
    power = exponent(np.where(np.isfinite(upper), upper, lower))
    return power if power is not None and abs(power) > _FAR else 0
