"""Graphs with known communities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from quartic.datasets.stored import stored_arrays

FILES = {
    "polbooks": "polbooks",
    "polblogs": "polblogs",
    "eu-core": "eu-core",
    "cora": "cora",
    "cora-full": "cora_full",
    "dblp": "dblp",
    "lfr": "LFR_N10000_ad5_mc50_mu0.3",
}


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

    Examples
    --------
    >>> from quartic.datasets import karate
    >>> karate().adjacency.shape
    (34, 34)
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
        from quartic.datasets.club import karate

        return karate()
    if name not in FILES:
        raise ValueError(f"name must be one of karate, {', '.join(FILES)}, got {name!r}")
    stem = f"graphs/{FILES[name]}"
    adjacency = _matrix(name, f"{stem}_adjacency.npz")
    if name == "dblp":
        return Graph(name, adjacency, None, _matrix(name, f"{stem}_membership.npz"))
    (labels,) = stored_arrays(name, f"{stem}_labels.npy")
    return Graph(name, adjacency, labels.astype(np.int64))


def _matrix(name: str, relative: str) -> sp.csr_array:
    (stored,) = stored_arrays(name, relative)
    A = sp.csr_array(stored, dtype=np.float64)
    A.sum_duplicates()
    return A
