"""The equations of a damped Newton step: by preconditioned conjugate gradients, or by sparse factors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np

from quartic.arrays import Array, space_of
from quartic.arrays.space import HostSpace
from quartic.losses.pairs.loss import SumOfSquares, row_blocks_in
from quartic.losses.point import Point

# Sparse factors are tried up to so many unknowns, and so many multiplications within the envelope.
_UNKNOWNS, _WORK = 100_000, 3e10


class Solution(NamedTuple):
    """D (n, r), in float64, the steps of conjugate gradients, and whether the residual asked for was reached."""

    D: Array
    n_iter: int
    reached: bool


def solve(
    loss: SumOfSquares,
    p: Point,
    G: Array,
    blocks: Array,
    shift: float,
    tolerance: float,
    max_iter: int,
    newton: bool = False,
) -> Solution:
    """Solve (A + shift·I) D = −G by conjugate gradients, with A = JᵀJ or, for Newton's method, ∇²f(p)."""

    in_one_call = getattr(loss, "gauss_newton_solve", None)
    found = None if newton or in_one_call is None else in_one_call(p, G, blocks, shift, tolerance, max_iter)
    if found is not None:
        return Solution(*found)

    def product(V: Array, out: Array) -> None:
        if newton:
            out[:] = loss.hessian_product(p, V)
        else:
            loss.gauss_newton_product(p, V, out)

    return conjugate_gradients(product, G, blocks, shift, tolerance, max_iter)


def conjugate_gradients(
    product: Callable[[Array, Array], None], G: Array, blocks: Array, shift: float, tolerance: float, max_iter: int
) -> Solution:
    """Solve (A + shift·I) D = −G, preconditioned by the row blocks plus the shift.

    ``product(V, out)`` writes AV into ``out``. The residual goes down to ``tolerance`` times that of D = 0, in the norm
    of the preconditioner. What is returned after ``max_iter`` steps, or where A turns out not to be positive definite,
    is still a direction of descent.
    """
    space = space_of(G)
    ops, xp = row_blocks_in(space), space.xp
    G = space.astype(G, np.float64)
    D, R, Z, P, H = xp.zeros_like(G), *(xp.empty_like(G) for _ in range(4))
    L = ops.factor_blocks(blocks, shift, G.shape[1])
    first = rz = ops.first_direction(G, L, R, Z, P)
    for k in range(max_iter):
        product(P, H)
        curvature, rz = ops.advance(rz, shift, P, H, L, D, R, Z)
        if not curvature > 0:
            return Solution(D if k else Z, k + 1, True)
        if not rz > tolerance**2 * first:
            return Solution(D, k + 1, True)
    return Solution(D, max_iter, False)


def has_matrix(loss: SumOfSquares) -> bool:
    """Tell whether JᵀJ is to be had as a sparse matrix of SciPy: not of complete distances, nor on a torch device."""
    return hasattr(loss, "gauss_newton_matrix") and isinstance(loss.space, HostSpace)


def direct(loss: SumOfSquares, p: Point, G: Array, shift: float) -> Array:
    """Solve (JᵀJ + shift·I) D = −G by a sparse factorisation."""
    import scipy.sparse as sp
    from scipy.sparse.linalg import splu

    if not has_matrix(loss):
        raise TypeError(
            f'linear_solver="direct" needs JᵀJ as a sparse matrix, which {type(loss).__name__} has not here; use "cg"'
        )
    A = cast(Any, loss).gauss_newton_matrix(p)
    factors = splu(
        A + shift * sp.eye_array(A.shape[0], format="csc"),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,  # symmetric and positive definite: no pivoting
        options={"SymmetricMode": True},
    )
    D: Array = factors.solve(-G.astype(np.float64).ravel()).reshape(G.shape)
    return D


def factorable(loss: SumOfSquares, p: Point) -> bool:
    """Return whether sparse factors of JᵀJ stay small, which they do where the graph is local.

    The bound is the work of a factorisation within the envelope of Cuthill and McKee's order: no more than a good
    sparse one needs, by a factor that is small for local graphs.
    """
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    if not has_matrix(loss) or p.X.size > _UNKNOWNS:
        return False
    A = cast(Any, loss).gauss_newton_matrix(p)
    size = A.shape[0]
    place = np.empty(size, np.int64)
    place[reverse_cuthill_mckee(A.tocsr(), symmetric_mode=True)] = np.arange(size)
    first = place.copy()
    rows, columns = A.nonzero()
    np.minimum.at(first, rows, place[columns])
    return float(np.square((place - first).astype(np.float64)).sum()) <= _WORK
