"""Orthonormal bases of tall arrays, and the rows that differ most: LAPACK's for NumPy, products only for torch."""

from __future__ import annotations

from typing import Any

import numpy as np

from quartic.arrays import Array, is_torch
from quartic.ops.elementwise import times, to_host
from quartic.ops.tall import gram
from quartic.ops.waiting import on_host


def orthonormal(A: Any) -> Array:
    """Return an orthonormal basis of the columns of A.

    On a device by products alone, twice: with AᵀA = VΛVᵀ, its columns scaled to length one, AVΛ^-½ is orthonormal but
    for round-off, which the second time is gone (Stathopoulos and Wu 2002).
    """
    if not is_torch(A):
        basis: Array = np.linalg.qr(A)[0]
        return basis
    for _ in range(2):
        S = on_host(gram(A))
        d = np.sqrt(np.maximum(np.diag(S), np.finfo(np.float64).tiny))
        values, V = np.linalg.eigh(S / d[:, None] / d)
        values = np.maximum(values, 1e-12 * values[-1])
        A = times(A, V / np.sqrt(values) / d[:, None])
    return A  # type: ignore[no-any-return]


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
    found: Array = to_host(U[torch.stack(chosen)])
    return found
