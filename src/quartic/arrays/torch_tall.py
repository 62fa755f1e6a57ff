"""Inner products and Gram matrices of tall tensors, summed in float64 on their device."""

from __future__ import annotations

from typing import Any

import torch

from quartic.arrays.waiting import Waiting

DOUBLE = torch.float64
# float32 Gram matrices are summed in float32 over so many rows, and those sums in float64
_ROWS = 512


def inner(A: Any, B: Any) -> Any:
    """Return ⟨A, B⟩."""
    return Waiting(dot(A, B))


def dot(A: Any, B: Any) -> torch.Tensor:
    """Return ⟨A, B⟩ as a tensor."""
    if A.dtype == B.dtype == DOUBLE:
        return torch.dot(A.reshape(-1), B.reshape(-1))
    return (A * B).sum(dtype=DOUBLE)


def gram(A: Any, B: Any = None) -> Any:
    """Return AᵀB, in float64."""
    return Waiting(cross(A, A if B is None else B))


def cross(A: Any, B: Any) -> torch.Tensor:
    """Return AᵀB as a tensor."""
    if A.dtype == B.dtype == DOUBLE:
        return A.T @ B
    if A.dtype != B.dtype or torch.backends.cuda.matmul.allow_tf32:  # tf32 keeps ten bits only
        return A.to(DOUBLE).T @ B.to(DOUBLE)
    n, whole = len(A), len(A) // _ROWS * _ROWS
    total = torch.zeros((A.shape[1], B.shape[1]), dtype=DOUBLE, device=A.device)
    if whole:
        blocks = A[:whole].view(-1, _ROWS, A.shape[1]).transpose(1, 2) @ B[:whole].view(-1, _ROWS, B.shape[1])
        total += blocks.sum(dim=0, dtype=DOUBLE)
    if whole < n:
        total += A[whole:].to(DOUBLE).T @ B[whole:].to(DOUBLE)
    return total
