"""The decisions of a replayed iteration as Triton kernels of one program: three hundred launches less than in torch.

Numbers of the state are float64 in one vector, at the places named here; a launch changes them in place.
"""

from __future__ import annotations

import triton
import triton.language as tl

# Places of numbers: those that both methods have, then those of each.
OBJECTIVE, FIT, STEP, FROZEN, TARGET, AT, T, MOVED, DIRECT, USED = (tl.constexpr(k) for k in range(10))
AHEAD, THETA, SETTLED, FIRST_STEP, FIRST_SETTLED, FAILED = (tl.constexpr(k) for k in range(10, 16))
CARRIED, FRESH, HEAD, SQUARED = (tl.constexpr(k) for k in range(16, 20))
COUNT = 20
# Columns of what is told of an iteration: objective, stationarity, step, whether it was made, and how often tried.
COLUMNS = tl.constexpr(5)


@triton.jit
def _slope(c1, c2, c3, c4, t):
    return c1 + t * (2 * c2 + t * (3 * c3 + t * (4 * c4)))


@triton.jit
def _root(c1, c2, c3, c4, low, high):
    """Return where the derivative vanishes between a point where it is negative and one where it is not."""
    t = 0.5 * (low + high)
    step = high - low
    tries = 0
    while (tl.abs(step) > 1e-15 * t) & (tries < 64):
        f = _slope(c1, c2, c3, c4, t)
        low = tl.where(f < 0, t, low)
        high = tl.where(f < 0, high, t)
        newton = t - f / (2 * c2 + t * (6 * c3 + t * (12 * c4)))
        following = tl.where((newton >= low) & (newton <= high), newton, 0.5 * (low + high))
        step = following - t
        t = following
        tries += 1
    return t


@triton.jit
def _most(c1, c2, c3, c4, t, unknown):
    change = t * (c1 + t * (c2 + t * (c3 + t * c4)))
    return change + unknown * t * (tl.abs(c1) + t * (tl.abs(c2) + t * (tl.abs(c3) + t * tl.abs(c4))))


@triton.jit
def least_on_line(c1, c2, c3, c4, upper, unknown):
    """Return the t in [0, upper] of least c₁t + … + c₄t⁴, c₄ > 0, as `quartic.losses.Line.minimizer` finds it.

    The derivative rises up to the lesser root of the second derivative and beyond the greater: a minimum lies in one of
    these two parts, and all beyond a known length is higher.
    """
    cube = tl.exp(tl.log(tl.abs(c1) / (4 * c4) + 1e-300) / 3)
    far = 2.1 * tl.maximum(tl.maximum(0.75 * tl.abs(c3) / c4, tl.sqrt(0.5 * tl.abs(c2) / c4)), cube)
    end = tl.minimum(upper, far)
    root = tl.sqrt(tl.maximum(36 * c3 * c3 - 96 * c4 * c2, 0.0))
    first = tl.minimum(tl.maximum((-6 * c3 - root) / (24 * c4), 0.0), end)
    second = tl.minimum(tl.maximum((-6 * c3 + root) / (24 * c4), 0.0), end)
    before = (c1 < 0) & (_slope(c1, c2, c3, c4, first) >= 0)
    after = (_slope(c1, c2, c3, c4, second) < 0) & (_slope(c1, c2, c3, c4, end) >= 0)
    t1 = tl.where(before, _root(c1, c2, c3, c4, 0.0 * end, first), end)
    t2 = tl.where(after, _root(c1, c2, c3, c4, second, end), end)
    m1 = _most(c1, c2, c3, c4, t1, unknown)
    m2 = _most(c1, c2, c3, c4, t2, unknown)
    m3 = _most(c1, c2, c3, c4, end, unknown)
    t = tl.where(m1 <= m2, t1, t2)
    m = tl.minimum(m1, m2)
    t = tl.where(m <= m3, t, end)
    return tl.where(tl.minimum(m, m3) < 0, t, 0.0)


@triton.jit
def decide_inertial(numbers, products, sums, sums_of_way, constants, K: tl.constexpr):
    """Judge the trial, find the best point on the way to it, and what the next iteration takes over.

    Where there is no such point the step is halved, or, if only the objective rises, made from X itself, with the step
    that the iteration began with: the next replay tries again.

    ``products`` are the inner products (K × K) of S_Y, DᵀD, S⁺ − S_Y, S_Y², I, S = XᵀX, E = (X⁺ − X)ᵀ(X⁺ − X),
    H = S⁺ − S − E and S⁺; ``sums`` those of the step from Y to X⁺ (`quartic.losses.factor.triton.step_sums`), and of
    the way from X; ``constants`` ½‖M‖², α, σ, the growth of the step, the round-off of the loss on a line, that of a
    gradient, and what a short step is.
    """
    half, alpha, sigma = tl.load(constants), tl.load(constants + 1), tl.load(constants + 2)
    most, unknown = tl.load(constants + 3), tl.load(constants + 4)
    rounding, short = tl.load(constants + 5), tl.load(constants + 6)
    objective, fit, step = tl.load(numbers + OBJECTIVE), tl.load(numbers + FIT), tl.load(numbers + STEP)
    theta, settled = tl.load(numbers + THETA), tl.load(numbers + SETTLED)
    live = tl.load(numbers + FROZEN) == 0
    bend, along, new_fit, bend_way = tl.load(sums), tl.load(sums + 1), tl.load(sums + 3), tl.load(sums_of_way)
    # is the trial good enough?
    size, length = tl.load(products + 4 * K), tl.load(products + 4 * K + 1)
    both = 2 * along + length
    room = (0.25 * alpha * (both * both + 2 * size * length) + 0.5 * sigma * length) / step
    remainder = tl.load(products + 1) + 0.5 * tl.load(products + 2 * K + 2) - bend
    known = rounding * tl.sqrt(tl.maximum(tl.load(products + 3), 0.0)) * tl.sqrt(tl.maximum(length, 0.0))
    enough = remainder <= room + known
    value = tl.maximum(half + 0.5 * tl.load(products + 8 * K + 8) - new_fit, 0.0)
    following = 0.5 * (1 + tl.sqrt(1 + 4 * theta * theta))
    direct = enough & ((value <= objective) | (theta == 1))
    # the best point on the way to it
    SS, SE, SH = tl.load(products + 5 * K + 5), tl.load(products + 5 * K + 6), tl.load(products + 5 * K + 7)
    EE, EH, HH = tl.load(products + 6 * K + 6), tl.load(products + 6 * K + 7), tl.load(products + 7 * K + 7)
    slope = 0.5 * (new_fit - fit - bend_way)
    c1, c2, c3, c4 = SH - 2 * slope, SE + 0.5 * HH - bend_way, EH, 0.5 * EE
    t = least_on_line(c1, c2, c3, c4, 1.0 + 0.0 * c1, unknown)
    way_fit = fit + t * (2 * slope + t * bend_way)
    # ‖S + tH + t²E‖²
    way = SS + t * (2 * SH + t * (HH + 2 * SE + t * (2 * EH + t * EE)))
    way_value = tl.maximum(half + 0.5 * way - way_fit, 0.0)
    long = tl.load(products + 4 * K + 6) > short * tl.load(products + 4 * K + 5)
    between = (t > 0) & (way_value < objective) & long
    moved = live & (direct | between)
    taken = tl.where(room > 0, remainder / room, 1.0)
    first = tl.where(8 * taken <= 0.9, 8.0, tl.where(4 * taken <= 0.9, 4.0, tl.where(2 * taken <= 0.9, 2.0, 1.0)))
    growth = tl.where(settled > 0, most, tl.maximum(most, first))
    tl.store(numbers + T, tl.where(moved, tl.where(direct, 1.0 + 0.0 * t, t), 0.0))
    tl.store(numbers + MOVED, tl.where(moved, 1.0, 0.0))
    tl.store(numbers + DIRECT, tl.where(moved & direct, 1.0, 0.0))
    tl.store(numbers + USED, step)
    tl.store(numbers + OBJECTIVE, tl.where(moved, tl.where(direct, value, way_value), objective))
    tl.store(numbers + FIT, tl.where(moved, tl.where(direct, new_fit, way_fit), fit))
    again = live & (moved == 0)
    from_x = again & enough
    step = tl.where(moved & enough, growth * step, tl.where(live & (enough == 0), 0.5 * step, step))
    step = tl.where(from_x, tl.load(numbers + FIRST_STEP), step)
    settled = tl.where(live & (enough == 0), 1.0, settled)
    settled = tl.where(from_x, tl.load(numbers + FIRST_SETTLED), settled)
    theta = tl.where(moved, tl.where(enough & (direct == 0), 1.0, following), tl.where(from_x, 1.0, theta))
    tl.store(numbers + STEP, step)
    tl.store(numbers + SETTLED, settled)
    tl.store(numbers + THETA, theta)
    tl.store(numbers + AHEAD, 1 + (theta - 1) / (0.5 * (1 + tl.sqrt(1 + 4 * theta * theta))))
    tl.store(numbers + FAILED, tl.where(again, tl.load(numbers + FAILED) + 1, 0.0))
    if moved:
        tl.store(numbers + FIRST_STEP, step)
        tl.store(numbers + FIRST_SETTLED, settled)


@triton.jit
def _report(numbers, rows, constants, live, moved, objective, stationarity, size, stuck):
    """Report the iteration, and freeze where the run is to end, or the host has to take over because it is ``stuck``.

    ``size`` is ‖X XᵀX‖², whose root is what the gradient's round-off is a part of.
    """
    at = tl.load(numbers + AT)
    if live:
        row = rows + at.to(tl.int32) * COLUMNS
        tl.store(row, objective)
        tl.store(row + 1, stationarity)
        tl.store(row + 2, tl.load(numbers + USED))
        tl.store(row + 3, moved)
        tl.store(row + 4, tl.load(row + 4) + 1)
        tl.store(numbers + AT, at + moved)
    known = 4 * tl.load(constants + 5) * tl.sqrt(tl.maximum(size, 0.0))
    done = stationarity <= tl.maximum(tl.load(numbers + TARGET), known)
    total = objective + stationarity
    finite = (total - total) == 0
    frozen = (live == 0) | ((moved > 0) & done) | (finite == 0) | stuck
    tl.store(numbers + FROZEN, tl.where(frozen, 1.0, 0.0))


@triton.jit
def tell(numbers, size, square, rows, constants):
    """Report an inertial iteration, from ‖X XᵀX‖² and ‖∇ᴾ‖²; after eight trials that fail the host takes over."""
    live, moved = tl.load(numbers + FROZEN) == 0, tl.load(numbers + MOVED)
    objective, stationarity = tl.load(numbers + OBJECTIVE), tl.sqrt(tl.load(square))
    _report(
        numbers, rows, constants, live, moved, objective, stationarity, tl.load(size), tl.load(numbers + FAILED) >= 8,
    )  # fmt: skip


# -- L-BFGS -----------------------------------------------------------------------------------------------------------
# Pairs are the rows of one array, a column of it for each entry of X: steps in the upper half, changes of the gradient
# in the lower. One more pair than is remembered has room: the newest is written while it is not known to be any good.
#
# Where a tile has fewer entries than threads, several threads hold the same entry, and load it each for itself. So no
# kernel stores what it also loads, unless all threads wait in between: some would find the new value, some the old.


@triton.jit
def multiply_pairs(numbers, pairs, X, G, free, sums, size, tiles, R: tl.constexpr, C: tl.constexpr):
    """Set pairs to zero off the face, and add up their inner products, with the gradient there in place of a new pair.

    ``free`` tells which entries were on the face before: off it pairs are zero already. Tensor cores multiply the
    leading and the following digits of float32: without them this takes far longer than to read the pairs.
    """
    c, head = tl.arange(0, C), tl.load(numbers + HEAD).to(tl.int32)
    known = (c != head) & (c != head + C // 2)
    products, mixed = tl.zeros((C, C), tl.float64), tl.zeros((C, C), pairs.dtype.element_ty)
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        at = (tile * R + tl.arange(0, R)).to(tl.int64)
        inside = at < size
        g = tl.load(G + at, mask=inside, other=0.0)
        on_face = (tl.load(X + at, mask=inside, other=0.0) > 0) | (g < 0)
        before = tl.load(free + at, mask=inside, other=0) != 0
        place = at[:, None] + c[None, :] * size.to(tl.int64)
        # not to wait for the face with reading takes half of the time
        p = tl.where(on_face[:, None], tl.load(pairs + place, mask=inside[:, None] & known[None, :], other=0.0), 0.0)
        tl.store(pairs + place, tl.zeros_like(p), mask=(inside & before & (on_face == 0))[:, None] & known[None, :])
        p = tl.where((c == head)[None, :], tl.where(on_face, g, 0.0)[:, None], p)
        if p.dtype == tl.float32:
            leading = (p.to(tl.int32, bitcast=True) & -8192).to(tl.float32, bitcast=True)
            mixed += tl.dot(tl.trans(leading), p - leading, input_precision="tf32")
            products += tl.dot(tl.trans(leading), leading, input_precision="tf32").to(tl.float64)
        else:
            products += tl.dot(tl.trans(p), p, out_dtype=tl.float64)
    products += (mixed + tl.trans(mixed)).to(tl.float64)
    tl.store(sums + tl.program_id(0) * C * C + c[:, None] * C + c[None, :], products)


@triton.jit
def combine_pairs(numbers, sums, S, width, coefficients, MEMORY: tl.constexpr, C: tl.constexpr, W: tl.constexpr):
    """Find Hq as γq + Σ c_i s_i − γ Σ p_i y_i, by the compact form: coefficients of the pairs, and then γ.

    Pairs not made yet are zero, and drop out like those without positive curvature.
    """
    half: tl.constexpr = C // 2
    i = tl.arange(0, half)
    head = tl.load(numbers + HEAD).to(tl.int32)
    slot = (head + 1 + i) % (MEMORY + 1)  # the oldest first
    there = i < MEMORY
    both = there[:, None] & there[None, :]
    SY = tl.load(sums + slot[:, None] * C + half + slot[None, :], mask=both, other=0.0)
    YY = tl.load(sums + (half + slot)[:, None] * C + half + slot[None, :], mask=both, other=0.0)
    sy = tl.load(sums + slot * C + half + slot, mask=there, other=0.0)
    yy = tl.load(sums + (half + slot) * C + half + slot, mask=there, other=0.0)
    Sq = tl.load(sums + head * C + slot, mask=there, other=0.0)
    Yq = tl.load(sums + head * C + half + slot, mask=there, other=0.0)
    curved = (sy > 0) & (yy > 0)
    newest = tl.max(tl.where(curved, i, -1), 0)
    scale = tl.sum(tl.where(curved & (i == newest), sy / tl.where(curved, yy, 1.0), 0.0), 0)
    used = curved & (sy > 1e-10 * yy * scale)
    both = used[:, None] & used[None, :]
    equal = i[:, None] == i[None, :]
    R = tl.where(both & (i[:, None] <= i[None, :]), SY, tl.where(equal, 1.0, 0.0))
    p = tl.where(used, Sq, 0.0)
    for back in range(half):  # p = R⁻¹p
        k = half - 1 - back
        last = tl.sum(tl.where(i == k, p, 0.0), 0) / tl.sum(tl.sum(tl.where(equal & (i == k)[:, None], R, 0.0), 1), 0)
        column = tl.sum(tl.where((i == k)[None, :], R, 0.0), 1)
        p = tl.where(i == k, last, tl.where(i < k, p - column * last, p))
    right = tl.sum(tl.where(both, YY, 0.0) * p[None, :], 1)
    c = tl.where(used, sy * p + scale * (right - Yq), 0.0)
    for k in range(half):  # c = R⁻ᵀc
        first = tl.sum(tl.where(i == k, c, 0.0), 0) / tl.sum(tl.sum(tl.where(equal & (i == k)[:, None], R, 0.0), 1), 0)
        row = tl.sum(tl.where((i == k)[:, None], R, 0.0), 0)
        c = tl.where(i == k, first, tl.where(i > k, c - row * first, c))
    w = tl.arange(0, W)
    size = tl.sum(tl.load(S + w * (width + 1), mask=w < width, other=0.0), 0)
    gamma = tl.where(scale > 0, scale, tl.sqrt(size / tl.load(sums + head * C + head)))
    tl.store(coefficients + slot, c, mask=there)
    tl.store(coefficients + half + slot, -scale * p, mask=there)
    # what is in the place of the next pair does not count
    tl.store(coefficients + head + half * tl.arange(0, 2), tl.zeros((2,), tl.float64))
    tl.store(coefficients + C, gamma)


@triton.jit
def find_direction(numbers, pairs, X, G, free, coefficients, D, ends, size, tiles, R: tl.constexpr, C: tl.constexpr):
    """Fill D = max(X − Hq, 0) − X, once more as the step of a pair to come, and tell the face in ``free``.

    Each program tells the least −X/D, where D < 0, and its part of ⟨∇f, D⟩.
    """
    gamma = tl.load(coefficients + C)
    new = pairs + tl.load(numbers + HEAD).to(tl.int64) * size
    least = tl.full((R,), float("inf"), tl.float64)
    slope = tl.zeros((R,), tl.float64)
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        at = (tile * R + tl.arange(0, R)).to(tl.int64)
        inside = at < size
        x = tl.load(X + at, mask=inside, other=0.0)
        g = tl.load(G + at, mask=inside, other=0.0)
        on_face = inside & ((x > 0) | (g < 0))
        tl.store(free + at, on_face, mask=inside)
        v = gamma.to(x.dtype) * tl.where(on_face, g, 0.0)
        for k in tl.static_range(C):
            weight = tl.load(coefficients + k + tl.zeros((1,), tl.int32))  # zero for the pair to come
            row = pairs + k * size.to(tl.int64)
            v += weight.to(x.dtype) * tl.load(row + at, mask=on_face & (weight != 0), other=0.0)
        v = x - v
        d = tl.where(v < 0, 0.0, v) - x  # a NaN stays one
        tl.store(D + at, d, mask=inside)
        tl.store(new + at, d, mask=inside)
        least = tl.minimum(least, tl.where(d < 0, (-x / tl.where(d < 0, d, 1.0)).to(tl.float64), float("inf")))
        slope += (g * d).to(tl.float64)
    tl.store(ends + tl.program_id(0) * 2, tl.min(least, 0))
    tl.store(ends + tl.program_id(0) * 2 + 1, tl.sum(slope, 0))


@triton.jit
def decide_on_line(
    numbers, S, T_, C_, width, stride, ends, programs, bends, constants, BLOCK: tl.constexpr, MANY: tl.constexpr,
):  # fmt: skip
    """Find the best t on X + tD, and carry S = XᵀX there.

    With XᵀD and C = DᵀD, whose rows are a ``stride`` apart, and U = XᵀD + DᵀX; ``ends`` are
    the parts of `find_direction`, ``bends`` has ⟨MD, D⟩.
    """
    k = tl.arange(0, MANY)
    upper = tl.min(tl.load(ends + 2 * k, mask=k < programs, other=float("inf")), 0)
    slope, bend = tl.sum(tl.load(ends + 2 * k + 1, mask=k < programs, other=0.0), 0), tl.load(bends)
    e = tl.arange(0, BLOCK)
    SC, UU, UC, CC = bend * 0, bend * 0, bend * 0, bend * 0
    for first in range(0, width * width, BLOCK):
        at, inside = first + e, first + e < width * width
        i, j = at // width, at % width
        s, c = tl.load(S + at, mask=inside, other=0.0), tl.load(C_ + i * stride + j, mask=inside, other=0.0)
        u = tl.load(T_ + i * stride + j, mask=inside, other=0.0) + tl.load(T_ + j * stride + i, mask=inside, other=0.0)
        SC += tl.sum(s * c, 0)
        UU += tl.sum(u * u, 0)
        UC += tl.sum(u * c, 0)
        CC += tl.sum(c * c, 0)
    t = least_on_line(slope, SC + 0.5 * UU - bend, UC, 0.5 * CC, upper, tl.load(constants + 4))
    moved = (tl.load(numbers + FROZEN) == 0) & (slope < 0) & (t > 0)
    t = tl.where(moved, t, 0.0)
    squared = bend * 0
    for first in range(0, width * width, BLOCK):
        at, inside = first + e, first + e < width * width
        i, j = at // width, at % width
        s, c = tl.load(S + at, mask=inside, other=0.0), tl.load(C_ + i * stride + j, mask=inside, other=0.0)
        u = tl.load(T_ + i * stride + j, mask=inside, other=0.0) + tl.load(T_ + j * stride + i, mask=inside, other=0.0)
        s = tl.where(moved, s + t * (u + t * c), s)
        tl.store(S + at, s, mask=inside)
        squared += tl.sum(s * s, 0)
    tl.store(numbers + T, t)
    tl.store(numbers + USED, t)
    tl.store(numbers + MOVED, tl.where(moved, 1.0, 0.0))
    tl.store(numbers + SQUARED, squared)


@triton.jit
def move_on_line(
    numbers, pairs, S, X, MX, D, MD, G, free, sums, constants, n, width, tiles,
    HALF: tl.constexpr, R: tl.constexpr, C: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Move X and MX, make G = 2XS − 2MX, and write the change of a new pair; add up what tells of them.

    What is zero but for round-off is zero; with t = 0 nothing changes.
    """
    c = tl.arange(0, C)
    t, zero = tl.load(numbers + T) + tl.zeros((1, 1), tl.float64), tl.load(constants + 5)
    moved = t > 0
    small = (c < width)[:, None] & (c < width)[None, :]
    a = 2 * tl.load(S + c[:, None] * width + c[None, :], mask=small, other=0.0)
    change = pairs + (HALF + tl.load(numbers + HEAD).to(tl.int64)) * n * width
    none = tl.zeros((R, C), tl.float64)
    projected, fit, length, sy, ss, yy = none, none, none, none, none, none
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        row = (tile * R + tl.arange(0, R)).to(tl.int64)
        place = row[:, None] * width + c[None, :]
        inside = (row < n)[:, None] & (c < width)[None, :]
        x, s = tl.load(X + place, mask=inside, other=0.0), tl.load(D + place, mask=inside, other=0.0)
        mx, md = tl.load(MX + place, mask=inside, other=0.0), tl.load(MD + place, mask=inside, other=0.0)
        g = tl.load(G + place, mask=inside, other=0.0)
        on_face = tl.load(free + place, mask=inside, other=0) != 0
        tl.debug_barrier()  # what follows stores what was loaded
        new = x + t.to(x.dtype) * s
        x = tl.where(moved, tl.where(new <= zero.to(x.dtype) * x, 0.0, new), x)
        mx = tl.where(moved, mx + t.to(x.dtype) * md, mx)
        after = tl.dot(x, a.to(x.dtype), input_precision=PRECISION, out_dtype=x.dtype) - 2 * mx
        y = tl.where(on_face & moved, (after - g) / tl.where(moved, t, 1.0).to(x.dtype), 0.0)
        g = tl.where(moved, after, g)
        tl.store(X + place, x, mask=inside)
        tl.store(MX + place, mx, mask=inside)
        tl.store(G + place, g, mask=inside)
        tl.store(change + place, y, mask=inside)
        g = tl.where((x > 0) | (g < 0), g, 0.0 * g)
        projected += (g * g).to(tl.float64)
        fit += (mx * x).to(tl.float64)
        length += ((0.5 * after + mx) * (0.5 * after + mx)).to(tl.float64)
        sy += (s * y).to(tl.float64)
        ss += (s * s).to(tl.float64)
        yy += (y * y).to(tl.float64)
    mine = sums + tl.program_id(0) * 6
    tl.store(mine, tl.sum(tl.sum(projected, 1), 0))
    tl.store(mine + 1, tl.sum(tl.sum(fit, 1), 0))
    tl.store(mine + 2, tl.sum(tl.sum(length, 1), 0))
    tl.store(mine + 3, tl.sum(tl.sum(sy, 1), 0))
    tl.store(mine + 4, tl.sum(tl.sum(ss, 1), 0))
    tl.store(mine + 5, tl.sum(tl.sum(yy, 1), 0))


@triton.jit
def tell_of_line(numbers, sums, programs, rows, constants, MANY: tl.constexpr, MEMORY: tl.constexpr):
    """Keep the pair if it bends upwards, and report the iteration; ``sums`` are the parts of `move_on_line`."""
    k = tl.arange(0, MANY)
    part = sums + 6 * k
    inside = k < programs
    square = tl.sum(tl.load(part, mask=inside, other=0.0), 0)
    fit = tl.sum(tl.load(part + 1, mask=inside, other=0.0), 0)
    size = tl.sum(tl.load(part + 2, mask=inside, other=0.0), 0)
    sy = tl.sum(tl.load(part + 3, mask=inside, other=0.0), 0)
    ss = tl.sum(tl.load(part + 4, mask=inside, other=0.0), 0)
    yy = tl.sum(tl.load(part + 5, mask=inside, other=0.0), 0)
    live, moved, head = tl.load(numbers + FROZEN) == 0, tl.load(numbers + MOVED), tl.load(numbers + HEAD)
    good = (moved > 0) & (sy > 1e-12 * tl.sqrt(ss * yy))
    following = tl.where(head == MEMORY, 0.0, head + 1)
    tl.store(numbers + HEAD, tl.where(good, following, head))
    stationarity = tl.sqrt(square)
    value = tl.maximum(tl.load(constants) + 0.5 * tl.load(numbers + SQUARED) - fit, 0.0)
    objective = tl.where(moved > 0, value, tl.load(numbers + OBJECTIVE))
    tl.store(numbers + OBJECTIVE, objective)
    carried, fresh = tl.load(numbers + CARRIED) + moved, tl.load(numbers + FRESH)
    fresh = tl.where((fresh > 1e300) & (moved > 0), stationarity, fresh)
    tl.store(numbers + CARRIED, carried)
    tl.store(numbers + FRESH, fresh)
    stale = (carried >= tl.load(constants + 1)) | (stationarity <= tl.load(constants + 2) * fresh)
    _report(
        numbers, rows, constants, live, moved, objective, stationarity, size, stale | (moved == 0),
    )  # fmt: skip
