"""Levenberg–Marquardt, and its conjugate gradients, over few pairs: on one thread, with next to no Python in between.

It does what `quartic.solvers.LevenbergMarquardt` does, by the same rules (`loss.py`) and the same passes
(`numba.py`). With a few thousand pairs a pass takes some microseconds, and all that a solver does between two of them
would take longer. So the points stay in the records of the passes, and all steps are one compiled call.

Where there are many pairs the solver makes the passes, and what is here besides, with r × r row blocks: the
preconditioner of conjugate gradients, and what their steps do to X.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from quartic.arrays import HOST, Array
from quartic.compiled.flags import FLAGS, INNER, njit
from quartic.compiled.quartics import minimize_quartic
from quartic.compiled.vectors import dot, load, nothing, store, where_squared
from quartic.losses.pairs.loss import FLAT, LITTLE, next_damping, residual
from quartic.losses.pairs.numba import data_of, layout, pair_rows, places_of_blocks
from quartic.losses.pairs.pairs import LINEARIZE, PRODUCT, QUARTIC, Pairs

# The coefficients of a line are known to so much.
_LINE_ROUND_OFF = 64 * float(np.finfo(np.float64).eps)
_next_damping, _residual = njit(**INNER)(next_damping), njit(**INNER)(residual)


class Descent:
    """Damped steps (JᵀJ + shift·I) D = −G over few pairs, X in records of the passes, rows filled up with zeros.

    ``value`` and ``slope`` are f(X) and ‖G‖, ``mean`` is the mean diagonal entry of JᵀJ there. ``earlier`` is the slope
    one step before, ``slow`` how many times in a row conjugate gradients ran into their limit. ``count`` is told of
    passes.
    """

    value = slope = mean = math.nan
    slow = 0

    def __init__(
        self, X: Array, pairs: Pairs, forcing: float, max_cg: int, damping: float, count: Callable[[int], None]
    ) -> None:
        (n, rank), (lanes, _, width, sums) = X.shape, layout(LINEARIZE, X.shape[1])
        self._rank, self._at, self._limits, self._count = rank, sums, (float(forcing), max_cg), count
        self.damping, self.earlier = damping, math.inf
        self._W, V = np.zeros((n, sums + width)), np.zeros((n, 3 * width))
        self._W[:, sums : sums + rank] = V[:, width : width + rank] = X
        self._R, D, room = np.zeros((3, n, width))
        self._L, where = np.empty((n, width * width)), where_squared(width)
        modes, kind = ((0,) * LINEARIZE, (0,) * PRODUCT, (0,) * QUARTIC), (0,) * pairs.kind
        self._here = modes, kind, lanes, rank, sums, where, self._W, V, D, self._R, room, self._L, data_of(pairs)

    def look(self) -> None:
        """Make a pass at X."""
        self.value, self.slope, self.mean = look(self._here, 0.0)
        self._count(1)

    def take(self, value: float, G: Array, B: Array, mean: float) -> None:
        """Take what a pass at X has given before, in place of making it."""
        self.value, self.slope, self.mean = value, HOST.norm(G), mean
        places, there = unpacking(self._rank, self._R.shape[1])
        np.negative(G, out=self._R[:, : self._rank])
        np.multiply(np.take(B, places, axis=1), there, out=self._L)

    def go(
        self, most: int, goal: float, axes: int = 0, slow: float = math.inf
    ) -> tuple[list[tuple[float, float, float, int]], bool, bool]:
        """Make up to so many steps; return value, slope, t and passes of each, if little is left, if one failed.

        Little, where the last one lowered the loss by next to nothing, though by much of what was predicted. Where one
        more failed X is where that began, and gradient and blocks are not. Steps also end where the slope is at the
        ``goal``, where X hardly extends beyond so many ``axes``, and where conjugate gradients have been ``slow`` so
        often.
        """
        made, rules = np.empty((most, 4)), (*self._limits, axes, slow)
        now = self.value, self.slope, self.mean, self.damping, self.earlier, self.slow
        n_made, little, failed, passes, now = take_steps(self._here, rules, now, float(goal), made)
        self.value, self.slope, self.mean, self.damping, self.earlier, self.slow = now
        self._count(passes)
        return [(f, slope, t, int(each)) for f, slope, t, each in made[:n_made].tolist()], little, failed

    @property
    def X(self) -> Array:
        """The points."""
        return np.ascontiguousarray(self._W[:, self._at : self._at + self._rank])

    @property
    def gradient(self) -> Array:
        """∇f, where a pass was made."""
        return np.ascontiguousarray(self._W[:, : self._rank])

    @property
    def blocks(self) -> Array:
        """The packed row blocks of JᵀJ there."""
        found: Array = np.take(self._W, places_of_blocks(self._R.shape[1], self._rank), axis=1)
        return found


@cache
def unpacking(rank: int, width: int) -> tuple[Any, Any]:
    """Return where in packed r × r blocks the entries of whole ones, with longer rows, are, and which there are."""
    k, l = np.indices((width, width)).reshape(2, -1)
    high, low = np.maximum(k, l), np.minimum(k, l)
    return np.where(high < rank, high * (high + 1) // 2 + low, 0), (high < rank).astype(np.float64)


@njit(**FLAGS)
def take_steps(here: Any, rules: Any, now: Any, goal: float, made: Any) -> Any:
    """Do the work of `Descent.go`; return how many steps were made, how they ended, the passes, and what is now."""
    forcing, max_cg, axes, most_slow = rules
    value, slope, mean, damping, earlier, slow = now
    modes, kind, lanes, rank, at, _, W, V, D, _, Z, L, data = here
    n, width, none = np.int64(len(D)), np.int64(len(lanes)), np.int64(0)
    count, passes, little, failed = 0, 0, False, False
    while count < len(made) and slope > goal and slow < most_slow and not little:
        if axes > 0 and is_flat(W, at, rank, axes):
            break
        shift = damping * mean
        invert(lanes, rank, L, shift)
        tolerance = _residual(forcing, slope, earlier)
        steps, reached, length = solve_rows(here, shift, tolerance, max_cg)
        c = pair_rows(modes[2], kind, lanes, None, none, V, width, False, none, n, *data)
        t = minimize_quartic(c, _LINE_ROUND_OFF, np.inf, True)
        passes += steps + 2
        for i in range(n):  # for the case that the step fails
            store(Z, i, none, load(lanes, W, i, at))
        following, following_slope, following_mean = look(here, t)
        failed = not (t > 0 and following <= value)
        if failed:
            for i in range(n):
                store(W, i, at, load(lanes, Z, i, none))
                store(V, i, width, load(lanes, Z, i, none))
            break
        predicted = 0.5 * (shift * length - c[0])
        gain = -(c[0] + c[1] + c[2] + c[3]) / predicted if predicted > 0 else 0.0
        damping, earlier, slow = _next_damping(damping, gain), slope, 0 if reached else slow + 1
        made[count, 0], made[count, 1], made[count, 2], made[count, 3] = following, following_slope, t, steps + 2
        count += 1
        little = gain > 0.25 and following > (1 - LITTLE) * value
        value, slope, mean = following, following_slope, following_mean
    return count, little, failed, passes, (value, slope, mean, damping, earlier, slow)


@njit(**FLAGS)
def look(here: Any, t: float) -> Any:
    """Go to X + tD and make a pass there; set R = −G and L to the row blocks; return f, ‖G‖ and the mean diagonal."""
    modes, kind, lanes, rank, at, where, W, V, D, R, _, L, data = here
    n, width, none, trace, square = np.int64(len(R)), np.int64(len(lanes)), np.int64(0), 0.0, 0.0
    for i in range(n):
        for k in range(none, at, width):
            store(W, i, k, nothing(lanes))
        x = load(lanes, W, i, at) + t * load(lanes, D, i, none)
        store(W, i, at, x)
        store(V, i, width, x)
    total = pair_rows(modes[0], kind, lanes, None, None, W, at, False, none, n, *data)[0]
    for i in range(n):
        g = load(lanes, W, i, none)
        store(R, i, none, -1.0 * g)
        square += dot(g, g)
        for k in range(width):
            trace += W[i, width + k]
            for l in range(width):
                L[i, k * width + l] = W[i, width + where[k, l]]
    return 0.5 * total, np.sqrt(square), trace / (rank * n)


@njit(**FLAGS)
def is_flat(W: Any, at: int, rank: int, axes: int) -> Any:
    """Tell whether X, from that column on, has so little variance beyond ``axes`` axes that they will do."""
    mean, S = np.zeros(rank), np.zeros((rank, rank))
    for i in range(len(W)):
        for k in range(rank):
            mean[k] += W[i, at + k] / len(W)
    for i in range(len(W)):
        for k in range(rank):
            for l in range(rank):
                S[k, l] += (W[i, at + k] - mean[k]) * (W[i, at + l] - mean[l])
    variances = np.linalg.eigvalsh(S)
    return variances[-axes - 1] <= FLAT * variances[-axes]


@njit(**FLAGS)
def solve_rows(here: Any, shift: float, tolerance: float, most: int) -> Any:
    """Solve (JᵀJ + shift·I) D = R by conjugate gradients; return the steps, if they are enough, and ‖D‖².

    L has the inverses of the row blocks, the preconditioner. D ends as the direction in the records, too.
    """
    modes, kind, lanes, _, _, _, _, V, D, R, Z, L, data = here
    n, width, none = np.int64(len(D)), np.int64(len(lanes)), np.int64(0)
    places, first, rz, b, steps = 2 * width, np.inf, 0.0, 0.0, 0
    while True:
        total = 0.0
        for i in range(n):
            z, r = nothing(lanes), load(lanes, R, i, none)
            if steps == 0:
                store(D, i, none, z)
            for l in range(len(lanes)):
                z = z + R[i, l] * load(lanes, L, i, l * width)
            store(Z, i, none, z)
            total += dot(r, z)
        if steps == 0:
            first = total
        elif not total > tolerance**2 * first or steps == most:
            break
        else:
            b = total / rz
        rz = total
        for i in range(n):
            store(V, i, none, nothing(lanes))
            store(V, i, places, load(lanes, Z, i, none) + b * load(lanes, V, i, places))
        pair_rows(modes[1], kind, lanes, None, none, V, width, False, none, n, *data)
        steps += 1
        curvature = 0.0
        for i in range(n):
            p = load(lanes, V, i, places)
            h = load(lanes, V, i, none) + shift * p
            store(V, i, none, h)
            curvature += dot(p, h)
        if not curvature > 0:
            for i in range(n if steps == 1 else 0):
                store(D, i, none, load(lanes, Z, i, none))
            break
        a = rz / curvature
        for i in range(n):
            store(D, i, none, load(lanes, D, i, none) + a * load(lanes, V, i, places))
            store(R, i, none, load(lanes, R, i, none) - a * load(lanes, V, i, none))
    length = 0.0
    for i in range(n):
        d = load(lanes, D, i, none)
        store(V, i, places, d)
        length += dot(d, d)
    return steps, steps < most or not total > tolerance**2 * first, length


# -- row blocks --------------------------------------------------------------------------------------------------------
#
# They come packed, the rows of their lower triangles, and are kept inverted: (B_i + shift·I)⁻¹, whole, one in a row of
# an array (n, r²). To solve with one then takes no division and no step that waits for another.


def factor_blocks(B: Array, shift: float, rank: int) -> Array:
    """Return the inverses of the blocks B_i + shift·I; a direction without curvature gets 0."""
    L: Array = np.take(B, unpacking(rank, rank)[0], axis=1)
    invert((), rank, L, shift)
    return L


@njit(**FLAGS)
def invert(row: Any, rank: int, L: Any, shift: float) -> None:
    """Invert the blocks plus shift·I in place: Gauss–Jordan, without pivoting since they are positive semidefinite.

    ``row`` is a tuple as long as a row of a block, those beyond the rank being zeros, or empty: then that is the rank.
    """
    width = len(row) if len(row) > 0 else rank
    size = width if len(row) <= 4 else rank
    diagonal = np.empty(width)
    for i in range(L.shape[0]):
        for p in range(size):
            diagonal[p] = L[i, p * width + p]
        for p in range(size):
            # below the round-off of its own entries a pivot means nothing
            pivot = max(L[i, p * width + p], 1e-14 * diagonal[p]) + shift
            inverse = 1.0 / pivot if pivot > 0 else 0.0
            L[i, p * width + p] = 1.0
            for l in range(size):
                L[i, p * width + l] *= inverse
            for k in range(size):
                if k != p:
                    factor = L[i, k * width + p]
                    L[i, k * width + p] = 0.0
                    for l in range(size):
                        L[i, k * width + l] -= factor * L[i, p * width + l]


@njit(**FLAGS)
def solve_blocks(L: Any, R: Any, Z: Any) -> Any:
    """Fill Z with the solutions of (B_i + shift·I) z_i = r_i, and return ⟨R, Z⟩."""
    total, rank = 0.0, R.shape[1]
    for i in range(R.shape[0]):
        for k in range(rank):
            z = 0.0
            for l in range(rank):
                z += L[i, k * rank + l] * R[i, l]
            Z[i, k] = z
            total += z * R[i, k]
    return total


@njit(**FLAGS)
def advance(rz: float, shift: float, P: Any, H: Any, L: Any, D: Any, R: Any, Z: Any) -> Any:
    """Make a step of conjugate gradients with A + shift·I, where H = AP; return ⟨P, (A + shift·I)P⟩ and the new ⟨R, Z⟩.

    With a = ⟨R, Z⟩ / curvature: D += aP, R −= a(H + shift·P), Z = the preconditioned R, P = Z + bP. Where the curvature
    is not positive nothing is changed but H.
    """
    n, rank = P.shape
    curvature = 0.0
    for i in range(n):
        for k in range(rank):
            H[i, k] += shift * P[i, k]
            curvature += P[i, k] * H[i, k]
    if not curvature > 0:
        return curvature, rz
    a = rz / curvature
    for i in range(n):
        for k in range(rank):
            D[i, k] += a * P[i, k]
            R[i, k] -= a * H[i, k]
    total = solve_blocks(L, R, Z)
    b = total / rz
    for i in range(n):
        for k in range(rank):
            P[i, k] = Z[i, k] + b * P[i, k]
    return curvature, total
