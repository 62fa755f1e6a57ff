"""What is known before clustering: labels of some nodes, pairs that belong together, pairs that do not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from quartic.arrays import Array
from quartic.graphs.neighbors import inverse_roots

# Of a node's label at each step of the spreading, the share that comes from its neighbours; and the number of steps.
_FROM_NEIGHBORS = 0.8
_STEPS = 40
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


def anchor(M: Any, known: Known, X: Array, strength: float) -> tuple[Any, Array]:
    r"""Return M with a node more for each cluster, which draws X to the labels, and a start for it.

    X is a factor found without labels. Its memberships, columns matched with classes, or the labels spread over the
    graph, whichever agree better with labels not used for them, are scaled by rows to fit M, and become :math:`X^0`.
    With :math:`c^2` = ``strength`` times a typical :math:`\|X^0_k\|^2`,

    .. math:: \begin{pmatrix} M & c X^0 \\ c X^{0\top} & c^2 I \end{pmatrix} \approx
              \begin{pmatrix} X \\ Z \end{pmatrix} \begin{pmatrix} X \\ Z \end{pmatrix}^\top

    is :math:`\tfrac12\|M - XX^\top\|^2 + c^2\|X - X^0\|^2` for :math:`Z = cI`, where it starts, and about which it
    stays. Column k is then class k.
    """
    n, rank = X.shape
    at = np.flatnonzero(known.labels >= 0)
    own = _matched(known, X)
    seeds = _fill_classes(known, own)
    S = sp.csr_array(M).maximum(0)
    scale = sp.diags_array(inverse_roots(np.asarray(S.sum(axis=1), dtype=np.float64)))
    S = sp.csr_array(scale @ S @ scale)
    found = float(np.mean(own[at].argmax(axis=1) == known.labels[at]))
    doubt = 0.5 / np.sqrt(len(at))  # the standard error of a share, at most
    P = _spread(S, seeds, rank) if _validated(S, known, seeds, rank) > found + doubt else own
    P[at] = np.eye(rank)[known.labels[at]]
    P[P < _LEAST] = 0
    X = P * np.sqrt(max(float((P * (M @ P)).sum()), 0.0) / np.linalg.norm(P.T @ P) ** 2)
    fit, size = np.einsum("ik,ik->i", M @ X, P), np.einsum("ik,kl,il->i", P, X.T @ X, P)
    X = P * np.divide(np.maximum(fit, 0), size, out=np.zeros(n), where=size > 0)[:, None]
    c = np.sqrt(strength * np.mean((X**2).sum(axis=0)))
    B, D = sp.csr_array(c * X), sp.csr_array(c**2 * np.eye(rank))
    more = sp.block_array([[sp.csr_array(M), B], [B.T, D]], format="csr").astype(M.dtype)
    start = np.vstack([X, c * np.eye(rank)])
    return more, np.maximum(start, 0.01 * np.sqrt(np.mean(start**2))).astype(M.dtype)


def _matched(known: Known, X: Array) -> Array:
    """Return the memberships of X, with the columns in the order of the classes that agree with them best."""
    from scipy.optimize import linear_sum_assignment

    at = np.flatnonzero(known.labels >= 0)
    shares = X / np.maximum(X.sum(axis=1, keepdims=True), np.finfo(X.dtype).tiny)
    votes = np.zeros((X.shape[1], X.shape[1]))
    np.add.at(votes, known.labels[at], shares[at])
    matched: Array = shares[:, linear_sum_assignment(-votes)[1]].astype(np.float64)
    return matched


def _fill_classes(known: Known, own: Array) -> NDArray[np.intp]:
    """Return the labels, and for each class without any those of the nodes purest in its column."""
    labels = known.labels.copy()
    counts = np.bincount(labels[labels >= 0], minlength=own.shape[1])
    for one in np.flatnonzero(counts == 0):
        purest = np.argsort(-np.where(labels < 0, own[:, one], -1), kind="stable")
        labels[purest[: max(1, int(counts[counts > 0].mean()))]] = one
    return labels


def _spread(S: sp.csr_array, seeds: NDArray[np.intp], rank: int) -> Array:
    """Return memberships by label spreading (Zhou et al. 2004): F ← 0.8 D^-1/2 M D^-1/2 F + 0.2 Y."""
    Y = np.zeros((len(seeds), rank))
    Y[seeds >= 0, seeds[seeds >= 0]] = 1 - _FROM_NEIGHBORS
    F = Y.copy()
    for _ in range(_STEPS):
        F = _FROM_NEIGHBORS * (S @ F) + Y
    P: Array = F / np.maximum(F.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    return P


def _validated(S: sp.csr_array, known: Known, seeds: NDArray[np.intp], rank: int) -> float:
    """Return the share of labels that spreading the others finds, in five folds."""
    at = np.random.default_rng(0).permutation(np.flatnonzero(known.labels >= 0))
    right = 0
    for fold in range(min(5, len(at))):
        hidden, kept = at[fold::5], seeds.copy()
        kept[hidden] = -1
        right += int((_spread(S, kept, rank)[hidden].argmax(axis=1) == known.labels[hidden]).sum())
    return right / len(at)
