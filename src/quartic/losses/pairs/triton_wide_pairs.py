"""The pass over pairs of rows of any width: a row is a tensor, and sums over it are sums across threads."""

from __future__ import annotations

import triton
import triton.language as tl

from quartic.losses.pairs.triton_sums import store_numbers


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
