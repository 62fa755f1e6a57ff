"""Normalised mutual information of SymNMF's defaults beside Leiden, Louvain and spectral clustering, and times.

    python benchmarks/clustering.py [karate polbooks …] [--results results]

Each graph with the k of its labels, mean of three seeds; Leiden and Louvain choose their own number. Leiden needs
``pip install leidenalg igraph`` and is left out where they are missing; Louvain is then NetworkX's. The data folder is
needed for polbooks, polblogs, cora, eu-core, orl, coil20 and the last five.
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
from sklearn.datasets import load_digits
from sklearn.neighbors import kneighbors_graph

from quartic import SymNMF
from quartic.bench.cases import Recorder, uneven_graph
from quartic.bench.methods import networkx_louvain, spectral_clustering
from quartic.bench.numbers import run_script, told
from quartic.datasets import block_model, load_coil20, load_graph, load_similarity, planted_graph
from quartic.graphs import similarity
from quartic.metrics import nmi

NAMES = ("karate", "polbooks", "polblogs", "cora", "eu-core", "orl", "coil20", "planted", "blocks", "hubs", "digits",
         "lfr-.1", "lfr-.2", "lfr-.3", "lfr-.4", "lfr-.5", "unequal", "sparse", "mixed", "many",
         "reuters", "tdt2", "lfr", "cora-full", "dblp")  # fmt: skip


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
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        A = kneighbors_graph(X, 10)
        return sp.csr_array(A.maximum(A.T)), y
    if name.startswith("lfr-"):
        return draw_lfr(float(name[4:]))
    if name in UNEVEN:
        return uneven_graph(*UNEVEN[name], np.random.default_rng(100))
    graph = load_graph(name)
    if name != "dblp":
        return graph.adjacency, graph.labels
    sizes = np.asarray(graph.membership.sum(axis=0)).ravel()
    member = sp.csr_array(graph.membership[:, np.argsort(-sizes, kind="stable")[:200]])
    one = np.flatnonzero(np.diff(member.indptr) == 1)  # nodes in exactly one of the 200 largest communities
    return sp.csr_array(graph.adjacency[one][:, one]), member.indices[member.indptr[one]]


# Nodes, communities, mean degree, share of edges inside, and how unequal their numbers between communities are
UNEVEN = {
    "hubs": (1285, 13, 15, 0.6, 0.0),
    "unequal": (1500, 10, 14, 0.4, 0.0),
    "sparse": (6000, 3, 4.5, 0.65, 0.0),
    "mixed": (2400, 17, 10, 0.45, 0.5),
    "many": (1000, 40, 30, 0.4, 1.0),
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
    for graph in (planted_graph(200, 3, random_state=0)[0], load("blocks")[0]):  # compiles
        SymNMF(3, random_state=0).fit(graph)
    for method, cluster in METHODS.items():
        start = time.process_time()
        try:
            found = [nmi(labels, cluster(A, k, seed)) for seed in range(seeds)]
        except ImportError:
            continue
        yield from told(name, method, NMI=np.mean(found), s=(time.process_time() - start) / seeds)


CASES = {name: partial(compare, name) for name in NAMES}

if __name__ == "__main__":
    run_script("clustering", CASES)
