"""Which clusters are sure: what many runs agree on, and a tree of the clusters, without any n × n matrix."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone

from quartic.arrays import Array, random_generator, to_host
from quartic.clustering.refinement import BlockModel, Labels
from quartic.clustering.symnmf import SymNMF
from quartic.graphs import as_adjacency
from quartic.metrics import ari


@dataclass(frozen=True)
class Consensus:
    """What runs from several seeds agree on.

    Attributes
    ----------
    labels : array of int (n,)
        The run that agrees best with the others, by the mean adjusted Rand index.
    stability : array (n,)
        Of each node, the mean over any two runs of the Jaccard index of its two clusters: 1 where all runs put it with
        the same nodes.
    together : csr_array (n, n)
        For each edge, the share of runs that put its ends in one cluster.
    runs : array of int (n_runs, n)
        The labels of each run.
    """

    labels: Labels
    stability: NDArray[np.float64]
    together: sp.csr_array
    runs: Labels


def find_consensus(
    A: Any, n_components: int, *, n_runs: int = 10, random_state: Any = None, **settings: Any
) -> Consensus:
    """Cluster a graph from ``n_runs`` random starts and compare the answers.

    Parameters
    ----------
    A : array, sparse matrix, frame or networkx graph (n, n)
        Symmetric.
    n_components, random_state, settings
        As in `quartic.SymNMF`; ``init`` is ``"random"`` where not named.
    n_runs : int, default=10
        At least 2.

    Examples
    --------
    >>> from quartic.clustering.consensus import find_consensus
    >>> from quartic.datasets import block_model
    >>> A, _ = block_model([40, 40, 40], 0.4, 0.02, random_state=0)
    >>> found = find_consensus(A, 3, n_runs=3, random_state=0)
    >>> float(found.stability.min()), found.together.nnz == A.nnz
    (1.0, True)
    """
    if n_runs < 2:
        raise ValueError(f"n_runs must be at least 2, since runs are compared, got {n_runs}")
    G = as_adjacency(A)
    generator = random_generator(random_state)
    model = SymNMF(n_components, **{"init": "random", **settings})
    seeds = [int(seed) for seed in generator.integers(2**63, size=n_runs)]
    runs = np.empty((n_runs, G.shape[0]), dtype=np.intp)
    for k, seed in enumerate(seeds):
        fit = clone(model).set_params(random_state=seed).fit(G)
        fit.result_.unless_interrupted()
        runs[k] = to_host(fit.labels_)
    agreement, stability = np.zeros(n_runs), np.zeros(G.shape[0])
    for a, b in combinations(range(n_runs), 2):
        one, other = runs[a], runs[b]
        shared = np.zeros((n_components, n_components))
        np.add.at(shared, (one, other), 1)
        sizes = shared.sum(axis=1)[one] + shared.sum(axis=0)[other]
        both = shared[one, other]
        stability += both / (sizes - both)
        agreement[[a, b]] += ari(one, other)
    together = sp.csr_array(G, copy=True)
    rows = np.repeat(np.arange(G.shape[0]), np.diff(G.indptr))
    together.data = (runs[:, rows] == runs[:, G.indices]).mean(axis=0)
    return Consensus(runs[agreement.argmax()], stability / (n_runs * (n_runs - 1) / 2), together, runs)


def join_clusters(A: Any, labels: Any) -> Array:
    r"""Return a tree of clusters, in the form of `scipy.cluster.hierarchy.linkage`: what costs least is joined first.

    The cost of a join is what the block model of the graph loses by it (`quartic.clustering.refinement`), relative to
    what it loses when all become one; the height of a join is the sum of the costs so far.

    Parameters
    ----------
    A : array, sparse matrix, frame or networkx graph (n, n)
        Symmetric, no negative weights.
    labels : array of int (n,)
        Clusters, from 0.

    Returns
    -------
    array (n_clusters − 1, 4)
        The two that are joined (a join makes the next number), the height, and how many clusters are then one.

    Examples
    --------
    Four groups, of which the first two and the last two belong together:

    >>> import numpy as np
    >>> from quartic.clustering.consensus import join_clusters
    >>> weights = 1 + 3 * np.kron(np.eye(2), np.ones((2, 2))) + 9 * np.eye(4)
    >>> join_clusters(np.kron(weights, np.ones((9, 9))), np.repeat(range(4), 9))[:, :2]
    array([[0., 1.],
           [2., 3.],
           [4., 5.]])
    """
    k = int(np.max(labels)) + 1
    model = BlockModel(as_adjacency(A), labels, k)
    names, counts, steps = list(range(k)), [1] * k, []
    for step in range(k - 1):
        r, s, gain, model = model.join_best()
        counts[s] += counts.pop(r)
        steps.append([*sorted((names[s], names.pop(r))), -gain, counts[s]])
        names[s] = k + step
    tree = np.array(steps).reshape(-1, 4)
    heights = np.cumsum(np.maximum(tree[:, 2], 0))
    tree[:, 2] = heights / heights[-1] if k > 1 and heights[-1] > 0 else heights
    return tree
