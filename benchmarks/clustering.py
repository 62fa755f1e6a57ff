"""Normalised mutual information of SymNMF's defaults beside Leiden, Louvain and spectral clustering, and times.

    python benchmarks/clustering.py                      # the quick graphs
    python benchmarks/clustering.py cora-full dblp tdt2  # or any of the names below

Each graph with the k of its labels, mean of three seeds; Leiden and Louvain choose their own number. Needs
``pip install leidenalg igraph``, and the data folder for all but karate, planted, blocks and hubs.
"""

from __future__ import annotations

import argparse
import random
import time
import warnings
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import SpectralClustering

from quartic import SymNMF
from quartic.datasets import block_model, load_coil20, load_graph, load_similarity, planted_graph
from quartic.graphs import similarity
from quartic.metrics import nmi

QUICK = ["karate", "polbooks", "polblogs", "cora", "eu-core", "orl", "coil20", "planted", "blocks", "hubs"]
LONG = ["reuters", "tdt2", "lfr", "cora-full", "dblp"]


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
    if name == "hubs":
        return draw_hubs()
    graph = load_graph(name)
    if name != "dblp":
        return graph.adjacency, graph.labels
    sizes = np.asarray(graph.membership.sum(axis=0)).ravel()
    member = sp.csr_array(graph.membership[:, np.argsort(-sizes, kind="stable")[:200]])
    one = np.flatnonzero(np.diff(member.indptr) == 1)  # nodes in exactly one of the 200 largest communities
    return sp.csr_array(graph.adjacency[one][:, one]), member.indices[member.indptr[one]]


def draw_hubs(n: int = 1285, k: int = 13) -> tuple[sp.csr_array, np.ndarray]:
    """Draw communities of unequal sizes, degrees from a power law."""
    rng = np.random.default_rng(0)
    labels = rng.choice(k, n, p=rng.dirichlet(np.full(k, 4.0)))
    pull = rng.pareto(2.5, n) + 0.3
    chance = np.where(labels[:, None] == labels, 0.08, 0.004) * np.outer(pull, pull) / pull.mean() ** 2
    A = np.triu(rng.random((n, n)) < chance, 1).astype(float)
    return sp.csr_array(A + A.T), labels


def as_igraph(A: sp.csr_array):
    import igraph

    upper = sp.triu(A, 1, format="coo")
    return igraph.Graph(n=A.shape[0], edges=np.column_stack(upper.coords).tolist()), upper.data.tolist()


def leiden(A: sp.csr_array, k: int, seed: int) -> np.ndarray:
    import leidenalg

    graph, weights = as_igraph(A)
    kind = leidenalg.ModularityVertexPartition
    return np.array(leidenalg.find_partition(graph, kind, weights=weights, seed=seed).membership)


def louvain(A: sp.csr_array, k: int, seed: int) -> np.ndarray:
    graph, weights = as_igraph(A)
    random.seed(seed)  # igraph's own source
    return np.array(graph.community_multilevel(weights=weights).membership)


def spectral(A: sp.csr_array, k: int, seed: int) -> np.ndarray:
    A = sp.csr_matrix(A)
    A.indices, A.indptr = A.indices.astype(np.int32), A.indptr.astype(np.int32)
    return SpectralClustering(k, affinity="precomputed", random_state=seed).fit_predict(A)


METHODS: dict[str, Callable] = {
    "SymNMF": lambda A, k, seed: SymNMF(k, random_state=seed).fit_predict(A),
    "Leiden": leiden, "Louvain": louvain, "spectral": spectral,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=QUICK, help=f"of {' '.join(QUICK + LONG)}")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    level = 0
    print("| graph | n | k | " + " | ".join(f"{name} | s" for name in options.methods) + " |")
    for name in options.names:
        A, labels = load(name)
        A, k, scores, row = sp.csr_array(A, dtype=float), len(np.unique(labels)), {}, []
        for method in options.methods:
            start = time.perf_counter()
            found = [nmi(labels, METHODS[method](A, k, seed)) for seed in range(options.seeds)]
            seconds = (time.perf_counter() - start) / options.seeds
            scores[method] = float(np.mean(found))
            row.append(f"{scores[method]:.3f} | {seconds:.2f}")
        level += scores.get("SymNMF", 0) >= max(score for score in scores.values())
        print(f"| {name} | {A.shape[0]} | {k} | {' | '.join(row)} |", flush=True)
    print(f"SymNMF at or above the best peer: {level} of {len(options.names)}")


if __name__ == "__main__":
    main()
