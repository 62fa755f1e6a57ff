r"""Labels that a factor gives, refined by a block model of the graph.

With :math:`e_{rs}` the weight of the edges between clusters r and s (both ways round; inside a cluster twice),
:math:`\kappa_r = \sum_s e_{rs}` and :math:`n_r` nodes, twice the logarithm of the likelihood of the degree-corrected
block model (Karrer and Newman 2011) at its best rates, with that of the labels at their frequencies, is

.. math:: L = \sum_{rs} e_{rs} \log \frac{e_{rs}}{\kappa_r \kappa_s} + 2 \sum_r n_r \log \frac{n_r}{n}

up to a constant (the complete likelihood of Daudin, Picard and Robin 2008, at a fixed number of clusters). The second
sum is what keeps noise from halving a large cluster while two small ones become one.

Weights count as numbers of edges, in the unit in which their variance is their mean; but those of a graph that was
handed in may be anything, counts, strengths or noise. There each edge counts once, and its weight is an observation of
its own: at eight levels, with about as many edges each, it is so much likelier inside clusters than between them,

.. math:: w_{ij} = \log \frac{P(\text{level of } A_{ij} \mid z_i = z_j)}{P(\text{level of } A_{ij} \mid z_i \ne z_j)}.

`BlockModel.refine` is the mean field of that model (the variational method of the same authors): memberships q, from
one cluster a node, become

.. math:: q_{ir} \propto n_r \exp \Bigl(\sum_j A_{ij} \sum_s q_{js} \log \frac{e_{rs}}{\kappa_r}
                                       + \sum_j w_{ij} q_{jr}\Bigr), \qquad
          e_{rs} = \sum_{ij} q_{ir} A_{ij} q_{js}, \quad n_r = \sum_i q_{ir},

by halves, until they stay. Nodes count by how sure they are: fewer end in a wrong cluster than where each in turn
moves to its likeliest one. The model also puts nodes together that have the same neighbours and no edge to each other;
these are no cluster to who looks at them, and go to a cluster of their neighbours in the end.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from scipy.special import gammaln, softmax

from quartic.arrays import Array

Labels = NDArray[np.intp]

_TINY = np.finfo(float).tiny
# Sweeps of refinement at most, the largest change of a membership that is none, the least membership that counts, and
# with more clusters than this, few of which a node has to do with, they are looked at sparsely.
_SWEEPS, _SETTLED, _LEAST, _MANY = 30, 0.1, 1e-3, 50
# Levels of weights, and edges that are added to each side as if weights told nothing.
_LEVELS, _PRIOR = 8, 5.0


class BlockModel:
    """The block model of a symmetric graph without negative weights and of labels from 0 on, which are copied.

    With ``levels`` weights that differ are levels, otherwise numbers of edges. The counts ``edges`` (k, k), ``volume``
    (k,) and ``size`` (k,) are made when first asked for.
    """

    def __init__(self, A: Any, labels: Any, n_clusters: int, *, levels: bool = False) -> None:
        A = sp.csr_array(A, dtype=np.float64)
        if not A.data.all():
            A = A.copy()
            A.eliminate_zeros()
        self.weights, self.cuts = A, _level_cuts(A.data) if levels else np.empty(0)
        self.scale = float(A.data.sum()) / max(float(A.data @ A.data), _TINY)
        self.graph = _count_edges(A, self.scale, self.cuts)
        self.degree = np.asarray(self.graph.sum(axis=1))
        self.labels, self.n_clusters = np.array(labels, dtype=np.intp), n_clusters

    def _relabelled(self, labels: Labels, n_clusters: int, **counts: Array) -> Self:
        """Return the model of other labels, with those of its counts that are known."""
        other = object.__new__(type(self))
        same = vars(self).keys() & {"weights", "cuts", "scale", "graph", "degree", "component"}
        vars(other).update({name: vars(self)[name] for name in same}, labels=labels, n_clusters=n_clusters, **counts)
        return other

    @cached_property
    def component(self) -> Labels:
        """Connected component of each node."""
        found: Labels = connected_components(self.graph, directed=False)[1]
        return found

    @cached_property
    def levels(self) -> Array:
        """Number of edges, each counted twice, that are inside clusters and between them (2,), at each level."""
        A = self.weights
        inside = np.repeat(self.labels, np.diff(A.indptr)) == self.labels[A.indices]
        at = np.searchsorted(self.cuts, A.data)
        return np.stack([np.bincount(at[side], minlength=len(self.cuts) + 1) for side in (inside, ~inside)])

    @cached_property
    def odds(self) -> Array:
        """How much likelier each level is inside clusters than between them, as a logarithm."""
        share = self.levels.sum(axis=0) / max(self.levels.sum(), 1)
        logs = np.log(self.levels + _PRIOR * share) - np.log(self.levels.sum(axis=1) + _PRIOR)[:, None]
        found: Array = logs[0] - logs[1]
        return found

    @cached_property
    def member(self) -> sp.csr_array:
        """A one in the column of its cluster for each node."""
        n = len(self.labels)
        return sp.csr_array((np.ones(n), self.labels, np.arange(n + 1)), shape=(n, self.n_clusters))

    @cached_property
    def to(self) -> sp.csr_array:
        """Weight of the edges of each node to each cluster."""
        return sp.csr_array(self.graph @ self.member)

    @cached_property
    def edges(self) -> Array:
        """Weight of the edges between two clusters."""
        found: Array = (self.member.T @ self.to).toarray()
        return found

    @cached_property
    def volume(self) -> Array:
        """Sum of the degrees in a cluster."""
        return np.asarray(np.bincount(self.labels, self.degree, self.n_clusters), dtype=np.float64)

    @cached_property
    def size(self) -> Array:
        """Number of nodes in a cluster."""
        return np.bincount(self.labels, minlength=self.n_clusters).astype(np.float64)

    def refine(self, fixed: Any = ()) -> Self:
        """Return the model whose labels are the largest of the memberships q of the mean field; nodes ``fixed`` stay.

        So do nodes without edges, and those of which the first sweep leaves no doubt; and all where the labels found
        are not likelier (`evidence`): in a tree memberships run into one large cluster. But where nothing is known,
        small components (`without_pieces`) go to the largest cluster: their edges speak for none, which leaves n_r. A
        cluster that would end empty has the nodes it began with. Last, a node without an edge to its cluster goes to
        the likeliest one of its neighbours, unless it is all of its cluster.
        """
        n, k, labels, A = len(self.labels), self.n_clusters, self.labels.copy(), self.graph
        told = _tell(self.weights, self.cuts, self.odds) if len(self.cuts) else None
        scores = self.to @ log_rates(self.edges) + np.log(self.size + _LEAST)
        scores += 0.0 if told is None else told @ self.member
        with np.errstate(over="ignore"):  # of a node that is elsewhere for sure
            others = np.exp(scores - scores[np.arange(n), labels][:, None]).sum(axis=1) - 1
        moving = (self.degree > 0) & (others >= _LEAST / (1 - _LEAST))
        moving[np.asarray(fixed, dtype=np.intp)] = False
        # From here on the others stay: what they have to do with these and among themselves is made once
        rows = np.flatnonzero(moving)
        mine, new = np.eye(k)[labels[rows]], softmax(scores[rows], axis=1)
        stays = sp.diags_array(np.where(moving, 0.0, 1.0)) @ self.member
        apart, among = (A[rows] @ stays).toarray(), A[rows][:, rows]
        if told is not None:
            told_apart, told = (told[rows] @ stays).toarray(), told[rows][:, rows]

        def count() -> tuple[Array, Array, Array]:
            """Return the edges of nodes that move to each cluster, and what they add to edges and sizes."""
            shared = among @ mine
            half = mine.T @ (apart + 0.5 * shared)
            return apart + shared, half + half.T, mine.sum(axis=0)

        _, edges, size = count()
        edges, size = self.edges - edges, self.size - size
        for _ in range(_SWEEPS):
            if np.abs(new - mine).max(initial=0) < _SETTLED:
                break
            mine = (mine + new) / 2
            mine[mine < _LEAST] = 0
            to, more_edges, more_nodes = count()
            counts = to, edges + more_edges, size + more_nodes
            new = _memberships(*counts) if told is None else _memberships(*counts, told_apart + told @ mine)
        labels[rows] = new.argmax(axis=1)
        if self._relabelled(labels, k).likelihood() < self.likelihood():
            labels = self.labels.copy()
        large = np.arange(n) if len(fixed) else without_pieces(self.component)
        if len(large) < n:
            pieces = np.ones(n, dtype=bool)
            pieces[large] = False
            labels[pieces] = np.bincount(labels[large]).argmax()
        lost = ((self.size > 0) & (np.bincount(labels, minlength=k) == 0))[self.labels]
        labels[lost] = self.labels[lost]
        if len(np.unique(labels)) < np.count_nonzero(self.size):
            labels = self.labels.copy()
        return self._relabelled(labels, k)._with_edges_inside(fixed)

    def _with_edges_inside(self, fixed: Any) -> Self:
        """Return the model where nodes that have edges have one to their cluster, as `refine` says."""
        n, A, labels = len(self.labels), self.graph, self.labels.copy()
        alone = (self.degree > 0) & (self.to[np.arange(n), labels] - A.diagonal() <= 0)
        alone[np.asarray(fixed, dtype=np.intp)] = False
        if not alone.any():
            return self
        size, rates, order = self.size.copy(), log_rates(self.edges), np.log(self.size + _LEAST)
        # A node that leaves takes no one's only edge: it has none to its cluster. One pass is enough
        for i in np.flatnonzero(alone).tolist():
            at = slice(A.indptr[i], A.indptr[i + 1])
            others = A.indices[at] != i
            near, weight = labels[A.indices[at][others]], A.data[at][others]
            if len(near) == 0 or size[labels[i]] == 1 or (near == labels[i]).any():
                continue
            to = np.bincount(near, weight, self.n_clusters)
            size[labels[i]] -= 1
            labels[i] = np.where(to > 0, to @ rates + order, -np.inf).argmax()
            size[labels[i]] += 1
        return self._relabelled(labels, self.n_clusters)

    def join_gains(self) -> Array:
        """Return what L gains, as a rule less than nothing, where clusters r > s become one; −∞ at r ≤ s."""
        k, E, own = self.n_clusters, self.edges, _xlogx(self.edges)
        gains = np.full((k, k), -np.inf)
        for r in range(1, k):
            s = np.arange(r)
            with_others = 2 * (_xlogx(E[r] + E[:r]) - own[r] - own[:r])
            with_others[:, r] = with_others[s, s] = 0
            among = _xlogx(E[r, r] + E[s, s] + 2 * E[r, s]) - own[r, r] - own[s, s] - 2 * own[r, s]
            gains[r, :r] = with_others.sum(axis=1) + among
            for counts, sign in ((self.volume, -2), (self.size, 2)):
                gains[r, :r] += sign * (_xlogx(counts[r] + counts[:r]) - _xlogx(counts[r]) - _xlogx(counts[:r]))
        return gains

    def joined(self, r: int, s: int) -> Self:
        """Return the model where cluster r > s is part of s, and those after r move up."""
        k = self.n_clusters
        into = np.arange(k)
        into[r] = s
        into[r + 1 :] -= 1
        G = np.eye(k - 1)[into]
        counts = {"edges": G.T @ self.edges @ G, "volume": self.volume @ G, "size": self.size @ G}
        return self._relabelled(into[self.labels], k - 1, **counts)

    def join_best(self) -> tuple[int, int, float, Self]:
        """Return the clusters r > s whose join costs least, what L gains by it, and the model where they are one."""
        gains = self.join_gains()
        r, s = map(int, np.unravel_index(gains.argmax(), gains.shape))
        return r, s, float(gains[r, s]), self.joined(r, s)

    def with_components_apart(self) -> Self:
        """Return the model where no cluster has nodes of two large components, if there are clusters enough for them.

        Blocks, and a factorisation, may gain more by cutting a long component than they lose by one cluster for two
        others; but that is none to who looks at it. Clusters are cut where components end, and of those in one
        component the ones are joined that cost least. A large one has a quarter of the nodes of a mean cluster.
        """
        k, size = self.n_clusters, np.bincount(self.component)
        large = size >= len(self.labels) / (4 * k)
        nodes = np.zeros((len(size), k))
        np.add.at(nodes, (self.component, self.labels), 1)
        main = (large[:, None] * nodes).argmax(axis=0)  # of each cluster: nodes of small components go with it
        home = np.where(large[self.component], self.component, main[self.labels])
        parts, labels = np.unique(home * k + self.labels, return_inverse=True)
        if large.sum() > k or len(parts) == np.count_nonzero(self.size):
            return self
        model = self._relabelled(labels, max(len(parts), k))
        while model.n_clusters > k:
            gains = model.join_gains()
            linked = np.where(model.edges > 0, gains, -np.inf)
            gains = linked if linked.max() > -np.inf else gains
            model = model.joined(*map(int, np.unravel_index(gains.argmax(), gains.shape)))
        return model

    def likelihood(self) -> float:
        """Return L of the module, with twice that of the levels at their frequencies inside clusters and between."""
        L = _xlogx(self.edges).sum() - 2 * _xlogx(self.volume).sum() + 2 * _xlogx(self.size).sum()
        if len(self.cuts):
            L += _xlogx(self.levels).sum() - _xlogx(self.levels.sum(axis=1)).sum()
        return float(L)

    def worth(self) -> float:
        """Return `likelihood`, small components aside (`without_pieces`)."""
        large = without_pieces(self.component)
        if len(large) == len(self.labels):
            return self.likelihood()
        A = self.weights[large][:, large]
        return BlockModel(A, self.labels[large], self.n_clusters, levels=len(self.cuts) > 0).likelihood()

    def evidence(self) -> float:
        """Return log P(A, z) of communities, as `quartic.select_rank` has it; empty clusters are none.

        With levels, that of these is a factor: any shares of the levels, inside and between.
        """
        some = self.size > 0
        volume, size, inside = self.volume[some], self.size[some], np.diag(self.edges)[some] / 2
        k, n, m, within = len(size), size.sum(), volume.sum() / 2, inside.sum()
        total = (gammaln(inside + 1) + inside * np.log(2) + gammaln(size) - gammaln(size + volume)).sum()
        total += gammaln(size + 1).sum() - gammaln(n + 1) - _count_ways(k, n - k)
        for at in self.levels / 2 if len(self.cuts) else ():
            total += gammaln(at + 1).sum() - gammaln(at.sum() + 1) - _count_ways(len(at), at.sum())
        if k == 1:
            return float(total)
        between, ends, half = m - within, volume - 2 * inside, volume / 2
        stay = (gammaln(half + 1) - gammaln(inside + 1) - gammaln(half - inside + 1)).sum()
        stay += gammaln(within + 1) + gammaln(between + 1) - gammaln(m + 2)
        pairs = gammaln(2 * between + 1) - between * np.log(2) - gammaln(between + 1)
        pairs += between * np.log1p(-((ends / max(ends.sum(), 1.0)) ** 2).sum())  # no pair is inside
        return float(total + stay + gammaln(ends + 1).sum() - pairs - _count_ways(k, 2 * m))


class Placement:
    r"""Where new nodes go: what a fit leaves behind, so that its graph is not looked at again.

    A node whose edges to nodes j of the graph weigh :math:`b_j` goes to the cluster r with the largest

    .. math:: \sum_j b_j \log \frac{e_{r z_j}}{\kappa_r} + \sum_{j: z_j = r} w_j
              + \log \Bigl(0.01 + \frac{\sum_j b_j m_{jr}}{\sum_j b_j} \Bigr).

    The first sums are what L gains, to first order; instead of the size of a cluster, its share :math:`m_{jr}` of the
    similarities of its neighbours speaks for it, which go further than one edge. A node without edges goes to the
    largest cluster.
    """

    def __init__(self, model: BlockModel, M: Any) -> None:
        self._fitted = model, M

    @cached_property
    def tables(self) -> tuple[sp.csr_array, sp.csr_array, Array, tuple[float, Array, Array]]:
        """Members, shares m, rates and what weights are, made with the first node: a fit need not wait for them."""
        model, M = self._fitted
        del self._fitted
        shares = _shared(sp.csr_array(M @ model.member))
        return model.member, shares, log_rates(model.edges), (model.scale, model.cuts, model.odds)

    def __getstate__(self) -> dict[str, Any]:
        """Keep no graph in a pickle."""
        return {"tables": self.tables}

    def likeliest(self, B: Any) -> Labels:
        """Return the clusters of new nodes with edges B (m, n) to the graph."""
        B, (member, shares, rates, (scale, cuts, odds)) = sp.csr_array(B, dtype=np.float64), self.tables
        share = (B @ shares).toarray() + _TINY * member.sum(axis=0)
        scores = (_count_edges(B, scale, cuts) @ member) @ rates + np.log(_shared(share) + 0.01)
        labels: Labels = (scores + _tell(B, cuts, odds) @ member if len(cuts) else scores).argmax(axis=1)
        return labels


def _memberships(to: Array, edges: Array, size: Array, weights: Array | float = 0.0) -> Array:
    """Return how likely nodes belong to each cluster, given the weight of their edges ``to`` them, and the counts."""
    some = sp.csr_array(to) if len(size) > _MANY else to
    q: Array = softmax(some @ log_rates(edges) + np.log(size + _LEAST) + weights, axis=1)
    return q


def _level_cuts(weights: Array) -> Array:
    """Return the weights that end the levels but the last, each of which has an edge; none where all are equal."""
    if not len(weights) or weights.min() == weights.max():
        return np.empty(0)
    cuts = np.unique(np.quantile(weights, np.arange(1, _LEVELS) / _LEVELS, method="inverted_cdf"))
    found: Array = cuts[cuts < weights.max()]
    return found


def _count_edges(A: sp.csr_array, scale: float, cuts: Array) -> sp.csr_array:
    """Return edges as the model counts them: each once where weights are levels."""
    return sp.csr_array((np.sign(A.data) if len(cuts) else A.data * scale, A.indices, A.indptr), shape=A.shape)


def _tell(A: sp.csr_array, cuts: Array, odds: Array) -> sp.csr_array:
    """Return what the weights of edges say for ends in one cluster."""
    found = np.where(A.data > 0, odds[np.searchsorted(cuts, A.data)], 0.0)
    return sp.csr_array((found, A.indices, A.indptr), shape=A.shape)


def log_rates(edges: Array) -> Array:
    """Return log e_rs / κ_r at [s, r], with edges added to e as chance would have them: few tell little of a rate.

    They are five on average over all r and s, but no more than there are.
    """
    chance = np.outer(edges.sum(axis=1), edges.sum(axis=1))
    e = edges + min(5, edges.mean()) * chance / max(chance.mean(), _TINY) + _TINY
    rates: Array = (np.log(e) - np.log(e.sum(axis=1))[:, None]).T
    return rates


def without_pieces(component: Labels) -> Labels:
    """Return the nodes in components above log₂ n, the order of what chance leaves in a sparse graph."""
    size = np.bincount(component)[component]
    return np.flatnonzero(size > min(np.log2(len(size)), size.max() - 1))


def _shared(rows: Any) -> Any:
    """Return rows divided by their sums; zero rows stay."""
    sums = np.asarray(rows.sum(axis=1), dtype=np.float64)[:, None]
    inverse = np.divide(1, sums, out=np.zeros_like(sums), where=sums > 0)
    return sp.csr_array(rows.multiply(inverse)) if sp.issparse(rows) else rows * inverse


def _count_ways(cells: float, total: float) -> float:
    """Return the logarithm of the number of ways to share out ``total`` among ``cells``."""
    return float(gammaln(cells + total) - gammaln(total + 1) - gammaln(cells))


def _xlogx(x: Array) -> Array:
    positive = np.maximum(x, 0.0)
    found: Array = positive * np.log(np.where(positive > 0, positive, 1.0))
    return found
