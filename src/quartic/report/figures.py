"""What figures share: colours that colour-blind readers can tell apart, the layout; and how a run converged."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quartic.core.result import Result
from quartic.io.files import count

# Okabe and Ito's palette
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
# clusters: yellow cannot be seen on white; after seven of them the shapes change
_SEEN = (*COLOURS[:6], "#777777")
_SHAPES = ("circle", "square", "diamond", "triangle-up", "star", "hexagon", "pentagon", "cross")
_MOST_ITERATIONS = 2000
_LONGEST = 40

# of each run, (stationarity, objective) after each iteration
Runs = Sequence[Sequence[tuple[float, float]]]
Names = Sequence[object]
Indices = NDArray[np.integer[Any]]
Mask = NDArray[np.bool_]


def layout(title: str, **more: Any) -> dict[str, Any]:
    """Return the layout of a figure; the page sets its title above it, and a box to search it where ``find`` asks."""
    find = {"find": more.pop("find")} if "find" in more else {}
    return {
        "template": "simple_white",
        "margin": {"l": 55, "r": 20, "t": 35, "b": 45},
        "height": 420,
        "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom"},
        "dragmode": False,  # a finger that comes by scrolls the page
        "font": {"size": 13},
        "meta": {"title": title, **find},
        **more,
    }


def cluster_marker(k: int) -> dict[str, str]:
    """Return the colour and the shape of a cluster, the same in all figures."""
    return {"color": _SEEN[k % len(_SEEN)], "symbol": _SHAPES[k // len(_SEEN) % len(_SHAPES)]}


def short(name: object) -> str:
    """Return a name, cut where it is long."""
    text = str(name)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def shown(name: object) -> str:
    """Return a name as plotly shows it letter by letter: it would take <b> and links for markup."""
    return escape(short(name), quote=False)


def ring(flat: bool = True) -> dict[str, Any]:
    """Return the empty last trace of a figure that can be searched: what is found is ringed by it."""
    place: dict[str, Any] = {"x": [], "y": []} if flat else {"x": [], "y": [], "z": []}
    line = {"color": "#000000", "width": 3}
    marker = {"symbol": "circle-open", "size": 18 if flat else 12, "line": line, "color": "#000000"}
    return {**place, "mode": "markers+text", "text": [], "textposition": "top center", "hoverinfo": "skip",
            "marker": marker, "showlegend": False, "name": "found"}  # fmt: skip


def whole_ticks(n: int) -> dict[str, Any]:
    """Return what keeps the ticks of an axis that counts to n at whole numbers."""
    return {"dtick": 1} if n <= 6 else {}


def convergence(result: Result, runs: Runs = ()) -> tuple[Any, str]:
    """Return stationarity and objective of each iteration of all runs, and the same in words.

    Where nobody watched the runs, the history of the result is drawn.
    """
    import plotly.graph_objects as go

    history = result.history
    values = [np.array(run) for run in runs if len(run)]
    if sum(map(len, values)) < len(history):  # of one run, the history knows the start too
        values = [np.column_stack([history.stationarity, history.objective])]
    kept = np.unique(np.linspace(0, sum(map(len, values)) - 1, _MOST_ITERATIONS).astype(int))
    # a gap where a run begins
    gaps = np.flatnonzero(np.diff(np.searchsorted(np.cumsum([len(run) for run in values]), kept, side="right"))) + 1
    x = np.insert(kept.astype(float), gaps, np.nan)
    stationarity, objective = np.insert(np.concatenate(values)[kept], gaps, np.nan, axis=0).T
    style = {"x": x, "mode": "lines+markers" if len(kept) <= max(30, 3 * len(gaps)) else "lines", "marker": {"size": 4}}
    floor = np.maximum(stationarity, np.finfo(float).tiny)
    dotted = {"color": COLOURS[5], "dash": "dot"}
    traces = [
        go.Scatter(y=floor, name="stationarity", line={"color": COLOURS[0]}, **style),
        go.Scatter(y=objective, name="objective", yaxis="y2", line=dotted, **style),
    ]
    logarithmic = np.nanmin(objective) > 0 and np.nanmax(objective) > 100 * np.nanmin(objective)
    axis = {"exponentformat": "power", "nticks": 6}
    look = layout(
        "Convergence",
        xaxis={"title": "iteration" if len(values) == 1 else f"iteration, {len(values)} runs one after the other",
               **whole_ticks(len(x))},
        yaxis={"title": "stationarity", "type": "log", **axis},
        yaxis2={"title": "objective", "overlaying": "y", "side": "right", "showgrid": False, "automargin": True,
                "type": "log" if logarithmic else "linear", "tickmode": "auto", **axis},
        margin={"l": 60, "r": 60, "t": 35, "b": 45},
    )  # fmt: skip
    many, best = ("", "") if len(values) == 1 else (f" in {len(values)} runs", " in the best run")
    return go.Figure(traces, look), (
        f"{result.solver}: {count(result.n_iter, 'iteration')}{many}, {result.n_products} products with the data; "
        f"stationarity fell from {history.stationarity[0]:.2e} to {history.stationarity[-1]:.2e}{best}. "
        f"Status: {result.message}."
    )
