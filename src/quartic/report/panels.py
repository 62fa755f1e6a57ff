"""Panels of curves, logarithmic both ways: as PNG and PDF, and as an HTML page that needs no network."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: One colour for a method in every figure: ours warm, solid; rivals, the paper's too, in cool and grey tones, dashed.
STYLES: dict[str, tuple[str, bool]] = {
    **{name: (colour, True) for name, colour in {
        "dyn-nolips": "#1f4e9c", "dyn-nolips-gram": "#3b9fd1", "pg": "#7f7f7f", "gd": "#9a8c73", "beta": "#b5b5b5",
        "cd": "#5a9c6e", "hals": "#17a3a3", "anls": "#7d6bb8", "tr": "#a874c9", "admm": "#3d3d3d", "snmpbb": "#0b6e4f",
        "pgncg": "#8fbf3f", "lai": "#6fa8dc", "cocain": "#4b5fd6", "abpg": "#2f6f8f", "scaledgd": "#93c5b5",
        "smacof": "#556b2f", "scipy": "#000000"}.items()},
    "inertial": ("#d9480f", False), "lbfgs": ("#f0a020", False), "ncg": ("#c2255c", False), "lm": ("#e377c2", False),
    "face-cg": ("#8c564b", False), "auto": ("#8b1a1a", False),
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
    """Titles of the axes; values below ``floor`` are drawn there, because a logarithm has no zero."""

    across: str
    up: str
    floor: float


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


def draw(panels: list[Panel], folder: str | os.PathLike[str], name: str, axes: Axes) -> list[Path]:
    """Draw panels to ``<name>.png`` and ``.pdf``, two in a row, and ``.html``; return the paths.

    A format whose package (matplotlib, plotly) is not installed is left out.
    """
    made: list[Path] = []
    for painter in (_draw_image, _draw_page) if panels else ():
        try:
            made += painter(panels, Path(folder), name, axes)
        except ImportError:
            continue
    return made


def _draw_page(panels: list[Panel], folder: Path, name: str, axes: Axes) -> list[Path]:
    from quartic.report.page import Section, write_page

    path = folder / f"{name}.html"
    write_page(path, f"quartic: {name}", [Section(axes.up, parts=[interactive(panel, axes) for panel in panels])])
    return [path]


def _draw_image(panels: list[Panel], folder: Path, name: str, titles: Axes) -> list[Path]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_pdf import FigureCanvasPdf
    from matplotlib.figure import Figure

    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(5.2 * columns, 3.6 * rows + 0.6), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    handles = {}
    for axis, panel in zip(axes.flat, panels, strict=False):
        for line in panel.lines:
            colour, dashed = STYLES.get(line.name, ("#000000", False))
            # A mark at the end: a method that is there at its first iterate is a dot.
            (handles[line.name],) = axis.loglog(
                line.times, np.maximum(line.values, titles.floor), color=colour, linestyle="--" if dashed else "-",
                linewidth=1.4 if dashed else 1.8, marker="o", markersize=4, markevery=[len(line.times) - 1],
                label=line.name,
            )  # fmt: skip
        axis.set_title(panel.title, fontsize=10)
        axis.set(xlabel=titles.across, ylabel=titles.up)
        axis.grid(True, which="major", alpha=0.25)
    for axis in list(axes.flat)[len(panels) :]:
        axis.set_visible(False)
    order = [known for known in STYLES if known in handles]
    figure.legend(
        [handles[known] for known in order], order, loc="outside lower center", ncols=min(len(order), 8), frameon=False
    )
    png, pdf = folder / f"{name}.png", folder / f"{name}.pdf"
    FigureCanvasAgg(figure).print_figure(png, dpi=110)
    FigureCanvasPdf(figure).print_figure(pdf)
    return [png, pdf]


def interactive(panel: Panel, axes: Axes) -> tuple[Any, str]:
    """Return a panel as a plotly figure for a page, and the same in words."""
    from plotly.graph_objects import Figure, Scatter

    from quartic.report.figures import layout

    figure = Figure()
    for line in panel.lines:
        colour, dashed = STYLES.get(line.name, ("#000000", False))
        figure.add_trace(
            Scatter(
                x=line.times.tolist(), y=np.maximum(line.values, axes.floor).tolist(), name=line.name,
                mode="lines+markers", marker={"size": [0] * (len(line.times) - 1) + [7]},
                line={"color": colour, "dash": "dash" if dashed else "solid"},
            )
        )  # fmt: skip
    scale = {"type": "log", "exponentformat": "power", "automargin": True}
    figure.update_layout(
        layout(
            panel.title, xaxis={"title": axes.across, "dtick": 1, **scale},
            yaxis={"title": axes.up, "nticks": 8, **scale}, height=520,
            legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "entrywidth": 78, "font": {"size": 12}},
        )
    )  # fmt: skip
    ends = ", ".join(f"{line.name} {line.values[-1]:.1e} after {line.times[-1]:.2g} s" for line in panel.lines)
    return figure, f"Where the curves end: {ends}."
