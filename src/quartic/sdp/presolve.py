"""Which constraints follow from others, and which contradict them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import lapack, solve_triangular

from quartic.arrays import Array
from quartic.sdp.problem import SDP

# More constraints than this are not examined: a dense matrix of their products would be needed.
_MOST = 8000
_ROUND_OFF = 1e-11


def independent_constraints(problem: SDP) -> tuple[Any, bool]:
    """Return constraints that all others follow from, and whether the others agree with them.

    A constraint with an entry that no other has is independent of them. What is left when all such are put aside, one
    after the other, is examined.
    """
    S = sparse.csr_array(problem.S)
    left = np.ones(problem.m, bool)
    pattern = sparse.csr_array((np.ones(S.nnz), S.indices, S.indptr), shape=S.shape)
    while True:
        counts = left @ pattern
        own = (pattern @ (counts == 1)) > 0
        if not (own & left).any():
            break
        left &= ~own
    core = np.flatnonzero(left)
    if not len(core) or len(core) > _MOST:
        return np.arange(problem.m), True
    rows = S[core]
    norms = np.sqrt(np.asarray(rows.power(2).sum(axis=1)).ravel())
    scale = np.where(norms > 0, norms, 1.0)
    rows = sparse.csr_array(sparse.diags_array(1 / scale) @ rows)

    def apart(chosen: Any, others: Any, coefficients: Array) -> Array:
        return np.abs(rows[others].toarray() - (rows[chosen].T @ coefficients).T).max(axis=1, initial=0.0)

    follow, agree = dependent((rows @ rows.T).toarray(), problem.b[core] / scale, apart)
    return np.setdiff1d(np.arange(problem.m), core[follow]), agree


def dependent(products: Array, b: Array, apart: Callable[[Any, Any, Array], Array]) -> tuple[Any, bool]:
    """Return constraints that follow from the others, and whether their right-hand sides do.

    By Cholesky's factorisation with pivots of the matrix of ⟨A_k, A_l⟩, whose diagonal is one (or zero). It knows what
    is left of a row to the root of round-off only: ``apart(chosen, others, coefficients)`` tells how far the others
    are from those combinations of the chosen.
    """
    L, pivots, rank, _ = lapack.dpstrf(products, tol=1e-13, lower=1)
    chosen, others = pivots[:rank] - 1, pivots[rank:] - 1
    if not len(others):
        return others, True
    coefficients = (
        solve_triangular(L[:rank, :rank], L[rank:, :rank].T, lower=True, trans=1)
        if rank
        else np.zeros((0, len(others)))
    )
    follow = apart(chosen, others, coefficients) <= _ROUND_OFF * (1 + np.abs(coefficients).sum(axis=0))
    off = np.abs(b[others] - coefficients.T @ b[chosen])
    agree = off <= 1e-8 * (np.abs(b).max() + np.abs(coefficients).T @ np.abs(b[chosen]))
    return others[follow], bool(agree[follow].all())
