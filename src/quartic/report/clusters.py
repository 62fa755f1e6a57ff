"""The report of a clustering: the answer, a map, who is where, how sure, and how it was computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from quartic.arrays import Array, RandomState, random_generator, to_host
from quartic.clustering.placing import above_noise
from quartic.distributed.inputs import is_dask_array
from quartic.plots import join_ends, membership_order, own_shares, sample_nodes
from quartic.report.figures import Indices, Names, cluster_marker, convergence, layout, ring, short, shown
from quartic.report.page import DataTable, Part, Section

if TYPE_CHECKING:
    from quartic import SymNMF
    from quartic.clustering.roles import RoleNMF

_LARGEST_HEAT_MAP = 400
_MOST_NAMES = 16
_MOST_NODES, _MOST_LINKS = 1500, 3000  # on the map
_MAP_STEPS = 100
_MOST_ROWS = 16_000  # of the table of members: some two megabytes
_EXAMPLES = 6
_FEATURES = 6
_MOST_OVERLAPS = 12
# A node with a smaller membership in its cluster than this is ambiguous.
_SURE = 0.6


def cluster_section(
    model: SymNMF, names: Names | None = None, *, guessed: str = "", features: Any = None,
    columns: Sequence[str] = (), **more: Any
) -> Section:  # fmt: skip
    """Return the section on a fitted model, and on the features of its nodes where there are any.

    ``names`` are those of the nodes, or else their numbers; ``guessed`` says how the data were read;
    ``more`` are title, notes, facts, command and code of the `Section`.
    """
    labels, memberships = np.asarray(model.labels_), to_host(model.memberships_)
    names = range(len(labels)) if names is None else names
    parts: list[Part] = [
        node_map(model.affinity_matrix_, memberships, labels, names),
        _members(memberships, labels, names),
        membership_chart(memberships, labels, names),
        *_overlaps(model, names),
        *_contents(model, memberships, names, features, columns),
    ]
    answer = describe_clusters(labels, memberships, "node" if features is None else "row")
    return Section(answer=answer, guessed=guessed, parts=parts, folded=[convergence(model.result_)], **more)


def describe_clusters(labels: Indices, memberships: Array, what: str) -> str:
    """Return the answer in a sentence: how many of what are in clusters of which sizes, and how sure."""
    n, k = memberships.shape
    sizes = np.sort(np.bincount(labels, minlength=k))[::-1]
    listed = ", ".join(map(str, sizes)) if k <= 8 else f"{sizes[-1]} to {sizes[0]}"
    listed = f"{sizes[0]} each" if k > 1 and sizes[0] == sizes[-1] else listed
    found = f"{n} {what}s in {k} cluster{'s' * (k != 1)} of {listed}. {_describe_certainty(labels, memberships, what)}"
    n_empty = int(np.count_nonzero(sizes == 0))
    if not n_empty:
        return found
    return f"{found} {n_empty} of the clusters {'is' if n_empty == 1 else 'are'} empty: {k - n_empty} would do."


def _describe_certainty(labels: Indices, memberships: Array, what: str) -> str:
    certainty = own_shares(memberships, labels)
    doubtful = int((certainty < _SURE).sum())
    ambiguous = f"{doubtful or 'no'} ambiguous {what}{'s' * (doubtful != 1)} (below {_SURE:g})"
    return f"Mean membership {certainty.mean():.2f}, {ambiguous}."


# -- where everything is ----------------------------------------------------------------------------------------------


def node_map(M: Any, memberships: Array, labels: Indices, names: Names) -> tuple[Any, str]:
    """Return the nodes in the plane, coloured by cluster, as large as they are sure, some links between them."""
    import plotly.graph_objects as go

    n, k = memberships.shape
    kept, block = sample_nodes(M, _MOST_NODES)
    x = place_nodes(block, memberships[kept])
    labels, certainty = labels[kept], own_shares(memberships, labels)[kept]
    links = sp.triu(block, 1).tocoo()
    strongest = np.argsort(-links.data, kind="stable")[:_MOST_LINKS]
    if len(links.data) > _MOST_LINKS and links.data.min() == links.data.max():
        strongest = np.linspace(0, len(links.data) - 1, _MOST_LINKS).astype(int)
    i, j = links.row[strongest], links.col[strongest]
    ends = join_ends(x, np.column_stack([i, j]))
    line = {"color": "rgba(120,120,120,0.25)", "width": 1}
    traces = [go.Scatter(x=ends[:, 0], y=ends[:, 1], mode="lines", name="links", line=line, hoverinfo="skip")]
    smallest = 5 if len(kept) > 300 else 7
    for cluster in range(k):
        at = np.flatnonzero(labels == cluster)
        if len(at):
            marker = {
                **cluster_marker(cluster),
                "size": (smallest * (1 + np.maximum(certainty[at] - 1 / k, 0) / max(1 - 1 / k, 0.5))).astype(
                    np.float32
                ),
                "line": {"width": 0.5, "color": "#ffffff"},
            }
            text = [shown(names[kept[a]]) for a in at]
            said = [f"{name}<br>cluster {cluster}, {certainty[a]:.0%}" for name, a in zip(text, at, strict=True)]
            traces.append(
                go.Scatter(
                    x=x[at, 0], y=x[at, 1], mode="markers+text" if n <= _MOST_NAMES else "markers", text=text,
                    textposition="top center", hovertext=said, hoverinfo="text", marker=marker, name=str(cluster),
                )
            )  # fmt: skip
    hidden = {"visible": False}
    look = layout(
        "Map", xaxis=hidden, yaxis={**hidden, "scaleanchor": "x"}, height=560, dragmode="pan",
        margin={"l": 5, "r": 5, "t": 35, "b": 5}, find="Find a name",
        legend={"orientation": "h", "y": 0, "yanchor": "top", "itemsizing": "constant"},
    )  # fmt: skip
    sample = f"A sample of {len(kept)} of {n} nodes, drawn with their neighbours" if len(kept) < n else f"All {n} nodes"
    return go.Figure([*traces, go.Scatter(ring())], look), (
        f"{sample}: strongly linked nodes lie near each other, colours are clusters, and the smaller a mark, the less "
        f"certain its cluster. Click a legend entry to hide a cluster; drag to pan."
    )


def place_nodes(block: sp.csr_array, memberships: Array, random_state: RandomState = 0) -> Array:
    """Return a place in the plane for each node.

    A node is drawn to the mean of its neighbours, weighted by similarity, and repelled by all nodes as 1/distance. The
    start, clusters on a circle with those strongly linked side by side, only decides what lies where.
    """
    n, k = memberships.shape
    links = sp.csr_array(block, dtype=np.float64)
    links.setdiag(0.0)
    links.data = np.maximum(links.data, 0.0)
    degree = np.asarray(links.sum(axis=1)).ravel()
    mean = sp.csr_array(sp.diags_array(1 / np.where(degree > 0, degree, 1.0)) @ links, dtype=np.float32)
    between = memberships.T @ (links @ memberships)
    share = between / np.sqrt(np.outer(between.sum(0), between.sum(0)) + 1e-300)
    turn = np.empty(k)
    turn[np.argsort(np.linalg.eigh(share)[1][:, -min(k, 2)], kind="stable")] = 2 * np.pi * np.arange(k) / k
    circle = np.column_stack([np.cos(turn), np.sin(turn)])
    noise = random_generator(random_state).normal(0.0, 0.3, (n, 2))
    x = (2.0 * memberships @ circle + noise).astype(np.float32)
    for step in range(_MAP_STEPS):
        squares = np.einsum("ij,ij->i", x, x)
        near = 1 / np.maximum(squares[:, None] + squares - 2 * x @ x.T, np.float32(0.01))
        force = mean @ x - x + (x * near.sum(axis=1, keepdims=True) - near @ x) / n
        longest = np.maximum(np.linalg.norm(force, axis=1, keepdims=True), 1.0)
        x += np.float32(0.9 * (1 - step / _MAP_STEPS)) * force / longest
    centred: Array = x - x.mean(axis=0)
    return centred


def _members(memberships: Array, labels: Indices, names: Names) -> DataTable:
    """Return the cluster of every node, how sure it is, and the next best."""
    n, k = memberships.shape
    rows = []
    for node, (own, shares) in enumerate(zip(labels[:_MOST_ROWS].tolist(), memberships, strict=False)):
        other = int(np.where(np.arange(k) == own, -1.0, shares).argmax())
        next_best = f"{other} ({100 * shares[other]:.0f} %)" if k > 1 and shares[other] >= 0.005 else ""
        rows.append([short(names[node]), str(own), f"{100 * shares[own]:.0f} %", next_best])
    words = "Click a column header to sort."
    words += f" These are the first {_MOST_ROWS} of {n}; all are in the output." if n > _MOST_ROWS else ""
    return DataTable("Who is where", ["name", "cluster", "certainty", "next best"], rows, words, "Find a name")


# -- how sure ---------------------------------------------------------------------------------------------------------


def membership_chart(memberships: Array, labels: Indices, names: Names | None = None) -> tuple[Any, str]:
    """Return how much each node belongs to each cluster, as a heat map: nodes ordered by cluster and by doubt."""
    import plotly.graph_objects as go

    n, k = memberships.shape
    kept = membership_order(memberships, labels, min(_LARGEST_HEAT_MAP, 6000 // k + 30))
    called = [shown(i if names is None else names[i]) for i in kept]
    # in plain words, since not every version of plotly fills in templates here
    said = [
        [f"{name}: {share:.0%} in cluster {cluster}" for name, share in zip(called, shares, strict=True)]
        for cluster, shares in enumerate(memberships[kept].T)
    ]
    ticks: dict[str, Any] = {"showticklabels": False, "ticks": ""}
    if names is not None and len(kept) <= _MOST_NAMES:
        ticks = {"tickvals": list(range(len(kept))), "ticktext": called, "tickangle": -90}
    figure = go.Figure(
        go.Heatmap(
            z=memberships[kept].T.astype(np.float32), colorscale="Cividis", zmin=0, zmax=1,
            colorbar={"thickness": 12, "tickformat": ".0%", "len": 0.9},
            hoverinfo="text", hovertext=said,
        ),
        layout(
            "Soft memberships", xaxis={"title": "nodes, ordered by cluster", "automargin": True, **ticks},
            yaxis={"title": "cluster", "dtick": max(1, k // 20), "autorange": "reversed"},
            height=max(260, min(560, 140 + 26 * k)),
        ),
    )  # fmt: skip
    sample = f" ({len(kept)} of {n} nodes shown)" if len(kept) < n else ""
    certainty = _describe_certainty(labels, memberships, "node")
    return figure, f"How much each node belongs to each cluster{sample}. {certainty}"


def _overlaps(model: SymNMF, names: Names) -> list[DataTable]:
    """Return which clusters share nodes, by `quartic.SymNMF.communities_`, the most first; nothing where none do."""
    if is_dask_array(model.affinity_matrix_):
        return []
    inside = above_noise(model.affinity_matrix_, to_host(model.embedding_))
    shared = np.argwhere(inside.sum(axis=1) > 1).ravel()
    found: dict[tuple[int, ...], list[int]] = {}
    for node in shared.tolist():
        found.setdefault(tuple(np.flatnonzero(inside[node]).tolist()), []).append(node)
    rows = [
        [", ".join(map(str, clusters)), str(len(nodes)), ", ".join(short(names[i]) for i in nodes[:_EXAMPLES])]
        for clusters, nodes in sorted(found.items(), key=lambda pair: -len(pair[1]))[:_MOST_OVERLAPS]
    ]
    words = f"{len(shared)} of {len(inside)} nodes have more than noise in several clusters; among them:"
    return [DataTable("Where clusters overlap", ["clusters", "nodes", "such as"], rows, words)] if rows else []


# -- what the clusters hold -------------------------------------------------------------------------------------------


def _contents(
    model: SymNMF, memberships: Array, names: Names, features: Any, columns: Sequence[str]
) -> list[DataTable]:
    """Return what each cluster holds: its most typical nodes, and the features that set it apart."""
    labels, X = np.asarray(model.labels_), to_host(model.embedding_)
    rows = []
    for k in range(X.shape[1]):
        members = np.flatnonzero(labels == k)
        typical = members[np.argsort(-X[members, k], kind="stable")[:_EXAMPLES]].tolist()  # the largest entries
        sure = f"{100 * memberships[members, k].mean():.0f} %" if len(members) else "–"
        rows.append([str(k), str(len(members)), sure, ", ".join(short(names[i]) for i in typical) or "–"])
    tables = [DataTable("What the clusters hold", ["cluster", "nodes", "mean certainty", "the most typical"], rows)]
    if features is not None:
        tables.append(_telling_features(labels, X.shape[1], features, columns))
    return tables


def _telling_features(labels: Any, n_clusters: int, features: Any, columns: Sequence[str]) -> DataTable:
    """Return the features whose mean in a cluster is farthest above that of all rows, in standard deviations."""
    n = features.shape[0]
    mean = np.asarray(features.mean(axis=0)).ravel()
    squares = features.multiply(features) if sp.issparse(features) else features**2
    spread = np.sqrt(np.maximum(np.asarray(squares.mean(axis=0)).ravel() - mean**2, 0.0))
    rows = []
    for k in range(n_clusters):
        members = labels == k
        if not members.any() or members.all():
            continue
        inside = np.asarray(features[np.flatnonzero(members)].mean(axis=0)).ravel()
        score = np.divide(inside - mean, spread, out=np.zeros_like(mean), where=spread > 1e-12 * np.abs(mean))
        if sp.issparse(features):  # words: rare ones have large scores; a common one says more
            score = score * np.sqrt(inside / max(inside.max(), 1e-300))
        best = [j for j in np.argsort(-np.abs(score), kind="stable")[:_FEATURES] if abs(score[j]) > 1e-9]
        said = ", ".join(
            f"{short(columns[j])} {'↑' if score[j] > 0 else '↓'} {float(f'{inside[j]:.3g}'):,g}" for j in best
        )
        rows.append([str(k), said or "–"])
    return DataTable(
        "What sets the clusters apart",
        ["cluster", "features, with their mean in the cluster"],
        rows,
        f"An arrow says whether the mean is above or below that of all {n} rows.",
    )


# -- roles in a directed graph ----------------------------------------------------------------------------------------


def role_section(model: RoleNMF, names: Names | None = None, **more: Any) -> Section:
    """Return the section on a fitted `quartic.clustering.RoleNMF`: who sends to whom, role by role, and who has which.

    ``names`` are those of the nodes, or else those of the model; ``more`` are title, notes, facts, command and code.
    """
    import plotly.graph_objects as go

    names, k = model.node_names_.tolist() if names is None else names, model.n_components
    sizes, S = np.bincount(model.labels_, minlength=k), model.roles_ / max(float(model.roles_.max()), 1e-300)
    said = [
        [f"role {i} to role {j}: {share:.0%} of the largest" for j, share in enumerate(row)] for i, row in enumerate(S)
    ]
    axis = {"dtick": max(1, k // 20), "constrain": "domain"}
    figure = go.Figure(
        go.Heatmap(z=S, colorscale="Blues", zmin=0, zmax=1, hoverinfo="text", hovertext=said),
        layout(
            "Who sends to whom", xaxis={"title": "receiving role", **axis}, height=460,
            yaxis={"title": "sending role", "autorange": "reversed", "scaleanchor": "x", **axis},
        ),
    )  # fmt: skip
    strongest = np.argsort(-S, axis=None, kind="stable")[: min(3, k * k)]
    flows = ", ".join(f"{i} to {j}" for i, j in zip(*np.unravel_index(strongest, S.shape), strict=True))
    inside = float(np.trace(S) / S.sum()) if S.any() else 0.0
    words = f"The strongest flows are from role {flows}; {inside:.0%} of all flow stays within a role."
    weights = to_host(model.embedding_)
    memberships = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
    answer = f"{len(names)} nodes in {k} roles of {', '.join(map(str, sizes))}. {words}"
    members = _members(memberships, np.asarray(model.labels_), names)
    return Section(answer=answer, parts=[(figure, words), members], **more)
