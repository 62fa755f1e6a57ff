"""Distances between named points, and what cannot be in a list of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quartic.io.errors import FileFormatError


@dataclass(frozen=True, eq=False)
class DistanceTable:
    """Distances between named points.

    Attributes
    ----------
    pairs : ndarray of int64 (m, 2)
        Pairs, counted from 0.
    distances : ndarray (m,) or None
        Their distances; NaN where only bounds are known.
    lower, upper, weights : ndarray (m,) or None
        Bounds and weights; NaN where there is no bound.
    names : tuple of str
        Of the points.
    guess : str
        How the file was read, in words.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.io import DistanceTable
    >>> DistanceTable(np.array([[0, 1]]), np.array([2.0]), None, None, None, ("a", "b")).n_points
    2
    """

    pairs: NDArray[np.int64]
    distances: NDArray[np.float64] | None
    lower: NDArray[np.float64] | None
    upper: NDArray[np.float64] | None
    weights: NDArray[np.float64] | None
    names: tuple[str, ...]
    guess: str = ""
    places: Sequence[str] = field(default=(), repr=False)  # where each pair stands in the file

    @property
    def n_points(self) -> int:
        """Number of points."""
        return len(self.names)

    def columns(self) -> dict[str, Any]:
        """Return what `DistanceCompletion.fit_pairs` takes, by name."""
        return {
            "distances": self.distances,
            "lower": self.lower,
            "upper": self.upper,
            "weights": self.weights,
            "n_points": self.n_points,
        }


def check_rows(table: DistanceTable, name: str) -> None:
    """Raise an error that names the first row that cannot be: not a number, negative, twice with different values."""
    same = table.pairs[:, 0] == table.pairs[:, 1]
    if same.any():
        raise FileFormatError(f"{_at(name, table, int(np.argmax(same)))}: a point is paired with itself; take it out")
    columns = {
        "distance": table.distances,
        "lower bound": table.lower,
        "upper bound": table.upper,
        "weight": table.weights,
    }
    bounded = table.lower is not None or table.upper is not None
    for what, column in columns.items():
        if column is None:
            continue
        bad = column < 0
        if what == "weight" or (what == "distance" and not bounded):
            bad |= np.isnan(column)
        if what != "upper bound":
            bad |= np.isinf(column)
        if bad.any():
            at = int(np.argmax(bad))
            word = "is negative" if column[at] < 0 else "is not a finite number"
            raise FileFormatError(
                f"{_at(name, table, at)}: the {what} {column[at]:g} {word}; correct it or take it out"
            )
    if bounded:
        _check_bounds(table, name)
    key = np.sort(table.pairs, axis=1) @ np.array([table.n_points, 1])
    order = np.argsort(key, kind="stable")
    again = np.flatnonzero(key[order][1:] == key[order][:-1]) + 1
    one, two = order[again - 1], order[again]
    for what, column in columns.items():
        if column is None:
            continue
        a, b = column[one], column[two]
        differs = ~((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= 1e-9 * np.maximum(np.abs(a), np.abs(b))))
        if differs.any():
            at = int(np.argmax(differs))
            p, q = (table.names[k] for k in table.pairs[two[at]])
            raise FileFormatError(
                f"{_at(name, table, int(two[at]))}: the {what} of {p} and {q} is {b[at]:g}, but {a[at]:g} in "
                f"{table.places[one[at]]}; keep one of them, or their mean"
            )


def _at(name: str, table: DistanceTable, row: int) -> str:
    """Return where a row stands, ``file:line`` where it has a line."""
    place = table.places[row]
    return f"{name}:{place.removeprefix('line ')}" if place.startswith("line ") else f"{name}: {place}"


def _check_bounds(table: DistanceTable, name: str) -> None:
    nothing = np.full(len(table.pairs), np.nan)
    d = nothing if table.distances is None else table.distances
    low = nothing if table.lower is None else table.lower
    high = nothing if table.upper is None else table.upper
    empty = np.isnan(d) & np.isnan(low) & np.isnan(high)
    crossed = low > high
    outside = (d < low * (1 - 1e-9)) | (d > high * (1 + 1e-9))
    for bad, fault in (
        (empty, "neither a distance nor a bound; take it out"),
        (crossed, "the lower bound is above the upper; exchange them"),
        (outside, "the distance is outside its bounds; correct one of them"),
    ):
        if bad.any():
            raise FileFormatError(f"{_at(name, table, int(np.argmax(bad)))}: {fault}")
