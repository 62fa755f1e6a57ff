"""The figures of a clustering, as plotly objects, each with the same in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from quartic.arrays import Array, RandomState, random_generator
from quartic.distributed.inputs import entries_among, is_dask_array
from quartic.report.style import COLOURS, layout, shown

_LARGEST_HEAT_MAP = 400
_MOST_NAMES = 16
# A node with a smaller share in its cluster than this stands between clusters.
_SURE = 0.6


def reordered_similarity(
    M: Any, labels: NDArray[np.integer[Any]], names: Sequence[object] | None = None, random_state: RandomState = 0
) -> tuple[Any, str]:
    """Return the similarity matrix with rows and columns ordered by cluster; a sample of them where there are many."""
    import plotly.graph_objects as go

    kept, block = ordered_block(M, labels, random_state)
    n = len(labels)
    top = float(np.quantile(block[block > 0], 0.9)) if (block > 0).any() else 1.0
    figure = go.Figure(
        go.Heatmap(
            z=block.astype(np.float32), colorscale="Viridis", zmin=0, zmax=top, showscale=False,
            hoverinfo="z", zhoverformat=".3g",
        )
    )  # fmt: skip
    ticks = _ticks(labels[kept], None if names is None else [names[i] for i in kept])
    figure.update_layout(
        layout(
            "Similarities, ordered by cluster",
            xaxis={"constrain": "domain", **ticks},
            yaxis={"autorange": "reversed", "scaleanchor": "x", "constrain": "domain", **ticks},
        )
    )
    sample = f", a random {len(kept)} of {n} nodes" if len(kept) < n else ""
    within = float(block[labels[kept][:, None] == labels[kept][None, :]].sum() / max(block.sum(), 1e-300))
    return figure, (
        f"Similarities ordered by cluster{sample}: blocks on the diagonal are clusters; "
        f"they hold {100 * within:.0f} % of the weight shown."
    )


def ordered_block(
    M: Any, labels: NDArray[np.integer[Any]], random_state: RandomState = 0
) -> tuple[NDArray[np.intp], Array]:
    """Return the nodes shown, ordered by cluster, and their block of the matrix."""
    n = len(labels)
    kept = np.arange(n)
    if n > _LARGEST_HEAT_MAP:
        kept = np.sort(random_generator(random_state).choice(n, _LARGEST_HEAT_MAP, replace=False))
    kept = kept[np.argsort(labels[kept], kind="stable")]
    if is_dask_array(M):
        return kept, entries_among(M, kept)
    block = sp.csr_array(M)[kept][:, kept].toarray() if sp.issparse(M) else np.asarray(M)[np.ix_(kept, kept)]
    return kept, block


def cluster_sizes(labels: NDArray[np.integer[Any]], n_clusters: int | None = None) -> tuple[Any, str]:
    """Return a bar for the size of each cluster."""
    import plotly.graph_objects as go

    sizes = np.bincount(labels, minlength=n_clusters or 0)
    figure = go.Figure(go.Bar(x=list(range(len(sizes))), y=sizes, marker_color=COLOURS[0]))
    figure.update_layout(
        layout(
            "Sizes of the clusters",
            xaxis={"title": "cluster", "dtick": max(1, len(sizes) // 20)},
            yaxis={"title": "nodes"},
            height=320,
        )
    )
    empty = int((sizes == 0).sum())
    said = f"; {empty} are empty" if empty else ""
    return figure, f"{len(sizes)} clusters; the smallest has {sizes.min()} nodes, the largest {sizes.max()}{said}."


def membership_chart(memberships: Array, names: Sequence[object] | None = None) -> tuple[Any, str]:
    """Return how much each node belongs to each cluster, as a heat map: nodes ordered by cluster and by doubt."""
    import plotly.graph_objects as go

    kept = membership_order(memberships)
    n, k = memberships.shape
    strongest = memberships.max(axis=1)
    ticks: dict[str, Any] = {"showticklabels": False, "ticks": ""}
    if names is not None and len(kept) <= _MOST_NAMES:
        ticks = {"tickvals": list(range(len(kept))), "ticktext": [shown(names[i]) for i in kept], "tickangle": -90}
    figure = go.Figure(
        go.Heatmap(
            z=memberships[kept].T.astype(np.float32), colorscale="Cividis", zmin=0, zmax=1,
            colorbar={"thickness": 12, "tickformat": ".0%", "len": 0.9},
            hoverinfo="text", hovertext=_membership_words(memberships, kept, names),
        )
    )  # fmt: skip
    figure.update_layout(
        layout(
            "Soft memberships",
            xaxis={"title": "nodes, ordered by cluster", "automargin": True, **ticks},
            yaxis={"title": "cluster", "dtick": max(1, k // 20), "autorange": "reversed"},
            height=max(260, min(560, 140 + 26 * k)),
        )
    )
    doubtful = int((strongest < _SURE).sum())
    sample = f" ({len(kept)} of {n} nodes shown)" if len(kept) < n else ""
    return figure, (
        f"How much each node belongs to each cluster{sample}: on average a node belongs to its own cluster by "
        f"{100 * strongest.mean():.0f} %; {doubtful} of {n} nodes stand between clusters, below {100 * _SURE:.0f} %."
    )


def _membership_words(memberships: Array, kept: NDArray[np.intp], names: Sequence[object] | None) -> list[list[str]]:
    """Return what is said of each cell: in plain words, since not every version of plotly fills in templates here."""
    called = [shown(i if names is None else names[i]) for i in kept]
    return [
        [f"{name}: {share:.0%} in cluster {cluster}" for name, share in zip(called, shares, strict=True)]
        for cluster, shares in enumerate(memberships[kept].T)
    ]


def membership_order(memberships: Array) -> NDArray[np.intp]:
    """Return the nodes shown, ordered by cluster and then by how surely they belong to it."""
    order: NDArray[np.intp] = np.lexsort((-memberships.max(axis=1), memberships.argmax(axis=1)))
    if len(order) <= _LARGEST_HEAT_MAP:
        return order
    shown_ones: NDArray[np.intp] = order[np.linspace(0, len(order) - 1, _LARGEST_HEAT_MAP).astype(int)]
    return shown_ones


def _ticks(labels: NDArray[np.integer[Any]], names: Sequence[object] | None) -> dict[str, Any]:
    """Return axis ticks: the names where there are few nodes, else the clusters in the middle of their blocks."""
    if names is not None and len(names) <= _MOST_NAMES:
        return {"tickvals": list(range(len(names))), "ticktext": [shown(name) for name in names], "automargin": True}
    found, first, count = np.unique(labels, return_index=True, return_counts=True)
    wide = count >= len(labels) / 25  # the labels of narrow blocks would lie on each other
    middle = first + (count - 1) / 2
    return {"tickvals": middle[wide].tolist(), "ticktext": [str(k) for k in found[wide]]}
