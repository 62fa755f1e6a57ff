"""The decisions of a replayed iteration as Triton kernels of one program: three hundred launches less than in torch.

Numbers of the state are float64 in one vector, at the places named here; a launch changes them in place.
"""

from __future__ import annotations

import triton
import triton.language as tl

# Places of numbers: those that both methods have, then those of each.
OBJECTIVE, FIT, STEP, FROZEN, TARGET, AT, T, MOVED = (tl.constexpr(k) for k in range(8))
DIRECT, USED, AHEAD, THETA, SETTLED, CARRIED, FRESH = (tl.constexpr(k) for k in range(8, 15))
COUNT = 15
# Columns of what is told of an iteration: objective, stationarity, step, whether it was made, and whether it was tried.
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
    """Return the t in [0, upper] of least c₁t + … + c₄t⁴, c₄ > 0, as `quartic.losses.Line.minimizer_with` finds it.

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
    tl.store(numbers + STEP, tl.where(moved, tl.where(enough, growth * step, 0.5 * step), step))
    tl.store(numbers + SETTLED, tl.where(moved & (enough == 0), 1.0, settled))
    theta = tl.where(moved, tl.where(enough & (direct == 0), 1.0, following), theta)
    tl.store(numbers + THETA, theta)
    tl.store(numbers + AHEAD, 1 + (theta - 1) / (0.5 * (1 + tl.sqrt(1 + 4 * theta * theta))))


@triton.jit
def decide_on_line(numbers, products, dots, upper, constants, K: tl.constexpr):
    """Find the best t on X + tD.

    ``products`` are the inner products of S = XᵀX, U = XᵀD + DᵀX and C = DᵀD; ``dots`` are ⟨∇f, D⟩ and ⟨MD, D⟩.
    """
    slope, bend = tl.load(dots), tl.load(dots + 1)
    c2 = tl.load(products + 2) + 0.5 * tl.load(products + K + 1) - bend
    c3, c4 = tl.load(products + K + 2), 0.5 * tl.load(products + 2 * K + 2)
    t = least_on_line(slope, c2, c3, c4, tl.load(upper), tl.load(constants + 4))
    moved = (tl.load(numbers + FROZEN) == 0) & (slope < 0) & (t > 0)
    t = tl.where(moved, t, 0.0)
    tl.store(numbers + T, t)
    tl.store(numbers + USED, t)
    tl.store(numbers + MOVED, tl.where(moved, 1.0, 0.0))


@triton.jit
def tell(numbers, products, squares, rows, constants, K: tl.constexpr, LINES: tl.constexpr):
    """Report the iteration, and freeze where it was not made, the run is to end, or the host has to take over.

    ``products`` are those of S = XᵀX and S² at the new X; ``squares`` ‖∇ᴾ‖², and on lines ⟨MX, X⟩.
    """
    live, moved = tl.load(numbers + FROZEN) == 0, tl.load(numbers + MOVED)
    stationarity = tl.sqrt(tl.load(squares))
    objective = tl.load(numbers + OBJECTIVE)
    stale = moved < 0
    if LINES:
        fit = tl.load(squares + 1)
        value = tl.maximum(tl.load(constants) + 0.5 * tl.load(products) - fit, 0.0)
        objective = tl.where(moved > 0, value, objective)
        tl.store(numbers + OBJECTIVE, objective)
        tl.store(numbers + FIT, tl.where(moved > 0, fit, tl.load(numbers + FIT)))
        carried, fresh = tl.load(numbers + CARRIED) + moved, tl.load(numbers + FRESH)
        fresh = tl.where((fresh > 1e300) & (moved > 0), stationarity, fresh)
        tl.store(numbers + CARRIED, carried)
        tl.store(numbers + FRESH, fresh)
        stale = (carried >= tl.load(constants + 1)) | (stationarity <= tl.load(constants + 2) * fresh)
    at = tl.load(numbers + AT).to(tl.int32)
    row = rows + at * COLUMNS
    if live:
        tl.store(row, objective)
        tl.store(row + 1, stationarity)
        tl.store(row + 2, tl.load(numbers + USED))
        tl.store(row + 3, moved)
        tl.store(row + 4, 1.0)
        tl.store(numbers + AT, tl.load(numbers + AT) + moved)
    size = tl.load(constants + 5) * tl.sqrt(tl.maximum(tl.load(products + 1), 0.0))
    done = stationarity <= tl.maximum(tl.load(numbers + TARGET), 4 * size)
    total = objective + stationarity
    finite = (total - total) == 0
    frozen = (live == 0) | (moved == 0) | done | (finite == 0) | stale
    tl.store(numbers + FROZEN, tl.where(frozen, 1.0, 0.0))
