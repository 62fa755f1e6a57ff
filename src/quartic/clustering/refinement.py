r"""Labels that a factor gives, moved node by node to where a block model of the graph finds them likelier.

With :math:`e_{rs}` the weight of the edges between clusters r and s (both ways round; inside a cluster twice),
:math:`\kappa_r = \sum_s e_{rs}` and :math:`n_r` nodes, twice the logarithm of the likelihood of the degree-corrected
block model (Karrer and Newman 2011) at its best rates, with that of the labels at their frequencies, is

.. math:: L = \sum_{rs} e_{rs} \log \frac{e_{rs}}{\kappa_r \kappa_s} + 2 \sum_r n_r \log \frac{n_r}{n}

up to a constant (the complete likelihood of Daudin, Picard and Robin 2008, at a fixed number of clusters). The second
sum is what keeps noise from halving a large cluster while two small ones become one. Weights count as numbers of edges,
in the unit in which their variance is their mean. Moving a node changes the few :math:`e_{rs}` of its neighbours'
clusters, so that a sweep over all nodes takes a few passes over the edges.
"""

from __future__ import annotations

from copy import copy
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from scipy.special import gammaln, softmax

from quartic.arrays import Array

Labels = NDArray[np.intp]

_SWEEPS = 50
_GAIN = 1e-9  # of the graph's volume: less is round-off
_ROUNDS = 4  # of placing new nodes by each other


class BlockModel:
    """The block model of a symmetric graph without negative weights and of labels from 0 on, which are copied.

    Its counts are ``edges`` (k, k), ``volume`` (k,) and ``size`` (k,).
    """

    def __init__(self, A: Any, labels: Any, n_clusters: int) -> None:
        from quartic.compiled.graphs import count_edges

        A = sp.csr_array(A, dtype=np.float64)
        self.scale = float(A.data.sum()) / max(float(A.data @ A.data), np.finfo(float).tiny)
        # One type of index, so that code is compiled once.
        self.graph = A.indptr.astype(np.int64), A.indices.astype(np.int64), A.data * self.scale
        self.degree = np.asarray(A.sum(axis=1)) * self.scale
        self.labels: Labels = np.array(labels, dtype=np.intp)
        self.edges, self.volume, self.size = np.zeros((n_clusters, n_clusters)), *np.zeros((2, n_clusters))
        count_edges(*self.graph, self.degree, self.labels, self.edges, self.volume, self.size)

    def refine(self, fixed: Any = ()) -> Self:
        """Move nodes one by one while L grows; those without edges, and the nodes ``fixed``, stay."""
        from quartic.compiled.graphs import move_nodes

        order = np.random.default_rng(0).permutation(np.setdiff1d(np.arange(len(self.labels)), fixed))
        counts = self.edges, self.volume, self.size
        move_nodes(*self.graph, self.degree, self.labels, *counts, order, _SWEEPS, _GAIN * self.degree.sum())
        return self

    def join_gains(self) -> Array:
        """Return what L gains, as a rule less than nothing, where clusters r > s become one; −∞ at r ≤ s."""
        k, E, own = len(self.size), self.edges, _xlogx(self.edges)
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
        other = copy(self)
        into = np.arange(len(self.size))
        into[r] = s
        into[r + 1 :] -= 1
        G = np.eye(len(self.size) - 1)[into]
        other.labels, other.edges = into[self.labels], G.T @ self.edges @ G
        other.volume, other.size = self.volume @ G, self.size @ G
        return other

    def join_best(self) -> tuple[int, int, float, Self]:
        """Return the clusters r > s whose join costs least, what L gains by it, and the model where they are one."""
        gains = self.join_gains()
        r, s = map(int, np.unravel_index(gains.argmax(), gains.shape))
        return r, s, float(gains[r, s]), self.joined(r, s)

    def worth(self) -> float:
        """Return the sum of `evidence`, small components aside (`without_pieces`)."""
        n = len(self.labels)
        A = sp.csr_array(self.graph[::-1], shape=(n, n))
        large = without_pieces(A)
        core = self if len(large) == n else BlockModel(A[large][:, large], self.labels[large], len(self.size))
        return float(core.evidence().sum())

    def evidence(self) -> Array:
        """Return log P(A, z) of blocks and of communities, as `quartic.select_rank` has it; empty clusters are none."""
        some = self.size > 0
        e, volume, size = self.edges[np.ix_(some, some)], self.volume[some], self.size[some]
        k, n, m = len(size), size.sum(), volume.sum() / 2
        inside = np.diag(e) / 2
        within, between = inside.sum(), m - inside.sum()
        own = (gammaln(inside + 1) + inside * np.log(2)).sum()
        labels = gammaln(size + 1).sum() - gammaln(n + 1) - _count_ways(k, n - k)
        shared = own + (gammaln(size) - gammaln(size + volume)).sum() + labels
        blocks = gammaln(e[np.triu_indices(k, 1)] + 1).sum() - _count_ways(k, within)
        if k == 1:
            return np.array([shared + blocks, shared])
        blocks -= _count_ways(k * (k - 1) / 2, between) + np.log(m + 1)
        ends, half = volume - 2 * inside, volume / 2
        stay = (gammaln(half + 1) - gammaln(inside + 1) - gammaln(half - inside + 1)).sum()
        stay += gammaln(within + 1) + gammaln(between + 1) - gammaln(m + 2)
        pairs = gammaln(2 * between + 1) - between * np.log(2) - gammaln(between + 1)
        # no pair is inside
        pairs += between * np.log1p(-((ends / max(ends.sum(), 1.0)) ** 2).sum())
        communities = stay + gammaln(ends + 1).sum() - pairs - _count_ways(k, 2 * m)
        return np.array([shared + blocks, shared + communities])


class Placement:
    r"""Where new nodes go: what a fit leaves behind, so that its graph is not looked at again.

    A node whose edges to nodes j of the graph weigh :math:`b_j` goes to the cluster r with the largest

    .. math:: \sum_j b_j \log \frac{e_{r z_j}}{\kappa_r}
              + \log \Bigl(0.01 + \frac{\sum_j b_j m_{jr}}{\sum_j b_j} \Bigr).

    The first sum is what L gains, to first order; instead of the size of a cluster, its share :math:`m_{jr}` of the
    similarities of its neighbours speaks for it, which go further than one edge. To :math:`e_{rs}` five edges are
    added, on average over all r and s, as chance would have them: few edges tell little of a rate. Edges among new
    nodes count in the same way, once their other ends have first been placed, by the chances of these.
    """

    def __init__(self, model: BlockModel, M: Any) -> None:
        n, k = len(model.labels), len(model.size)
        self.member = sp.csr_array((np.ones(n), (np.arange(n), model.labels)), shape=(n, k))
        self.shares = _shared(sp.csr_array(M @ self.member))
        chance = np.outer(model.volume, model.volume)
        e = model.edges + 5 * chance / max(chance.mean(), np.finfo(float).tiny) + np.finfo(float).tiny
        self.rates = model.scale * (np.log(e) - np.log(e.sum(axis=1))[:, None]).T

    def likeliest(self, B: Any, among: Any = None) -> Labels:
        """Return the clusters of new nodes with edges B (m, n) to the graph, and ``among`` (m, m) themselves."""
        B = sp.csr_array(B)
        to, share = (B @ self.member).toarray(), (B @ self.shares).toarray()
        score = to @ self.rates + np.log(_shared(share) + 0.01)
        for _ in range(0 if among is None else _ROUNDS):
            theirs = among @ softmax(score, axis=1)
            score = (to + theirs) @ self.rates + np.log(_shared(share + theirs) + 0.01)
        labels: Labels = score.argmax(axis=1)
        return labels


def without_pieces(A: Any) -> NDArray[np.intp]:
    """Return the nodes in components above log₂ n, the order of what chance leaves in a sparse graph."""
    component = connected_components(A, directed=False)[1]
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
