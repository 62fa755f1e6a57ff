"""What a spectral start needs of tall arrays: a step of Chebyshev's recursion, and a turn towards X ≥ 0."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from quartic.arrays.checks import Array
from quartic.compiled.flags import FLAGS
from quartic.compiled.small import BLOCK, add_cross_gram, block, block_times_small, padded, padded_columns

__all__ = ["chebyshev", "turned_gram"]


def turned_gram(Z: Array, Q: Array) -> Array:
    """Return Zᵀ max(ZQ, 0), of which ZQ exists only block by block."""
    rank = Z.shape[1]
    S = np.zeros((padded(rank),) * 2)
    _turned_gram(np.ascontiguousarray(Z), padded_columns(Q, Z.dtype), S)
    return S[:rank, :rank]


@njit(**FLAGS)
def _turned_gram(Z: Any, Q: Any, S: Any) -> None:
    rank, zero = Z.shape[1], Z.dtype.type(0)
    A, Y = block(Z), block(Z)
    a, y = A.ravel(), Y.ravel()
    for i in range(0, Z.shape[0], BLOCK):
        rows = min(BLOCK, Z.shape[0] - i)
        z = Z.ravel()[i * rank : (i + rows) * rank]
        for k in range(z.size):
            a[k] = z[k]
        block_times_small(rows, A, Q, Y)
        for k in range(z.size):
            y[k] = max(y[k], zero)
        add_cross_gram(rows, A, Y, S)


@njit(**FLAGS)
def chebyshev(MT: Any, T: Any, before: Any, centre: float, half: float) -> None:
    """Before = (2/half)(MT − centre·T) − before."""
    m, t, b = MT.ravel(), T.ravel(), before.ravel()
    kind = t.dtype.type
    s, c = kind(2 / half), kind(centre)
    for k in range(t.size):
        b[k] = s * (m[k] - c * t[k]) - b[k]
