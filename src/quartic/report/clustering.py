"""The section of the report on a clustering."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from quartic.arrays import Array
from quartic.report.cluster_figures import cluster_sizes, membership_chart, reordered_similarity
from quartic.report.page import DataTable
from quartic.report.run_figures import convergence

if TYPE_CHECKING:
    from quartic.estimators import SymNMF

_EXAMPLES = 6
_FEATURES = 6
_LONGEST = 40


def clustering_figures(model: SymNMF, names: Sequence[object] | None = None) -> list[tuple[Any, str]]:
    """Return the figures of a fitted model."""
    return [
        reordered_similarity(model.affinity_matrix_, model.labels_, names),
        cluster_sizes(model.labels_, model.embedding_.shape[1]),
        membership_chart(model.memberships_, names),
        convergence(model.result_),
    ]


def clustering_tables(
    model: SymNMF, names: Sequence[object], features: Any = None, columns: Sequence[str] = ()
) -> list[DataTable]:
    """Return what each cluster holds: its most typical nodes, and the features that set it apart."""
    sizes = np.bincount(model.labels_, minlength=model.embedding_.shape[1])
    typical = _typical(model.embedding_, model.labels_)
    rows = [
        [str(k), str(int(size)), ", ".join(_short(names[i]) for i in typical[k]) or "–"] for k, size in enumerate(sizes)
    ]
    tables = [DataTable("What the clusters hold", ["cluster", "nodes", "the most typical"], rows)]
    if features is not None:
        tables.append(_telling_features(model.labels_, len(sizes), features, columns))
        tables.append(_example_rows(typical, features, columns, names))
    return tables


def _typical(X: Array, labels: Any) -> list[list[int]]:
    """Return the nodes of each cluster with the largest entries in its column."""
    found = []
    for k in range(X.shape[1]):
        members = np.flatnonzero(labels == k)
        found.append(members[np.argsort(-X[members, k], kind="stable")[:_EXAMPLES]].tolist())
    return found


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
        said = ", ".join(f"{_short(columns[j])} {'↑' if score[j] > 0 else '↓'} {inside[j]:.3g}" for j in best)
        rows.append([str(k), said or "–"])
    return DataTable(
        "What sets the clusters apart",
        ["cluster", "features, with their mean in the cluster"],
        rows,
        f"An arrow says whether the mean is above or below that of all {n} rows.",
    )


def _example_rows(
    typical: list[list[int]], features: Any, columns: Sequence[str], names: Sequence[object]
) -> DataTable:
    """Return the most typical row of each cluster; its largest entries where there are many columns."""
    few = len(columns) <= 8 and not sp.issparse(features)
    rows = []
    for k, members in enumerate(typical):
        if not members:
            continue
        i = members[0]
        row = np.asarray(features[[i]].toarray() if sp.issparse(features) else features[[i]]).ravel()
        if few:
            rows.append([str(k), _short(names[i]), *(f"{value:.4g}" for value in row)])
        else:
            largest = [j for j in np.argsort(-np.abs(row), kind="stable")[:_FEATURES] if row[j]]
            rows.append([str(k), _short(names[i]), ", ".join(f"{_short(columns[j])} {row[j]:.3g}" for j in largest)])
    header = ["cluster", "row", *(map(_short, columns) if few else ["largest entries"])]
    return DataTable("An example of each cluster", header, rows)


def _short(name: object) -> str:
    text = str(name)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
