"""The pass over pairs, and the row blocks of JᵀWJ, as Triton kernels: a block of rows a program, no atomics.

A program holds the sums of its rows in registers, reads their pairs in tiles, and writes each row once. Numbers summed
over all pairs are written one set a program and added by torch: always in the same order. All arithmetic is in float64,
which costs little here: the time goes into reading pairs and fetching the rows they point to.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

# How many numbers a pass of each mode sums.
_NUMBERS = (1, 2, 4, 0, 1, 0, 4)
# Rows of a program, and pairs of a row read together: found by trial on an H200.
_ROWS, _LANES = 32, 8


def run(
    mode: int, X: Any, Y: Any, start: Any, cols: Any, target: Any, weight: Any, out: Any = None, blocks: Any = None
) -> Any:
    """Make the pass, for X of at most four columns; return the numbers summed over pairs, each counted once."""
    numbers, (n, width), both = _NUMBERS[mode], X.shape, mode not in (0, 4)
    programs = triton.cdiv(n, _ROWS)
    sums = torch.empty((programs, max(numbers, 1)), dtype=torch.float64, device=X.device)
    narrow_pass[(programs,)](
        _packed(X, Y if both else None), start, cols, target, target if weight is None else weight,
        X if out is None else out, X if blocks is None else blocks, sums, n,
        MODE=mode, WEIGHTED=weight is not None, NUMBERS=numbers, R=_ROWS, K=_LANES, WIDTH=width,
        WORDS=X.dtype == torch.float32, num_warps=4,
    )  # fmt: skip
    if not numbers:
        return None
    total = sums.sum(dim=0)
    if mode == 6:
        return total
    total *= 0.5  # each pair stands in two rows
    if mode in (0, 1, 4):
        total[0] *= 0.5  # f is half the sum of squares
    return total


def _packed(X: Any, Y: Any) -> Any:
    """Return the rows of X, and those of Y behind them, each row in one piece of memory; float32 two to a word.

    The rows are fetched at random, which takes most of the time: the fewer pieces and words, the better. They are of
    the type of X, in which a direction of conjugate gradients has digits enough.
    """
    n, width = X.shape
    count = width if Y is None else 2 * width
    P = X.new_empty((n, max(triton.next_power_of_2(count), 2)))
    P[:, :width] = X
    if Y is not None:
        P[:, width:count] = Y
    return P.view(torch.int64) if X.dtype == torch.float32 else P


@triton.jit
def _two(P, word, known, WORDS: tl.constexpr):
    """Return two entries that lie side by side."""
    if WORDS:
        both = tl.load(P + word, mask=known, other=0)
        low = both.to(tl.int32).to(tl.float32, bitcast=True)
        high = (both >> 32).to(tl.int32).to(tl.float32, bitcast=True)
    else:
        low = tl.load(P + 2 * word, mask=known, other=0.0)
        high = tl.load(P + 2 * word + 1, mask=known, other=0.0)
    return low, high


@triton.jit
def _fetch(P, row, known, WIDTH: tl.constexpr, BOTH: tl.constexpr, WORDS: tl.constexpr):
    """Return the up to four entries of rows of X, and those of Y; entries beyond the width are any."""
    count: tl.constexpr = 2 * WIDTH if BOTH else WIDTH
    stride: tl.constexpr = 4 if count > 4 else (2 if count > 2 else 1)
    at = row.to(tl.int64) * stride
    a, b = _two(P, at, known, WORDS)
    c, d, e, f, g, h = a, b, a, b, a, b
    if count > 2:
        c, d = _two(P, at + 1, known, WORDS)
    if count > 4:
        e, f = _two(P, at + 2, known, WORDS)
    if count > 6:
        g, h = _two(P, at + 3, known, WORDS)
    x0, x1, x2, x3 = a, b, c, d
    y0, y1, y2, y3 = e, f, g, h
    if WIDTH == 1:
        y0 = b
    if WIDTH == 2:
        y0, y1 = c, d
    if WIDTH == 3:
        y0, y1, y2 = d, e, f
    return x0, x1, x2, x3, y0, y1, y2, y3


@triton.jit
def store_numbers(sums, n1, n2, n3, n4, NUMBERS: tl.constexpr):
    """Write the first 0, 1, 2 or all 4 numbers of this program."""
    mine = sums + tl.program_id(0).to(tl.int64) * NUMBERS
    if NUMBERS > 0:
        tl.store(mine, tl.sum(tl.sum(n1, 1), 0))
    if NUMBERS > 1:
        tl.store(mine + 1, tl.sum(tl.sum(n2, 1), 0))
    if NUMBERS > 2:
        tl.store(mine + 2, tl.sum(tl.sum(n3, 1), 0))
        tl.store(mine + 3, tl.sum(tl.sum(n4, 1), 0))


# Rows of up to four entries, one tensor for each; entries beyond the width are any, and never used.


@triton.jit
def minus4(a0, a1, a2, a3, b0, b1, b2, b3):
    """Return a − b in float64."""
    return (a0 - b0).to(tl.float64), (a1 - b1).to(tl.float64), (a2 - b2).to(tl.float64), (a3 - b3).to(tl.float64)


@triton.jit
def dot4(a0, a1, a2, a3, b0, b1, b2, b3, WIDTH: tl.constexpr):
    """Return ⟨a, b⟩."""
    total = a0 * b0
    if WIDTH > 1:
        total += a1 * b1
    if WIDTH > 2:
        total += a2 * b2
    if WIDTH > 3:
        total += a3 * b3
    return total


@triton.jit
def add4(s0, s1, s2, s3, f, a0, a1, a2, a3, WIDTH: tl.constexpr):
    """Return s + f·a."""
    s0 += f * a0
    if WIDTH > 1:
        s1 += f * a1
    if WIDTH > 2:
        s2 += f * a2
    if WIDTH > 3:
        s3 += f * a3
    return s0, s1, s2, s3


@triton.jit
def write4(out, at, s0, s1, s2, s3, mask, WIDTH: tl.constexpr):
    """Write the sums of rows."""
    tl.store(out + at, tl.sum(s0, 1), mask=mask)
    if WIDTH > 1:
        tl.store(out + at + 1, tl.sum(s1, 1), mask=mask)
    if WIDTH > 2:
        tl.store(out + at + 2, tl.sum(s2, 1), mask=mask)
    if WIDTH > 3:
        tl.store(out + at + 3, tl.sum(s3, 1), mask=mask)


@triton.jit
def narrow_pass(
    P, start, cols, target, weight, out, blocks, sums, n,
    MODE: tl.constexpr, WEIGHTED: tl.constexpr, NUMBERS: tl.constexpr,
    R: tl.constexpr, K: tl.constexpr, WIDTH: tl.constexpr, WORDS: tl.constexpr,
):  # fmt: skip
    """The pass for rows of up to four entries, one tensor for each: nothing is summed across threads but at the end.

    P holds the rows as `_packed` makes them.
    """
    row = tl.program_id(0) * R + tl.arange(0, R)
    here = row < n
    first = tl.load(start + row, mask=here, other=0)[:, None]
    last = tl.load(start + row + 1, mask=here, other=0)[:, None]
    both: tl.constexpr = (MODE != 0) and (MODE != 4)
    x0, x1, x2, x3, y0, y1, y2, y3 = _fetch(P, row[:, None], here[:, None], WIDTH, both, WORDS)
    zero = tl.zeros((R, K), tl.float64)
    n1, n2, n3, n4 = zero, zero, zero, zero
    s0, s1, s2, s3 = zero, zero, zero, zero
    p0, p1, p2, p3 = zero, zero, zero, zero
    q0, q1, q2, q3 = zero, zero, zero, zero
    z1, z2, z3 = zero, zero, zero
    lane = tl.arange(0, K)[None, :]
    for at in range(0, tl.max(last - first), K):
        p = first + at + lane
        known = p < last
        j = tl.load(cols + p, mask=known, other=0)
        if MODE == 6:  # no row has sums of its own: each pair once, which halves the rows to fetch
            known = known & (j > row[:, None])
        t0, t1, t2, t3, r0, r1, r2, r3 = _fetch(P, j, known, WIDTH, both, WORDS)
        b0 = zero
        if MODE != 5:
            b0 = tl.load(target + p, mask=known, other=0.0).to(tl.float64)
        if WEIGHTED:
            w = tl.load(weight + p, mask=known, other=0.0).to(tl.float64)
        else:
            w = tl.where(known, 1.0, 0.0).to(tl.float64)
        u0, u1, u2, u3 = minus4(x0, x1, x2, x3, t0, t1, t2, t3)
        e = dot4(u0, u1, u2, u3, u0, u1, u2, u3, WIDTH) - b0
        if not both:
            n1 += w * e * e
            s0, s1, s2, s3 = add4(s0, s1, s2, s3, 2 * w * e, u0, u1, u2, u3, WIDTH)
            if MODE == 4:  # the lower triangle of uuᵀ: p holds its first column, q and z the rest
                p0, p1, p2, p3 = add4(p0, p1, p2, p3, 4 * w * u0, u0, u1, u2, u3, WIDTH)
                if WIDTH > 1:
                    q0 += 4 * w * u1 * u1
                if WIDTH > 2:
                    q1 += 4 * w * u2 * u1
                    q2 += 4 * w * u2 * u2
                if WIDTH > 3:
                    z1 += 4 * w * u3 * u1
                    z2 += 4 * w * u3 * u2
                    z3 += 4 * w * u3 * u3
        else:
            v0, v1, v2, v3 = minus4(y0, y1, y2, y3, r0, r1, r2, r3)
            if MODE == 1:
                # Y holds the new point: v is y_i − y_j, and d the same of y − x
                d0, d1, d2, d3 = minus4(y0 - x0, y1 - x1, y2 - x2, y3 - x3, r0 - t0, r1 - t1, r2 - t2, r3 - t3)
                b = 2 * dot4(u0, u1, u2, u3, d0, d1, d2, d3, WIDTH)
                c = dot4(d0, d1, d2, d3, d0, d1, d2, d3, WIDTH)
                after = dot4(v0, v1, v2, v3, v0, v1, v2, v3, WIDTH) - b0
                n1 += w * after * after
                n2 += w * (0.5 * (b + c) * (b + c) + e * c)
                s0, s1, s2, s3 = add4(s0, s1, s2, s3, 2 * w * after, v0, v1, v2, v3, WIDTH)
            else:
                b = 2 * dot4(u0, u1, u2, u3, v0, v1, v2, v3, WIDTH)
                c = dot4(v0, v1, v2, v3, v0, v1, v2, v3, WIDTH)
                if (MODE == 2) or (MODE == 6):
                    n1 += w * e * b
                    n2 += w * (0.5 * b * b + e * c)
                    n3 += w * b * c
                    n4 += 0.5 * w * c * c
                if MODE != 6:
                    s0, s1, s2, s3 = add4(s0, s1, s2, s3, 2 * w * b, u0, u1, u2, u3, WIDTH)
                if (MODE == 2) or (MODE == 3):
                    s0, s1, s2, s3 = add4(s0, s1, s2, s3, 2 * w * e, v0, v1, v2, v3, WIDTH)
                if MODE == 2:
                    p0, p1, p2, p3 = add4(p0, p1, p2, p3, 2 * w * b, v0, v1, v2, v3, WIDTH)
                    p0, p1, p2, p3 = add4(p0, p1, p2, p3, 2 * w * c, u0, u1, u2, u3, WIDTH)
                    q0, q1, q2, q3 = add4(q0, q1, q2, q3, 2 * w * c, v0, v1, v2, v3, WIDTH)
    if MODE != 6:
        o = row.to(tl.int64) * (3 * WIDTH if MODE == 2 else WIDTH)
        write4(out, o, s0, s1, s2, s3, here, WIDTH)
        if MODE == 2:
            write4(out, o + WIDTH, p0, p1, p2, p3, here, WIDTH)
            write4(out, o + 2 * WIDTH, q0, q1, q2, q3, here, WIDTH)
    if MODE == 4:
        o = row.to(tl.int64) * (WIDTH * (WIDTH + 1) // 2)
        few: tl.constexpr = 1 if WIDTH == 1 else (3 if WIDTH == 2 else 4)
        write4(blocks, o, p0, p1, q0, p2, here, few)
        if WIDTH > 2:
            more: tl.constexpr = 2 if WIDTH == 3 else 4
            write4(blocks, o + 4, q1, q2, p3, z1, here, more)
        if WIDTH > 3:
            write4(blocks, o + 8, z2, z3, z3, z3, here, 2)
    store_numbers(sums, n1, n2, n3, n4, NUMBERS)


# -- row blocks --------------------------------------------------------------------------------------------------------


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


def invert(B: Any, shift: Any, width: int) -> Any:
    """Return the inverses (n, r, r) of the packed blocks plus shift·I; a direction without curvature gets 0."""
    L = torch.empty((len(B), width, width), dtype=B.dtype, device=B.device)
    by = shift if torch.is_tensor(shift) else torch.full((), shift, dtype=B.dtype, device=B.device)
    C = triton.next_power_of_2(width)
    _invert[(triton.cdiv(len(B), 64),)](B, L, len(B), width, by, ROWS=64, C=C, WIDTH=width, num_warps=4)
    return L


@triton.jit
def _solve(
    L, R, Z, sums, n, width, rz, curvature, P, H, D, STEP: tl.constexpr, ROWS: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, C)
    inside = (row < n)[:, None] & (c < width)[None, :]
    place = row[:, None] * width + c[None, :]
    r = tl.load(R + place, mask=inside, other=0.0)
    if STEP:
        below = tl.load(curvature)
        a = tl.where(below > 0, tl.load(rz) / tl.where(below > 0, below, 1.0), 0.0)
        d = tl.load(D + place, mask=inside, other=0.0) + a * tl.load(P + place, mask=inside, other=0.0)
        r -= a * tl.load(H + place, mask=inside, other=0.0)
        tl.debug_barrier()  # several threads may have loaded what one of them stores
        tl.store(D + place, d, mask=inside)
        tl.store(R + place, r, mask=inside)
    whole = inside[:, :, None] & (c < width)[None, None, :]
    A = tl.load(L + place[:, :, None] * width + c[None, None, :], mask=whole, other=0.0)
    z = tl.sum(A * r[:, None, :], 2)
    tl.store(Z + place, z, mask=inside)
    tl.store(sums + tl.program_id(0), tl.sum(tl.sum(z.to(tl.float64) * r.to(tl.float64), 1), 0))


def solve(L: Any, R: Any, Z: Any, step: tuple[Any, ...] = ()) -> Any:
    """Fill Z with L_i r_i for the blocks L_i, and return ⟨R, Z⟩.

    With a ``step`` of conjugate gradients, ⟨R, Z⟩, the curvature, P, H and D, after D += aP and R −= aH.
    """
    n, width = R.shape
    programs = triton.cdiv(n, 128)
    sums = torch.empty(programs, dtype=torch.float64, device=R.device)
    _solve[(programs,)](
        L, R, Z, sums, n, width, *(step or (sums, sums, R, R, R)), STEP=bool(step), ROWS=128,
        C=triton.next_power_of_2(width), num_warps=4,
    )  # fmt: skip
    return sums.sum()
