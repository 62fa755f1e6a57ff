"""Passes over tall arrays as Triton kernels: the last part of a mirror map, and a sweep of coordinate descent."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import triton
import triton.language as tl


@triton.jit
def _shrink(W, square, c1, c2, c3, g1, g2, g3, size, BLOCK: tl.constexpr):
    zero = tl.zeros((1,), tl.float64)
    sigma = zero + g1 + g2 + g3
    w = tl.minimum(tl.sqrt(zero + tl.load(square)) * (zero + c1 + c2 + c3), 1e150)
    # y³ + y = w: the closed form (2/√3) sinh(⅓ asinh(½·3√3·w)), and Newton's steps for the digits it loses
    t = w * 2.598076211353316
    a = tl.log(t + tl.sqrt(t * t + 1)) / 3
    y = (tl.exp(a) - tl.exp(-a)) * 0.5773502691896258
    y -= (y * (y * y + 1) - w) / (3 * y * y + 1)
    y -= (y * (y * y + 1) - w) / (3 * y * y + 1)
    y -= (y * (y * y + 1) - w) / (3 * y * y + 1)
    factor = 1 / (sigma * (1 + y * y))
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(W + at, mask=at < size)
    tl.store(W + at, v * factor.to(v.dtype), mask=at < size)


def shrink(W: Any, square: Any, alpha: float, sigma: float) -> None:
    """Divide W by the z with z²(z − σ) = α‖W‖², given ‖W‖²: the last part of the norm kernel's mirror map."""
    size, unit = W.numel(), math.sqrt(alpha / sigma) / sigma
    _shrink[(triton.cdiv(size, 2048),)](W, square, *thirds(unit), *thirds(sigma), size, BLOCK=2048, num_warps=8)


def thirds(x: float) -> tuple[float, float, float]:
    """Return three numbers of single precision, the only kind a kernel takes as such, whose sum is x."""
    first = float(np.float32(x))
    second = float(np.float32(x - first))
    return first, second, float(np.float32(x - first - second))


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
