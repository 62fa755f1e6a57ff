"""What is known before clustering: labels of some nodes, pairs that belong together, pairs that do not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import log_softmax, logsumexp

from quartic.arrays import Array
from quartic.clustering.placing import lifted
from quartic.graphs import normalize

# Of a node's label at each step of the spreading, the share that comes from its neighbours, in a graph and in a matrix
# made of it by walks; and the number of steps.
_FROM_NEIGHBORS = 0.9, 0.8
_STEPS = 30
# What finding a cluster matched with a class is worth, in labels; and the weight, before any is seen, of the clusters.
_MATCH, _CLUSTERS = 2.0, 2.0
# A link weighs this much of what a label does: more, and linked pairs become clusters of their own.
_LINK = 1 / 3
# Memberships below are no anchor: most nodes then have a few, and the matrix stays sparse.
_LEAST = 1e-3


@dataclass(frozen=True)
class Known:
    """Labels (n,), −1 where unknown, and pairs of nodes; what was given and has been checked."""

    labels: NDArray[np.intp]
    together: NDArray[np.intp] = field(default_factory=lambda: np.empty((0, 2), np.intp))
    apart: NDArray[np.intp] = field(default_factory=lambda: np.empty((0, 2), np.intp))

    def nodes(self) -> NDArray[np.intp]:
        """Return the nodes of which something is known."""
        return np.union1d(np.flatnonzero(self.labels >= 0), np.concatenate([self.together, self.apart]))

    def unmet(self, labels: NDArray[np.intp]) -> dict[str, NDArray[np.intp]]:
        """Return the nodes and pairs for which the labels found are not what was asked for."""
        same = [labels[pairs[:, 0]] == labels[pairs[:, 1]] for pairs in (self.together, self.apart)]
        wrong = (self.labels >= 0) & (self.labels != labels)
        return {
            "labels": np.flatnonzero(wrong),
            "must_link": self.together[~same[0]],
            "cannot_link": self.apart[same[1]],
        }


def read_known(y: Any, must_link: Any, cannot_link: Any, n: int, n_components: int) -> Known | None:
    """Return what is known, None where nothing is; a ``y`` without −1 leaves nothing to find, and says nothing."""
    labels = np.full(n, -1, dtype=np.intp)
    given = None if y is None else np.asarray(y)
    if given is not None and given.dtype.kind in "iu" and (given == -1).any():
        if given.shape != (n,):
            raise ValueError(
                f"y must have a label for each of the {n} nodes, −1 where unknown, got shape {given.shape}"
            )
        if given.max() >= n_components or given.min() < -1:
            raise ValueError(
                f"y must be −1 or a cluster from 0 to n_components − 1 = {n_components - 1}, got "
                f"{given.max() if given.max() >= n_components else given.min()}; choose a larger n_components"
            )
        labels[:] = given
    together, apart = _pairs(must_link, "must_link", n), _pairs(cannot_link, "cannot_link", n)
    if (labels < 0).all() and not len(together) and not len(apart):
        return None
    return Known(labels, together, apart)


def _pairs(given: Any, name: str, n: int) -> NDArray[np.intp]:
    if given is None or len(given) == 0:
        return np.empty((0, 2), dtype=np.intp)
    pairs = np.asarray(given)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise ValueError(f"{name} must be pairs (i, j) of node numbers, got an array of shape {pairs.shape}")
    if pairs.min() < 0 or pairs.max() >= n:
        raise ValueError(f"{name} names the node {pairs.max() if pairs.max() >= n else pairs.min()}; there are {n}")
    if (pairs[:, 0] == pairs[:, 1]).any():
        raise ValueError(f"{name} links node {int(pairs[pairs[:, 0] == pairs[:, 1]][0, 0])} with itself; leave it out")
    return pairs.astype(np.intp)


def link(M: Any, known: Known, strength: float) -> Any:
    r"""Return M with w added for pairs that belong together, and −w put for those that do not.

    In :math:`\tfrac12\|M - XX^\top\|^2` that is a term :math:`\mp 2w\langle x_i, x_j\rangle` a pair; w is ``strength``
    / 3 times the larger of the two nodes' largest similarities.
    """
    pairs = np.vstack([known.together, known.apart])
    if not len(pairs):
        return M
    sparse = sp.csr_array(M)
    largest = sparse.max(axis=1).toarray().ravel()
    i, j = pairs.T
    weight = _LINK * strength * np.maximum(largest[i], largest[j])
    weight[len(known.together) :] *= -1
    weight[len(known.together) :] -= np.asarray(sparse[i, j])[len(known.together) :]
    C = sp.csr_array((np.r_[weight, weight], (np.r_[i, j], np.r_[j, i])), shape=sparse.shape)
    linked = sp.csr_array(sparse + C).astype(sparse.dtype)
    return linked if sp.issparse(M) else linked.toarray()


def anchor(M: Any, P: Array, strength: float) -> tuple[Any, Array]:
    r"""Return M with a node more for each cluster, which draws X to memberships P, and a start for it.

    P (`spread_labels`) is scaled by rows to fit M, and becomes :math:`X^0`. With :math:`c^2` = ``strength`` times a
    typical :math:`\|X^0_k\|^2`,

    .. math:: \begin{pmatrix} M & c X^0 \\ c X^{0\top} & c^2 I \end{pmatrix} \approx
              \begin{pmatrix} X \\ Z \end{pmatrix} \begin{pmatrix} X \\ Z \end{pmatrix}^\top

    is :math:`\tfrac12\|M - XX^\top\|^2 + c^2\|X - X^0\|^2` for :math:`Z = cI`, where it starts, and about which it
    stays. Column k is then class k.
    """
    n, rank = P.shape
    P = np.where(P < _LEAST, 0.0, P)
    X = P * np.sqrt(max(float((P * (M @ P)).sum()), 0.0) / np.linalg.norm(P.T @ P) ** 2)
    fit, size = np.einsum("ik,ik->i", M @ X, P), np.einsum("ik,kl,il->i", P, X.T @ X, P)
    X = P * np.divide(np.maximum(fit, 0), size, out=np.zeros(n), where=size > 0)[:, None]
    c = np.sqrt(strength * np.mean((X**2).sum(axis=0)))
    B, D = sp.csr_array(c * X), sp.csr_array(c**2 * np.eye(rank))
    more = sp.block_array([[sp.csr_array(M), B], [B.T, D]], format="csr").astype(M.dtype)
    return more, lifted(np.vstack([X, c * np.eye(rank)])).astype(M.dtype)


def spread_labels(M: Any, graph: Any, known: Known, clusters: Any, rank: int) -> Array:
    r"""Return memberships (n, rank) of the classes, from labels of a few nodes and clusters found without them.

    Three opinions :math:`\log p_e(k \mid i)`: labels spread over the graph, and over M where that is another matrix,
    and the classes of the labels in a node's cluster. The memberships are :math:`\prod_e p_e^{\beta_e}`, with the
    :math:`\beta` that find labels, five folds of which are hidden in turn, likeliest; but the clusters alone speak
    where they find more of the hidden labels.
    """
    matrices = [graph, M] if graph is not None else [M]
    scaled = [normalize(sp.csr_array(S).maximum(0)) for S in matrices]
    labels = known.labels
    at = np.random.default_rng(0).permutation(np.flatnonzero(labels >= 0))
    opinions, right = [], []
    for hidden in (at[fold::5] for fold in range(min(5, len(at)) if len(at) > 1 else 0)):
        kept = labels.copy()
        kept[hidden] = -1
        named = np.isin(np.arange(rank), kept)
        opinions.append(_opinions(scaled, kept, clusters, rank)[:, hidden])
        # of a class whose labels are all hidden it can only be said that it is none of the others
        right.append(np.where(named[labels[hidden], None], np.eye(rank, dtype=bool)[labels[hidden]], ~named))
    prior = beta = np.append(np.zeros(len(scaled)), _CLUSTERS)
    if opinions:
        seen, truth = np.concatenate(opinions, axis=1), np.concatenate(right)

        def surprise(beta: Array) -> float:
            log_p = np.where(truth, _log_product(seen, beta), -np.inf)
            return float(0.5 * ((beta - prior) ** 2).sum() - logsumexp(log_p, axis=1).sum())

        from scipy.optimize import minimize  # takes longer to load than most fits

        best = minimize(surprise, prior, bounds=[(0.0, 20.0)] * len(prior)).x
        found = [truth[np.arange(len(at)), _log_product(seen, b).argmax(axis=1)].sum() for b in (prior, best)]
        beta = best if found[1] >= found[0] else prior
    P: Array = np.exp(_log_product(_opinions(scaled, labels, clusters, rank), beta))
    P[at] = np.eye(rank)[labels[at]]
    return P


def _log_product(opinions: Array, beta: Array) -> Array:
    return log_softmax(np.tensordot(beta, opinions, 1), axis=-1)  # type: ignore[no-any-return]


def _opinions(matrices: list[Any], labels: NDArray[np.intp], clusters: Any, rank: int) -> Array:
    """Return each opinion's logarithms (n, rank), all of mean square 1 about the mean of their rows."""
    from scipy.optimize import linear_sum_assignment

    n, at = len(labels), np.flatnonzero(labels >= 0)
    votes = np.zeros((rank, rank))
    np.add.at(votes, (labels[at], clusters[at]), 1)
    cluster_of = linear_sum_assignment(-votes)[1]  # of each class
    votes[np.arange(rank), cluster_of] += _MATCH
    votes += 0.5 / rank
    every = [(votes / votes.sum(axis=0)).T[clusters]]
    counts, size = np.bincount(labels[at], minlength=rank), np.bincount(clusters, minlength=rank)[cluster_of]
    # A class without labels has its cluster's nodes for some; and frequencies follow its size as well.
    Y = np.zeros((n, rank))
    Y[at, labels[at]] = 1
    for one in np.flatnonzero(counts == 0):
        nodes = (clusters == cluster_of[one]) & (labels < 0)
        Y[nodes, one] = counts[counts > 0].mean() / max(nodes.sum(), 1)
    frequency = counts + 0.5 * counts.sum() * size / n
    for S, share in zip(matrices, _FROM_NEIGHBORS, strict=False):
        F = Y
        for _ in range(_STEPS):  # Zhou et al. 2004
            F = share * (S @ F) + (1 - share) * Y
        F = F * (frequency / np.maximum(F.sum(axis=0), np.finfo(float).tiny))
        every.insert(-1, F / np.maximum(F.sum(axis=1, keepdims=True), np.finfo(float).tiny) + 0.1 / rank)
    logs = np.log(every)
    logs -= logs.mean(axis=2, keepdims=True)
    return logs / np.maximum(np.sqrt((logs**2).mean(axis=(1, 2), keepdims=True)), np.finfo(float).tiny)  # type: ignore[no-any-return]
