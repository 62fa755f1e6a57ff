"""Which constraints follow from others, and which contradict them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import lapack, solve_triangular

from quartic.sdp.problem import SDP

# More constraints than this are not examined: a dense matrix of their products would be needed.
_MOST = 8000
_ROUND_OFF = 1e-11


def independent_constraints(problem: SDP) -> tuple[Any, bool]:
    """Return constraints that all others follow from, and whether the others agree with them.

    A constraint with an entry that no other has is independent of them. What is left when all such are put aside, one
    after the other, is examined by Cholesky's factorisation with pivots of the matrix of ⟨A_k, A_l⟩.
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
    b = problem.b[core]
    scale = np.where(norms > 0, norms, 1.0)
    rows, b = sparse.diags_array(1 / scale) @ rows, b / scale
    L, pivots, rank, _ = lapack.dpstrf((rows @ rows.T).toarray(), tol=1e-13, lower=1)
    chosen, others = pivots[:rank] - 1, pivots[rank:] - 1
    # row k of the others is Σ coefficients · chosen rows, and so must its right-hand side be
    coefficients = (
        solve_triangular(L[:rank, :rank], L[rank:, :rank].T, lower=True, trans=1)
        if rank
        else np.zeros((0, len(others)))
    )
    apart = rows[others] - coefficients.T @ rows[chosen].toarray() if rank else rows[others]
    apart = abs(apart).max(axis=1)
    apart = apart.toarray().ravel() if sparse.issparse(apart) else np.asarray(apart).ravel()
    follows = apart <= _ROUND_OFF * (1 + np.abs(coefficients).sum(axis=0))
    off = np.abs(b[others] - coefficients.T @ b[chosen])
    agree = off <= 1e-8 * (np.abs(b).max() + np.abs(coefficients).T @ np.abs(b[chosen]))
    left[:] = False
    left[core[others[follows]]] = True
    return np.flatnonzero(~left), bool(agree[follows].all())
