"""The r × r blocks on the diagonal of JᵀWJ, one a row, inverted and applied: the preconditioner, as Triton kernels."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def _invert(B, L, n, width, shift, ROWS: tl.constexpr, C: tl.constexpr, WIDTH: tl.constexpr):
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    c = tl.arange(0, C)
    k, l = c[None, :, None], c[None, None, :]
    inside = (row < n)[:, None, None] & (k < width) & (l < width)
    high, low = tl.maximum(k, l), tl.minimum(k, l)
    packed = row[:, None, None] * (width * (width + 1) // 2) + high * (high + 1) // 2 + low
    A = tl.load(B + packed, mask=inside, other=0.0)
    by = tl.load(shift)
    least = (
        tl.sum(tl.where(k == l, 1e-14 * A, 0.0), 2) + by
    )  # below the round-off of its own entries a pivot is nothing
    A = tl.where(k == l, A + by, A)
    for p in tl.static_range(WIDTH):
        # Gauss–Jordan without pivoting: the blocks are positive semidefinite
        line = tl.sum(tl.where(k == p, A, 0.0), 1)
        column = tl.sum(tl.where(l == p, A, 0.0), 2)
        here = c[None, :] == p
        pivot = tl.maximum(tl.sum(tl.where(here, line, 0.0), 1), tl.sum(tl.where(here, least, 0.0), 1))
        inverse = tl.where(pivot > 0, 1.0 / pivot, 0.0)
        line = tl.where(here, inverse[:, None], line * inverse[:, None])
        column = tl.where(here, 0.0, column)
        A = tl.where((k == p) | (l == p), 0.0, A) - column[:, :, None] * line[:, None, :]
        A = tl.where(k == p, line[:, None, :], A)
    tl.store(L + row[:, None, None] * (width * width) + k * width + l, A, mask=inside)


def invert(B: Any, shift: float, width: int) -> Any:
    """Return the inverses (n, r, r) of the packed blocks plus shift·I; a direction without curvature gets 0."""
    L = torch.empty((len(B), width, width), dtype=B.dtype, device=B.device)
    by = torch.tensor(shift, dtype=B.dtype).to(B.device, non_blocking=True)
    C = triton.next_power_of_2(width)
    _invert[(triton.cdiv(len(B), 64),)](B, L, len(B), width, by, ROWS=64, C=C, WIDTH=width, num_warps=4)
    return L


@triton.jit
def _solve(L, R, Z, sums, n, width, ROWS: tl.constexpr, C: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, C)
    inside = (row < n)[:, None] & (c < width)[None, :]
    place = row[:, None] * width + c[None, :]
    r = tl.load(R + place, mask=inside, other=0.0)
    whole = inside[:, :, None] & (c < width)[None, None, :]
    A = tl.load(L + place[:, :, None] * width + c[None, None, :], mask=whole, other=0.0)
    z = tl.sum(A * r[:, None, :], 2)
    tl.store(Z + place, z, mask=inside)
    tl.store(sums + tl.program_id(0), tl.sum(tl.sum(z.to(tl.float64) * r.to(tl.float64), 1), 0))


def solve(L: Any, R: Any, Z: Any) -> Any:
    """Fill Z with L_i r_i for the blocks L_i, and return ⟨R, Z⟩."""
    n, width = R.shape
    programs = triton.cdiv(n, 128)
    sums = torch.empty(programs, dtype=torch.float64, device=R.device)
    _solve[(programs,)](L, R, Z, sums, n, width, ROWS=128, C=triton.next_power_of_2(width), num_warps=4)
    return sums.sum()
