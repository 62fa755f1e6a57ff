"""Passes over what L-BFGS remembers: steps and changes of the gradient, as whole arrays or on the face that X is on.

The face of X is its free entries: those off the bound, and those the gradient pushes off it. Factors are sparse: as a
rule that is a fifth of them. ``where`` lists their places in X.ravel(), in the order in which they came free. A place
that has left the face is −1 from then on, and what was known of it forgotten; should it come back, it begins anew at
the end of the list. Hence nothing is copied when the face changes: a pair (s, y) is as long as the list was when it was
made, and zero beyond. Once a quarter of the places are −1, list and pairs are made anew without them; nothing else
changes by that.

A direction takes two passes over the pairs: one for all inner products between them and the gradient, one for the
combination (the compact form of the two-loop recursion; its coefficients follow from the inner products alone).

Sums are kept for each piece of the list, in float64, and added in order: the same bits on any number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import carray, extending, types  # type: ignore[attr-defined]

from quartic.arrays.checks import Array
from quartic.arrays.space import HOST
from quartic.arrays.threads import spread
from quartic.compiled.flags import FLAGS, INNER, njit
from quartic.compiled.rows import projected_norm

intrinsic: Any = extending.intrinsic
Pairs = tuple[Array, ...]

# So many places are worked on at once: what they gather from fifteen arrays stays in the second cache.
BLOCK = 512
# A list is cut into at most so many pieces, each of whole blocks.
_PIECES = 16
# No step is longer; infinity would be no number times zero.
_LONGEST = 1e300


# -- on the face of X -------------------------------------------------------------------------------------------------


def kept(where: Pairs, steps: Pairs, changes: Pairs, X: Array, G: Array) -> tuple[Pairs, Pairs, Pairs]:
    """Return list and pairs on the face of X, where G is the gradient.

    ``where`` holds one array, or none at the beginning.
    """
    old: Any = where[0] if where else np.empty(0, np.int32 if X.size < 2**31 else np.int64)
    places, there = np.empty_like(old), np.zeros(X.size, np.bool_)
    x, g = X.ravel(), G.ravel()
    on_face = _counted(len(old), lambda *piece: _mark(old, x, g, places, there, *piece))
    came = _counted(X.size, lambda *piece: _mark_new(x, g, there, *piece))
    if came:
        places = np.concatenate([places, np.flatnonzero(there).astype(old.dtype)])
    elif on_face == np.count_nonzero(old >= 0):
        return (old,), steps, changes
    alive = on_face + came
    gone = len(places) - alive
    if 4 * gone <= len(places):
        return (places,), steps, changes
    return _compacted(places, steps, changes, alive, X.size)


def direction(where: Pairs, steps: Pairs, changes: Pairs, X: Array, G: Array, D: Array) -> tuple[float, float]:
    """Fill D = max(X − q, 0) − X with q = HG on the face; return ⟨G, D⟩ and the largest t with X + tD ≥ 0."""
    places, at = where[0], addresses(steps, changes, X)
    a, c = np.zeros(len(steps)), np.zeros(len(steps))
    scale = combination(inner_products(places, at, X, G), a, c)
    if not scale:  # no pair is of use: as long a step as X is
        scale = HOST.norm(X) / (HOST.root(projected_norm(X, G), lambda: np.where((X > 0) | (G < 0), G, 0)) or 1.0)
    D.fill(0)
    sums = _pieces(len(places), 2)
    sums[:, 1] = _LONGEST
    data = places, X.ravel(), G.ravel(), at, scale, a, c, D.ravel(), sums
    _spread(len(places), 2 * len(steps) + 4, lambda *piece: _direction(*data, *piece))
    longest = float(sums[:, 1].min(initial=_LONGEST))
    return float(sums[:, 0].sum()), longest if longest < _LONGEST else math.inf


def pair(where: Pairs, X: Array, G: Array, after: Array, D: Array, t: float) -> tuple[Array, Array, float, float]:
    """Return the pair s = D and y = (∇⁺ − G)/t on the face, with ⟨s, y⟩ and ‖s‖·‖y‖; D is zero elsewhere."""
    places = where[0]
    s, y, sums = np.empty(len(places), D.dtype), np.empty(len(places), D.dtype), _pieces(len(places), 3)
    data = places, X.ravel(), G.ravel(), after.ravel(), D.ravel(), 1.0 / t, s, y, sums
    _spread(len(places), 4, lambda *piece: _pair(*data, *piece))
    bend, ss, yy = sums.sum(axis=0).tolist()
    return s, y, bend, HOST.root(ss, lambda: s) * HOST.root(yy, lambda: y)


def inner_products(where: Array, at: Array, X: Array, G: Array) -> Array:
    """Return A with A[0, i, j] = ⟨s_i, y_j⟩ and A[1, i, j] = ⟨y_i, y_j⟩ for i ≤ j, over the face.

    The last y, beyond those of the pairs, is G. ``at`` says where the pairs are (`addresses`).
    """
    k = len(at)
    parts = _pieces(len(where), 2, k, k + 1)
    if k:
        data = where, X.ravel(), G.ravel(), at, parts
        _spread(len(where), k * (k + 3), lambda *piece: _inner_products(*data, *piece))
    total: Array = parts.sum(axis=0)
    return total


def addresses(steps: Pairs, changes: Pairs, X: Array) -> Array:
    """Return a row for each pair: where s and y begin in memory, and how long they are.

    Compiled code takes any number of pairs that way, without being compiled for each.
    """
    rows: Array = np.empty((len(steps), 3), np.int64)
    for row, s, y in zip(rows, steps, changes, strict=True):
        assert s.dtype == y.dtype == X.dtype
        assert len(s) == len(y)
        row[:] = s.ctypes.data, y.ctypes.data, len(s)
    return rows


def _compacted(places: Array, steps: Pairs, changes: Pairs, alive: int, size: int) -> tuple[Pairs, Pairs, Pairs]:
    """Return list and pairs in the order of X, which has so many entries, without the places that have left."""
    order = np.empty(alive, places.dtype)
    _in_order(places, np.full(size, -1, places.dtype), order)

    def chosen(A: Array) -> Array:
        short: Array = np.empty(len(order), A.dtype)
        _choose(A, order, short)
        return short

    return (places[order],), tuple(chosen(s) for s in steps), tuple(chosen(y) for y in changes)


# -- pieces ---------------------------------------------------------------------------------------------------------


def _size_of_piece(length: int) -> int:
    return BLOCK * max(1, -(-length // (_PIECES * BLOCK)))


def _pieces(length: int, *shape: int) -> Array:
    return np.zeros((-(-length // _size_of_piece(length)), *shape))


def _spread(length: int, multiplications: float, work: Any) -> None:
    size = _size_of_piece(length)
    spread(lambda first, last: work(size, first, last), -(-length // size), multiplications * length)


def _counted(length: int, work: Any) -> int:
    """Return the sum of what the pieces count."""
    counts = _pieces(length, 1)
    _spread(length, 4, lambda *piece: work(counts, *piece))
    return int(counts.sum())


# -- compiled -------------------------------------------------------------------------------------------------------


@intrinsic
def pointer_to(context: Any, address: Any, like: Any) -> Any:
    """Return the address as a pointer to entries of the type of ``like``; ``numba.carray`` makes an array of it."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

    pointer: Any = types.CPointer
    return pointer(like.dtype)(types.int64, like), generate


@njit(**FLAGS)
def combination(A: Any, a: Any, c: Any) -> float:
    """Fill a and c such that HG = γG + Σ a_i y_i + Σ c_i s_i, from the inner products; return γ.

    γ = 0 where no pair is of use.

    H is that of the two-loop recursion from H₀ = γ = sᵀy/yᵀy of the newest pair. Run on coefficients instead of arrays
    the recursion asks for ⟨s_i, y_j⟩ with i ≤ j, and ⟨y_i, H₀q⟩ = γ⟨y_i, q⟩, only. Pairs without positive curvature are
    left out.
    """
    SY, YY, k, scale = A[0], A[1], len(a), 0.0
    used = np.zeros(k, np.bool_)
    for i in range(k - 1, -1, -1):  # newest first: q = G − Σ a_j y_j
        a[i] = c[i] = 0.0
        if SY[i, i] > 1e-10 * YY[i, i] * scale and SY[i, i] > 0 and YY[i, i] > 0:
            used[i] = True
            scale = scale if scale > 0 else SY[i, i] / YY[i, i]
            rest = SY[i, k]
            for j in range(i + 1, k):
                rest -= SY[i, j] * a[j]
            a[i] = rest / SY[i, i]
    for i in range(k):  # oldest first: γq + Σ c_j s_j
        if used[i]:
            onto = YY[i, k]
            for j in range(k):
                onto -= YY[min(i, j), max(i, j)] * a[j]
            onto *= scale
            for j in range(i):
                onto += SY[j, i] * c[j]
            c[i] = a[i] - onto / SY[i, i]
    for i in range(k):
        a[i] *= -scale
    return scale


@njit(**FLAGS)
def _in_order(places: Any, found: Any, order: Any) -> None:
    """Fill ``order`` with where in the list the places that are left stand, by place; ``found`` is −1 everywhere."""
    for k in range(places.size):
        if places[k] >= 0:
            found[places[k]] = k
    at = 0
    for place in range(found.size):
        if found[place] >= 0:
            order[at] = found[place]
            at += 1


@njit(**FLAGS)
def _choose(A: Any, order: Any, out: Any) -> None:
    for k in range(order.size):
        out[k] = A[order[k]] if order[k] < A.size else 0


@njit(**FLAGS)
def _mark(old: Any, x: Any, g: Any, places: Any, there: Any, counts: Any, size: int, first: int, last: int) -> None:
    for piece in range(first, last):
        found = 0
        for k in range(piece * size, min((piece + 1) * size, old.size)):
            at = old[k]
            if at >= 0 and (x[at] > 0 or g[at] < 0):
                places[k] = at
                there[at] = True
                found += 1
            else:
                places[k] = -1
        counts[piece, 0] = found


@njit(**FLAGS)
def _mark_new(x: Any, g: Any, there: Any, counts: Any, size: int, first: int, last: int) -> None:
    """Of the places of the face leave those marked that were not so before."""
    for piece in range(first, last):
        total = 0
        for i in range(piece * size, min((piece + 1) * size, x.size), BLOCK):
            n = min(BLOCK, x.size - i)
            xs, gs, marks = x[i : i + n], g[i : i + n], there[i : i + n]
            found = 0
            for k in range(n):
                found += ((xs[k] > 0) | (gs[k] < 0)) & (not marks[k])
            if found:
                for k in range(n):
                    marks[k] = ((xs[k] > 0) | (gs[k] < 0)) & (not marks[k])
            else:
                for k in range(n):
                    marks[k] = False
            total += found
        counts[piece, 0] = total


@njit(**INNER)
def _four_dots(a: Any, b: Any, c: Any, d: Any, n: int) -> Any:
    ac, ad, bc, bd = 0.0, 0.0, 0.0, 0.0
    for k in range(n):
        ac += a[k] * c[k]
        ad += a[k] * d[k]
        bc += b[k] * c[k]
        bd += b[k] * d[k]
    return ac, ad, bc, bd


@njit(**INNER)
def _gather(values: Any, known: int, n: int, live: Any, gone: int, row: Any) -> None:
    """Fill the row with what is known of n places, zeros where they have left."""
    for e in range(known):
        row[e] = values[e]
    for e in range(known, n):
        row[e] = 0.0
    if gone:
        for e in range(n):
            row[e] *= live[e]


@njit(**FLAGS)
def _inner_products(where: Any, x: Any, g: Any, pairs: Any, parts: Any, size: int, first: int, last: int) -> None:
    k = len(pairs)
    # one row beyond G, of zeros: columns are taken two at a time
    S, Y, live = np.zeros((k, BLOCK)), np.zeros((k + 2, BLOCK)), np.empty(BLOCK)
    for piece in range(first, last):
        A = parts[piece]
        for i in range(piece * size, min((piece + 1) * size, where.size), BLOCK):
            n = min(BLOCK, where.size - i)
            gone = np.int64(0)
            for e in range(n):
                at = where[i + e]
                live[e] = at >= 0
                gone += at < 0
                Y[k, e] = np.float64(g[at]) if at >= 0 else 0.0
            for j in range(k):
                known = max(min(pairs[j, 2] - i, n), 0)
                _gather(carray(pointer_to(pairs[j, 0], x), (pairs[j, 2],))[i:], known, n, live, gone, S[j])
                _gather(carray(pointer_to(pairs[j, 1], x), (pairs[j, 2],))[i:], known, n, live, gone, Y[j])
            for h in range(k):
                for j in range(h, k + 1, 2):
                    sy, sz, yy, yz = _four_dots(S[h], Y[h], Y[j], Y[j + 1], n)
                    A[0, h, j] += sy
                    A[1, h, j] += yy
                    if j < k:
                        A[0, h, j + 1] += sz
                        A[1, h, j + 1] += yz


@njit(**FLAGS)
def _direction(
    where: Any, x: Any, g: Any, pairs: Any, factor: float, a: Any, c: Any, d: Any, sums: Any,
    size: int, first: int, last: int,
) -> None:  # fmt: skip
    q, zero = np.empty(BLOCK), x.dtype.type(0)
    for piece in range(first, last):
        slope, longest = 0.0, _LONGEST
        for i in range(piece * size, min((piece + 1) * size, where.size), BLOCK):
            n = min(BLOCK, where.size - i)
            for e in range(n):
                q[e] = 0.0
            for j in range(len(pairs)):
                known = max(min(pairs[j, 2] - i, n), 0)
                s = carray(pointer_to(pairs[j, 0], x), (pairs[j, 2],))[i : i + known]
                y = carray(pointer_to(pairs[j, 1], x), (pairs[j, 2],))[i : i + known]
                for e in range(known):
                    q[e] += a[j] * y[e] + c[j] * s[e]
            for e in range(n):
                at = where[i + e]
                if at >= 0:
                    here, slant = x[at], np.float64(g[at])
                    v = max(x.dtype.type(here - (factor * slant + q[e])), zero) - here
                    d[at] = v
                    slope += slant * np.float64(v)
                    if here + longest * v < 0:
                        longest = -np.float64(here) / np.float64(v)
        sums[piece, 0], sums[piece, 1] = slope, longest


@njit(**FLAGS)
def _pair(
    where: Any, x: Any, g: Any, after: Any, d: Any, inverse: float, s: Any, y: Any, sums: Any,
    size: int, first: int, last: int,
) -> None:  # fmt: skip
    for piece in range(first, last):
        begin, end = piece * size, min((piece + 1) * size, where.size)
        for k in range(begin, end):
            at = where[k]
            s[k] = d[at] if at >= 0 else 0
            y[k] = (np.float64(after[at]) - np.float64(g[at])) * inverse if at >= 0 else 0
        # a loop that also wrote would be compiled for arrays near each other too, and would then add in another order
        sy, ss, yy = 0.0, 0.0, 0.0
        for k in range(begin, end):
            sy += np.float64(s[k]) * np.float64(y[k])
            ss += np.float64(s[k]) * np.float64(s[k])
            yy += np.float64(y[k]) * np.float64(y[k])
        sums[piece, 0], sums[piece, 1], sums[piece, 2] = sy, ss, yy


# -- whole arrays, restricted to the free entries ---------------------------------------------------------------------


def two_loop(
    G: Any, steps: tuple[Any, ...], changes: tuple[Any, ...], free: Any, first_metric: Callable[[Any, Any], Any]
) -> Any:
    """Return H G over the free entries, with H from the pairs (s, y) and H₀ q = ``first_metric(q, sᵀy/yᵀy)``.

    Pairs without positive curvature there are left out; None for that number where none is left.
    """
    if free is None:
        free = np.ones(G.shape, dtype=np.bool_)
    q = np.where(free, G, 0)
    used: list[tuple[int, float, float]] = []
    coefficient, last, scale = 0.0, q, 0.0
    for i in reversed(range(len(steps))):
        sq, sy, yy = subtract_and_dot(q, coefficient, last, steps[i], changes[i], free)
        coefficient, last = 0.0, q
        if sy > 1e-10 * yy * scale and sy > 0 and yy > 0:
            scale = scale or sy / yy
            coefficient, last = sq / sy, changes[i]
            used.append((i, coefficient, sy))
    if coefficient:
        subtract_and_dot(q, coefficient, last, last, last, free)
    q = first_metric(q, scale or None)
    coefficient, last = 0.0, q
    for i, a, sy in reversed(used):
        yq = add_and_dot(q, coefficient, last, changes[i], free)
        coefficient, last = a - yq / sy, steps[i]
    if coefficient:
        add_and_dot(q, coefficient, last, last, free)
    return q


def free_entries(X: Any, G: Any) -> Any:
    """Return where entries may move: those off the bound, and those the gradient pushes off it."""
    free = np.empty(X.shape, dtype=np.bool_)
    mark_free(X, G, free)
    return free


@njit(**FLAGS)
def mark_free(X: Any, G: Any, free: Any) -> None:
    """Mark the entries that may move."""
    x, g, f = X.ravel(), G.ravel(), free.ravel()
    for k in range(x.size):
        f[k] = x[k] > 0 or g[k] < 0


@njit(**FLAGS)
def subtract_and_dot(q: Any, c: float, y: Any, s: Any, z: Any, free: Any) -> Any:
    """Q −= c·y on the free entries; returns ⟨s, q⟩, ⟨s, z⟩ and ⟨z, z⟩ over them."""
    q_, y_, s_, z_, f_ = q.ravel(), y.ravel(), s.ravel(), z.ravel(), free.ravel()
    c = q_.dtype.type(c)
    sq, sz, zz = 0.0, 0.0, 0.0
    for k in range(q_.size):
        if f_[k]:
            v = q_[k] - c * y_[k]
            q_[k] = v
            sq += np.float64(s_[k]) * np.float64(v)
            sz += np.float64(s_[k]) * np.float64(z_[k])
            zz += np.float64(z_[k]) * np.float64(z_[k])
    return sq, sz, zz


@njit(**FLAGS)
def add_and_dot(q: Any, c: float, s: Any, y: Any, free: Any) -> float:
    """Q += c·s on the free entries; returns ⟨y, q⟩ over them."""
    q_, s_, y_, f_ = q.ravel(), s.ravel(), y.ravel(), free.ravel()
    c = q_.dtype.type(c)
    yq = 0.0
    for k in range(q_.size):
        if f_[k]:
            v = q_[k] + c * s_[k]
            q_[k] = v
            yq += np.float64(y_[k]) * np.float64(v)
    return yq


@njit(**FLAGS)
def clipped_direction(X: Any, q: Any, G: Any, D: Any) -> float:
    """D = max(X − q, 0) − X; returns ⟨G, D⟩."""
    x, q_, g, d = X.ravel(), q.ravel(), G.ravel(), D.ravel()
    zero = x.dtype.type(0)
    slope = 0.0
    for k in range(x.size):
        v = max(x[k] - q_[k], zero) - x[k]
        d[k] = v
        slope += np.float64(g[k]) * np.float64(v)
    return slope


@njit(**FLAGS)
def longest_step(X: Any, D: Any) -> float:
    """The largest t with X + tD ≥ 0."""
    x, d = X.ravel(), D.ravel()
    t = math.inf
    for k in range(x.size):
        if d[k] < 0:
            t = min(t, -np.float64(x[k]) / np.float64(d[k]))
    return t
