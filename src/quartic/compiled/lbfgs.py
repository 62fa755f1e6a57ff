"""Passes over what L-BFGS remembers: steps s and changes y of the gradient, whole arrays that are zero off the face.

The face of X is its free entries: those off the bound, and those the gradient pushes off it. What was known of an entry
that leaves it is forgotten. A direction on the face takes two passes over the pairs: one for all inner products between
them and the gradient, one for the combination (the compact form of the two-loop recursion; its coefficients follow from
the inner products alone).

Sums are kept for each piece of the entries, in float64, and added in order: the same bits on any number of threads.
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

# So many entries are worked on at once: what they take from fifteen arrays stays in the second cache.
BLOCK = 512
# The entries are cut into at most so many pieces, each of whole blocks.
_PIECES = 16
# No step is longer; infinity would be no number times zero.
_LONGEST = 1e300


# -- on the face of X -------------------------------------------------------------------------------------------------


def direction(steps: Pairs, changes: Pairs, X: Array, G: Array, D: Array) -> tuple[float, float]:
    """Fill D = max(X − q, 0) − X with q = HG on the face; return ⟨G, D⟩ and the largest t with X + tD ≥ 0.

    Pairs are set to zero off the face.
    """
    at, a, c = addresses(steps, changes, X), np.zeros(len(steps)), np.zeros(len(steps))
    parts = _pieces(X, 2, len(at), len(at) + 1)
    if len(at):
        data = X.ravel(), G.ravel(), at, parts
        _spread(X, len(at) * (len(at) + 3), lambda *piece: _inner_products(*data, *piece))
    scale = combination(parts.sum(axis=0), a, c)
    if not scale:  # no pair is of use: as long a step as X is
        scale = HOST.norm(X) / (HOST.root(projected_norm(X, G), lambda: np.where((X > 0) | (G < 0), G, 0)) or 1.0)
    sums = _pieces(X, 2)
    _spread(
        X, 2 * len(at) + 4, lambda *piece: _direction(X.ravel(), G.ravel(), at, scale, a, c, D.ravel(), sums, *piece)
    )
    longest = float(sums[:, 1].min(initial=_LONGEST))
    return float(sums[:, 0].sum()), longest if longest < _LONGEST else math.inf


def pair(X: Array, G: Array, after: Array, D: Array, t: float) -> tuple[Array, Array, float, float]:
    """Return the pair s = D and y = (∇⁺ − G)/t on the face, with ⟨s, y⟩ and ‖s‖·‖y‖; D is zero elsewhere."""
    y, sums = np.empty_like(D), _pieces(D, 3)
    data = X.ravel(), G.ravel(), after.ravel(), D.ravel(), 1.0 / t, y.ravel(), sums
    _spread(D, 4, lambda *piece: _pair(*data, *piece))
    bend, ss, yy = sums.sum(axis=0).tolist()
    return D, y, bend, HOST.root(ss, lambda: D) * HOST.root(yy, lambda: y)


def addresses(steps: Pairs, changes: Pairs, X: Array) -> Array:
    """Return a row for each pair, where s and y begin in memory: compiled code then takes any number of pairs."""
    rows: Array = np.empty((len(steps), 2), np.int64)
    for row, s, y in zip(rows, steps, changes, strict=True):
        for A in (s, y):
            assert A.dtype == X.dtype
            assert A.shape == X.shape
            assert A.flags.c_contiguous
        row[:] = s.ctypes.data, y.ctypes.data
    return rows


def _size_of_piece(size: int) -> int:
    return BLOCK * max(1, -(-size // (_PIECES * BLOCK)))


def _pieces(X: Array, *shape: int) -> Array:
    return np.zeros((-(-X.size // _size_of_piece(X.size)), *shape))


def _spread(X: Array, multiplications: float, work: Any) -> None:
    size = _size_of_piece(X.size)
    spread(lambda first, last: work(size, first, last), -(-X.size // size), multiplications * X.size)


@intrinsic
def pointer_to(context: Any, address: Any, like: Any) -> Any:
    """Return the address as a pointer to entries of the type of ``like``; ``numba.carray`` makes an array of it."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

    pointer: Any = types.CPointer
    return pointer(like.dtype)(types.int64, like), generate


@njit(**FLAGS)
def combination(A: Any, a: Any, c: Any) -> float:
    """Fill a and c such that HG = γG + Σ a_i y_i + Σ c_i s_i, and return γ, which is 0 where no pair is of use.

    A[0, i, j] = ⟨s_i, y_j⟩ and A[1, i, j] = ⟨y_i, y_j⟩ for i ≤ j; the last y, beyond those of the pairs, is G. H is
    that of the two-loop recursion from H₀ = γ = sᵀy/yᵀy of the newest pair. Run on coefficients instead of arrays the
    recursion asks for ⟨s_i, y_j⟩ with i ≤ j, and ⟨y_i, H₀q⟩ = γ⟨y_i, q⟩, only. Pairs without positive curvature are
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
def _take(values: Any, live: Any, row: Any) -> None:
    """Fill the row with the values on the face, and set those off it to zero."""
    lost = np.int64(0)
    for e in range(values.size):
        row[e] = values[e] * live[e]
    for e in range(values.size):
        lost += row[e] != values[e]
    if lost:
        for e in range(values.size):
            values[e] = row[e]


@njit(**FLAGS)
def _inner_products(x: Any, g: Any, pairs: Any, parts: Any, size: int, first: int, last: int) -> None:
    k = len(pairs)
    # one row beyond G, of zeros: columns are taken two at a time
    S, Y, live = np.zeros((k, BLOCK)), np.zeros((k + 2, BLOCK)), np.empty(BLOCK)
    for piece in range(first, last):
        A = parts[piece]
        for i in range(piece * size, min((piece + 1) * size, x.size), BLOCK):
            n = min(BLOCK, x.size - i)
            for e in range(n):
                live[e] = (x[i + e] > 0) | (g[i + e] < 0)
                Y[k, e] = live[e] * np.float64(g[i + e])
            for j in range(k):
                _take(carray(pointer_to(pairs[j, 0], x), (x.size,))[i : i + n], live, S[j])
                _take(carray(pointer_to(pairs[j, 1], x), (x.size,))[i : i + n], live, Y[j])
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
    x: Any, g: Any, pairs: Any, factor: float, a: Any, c: Any, d: Any, sums: Any, size: int, first: int, last: int
) -> None:
    q, kind = np.empty(BLOCK), x.dtype.type
    for piece in range(first, last):
        slope, longest = 0.0, _LONGEST
        for i in range(piece * size, min((piece + 1) * size, x.size), BLOCK):
            n = min(BLOCK, x.size - i)
            for e in range(n):
                q[e] = factor * np.float64(g[i + e])
            for j in range(len(pairs)):
                s = carray(pointer_to(pairs[j, 0], x), (x.size,))[i : i + n]
                y = carray(pointer_to(pairs[j, 1], x), (x.size,))[i : i + n]
                for e in range(n):
                    q[e] += a[j] * y[e] + c[j] * s[e]
            for e in range(n):
                here = x[i + e]
                v = max(kind(here - q[e]), kind(0)) - here
                d[i + e] = v if (here > 0) | (g[i + e] < 0) else kind(0)
            for e in range(n):
                slope += np.float64(g[i + e]) * np.float64(d[i + e])
            for e in range(n):
                if x[i + e] + longest * d[i + e] < 0:
                    longest = -np.float64(x[i + e]) / np.float64(d[i + e])
        sums[piece, 0], sums[piece, 1] = slope, longest


@njit(**FLAGS)
def _pair(
    x: Any, g: Any, after: Any, d: Any, inverse: float, y: Any, sums: Any, size: int, first: int, last: int
) -> None:
    for piece in range(first, last):
        begin, end = piece * size, min((piece + 1) * size, x.size)
        for k in range(begin, end):
            on = np.float64((x[k] > 0) | (g[k] < 0))
            y[k] = on * (np.float64(after[k]) - np.float64(g[k])) * inverse
        # a loop that also wrote would be compiled for arrays near each other too, and would then add in another order
        sy, ss, yy = 0.0, 0.0, 0.0
        for k in range(begin, end):
            sy += np.float64(d[k]) * np.float64(y[k])
            ss += np.float64(d[k]) * np.float64(d[k])
            yy += np.float64(y[k]) * np.float64(y[k])
        sums[piece, 0], sums[piece, 1], sums[piece, 2] = sy, ss, yy


# -- with a metric that is more than a number -------------------------------------------------------------------------


def two_loop(G: Any, steps: Pairs, changes: Pairs, first_metric: Callable[[Any, Any], Any]) -> Any:
    """Return H G, with H from the pairs (s, y) and H₀ q = ``first_metric(q, sᵀy/yᵀy)``.

    Pairs without positive curvature are left out; None for that number where none is left.
    """
    q = G.copy()
    used: list[tuple[int, float, float]] = []
    coefficient, last, scale = 0.0, q, 0.0
    for i in reversed(range(len(steps))):
        sq, sy, yy = subtract_and_dot(q, coefficient, last, steps[i], changes[i])
        coefficient, last = 0.0, q
        if sy > 1e-10 * yy * scale and sy > 0 and yy > 0:
            scale = scale or sy / yy
            coefficient, last = sq / sy, changes[i]
            used.append((i, coefficient, sy))
    q -= q.dtype.type(coefficient) * last
    q = first_metric(q, scale or None)
    coefficient, last = 0.0, q
    for i, a, sy in reversed(used):
        yq = subtract_and_dot(q, -coefficient, last, changes[i], changes[i])[0]
        coefficient, last = a - yq / sy, steps[i]
    q += q.dtype.type(coefficient) * last
    return q


@njit(**FLAGS)
def subtract_and_dot(q: Any, c: float, y: Any, s: Any, z: Any) -> Any:
    """Q −= c·y; returns ⟨s, q⟩, ⟨s, z⟩ and ⟨z, z⟩."""
    q_, y_, s_, z_ = q.ravel(), y.ravel(), s.ravel(), z.ravel()
    c = q_.dtype.type(c)
    sq, sz, zz = 0.0, 0.0, 0.0
    for i in range(0, q_.size, BLOCK):
        # the compiler makes vectors of loops from 0 on
        here = slice(i, min(i + BLOCK, q_.size))
        q_here, y_here, s_here, z_here = q_[here], y_[here], s_[here], z_[here]
        if c != 0:
            for k in range(q_here.size):
                q_here[k] -= c * y_here[k]
        for k in range(q_here.size):
            sq += np.float64(s_here[k]) * np.float64(q_here[k])
            sz += np.float64(s_here[k]) * np.float64(z_here[k])
            zz += np.float64(z_here[k]) * np.float64(z_here[k])
    return sq, sz, zz
