"""Directed and bipartite graphs: roles, and clusters of both sides."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans
from sklearn.utils import Tags
from sklearn.utils.extmath import randomized_svd
from sklearn.utils.validation import validate_data

from quartic.arrays import Array, RandomState, random_generator
from quartic.arrays.threads import one_blas_thread
from quartic.core.loop import minimize
from quartic.core.problem import Problem
from quartic.graphs.inputs import is_graph, matrix_of, names_of, read_weights
from quartic.graphs.neighbors import inverse_roots
from quartic.init import rectangular_start
from quartic.losses import Rectangular
from quartic.penalties import Nonnegative

_TINY = np.finfo(np.float64).tiny


class RoleNMF(BaseEstimator):  # type: ignore[misc]
    r"""Find roles in a directed graph: groups of nodes that send to, and receive from, the same groups.

    .. math:: \min_{X \ge 0,\; S \ge 0} \tfrac12 \|M - X S X^\top\|_F^2, \qquad
              M_{ij} = A_{ij} / \sqrt{(d^\text{out}_i + \tau)(d^\text{in}_j + \tau)},

    with :math:`\tau` the mean degree. :math:`S_{kl}` says how much role k sends to role l: a diagonal S means
    communities, but a chain, or a core and its periphery, are found as well.

    Parameters
    ----------
    n_components : int, default=8
        Number of roles.
    tol : float, default=1e-6
        The run ends when the objective falls by less than this share in ten iterations.
    max_iter : int, default=1000
        Iterations at most.
    random_state : int, RandomState, Generator or None
        Seed of the start.

    Attributes
    ----------
    embedding_ : ndarray (n, r)
        X, columns of norm 1.
    roles_ : ndarray (r, r)
        S.
    labels_ : ndarray of int (n,)
        Role of each node: the largest entry of its row of X.
    objective_ : float
        ½‖M − XSXᵀ‖².
    n_iter_ : int
        Iterations.
    node_names_ : ndarray (n,)
        The nodes of a networkx graph, the index of a frame, 0 … n − 1 otherwise.

    Notes
    -----
    The better of two starts: k-means on leading left and right singular vectors of M together, with the
    lengths of their rows and without. The iteration multiplies X by the
    fourth root of the ratio of the gradient's two parts, S by the square root, which never raises the objective (Ding,
    Li and Jordan 2008; the fourth root since X appears twice).

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.clustering.roles import RoleNMF
    >>> A = np.kron([[0, 1, 0], [0, 0, 1], [0, 0, 0]], np.ones((5, 5)))  # a chain of three groups
    >>> RoleNMF(3, random_state=0).fit(A).roles_.round(2).astype(bool).sum()
    np.int64(2)
    """

    embedding_: Array
    roles_: Array
    labels_: NDArray[np.intp]

    def __init__(
        self, n_components: int = 8, *, tol: float = 1e-6, max_iter: int = 1000, random_state: RandomState = None
    ) -> None:
        self.n_components = n_components
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Factorise the weights of edges i → j: an array or sparse matrix (n, n), or a networkx digraph."""
        A = validate_data(
            self,
            read_weights(X) if is_graph(X) else matrix_of(X),
            accept_sparse="csr",
            dtype=np.float64,
            ensure_min_samples=2,
        )
        if A.shape[0] != A.shape[1]:
            raise ValueError(f"a directed graph has a square matrix, got shape {A.shape}; see cluster_both_sides")
        A = sp.csr_array(A)
        _check_weights(A)
        n, rank = A.shape[0], self.n_components
        if not 1 <= rank <= n:
            raise ValueError(f"n_components must lie between 1 and the number of nodes, n_samples = {n}, got {rank}")
        with one_blas_thread():
            M = _scaled(A)
            starts = _starts(M, rank, random_generator(self.random_state))
            runs = [self._alternate(M, *start) for start in starts]
        self.embedding_, self.roles_, self.objective_, self.n_iter_ = min(runs, key=lambda run: run[2])
        self.labels_ = self.embedding_.argmax(axis=1)
        self.node_names_ = names_of(X, n)
        return self

    def fit_predict(self, X: Any, y: Any = None) -> NDArray[np.intp]:
        """Factorise, and return ``labels_``."""
        return self.fit(X).labels_

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.pairwise = tags.input_tags.positive_only = True
        return tags

    def _alternate(self, M: sp.csr_array, X: Array, S: Array) -> tuple[Array, Array, float, int]:
        square, back = float((M.data**2).sum()), sp.csr_array(M.T)
        before, value, n_iter = np.inf, np.inf, 0
        for n_iter in range(1, self.max_iter + 1):
            G = X.T @ X
            up = (M @ X) @ S.T + (back @ X) @ S
            X = X * np.sqrt(np.sqrt(up / np.maximum(X @ (S @ G @ S.T + S.T @ G @ S), _TINY)))
            G, C = X.T @ X, X.T @ (M @ X)
            S = S * np.sqrt(C / np.maximum(G @ S @ G, _TINY))
            value = 0.5 * (square - 2 * float((C * S).sum()) + float(((G @ S @ G) * S).sum()))
            if n_iter % 10 == 0:
                if before - value <= self.tol * square:
                    break
                before = value
        length = np.maximum(np.linalg.norm(X, axis=0), _TINY)
        return X / length, S * np.outer(length, length), value, n_iter


def _check_weights(A: sp.csr_array) -> None:
    if A.nnz and not A.data.min() >= 0:
        raise ValueError(f"Negative values in data: weights of edges must be at least 0, got {A.data.min():g}")
    if A.sum() == 0:
        raise ValueError("the graph has no edges, and there are no roles")


def _scaled(A: sp.csr_array) -> sp.csr_array:
    """Return A with rows and columns divided by the roots of their regularised degrees."""
    out, into = np.asarray(A.sum(axis=1)), np.asarray(A.sum(axis=0))
    left, right = inverse_roots(out + out.mean()), inverse_roots(into + into.mean())
    return sp.csr_array(sp.diags_array(left) @ A @ sp.diags_array(right))


def _starts(M: sp.csr_array, rank: int, generator: np.random.Generator) -> list[tuple[Array, Array]]:
    """Return two starts: groups of singular vectors as they are, and of their directions alone."""
    n = M.shape[0]
    left, values, right = randomized_svd(M, rank, n_iter=8, random_state=int(generator.integers(2**31)))
    both = np.hstack([left * values, right.T * values])
    length = np.linalg.norm(both, axis=1, keepdims=True)
    starts = []
    for points in (both, np.divide(both, length, out=np.zeros_like(both), where=length > 0)):
        groups = min(rank, len(np.unique(points.round(9), axis=0)))
        labels = KMeans(groups, n_init=10, random_state=int(generator.integers(2**31))).fit_predict(points)
        X = np.full((n, rank), 0.1)
        X[np.arange(n), labels] = 1.0
        X /= np.linalg.norm(X, axis=0)
        starts.append((X, np.maximum(X.T @ (M @ X), 1e-6)))
    return starts


@dataclass(frozen=True)
class BothSides:
    """Clusters of a bipartite graph: labels and rows of the factors of both sides."""

    row_labels: NDArray[np.intp]
    column_labels: NDArray[np.intp]
    row_embedding: Array = field(repr=False)
    column_embedding: Array = field(repr=False)


@one_blas_thread()
def cluster_both_sides(B: Any, n_components: int, *, tol: float = 1e-3, random_state: RandomState = None) -> BothSides:
    r"""Cluster both sides of a bipartite graph together: :math:`\min_{U, V \ge 0} \tfrac12\|B_\tau - UV^\top\|^2`.

    Parameters
    ----------
    B : array or sparse matrix (m, n)
        Weights of the edges between the m nodes of one side and the n of the other, scaled by the roots of the degrees,
        each with their mean added.
    n_components : int
        Number of clusters; each has nodes of both sides.
    tol, random_state
        As in `quartic.minimize`.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.clustering.roles import cluster_both_sides
    >>> found = cluster_both_sides(np.kron(np.eye(2), np.ones((3, 2))), 2, random_state=0)
    >>> bool((found.row_labels[:3] == found.column_labels[0]).all())
    True
    """
    B = read_weights(B)
    _check_weights(B)
    M = _scaled(B)
    problem = Problem(Rectangular(M), Nonnegative())
    found = minimize(problem, rectangular_start, rank=n_components, tol=tol, random_state=random_state)
    X = found.unless_interrupted().X
    U, V = X[: M.shape[0]], X[M.shape[0] :]
    return BothSides(U.argmax(axis=1), V.argmax(axis=1), U, V)
