"""Communities of networkx graphs, as its users expect them: graphs and node names in, sets of nodes out.

>>> import networkx as nx
>>> import quartic.nx
>>> sorted(map(len, quartic.nx.communities(nx.karate_club_graph(), 2, random_state=0)))
[16, 18]

Installed beside networkx it is also a backend of that name, for the functions that look for communities:
``nx.community.louvain_communities(G, backend="quartic")`` and ``nx.community.asyn_fluidc(G, k, backend="quartic")``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from inspect import signature
from random import Random
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
        k = select_rank(G, range(2, min(20, len(G) - 1) + 1), random_state=random_state).best
    return SymNMF(k, random_state=random_state, **settings).fit(G)


def _sets(names: list[Any], labels: Any, k: int) -> list[set[Any]]:
    found: list[set[Any]] = [set() for _ in range(k)]
    for name, label in zip(names, labels.tolist(), strict=True):
        found[label].add(name)
    return sorted(filter(None, found), key=len, reverse=True)


class Backend:
    """What networkx calls for ``backend="quartic"``; names and arguments are networkx's."""

    @staticmethod
    def convert_from_nx(graph: Any, **_: Any) -> Any:
        """Return a graph of this backend, which shares the data of the one given."""
        from networkx import Graph

        made = type("QuarticGraph", (Graph,), {"__networkx_backend__": "quartic"})()
        made._adj, made._node, made.graph = graph._adj, graph._node, graph.graph
        return made

    @staticmethod
    def convert_to_nx(result: Any, **_: Any) -> Any:
        """Return an answer, which is sets of nodes, as it is."""
        return result

    @staticmethod
    def can_run(name: str, args: Any, kwargs: Any) -> bool | str:
        """Tell networkx whether it may call on its own accord: undirected graphs, and no setting of its methods."""
        given = signature(getattr(Backend, name)).bind(*args, **kwargs).arguments
        if given["G"].is_directed() or given["G"].is_multigraph():
            return "quartic finds communities of undirected graphs without parallel edges"
        return given.get("resolution", 1) == 1 or "quartic knows no resolution"

    @staticmethod
    def louvain_communities(
        G: Any, weight: str | None = "weight", resolution: float = 1, threshold: float = 1e-7,
        max_level: int | None = None, seed: Any = None,
    ) -> list[set[Any]]:  # fmt: skip
        """Return a partition in as many communities as `quartic.select_rank` finds."""
        return communities(_weighted(G, weight), random_state=_state(seed))

    @staticmethod
    def asyn_fluidc(G: Any, k: int, max_iter: int = 100, seed: Any = None) -> Iterator[set[Any]]:
        """Return k communities."""
        return iter(communities(_weighted(G, None), k, random_state=_state(seed)))


def _state(seed: Any) -> Any:
    """Return what networkx made of a seed as we take it: some of its functions hand on Python's own generator."""
    return seed.getrandbits(32) if isinstance(seed, Random) else seed


def _weighted(G: Any, weight: str | None) -> Any:
    """Return the graph with the attribute named as its ``weight``."""
    from networkx import Graph

    made = Graph()
    made.add_nodes_from(G)
    made.add_weighted_edges_from(G.edges(data=weight, default=1))
    return made


backend = Backend()
