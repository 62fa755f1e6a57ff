"""Communities of networkx graphs, as its users expect them: graphs and node names in, sets of nodes out.

>>> import networkx as nx
>>> import quartic.nx
>>> sorted(map(len, quartic.nx.communities(nx.karate_club_graph(), 2, random_state=0)))
[16, 18]
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from quartic.arrays import RandomState
from quartic.clustering.roles import RoleNMF, cluster_both_sides
from quartic.clustering.selection import select_rank
from quartic.clustering.symnmf import SymNMF

__all__ = ["bipartite_communities", "communities", "overlapping_communities", "roles"]


def communities(G: Any, k: int | None = None, *, random_state: RandomState = None, **settings: Any) -> list[set[Any]]:
    """Return a partition of the nodes of an undirected graph, the largest community first.

    Parameters
    ----------
    G : networkx.Graph
        Its edge attribute ``weight`` counts, where there is one.
    k : int, optional
        Number of communities; `quartic.select_rank` chooses among 2 to 20 where it is left out. Empty ones are dropped.
    random_state, settings
        As in `quartic.SymNMF`.

    Examples
    --------
    >>> import networkx as nx
    >>> from quartic.nx import communities
    >>> sorted(map(sorted, communities(nx.barbell_graph(4, 0), 2, random_state=0)))
    [[0, 1, 2, 3], [4, 5, 6, 7]]
    """
    model = _fitted(G, k, random_state, settings)
    return _sets(list(G.nodes), model.labels_, model.n_components)


def overlapping_communities(
    G: Any, k: int | None = None, *, random_state: RandomState = None, **settings: Any
) -> list[set[Any]]:
    """Return communities of an undirected graph that may share nodes, as `quartic.SymNMF.communities_` has them."""
    found: list[set[Any]] = _fitted(G, k, random_state, settings).communities_
    return sorted(filter(None, found), key=len, reverse=True)


def roles(G: Any, k: int, *, random_state: RandomState = None) -> list[set[Any]]:
    """Return groups of nodes of a digraph that have edges from and to the same groups; see `RoleNMF`."""
    model = RoleNMF(k, random_state=random_state).fit(G)
    return _sets(list(G.nodes), model.labels_, k)


def bipartite_communities(G: Any, top: Iterable[Any], k: int, *, random_state: RandomState = None) -> list[set[Any]]:
    """Return communities of a bipartite graph, each of nodes of both sides; ``top`` names the nodes of one side."""
    from networkx.algorithms.bipartite import biadjacency_matrix

    rows = list(dict.fromkeys(top))
    columns = [node for node in G if node not in set(rows)]
    found = cluster_both_sides(biadjacency_matrix(G, rows, columns), k, random_state=random_state)
    return _sets(rows + columns, np.concatenate([found.row_labels, found.column_labels]), k)


def _fitted(G: Any, k: int | None, random_state: RandomState, settings: dict[str, Any]) -> SymNMF:
    if k is None:
        k = select_rank(G, range(2, min(20, len(G) - 1) + 1), n_runs=5, random_state=random_state).best
    return SymNMF(k, random_state=random_state, **settings).fit(G)


def _sets(names: list[Any], labels: Any, k: int) -> list[set[Any]]:
    found: list[set[Any]] = [set() for _ in range(k)]
    for name, label in zip(names, labels.tolist(), strict=True):
        found[label].add(name)
    return sorted(filter(None, found), key=len, reverse=True)
