"""Panels of curves, logarithmic both ways: as PNG and PDF, and as an HTML page that needs no network."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

#: One colour for a method in every figure: the paper's methods in cool and grey tones, dashed; ours warm, solid.
STYLES: dict[str, tuple[str, bool]] = {
    "dyn-nolips": ("#1f4e9c", True),
    "dyn-nolips-gram": ("#3b9fd1", True),
    "pg": ("#7f7f7f", True),
    "gd": ("#7f7f7f", True),
    "beta": ("#b5b5b5", True),
    "cd": ("#5a9c6e", True),
    "hals": ("#17a3a3", True),
    "anls": ("#7d6bb8", True),
    "tr": ("#7d6bb8", True),
    "admm": ("#3d3d3d", True),
    "inertial": ("#d9480f", False),
    "lbfgs": ("#f0a020", False),
    "ncg": ("#c2255c", False),
    "lm": ("#d9480f", False),
    "auto": ("#8b1a1a", False),
}


@dataclass(frozen=True)
class Line:
    """One curve."""

    name: str
    times: NDArray[np.float64]
    values: NDArray[np.float64]


@dataclass(frozen=True)
class Panel:
    """Curves under a title."""

    title: str
    lines: list[Line]


def draw(
    panels: list[Panel], folder: str | os.PathLike[str], name: str, across: str, up: str, floor: float
) -> list[Path]:
    """Draw panels, two in a row, to ``<name>.png``, ``.pdf`` and ``.html``; return the paths.

    A format whose package (matplotlib, plotly) is not installed is left out.

    Parameters
    ----------
    panels : list of Panel
        At least one.
    folder, name
        Where, and under what name.
    across, up : str
        Titles of the axes.
    floor : float
        Values below are drawn here: a logarithm has no zero.
    """
    made = []
    for painter in (_matplotlib, _plotly):
        try:
            made += painter(panels, Path(folder), name, across, up, floor)
        except ImportError:
            continue
    return made


def _matplotlib(panels: list[Panel], folder: Path, name: str, across: str, up: str, floor: float) -> list[Path]:
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
                line.times, np.maximum(line.values, floor), color=colour, linestyle="--" if dashed else "-",
                linewidth=1.4 if dashed else 1.8, marker="o", markersize=4, markevery=[len(line.times) - 1],
                label=line.name,
            )  # fmt: skip
        axis.set_title(panel.title, fontsize=10)
        axis.set_xlabel(across)
        axis.set_ylabel(up)
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


def _plotly(panels: list[Panel], folder: Path, name: str, across: str, up: str, floor: float) -> list[Path]:
    from plotly.graph_objects import Scatter
    from plotly.subplots import make_subplots

    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure = make_subplots(rows, columns, subplot_titles=[panel.title for panel in panels])
    shown: set[str] = set()
    for at, panel in enumerate(panels):
        for line in panel.lines:
            colour, dashed = STYLES.get(line.name, ("#000000", False))
            figure.add_trace(
                Scatter(
                    x=line.times.tolist(), y=np.maximum(line.values, floor).tolist(), name=line.name,
                    legendgroup=line.name, showlegend=line.name not in shown, mode="lines+markers",
                    marker={"size": [0] * (len(line.times) - 1) + [7]},
                    line={"color": colour, "dash": "dash" if dashed else "solid"},
                ),
                row=at // columns + 1, col=at % columns + 1,
            )  # fmt: skip
            shown.add(line.name)
    figure.update_xaxes(type="log", title_text=across, exponentformat="power")
    figure.update_yaxes(type="log", title_text=up, exponentformat="power")
    figure.update_layout(template="plotly_white", height=420 * rows + 60, title_text=name)
    path = folder / f"{name}.html"
    figure.write_html(path, include_plotlyjs=True, full_html=True)
    return [path]
