"""Curves: something measured along a run, thinned, and averaged over starts at common times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import Array
from quartic.bench.store import Row
from quartic.bench.watch import Watch

Floats = NDArray[np.float64]


class Thinning:
    """Measures a run at times that grow by a constant factor, off the clock.

    Parameters
    ----------
    watch : Watch
        The run's.
    measure : callable
        Takes X, returns a number.
    factor : float
        Between one measurement and the next.

    Examples
    --------
    >>> from quartic.bench.curves import Thinning
    >>> from quartic.bench.watch import Watch
    >>> curve = Thinning(Watch(), measure=lambda X: 1.0)
    >>> curve.see(None)
    >>> curve.last(None)
    >>> len(curve.points) in (1, 2)
    True
    """

    def __init__(self, watch: Watch, measure: Callable[[Any], float], factor: float = 1.08) -> None:
        self.watch, self.measure, self.factor = watch, measure, factor
        self.points: list[tuple[float, float]] = []

    def see(self, X: Array | None) -> None:
        """Look at an iterate."""
        now = self.watch.seconds()
        if not self.points or now >= self.factor * self.points[-1][0]:
            with self.watch.paused():
                self.points.append((now, float(self.measure(X))))

    def last(self, X: Array | None) -> None:
        """Look at the last iterate, whatever the time."""
        now = self.watch.seconds()
        if not self.points or now > self.points[-1][0]:
            self.points.append((now, float(self.measure(X))))


def average(runs: list[tuple[Floats, Floats]], n_times: int = 120) -> tuple[Floats, Floats]:
    """Return times, evenly spaced in the logarithm, and the mean over the runs of the last value seen by then.

    Times begin where every run has been seen; a run that has ended stays at its last value.

    Parameters
    ----------
    runs : list of (times, values)
        At least one.
    n_times : int
        How many times.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.bench.curves import average
    >>> a = (np.array([1.0, 2.0]), np.array([4.0, 2.0]))
    >>> b = (np.array([1.0, 4.0]), np.array([8.0, 0.0]))
    >>> times, values = average([a, b], n_times=3)
    >>> values
    array([6., 5., 1.])
    """
    if not runs:
        raise ValueError("there are no runs to average")
    first = max(float(times[0]) for times, _ in runs)
    last = max(float(times[-1]) for times, _ in runs)
    # The first and the last are themselves, not what rounding makes of them.
    at = np.geomspace(first, max(last, first * (1 + 1e-9)), n_times)
    at[0], at[-1] = first, max(last, first)
    values = [found[np.searchsorted(times, at, side="right") - 1] for times, found in runs]
    return at, np.mean(values, axis=0)


def curves_of(rows: list[Row], group: list[str], value: str) -> dict[tuple[str, ...], list[tuple[Floats, Floats]]]:
    """Return the runs of each group, each as times and values."""
    found: dict[tuple[str, ...], dict[str, list[tuple[float, float]]]] = {}
    for row in rows:
        runs = found.setdefault(tuple(row[name] for name in group), {})
        runs.setdefault(row["seed"], []).append((float(row["seconds"]), float(row[value])))
    return {
        key: [(np.array([t for t, _ in run]), np.array([v for _, v in run])) for run in runs.values()]
        for key, runs in found.items()
    }


def complete(rows: list[Row], who: str) -> list[Row]:
    """Return the rows of those starts that all have run, of a case under way; of all starts, if there is none.

    Parameters
    ----------
    rows : list of dict
        Of one case.
    who : str
        The column that tells who ran.

    Examples
    --------
    >>> from quartic.bench.curves import complete
    >>> rows = [{"who": who, "seed": seed} for who, seed in (("a", "0"), ("a", "1"), ("b", "0"))]
    >>> [row["seed"] for row in complete(rows, "who")]
    ['0', '0']
    """
    seeds: dict[str, set[str]] = {}
    for row in rows:
        seeds.setdefault(row[who], set()).add(row["seed"])
    common = set.intersection(*seeds.values()) if seeds else set()
    return [row for row in rows if row["seed"] in common] if common else rows
