"""Frameworks (points joined by bars): rigidity matrix, stresses, and the sets of points that move or flip as one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from quartic.arrays import Array
from quartic.distance.graph import Indices, Mask, PairGraph, find_clique
from quartic.distance.null_space import Solve, gram_inverse, null_samples, symmetric_inverse


def rigidity_matrix(pairs: Indices, X: Array, *, unit: bool = False) -> Any:
    r"""Return the sparse rigidity matrix R, one row per pair, ``d`` columns per point.

    .. math:: R_{ij} = (\ldots,\ x_i - x_j,\ \ldots,\ x_j - x_i,\ \ldots)

    ``R v = 0`` says that the velocities ``v`` change no length to first order. Generic positions are locally rigid
    exactly when ``rank R = n d - d (d + 1) / 2``.

    Parameters
    ----------
    pairs : (m, 2) array of int
    X : (n, d) array
    unit : bool
        Divide each row by its length, which gives the Jacobian of the distances. Points that coincide give a zero row.

    Returns
    -------
    R : (m, n d) scipy.sparse.csr_array

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.rigidity import rigidity_matrix
    >>> triangle = np.array([[0, 1], [1, 2], [0, 2]])
    >>> R = rigidity_matrix(triangle, np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    >>> int(np.linalg.matrix_rank(R.toarray()))
    3
    """
    n, d = X.shape
    m = len(pairs)
    U = (X[pairs[:, 0]] - X[pairs[:, 1]]).astype(np.float64)
    if unit:
        length = np.linalg.norm(U, axis=1, keepdims=True)
        U /= np.where(length > 0, length, 1.0)
    columns = (pairs[:, :, None] * d + np.arange(d)).reshape(m, 2 * d)
    data = np.concatenate([U, -U], axis=1)
    indptr = np.arange(0, 2 * d * m + 1, 2 * d)
    return sp.csr_array((data.ravel(), columns.ravel(), indptr), shape=(m, n * d))


def rigid_motions(X: Array) -> Array:
    r"""Return the velocities of the translations and rotations of ``X``, columns of length ``n d``.

    .. math:: v_i = t + S x_i, \qquad S = -S^\top

    The ``d (d + 1) / 2`` columns are not made orthogonal; on degenerate points they may be dependent.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.distance.framework import rigid_motions
    >>> rigid_motions(np.array([[1.0, 3.0], [-1.0, 2.0]])).tolist()
    [[1.0, 0.0, 3.0], [0.0, 1.0, -1.0], [1.0, 0.0, 2.0], [0.0, 1.0, 1.0]]
    """
    n, d = X.shape
    first, second = np.triu_indices(d, 1)
    motions = np.zeros((n, d, d + len(first)))
    motions[:, np.arange(d), np.arange(d)] = 1.0
    for k, (a, b) in enumerate(zip(first, second, strict=True), start=d):
        motions[:, a, k] = X[:, b]
        motions[:, b, k] = -X[:, a]
    return motions.reshape(n * d, -1)


def orthonormal_columns(A: Array) -> Array:
    """Return an orthonormal basis of the column space of a thin matrix (dependent columns are dropped).

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.distance.framework import orthonormal_columns
    >>> orthonormal_columns(np.array([[1.0, 2.0], [0.0, 0.0], [1.0, 2.0]])).shape
    (3, 1)
    """
    U, s, _ = np.linalg.svd(A, full_matrices=False)
    basis: Array = U[:, s > 1e-12 * s.max(initial=0.0)]
    return basis


def stress_matrix(pairs: Indices, stress: Array, n_points: int) -> Any:
    r"""Return the sparse stress matrix, the graph Laplacian whose weights are the stresses (of either sign).

    .. math:: \Omega = \sum_{ij} \omega_{ij} (e_i - e_j)(e_i - e_j)^\top

    For an equilibrium stress, ``R^T omega = 0``, the constant vector and the columns of X lie in its kernel. A graph on
    ``n >= d + 2`` points is generically globally rigid exactly when the kernel of a random equilibrium stress of a
    random framework is no larger than that, dimension ``d + 1`` (Gortler, Healy and Thurston 2010).

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.rigidity import stress_matrix
    >>> stress_matrix(np.array([[0, 1], [1, 2]]), np.array([1.0, -1.0]), 3).toarray().tolist()
    [[1.0, -1.0, 0.0], [-1.0, 0.0, 1.0], [0.0, 1.0, -1.0]]
    """
    i, j = pairs[:, 0], pairs[:, 1]
    rows, columns = np.concatenate([i, j, i, j]), np.concatenate([j, i, i, j])
    values = np.concatenate([-stress, -stress, stress, stress])
    return sp.csr_array((values, (rows, columns)), shape=(n_points, n_points))


N_SAMPLES = 4
TOL_NULL = 1e-9
TOL_FIT = 1e-6


def shell(n: int, d: int, rng: np.random.Generator) -> Array:
    """Return n random points near the unit sphere of R^d.

    They are as generic as any others. Far-out points have all neighbours on one side, and balancing the pulls there
    makes a stress matrix indefinite; on a sphere no point is further out than the others.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.distance.framework import shell
    >>> radius = np.linalg.norm(shell(50, 3, np.random.default_rng(0)), axis=1)
    >>> bool((radius > 0.85).all() and (radius < 1.15).all())
    True
    """
    P = rng.standard_normal((n, d))
    P *= rng.uniform(0.85, 1.15, size=(n, 1)) / np.linalg.norm(P, axis=1, keepdims=True)
    return P


def equilibrium_stress(R: Array, inverse: Solve, rng: np.random.Generator) -> Array:
    r"""Return a random equilibrium stress, ``R^T omega = 0``, as near to all ones as a random one can be.

    A random vector is projected, ``omega = y - R (R^T R)^+ R^T y``, repeatedly, which takes out what the shifted
    inverse left. Centred at one, because on graphs of many edges the stress matrix then comes out positive
    semidefinite with a gap, which is what iterations like; any random centre is right.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.distance.framework import rigidity_matrix
    >>> from quartic.distance.null_space import gram_inverse
    >>> from quartic.distance.graph import PairGraph
    >>> from quartic.distance.framework import equilibrium_stress
    >>> rng = np.random.default_rng(0)
    >>> graph = PairGraph.from_pairs(np.column_stack(np.triu_indices(4, 1)), 4)
    >>> R = rigidity_matrix(graph.pairs, rng.standard_normal((4, 2)))
    >>> omega = equilibrium_stress(R, gram_inverse(R, 2, graph.matrix()), rng)
    >>> bool(np.abs(R.T @ omega).max() < 1e-12), bool(np.abs(omega).min() > 1e-3)
    (True, True)
    """
    omega: Array = 1.0 + 0.1 * rng.standard_normal((R.shape[0],))
    for _ in range(6):
        force = R.T @ omega
        if np.abs(force).max(initial=0.0) <= 1e-13 * np.abs(omega).max(initial=0.0):
            break
        omega = omega - R @ inverse(force[:, None])[:, 0]
    return omega


def moving_with(X: Array, motions: Array, seed: Indices) -> Mask:
    """Return the mask of the points that follow ``seed``, at least d points, in motions of shape (n, d, k).

    Empty where the seed does not itself move rigidly.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.distance.framework import moving_with
    >>> X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> V = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 2.0]])[:, :, None]
    >>> moving_with(X, V, np.array([0, 1])).tolist()
    [True, True, False]
    """
    n, d = X.shape
    rows = (seed[:, None] * d + np.arange(d)).ravel()
    flat = motions.reshape(n * d, -1)
    rigid = rigid_motions(X)
    fit, *_ = np.linalg.lstsq(rigid[rows], flat[rows])
    error = np.abs(flat - rigid @ fit).reshape(n, -1).max(axis=1, initial=0.0)
    inside: Mask = error <= TOL_FIT * np.abs(flat).max(initial=1e-300)
    return inside if inside[seed].all() else np.zeros(n, dtype=bool)


class GenericFramework:
    """A graph at random positions, with random elements of its infinitesimal motions and of a stress kernel.

    Parameters
    ----------
    graph : PairGraph
    d : int
    rng : Generator

    Attributes
    ----------
    P : (n, d) array
        The random positions.
    motions : (n, d, k) array
        Random infinitesimal motions other than rigid ones; k = 0 where the whole is locally rigid.
    kernel : (n, k) array
        Random elements of the stress kernel other than affine functions of P; k = 0 where the whole is globally rigid.

    Notes
    -----
    Two frameworks on the same graph with equal edge lengths share all equilibrium stresses when one is generic
    (Connelly 2005), so that the coordinates of every other solution lie in the stress kernel. Where the kernel is
    affine in P on a set of points, these points are an affine image of themselves in every other solution, and a
    congruent one when the directions of their edges lie on no common conic. This is why ``globally_rigid_with`` is a
    proof, with probability one; that the kernel being larger always means another solution is a theorem for the graph
    as a whole (Gortler, Healy and Thurston 2010), not for each part of it.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.distance.graph import PairGraph
    >>> from quartic.distance.framework import GenericFramework
    >>> square_with_diagonal = PairGraph.from_pairs(np.array([[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]]), 4)
    >>> framework = GenericFramework(square_with_diagonal, 2, np.random.default_rng(0))
    >>> framework.motions.shape[-1] == 0, framework.kernel.shape[-1] == 0
    (True, False)
    """

    def __init__(self, graph: PairGraph, d: int, rng: np.random.Generator) -> None:
        n, pairs = graph.n_points, graph.pairs
        self.graph, self.d, self._rng = graph, d, rng
        self.P = shell(n, d, rng)
        R = rigidity_matrix(pairs, self.P)
        adjacency = graph.matrix()
        inverse = gram_inverse(R, d, adjacency)
        known = orthonormal_columns(rigid_motions(self.P))
        scale = float(np.sqrt((R * R).sum(axis=0).max()))
        # R itself is the judge, not RᵀR, in which a merely small motion would look like none.
        motions = null_samples(lambda Z: R @ Z, inverse, known, N_SAMPLES, rng, scale=scale, tol=TOL_NULL)
        self.motions = motions.reshape(n, d, -1)
        self.kernel = self._stress_kernel(pairs, equilibrium_stress(R, inverse, rng))

    def _stress_kernel(self, pairs: Indices, stress: Array) -> Array:
        n, rng = self.graph.n_points, self._rng
        P1 = np.column_stack([np.ones(n), self.P])
        carried = np.abs(stress) > TOL_NULL
        stressed = np.zeros(n, dtype=bool)
        stressed[pairs[carried].ravel()] = True
        position = np.cumsum(stressed) - 1
        inner = np.flatnonzero(stressed)
        # A point that carries no stress is free in the kernel: its row is drawn at random, apart from the rest.
        kernel = rng.standard_normal((n, N_SAMPLES)) * ~stressed[:, None]
        if len(inner) > self.d + 1:
            Omega = stress_matrix(position[pairs[carried]], stress[carried], len(inner))
            known = orthonormal_columns(P1[inner])
            scale = float(np.abs(Omega).sum(axis=1).max())
            found = null_samples(
                lambda Z: Omega @ Z, symmetric_inverse(Omega), known, N_SAMPLES, rng, scale=scale, tol=TOL_NULL
            )
            kernel[inner, : found.shape[1]] = found * np.sqrt(len(inner))
            if len(inner) == n:
                kernel = kernel[:, : found.shape[1]]
        return kernel

    def moving_with(self, seed: Indices) -> Mask:
        """Return the mask of the points that follow every rigid motion of ``seed`` (at least d points)."""
        return moving_with(self.P, self.motions, seed)

    def globally_rigid_with(self, seed: Indices) -> Mask:
        """Return the mask of the points whose mutual distances are fixed with those of ``seed``; empty if none are."""
        n, d = self.P.shape
        P1 = np.column_stack([np.ones(n), self.P])
        fit, *_ = np.linalg.lstsq(P1[seed], self.kernel[seed])
        error = np.abs(self.kernel - P1 @ fit).max(axis=1, initial=0.0)
        inside: Mask = error <= TOL_FIT * (np.abs(self.kernel).max(initial=1e-300) + np.abs(fit).max(initial=0.0))
        nothing = np.zeros(n, dtype=bool)
        if not inside[seed].all() or np.count_nonzero(inside) < d + 1:
            return nothing
        return inside if self._directions_span(inside) else nothing

    def _directions_span(self, inside: Mask) -> bool:
        """Say whether an affine map that keeps all edge lengths inside must be a congruence."""
        pairs = self.graph.pairs
        pairs = pairs[inside[pairs[:, 0]] & inside[pairs[:, 1]]]
        if len(pairs) > 5000:
            pairs = pairs[self._rng.choice(len(pairs), 5000, replace=False)]
        U = self.P[pairs[:, 0]] - self.P[pairs[:, 1]]
        first, second = np.triu_indices(self.d)
        return bool(np.linalg.matrix_rank(U[:, first] * U[:, second]) == len(first))

    def find_bodies(self, bodies: list[Indices], *, max_seeds: int = 500) -> list[Mask]:
        """Return sets of points with fixed mutual distances, from the given bodies and from seeds of our own."""
        parts: list[Mask] = []
        covered = np.zeros(self.graph.n_points, dtype=bool)
        for body in bodies:
            if len(body) > self.d:
                parts.append(self.globally_rigid_with(body))
                covered |= parts[-1]
        for n_tried, seed in enumerate(self._seeds(covered)):
            if n_tried == max_seeds:
                break
            part = self.globally_rigid_with(seed)
            if np.count_nonzero(part) > self.d + 1:
                parts.append(part)
                covered |= part  # the seeds are drawn as we go: no more of them come from here
        return [part for part in parts if part.any()]

    def _seeds(self, covered: Mask) -> Iterator[Indices]:
        """Yield sets of d + 1 points or more that may lie in one part, while ``covered`` grows."""
        order = self._rng.permutation(self.graph.n_points)
        everything = np.ones(len(covered), dtype=bool)
        # Most points of a large part have all their neighbours in it ...
        for v in order:
            if not covered[v] and len(self.graph.neighbours(int(v))) > self.d:
                yield np.append(self.graph.neighbours(int(v)), v)
        # ... the points of small ones lie in a clique, or in a part with some of their neighbours.
        for v in order:
            for _ in range(3):
                if not covered[v]:
                    clique = find_clique(self.graph, int(v), self.d + 1, everything, self._rng)
                    if clique is not None:
                        yield clique
                    neighbours = self.graph.neighbours(int(v))
                    if len(neighbours) > self.d:
                        yield np.append(self._rng.choice(neighbours, self.d, replace=False), v)

    def rigid_seeds(self, *, max_seeds: int = 100) -> Iterator[Indices]:
        """Yield sets of d points that may move rigidly: cliques, or a point with some of its neighbours."""
        everything = np.ones(self.graph.n_points, dtype=bool)
        for v in self._rng.permutation(self.graph.n_points)[:max_seeds]:
            clique = find_clique(self.graph, int(v), self.d, everything, self._rng)
            if clique is not None:
                yield clique
            neighbours = self.graph.neighbours(int(v))
            if len(neighbours) >= self.d - 1:
                yield np.append(self._rng.choice(neighbours, self.d - 1, replace=False), v)
