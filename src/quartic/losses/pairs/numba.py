"""The pass over a list of pairs (i, j), compiled: the one costly operation of every loss that is a sum over pairs.

A pair carries a target b and a weight w and enters the loss as ½ w e², where e is

- q − b with q = ⟨x_i, x_j⟩ (``ENTRIES`` of XXᵀ) or q = ‖x_i − x_j‖² (``SQUARES`` of distances),
- by how much q leaves the interval from b to an upper bound (``BOUNDS``), or by how much √q does (``ROOTS``),
- q − d² where the distances d of all pairs are given as a matrix (``COMPLETE``).

On a line X + tD q goes as q + βt + γt²: a loss of the first two kinds is a quartic there, its gradient a cubic with
matrix coefficients. One body (`pair_rows`) serves all kinds, all that is asked of a pass (its *mode*) and all ranks; it
is specialised when compiled, and only what is used is compiled. Kind and mode are tuples of that length, since how long
a tuple is the compiler knows, as it knows whether an argument is None; it leaves out the other branches.

**Records.** j is anywhere. What a pass reads and adds to at a point, first its sums, then its place x and a direction
d, is put into one record for the time of the pass; the sums are taken out at the end. That is one or two cache lines a
pair instead of four. Records that do not stay in the cache are asked for some pairs ahead. Both together keep the time
in proportion to the number of pairs. (To cut rows and columns into tiles instead is no cure: where n points have d
pairs each, a tile of b × b points finds a row again only if b·d/n is well above one, and then it is too large for the
second cache.)

**Threads.** Rows are cut into chunks by the data alone (`RowChunks`), each with records of its own
whose sums are added in order: the same bits on any number of threads.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from quartic.arrays import Array
from quartic.arrays.threads import spread
from quartic.compiled.flags import FLAGS, INNER, njit
from quartic.compiled.vectors import add_square, dot, lanes_for, load, nothing, prefetch, store, where_squared
from quartic.losses.pairs.pairs import (
    COMPLETE,
    ENTRIES,
    HESSIAN,
    LINE,
    LINEARIZE,
    PRODUCT,
    QUARTIC,
    REMAINDER,
    ROOTS,
    VALUE,
    Pairs,
)

_Numbers = tuple[float, float, float, float]

# Up to so many bytes of records stay in the second cache: nothing needs to be asked for.
_NEAR = 400_000
# Records are asked for so many pairs ahead.
_AHEAD = np.uint64(16)
# Bytes in a cache line.
_LINE = 64
# What a pair costs, in multiplications.
_COST = 10.0


def run(mode: int, X: Array, V: Array | None, pairs: Pairs, out: Array | None, B: Array | None) -> tuple[float, ...]:
    """Make the pass that `quartic.losses.pairs.pairs.Pairs.run` describes.

    On the line from X to Y q goes from q₀ to q₁ = q₀ + β + γ, and a pair's share of the remainder is
    w(½(β + γ)² + (q₀ − b)γ). The three arrays of a line lie side by side: at distances near a multiple of 4096 bytes
    their stores would hold each other up. Of JᵀWJ nothing is stored a pair: products recompute the differences, since X
    stays in the cache where m stored vectors would not.
    """
    if mode == LINEARIZE and B is not None and layout(mode, X.shape[1])[1] is not None:
        B[:] = pairs.row_blocks(X)
        mode, B = VALUE, None
    n1, n2, n3, n4 = _over_pairs(mode, X, V, pairs, out, B)
    if mode in (VALUE, LINEARIZE):
        return (0.5 * n1,)
    if mode == REMAINDER:
        return 0.5 * n1, n2
    return (n1, n2, n3, n4) if mode in (LINE, QUARTIC) else ()


# -- records, and threads ----------------------------------------------------------------------------------------------


def data_of(pairs: Pairs) -> tuple[Any, ...]:
    """Return what the passes read of the pairs."""
    return pairs.start, pairs.cols, pairs.target, pairs.upper, pairs.weight


def _over_pairs(mode: int, X: Array, V: Array | None, pairs: Pairs, out: Any = None, B: Any = None) -> _Numbers:
    """Run the pass of that mode over all pairs; return the numbers it sums, and fill ``out`` and B.

    Records are in float64, and rounded at the end where an output is coarser. Where all data are in float32 and records
    do not stay in the cache, they are float32: half the memory to fetch. A row's own sum and what is computed of a pair
    are in float64 even then; what is rounded is what its pairs as a column add to a point, each time.
    """
    (n, rank), chunks, two = X.shape, pairs.chunks, V is not None
    lanes, tiles, span, sums = layout(mode, rank)
    size = sums + (2 * span if two else span)
    far = 8 * n * size > _NEAR
    coarse = far and B is None and all(A is None or A.dtype == np.float32 for A in (X, V, out))
    stride = _stride(size, _LINE // (4 if coarse else 8))
    kept = chunks.take_room(len(chunks) * n * sums) if len(chunks) > 1 and sums else None
    parts: Any = None if kept is None else kept[: len(chunks) * n * sums].reshape(len(chunks), n, sums)
    found: list[Any] = [None] * len(chunks)
    X, V = np.ascontiguousarray(X), V if V is None else np.ascontiguousarray(V)
    spec = (0,) * mode, (0,) * pairs.kind, lanes, tiles, None if V is None else 0

    def work(k: int) -> None:
        room = chunks.take_room(n * stride // (2 if coarse else 1))
        W = (room.view(np.float32) if coarse else room)[: n * stride].reshape(n, stride)
        first, last = chunks.bounds[k : k + 2]
        fill(lanes, W, sums, span, first, X, V, mode == REMAINDER)
        found[k] = pair_rows(*spec, W, sums, far, first, last, *data)
        if parts is not None:
            keep(lanes, W, first, parts[k])
        elif sums:
            take_out(W[None])
        chunks.leave_room(room)

    def take_out(parts: Array) -> None:
        flat: Any = out.reshape(n, -1) if out.flags.c_contiguous else np.empty((n, out[0].size))
        collect(parts, chunks.bounds, places_of_sums(mode, span, rank), flat)
        if not out.flags.c_contiguous:
            out[...] = flat.reshape(out.shape)
        if B is not None:
            collect(parts, chunks.bounds, places_of_blocks(span, rank), B)

    data = data_of(pairs)

    def some(first: int, last: int) -> None:
        for k in range(first, last):
            work(k)

    spread(some, len(chunks), _COST * len(pairs))
    if kept is not None:
        take_out(parts)
        chunks.leave_room(kept)
    if len(found) == 1:
        return found[0]  # type: ignore[no-any-return]
    n1, n2, n3, n4 = (float(sum(column)) for column in zip(*found, strict=True))
    return n1, n2, n3, n4


@cache
def layout(mode: int, rank: int) -> tuple[tuple[float, ...], int | None, int, int]:
    """Return how rows lie in records: lanes and tiles, the room of a row, and that of the sums, which come first."""
    lanes = lanes_for(rank)
    tiles = None if rank <= len(lanes) else -(-rank // len(lanes))
    span = len(lanes) * (tiles or 1)
    return lanes, tiles, span, span * {LINE: 3, QUARTIC: 0, LINEARIZE: 2 + span // 2}.get(mode, 1)


@cache
def places_of_sums(mode: int, span: int, rank: int) -> Any:
    """Return where in a record the sums of its row are."""
    return np.add.outer(span * np.arange(3 if mode == LINE else 1), np.arange(rank)).ravel()


@cache
def places_of_blocks(span: int, rank: int) -> Any:
    """Return where in a record the entries of its packed block are."""
    return span + where_squared(span)[np.tril_indices(rank)]


def _stride(size: int, line: int) -> int:
    """Return the length of a record that lies in as few cache lines as it can."""
    if size <= line:
        return 1 << (size - 1).bit_length()
    return size if 2 * size <= 3 * line else -(-size // line) * line


@njit(**FLAGS)
def fill(lanes: Any, W: Any, at: int, span: int, first: int, X: Any, V: Any, less: bool) -> None:
    """Make records of zeros, X and, where there is one, V, or V less X."""
    width = np.int64(len(lanes))
    for i in range(first, W.shape[0]):
        for o in range(np.int64(0), at + (span if V is None else 2 * span), width):
            store(W, i, o, nothing(lanes))
        for k in range(X.shape[1]):
            W[i, at + k] = X[i, k]
            if V is not None:
                d = np.float64(V[i, k])
                W[i, at + span + k] = d - np.float64(X[i, k]) if less else d


@njit(**FLAGS)
def keep(lanes: Any, W: Any, first: int, part: Any) -> None:
    """Copy the sums, which records begin with."""
    for i in range(first, W.shape[0]):
        for o in range(np.int64(0), np.int64(part.shape[1]), np.int64(len(lanes))):
            store(part, i, o, load(lanes, W, i, o))


@njit(**FLAGS)
def collect(parts: Any, bounds: Any, places: Any, out: Any) -> None:
    """Set each row to what lies at these places in all parts together; part c begins at the row ``bounds[c]``."""
    for c in range(len(parts)):
        for i in range(bounds[c], bounds[c + 1]):
            for k in range(len(places)):
                total = parts[0, i, places[k]]
                for b in range(1, c + 1):
                    total += parts[b, i, places[k]]
                out[i, k] = total


@njit(**FLAGS)
def look_over(pairs: Any, n: int) -> Any:
    """Tell whether all pairs have i < j; and whether they have i ≤ j, come by row, then column, and each once."""
    before, rising, ordered = np.int64(-1), True, True
    for p in range(len(pairs)):
        i, j = pairs[p, 0], pairs[p, 1]
        key = i * n + j
        rising &= i < j
        ordered &= (key > before) & (i <= j)
        before = key
    return rising, ordered


@njit(**FLAGS)
def sum_by_point(start: Any, cols: Any, values: Any) -> Any:
    """Return for each point the sum, over its pairs, of one value a pair."""
    sums = np.zeros(len(start) - 1)
    for i in range(len(sums)):
        total = 0.0
        for p in range(start[i], start[i + 1]):
            total += values[p]
            sums[np.uint64(cols[p])] += values[p]
        sums[i] += total
    return sums


# -- the pass ----------------------------------------------------------------------------------------------------------


@njit(**FLAGS)
def pair_rows(
    mode: Any, kind: Any, lanes: Any, tiles: Any, two: Any, W: Any, at: int, far: bool, first: int, last: int,
    start: Any, cols: Any, target: Any, upper: Any, weight: Any,
) -> Any:  # fmt: skip
    """Add to the records what the pairs of some rows give, and return up to four numbers summed over them.

    A point's place begins at column ``at`` of its record, its sums at the first. x and d are of row i, u and v of the
    pair: x_i − x_j and d_i − d_j, or x_j and d_j for entries. ``two`` is None where there is no direction. Rows longer
    than a vector have further ``tiles``, whose sums are in memory; otherwise that is None.
    """
    width = np.int64(len(lanes))  # a number like others: constants would have what takes them compiled for each
    span = width if tiles is None else width * tiles
    none = np.int64(0)
    n1, n2, n3, n4 = 0.0, 0.0, 0.0, 0.0
    for i in range(first, last):
        x, d = place(lanes, two, W, i, at, span)
        s1, s2, s3 = nothing(lanes), nothing(lanes), nothing(lanes)
        begin, end = (i + 1, W.shape[0]) if len(kind) == COMPLETE else (start[i], start[i + 1])
        for p in range(np.uint64(begin), np.uint64(end)):
            if len(kind) == COMPLETE:
                j, low = np.int64(p), np.float64(target[i, p]) ** 2
            else:
                j, low = np.int64(cols[p]), np.float64(target[p])
                if far:
                    ask_ahead(W, cols, p)
            w = 1.0 if weight is None else np.float64(weight[p])
            u, v = of_pair(kind, two, x, d, place(lanes, two, W, j, at, span))
            q, b, c, after = terms(kind, two, x, d, u, v)
            if tiles is not None:
                for o in range(at + width, at + span, width):
                    x_o, d_o = place(lanes, two, W, i, o, span)
                    u_o, v_o = of_pair(kind, two, x_o, d_o, place(lanes, two, W, j, o, span))
                    more = terms(kind, two, x_o, d_o, u_o, v_o)
                    q, b, c, after = q + more[0], b + more[1], c + more[2], after + more[3]
            # the residual, and what multiplies u in its gradient
            e, slope = q - low, 1.0 if len(kind) == ENTRIES else 2.0
            if upper is not None:
                if len(mode) == REMAINDER:
                    e, slope, share, outside = step_of_interval(kind, q, after, b, c, low, np.float64(upper[p]))
                    n2 += w * share
                elif len(mode) == PRODUCT:
                    slope, outside = 1.0, True
                    w *= squared_slope(kind, q, low, np.float64(upper[p]))
                else:
                    e, slope, outside = leave_interval(kind, q, low, np.float64(upper[p]))
                w = w if outside else 0.0  # branches on what cannot be foretold take longer than adding nothing
            elif len(mode) == REMAINDER:
                e = after - low
                n2 += w * (0.5 * (b + c) * (b + c) + (e - (b + c)) * c)
            if len(mode) == VALUE or len(mode) == REMAINDER or len(mode) == LINEARIZE:
                n1 += w * e * e
            if len(mode) == LINE or len(mode) == QUARTIC:
                n1 += w * e * b
                n2 += w * (0.5 * b * b + e * c)
                n3 += w * b * c
                n4 += 0.5 * w * c * c
            if len(mode) == QUARTIC:
                continue
            # factors of u and v in what the pair adds to its two rows
            f, g, h = w * slope * e, w * slope * e, w * slope * c
            if len(mode) == LINE or len(mode) == HESSIAN:
                f = w * slope * b
            if len(mode) == PRODUCT:
                f = w * b if len(kind) == ENTRIES else 0.5 * w * slope * slope * b
            g1, g2, g3, h1, h2, h3 = shares(mode, kind, x, d, u, v, f, g, h)
            s1 = s1 + g1
            add(lanes, W, j, none, h1)
            if len(mode) == LINE:
                s2, s3 = s2 + g2, s3 + g3
                add(lanes, W, j, span, h2)
                add(lanes, W, j, 2 * span, h3)
            if len(mode) == LINEARIZE:
                ww = w * slope * slope
                if len(kind) == ENTRIES and i == j:
                    ww *= 2  # the two halves of a diagonal entry's gradient fall into the same block
                add_square(W, i, span, ww, u)
                add_square(W, j, span, ww, x if len(kind) == ENTRIES else u)
            if tiles is not None:
                for o in range(width, span, width):
                    x_o, d_o = place(lanes, two, W, i, at + o, span)
                    u_o, v_o = of_pair(kind, two, x_o, d_o, place(lanes, two, W, j, at + o, span))
                    g1, g2, g3, h1, h2, h3 = shares(mode, kind, x_o, d_o, u_o, v_o, f, g, h)
                    add(lanes, W, i, o, g1)
                    add(lanes, W, j, o, h1)
                    if len(mode) == LINE:
                        add(lanes, W, i, span + o, g2)
                        add(lanes, W, j, span + o, h2)
                        add(lanes, W, i, 2 * span + o, g3)
                        add(lanes, W, j, 2 * span + o, h3)
        if len(mode) != QUARTIC:
            add(lanes, W, i, none, s1)
        if len(mode) == LINE:
            add(lanes, W, i, span, s2)
            add(lanes, W, i, 2 * span, s3)
    return n1, n2, n3, n4


@njit(**INNER)
def place(lanes: Any, two: Any, W: Any, i: int, at: int, span: int) -> Any:
    """Return x and d of a point; x twice where there is no direction."""
    x = load(lanes, W, i, at)
    if two is None:
        return x, x
    return x, load(lanes, W, i, at + span)


@njit(**INNER)
def of_pair(kind: Any, two: Any, x: Any, d: Any, other: Any) -> Any:
    """Return u and v of a pair, from the places of its two points."""
    if len(kind) == ENTRIES:
        return other
    return x - other[0], d - other[1]


@njit(**INNER)
def terms(kind: Any, two: Any, x: Any, d: Any, u: Any, v: Any) -> Any:
    """Return q, β and γ of q + βt + γt², and its value at t = 1."""
    if two is None:
        return dot(x if len(kind) == ENTRIES else u, u), 0.0, 0.0, 0.0
    if len(kind) == ENTRIES:
        return dot(x, u), dot(x, v) + dot(d, u), dot(d, v), dot(x + d, u + v)
    z = u + v
    return dot(u, u), 2.0 * dot(u, v), dot(v, v), dot(z, z)


@njit(**INNER)
def shares(mode: Any, kind: Any, x: Any, d: Any, u: Any, v: Any, f: float, g: float, h: float) -> Any:
    """Return what a pair adds to the sums of row i, three of them, and of row j; one counts but for lines."""
    if len(mode) == REMAINDER:
        x, u = x + d, u + v
    if len(mode) == LINE or len(mode) == HESSIAN:
        g1, g2, g3 = g * v + f * u, f * v + h * u, h * v
        if len(kind) == ENTRIES:
            return g1, g2, g3, g * d + f * x, f * d + h * x, h * d
        return g1, g2, g3, -1.0 * g1, -1.0 * g2, -1.0 * g3
    g1, h1 = f * u, f * x if len(kind) == ENTRIES else -f * u
    return g1, g1, g1, h1, h1, h1


@njit(**INNER)
def add(lanes: Any, W: Any, i: int, at: int, v: Any) -> None:
    """Add v to the sums of a record."""
    store(W, i, at, load(lanes, W, i, at) + v)


@njit(**INNER)
def ask_ahead(W: Any, cols: Any, p: Any) -> None:
    """Ask for the record that a pair somewhat after p will need."""
    j = np.int64(cols[min(p + _AHEAD, np.uint64(len(cols) - 1))])
    prefetch(W, j, 0)
    if W.shape[1] * W.itemsize > _LINE:
        prefetch(W, j, W.shape[1] - 1)


@njit(**INNER)
def leave_interval(kind: Any, q: float, low: float, high: float) -> Any:
    """Return by how much q, or √q, leaves the interval, its slope in units of u, and whether it does.

    Where the interval is a point it always does. Two points in one place pull in no direction.
    """
    s, slope = q, 2.0
    if len(kind) == ROOTS:
        s = np.sqrt(q)
        slope = 1.0 / s if s > 0 else 0.0
    # told from e alone, for the same reason: which side of the interval s is on cannot be foretold
    e = s - min(max(s, low), high)
    return e, slope, (e != 0) | (low == high)


@njit(**INNER)
def squared_slope(kind: Any, q: float, low: float, high: float) -> Any:
    """Return the square of that slope, 0 within the interval: all that a product needs, and it takes no root."""
    square, point = 4.0, low == high
    if len(kind) == ROOTS:
        square, low, high = 1.0 / q if q > 0 else 0.0, low * low, high * high
    outside = (q < low) | (q > high) | point
    return square if outside else 0.0


@njit(**INNER)
def step_of_interval(kind: Any, q: float, after: float, b: float, c: float, low: float, high: float) -> Any:
    """Return the same after a step, with the remainder in place of what it was before: φ(s₁) − φ(s₀) − φ′(s₀)·δs.

    s goes from s₀ to s₁, and δs is its first-order change. Each term is of second order in the step where both ends
    are on one side of the interval, or the interval is a point.
    """
    s0, s1, slope, first, change, second = q, after, 2.0, b, b + c, c
    if len(kind) == ROOTS:
        s0, s1 = np.sqrt(q), np.sqrt(after)
        both = s0 + s1
        slope, half = 1.0 / s1 if s1 > 0 else 0.0, 0.5 / s0 if s0 > 0 else 0.0
        mean = 1.0 / both if both > 0 else 0.0
        first, change = b * half, (b + c) * mean
        second = (c - first * change) * mean
    e0, e1, point = s0 - min(max(s0, low), high), s1 - min(max(s1, low), high), low == high
    # a number, not a branch: whether both ends are on one side cannot be foretold
    same = np.float64(point | ((e0 > 0) & (e1 > 0)) | ((e0 < 0) & (e1 < 0)))
    apart, other = e1 - e0, 1.0 - same
    second = same * second + other * (apart - first)
    change = same * change + other * apart
    return e1, slope, 0.5 * change * change + e0 * second, (e0 != 0) | (e1 != 0) | point
