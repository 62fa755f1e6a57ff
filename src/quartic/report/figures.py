"""The figures of the report, as plotly objects; colours that colour-blind readers can tell apart."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import Array, RandomState, random_generator
from quartic.result import Result

# Okabe and Ito's palette
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")

_LARGEST_HEAT_MAP = 400
_MOST_LINES = 400


def convergence(result: Result) -> tuple[Any, str]:
    """Return stationarity and objective against time, and the same in words."""
    import plotly.graph_objects as go

    history = result.history
    floor = np.maximum(history.stationarity, np.finfo(float).tiny)
    figure = go.Figure(
        [
            go.Scatter(x=history.time, y=floor, name="stationarity", line={"color": COLOURS[0]}),
            go.Scatter(
                x=history.time,
                y=history.objective,
                name="objective",
                yaxis="y2",
                line={"color": COLOURS[5], "dash": "dot"},
            ),
        ]
    )
    figure.update_layout(
        xaxis_title="seconds",
        yaxis={"title": "stationarity", "type": "log", "exponentformat": "power"},
        yaxis2={"title": "objective", "overlaying": "y", "side": "right", "showgrid": False},
        **_layout(),
    )
    return figure, (
        f"Convergence of {result.solver}: {result.n_iter} iterations, {result.n_products} products with the data; "
        f"stationarity fell from {history.stationarity[0]:.2e} to {history.stationarity[-1]:.2e}. {result.message}."
    )


def reordered_similarity(M: Any, labels: NDArray[np.integer[Any]], random_state: RandomState = 0) -> tuple[Any, str]:
    """Return the similarity matrix with rows and columns ordered by cluster; a sample of them where there are many."""
    import plotly.graph_objects as go
    import scipy.sparse as sp

    n = len(labels)
    kept = np.arange(n)
    if n > _LARGEST_HEAT_MAP:
        kept = np.sort(random_generator(random_state).choice(n, _LARGEST_HEAT_MAP, replace=False))
    kept = kept[np.argsort(labels[kept], kind="stable")]
    block = sp.csr_array(M)[kept][:, kept].toarray() if sp.issparse(M) else np.asarray(M)[np.ix_(kept, kept)]
    top = float(np.quantile(block[block > 0], 0.9)) if (block > 0).any() else 1.0
    figure = go.Figure(go.Heatmap(z=block.astype(np.float32), colorscale="Viridis", zmin=0, zmax=top, showscale=False))
    figure.update_layout(
        xaxis={"constrain": "domain"},
        yaxis={"autorange": "reversed", "scaleanchor": "x", "constrain": "domain"},
        **_layout(),
    )
    sample = f", a random {len(kept)} of {n} nodes" if len(kept) < n else ""
    within = float(block[labels[kept][:, None] == labels[kept][None, :]].sum() / max(block.sum(), 1e-300))
    return figure, (
        f"Similarities ordered by cluster{sample}: blocks on the diagonal are clusters; "
        f"they hold {100 * within:.0f} % of the weight shown."
    )


def cluster_sizes(labels: NDArray[np.integer[Any]]) -> tuple[Any, str]:
    """Return a bar for the size of each cluster."""
    import plotly.graph_objects as go

    sizes = np.bincount(labels)
    figure = go.Figure(go.Bar(x=list(range(len(sizes))), y=sizes, marker_color=COLOURS[0]))
    figure.update_layout(
        xaxis={"title": "cluster", "dtick": max(1, len(sizes) // 20)}, yaxis_title="nodes", **_layout()
    )
    return figure, f"{len(sizes)} clusters; the smallest has {sizes.min()} nodes, the largest {sizes.max()}."


def scatter_of_points(
    X: Array,
    pairs: NDArray[np.integer[Any]],
    determined: NDArray[np.bool_] | None = None,
    anchors: NDArray[np.integer[Any]] | None = None,
) -> tuple[Any, str]:
    """Return the points in 2-D or 3-D, some of the known distances as lines, anchors and doubtful points marked."""
    import plotly.graph_objects as go

    n, d = X.shape
    flat = d == 2
    coordinates = [X[:, k] for k in range(min(d, 3))] + ([np.zeros(n)] if d == 1 else [])
    flat = flat or d == 1
    kind = go.Scatter if flat else go.Scatter3d
    names = ("x", "y", "z")[: len(coordinates)]
    step = max(1, len(pairs) // _MOST_LINES)
    shown = np.asarray(pairs)[::step]
    lines = {
        name: np.column_stack([c[shown[:, 0]], c[shown[:, 1]], np.full(len(shown), np.nan)]).ravel()
        for name, c in zip(names, coordinates, strict=True)
    }
    traces = [
        kind(
            **lines,
            mode="lines",
            name="known distances",
            line={"color": "rgba(120, 120, 120, 0.35)", "width": 1},
            hoverinfo="skip",
        )
    ]
    sure = np.ones(n, dtype=bool) if determined is None else determined
    fixed = np.zeros(n, dtype=bool)
    fixed[[] if anchors is None else anchors] = True
    groups = (
        ("points", sure & ~fixed, COLOURS[0], "circle"),
        ("not determined", ~sure & ~fixed, COLOURS[5], "x"),
        ("anchors", fixed, COLOURS[2], "diamond"),
    )
    for name, which, colour, symbol in groups:
        if which.any():
            at = {axis: c[which] for axis, c in zip(names, coordinates, strict=True)}
            marker = {"color": colour, "size": 5 if flat else 3, "symbol": symbol}
            label = [f"point {i}" for i in np.flatnonzero(which)]
            traces.append(kind(**at, mode="markers", name=name, marker=marker, text=label, hoverinfo="text"))
    figure = go.Figure(traces)
    equal = {"yaxis": {"scaleanchor": "x"}} if flat else {"scene": {"aspectmode": "data"}}
    figure.update_layout(**equal, **_layout())
    some = f" (a sample of {len(shown)} of {len(pairs)} known distances drawn)" if step > 1 else ""
    return figure, f"{n} points in {d} dimensions{some}; {int((~sure).sum())} of them are not determined by the data."


def residual_histogram(residuals: Array) -> tuple[Any, str]:
    """Return how the errors of the known distances are distributed."""
    import plotly.graph_objects as go

    figure = go.Figure(go.Histogram(x=residuals, nbinsx=60, marker_color=COLOURS[0]))
    figure.update_layout(xaxis_title="distance − given", yaxis_title="pairs", **_layout())
    rms = float(np.sqrt(np.mean(np.square(residuals))))
    return figure, (
        f"Errors of the {len(residuals)} known distances: root mean square {rms:.2e}, "
        f"largest {np.abs(residuals).max():.2e}."
    )


def _layout() -> dict[str, Any]:
    return {
        "template": "simple_white",
        "margin": {"l": 55, "r": 20, "t": 20, "b": 45},
        "height": 420,
        "legend": {"orientation": "h", "y": 1.08},
        "font": {"size": 13},
    }
