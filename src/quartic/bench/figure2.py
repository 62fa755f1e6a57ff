"""Figure 2 again: normalised RMSE over all distances against time, on the helix, mean over starts."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from quartic.bench.curves import average, complete, curves_of
from quartic.bench.edmc import METHODS, Helix, run_method, warm_up
from quartic.bench.from_starts import FromStarts
from quartic.bench.plots import Axes, Line, Panel, draw
from quartic.bench.store import Row, Store
from quartic.bench.turns import Entry, Say, measuring, take_turns

COLUMNS = ("n", "known", "method", "seed", "seconds", "rmse")
KEY = ("n", "known", "method", "seed")
AXES = Axes("seconds", "normalised RMSE over all distances", floor=1e-10)


@dataclass(frozen=True)
class Figure2Settings(FromStarts):
    """What `run_figure2` runs.

    Parameters
    ----------
    cases : tuple of (int, float)
        Points, and the share of the distances that is known: one panel each. The paper has 10 %, the authors' script
        5 %.
    methods : tuple of str
        Curves.
    starts, first_start : int
        Random starts, and the seed of the first.
    seconds : float
        Limit on a run.
    threads : int
        As in Table 1.
    name : str
        Of the files.

    Examples
    --------
    >>> from quartic.bench import Figure2Settings
    >>> Figure2Settings().cases
    ((2000, 0.1), (5000, 0.1), (2000, 0.05), (5000, 0.05))
    """

    part = ("cases", "methods")

    cases: tuple[tuple[int, float], ...] = ((2000, 0.1), (5000, 0.1), (2000, 0.05), (5000, 0.05))
    methods: tuple[str, ...] = METHODS
    seconds: float = 60.0
    threads: int = 1
    name: str = "figure2"

    @classmethod
    def quick(cls) -> Figure2Settings:
        """Return a choice that takes about two minutes: n = 2000 only, two starts, ten seconds a run."""
        return cls(cases=((2000, 0.1), (2000, 0.05)), starts=2, seconds=10.0, name="figure2-quick")


def run_figure2(
    settings: Figure2Settings, folder: str | os.PathLike[str], say: Say = print, progress: Say = lambda _: None
) -> list[Path]:
    """Run what is not yet there, and draw; return the files made.

    Parameters
    ----------
    settings : Figure2Settings
        What to run.
    folder : path
        Where results are kept; an interrupted run goes on from there.
    say, progress : callable
        Take lines for the user, and words on what is being run.
    """
    store = measure_figure2(settings, folder, say, progress)
    store.export()
    return draw(panels_of(store.rows), folder, settings.name, AXES)


def measure_figure2(
    settings: Figure2Settings, folder: str | os.PathLike[str], say: Say = print, progress: Say = lambda _: None
) -> Store:
    """Run what is not yet there; several processes may do so at once, each its own cases or starts."""
    store = Store(folder, settings.name, COLUMNS, KEY)
    wall = settings.threads > 1
    with measuring(settings.threads, (store, settings.must_agree())):
        warm_up(settings.methods)
        for n, known in settings.cases:
            case = Helix(n, known)
            entries = [
                Entry(method, {"method": method}, partial(_run, case, method, settings.seconds, wall))
                for method in settings.methods
            ]
            title = f"helix n={n}, {known:.0%} known"
            take_turns(store, title, {"n": n, "known": known}, entries, settings.seeds(), progress)
    return store


def _run(case: Helix, method: str, limit: float, wall: bool, seed: int) -> list[dict[str, Any]]:
    return [{"seconds": t, "rmse": error} for t, error in run_method(case, method, seed, limit, wall=wall)]


def times_to(rows: list[Row], n: str, known: str, method: str, target: float) -> list[float | None]:
    """Return, start by start, the seconds to the first iterate measured at or below the target; None if none was."""
    runs = curves_of([r for r in rows if (r["n"], r["known"], r["method"]) == (n, known, method)], [], "rmse")
    return [
        next((float(t) for t, error in zip(times, errors, strict=True) if error <= target), None)
        for times, errors in runs.get((), [])
    ]


def summary(rows: list[Row], targets: tuple[float, ...] = (1e-4, 1e-6, 1e-8)) -> list[str]:
    """Return a Markdown table: mean seconds to each target over the starts that got there, and how many did."""
    lines = [
        "| n | known | method | recovered (RMSE ≤ 1e-4) | " + " | ".join(f"s to {e:g}" for e in targets) + " |",
        "|---|---|---|---|" + "---|" * len(targets),
    ]
    for n, known in cases_of(rows):
        for method in METHODS:
            found = {target: times_to(rows, n, known, method, target) for target in (1e-4, *targets)}
            starts = len(found[1e-4])
            if not starts:
                continue
            words = []
            for target in targets:
                there = [t for t in found[target] if t is not None]
                words.append(
                    f"{sum(there) / len(there):.3f}" + f" ({len(there)})" * (len(there) < starts) if there else "–"
                )
            reached = sum(t is not None for t in found[1e-4])
            lines.append(f"| {n} | {float(known):.0%} | {method} | {reached} of {starts} | " + " | ".join(words) + " |")
    return lines


def panels_of(rows: list[Row]) -> list[Panel]:
    """Return what the rows hold as panels of curves."""
    panels = []
    for n, known in cases_of(rows):
        here = complete([row for row in rows if (row["n"], row["known"]) == (n, known)], "method")
        found = curves_of(here, ["method"], "rmse")
        lines = [Line(method, *average(found[method,])) for method in METHODS if (method,) in found]
        starts = len({row["seed"] for row in here})
        panels.append(Panel(f"helix, n = {n}, {float(known):.0%} known, mean of {starts} start(s)", lines))
    return panels


def cases_of(rows: list[Row]) -> list[tuple[str, str]]:
    """Return the cases the rows are of, the paper's 10 % before the 5 % of the authors' script."""
    return sorted({(row["n"], row["known"]) for row in rows}, key=lambda case: (-float(case[1]), int(case[0])))
