"""Figures in matplotlib, for scripts and notebooks; the methods ``plot`` of results and estimators draw them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from quartic.arrays import Array, RandomState, random_generator, to_host
from quartic.core.result import History
from quartic.distributed.inputs import is_dask_array

# Okabe and Ito's palette, which colour-blind readers can tell apart
_BLUE, _ORANGE, _GREEN, _VERMILION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
_MOST_LINES, _MOST_ROWS = 500, 400
_NEIGHBOURS = 9
_LARGEST_BLOCK = 400  # of a matrix on other machines
_SEED = 271828  # not that of data made with seed 0, whose first nodes would then be those of one cluster


def new_figure(size: tuple[float, float] = (5.5, 3.6)) -> Any:
    """Return a new figure of pyplot's, now its current one, so that notebooks show it and ``plt.savefig`` writes it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plot needs matplotlib: pip install 'quartic[report]'") from error
    return plt.figure(figsize=size, layout="constrained")


def new_axes(projection: str | None = None, size: tuple[float, float] = (5.5, 3.6)) -> Any:
    """Return the axes of a new figure."""
    return new_figure(size).add_subplot(projection=projection)


def history(run: History, against: str = "n_iter", ax: Any = None) -> Any:
    """Draw stationarity and objective against iterations, seconds or products."""
    ax = new_axes() if ax is None else ax
    x = {"n_iter": np.arange(len(run)), "time": run.time, "n_products": run.n_products}.get(against)
    if x is None:
        raise ValueError(f"against must be n_iter, time or n_products, got {against!r}")
    floor = np.maximum(run.stationarity, np.finfo(np.float64).tiny)
    (one,) = ax.semilogy(x, floor, color=_BLUE, label="stationarity")
    words = {"n_iter": "iteration", "time": "seconds", "n_products": "products"}
    ax.set(xlabel=words[against], ylabel="stationarity")
    right = ax.twinx()
    (two,) = right.plot(x, run.objective, color=_VERMILION, linestyle=":", label="objective")
    if (run.objective > 0).all() and run.objective.max() > 100 * run.objective.min():
        right.set_yscale("log")
    right.set_ylabel("objective")
    ax.legend(handles=[one, two], loc="upper right")
    return ax


def similarity(M: Any, labels: NDArray[np.integer[Any]], ax: Any = None, random_state: Any = _SEED) -> Any:
    """Draw the similarity matrix with rows and columns ordered by cluster; a sample of them where there are many."""
    ax = new_axes(size=(4.5, 4.5)) if ax is None else ax
    kept, found_among = sample_nodes(M, _MOST_ROWS, random_state)
    order = np.argsort(labels[kept], kind="stable")
    kept, block = kept[order], found_among.toarray()[np.ix_(order, order)]
    top = float(np.quantile(block[block > 0], 0.9)) if (block > 0).any() else 1.0
    ax.imshow(block, cmap="viridis", vmin=0, vmax=top, interpolation="nearest")
    found, first, count = np.unique(labels[kept], return_index=True, return_counts=True)
    for edge in first[1:]:
        ax.axhline(edge - 0.5, color="white", linewidth=0.5)
        ax.axvline(edge - 0.5, color="white", linewidth=0.5)
    middle = first + (count - 1) / 2
    ax.set_xticks(middle, found)
    ax.set_yticks(middle, found)
    sample = f" (a sample of {len(kept)} of {len(labels)} nodes)" if len(kept) < len(labels) else ""
    ax.set(xlabel="cluster", ylabel="cluster", title=f"Similarities by cluster{sample}")
    return ax


def memberships(shares: Array, ax: Any = None, labels: NDArray[np.integer[Any]] | None = None) -> Any:
    """Draw how much each node belongs to each cluster, nodes ordered by cluster (their largest share) and by doubt."""
    labels = shares.argmax(axis=1) if labels is None else labels
    ax = new_axes(size=(6.5, 1.2 + 0.25 * shares.shape[1])) if ax is None else ax
    image = ax.imshow(
        shares[membership_order(shares, labels)].T, aspect="auto", cmap="cividis", vmin=0, vmax=1,
        interpolation="nearest",
    )  # fmt: skip
    ax.figure.colorbar(image, ax=ax, label="membership")
    ax.set(xlabel="nodes, ordered by cluster", ylabel="cluster", xticks=[])
    ax.yaxis.get_major_locator().set_params(integer=True)
    return ax


def points(
    X: Array,
    pairs: NDArray[np.integer[Any]] | None = None,
    determined: NDArray[np.bool_] | None = None,
    anchors: Sequence[int] = (),
    ax: Any = None,
) -> Any:
    """Draw points in the plane or in space, some known distances as lines, anchors and doubtful points marked."""
    n, d = X.shape
    flat = d <= 2
    ax = new_axes(None if flat else "3d", (5.0, 5.0)) if ax is None else ax
    places = np.column_stack([X, np.zeros(n)]) if d == 1 else X[:, : 2 if flat else 3]
    if pairs is not None and len(pairs):
        chosen = np.asarray(pairs)[:: max(1, len(pairs) // _MOST_LINES)]
        ax.plot(*join_ends(places, chosen).T, color="0.8", linewidth=0.6, zorder=0)
    looks = ({"color": _BLUE}, {"facecolors": "none", "edgecolors": _VERMILION}, {"color": _GREEN, "marker": "D"})
    for (name, which), look in zip(group_points(n, determined, list(anchors)).items(), looks, strict=True):
        if which.any():
            ax.scatter(*places[which].T, s=14, label=name, **look)
    ax.set_aspect("equal")
    ax.legend()
    return ax


def join_ends(places: Array, pairs: NDArray[np.integer[Any]]) -> Array:
    """Return the two ends of each pair below each other, and NaN below them, where lines are broken."""
    gap = np.full((len(pairs), places.shape[1]), np.nan, dtype=places.dtype)
    joined: Array = np.stack([places[pairs[:, 0]], places[pairs[:, 1]], gap], axis=1).reshape(-1, places.shape[1])
    return joined


def group_points(n: int, determined: NDArray[np.bool_] | None, anchors: Any) -> dict[str, NDArray[np.bool_]]:
    """Return which points are anchors, which of the others the data do not determine, and the rest, first."""
    sure = np.ones(n, dtype=bool) if determined is None else np.asarray(determined)
    fixed = np.zeros(n, dtype=bool)
    fixed[anchors] = True
    return {"points": sure & ~fixed, "not determined": ~sure & ~fixed, "anchors": fixed}


def errors(residuals: Array, ax: Any = None) -> Any:
    """Draw how the errors of the known distances are distributed."""
    ax = new_axes() if ax is None else ax
    ax.hist(residuals, bins=min(60, max(5, int(np.sqrt(len(residuals))))), color=_BLUE)
    rms = float(np.sqrt(np.mean(np.square(residuals))))
    ax.set(xlabel="found − given", ylabel="pairs", title=f"Errors of the known distances: {rms:.2g} (RMS)")
    return ax


# -- which nodes are drawn --------------------------------------------------------------------------------------------


def sample_nodes(M: Any, most: int, random_state: RandomState = _SEED) -> tuple[NDArray[np.intp], sp.csr_array]:
    """Return at most so many nodes, in rising order, and the similarities among them.

    A sample grows by nodes drawn at random, each with its strongest neighbours: of a sparse graph, nodes alone would
    leave hardly a link between them.
    """
    n = M.shape[0]
    generator = random_generator(random_state)
    if is_dask_array(M):
        kept = np.sort(generator.choice(n, min(n, most, _LARGEST_BLOCK), replace=False))
        return kept, sp.csr_array(M[kept][:, kept].compute())
    A = sp.csr_array(M) if sp.issparse(M) else to_host(M)
    kept = np.arange(n)
    if n > most:
        chosen: dict[int, None] = {}
        for node in generator.permutation(n).tolist():
            row = A[[node]]
            near, weights = (row.indices, row.data) if sp.issparse(row) else (np.arange(n), row[0])
            strongest = near[np.argsort(-weights, kind="stable")[:_NEIGHBOURS]]
            chosen.update(dict.fromkeys([node, *strongest.tolist()]))
            if len(chosen) >= most:
                break
        kept = np.sort(np.fromiter(chosen, dtype=np.intp)[:most])
    block = A[kept][:, kept] if len(kept) < n else A
    return kept, sp.csr_array(block)


def membership_order(memberships: Array, labels: NDArray[np.integer[Any]], most: int = _MOST_ROWS) -> NDArray[np.intp]:
    """Return the nodes shown, ordered by cluster and then by how surely they belong to it."""
    order: NDArray[np.intp] = np.lexsort((-own_shares(memberships, labels), labels))
    if len(order) > most:
        order = order[np.linspace(0, len(order) - 1, most).astype(int)]
    return order


def own_shares(memberships: Array, labels: NDArray[np.integer[Any]]) -> Array:
    """Return how much each node belongs to the cluster of its label."""
    own: Array = memberships[np.arange(len(labels)), labels]
    return own


# -- panels of curves over a logarithmic axis, of the benchmarks ------------------------------------------------------

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
    times: Array
    values: Array


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


def average(runs: Sequence[tuple[Array, Array]], n_times: int = 120) -> tuple[Array, Array]:
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
