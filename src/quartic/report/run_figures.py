"""The figure of a run: how it converged."""

from __future__ import annotations

from typing import Any

import numpy as np

from quartic.core.result import Result
from quartic.report.style import COLOURS, layout

_MOST_ITERATIONS = 2000


def convergence(result: Result) -> tuple[Any, str]:
    """Return stationarity and objective of each iteration, and the same in words."""
    import plotly.graph_objects as go

    history = result.history
    kept = np.unique(np.linspace(0, len(history) - 1, min(len(history), _MOST_ITERATIONS)).astype(int))
    floor = np.maximum(history.stationarity[kept], np.finfo(float).tiny)
    mode = "lines+markers" if len(kept) <= 30 else "lines"
    figure = go.Figure(
        [
            go.Scatter(x=kept, y=floor, name="stationarity", mode=mode, line={"color": COLOURS[0]}),
            go.Scatter(
                x=kept,
                y=history.objective[kept],
                name="objective",
                yaxis="y2",
                mode=mode,
                line={"color": COLOURS[5], "dash": "dot"},
            ),
        ]
    )
    logarithmic = bool((history.objective > 0).all()) and history.objective.max() > 100 * history.objective.min()
    figure.update_layout(
        layout(
            "Convergence",
            xaxis={"title": "iteration"},
            yaxis={"title": "stationarity", "type": "log", "exponentformat": "power", "nticks": 6},
            yaxis2={
                "title": "objective", "overlaying": "y", "side": "right", "showgrid": False, "automargin": True,
                "type": "log" if logarithmic else "linear", "exponentformat": "power", "tickmode": "auto", "nticks": 6,
            },
            margin={"l": 60, "r": 60, "t": 35, "b": 45},
        )
    )  # fmt: skip
    return figure, (
        f"Convergence of {result.solver}: {result.n_iter} iterations, {result.n_products} products with the data; "
        f"stationarity fell from {history.stationarity[0]:.2e} to {history.stationarity[-1]:.2e}. {result.message}."
    )
