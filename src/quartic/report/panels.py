"""Panels of curves over a logarithmic axis, as PNG and PDF."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: One colour for a method in every figure: ours warm, solid; rivals, the paper's too, cool or grey, dashed.
OURS = {
    "inertial": "#d9480f", "lbfgs": "#f0a020", "ncg": "#c2255c", "lm": "#e377c2", "face-cg": "#8c564b",
    "auto": "#8b1a1a",
}  # fmt: skip
RIVALS = {
    "dyn-nolips": "#1f4e9c", "dyn-nolips-gram": "#3b9fd1", "pg": "#7f7f7f", "gd": "#9a8c73", "beta": "#b5b5b5",
    "cd": "#5a9c6e", "hals": "#17a3a3", "anls": "#7d6bb8", "tr": "#a874c9", "admm": "#3d3d3d", "snmpbb": "#0b6e4f",
    "pgncg": "#8fbf3f", "lai": "#6fa8dc", "cocain": "#4b5fd6", "abpg": "#2f6f8f", "scaledgd": "#93c5b5",
    "lvs-hals": "#1f4e79", "smacof": "#556b2f", "scipy": "#000000",
}  # fmt: skip


class Line(NamedTuple):
    """One curve."""

    name: str
    times: Floats
    values: Floats


class Panel(NamedTuple):
    """Curves under a title."""

    title: str
    lines: list[Line]


class Axes(NamedTuple):
    """Titles of the axes; values below ``floor`` are drawn there, because a logarithm has no zero; 0: no logarithm."""

    across: str
    up: str
    floor: float
    columns: int = 2


def average(runs: Sequence[tuple[Floats, Floats]], n_times: int = 120) -> tuple[Floats, Floats]:
    """Return times, evenly spaced in the logarithm, and the mean over the runs of the last value seen by then.

    Times begin where every run has been seen; a run that has ended stays at its last value.
    """
    first = max(float(times[0]) for times, _ in runs)
    last = max(float(times[-1]) for times, _ in runs)
    at = np.geomspace(first, max(last, first * (1 + 1e-9)), n_times)
    at[0], at[-1] = first, max(last, first)  # themselves, not what rounding makes of them
    values = [found[np.searchsorted(times, at, side="right") - 1] for times, found in runs]
    return at, np.mean(values, axis=0)


def draw(panels: list[Panel], stem: Path, titles: Axes) -> list[Path]:
    """Draw panels to ``<stem>.png`` and ``.pdf``, and return the paths; none without matplotlib."""
    if not panels or find_spec("matplotlib") is None:
        return []
    from matplotlib.figure import Figure

    columns = min(titles.columns, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(5.2 * columns, 3.6 * rows + 0.6), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    handles = {}
    for axis, panel in zip(axes.flat, panels, strict=False):
        for line in panel.lines:
            dashes = {"linestyle": "--", "linewidth": 1.4} if line.name in RIVALS else {"linewidth": 1.8}
            # A mark at the end: a method that is there at its first iterate is a dot.
            (handles[line.name],) = axis.plot(
                line.times, np.maximum(line.values, titles.floor), color=(OURS | RIVALS).get(line.name, "#000000"),
                marker="o", markersize=4, markevery=[len(line.times) - 1], label=line.name, **dashes,
            )  # fmt: skip
        axis.set_title(panel.title, fontsize=10)
        axis.set(xlabel=titles.across, ylabel=titles.up, xscale="log", yscale="log" if titles.floor else "linear")
        axis.grid(True, which="major", alpha=0.25)
    for axis in list(axes.flat)[len(panels) :]:
        axis.set_visible(False)
    order = [known for known in RIVALS | OURS if known in handles]
    figure.legend(
        [handles[known] for known in order], order, loc="outside lower center", ncols=min(len(order), 8), frameon=False
    )
    for kind in ("png", "pdf"):  # without pyplot, savefig chooses a canvas that needs no screen
        figure.savefig(stem.with_suffix(f".{kind}"), dpi=110)
    return [stem.with_suffix(".png"), stem.with_suffix(".pdf")]
