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


def convergence(result: Result) -> tuple[Any, str]:
    """Return stationarity and objective of each iteration of the run that led to the result, and the same in words."""
    import plotly.graph_objects as go

    history = result.history
    x = np.unique(np.linspace(0, len(history) - 1, _MOST_ITERATIONS).astype(int))
    stationarity, objective = history.stationarity[x], history.objective[x]
    style = {"x": x, "mode": "lines+markers" if len(x) <= 30 else "lines", "marker": {"size": 4}}
    floor = np.maximum(stationarity, np.finfo(float).tiny)
    dotted = {"color": COLOURS[5], "dash": "dot"}
    traces = [
        go.Scatter(y=floor, name="stationarity", line={"color": COLOURS[0]}, **style),
        go.Scatter(y=objective, name="objective", yaxis="y2", line=dotted, **style),
    ]
    logarithmic = objective.min() > 0 and objective.max() > 100 * objective.min()
    axis = {"exponentformat": "power", "nticks": 6}
    look = layout(
        "Convergence",
        xaxis={"title": "iteration", **whole_ticks(len(x))},
        yaxis={"title": "stationarity", "type": "log", **axis},
        yaxis2={"title": "objective", "overlaying": "y", "side": "right", "showgrid": False, "automargin": True,
                "type": "log" if logarithmic else "linear", "tickmode": "auto", **axis},
        margin={"l": 60, "r": 60, "t": 35, "b": 45},
    )  # fmt: skip
    return go.Figure(traces, look), (
        f"{result.solver}: {count(result.n_iter, 'iteration')} and {result.n_products} products with the data in all; "
        f"in the run shown stationarity fell from {history.stationarity[0]:.2e} to {history.stationarity[-1]:.2e}. "
        f"Status: {result.message}."
    )
