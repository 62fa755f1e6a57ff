"""The report of a localisation: the answer, the points, their errors, and how they were found."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from quartic.arrays import Array
from quartic.io import Structure
from quartic.io.distances import axis_names
from quartic.io.files import count
from quartic.plots import group_points, join_ends
from quartic.report.figures import (
    COLOURS,
    Indices,
    Mask,
    Names,
    convergence,
    layout,
    ring,
    short,
    shown,
    whole_ticks,
)
from quartic.report.page import DataTable, Part, Section

if TYPE_CHECKING:
    from quartic.estimators import DistanceCompletion

_WORST = 10
_MOST_LISTED, _LISTED = 60, 5
_MOST_NAMES = 20
_MOST_LINES = 300
_MOST_POINTS = 8_000  # drawn, and rows of the table: some two megabytes
# Consecutive points are drawn as a chain where they lie so many times nearer to each other than any two do.
_CHAIN, _GAP = 3.0, 4.0
_SCALE = ["#0d0887", "#7e03a8", "#cc4778", "#f89540"]  # plasma without its yellow end, which is lost on white
_EYE = {"x": 1.05, "y": -1.15, "z": 0.7}
_MARGIN = 0.04


def point_section(
    model: DistanceCompletion, pairs: Indices, known: dict[str, Array | None], names: Names | None = None, *,
    anchors: Sequence[int] = (), guessed: str = "", **more: Any
) -> Section:  # fmt: skip
    """Return the section on a model fitted to pairs, with their known distances, lower and upper bounds.

    ``names`` are those of the points, or else their numbers; ``guessed`` says how the data were read;
    ``more`` are title, notes, facts, command and code of the `Section`.
    """
    X, sure = np.asarray(model.embedding_), np.asarray(model.determined_)
    names = range(len(X)) if names is None else names
    residuals, given = residuals_of(X, pairs, *(known.get(kind) for kind in ("distances", "lower", "upper")))
    errors = _errors_of_points(pairs, residuals, len(X))
    at = np.array(sorted(anchors), dtype=np.int64)
    determined = model.determination_.in_words(lambda point: short(names[point]), _MOST_LISTED)
    parts: list[Part] = [
        scatter_of_points(X, pairs, sure, at, names, errors),
        DataTable("What the data determine", [], [], determined),
        residual_histogram(residuals),
        _worst_pairs(X, pairs, residuals, given, names),
        _places(X, sure, errors, names),
    ]
    answer = describe_points(model, len(pairs), names)
    return Section(answer=answer, guessed=guessed, parts=parts, folded=[convergence(model.result_)], **more)


def describe_points(model: DistanceCompletion, n_pairs: int, names: Sequence[object]) -> str:
    """Return the answer in a sentence: how many points are determined, how well distances are met, which are not."""
    n, d = model.embedding_.shape
    doubt = n - int(np.count_nonzero(model.determined_))
    determined = f"{n - doubt} of them determined by the data" if doubt else "all determined by the data"
    account = model.determination_
    free = ""
    if account.n_anchors and not account.anchors_span:
        fix = "1 anchor does not fix" if account.n_anchors == 1 else f"{account.n_anchors} anchors do not fix"
        free = f" {fix} the whole in space ({d + 1} in general position do): it may still be turned or reflected."
    met, left_out = f"the {n_pairs} given distances", ""
    if len(model.outliers_):
        wrong, more = len(model.outliers_), len(model.outliers_) - _LISTED
        pairs = ", ".join(f"{names[i]}–{names[j]}" for i, j in model.outliers_[:_LISTED])
        left_out = f" Left out, since they contradict the others: {pairs}{f' and {more} more' if more > 0 else ''}."
        met = f"{n_pairs - wrong} of {met}"
    return (
        f"{n} points in {count(d, 'dimension')}, {determined}; {met} are met with a root mean square error of "
        f"{model.rmse_:.3g}.{left_out}{free}"
    )


# -- the points -------------------------------------------------------------------------------------------------------


def scatter_of_points(
    X: Array, pairs: Indices, determined: Mask | None = None, anchors: Indices | None = None,
    names: Names | None = None, errors: Array | None = None
) -> tuple[Any, str]:  # fmt: skip
    """Return the points in 2-D or 3-D, coloured by their order or their errors, true to scale.

    Consecutive points are joined where they form a chain, and some of the known distances are drawn otherwise;
    undetermined points are hollow, anchors diamonds.
    """
    import plotly.graph_objects as go

    n, d = X.shape
    flat = d <= 2
    places = np.column_stack([X, np.zeros(n)]) if d == 1 else X[:, :3]
    axes = "xy" if flat else "xyz"
    kind = go.Scatter if flat else go.Scatter3d
    names = range(n) if names is None else names
    errors = np.zeros(n) if errors is None else errors
    rank, links = find_chain(X, pairs, names)

    def lines(ends: Indices, **style: Any) -> Any:
        at = dict(zip(axes, join_ends(places, ends).T.astype(np.float32), strict=True))
        return kind(**at, mode="lines", hoverinfo="skip", **style)

    drawn = np.asarray(pairs)[:: max(1, len(pairs) // _MOST_LINES)]
    hidden = "legendonly" if len(links) else True
    traces = [lines(drawn, name="known distances", line={"color": "#c8c8c8", "width": 1}, visible=hidden)]
    if len(links):
        traces.append(lines(links[:: max(1, n // _MOST_POINTS)], name="chain", line={"color": "#888888", "width": 3}))
    groups = group_points(n, determined, [] if anchors is None else anchors)
    visible = np.arange(n) % max(1, -(-n // _MOST_POINTS)) == 0
    size = (8.0 if flat else 4.0) * (1.0 if n <= 200 else 0.6)
    colourings: dict[str, list[Any]] = {"order": [], "error": []}
    doubt = int(groups["not determined"].sum())
    # hollow ones stand out by their size too, unless they are most of all
    symbols = ("circle", 1.0), ("circle-open", 1.6 if 2 * doubt < n else 1.0), ("diamond", 1.6)
    for (label, which), (symbol, larger) in zip(groups.items(), symbols, strict=True):
        here = np.flatnonzero(which & (visible | groups["anchors"])).tolist()
        if not here:
            continue
        colourings["order"].append(rank[here].tolist())
        colourings["error"].append([float(f"{error:.3g}") for error in errors[here]])
        text = [shown(names[i]) for i in here]
        more = "<br>not determined" if label == "not determined" else ""
        hover = [f"{name}<br>error {errors[i]:.2g}{more}" for name, i in zip(text, here, strict=True)]
        traces.append(
            kind(
                **dict(zip(axes, places[here].T.astype(np.float32), strict=True)), name=label, text=text,
                mode="markers+text" if n <= _MOST_NAMES else "markers", hovertext=hover, hoverinfo="text",
                marker={"color": rank[here], "coloraxis": "coloraxis", "symbol": symbol,
                        "size": size * larger, "line": {"width": 0 if symbol == "circle" else 2}},
                textposition="top center", textfont={"size": 12}, **({"cliponaxis": False} if flat else {}),
            )
        )  # fmt: skip
    look = layout(
        f"The points (drag to {'move' if flat else 'turn'})", find="Find a point",
        coloraxis={"colorscale": _SCALE, "colorbar": _colour_bar(n)},
        legend={"orientation": "h", "y": -0.1 if flat else 0, "yanchor": "top"},
        updatemenus=[_switch(colourings, len(traces), n)], **_true_to_scale(places, flat),
    )  # fmt: skip
    some = f" (a sample of {len(drawn)} of {len(pairs)} known distances drawn)" if len(drawn) < len(pairs) else ""
    some = "; consecutive points are joined" if len(links) else some
    more = f", of which the first three are drawn{some}" if d > 3 else some
    held = f" {int(groups['anchors'].sum())} are anchors." if groups["anchors"].any() else ""
    told = f"{doubt} of them, hollow, are not determined by the data" if doubt else "all are determined by the data"
    return go.Figure([*traces, kind(ring(flat))], look), f"{n} points in {count(d, 'dimension')}{more}; {told}.{held}"


def find_chain(X: Array, pairs: Indices, names: Names) -> tuple[Indices, Indices]:
    """Return the place of each point in the order of the points, and the links of the chain they form, if they do.

    The order is that of the numbers in the names, where each has one of its own, or of the residues. It is a chain
    where nearly all consecutive points have a known distance and few others do, or where they lie much nearer than
    any two points.
    """
    n = len(X)
    numbers = [re.findall(r"\d+", str(name)) for name in names]
    order = np.arange(n)
    if all(numbers) and len({found[-1] for found in numbers}) == n:
        order = np.argsort([int(found[-1]) for found in numbers], kind="stable")
    elif (atoms := Structure.named([str(name) for name in names])) is not None:
        order = np.lexsort((atoms.residue_ids, np.array(atoms.chains)))
    rank = np.empty(n, dtype=np.intp)
    rank[order] = np.arange(n)
    links = np.column_stack([order[:-1], order[1:]])
    if n < 10:
        return rank, links[:0]
    steps = np.linalg.norm(X[links[:, 0]] - X[links[:, 1]], axis=1)
    other = np.random.default_rng(0).permutation(n)
    near = float(np.median(steps)) * _CHAIN < float(np.median(np.linalg.norm(X - X[other], axis=1)))
    apart = np.abs(rank[pairs[:, 0]] - rank[pairs[:, 1]])
    bonded = 0.9 * (n - 1) <= np.count_nonzero(apart == 1) and len(pairs) < n * (n - 1) / 4
    return rank, links[steps <= _GAP * np.median(steps)] if near or bonded else links[:0]


def _true_to_scale(places: Array, flat: bool) -> dict[str, Any]:
    """Return axes with one scale for all, which hold every point, however long and thin the whole is."""
    if flat:
        axis = {"zeroline": False, "automargin": True}
        return {"xaxis": axis, "yaxis": {**axis, "scaleanchor": "x"}, "dragmode": "pan", "height": 560,
                "margin": {"l": 45, "r": 10, "t": 90, "b": 35}}  # fmt: skip
    low, high = places.min(axis=0), places.max(axis=0)
    room = _MARGIN * max(float((high - low).max()), 1e-300)
    low, high = low - room, high + room
    sides = (high - low) / (high - low).max()
    sides *= min(1.35, np.sqrt(3) / np.linalg.norm(sides))  # long and thin things fill the frame too
    scene: dict[str, Any] = {
        "aspectmode": "manual", "aspectratio": dict(zip("xyz", sides.tolist(), strict=True)),
        "camera": {"eye": _EYE, "projection": {"type": "orthographic"}}, "dragmode": "turntable",
    }  # fmt: skip
    for name, a, b in zip("xyz", low.tolist(), high.tolist(), strict=True):
        scene[f"{name}axis"] = {"range": [a, b], "nticks": 4, "title": name, "tickfont": {"size": 10}}
    return {"scene": scene, "margin": {"l": 0, "r": 0, "t": 90, "b": 0}, "height": 560}


def _colour_bar(n: int) -> dict[str, Any]:
    """Return a bar beside the buttons and above the points, whose width on a telephone they need for themselves."""
    where = {"orientation": "h", "x": 1, "xanchor": "right", "y": 1, "yanchor": "bottom", "len": 0.45, "thickness": 10}
    return {**where, "title": {"text": "order", "side": "top"}, "nticks": 5, "tickfont": {"size": 11}, **whole_ticks(n)}


def _switch(colourings: dict[str, list[Any]], n_traces: int, n: int) -> dict[str, Any]:
    """Return buttons that colour the points, the last traces but that of what is found, one way or the other."""
    buttons = []
    for name, colours in colourings.items():
        points = list(range(n_traces - len(colours), n_traces))
        ticks = whole_ticks(n).get("dtick") if name == "order" else None
        bar = {"coloraxis.colorbar.title.text": name, "coloraxis.colorbar.dtick": ticks}
        change = [{"marker.color": colours}, bar, points]
        buttons.append({"label": f"by {name}", "method": "update", "args": change})
    where = {"x": 0, "xanchor": "left", "y": 1.0, "yanchor": "bottom", "pad": {"b": 6}}
    return {"type": "buttons", "direction": "right", "buttons": buttons, **where}


def _places(X: Array, sure: Mask, errors: Array, names: Names) -> DataTable:
    n, d = X.shape
    rows = [
        [short(names[i]), *(f"{value:.5g}" for value in X[i].tolist()), f"{errors[i]:.2g}", "yes" if sure[i] else "no"]
        for i in range(min(n, _MOST_POINTS))
    ]
    words = f"The first {_MOST_POINTS} of {n}; all are in the output." if n > _MOST_POINTS else ""
    return DataTable(
        "Where every point is", ["point", *axis_names(d), "error", "determined"], rows,
        f"The error is the root mean square error of the point's distances. {words}".rstrip(), "Find a point",
    )  # fmt: skip


# -- errors -----------------------------------------------------------------------------------------------------------


def residuals_of(
    X: Array, pairs: Indices, distances: Array | None, lower: Array | None, upper: Array | None
) -> tuple[Array, list[str]]:
    """Return by how much each pair misses its distance or its bounds, and what was given for it, in words."""
    d = np.linalg.norm(X[pairs[:, 0]] - X[pairs[:, 1]], axis=1)
    nothing = np.full(len(pairs), np.nan)
    exact = nothing if distances is None else distances
    low = nothing if lower is None else lower
    high = nothing if upper is None else upper
    free = np.isnan(low) & np.isnan(high)
    floor = np.where(free, exact, np.nan_to_num(low))
    ceiling = np.where(free, exact, np.where(np.isnan(high), np.inf, high))
    words = [
        f"{a:.6g}" if a == b else f"{a:.4g} to {b:.4g}" for a, b in zip(floor.tolist(), ceiling.tolist(), strict=True)
    ]
    residuals: Array = d - np.clip(d, floor, ceiling)
    return residuals, words


def _errors_of_points(pairs: Indices, residuals: Array, n: int) -> Array:
    """Return the root mean square of the errors of each point's distances; 0 where it has none."""
    ends, squares = np.asarray(pairs).T.ravel(), np.tile(np.square(residuals), 2)
    errors: Array = np.sqrt(np.bincount(ends, squares, n) / np.maximum(np.bincount(ends, minlength=n), 1))
    return errors


def residual_histogram(residuals: Array) -> tuple[Any, str]:
    """Return how the errors of the known distances are distributed."""
    import plotly.graph_objects as go

    counts, edges = np.histogram(residuals, bins=_bins(residuals))
    middle = (edges[1:] + edges[:-1]) / 2
    axis = {"title": "found − given", "exponentformat": "power", "nticks": 6}
    figure = go.Figure(
        go.Bar(x=middle, y=counts, width=np.diff(edges), marker_color=COLOURS[0]),
        layout("Errors of the known distances", xaxis=axis, yaxis={"title": "pairs"}, height=320),
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


def _worst_pairs(X: Array, pairs: Indices, residuals: Array, given: Sequence[str], names: Names) -> DataTable:
    worst = np.argsort(-np.abs(residuals), kind="stable")[:_WORST]
    found = np.linalg.norm(X[pairs[worst, 0]] - X[pairs[worst, 1]], axis=1)
    rows = [
        [short(names[pairs[k, 0]]), short(names[pairs[k, 1]]), given[k], f"{d:.6g}", f"{residuals[k]:+.2e}"]
        for k, d in zip(worst.tolist(), found.tolist(), strict=True)
    ]
    return DataTable("The pairs that fit worst", ["point", "point", "given", "found", "error"], rows)
