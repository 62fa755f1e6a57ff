"""A sweep of coordinate descent over the rows of a nonnegative least-squares problem as a Triton kernel: one pass."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

# Rows of a tile: with their residuals they stay in registers up to rank 64.
_ROWS = 32


@triton.jit
def _sweep(X, G, B, n, width, R: tl.constexpr, C: tl.constexpr):
    c = tl.arange(0, C)
    row = (tl.program_id(0) * R + tl.arange(0, R)).to(tl.int64)
    place = row[:, None] * width + c[None, :]
    inside = (row < n)[:, None] & (c < width)[None, :]
    x = tl.load(X + place, mask=inside, other=0.0)
    t = tl.load(B + place, mask=inside, other=0.0)
    square = (c < width)[:, None] & (c < width)[None, :]
    g = tl.load(G + c[:, None] * width + c[None, :], mask=square, other=0.0)
    t -= tl.dot(x, g, input_precision="ieee", out_dtype=x.dtype)
    for k in range(width):
        here = (c == k)[None, :]
        weights = tl.load(G + k * width + c, mask=c < width, other=0.0)
        bend = tl.load(G + k * width + k)
        old = tl.sum(tl.where(here, x, 0.0), axis=1)
        step = tl.sum(tl.where(here, t, 0.0), axis=1) / tl.where(bend > 0, bend, 1.0)
        new = tl.where(bend > 0, tl.maximum(old + step, 0.0), old)
        x = tl.where(here, new[:, None], x)
        t -= (new - old)[:, None] * weights[None, :]
    tl.store(X + place, x, mask=inside)


def sweep(X: Any, G: Any, B: Any) -> None:
    """Minimise ½xᵀGx − bᵀx over each entry x_k ≥ 0 in turn, for every row x of X (in place) and b of B."""
    n, width = X.shape
    columns = max(16, triton.next_power_of_2(width))
    _sweep[(triton.cdiv(n, _ROWS),)](X, G, B.contiguous(), n, width, R=_ROWS, C=columns, num_warps=4)
