"""The passes of a symmetric factorisation as Triton kernels: each reads its arrays once, in tiles of whole rows.

A program walks over tiles of rows, far apart, and keeps its sums in float64 in registers; torch adds up those of all
programs, always in the same order. Products of a tile with r × r matrices are in the type of X itself: the shorter
formats of the tensor cores were no faster.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl

from quartic.compiled.rows_triton import thirds

# Rows of a tile, warps, programs for each multiprocessor, found by trial on an H200: for ranks up to 32, by the size of
# a number where that matters, and for wider ones, whose sums need the registers of more warps.
SETTINGS: dict[str, tuple[int, int, int]] = {
    "step_sums": (16, 2, 16), "line_sums": (16, 2, 16), "extrapolated 4": (16, 4, 8), "extrapolated 8": (16, 2, 16),
    "pairs": (32, 1, 16), "direction": (512, 4, 8), "moved": (16, 4, 4), "other": (64, 4, 4),
}  # fmt: skip
WIDE: dict[str, tuple[int, int, int]] = {
    "step_sums": (16, 8, 4), "line_sums": (16, 4, 4), "stepped": (16, 8, 4), "projected_norm": (16, 8, 4),
    "moved": (16, 4, 4),
    "extrapolated 4": (64, 8, 4), "extrapolated 8": (32, 8, 4), "other": (64, 4, 4),
}  # fmt: skip
PRECISION = "ieee"
# The sums that a program of these leaves behind are as large as a tile: it has so many tiles at least.
_FEWEST = {"pairs": 4, "line_sums": 4}


@triton.jit
def _tile(tile, c, n, width, R: tl.constexpr):
    """Return where the entries of a tile of rows are, and which of them there are."""
    row = (tile * R + tl.arange(0, R)).to(tl.int64)
    return row[:, None] * width + c[None, :], (row < n)[:, None] & (c < width)[None, :]


@triton.jit
def _small_matrix(A, c, width):
    """Return an r × r matrix, zero beyond r."""
    small = (c < width)[:, None] & (c < width)[None, :]
    return tl.load(A + c[:, None] * width + c[None, :], mask=small, other=0.0)


@triton.jit
def _gram_of_tile(x, PRECISION: tl.constexpr):
    """Return xᵀx of a tile, in its own type and then in float64."""
    return tl.dot(tl.trans(x), x, input_precision=PRECISION, out_dtype=x.dtype).to(tl.float64)


@triton.jit
def _store_gram(grams, S, c, C: tl.constexpr):
    """Write the sum of this program."""
    tl.store(grams + tl.program_id(0) * C * C + c[:, None] * C + c[None, :], S)


@triton.jit
def _extrapolated(
    X, Z, MX, MZ, Y, MY, grams, t1, t2, t3, n, width, tiles,
    R: tl.constexpr, C: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    t = tl.zeros((1, 1), tl.float64) + t1 + t2 + t3
    c = tl.arange(0, C)
    S = tl.zeros((C, C), tl.float64)
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        place, inside = _tile(tile, c, n, width, R)
        x = tl.load(X + place, mask=inside, other=0.0)
        z = tl.load(Z + place, mask=inside, other=0.0)
        y = x + t.to(x.dtype) * (x - z)
        tl.store(Y + place, y, mask=inside)
        mx = tl.load(MX + place, mask=inside, other=0.0)
        mz = tl.load(MZ + place, mask=inside, other=0.0)
        tl.store(MY + place, mx + t.to(x.dtype) * (mx - mz), mask=inside)
        S += _gram_of_tile(y, PRECISION)
    _store_gram(grams, S, c, C)


@triton.jit
def _stepped(
    X, A, MX, W, sums, s1, s2, s3, h1, h2, h3, n, width, tiles,
    CLIP: tl.constexpr, R: tl.constexpr, C: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    s = tl.zeros((1, 1), tl.float64) + s1 + s2 + s3
    shift = tl.zeros((1, 1), tl.float64) + h1 + h2 + h3
    c = tl.arange(0, C)
    a = _small_matrix(A, c, width)
    total = tl.zeros((R, C), tl.float64)
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        place, inside = _tile(tile, c, n, width, R)
        x = tl.load(X + place, mask=inside, other=0.0)
        mx = tl.load(MX + place, mask=inside, other=0.0)
        w = tl.dot(x, a, input_precision=PRECISION, out_dtype=x.dtype) + (s.to(x.dtype) * mx - shift.to(x.dtype))
        if CLIP:
            w = tl.where(w < 0, 0.0, w)  # a NaN stays one
        tl.store(W + place, w, mask=inside)
        total += tl.where(inside, w.to(tl.float64) * w.to(tl.float64), 0.0)
    tl.store(sums + tl.program_id(0), tl.sum(tl.sum(total, 1), 0))


@triton.jit
def _step_sums(
    X, Y, MX, MY, grams, steps, sums, n, width, tiles,
    R: tl.constexpr, C: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    c = tl.arange(0, C)
    S = tl.zeros((C, C), tl.float64)
    T = tl.zeros((C, C), tl.float64)
    none = tl.zeros((R,), tl.float64)
    bend, along, length, fit, outside = none, none, none, none, none
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        place, inside = _tile(tile, c, n, width, R)
        x = tl.load(X + place, mask=inside, other=0.0)
        y = tl.load(Y + place, mask=inside, other=0.0)
        mx = tl.load(MX + place, mask=inside, other=0.0)
        my = tl.load(MY + place, mask=inside, other=0.0)
        d = x - y
        S += _gram_of_tile(x, PRECISION)
        T += _gram_of_tile(d, PRECISION)
        # a row is short enough for its sums to be taken as they are
        bend += tl.sum((mx - my) * d, 1).to(tl.float64)
        along += tl.sum(y * d, 1).to(tl.float64)
        length += tl.sum(d * d, 1).to(tl.float64)
        fit += tl.sum(mx * x, 1).to(tl.float64)
        outside += tl.sum(tl.where(x >= 0, 0.0, 1.0), 1).to(tl.float64)
    _store_gram(grams, S, c, C)
    _store_gram(steps, T, c, C)
    mine = sums + tl.program_id(0) * 5
    tl.store(mine, tl.sum(bend, 0))
    tl.store(mine + 1, tl.sum(along, 0))
    tl.store(mine + 2, tl.sum(length, 0))
    tl.store(mine + 3, tl.sum(fit, 0))
    tl.store(mine + 4, tl.sum(outside, 0))


@triton.jit
def _projected_norm(
    X, A, MX, sums, n, width, tiles,
    R: tl.constexpr, C: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    c = tl.arange(0, C)
    a = _small_matrix(A, c, width)
    total = tl.zeros((R,), tl.float64)
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        place, inside = _tile(tile, c, n, width, R)
        x = tl.load(X + place, mask=inside, other=0.0)
        mx = tl.load(MX + place, mask=inside, other=0.0)
        g = tl.dot(x, a, input_precision=PRECISION, out_dtype=x.dtype) - 2 * mx
        g = tl.where((x <= 0) & (g > 0), 0.0, g)
        total += tl.sum(g * g, 1).to(tl.float64)
    tl.store(sums + tl.program_id(0), tl.sum(total, 0))


@triton.jit
def _line_sums(
    X, D, MD, sums, n, width, tiles,
    R: tl.constexpr, C: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    c = tl.arange(0, C)
    T = tl.zeros((C, C), tl.float64)
    S = tl.zeros((C, C), tl.float64)
    bend = tl.zeros((R,), tl.float64)
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        place, inside = _tile(tile, c, n, width, R)
        x = tl.load(X + place, mask=inside, other=0.0)
        d = tl.load(D + place, mask=inside, other=0.0)
        md = tl.load(MD + place, mask=inside, other=0.0)
        T += tl.dot(tl.trans(x), d, input_precision=PRECISION, out_dtype=x.dtype).to(tl.float64)
        S += _gram_of_tile(d, PRECISION)
        bend += tl.sum(md * d, 1).to(tl.float64)
    mine = sums + tl.program_id(0) * (2 * C * C + 1)
    place = c[:, None] * C + c[None, :]
    tl.store(mine + place, T)
    tl.store(mine + C * C + place, S)
    tl.store(mine + 2 * C * C, tl.sum(bend, 0))


class Launch:
    """Sizes of a launch, and room for the sums of its programs."""

    def __init__(self, X: Any, name: str) -> None:
        n, self.width = X.shape
        known = SETTINGS if self.width <= 32 else WIDE
        rows, warps, per_processor = known.get(name) or known.get(f"{name} {X.element_size()}") or known["other"]
        self.sizes = n, self.width, triton.cdiv(n, rows)  # rows, columns and tiles
        self.programs = min(triton.cdiv(self.sizes[2], _FEWEST.get(name, 1)), per_processor * _processors(X.device))
        self.settings = {
            "R": rows, "C": max(16, triton.next_power_of_2(self.width)), "PRECISION": PRECISION, "num_warps": warps,
        }  # fmt: skip
        self.device = X.device

    def sums(self, *shape: int) -> Any:
        """Return room for some numbers of each program; for a C × C matrix where nothing is said."""
        shape = shape or (self.settings["C"],) * 2
        return torch.empty((self.programs, *shape), dtype=torch.float64, device=self.device)

    def gram(self, parts: Any) -> Any:
        """Return the sum of the programs' matrices."""
        return parts.sum(dim=0)[: self.width, : self.width]


@cache
def _processors(device: Any) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


def gram_of(X: Any) -> Any:
    """Return XᵀX, by the pass of a line: what else that makes of X costs little beside reading it."""
    return line_sums(X, X, X)[1]


def extrapolated(X: Any, Z: Any, MX: Any, MZ: Any, t: float, Y: Any, MY: Any) -> Any:
    """Fill Y = X + t(X − Z) and MY likewise; return YᵀY."""
    run = Launch(X, "extrapolated")
    grams = run.sums()
    _extrapolated[(run.programs,)](X, Z, MX, MZ, Y, MY, grams, *thirds(t), *run.sizes, **run.settings)
    return run.gram(grams)


def stepped(X: Any, A: Any, s: float, MX: Any, shift: float, clip: bool, W: Any) -> Any:
    """Fill W = XA + s·MX − shift, cut off below zero if ``clip``; return ‖W‖²."""
    run = Launch(X, "stepped")
    sums = run.sums(1)
    _stepped[(run.programs,)](X, A, MX, W, sums, *thirds(s), *thirds(shift), *run.sizes, CLIP=clip, **run.settings)
    return sums.sum()


def step_sums(X: Any, Y: Any, MX: Any, MY: Any) -> tuple[Any, Any, Any]:
    """Return XᵀX, DᵀD, and ⟨MD, D⟩, ⟨Y, D⟩, ‖D‖², ⟨MX, X⟩ with the number of entries that are not X ≥ 0."""
    run = Launch(X, "step_sums")
    grams, steps, sums = run.sums(), run.sums(), run.sums(5)
    _step_sums[(run.programs,)](X, Y, MX, MY, grams, steps, sums, *run.sizes, **run.settings)
    return run.gram(grams), run.gram(steps), sums.sum(dim=0)


def line_sums(X: Any, D: Any, MD: Any) -> tuple[Any, Any, Any]:
    """Return XᵀD, DᵀD and ⟨MD, D⟩."""
    run = Launch(X, "line_sums")
    C = run.settings["C"]
    sums = run.sums(2 * C * C + 1)
    _line_sums[(run.programs,)](X, D, MD, sums, *run.sizes, **run.settings)
    total = sums.sum(dim=0)
    T, S = total[:-1].view(2, C, C)[:, : run.width, : run.width]
    return T, S, total[-1]


def projected_norm(X: Any, S: Any, MX: Any) -> Any:
    """Return ‖∇ᴾ‖² of the gradient G = XS − 2MX."""
    run = Launch(X, "projected_norm")
    sums = run.sums(1)
    _projected_norm[(run.programs,)](X, S, MX, sums, *run.sizes, **run.settings)
    return sums.sum()
