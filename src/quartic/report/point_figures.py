"""The figures of a localisation, as plotly objects, each with the same in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import Array
from quartic.report.style import COLOURS, layout, shown

_MOST_LINES = 300
_MOST_NAMES = 20
_EYE = {"x": 0.85, "y": -0.95, "z": 0.6}
_MOST_POINTS = 20_000


def scatter_of_points(
    X: Array,
    pairs: NDArray[np.integer[Any]],
    determined: NDArray[np.bool_] | None = None,
    anchors: NDArray[np.integer[Any]] | None = None,
    names: Sequence[object] | None = None,
) -> tuple[Any, str]:
    """Return the points in 2-D or 3-D, some of the known distances as lines, anchors and doubtful points marked."""
    import plotly.graph_objects as go

    n, d = X.shape
    flat = d <= 2
    coordinates = [X[:, k] for k in range(min(d, 3))] + ([np.zeros(n)] if d == 1 else [])
    kind = go.Scatter if flat else go.Scatter3d
    axes = ("x", "y", "z")[: len(coordinates)]
    step = max(1, len(pairs) // _MOST_LINES)
    drawn = np.asarray(pairs)[::step]
    lines = {
        axis: np.column_stack([c[drawn[:, 0]], c[drawn[:, 1]], np.full(len(drawn), np.nan)]).ravel()
        for axis, c in zip(axes, coordinates, strict=True)
    }
    traces = [
        kind(
            **lines,
            mode="lines",
            name="known distances",
            line={"color": "#c8c8c8", "width": 1},
            hoverinfo="skip",
        )
    ]
    sure = np.ones(n, dtype=bool) if determined is None else np.asarray(determined)
    fixed = np.zeros(n, dtype=bool)
    fixed[[] if anchors is None else anchors] = True
    every = max(1, n // _MOST_POINTS)
    visible = np.arange(n) % every == 0
    groups = (
        ("points", sure & ~fixed & visible, COLOURS[0], "circle"),
        ("not determined", ~sure & ~fixed, COLOURS[5], "x"),
        ("anchors", fixed, COLOURS[2], "diamond"),
    )
    for name, which, colour, symbol in groups:
        if which.any():
            at = {axis: c[which] for axis, c in zip(axes, coordinates, strict=True)}
            marker = {"color": colour, "size": 7 if flat else 3.5, "symbol": symbol}
            label = [shown(i if names is None else names[i]) for i in np.flatnonzero(which).tolist()]
            mode = "markers+text" if n <= _MOST_NAMES else "markers"
            style = {"marker": marker, "textposition": "top center", "textfont": {"size": 12}, "hoverinfo": "text"}
            traces.append(kind(**at, mode=mode, name=name, text=label, **style))
    figure = go.Figure(traces)
    how = "drag to move" if flat else "drag to turn"
    title = f"The points ({how})"
    if flat:
        figure.update_layout(layout(title, yaxis={"scaleanchor": "x"}, dragmode="pan"))
    else:
        scene = {
            "aspectmode": "manual",
            "aspectratio": _proportions(X[:, :3]),
            "camera": {"eye": _EYE},
            "dragmode": "turntable",
        }
        figure.update_layout(layout(title, scene=scene, margin={"l": 0, "r": 0, "t": 35, "b": 0}, height=480))
    some = f" (a sample of {len(drawn)} of {len(pairs)} known distances drawn)" if step > 1 else ""
    more = f", of which the first three are drawn{some}" if d > 3 else some
    held = f" {int(fixed.sum())} are anchors." if fixed.any() else ""
    doubt = int((~sure).sum())
    said = f"{doubt} of them are not determined by the data" if doubt else "all of them are determined by the data"
    return figure, f"{n} points in {d} dimensions{more}; {said}.{held}"


def _proportions(X: Array) -> dict[str, float]:
    """Return the box the points fill, its longest side 1: true to scale, and within view however long it is."""
    extent = np.ptp(X, axis=0)
    sides = np.maximum(extent / max(float(extent.max()), 1e-300), 0.05)
    return dict(zip("xyz", sides.tolist(), strict=True))


def residual_histogram(residuals: Array) -> tuple[Any, str]:
    """Return how the errors of the known distances are distributed."""
    import plotly.graph_objects as go

    counts, edges = np.histogram(residuals, bins=_bins(residuals))
    middle = (edges[1:] + edges[:-1]) / 2
    figure = go.Figure(go.Bar(x=middle, y=counts, width=np.diff(edges), marker_color=COLOURS[0]))
    figure.update_layout(
        layout(
            "Errors of the known distances",
            xaxis={"title": "found − given", "exponentformat": "power", "nticks": 6},
            yaxis={"title": "pairs"},
            height=320,
        )
    )
    rms = float(np.sqrt(np.mean(np.square(residuals))))
    return figure, (
        f"Errors of the {len(residuals)} known distances: root mean square {rms:.2e}, "
        f"largest {np.abs(residuals).max():.2e}."
    )


def _bins(residuals: Array) -> int | list[float]:
    low, high = float(residuals.min()), float(residuals.max())
    # all alike to rounding: one bar, with a width that can be seen
    if high - low <= 1e-12 * max(abs(low), abs(high)):
        half = max(abs(low), 1e-300) or 1.0
        return [low - half, high + half]
    return min(60, max(5, int(np.sqrt(len(residuals)))))
