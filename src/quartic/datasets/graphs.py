"""Graphs with known communities: random ones, the karate club, and those of the data folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from quartic.arrays import RandomState, check_count, random_generator
from quartic.datasets.points import check_probability, draw_distinct, unordered_pairs
from quartic.datasets.stored import read_sparse, read_stored
from quartic.graphs import normalize

FILES = {
    "polbooks": "polbooks",
    "polblogs": "polblogs",
    "eu-core": "eu-core",
    "cora": "cora",
    "cora-full": "cora_full",
    "dblp": "dblp",
    "lfr": "LFR_N10000_ad5_mc50_mu0.3",
}
# of each member, the friends with a higher number
KARATE_FRIENDS = (
    "0: 1 2 3 4 5 6 7 8 10 11 12 13 17 19 21 31, 1: 2 3 7 13 17 19 21 30, 2: 3 7 8 9 13 27 28 32, 3: 7 12 13, 4: 6 "
    "10, 5: 6 10 16, 6: 16, 8: 30 32 33, 9: 33, 13: 33, 14: 32 33, 15: 32 33, 18: 32 33, 19: 33, 20: 32 33, 22: 32 "
    "33, 23: 25 27 29 32 33, 24: 25 27 31, 25: 31, 26: 29 33, 27: 33, 28: 31 33, 29: 32 33, 30: 32 33, 31: 32 33, "
    "32: 33"
)
KARATE_INSTRUCTOR = (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 16, 17, 19, 21)


@dataclass(frozen=True, eq=False)
class Graph:
    """An undirected graph with communities.

    Attributes
    ----------
    name : str
        Its name.
    adjacency : csr_array (n, n)
        Symmetric, float64, ones at the edges, no self-loops.
    labels : ndarray of int (n,) or None
        Communities, counted from 0; None where they overlap.
    membership : csr_array (n, n_communities) or None
        Communities where they overlap: a one where the node belongs.
    """

    name: str
    adjacency: sp.csr_array
    labels: NDArray[np.int64] | None
    membership: sp.csr_array | None = None


def load_graph(name: str) -> Graph:
    """Load a graph with known communities.

    Parameters
    ----------
    name : {"karate", "polbooks", "polblogs", "eu-core", "cora", "cora-full", "dblp", "lfr"}
        ``"karate"`` comes with the library. ``"dblp"`` has overlapping communities; ``"lfr"`` is synthetic, with 10,000
        nodes.

    Examples
    --------
    >>> from quartic.datasets import load_graph
    >>> load_graph("karate").adjacency.nnz
    156
    """
    if name == "karate":
        return karate()
    if name not in FILES:
        raise ValueError(f"name must be one of karate, {', '.join(FILES)}, got {name!r}")
    stem = f"graphs/{FILES[name]}"
    adjacency = read_sparse(name, f"{stem}_adjacency.npz")
    if name == "dblp":
        return Graph(name, adjacency, None, read_sparse(name, f"{stem}_membership.npz"))
    (labels,) = read_stored(name, f"{stem}_labels.npy")
    return Graph(name, adjacency, labels.astype(np.int64))


def karate() -> Graph:
    """Return Zachary's karate club: 34 members, 78 friendships, and the two clubs it split into.

    W. W. Zachary, An information flow model for conflict and fission in small groups, 1977. Label 0 went with the
    instructor (member 0), label 1 with the officers (member 33).

    Examples
    --------
    >>> from quartic.datasets import karate
    >>> club = karate()
    >>> club.adjacency.nnz // 2, club.labels.sum().item()
    (78, 17)
    """
    lists = (entry.split(": ") for entry in KARATE_FRIENDS.split(", "))
    edges = np.array([(int(i), int(j)) for i, friends in lists for j in friends.split()])
    labels = np.ones(34, dtype=np.int64)
    labels[list(KARATE_INSTRUCTOR)] = 0
    return Graph("karate", _undirected(edges, 34), labels)


def planted_graph(
    n: int, n_communities: int, degree: int = 10, p_within: float = 0.85, random_state: RandomState = None
) -> tuple[sp.csr_array, NDArray[np.int64]]:
    r"""Draw a sparse normalised graph with communities of equal size.

    Each node draws ``degree`` neighbours, each with probability ``p_within`` from its own community and otherwise from
    the others; all edges weigh 1 and go both ways, the diagonal is added, and the answer is
    :math:`D^{-1/2} W D^{-1/2}`. Nodes come in random order.

    Parameters
    ----------
    n, n_communities : int
        Number of nodes and of communities.
    degree : int
        Neighbours drawn by a node; its degree is about twice that, and fewer where draws coincide.
    p_within : float
        Probability of a neighbour in the same community.
    random_state : int, Generator, RandomState or None
        Seed.

    Returns
    -------
    matrix : csr_array (n, n)
        The graph.
    labels : ndarray of int64 (n,)
        Communities.

    Examples
    --------
    >>> from quartic.datasets import planted_graph
    >>> M, labels = planted_graph(1000, 5, random_state=0)
    >>> M.shape, [int(size) for size in set((labels == c).sum() for c in range(5))]
    ((1000, 1000), [200])
    """
    n = check_count(n, "n")
    n_communities = check_count(n_communities, "n_communities")
    degree = check_count(degree, "degree", at_least=0)
    if n_communities > n:
        raise ValueError(f"n_communities must be at most n = {n}, got {n_communities}")
    check_probability(p_within, "p_within")
    generator = random_generator(random_state)
    bounds = np.arange(n_communities + 1) * n // n_communities
    members = generator.permutation(n)  # community c is members[bounds[c]:bounds[c + 1]]
    labels = np.empty(n, dtype=np.int64)
    labels[members] = np.repeat(np.arange(n_communities), np.diff(bounds))

    node = np.repeat(np.arange(n), degree)
    start, end = bounds[labels[node]], bounds[labels[node] + 1]
    inside = generator.random(len(node)) < p_within if n_communities > 1 else np.ones(len(node), dtype=bool)
    choices = np.where(inside, end - start, n - (end - start))
    place = generator.integers(choices)
    # Outside its own run of members, a node counts on from the end of that run, around the circle.
    other = members[np.where(inside, start + place, (end + place) % n)]
    edges = np.column_stack([np.concatenate([node, np.arange(n)]), np.concatenate([other, np.arange(n)])])
    return normalize(_undirected(edges, n)), labels


def block_model(
    sizes: Sequence[int], p_in: float, p_out: float, random_state: RandomState = None
) -> tuple[sp.csr_array, NDArray[np.int64]]:
    """Draw a stochastic block model: every pair of nodes is an edge independently of the others.

    Parameters
    ----------
    sizes : sequence of int
        Sizes of the blocks.
    p_in, p_out : float
        Probability of an edge within a block and between blocks.
    random_state : int, Generator, RandomState or None
        Seed.

    Returns
    -------
    adjacency : csr_array (n, n)
        Symmetric, ones at the edges, no self-loops; memory is of the order of the number of edges.
    labels : ndarray of int64 (n,)
        Blocks; nodes are in the order of the blocks.

    Examples
    --------
    >>> from quartic.datasets import block_model
    >>> A, labels = block_model([2, 3], p_in=1.0, p_out=0.0, random_state=0)
    >>> A.toarray().astype(int)
    array([[0, 1, 0, 0, 0],
           [1, 0, 0, 0, 0],
           [0, 0, 0, 1, 1],
           [0, 0, 1, 0, 1],
           [0, 0, 1, 1, 0]])
    """
    sizes = [check_count(size, f"sizes[{at}]") for at, size in enumerate(sizes)]
    if not sizes:
        raise ValueError("sizes must name at least one block")
    check_probability(p_in, "p_in")
    check_probability(p_out, "p_out")
    generator = random_generator(random_state)
    n = sum(sizes)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    # Edges between blocks are drawn among all pairs, those within a block dropped: one draw, however many blocks.
    between = _draw_edges(n, p_out, generator) if len(sizes) > 1 else np.empty((0, 2), dtype=np.int64)
    edges = [between[labels[between[:, 0]] != labels[between[:, 1]]]]
    start = 0
    for size in sizes:
        edges.append(start + _draw_edges(size, p_in, generator))
        start += size
    return _undirected(np.concatenate(edges), n), labels


def _draw_edges(n: int, probability: float, generator: np.random.Generator) -> NDArray[np.int64]:
    total = n * (n - 1) // 2
    return unordered_pairs(draw_distinct(total, int(generator.binomial(total, probability)), generator), n)


def _undirected(edges: NDArray[np.int64], n: int) -> sp.csr_array:
    """Return the adjacency matrix with a one for each edge and its reverse, however often it is listed."""
    i, j = edges.astype(np.int32).T
    A = sp.csr_array((np.ones(2 * len(edges)), (np.concatenate([i, j]), np.concatenate([j, i]))), shape=(n, n))
    A.sum_duplicates()
    A.data[:] = 1.0
    return A
