"""Random graphs whose communities are known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from quartic.arrays import RandomState, random_generator
from quartic.datasets.pairs import checked_count, distinct_integers, unordered_pairs
from quartic.graphs import normalize

Labels = NDArray[np.int64]


def planted_graph(
    n: int, n_communities: int, degree: int = 10, p_within: float = 0.85, random_state: RandomState = None
) -> tuple[sp.csr_array, Labels]:
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
    n = checked_count(n, "n")
    n_communities = checked_count(n_communities, "n_communities")
    degree = checked_count(degree, "degree", at_least=0)
    if n_communities > n:
        raise ValueError(f"n_communities must be at most n = {n}, got {n_communities}")
    _check_probability(p_within, "p_within")
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
    rows = np.concatenate([node, other, np.arange(n)])
    columns = np.concatenate([other, node, np.arange(n)])
    return normalize(_ones(rows, columns, n)), labels


def block_model(
    sizes: Sequence[int], p_in: float, p_out: float, random_state: RandomState = None
) -> tuple[sp.csr_array, Labels]:
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
    sizes = [checked_count(size, f"sizes[{at}]") for at, size in enumerate(sizes)]
    if not sizes:
        raise ValueError("sizes must name at least one block")
    _check_probability(p_in, "p_in")
    _check_probability(p_out, "p_out")
    generator = random_generator(random_state)
    n = sum(sizes)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    # Edges between blocks are drawn among all pairs, those within a block dropped: one draw, however many blocks.
    between = _edges(n, p_out, generator) if len(sizes) > 1 else np.empty((0, 2), dtype=np.int64)
    edges = [between[labels[between[:, 0]] != labels[between[:, 1]]]]
    start = 0
    for size in sizes:
        edges.append(start + _edges(size, p_in, generator))
        start += size
    i, j = np.concatenate(edges).T
    return _ones(np.concatenate([i, j]), np.concatenate([j, i]), n), labels


def _edges(n: int, probability: float, generator: np.random.Generator) -> Labels:
    total = n * (n - 1) // 2
    return unordered_pairs(distinct_integers(total, int(generator.binomial(total, probability)), generator), n)


def _ones(rows: Labels, columns: Labels, n: int) -> sp.csr_array:
    A = sp.csr_array((np.ones(len(rows)), (rows.astype(np.int32), columns.astype(np.int32))), shape=(n, n))
    A.sum_duplicates()
    A.data[:] = 1.0
    return A


def _check_probability(value: float, name: str) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must lie between 0 and 1, got {value!r}")
