"""Random elements of null spaces of large sparse matrices, by inverse iteration.

The null space may be large (one dimension for every loose end), but a few random elements of it tell, with
probability one, what all of it does. ``inverse`` solves with a matrix shifted by a tiny amount, so that what lies in
the null space is blown up by many orders of magnitude against all else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import splu

from quartic.arrays import Array

Solve: TypeAlias = Callable[[Array], Array]

DENSE_LIMIT = 2000
CHEAP = 3e11  # operations: some seconds
FEASIBLE = 2e12  # a minute or two, and some gigabytes


class Undecided(Exception):
    """No factorisation fits in memory and the iteration did not converge."""


def bandwidth(adjacency: Any) -> int:
    """Return the bandwidth of a graph after reverse Cuthill–McKee: small for local graphs, ~n for random ones.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from quartic.distance.null_space import bandwidth
    >>> bandwidth(sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(50, 50)))
    1
    """
    matrix = sp.csr_matrix(adjacency)
    order = reverse_cuthill_mckee(matrix, symmetric_mode=True)
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order))
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return int(np.abs(position[rows] - position[matrix.indices]).max(initial=0))


def preconditioned_cg(apply: Solve, precondition: Solve, B: Array, *, tol: float, max_iter: int) -> Array:
    """Solve ``A Z = B`` for several right-hand sides at once, A symmetric positive definite.

    Raises
    ------
    Undecided
        If a column has not reached the relative residual ``tol``, or A proves indefinite.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.distance.null_space import preconditioned_cg
    >>> A = np.diag([1.0, 2.0])
    >>> B = np.array([[1.0], [1.0]])
    >>> preconditioned_cg(lambda Z: A @ Z, lambda Z: Z, B, tol=1e-12, max_iter=9).ravel().tolist()
    [1.0, 0.5]
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
    products: Array = np.einsum("ij,ij->j", A, B)
    return products


def factorised(A: Any, *, definite: bool = True, dense: bool = False) -> Solve:
    """Return a solver with the symmetric sparse matrix ``A`` by LU factors: dense for small ones, SuperLU for others.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from quartic.distance.null_space import factorised
    >>> factorised(sp.diags_array([2.0, 4.0]))(np.array([[2.0], [2.0]])).ravel().tolist()
    [1.0, 0.5]
    """
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

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from quartic.distance.null_space import gram_inverse
    >>> solve = gram_inverse(sp.csr_array(2 * np.eye(3)), 1, sp.csr_array(np.eye(3)))
    >>> np.allclose(solve(np.full((3, 1), 4.0)), 1.0)
    True
    """
    size = R.shape[1]
    blocks = diagonal_blocks(R, d)
    scale = float(np.trace(blocks, axis1=1, axis2=2).max(initial=1e-300)) / d

    def factors() -> Solve:
        return factorised(R.T @ R + 1e-12 * scale * sp.eye_array(size))

    if size <= 300 or elimination_is_cheap(adjacency, d, budget=budget):
        return factors()
    shift = 1e-7 * scale
    inverses = np.linalg.inv(blocks + shift * np.eye(d))
    transposed = R.T.tocsr()

    def apply(Z: Array) -> Array:
        product: Array = transposed @ (R @ Z) + shift * Z
        return product

    def precondition(Z: Array) -> Array:
        product: Array = np.matmul(inverses, Z.reshape(-1, d, Z.shape[1])).reshape(Z.shape)
        return product

    return iterated_or_factorised(
        lambda B: preconditioned_cg(apply, precondition, B, tol=tol, max_iter=1000),
        factors if elimination_is_cheap(adjacency, d, budget=FEASIBLE) else None,
    )


def iterated_or_factorised(iterate: Solve, factors: Callable[[], Solve] | None) -> Solve:
    """Return a solver that iterates until that fails, and from then on uses factors, computed at that moment.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.distance.null_space import Undecided, iterated_or_factorised
    >>> def fail(B):
    ...     raise Undecided
    >>> iterated_or_factorised(fail, lambda: lambda B: 2 * B)(np.ones(2)).tolist()
    [2.0, 2.0]
    """
    fallback: list[Solve] = []

    def solve(B: Array) -> Array:
        if not fallback:
            try:
                return iterate(B)
            except Undecided:
                if factors is None:
                    raise
                fallback.append(factors())
        return fallback[0](B)

    return solve


def symmetric_inverse(A: Any) -> Solve:
    """Return a solver for the symmetric, possibly indefinite ``A`` plus a tiny shift, or for its square plus one.

    Both blow up the null space of ``A``, which is all that inverse iteration asks.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from quartic.distance.null_space import symmetric_inverse
    >>> z = symmetric_inverse(sp.csr_array(np.diag([1.0, -2.0, 0.0])))(np.ones((3, 1))).ravel()
    >>> bool(abs(z[2]) > 1e8 * abs(z[:2]).max())
    True
    """
    size = A.shape[0]
    scale = float(np.abs(A).sum(axis=1).max(initial=1e-300))

    def factors(dense: bool = False) -> Solve:
        return factorised(A + 1e-13 * scale * sp.eye_array(size), definite=False, dense=dense)

    cheap = elimination_is_cheap(A, 1)
    if cheap or size <= DENSE_LIMIT:
        return factors(dense=not cheap)
    diagonal = A.diagonal()[:, None]
    squares = np.asarray((A * A).sum(axis=1)).reshape(-1, 1) + 1e-7 * scale**2

    def plain(Z: Array) -> Array:
        product: Array = A @ Z + 1e-7 * scale * Z
        return product

    def squared(Z: Array) -> Array:
        product: Array = A @ (A @ Z) + 1e-7 * scale**2 * Z
        return product

    def iterate(B: Array) -> Array:
        try:
            if diagonal.min() <= 0:
                raise Undecided("not positive semidefinite")
            return preconditioned_cg(plain, lambda Z: Z / diagonal, B, tol=1e-8, max_iter=1000)
        except Undecided:
            return preconditioned_cg(squared, lambda Z: Z / squares, B, tol=1e-8, max_iter=1000)

    return iterated_or_factorised(iterate, factors if elimination_is_cheap(A, 1, budget=FEASIBLE) else None)


def elimination_is_cheap(adjacency: Any, d: int, *, budget: float = CHEAP) -> bool:
    """Say whether sparse elimination on ``d`` unknowns a point stays within ``budget`` operations.

    Judged by the bandwidth w, as ``n d (w d)^2``: an overestimate for local graphs, whose elimination order is better
    than the band's; where the band is the whole matrix, as in random graphs, the answer is no.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from quartic.distance.null_space import elimination_is_cheap
    >>> elimination_is_cheap(sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(5000, 5000)), 2)
    True
    """
    n = adjacency.shape[0]
    if n * d <= 800:
        return True
    width = bandwidth(adjacency)
    return bool(width <= 0.3 * n and n * d * float(width * d) ** 2 <= budget)


def diagonal_blocks(R: Any, d: int) -> Array:
    """Return the d × d diagonal blocks of ``R^T R``.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from quartic.distance.null_space import diagonal_blocks
    >>> diagonal_blocks(sp.csr_array(np.array([[1.0, 2.0]])), 2).tolist()
    [[[1.0, 2.0], [2.0, 4.0]]]
    """
    columns = R.tocsc()
    axes = [columns[:, a::d] for a in range(d)]
    blocks = np.empty((R.shape[1] // d, d, d))
    for a in range(d):
        for b in range(a, d):
            blocks[:, a, b] = blocks[:, b, a] = np.asarray((axes[a] * axes[b]).sum(axis=0)).ravel()
    return blocks


def null_samples(
    apply: Solve, inverse: Solve, known: Array, n_samples: int, rng: np.random.Generator, *, scale: float, tol: float
) -> Array:
    r"""Return orthonormal random elements of the null space of a symmetric A, orthogonal to ``known``.

    Columns come back only as far as such elements exist: none at all proves (with probability one) that the null space
    is spanned by ``known``. An element counts as null when ``|A z| <= tol * scale * |z|``.

    Parameters
    ----------
    apply, inverse : callables
        Products with A (or with any matrix of the same null space), and with the inverse of A slightly shifted.
    known : (N, q) array
        An orthonormal basis of the part of the null space that is known beforehand.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from quartic.distance.null_space import null_samples, symmetric_inverse
    >>> A = sp.csr_array(np.diag([1.0, -2.0, 0.0, 0.0]))
    >>> known = np.eye(4)[:, [3]]
    >>> Z = null_samples(
    ...     lambda Z: A @ Z, symmetric_inverse(A), known, 3, np.random.default_rng(0), scale=2.0, tol=1e-9
    ... )
    >>> np.abs(Z).round(9).ravel().tolist()
    [0.0, 0.0, 1.0, 0.0]
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
