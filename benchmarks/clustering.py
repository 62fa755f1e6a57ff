"""SymNMF's defaults beside Leiden, Louvain and spectral clustering on labelled graphs: NMI, accuracy and times.

    python benchmarks/clustering.py [karate polbooks …] [held:cora labels:cora rank:cora …] [--results results]

Each graph with the k of its labels, mean of three seeds; Leiden and Louvain choose their own number. Leiden needs
leidenalg and igraph; without igraph Louvain is NetworkX's. NMI is not corrected for chance: ``alone`` is what each node
for itself would get. ``dblp``: nodes in one of its 200 largest communities, most of them without an edge;
``dblp-largest`` is the largest component.

``held:`` a fifth of the nodes is placed after a fit to the others, by edges to these alone or to all; their accuracy,
beside that of a refit. ``labels:`` 5 % of the labels are given; accuracy at the other nodes, beside the best of three
label spreadings. ``overlap:dblp``: F1 of found and true communities, each with its best partner (Yang and Leskovec
2013). ``rank:`` the number that `select_rank` finds, and that of the labels.
"""

from __future__ import annotations

import random
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment
from scipy.sparse.csgraph import connected_components
from sklearn.datasets import load_digits, make_blobs
from sklearn.neighbors import kneighbors_graph
from sklearn.semi_supervised import LabelSpreading

from quartic import SymNMF, select_rank
from quartic.bench.cases import Recorder, load_matrix, uneven_graph
from quartic.bench.methods import networkx_louvain, spectral_clustering
from quartic.bench.numbers import record, run_script
from quartic.datasets import block_model, load_graph, planted_graph
from quartic.metrics import nmi

SEEDS = 3
NAMES = ("karate", "polbooks", "polblogs", "cora", "eu-core", "orl", "coil20", "planted", "blocks", "hubs", "digits",
         "unequal", "sparse", "mixed", "many", "hundreds", "reuters", "tdt2", "lfr", "cora-full", "dblp",
         "dblp-largest",
         *(f"blocks-{k}" for k in (2, 5, 12, 35, 60)), *(f"points-{k}" for k in (3, 6, 12, 25)))  # fmt: skip


def load(name: str) -> tuple[sp.csr_array, np.ndarray]:
    if name == "planted":
        return planted_graph(2000, 10, degree=5, p_within=0.6, random_state=0)
    if name == "blocks":
        return block_model([30, 60, 90, 120, 150, 200, 250, 300], 0.08, 0.008, random_state=1)
    if name.startswith("blocks-"):
        k, size = int(name[7:]), max(40, 200 // int(name[7:]))
        return block_model([size] * k, 9 / size, 6 / (k * size), random_state=k)
    if name == "digits" or name.startswith("points-"):
        X, y = load_digits(return_X_y=True)
        if name != "digits":
            X, y = make_blobs(100 * int(name[7:]), 5, centers=int(name[7:]), cluster_std=1.5, random_state=3)
        A = kneighbors_graph(X, 10)
        return sp.csr_array(A.maximum(A.T)), y
    if name in UNEVEN:
        return uneven_graph(*UNEVEN[name], np.random.default_rng(100))
    if not name.startswith("dblp"):
        return load_matrix(name)
    graph = load_graph("dblp")
    sizes = np.asarray(graph.membership.sum(axis=0)).ravel()
    member = sp.csr_array(graph.membership[:, np.argsort(-sizes, kind="stable")[:200]])
    one = np.flatnonzero(np.diff(member.indptr) == 1)  # nodes in exactly one of the 200 largest communities
    if name == "dblp-largest":
        component = connected_components(graph.adjacency[one][:, one], directed=False)[1]
        one = one[component == np.bincount(component).argmax()]
    return sp.csr_array(graph.adjacency[one][:, one]), member.indices[member.indptr[one]]


# Nodes, communities, mean degree, share of edges inside, and how unequal their numbers between communities are
UNEVEN = {
    "hubs": (1285, 13, 13, 0.6, 0.0),
    "unequal": (1500, 10, 14, 0.4, 0.0),
    "sparse": (6000, 3, 4.5, 0.65, 0.0),
    "mixed": (2400, 17, 10, 0.45, 0.5),
    "many": (1000, 40, 30, 0.4, 1.0),
    "hundreds": (10_000, 585, 12, 0.7, 0.0),
}


def by_igraph(A: sp.csr_array, seed: int, method: str) -> np.ndarray:
    import igraph

    upper = sp.triu(A, 1, format="coo")
    graph, weights = igraph.Graph(A.shape[0], np.column_stack(upper.coords).tolist()), upper.data.tolist()
    if method == "Louvain":
        random.seed(seed)  # igraph's own source
        return np.array(graph.community_multilevel(weights=weights).membership)
    import leidenalg

    kind = leidenalg.ModularityVertexPartition
    return np.array(leidenalg.find_partition(graph, kind, weights=weights, seed=seed).membership)


def by_peer(method: Callable, A: sp.csr_array, k: int, seed: int) -> np.ndarray:
    return method(SimpleNamespace(rank=k, given=[sp.csr_matrix(A)]), seed, 0.0, Recorder(dict)).labels


def louvain(A: sp.csr_array, k: int, seed: int) -> np.ndarray:
    return by_igraph(A, seed, "Louvain") if find_spec("igraph") else by_peer(networkx_louvain, A, k, seed)


METHODS: dict[str, Callable] = {
    "SymNMF": lambda A, k, seed: SymNMF(k, random_state=seed).fit_predict(A),
    "Leiden": lambda A, k, seed: by_igraph(A, seed, "Leiden"), "Louvain": louvain,
    "spectral": partial(by_peer, spectral_clustering),
}  # fmt: skip


def load_labelled(name: str) -> tuple[sp.csr_array, np.ndarray, int]:
    """Return a graph, its labels and their number; all is compiled then."""
    warnings.simplefilter("ignore")
    A, labels = load(name)
    A, labels = sp.csr_array(A, dtype=float), np.unique(labels, return_inverse=True)[1]
    for graph in (planted_graph(200, 3, random_state=0)[0], load("blocks")[0]):
        SymNMF(3, random_state=0).fit(graph).predict(graph[:5])
    return A, labels, labels.max() + 1


def measure_time(work: Callable) -> tuple:
    """Return what the work returns, and its processor seconds."""
    start = time.process_time()
    return work(), time.process_time() - start


def compare(name: str):
    A, labels, k = load_labelled(name)
    yield from record(name, "alone", NMI=nmi(labels, np.arange(len(labels))))
    for method, cluster in METHODS.items():
        try:
            found, s = measure_time(lambda: [nmi(labels, cluster(A, k, seed)) for seed in range(SEEDS)])  # noqa: B023
        except ImportError:
            continue
        yield from record(name, method, NMI=np.mean(found), s=s / SEEDS)


def accuracy(truth: np.ndarray, found: np.ndarray, at: np.ndarray) -> float:
    """Return the share of right ones among the nodes ``at``, with clusters matched to classes over all nodes."""
    shared = np.zeros((max(truth.max(), found.max()) + 1,) * 2)
    np.add.at(shared, (found, truth), 1)
    return float(np.mean(linear_sum_assignment(-shared)[1][found[at]] == truth[at]))


def place(name: str):
    A, labels, k = load_labelled(name)
    n, m, rows = len(labels), len(labels) // 5, []
    new = np.arange(n - m, n)
    for seed in range(SEEDS):
        order = np.random.default_rng(1000 + seed).permutation(n)  # not the draw that made a graph
        G, truth = sp.csr_array(A[order][:, order]), labels[order]
        model = SymNMF(k, random_state=seed).fit(G[:-m, :-m])
        edges = sp.csr_array(G[-m:])
        refit, cost = measure_time(lambda: SymNMF(k, random_state=seed).fit_predict(G))  # noqa: B023
        _, hundred = measure_time(lambda: [model.predict(edges[:100, :-m]) for _ in range(5)])  # noqa: B023
        same = sp.block_array([[G[:-m, :-m], G[:-m, -m:]], [G[-m:, :-m], None]], format="csr")
        found = {"refit": refit, "refit, same edges": SymNMF(k, random_state=seed).fit_predict(same)}
        placed = {"predict": model.predict(edges[:, :-m]), "predict, all edges": model.predict(edges)}
        placed["transform"] = model.transform(edges[:, :-m]).argmax(axis=1)
        found |= {method: np.r_[model.labels_, some] for method, some in placed.items()}
        rows.append([*(accuracy(truth, some, new) for some in found.values()), hundred / 5 / cost])
    *means, share = np.mean(rows, axis=0)
    for method, value in zip(found, means, strict=True):
        yield f"held:{name}", method, "accuracy", float(value)
    yield f"held:{name}", "predict", "100 rows / refit", float(share)


def give_labels(name: str):
    A, labels, k = load_labelled(name)
    n, rows, nodes = len(labels), [], np.arange(len(labels))[:, None]
    for seed in range(SEEDS):
        known = np.random.default_rng(1000 + seed).permutation(n)[: n // 20]
        y = np.full(n, -1)
        y[known] = labels[known]
        hidden = np.flatnonzero(y < 0)
        spreadings = [LabelSpreading(lambda *_: A, alpha=share, max_iter=100) for share in (0.2, 0.8, 0.95)]
        spread = [accuracy(labels, one.fit(nodes, y).transduction_, hidden) for one in spreadings]
        free, told_some = SymNMF(k, random_state=seed).fit_predict(A), SymNMF(k, random_state=seed).fit(A, y).labels_
        by_name = float(np.mean(told_some[hidden] == labels[hidden]))
        rows.append([accuracy(labels, free, hidden), accuracy(labels, told_some, hidden), max(spread), by_name])
    methods = "no labels", "labels", "label spreading", "labels, by name"
    for method, value in zip(methods, np.mean(rows, axis=0), strict=True):
        yield f"labels:{name}", method, "accuracy", float(value)


def count(name: str):
    A, _, k = load_labelled(name)
    found, s = measure_time(lambda: select_rank(A, range(2, max(2 * k, 10) + 1), random_state=0))
    yield from record(f"rank:{name}", "select_rank", clusters=found.best, labels=k, s=s)


def average_f1(true: sp.csr_array, found: sp.csr_array) -> float:
    shared = (true.T @ found).multiply(2 / np.add.outer(true.sum(axis=0), found.sum(axis=0)))
    return float(np.mean([shared.max(axis=side).toarray()[shared.sum(axis=side) > 0].mean() for side in (0, 1)]))


def overlap(name: str):
    graph = load_graph(name)
    A, true = sp.csr_array(graph.adjacency, dtype=float), sp.csr_array(graph.membership, dtype=float)
    load_labelled("karate")
    methods = {
        f"SymNMF, k = {k}": partial(lambda k: SymNMF(k, random_state=0).fit(A).communities_, k) for k in (30, 90)
    }
    methods |= {f"Leiden, seed {seed}": partial(by_igraph, A, seed, "Leiden") for seed in range(3)}
    for method, cluster in methods.items():
        sets, s = measure_time(cluster)
        if not isinstance(sets, list):
            sets = [np.flatnonzero(sets == label) for label in range(sets.max() + 1)]
        nodes, columns = np.concatenate([list(some) for some in sets]), np.repeat(range(len(sets)), [*map(len, sets)])
        member = sp.csr_array((np.ones(len(nodes)), (nodes, columns)), shape=(A.shape[0], len(sets)))
        yield from record(f"overlap:{name}", method, F1=average_f1(true, member), communities=len(sets), s=s)


TASKS = {"": compare, "rank:": count, "held:": place, "labels:": give_labels}
CASES = {f"{task}{name}": partial(measure, name) for task, measure in TASKS.items() for name in NAMES}
CASES["overlap:dblp"] = partial(overlap, "dblp")

if __name__ == "__main__":
    run_script("clustering", CASES)
