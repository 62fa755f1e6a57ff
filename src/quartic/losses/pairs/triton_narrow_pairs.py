"""The pass over pairs of rows of up to four entries, each entry a tensor of its own: the common case, in registers."""

from __future__ import annotations

import triton
import triton.language as tl

from quartic.losses.pairs.triton_sums import store_numbers


@triton.jit
def narrow_pass(
    X, Y, start, cols, target, weight, out, blocks, sums, n,
    MODE: tl.constexpr, WEIGHTED: tl.constexpr, NUMBERS: tl.constexpr,
    R: tl.constexpr, K: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """The pass for rows of up to four entries, one tensor for each: nothing is summed across threads but at the end."""
    row = tl.program_id(0) * R + tl.arange(0, R)
    here = row < n
    first = tl.load(start + row, mask=here, other=0)[:, None]
    last = tl.load(start + row + 1, mask=here, other=0)[:, None]
    i = row.to(tl.int64)[:, None] * WIDTH
    inside = here[:, None]
    both: tl.constexpr = (MODE != 0) and (MODE != 4)
    # entries beyond the width are not there, and cost nothing
    x0 = tl.load(X + i, mask=inside, other=0.0)
    x1 = tl.load(X + i + 1, mask=inside, other=0.0) if WIDTH > 1 else x0
    x2 = tl.load(X + i + 2, mask=inside, other=0.0) if WIDTH > 2 else x0
    x3 = tl.load(X + i + 3, mask=inside, other=0.0) if WIDTH > 3 else x0
    y0 = tl.load(Y + i, mask=inside, other=0.0) if both else x0
    y1 = tl.load(Y + i + 1, mask=inside, other=0.0) if both and WIDTH > 1 else x0
    y2 = tl.load(Y + i + 2, mask=inside, other=0.0) if both and WIDTH > 2 else x0
    y3 = tl.load(Y + i + 3, mask=inside, other=0.0) if both and WIDTH > 3 else x0
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
        j = tl.load(cols + p, mask=known, other=0).to(tl.int64) * WIDTH
        e = zero
        if MODE != 5:
            e = -tl.load(target + p, mask=known, other=0.0).to(tl.float64)
        if WEIGHTED:
            w = tl.load(weight + p, mask=known, other=0.0).to(tl.float64)
        else:
            w = tl.where(known, 1.0, 0.0).to(tl.float64)
        t0 = tl.load(X + j, mask=known, other=0.0)
        u0 = (x0 - t0).to(tl.float64)
        q = u0 * u0
        u1, u2, u3 = u0, u0, u0
        t1, t2, t3 = t0, t0, t0
        if WIDTH > 1:
            t1 = tl.load(X + j + 1, mask=known, other=0.0)
            u1 = (x1 - t1).to(tl.float64)
            q += u1 * u1
        if WIDTH > 2:
            t2 = tl.load(X + j + 2, mask=known, other=0.0)
            u2 = (x2 - t2).to(tl.float64)
            q += u2 * u2
        if WIDTH > 3:
            t3 = tl.load(X + j + 3, mask=known, other=0.0)
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
            r0 = tl.load(Y + j, mask=known, other=0.0)
            v0 = (y0 - r0).to(tl.float64)
            v1, v2, v3 = v0, v0, v0
            r1, r2, r3 = r0, r0, r0
            if WIDTH > 1:
                r1 = tl.load(Y + j + 1, mask=known, other=0.0)
                v1 = (y1 - r1).to(tl.float64)
            if WIDTH > 2:
                r2 = tl.load(Y + j + 2, mask=known, other=0.0)
                v2 = (y2 - r2).to(tl.float64)
            if WIDTH > 3:
                r3 = tl.load(Y + j + 3, mask=known, other=0.0)
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
