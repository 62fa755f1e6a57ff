"""Frameworks (points joined by bars): rigidity matrix, stresses, and the sets of points that move or flip as one.

What counts are null spaces of large sparse matrices. They may be large (one dimension for every loose end), but a few
random elements tell, with probability one, what all of one does; they come by inverse iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import splu

from quartic.arrays import Array
from quartic.distance.graph import Indices, Mask, PairGraph, find_clique, mask_of

Solve: TypeAlias = Callable[[Array], Array]

DENSE_LIMIT = 2000
CHEAP = 3e11  # operations: some seconds
FEASIBLE = 2e12  # a minute or two, and some gigabytes


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
    """Return an orthonormal basis of the column space of a thin matrix (dependent columns are dropped)."""
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
_SEEDS = 100
TOL_NULL = 1e-9
TOL_FIT = 1e-6


def shell(n: int, d: int, rng: np.random.Generator) -> Array:
    """Return n random points near the unit sphere of R^d.

    They are as generic as any others. Far-out points have all neighbours on one side, and balancing the pulls there
    makes a stress matrix indefinite; on a sphere no point is further out than the others.
    """
    P = rng.standard_normal((n, d))
    P *= rng.uniform(0.85, 1.15, size=(n, 1)) / np.linalg.norm(P, axis=1, keepdims=True)
    return P


def equilibrium_stress(R: Array, inverse: Solve, rng: np.random.Generator) -> Array:
    r"""Return a random equilibrium stress, ``R^T omega = 0``, as near to all ones as a random one can be.

    A random vector is projected, ``omega = y - R (R^T R)^+ R^T y``, repeatedly, which takes out what the shifted
    inverse left. Centred at one, because on graphs of many edges the stress matrix then comes out positive
    semidefinite with a gap, which is what iterations like; any random centre is right.
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
    """
    n, d = X.shape
    rows = (seed[:, None] * d + np.arange(d)).ravel()
    flat = motions.reshape(n * d, -1)
    rigid = rigid_motions(X)
    fit, *_ = np.linalg.lstsq(rigid[rows], flat[rows], rcond=None)
    error = np.abs(flat - rigid @ fit).reshape(n, -1).max(axis=1, initial=0.0)
    inside: Mask = error <= TOL_FIT * np.abs(flat).max(initial=1e-300)
    return inside if inside[seed].all() else np.zeros(n, dtype=bool)


def moving_as_one(X: Array, motions: Array, graph: PairGraph, held: Indices, rng: np.random.Generator) -> Mask:
    """Return the points that move rigidly with those held, or the largest such set found where these are fewer than d.

    Looked for among a point and all of its neighbours, or some, and among cliques; d points always move as one.
    """
    n, d = X.shape
    if len(held) >= d:
        return moving_with(X, motions, held)
    best, everyone = np.zeros(n, dtype=bool), np.ones(n, dtype=bool)
    for v in rng.permutation(n)[:_SEEDS]:
        near = graph.neighbours(int(v))
        seeds = [np.append(near, v), find_clique(graph, int(v), d, everyone, rng)]
        if len(near) >= d - 1:
            seeds.append(np.append(rng.choice(near, d - 1, replace=False), v))
        for seed in seeds:
            if seed is not None and len(seed) >= d:
                moving = moving_with(X, motions, seed)
                best = moving if np.count_nonzero(moving) > max(d, np.count_nonzero(best)) else best
        if 2 * np.count_nonzero(best) > n:
            break
    return best


class GenericFramework:
    """A graph at random positions ``P``, with random elements of its infinitesimal motions and of a stress kernel.

    ``motions`` (n, d, k) are other than rigid ones, k = 0 where the whole is locally rigid; ``kernel`` (n, k) other
    than affine functions of P, k = 0 where the whole is globally rigid.

    Two frameworks on the same graph with equal edge lengths share all equilibrium stresses when one is generic
    (Connelly 2005), so that the coordinates of every other solution lie in the stress kernel. Where the kernel is
    affine in P on a set of points, these points are an affine image of themselves in every other solution, and a
    congruent one when the directions of their edges lie on no common conic. This is why ``globally_rigid_with`` is a
    proof, with probability one; that the kernel being larger always means another solution is a theorem for the graph
    as a whole (Gortler, Healy and Thurston 2010), not for each part of it.
    """

    def __init__(self, graph: PairGraph, d: int, rng: np.random.Generator) -> None:
        n, pairs = graph.n_points, graph.pairs
        self.graph, self.d, self._rng = graph, d, rng
        self.P = shell(n, d, rng)
        R = rigidity_matrix(pairs, self.P)
        adjacency = graph.matrix
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
        stressed = mask_of(pairs[carried].ravel(), n)
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

    def globally_rigid_with(self, seed: Indices) -> Mask:
        """Return the mask of the points whose mutual distances are fixed with those of ``seed``; empty if none are."""
        n, d = self.P.shape
        P1 = np.column_stack([np.ones(n), self.P])
        fit, *_ = np.linalg.lstsq(P1[seed], self.kernel[seed], rcond=None)
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


# -- solvers with large sparse matrices, and random elements of their null spaces ----------------------------


class Undecided(Exception):
    """No factorisation fits in memory and the iteration did not converge."""


def bandwidth(adjacency: Any) -> int:
    """Return the bandwidth of a graph after reverse Cuthill–McKee: small for local graphs, ~n for random ones."""
    matrix = sp.csr_matrix(adjacency)
    order = reverse_cuthill_mckee(matrix, symmetric_mode=True)
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order))
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return int(np.abs(position[rows] - position[matrix.indices]).max(initial=0))


def preconditioned_cg(apply: Solve, precondition: Solve, B: Array, *, tol: float, max_iter: int) -> Array:
    """Solve ``A Z = B`` for one right-hand side or several at once, A symmetric positive definite.

    Raises Undecided if a column has not reached the relative residual ``tol``, or A proves indefinite.
    """
    Z, residual = np.zeros_like(B), B.copy()
    Y = precondition(residual)
    P, rho, goal = Y.copy(), _inner(residual, Y), tol**2 * _inner(B, B)
    for _ in range(max_iter):
        active = _inner(residual, residual) > goal
        if not active.any():
            return Z
        Q = apply(P)
        curvature = _inner(P, Q)
        if (curvature[active] <= 0).any():
            raise Undecided("conjugate gradients met a direction of negative curvature")
        step = np.divide(rho, curvature, out=np.zeros_like(rho), where=active)
        Z += step * P
        residual -= step * Q
        Y = precondition(residual)
        rho, before = _inner(residual, Y), rho
        P *= np.divide(rho, before, out=np.zeros_like(rho), where=before > 0)
        P += Y
    raise Undecided(f"conjugate gradients did not converge in {max_iter} steps")


def _inner(A: Array, B: Array) -> Array:
    """Return the inner products of the columns."""
    products: Array = np.asarray(A @ B if A.ndim == 1 else np.einsum("ij,ij->j", A, B))
    return products


def factorised(A: Any, *, definite: bool = True, dense: bool = False) -> Solve:
    """Return a solver with the symmetric sparse matrix ``A`` by LU factors: dense for small ones, else SuperLU."""
    if A.shape[0] <= 300 or dense:
        factors = scipy.linalg.lu_factor(A.toarray(), check_finite=False)
        return lambda B: scipy.linalg.lu_solve(factors, B, check_finite=False)
    lu = splu(
        sp.csc_matrix(A),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0 if definite else 0.1,
        options={"SymmetricMode": True},
    )
    return lambda B: lu.solve(B)


def gram_inverse(R: Any, d: int, adjacency: Any, *, budget: float = CHEAP, tol: float = 1e-8) -> Solve:
    """Return a solver for ``R^T R`` plus a tiny multiple of the identity.

    Sparse factors where elimination stays sparse (local graphs); conjugate gradients with d × d diagonal blocks where
    it cannot (random graphs, which are well conditioned). ``budget`` is what factors may cost in operations, ``tol``
    the relative residual at which the iteration stops.
    """
    size = R.shape[1]
    # of the d columns of a point a row has all or none
    blocks = sum_squares(R.indices[::d] // d, R.data.reshape(-1, d), size // d)
    scale = float(np.trace(blocks, axis1=1, axis2=2).max(initial=1e-300)) / d

    def factors() -> Solve:
        return factorised(R.T @ R + 1e-12 * scale * sp.eye_array(size))

    if size <= 300 or elimination_is_cheap(adjacency, d, budget=budget):
        return factors()
    return iterated_or_factorised(
        gram_iteration(R, blocks, shift=1e-7 * scale, tol=tol, max_iter=1000), factors, adjacency, d
    )


def gram_iteration(R: Any, blocks: Array, *, shift: float = 0.0, tol: float, max_iter: int) -> Solve:
    """Return a solver for ``R^T R`` plus the shift: conjugate gradients with its d × d diagonal blocks."""
    d = blocks.shape[1]
    inverses = np.linalg.inv(blocks + shift * np.eye(d))
    transposed = R.T.tocsr()

    def apply(Z: Array) -> Array:
        product: Array = transposed @ (R @ Z) + shift * Z
        return product

    def precondition(Z: Array) -> Array:
        rows = Z.reshape(-1, d, *Z.shape[1:])
        product: Array = np.einsum("nab,nb...->na...", inverses, rows).reshape(Z.shape)
        return product

    return lambda B: preconditioned_cg(apply, precondition, B, tol=tol, max_iter=max_iter)


def iterated_or_factorised(iterate: Solve, factors: Callable[[], Solve], adjacency: Any, d: int) -> Solve:
    """Return a solver that iterates until that fails, and from then on uses factors, if they are feasible at all.

    A small graph has them even if elimination leaves nothing of its sparsity.
    """
    fallback: list[Solve] = []

    def solve(B: Array) -> Array:
        if not fallback:
            try:
                return iterate(B)
            except Undecided:
                small = float(adjacency.shape[0] * d) ** 3 <= FEASIBLE
                if not small and not elimination_is_cheap(adjacency, d, budget=FEASIBLE):
                    raise
                fallback.append(factors())
        return fallback[0](B)

    return solve


def symmetric_inverse(A: Any) -> Solve:
    """Return a solver for the symmetric ``A`` plus a tiny shift, by iteration only where it is positive semidefinite.

    That blows up the null space of ``A``, which is all that inverse iteration asks.
    """
    size = A.shape[0]
    scale = float(np.abs(A).sum(axis=1).max(initial=1e-300))

    def factors(dense: bool = False) -> Solve:
        return factorised(A + 1e-13 * scale * sp.eye_array(size), definite=False, dense=dense)

    cheap = elimination_is_cheap(A, 1)
    if cheap or size <= DENSE_LIMIT:
        return factors(dense=not cheap)
    diagonal = A.diagonal()[:, None]

    def shifted(Z: Array) -> Array:
        product: Array = A @ Z + 1e-7 * scale * Z
        return product

    def iterate(B: Array) -> Array:
        if diagonal.min() <= 0:
            raise Undecided("not positive semidefinite")
        return preconditioned_cg(shifted, lambda Z: Z / diagonal, B, tol=1e-8, max_iter=1000)

    return iterated_or_factorised(iterate, factors, A, 1)


def elimination_is_cheap(adjacency: Any, d: int, *, budget: float = CHEAP) -> bool:
    """Say whether sparse elimination on ``d`` unknowns a point stays within ``budget`` operations.

    Judged by the bandwidth w, as ``n d (w d)^2``: an overestimate for local graphs, whose elimination order is better
    than the band's; where the band is the whole matrix, as in random graphs, the answer is no.
    """
    n = adjacency.shape[0]
    if n * d <= 800:
        return True
    width = bandwidth(adjacency)
    return bool(width <= 0.3 * n and n * d * float(width * d) ** 2 <= budget)


def sum_squares(owner: Indices, U: Array, n: int) -> Array:
    """Return for each of n owners the sum of the ``u u^T`` of its rows of U."""
    columns = np.ascontiguousarray(U.T)
    d = len(columns)
    sums = np.empty((n, d, d))
    for a in range(d):
        for b in range(a, d):
            sums[:, a, b] = sums[:, b, a] = np.bincount(owner, columns[a] * columns[b], n)
    return sums


def null_samples(
    apply: Solve, inverse: Solve, known: Array, n_samples: int, rng: np.random.Generator, *, scale: float, tol: float
) -> Array:
    r"""Return orthonormal random elements of the null space of a symmetric A, orthogonal to the orthonormal ``known``.

    Columns come back only as far as such elements exist: none at all proves (with probability one) that the null space
    is spanned by ``known``. An element counts as null when ``|A z| <= tol * scale * |z|``. ``apply`` may be any matrix
    with the null space of A; ``inverse`` is that of A slightly shifted.
    """
    size, q = known.shape
    Z: Array = rng.standard_normal((size, max(0, min(n_samples, size - q))))
    if Z.shape[1] == 0:
        return Z
    for _ in range(3):
        Z -= known @ (known.T @ Z)
        Z, _ = np.linalg.qr(Z)
        Z = inverse(Z)
    Z -= known @ (known.T @ Z)
    Z, _ = np.linalg.qr(Z)
    Z -= known @ (known.T @ Z)
    _, values, rotation = np.linalg.svd(apply(Z), full_matrices=False)
    null: Array = (Z @ rotation.T)[:, values <= tol * scale]
    return null
