"""Orthonormal bases of tall arrays, and the rows that differ most: by products, with LAPACK where that is better."""

from __future__ import annotations

from typing import Any

import numpy as np

from quartic.arrays.checks import Array, is_torch
from quartic.arrays.space import eps, float_type, gram, namespace, times, to_host
from quartic.arrays.waiting import on_host

# By products alone where the least eigenvalue of the scaled AᵀA is above so many units of round-off of the largest.
_INDEPENDENT = 1e4
# Columns that are still dependent after so many rounds on a device are equal, or zero.
_ROUNDS = 5


def orthonormal(A: Any) -> Array:
    """Return an orthonormal basis of the columns of A.

    By products alone, twice: with AᵀA = VΛVᵀ, its columns scaled to length one, AVΛ^-½ is orthonormal but for
    round-off, which the second time is gone (Stathopoulos and Wu 2002). That is quicker than a QR decomposition, which
    is taken where columns are too nearly dependent; on a device, where it is slow, only if more rounds, each of which
    brings the columns further apart, do not help either.
    """
    B, good = A, 0
    least = 1e8 * float(np.finfo(float_type(A)).tiny)  # one over it, and over a small root, are numbers of A's type
    for _ in range(_ROUNDS if is_torch(A) else 2):
        S = on_host(gram(B))
        d = np.maximum(np.sqrt(np.maximum(np.diag(S), 0)), least)
        values, V = np.linalg.eigh(S / d[:, None] / d)
        independent = values[0] > _INDEPENDENT * eps(A) * values[-1]
        if not independent and not is_torch(A):
            break
        values = np.maximum(values, 1e-12 * values[-1])
        B = times(B, V / np.sqrt(values) / d[:, None])
        good = good + 1 if independent else 0
        if good == 2:
            return B
    return namespace(A).linalg.qr(A)[0]


def most_different_rows(U: Any) -> Array:
    """Return the r rows of U (n, r) that a QR decomposition of Uᵀ with pivoting takes first, as a small matrix."""
    rank = U.shape[1]
    if not is_torch(U):
        import scipy.linalg

        _, pivots = scipy.linalg.qr(U.T, mode="r", pivoting=True)
        rows: Array = U[pivots[:rank]]
        return rows
    import torch

    R, chosen = U.clone(), []
    for _ in range(rank):
        at = R.square().sum(dim=1).argmax()
        chosen.append(at)
        v = R[at] / R[at].norm().clamp(min=torch.finfo(R.dtype).tiny)
        R -= torch.outer(R @ v, v)
    return to_host(U[torch.stack(chosen)])
