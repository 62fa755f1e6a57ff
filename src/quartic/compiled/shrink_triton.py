"""The last part of the norm kernel's mirror map as a Triton kernel: one launch, where torch would take a dozen."""

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
