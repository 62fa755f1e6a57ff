"""The pass over pairs as one Triton kernel: a block of rows a program, each row's pairs read together, no atomics.

A program holds the sums of its rows in registers, reads their pairs in tiles, and writes each row once. Numbers summed
over all pairs are written one set a program and added by torch: always in the same order. All arithmetic is in float64,
which costs little here: the time goes into reading pairs and fetching the rows they point to.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

_MODES = {
    # how many numbers, how many arrays of X's shape
    "value_and_gradient": (0, 1),
    "remainder": (1, 2),
    "line": (2, 4),
    "hessian": (3, 0),
    "linearize": (4, 1),
    "product": (5, 0),
    "quartic": (6, 4),
}
# Rows of a program, and pairs of a row in a tile.
_ROWS, _TILE, _WARPS = 32, 16, 4


@triton.jit
def _pass(
    X, Y, start, cols, target, weight, out, blocks, sums,
    n, width,
    MODE: tl.constexpr, WEIGHTED: tl.constexpr, NUMBERS: tl.constexpr,
    R: tl.constexpr, K: tl.constexpr, C: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    here = row < n
    first = tl.load(start + row, mask=here, other=0)
    last = tl.load(start + row + 1, mask=here, other=0)
    c = tl.arange(0, C)
    place = row[:, None] * width + c[None, :]
    inside = here[:, None] & (c[None, :] < width)
    xi = tl.load(X + place, mask=inside, other=0.0).to(tl.float64)
    yi = xi
    if (MODE != 0) and (MODE != 4):
        yi = tl.load(Y + place, mask=inside, other=0.0).to(tl.float64)
    s1 = tl.zeros((R, C), tl.float64)
    s2 = tl.zeros((R, C), tl.float64)
    s3 = tl.zeros((R, C), tl.float64)
    n1 = tl.zeros((R, K), tl.float64)
    n2 = tl.zeros((R, K), tl.float64)
    n3 = tl.zeros((R, K), tl.float64)
    n4 = tl.zeros((R, K), tl.float64)
    B = tl.zeros((R, C, C), tl.float64)
    k = tl.arange(0, K)
    longest = tl.max(last - first, 0)
    for at in range(0, longest, K):
        p = first[:, None] + at + k[None, :]
        known = p < last[:, None]
        j = tl.load(cols + p, mask=known, other=0).to(tl.int64)
        b0 = tl.zeros((R, K), tl.float64)
        if MODE != 5:
            b0 = tl.load(target + p, mask=known, other=0.0).to(tl.float64)
        w = tl.where(known, 1.0, 0.0).to(tl.float64)
        if WEIGHTED:
            w = tl.load(weight + p, mask=known, other=0.0).to(tl.float64)
        gather = j[:, :, None] * width + c[None, None, :]
        both = known[:, :, None] & (c[None, None, :] < width)
        xj = tl.load(X + gather, mask=both, other=0.0).to(tl.float64)
        u = tl.where(both, xi[:, None, :] - xj, 0.0)
        if MODE == 0:
            e = tl.sum(u * u, 2) - b0
            n1 += w * e * e
            s1 += tl.sum((2 * w * e)[:, :, None] * u, 1)
        elif MODE == 4:
            e = tl.sum(u * u, 2) - b0
            n1 += w * e * e
            s1 += tl.sum((2 * w * e)[:, :, None] * u, 1)
            wu = (4 * w)[:, :, None] * u
            for q in tl.static_range(WIDTH):
                uq = tl.sum(tl.where(c[None, None, :] == q, u, 0.0), 2)
                line = tl.sum(wu * uq[:, :, None], 1)
                B += tl.where(c[None, :, None] == q, line[:, None, :], 0.0)
        else:
            yj = tl.load(Y + gather, mask=both, other=0.0).to(tl.float64)
            v = tl.where(both, yi[:, None, :] - yj, 0.0)
            if MODE == 1:
                # Y holds the new point: z = y_i − y_j, and v = d_i − d_j with d = y − x
                z = v
                v = tl.where(both, (yi - xi)[:, None, :] - (yj - xj), 0.0)
                before = tl.sum(u * u, 2) - b0
                after = tl.sum(z * z, 2) - b0
                bc = tl.sum(2 * u * v + v * v, 2)
                cc = tl.sum(v * v, 2)
                n1 += w * after * after
                n2 += w * (0.5 * bc * bc + before * cc)
                s1 += tl.sum((2 * w * after)[:, :, None] * z, 1)
            elif MODE == 5:
                b = 4 * w * tl.sum(u * v, 2)
                s1 += tl.sum(b[:, :, None] * u, 1)
            else:
                e = tl.sum(u * u, 2) - b0
                b = 2 * tl.sum(u * v, 2)
                cc = tl.sum(v * v, 2)
                if (MODE == 2) or (MODE == 6):
                    n1 += w * e * b
                    n2 += w * (0.5 * b * b + e * cc)
                    n3 += w * b * cc
                    n4 += 0.5 * w * cc * cc
                if MODE != 6:
                    e2 = (2 * w * e)[:, :, None]
                    b2 = (2 * w * b)[:, :, None]
                    s1 += tl.sum(e2 * v + b2 * u, 1)
                    if MODE == 2:
                        c2 = (2 * w * cc)[:, :, None]
                        s2 += tl.sum(b2 * v + c2 * u, 1)
                        s3 += tl.sum(c2 * v, 1)
    if MODE == 2:
        wide = row[:, None] * (3 * width) + c[None, :]
        tl.store(out + wide, s1, mask=inside)
        tl.store(out + wide + width, s2, mask=inside)
        tl.store(out + wide + 2 * width, s3, mask=inside)
    elif MODE != 6:
        tl.store(out + place, s1, mask=inside)
    if MODE == 4:
        packed = row[:, None, None] * (width * (width + 1) // 2) + (c * (c + 1) // 2)[None, :, None] + c[None, None, :]
        lower = inside[:, :, None] & (c[None, None, :] <= c[None, :, None])
        tl.store(blocks + packed, B, mask=lower)
    at_program = sums + tl.program_id(0).to(tl.int64) * NUMBERS
    if NUMBERS > 0:
        tl.store(at_program, tl.sum(tl.sum(n1, 1), 0))
    if NUMBERS > 1:
        tl.store(at_program + 1, tl.sum(tl.sum(n2, 1), 0))
    if NUMBERS > 2:
        tl.store(at_program + 2, tl.sum(tl.sum(n3, 1), 0))
        tl.store(at_program + 3, tl.sum(tl.sum(n4, 1), 0))


def pairs(
    name: str, X: Any, Y: Any, start: Any, cols: Any, target: Any, weight: Any, out: Any = None, blocks: Any = None
) -> Any:
    """Run the pass of that name; return the numbers summed over pairs, each counted once."""
    mode, numbers = _MODES[name]
    n, width = X.shape
    programs = triton.cdiv(n, _ROWS)
    sums = torch.empty((programs, max(numbers, 1)), dtype=torch.float64, device=X.device)
    tile = max(1, _TILE * 4 // max(4, triton.next_power_of_2(width)))
    _pass[(programs,)](
        X, Y, start, cols, target, target if weight is None else weight,
        X if out is None else out, X if blocks is None else blocks, sums, n, width,
        MODE=mode, WEIGHTED=weight is not None, NUMBERS=numbers,
        R=_ROWS, K=tile, C=triton.next_power_of_2(width), WIDTH=width, num_warps=_WARPS,
    )  # fmt: skip
    if not numbers:
        return None
    total = 0.5 * sums.sum(dim=0)  # each pair stands in two rows
    if mode in (0, 1, 4):
        total[0] *= 0.5  # f is half the sum of squares
    return total


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
