"""Normalised mutual information of SymNMF's defaults beside Leiden, Louvain and spectral clustering, and times.

    python benchmarks/clustering.py [karate polbooks …] [held:cora labels:cora rank:cora …] [--results results]

Each graph with the k of its labels, mean of three seeds; Leiden and Louvain choose their own number. Leiden needs
``pip install leidenalg igraph`` and is left out where they are missing; Louvain is then NetworkX's. The data folder is
needed for polbooks, polblogs, cora, eu-core, orl, coil20 and those from reuters to dblp-largest. NMI is not corrected
for chance: ``alone`` is what each node for itself would get. ``dblp`` has 47,404 components, 32,126 of them one node:
there it says who returns the most clusters. ``dblp-largest`` is its largest component.

``held:``: a fifth of the nodes is placed after a fit to the others, by their edges to these alone, or to each other as
well; the accuracy of those nodes beside that of a refit to the whole graph, and of a fit to the same edges.
``labels:``: 5 % of the labels are given; the accuracy at the other nodes, classes matched, beside the best
of three label spreadings. ``overlap:dblp``: F1 of found and true communities, each with its best partner, averaged over
both sides (Yang and Leskovec 2013), over the whole graph. ``rank:``: what `select_rank` finds among 2 and twice the
number of labels, and that number.
"""

from __future__ import annotations

import random
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from types import SimpleNamespace

import networkx as nx
import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment
from scipy.sparse.csgraph import connected_components
from sklearn.datasets import load_digits, make_blobs
from sklearn.neighbors import kneighbors_graph

from quartic import SymNMF, select_rank
from quartic.bench.cases import Recorder, uneven_graph
from quartic.bench.methods import networkx_louvain, spectral_clustering
from quartic.bench.numbers import run_script, told
from quartic.datasets import block_model, load_coil20, load_graph, load_similarity, planted_graph
from quartic.graphs import normalize, similarity
from quartic.metrics import nmi

NAMES = ("karate", "polbooks", "polblogs", "cora", "eu-core", "orl", "coil20", "planted", "blocks", "hubs", "digits",
         "lfr-.1", "lfr-.2", "lfr-.3", "lfr-.4", "lfr-.5", "unequal", "sparse", "mixed", "many", "hundreds",
         "reuters", "tdt2", "lfr", "cora-full", "dblp", "dblp-largest",
         *(f"blocks-{k}" for k in (2, 5, 12, 35, 60)), *(f"points-{k}" for k in (3, 6, 12, 25)))  # fmt: skip


def load(name: str) -> tuple[sp.csr_array, np.ndarray]:
    if name in ("tdt2", "reuters", "orl"):
        found = load_similarity(name)
        return found.matrix, found.labels
    if name == "coil20":
        data = load_coil20()
        return similarity(data.features, "self_tuning"), data.labels
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
    if name.startswith("lfr-"):
        return draw_lfr(float(name[4:]))
    if name in UNEVEN:
        return uneven_graph(*UNEVEN[name], np.random.default_rng(100))
    graph = load_graph(name.removesuffix("-largest"))
    if not name.startswith("dblp"):
        return graph.adjacency, graph.labels
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


def draw_lfr(mixing: float, n: int = 1000) -> tuple[sp.csr_array, np.ndarray]:
    """Draw a graph of Lancichinetti, Fortunato and Radicchi; of some seeds networkx makes none."""
    for seed in range(100, 200):
        try:
            G = nx.LFR_benchmark_graph(n, 3, 1.5, mixing, average_degree=10, min_community=20, seed=seed)
        except nx.ExceededMaxIterations:
            continue
        G.remove_edges_from(nx.selfloop_edges(G))
        return nx.to_scipy_sparse_array(G), np.array([min(G.nodes[node]["community"]) for node in G])
    raise ValueError(f"no graph of mixing {mixing} was found")


def by_igraph(A: sp.csr_array, seed: int, method: str) -> np.ndarray:
    import igraph

    upper = sp.triu(A, 1, format="coo")
    graph, weights = igraph.Graph(A.shape[0], np.column_stack(upper.coords).tolist()), upper.data.tolist()
    if method == "Leiden":
        import leidenalg

        kind = leidenalg.ModularityVertexPartition
        return np.array(leidenalg.find_partition(graph, kind, weights=weights, seed=seed).membership)
    random.seed(seed)  # igraph's own source
    return np.array(graph.community_multilevel(weights=weights).membership)


def louvain(A: sp.csr_array, k: int, seed: int) -> np.ndarray:
    if find_spec("igraph"):
        return by_igraph(A, seed, "Louvain")
    return networkx_louvain(SimpleNamespace(given=[A]), seed, 0.0, None).labels


METHODS: dict[str, Callable] = {
    "SymNMF": lambda A, k, seed: SymNMF(k, random_state=seed).fit_predict(A),
    "Leiden": lambda A, k, seed: by_igraph(A, seed, "Leiden"), "Louvain": louvain,
    "spectral": lambda A, k, seed: spectral_clustering(
        SimpleNamespace(rank=k, given=[sp.csr_matrix(A)]), seed, 0.0, Recorder(dict)).labels,
}  # fmt: skip


def compare(name: str, seeds: int = 3):
    warnings.simplefilter("ignore")
    A, labels = load(name)
    A, k = sp.csr_array(A, dtype=float), len(np.unique(labels))
    yield from told(name, "alone", NMI=nmi(labels, np.arange(len(labels))))
    for graph in (planted_graph(200, 3, random_state=0)[0], load("blocks")[0]):  # compiles
        SymNMF(3, random_state=0).fit(graph)
    for method, cluster in METHODS.items():
        start = time.process_time()
        try:
            found = [nmi(labels, cluster(A, k, seed)) for seed in range(seeds)]
        except ImportError:
            continue
        yield from told(name, method, NMI=np.mean(found), s=(time.process_time() - start) / seeds)


def accuracy(truth: np.ndarray, found: np.ndarray, at: np.ndarray) -> float:
    """Return the share of right ones among the nodes ``at``, with clusters matched to classes over all nodes."""
    shared = np.zeros((max(truth.max(), found.max()) + 1,) * 2)
    np.add.at(shared, (found, truth), 1)
    return float(np.mean(linear_sum_assignment(-shared)[1][found[at]] == truth[at]))


def place(name: str, seeds: int = 3):
    warnings.simplefilter("ignore")
    A, labels = load(name)
    A, labels = sp.csr_array(A, dtype=float), np.unique(labels, return_inverse=True)[1]
    n, k, m = len(labels), labels.max() + 1, len(labels) // 5
    SymNMF(k, random_state=0).fit(A).predict(A[:5])  # compiles
    rows = []
    for seed in range(seeds):
        order = np.random.default_rng(1000 + seed).permutation(n)  # not the draw that made a graph
        G, truth = sp.csr_array(A[order][:, order]), labels[order]
        new = np.arange(n - m, n)
        model = SymNMF(k, random_state=seed).fit(G[:-m, :-m])
        edges = sp.csr_array(G[-m:, np.r_[: n - m, new]])
        start = time.process_time()
        refit = SymNMF(k, random_state=seed).fit_predict(G)
        cost, start = time.process_time() - start, time.process_time()
        for _ in range(5):
            model.predict(edges[:100, :-m])
        share = (time.process_time() - start) / 5 / cost
        same = SymNMF(k, random_state=seed).fit_predict(
            sp.block_array([[G[:-m, :-m], G[:-m, -m:]], [G[-m:, :-m], None]], format="csr")
        )
        placed = [np.r_[model.labels_, model.predict(some)] for some in (edges[:, :-m], edges)]
        placed.append(np.r_[model.labels_, model.transform(edges[:, :-m]).argmax(axis=1)])
        found = [accuracy(truth, some, new) for some in (refit, same, *placed)]
        rows.append([*found, accuracy(truth[:-m], model.labels_, np.arange(n - m)), share])
    names = "refit", "refit, same edges", "predict", "predict, all edges", "transform", "nodes of the fit"
    for method, value in zip(names, np.mean(rows, axis=0)[:-1], strict=True):
        yield f"held:{name}", method, "accuracy", float(value)
    yield f"held:{name}", "predict", "100 rows / refit", float(np.mean(rows, axis=0)[-1])


def give_labels(name: str, seeds: int = 3):
    warnings.simplefilter("ignore")
    A, labels = load(name)
    A, labels = sp.csr_array(A, dtype=float), np.unique(labels, return_inverse=True)[1]
    n, k, rows = len(labels), labels.max() + 1, []
    S = normalize(A)
    for seed in range(seeds):
        known = np.random.default_rng(1000 + seed).permutation(n)[: n // 20]
        y = np.full(n, -1)
        y[known] = labels[known]
        Y, hidden = np.eye(k)[y] * (y >= 0)[:, None], np.flatnonzero(y < 0)
        found = [SymNMF(k, random_state=seed).fit_predict(A), SymNMF(k, random_state=seed).fit(A, y).labels_]
        for share in (0.2, 0.8, 0.95):
            F = Y
            for _ in range(100):
                F = share * (S @ F) + (1 - share) * Y
            found.append(F.argmax(axis=1))
        right = [accuracy(labels, some, hidden) for some in found]
        rows.append([*right[:2], max(right[2:]), float(np.mean(found[1][hidden] == labels[hidden]))])
    for method, value in zip(
        ("no labels", "labels", "label spreading", "labels, by name"), np.mean(rows, axis=0), strict=True
    ):
        yield f"labels:{name}", method, "accuracy", float(value)


def average_f1(true: sp.csr_array, found: sp.csr_array) -> float:
    shared = sp.coo_array(true.T @ found)
    sizes = np.asarray(true.sum(axis=0)), np.asarray(found.sum(axis=0))
    value, sides = 2 * shared.data / (sizes[0][shared.row] + sizes[1][shared.col]), []
    for at, size in zip(shared.coords, sizes, strict=True):
        best = np.zeros(len(size))
        np.maximum.at(best, at, value)
        sides.append(best[size > 0].mean())
    return float(np.mean(sides))


def overlap(name: str):
    warnings.simplefilter("ignore")
    graph = load_graph(name)
    A, true = sp.csr_array(graph.adjacency, dtype=float), sp.csr_array(graph.membership, dtype=float)
    SymNMF(3, random_state=0).fit(planted_graph(200, 3, random_state=0)[0])  # compiles
    methods = {
        f"SymNMF, k = {k}": partial(lambda k: SymNMF(k, random_state=0).fit(A).communities_, k) for k in (30, 90)
    }
    methods |= {f"Leiden, seed {seed}": partial(by_igraph, A, seed, "Leiden") for seed in range(3)}
    for method, cluster in methods.items():
        start = time.process_time()
        found = cluster()
        spent = time.process_time() - start
        sets = (
            found if isinstance(found, list) else [np.flatnonzero(found == label) for label in range(found.max() + 1)]
        )
        at = np.concatenate([np.fromiter(nodes, int) for nodes in sets])
        shape = A.shape[0], len(sets)
        columns = np.repeat(np.arange(len(sets)), [len(nodes) for nodes in sets])
        member = sp.csr_array((np.ones(len(at)), (at, columns)), shape=shape)
        yield from told(f"overlap:{name}", method, F1=average_f1(true, member), communities=len(sets), s=spent)


def count(name: str):
    A, labels = load(name)
    k, start = len(np.unique(labels)), time.process_time()
    found = select_rank(A, range(2, max(2 * k, 10) + 1), random_state=0)
    yield from told(f"rank:{name}", "select_rank", clusters=found.best, labels=k, s=time.process_time() - start)


CASES = {name: partial(compare, name) for name in NAMES} | {f"rank:{name}": partial(count, name) for name in NAMES}
CASES |= {f"held:{name}": partial(place, name) for name in NAMES} | {
    f"labels:{name}": partial(give_labels, name) for name in NAMES
}
CASES["overlap:dblp"] = partial(overlap, "dblp")

if __name__ == "__main__":
    run_script("clustering", CASES)
