"""Normalised mutual information of SymNMF's defaults beside Leiden, Louvain and spectral clustering, and times.

    python benchmarks/clustering.py                              # all graphs, quickest first
    python benchmarks/clustering.py cora hubs --seeds 1          # or any of the names below
    python benchmarks/clustering.py --jobs 16 --budget 480 --out clustering.csv

Each graph with the k of its labels, mean of the seeds; Leiden and Louvain choose their own number. Every cell is a
process of its own on one thread, ``--jobs`` at a time, written to ``--out`` as it ends; a file that is there is gone on
with, and what is over ``--budget`` seconds is left out of the table. Leiden needs ``pip install leidenalg``, and is
left out without it; Louvain is networkx's. The data folder is needed for polbooks, polblogs, cora, eu-core, orl, coil20
and LONG.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import networkx as nx
import numpy as np
import scipy.sparse as sp
from sklearn.cluster import SpectralClustering
from sklearn.datasets import load_digits
from sklearn.neighbors import kneighbors_graph

from quartic import SymNMF
from quartic.datasets import block_model, load_coil20, load_graph, load_similarity, planted_graph
from quartic.graphs import similarity
from quartic.metrics import nmi

QUICK = ["karate", "polbooks", "polblogs", "cora", "eu-core", "orl", "coil20", "planted", "blocks", "hubs", "digits"]
DRAWN = ["lfr-.1", "lfr-.2", "lfr-.3", "lfr-.4", "lfr-.5", "unequal", "sparse", "mixed", "many"]
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
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        A = kneighbors_graph(X, 10)
        return sp.csr_array(A.maximum(A.T)), y
    if name.startswith("lfr-"):
        return draw_lfr(float(name[4:]))
    if name in DRAWN:
        n, k, degree, within, spread = DEGREE_CORRECTED[name]
        return draw_degree_corrected(n, k, degree, within, spread)
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


# Nodes, communities, mean degree, share of edges inside, and how unequal their numbers between communities are
DEGREE_CORRECTED = {
    "unequal": (1500, 10, 14, 0.4, 0.0),
    "sparse": (6000, 3, 4.5, 0.65, 0.0),
    "mixed": (2400, 17, 10, 0.45, 0.5),
    "many": (1000, 40, 30, 0.4, 1.0),
}


def draw_degree_corrected(
    n: int, k: int, degree: float, within: float, spread: float, seed: int = 100
) -> tuple[sp.csr_array, np.ndarray]:
    """Draw a degree-corrected block model: unequal sizes, degrees from a power law."""
    rng = np.random.default_rng(seed)
    labels = np.sort(rng.choice(k, n, p=rng.dirichlet(np.full(k, 4.0))))
    pull = rng.pareto(2.5, n) + 0.3
    pull = np.minimum(pull, 15 * pull.mean())
    total = np.bincount(labels, pull, k) / pull.sum()
    between = np.exp(spread * rng.standard_normal((k, k)))
    between = np.sqrt(between * between.T) * np.outer(total, total)
    counts = rng.poisson(n * degree / 2 * ((1 - within) * between / between.sum() + np.diag(within * total)))
    ends: list[list[np.ndarray]] = [[], []]
    for pair in np.argwhere(counts):
        for side, block in zip(ends, pair, strict=True):
            nodes = np.flatnonzero(labels == block)
            side.append(rng.choice(nodes, counts[tuple(pair)], p=pull[nodes] / pull[nodes].sum()))
    i, j = (np.concatenate(side) for side in ends)
    A = sp.csr_array((np.ones((i != j).sum()), (i[i != j], j[i != j])), shape=(n, n))
    A = sp.csr_array(A + A.T)
    A.data[:] = 1.0
    return A, labels


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


def leiden(A: sp.csr_array, k: int, seed: int) -> np.ndarray:
    import igraph
    import leidenalg

    upper = sp.triu(A, 1, format="coo")
    graph = igraph.Graph(n=A.shape[0], edges=np.column_stack(upper.coords).tolist())
    kind = leidenalg.ModularityVertexPartition
    return np.array(leidenalg.find_partition(graph, kind, weights=upper.data.tolist(), seed=seed).membership)


def louvain(A: sp.csr_array, k: int, seed: int) -> np.ndarray:
    labels = np.empty(A.shape[0], dtype=int)
    for cluster, nodes in enumerate(nx.community.louvain_communities(nx.from_scipy_sparse_array(A), seed=seed)):
        labels[list(nodes)] = cluster
    return labels


def spectral(A: sp.csr_array, k: int, seed: int) -> np.ndarray:
    A = sp.csr_matrix(A)
    A.indices, A.indptr = A.indices.astype(np.int32), A.indptr.astype(np.int32)
    return SpectralClustering(k, affinity="precomputed", random_state=seed).fit_predict(A)


METHODS: dict[str, Callable] = {
    "SymNMF": lambda A, k, seed: SymNMF(k, random_state=seed).fit_predict(A),
    "Leiden": leiden, "Louvain": louvain, "spectral": spectral,
}  # fmt: skip


def measure(name: str, method: str, seed: int) -> list[str]:
    """Return a line of the file of results: graph, method, seed, n, k, NMI and seconds."""
    warnings.simplefilter("ignore")
    A, labels = load(name)
    A, k = sp.csr_array(A, dtype=float), len(np.unique(labels))
    if method == "SymNMF":  # once before the clock, for what is compiled when first used
        METHODS[method](planted_graph(150, 3, random_state=0)[0], 3, 0)
        METHODS[method](load("blocks")[0], 3, 0)
    start = time.perf_counter()
    found = METHODS[method](A, k, seed)
    seconds = time.perf_counter() - start
    return [name, method, str(seed), str(A.shape[0]), str(k), f"{nmi(labels, found):.4f}", f"{seconds:.2f}"]


def measure_all(cells: list[tuple[str, str, int]], jobs: int, budget: float, out: Path) -> list[list[str]]:
    """Measure what the file lacks, each in a process of its own; return all lines."""
    lines = list(csv.reader(out.open())) if out.exists() else []
    there, end = {(line[0], line[1], int(line[2])) for line in lines}, time.monotonic() + budget
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

    def run(cell: tuple[str, str, int]) -> list[str]:
        left = end - time.monotonic()
        if left <= 0:
            return []
        command = [sys.executable, __file__, "--cell", cell[0], cell[1], str(cell[2])]
        try:
            done = subprocess.run(command, env=os.environ | one_thread, timeout=left, capture_output=True, text=True)
        except subprocess.TimeoutExpired:
            return []
        if done.returncode:
            print(f"{cell}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
            return []
        return done.stdout.strip().splitlines()[-1].split(",")

    with ThreadPoolExecutor(jobs) as pool:
        for future in as_completed([pool.submit(run, cell) for cell in cells if cell not in there]):
            line = future.result()
            if line:
                lines.append(line)
                with out.open("a") as file:
                    file.write(",".join(line) + "\n")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    everything = QUICK + DRAWN + LONG
    parser.add_argument("names", nargs="*", default=everything, help=f"of {' '.join(everything)}")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--budget", type=float, default=480.0, help="seconds for all of it")
    parser.add_argument("--out", type=Path, default=Path("clustering.csv"))
    parser.add_argument("--cell", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        print(",".join(measure(options.cell[0], options.cell[1], int(options.cell[2]))))
        return
    methods = [name for name in options.methods if name != "Leiden" or importlib.util.find_spec("leidenalg")]
    # The slow ones first, so that none is left over when the others are done; in the table they are last.
    cells = [
        (name, method, seed) for name in reversed(options.names) for seed in range(options.seeds) for method in methods
    ]
    lines = measure_all(cells, options.jobs, options.budget, options.out)
    print("| graph | n | k | " + " | ".join(f"{name} | s" for name in methods) + " |")
    print("|---" * (3 + 2 * len(methods)) + "|")
    behind: dict[str, float] = {}
    for name in options.names:
        means, row, size = {}, [], ["", ""]
        for method in methods:
            mine = [line for line in lines if line[:2] == [name, method] and int(line[2]) < options.seeds]
            row.append("| ")
            if mine:
                means[method] = float(np.mean([float(line[5]) for line in mine]))
                row[-1] = f"{means[method]:.3f} | {np.mean([float(line[6]) for line in mine]):.2f}"
                row[-1] += "" if len(mine) == options.seeds else f" ({len(mine)} of {options.seeds})"
                size = mine[0][3:5]
        print(f"| {name} | {' | '.join(size)} | {' | '.join(row)} |")
        if "SymNMF" in means and len(means) > 1:
            behind[name] = max(score for method, score in means.items() if method != "SymNMF") - means["SymNMF"]
    level = sum(gap <= 0 for gap in behind.values())
    print(f"SymNMF at or above the best peer: {level} of {len(behind)}; by more than 0.03 below: ", end="")
    print(", ".join(f"{name} ({gap:.3f})" for name, gap in behind.items() if gap > 0.03) or "none")


if __name__ == "__main__":
    main()
