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

_MODES = {
    # its number in the kernels, and how many numbers it sums
    "value": (0, 1),
    "remainder": (1, 2),
    "line": (2, 4),
    "hessian": (3, 0),
    "linearize": (4, 1),
    "product": (5, 0),
    "quartic": (6, 4),
}
# Rows of a program, pairs of a row read together, warps: found by trial on an H200.
SHORT, LONG = (32, 8, 4), (16, 8, 4)


def pairs(
    name: str, X: Any, Y: Any, start: Any, cols: Any, target: Any, weight: Any, out: Any = None, blocks: Any = None
) -> Any:
    """Run the pass of that name; return the numbers summed over pairs, each counted once."""
    mode, numbers = _MODES[name]
    n, width = X.shape
    rows, lanes, warps = SHORT if width <= 4 else LONG
    programs = triton.cdiv(n, rows)
    sums = torch.empty((programs, max(numbers, 1)), dtype=torch.float64, device=X.device)
    arrays = (
        X, Y, start, cols, target, target if weight is None else weight,
        X if out is None else out, X if blocks is None else blocks, sums, n,
    )  # fmt: skip
    settings = {
        "MODE": mode, "WEIGHTED": weight is not None, "NUMBERS": numbers,
        "R": rows, "K": lanes, "WIDTH": width, "num_warps": warps,
    }  # fmt: skip
    if width <= 4:
        both = name not in ("value", "linearize")
        words = X.dtype == torch.float32
        narrow_pass[(programs,)](_packed(X, Y if both else None), *arrays[2:], WORDS=words, **settings)
    else:
        wide_pass[(programs,)](*arrays, width, C=triton.next_power_of_2(width), **settings)
    if not numbers:
        return None
    total = 0.5 * sums.sum(dim=0)  # each pair stands in two rows
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
    b00, b10, b11, b20, b21, b22 = zero, zero, zero, zero, zero, zero
    b30, b31, b32, b33 = zero, zero, zero, zero
    lane = tl.arange(0, K)[None, :]
    for at in range(0, tl.max(last - first), K):
        p = first + at + lane
        known = p < last
        j = tl.load(cols + p, mask=known, other=0)
        t0, t1, t2, t3, r0, r1, r2, r3 = _fetch(P, j, known, WIDTH, both, WORDS)
        e = zero
        if MODE != 5:
            e = -tl.load(target + p, mask=known, other=0.0).to(tl.float64)
        if WEIGHTED:
            w = tl.load(weight + p, mask=known, other=0.0).to(tl.float64)
        else:
            w = tl.where(known, 1.0, 0.0).to(tl.float64)
        u0 = (x0 - t0).to(tl.float64)
        q = u0 * u0
        u1, u2, u3 = u0, u0, u0
        if WIDTH > 1:
            u1 = (x1 - t1).to(tl.float64)
            q += u1 * u1
        if WIDTH > 2:
            u2 = (x2 - t2).to(tl.float64)
            q += u2 * u2
        if WIDTH > 3:
            u3 = (x3 - t3).to(tl.float64)
            q += u3 * u3
        if not both:
            e += q
            n1 += w * e * e
            g = 2 * w * e
            s0 += g * u0
            if WIDTH > 1:
                s1 += g * u1
            if WIDTH > 2:
                s2 += g * u2
            if WIDTH > 3:
                s3 += g * u3
            if MODE == 4:
                w4 = 4 * w
                b00 += w4 * u0 * u0
                if WIDTH > 1:
                    b10 += w4 * u1 * u0
                    b11 += w4 * u1 * u1
                if WIDTH > 2:
                    b20 += w4 * u2 * u0
                    b21 += w4 * u2 * u1
                    b22 += w4 * u2 * u2
                if WIDTH > 3:
                    b30 += w4 * u3 * u0
                    b31 += w4 * u3 * u1
                    b32 += w4 * u3 * u2
                    b33 += w4 * u3 * u3
        else:
            v0 = (y0 - r0).to(tl.float64)
            v1, v2, v3 = v0, v0, v0
            if WIDTH > 1:
                v1 = (y1 - r1).to(tl.float64)
            if WIDTH > 2:
                v2 = (y2 - r2).to(tl.float64)
            if WIDTH > 3:
                v3 = (y3 - r3).to(tl.float64)
            if MODE == 1:
                # Y holds the new point: v is y_i − y_j, and d the same of y − x
                d0 = ((y0 - x0) - (r0 - t0)).to(tl.float64)
                a = v0 * v0
                b = 2 * u0 * d0
                c = d0 * d0
                if WIDTH > 1:
                    d1 = ((y1 - x1) - (r1 - t1)).to(tl.float64)
                    a += v1 * v1
                    b += 2 * u1 * d1
                    c += d1 * d1
                if WIDTH > 2:
                    d2 = ((y2 - x2) - (r2 - t2)).to(tl.float64)
                    a += v2 * v2
                    b += 2 * u2 * d2
                    c += d2 * d2
                if WIDTH > 3:
                    d3 = ((y3 - x3) - (r3 - t3)).to(tl.float64)
                    a += v3 * v3
                    b += 2 * u3 * d3
                    c += d3 * d3
                a += e
                n1 += w * a * a
                n2 += w * (0.5 * (b + c) * (b + c) + (q + e) * c)
                g = 2 * w * a
                s0 += g * v0
                if WIDTH > 1:
                    s1 += g * v1
                if WIDTH > 2:
                    s2 += g * v2
                if WIDTH > 3:
                    s3 += g * v3
            else:
                b = u0 * v0
                c = v0 * v0
                if WIDTH > 1:
                    b += u1 * v1
                    c += v1 * v1
                if WIDTH > 2:
                    b += u2 * v2
                    c += v2 * v2
                if WIDTH > 3:
                    b += u3 * v3
                    c += v3 * v3
                if MODE == 5:
                    g = 4 * w * b
                    s0 += g * u0
                    if WIDTH > 1:
                        s1 += g * u1
                    if WIDTH > 2:
                        s2 += g * u2
                    if WIDTH > 3:
                        s3 += g * u3
                else:
                    b = 2 * b
                    e += q
                    if (MODE == 2) or (MODE == 6):
                        n1 += w * e * b
                        n2 += w * (0.5 * b * b + e * c)
                        n3 += w * b * c
                        n4 += 0.5 * w * c * c
                    if MODE != 6:
                        g = 2 * w * e
                        h = 2 * w * b
                        s0 += g * v0 + h * u0
                        if WIDTH > 1:
                            s1 += g * v1 + h * u1
                        if WIDTH > 2:
                            s2 += g * v2 + h * u2
                        if WIDTH > 3:
                            s3 += g * v3 + h * u3
                        if MODE == 2:
                            c = 2 * w * c
                            p0 += h * v0 + c * u0
                            q0 += c * v0
                            if WIDTH > 1:
                                p1 += h * v1 + c * u1
                                q1 += c * v1
                            if WIDTH > 2:
                                p2 += h * v2 + c * u2
                                q2 += c * v2
                            if WIDTH > 3:
                                p3 += h * v3 + c * u3
                                q3 += c * v3
    if MODE != 6:
        o = row.to(tl.int64) * (3 * WIDTH if MODE == 2 else WIDTH)
        tl.store(out + o, tl.sum(s0, 1), mask=here)
        if WIDTH > 1:
            tl.store(out + o + 1, tl.sum(s1, 1), mask=here)
        if WIDTH > 2:
            tl.store(out + o + 2, tl.sum(s2, 1), mask=here)
        if WIDTH > 3:
            tl.store(out + o + 3, tl.sum(s3, 1), mask=here)
        if MODE == 2:
            tl.store(out + o + WIDTH, tl.sum(p0, 1), mask=here)
            tl.store(out + o + 2 * WIDTH, tl.sum(q0, 1), mask=here)
            if WIDTH > 1:
                tl.store(out + o + WIDTH + 1, tl.sum(p1, 1), mask=here)
                tl.store(out + o + 2 * WIDTH + 1, tl.sum(q1, 1), mask=here)
            if WIDTH > 2:
                tl.store(out + o + WIDTH + 2, tl.sum(p2, 1), mask=here)
                tl.store(out + o + 2 * WIDTH + 2, tl.sum(q2, 1), mask=here)
            if WIDTH > 3:
                tl.store(out + o + WIDTH + 3, tl.sum(p3, 1), mask=here)
                tl.store(out + o + 2 * WIDTH + 3, tl.sum(q3, 1), mask=here)
    if MODE == 4:
        o = row.to(tl.int64) * (WIDTH * (WIDTH + 1) // 2)
        tl.store(blocks + o, tl.sum(b00, 1), mask=here)
        if WIDTH > 1:
            tl.store(blocks + o + 1, tl.sum(b10, 1), mask=here)
            tl.store(blocks + o + 2, tl.sum(b11, 1), mask=here)
        if WIDTH > 2:
            tl.store(blocks + o + 3, tl.sum(b20, 1), mask=here)
            tl.store(blocks + o + 4, tl.sum(b21, 1), mask=here)
            tl.store(blocks + o + 5, tl.sum(b22, 1), mask=here)
        if WIDTH > 3:
            tl.store(blocks + o + 6, tl.sum(b30, 1), mask=here)
            tl.store(blocks + o + 7, tl.sum(b31, 1), mask=here)
            tl.store(blocks + o + 8, tl.sum(b32, 1), mask=here)
            tl.store(blocks + o + 9, tl.sum(b33, 1), mask=here)
    store_numbers(sums, n1, n2, n3, n4, NUMBERS)


@triton.jit
def wide_pass(
    X, Y, start, cols, target, weight, out, blocks, sums,
    n, width,
    MODE: tl.constexpr, WEIGHTED: tl.constexpr, NUMBERS: tl.constexpr,
    R: tl.constexpr, K: tl.constexpr, C: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """The pass for rows of any width, which are tensors."""
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
