"""Inner products, norms and Gram matrices of tall arrays, always accumulated in float64.

Those of torch tensors are `Waiting`: they are read from the device when they are used.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from quartic.arrays.checks import Array, is_torch
from quartic.arrays.waiting import delayed

# float32 input is widened this many rows at a time, so that no float64 copy of a tall array is ever made
_ROWS = 4096


def inner(A: Array, B: Array) -> float:
    """Return ⟨A, B⟩ = Σ A_ij B_ij."""
    if is_torch(A):
        from quartic.arrays import torch_tall

        return torch_tall.inner(A, B)
    if A.dtype == np.float64 and B.dtype == np.float64:
        return float(np.dot(A.ravel(), B.ravel()))
    return math.fsum(
        float(np.dot(a.ravel(), b.ravel()))
        for a, b in ((_widen(A[k : k + _ROWS]), _widen(B[k : k + _ROWS])) for k in range(0, len(A), _ROWS))
    )


def squared_norm(A: Array) -> float:
    """Return ‖A‖²."""
    return inner(A, A)


def squares_are_safe(total: float) -> bool:
    """Tell whether a sum of squares is so far from under- and overflow that its root can be trusted."""
    return 1e-280 < total < 1e300


def norm(A: Array) -> float:
    """Return ‖A‖, also where the squares under- or overflow."""
    return root(squared_norm(A), lambda: A)


def root(squared: float, make: Callable[[], Array]) -> float:
    """Return ‖A‖ from its square; where that under- or overflowed, from A, then made for it, scaled."""

    def finish(squared: float) -> float:
        if squares_are_safe(squared):
            return math.sqrt(squared)
        A = make()
        largest = float(abs(A).max()) if 0 not in A.shape else 0.0
        if largest == 0.0 or not math.isfinite(largest):
            return largest
        return largest * math.sqrt(squared_norm(A / largest))

    length: float = delayed(finish, squared)
    return length


def gram(A: Array, B: Array | None = None) -> Array:
    """Return AᵀB (AᵀA when B is left out), an r × r matrix in float64."""
    if is_torch(A):
        from quartic.arrays import torch_tall

        return torch_tall.gram(A, B)
    B = A if B is None else B
    if A.dtype == np.float64 and B.dtype == np.float64:
        return A.T @ B
    total = np.zeros((A.shape[1], B.shape[1]))
    for k in range(0, len(A), _ROWS):
        total += _widen(A[k : k + _ROWS]).T @ _widen(B[k : k + _ROWS])
    return total


def trace_inner(A: Array, B: Array) -> float:
    """Return ⟨A, B⟩ of two small matrices."""
    return float(np.vdot(A, B))


def _widen(A: Array) -> Array:
    return np.ascontiguousarray(A, dtype=np.float64)
