"""Levenberg–Marquardt, and its conjugate gradients, over few pairs: on one thread, with next to no Python in between.

It does what `quartic.solvers.LevenbergMarquardt` does, by the same rules (`loss.py`) and the same passes
(`numba.py`). With a few thousand pairs a pass takes some microseconds, and all that a solver does between two of them
would take longer. So the points stay in the records of the passes, and all conjugate gradients are one compiled call.

Where there are many pairs the solver makes the passes, and what is here besides, with r × r row blocks: the
preconditioner of conjugate gradients, and what their steps do to X.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from quartic.arrays import HOST, Array
from quartic.compiled.flags import FLAGS, njit
from quartic.compiled.vectors import dot, load, nothing, store, where_squared
from quartic.losses.pairs.loss import IN_CORES, next_damping, residual
from quartic.losses.pairs.numba import data_of, layout, pair_rows, places_of_blocks
from quartic.losses.pairs.pairs import LINEARIZE, PRODUCT, QUARTIC, Pairs
from quartic.polynomials import real_roots_of_cubic


class Descent:
    """Damped steps (JᵀJ + shift·I) D = −G over few pairs, X in records of the passes, rows filled up with zeros.

    ``value`` and ``slope`` are f(X) and ‖G‖, ``mean`` is the mean diagonal entry of JᵀJ there. ``count`` is told of
    passes.
    """

    value = slope = mean = math.nan

    def __init__(self, X: Array, pairs: Pairs, forcing: float, max_cg: int, count: Callable[[int], None]) -> None:
        (n, rank), (self._lanes, _, width, sums) = X.shape, layout(LINEARIZE, X.shape[1])
        self._rank, self._at, self._forcing, self._max_cg, self._count = rank, sums, forcing, max_cg, count
        self._W, self._V = np.zeros((n, sums + width)), np.zeros((n, 3 * width))
        self._W[:, sums : sums + rank] = self._V[:, width : width + rank] = X
        self._R, self._D, self._room = np.zeros((3, n, width))
        self._L = np.empty((n, width * width))
        kind, data = (0,) * pairs.kind, data_of(pairs)
        self._linearize = (0,) * LINEARIZE, kind, self._lanes, None, None, self._W, sums, False, 0, n, *data
        self._product = (0,) * PRODUCT, kind, self._lanes, self._V, *data, self._L
        self._quartic = (0,) * QUARTIC, kind, self._lanes, None, 0, self._V, width, False, 0, n, *data

    def steps(self, damping: float) -> Iterator[tuple[Array, float, float, float]]:
        """Yield X, loss, slope and damping, here and after each step, as long as there is one."""
        earlier, t = math.inf, 0.0
        while True:
            self.look(t)
            yield self.X, self.value, self.slope, damping
            t, gain, _ = self.solve(damping, earlier, first_minimum, IN_CORES)
            if not t > 0:
                return
            damping, earlier = next_damping(damping, gain), self.slope

    def look(self, t: float = 0.0) -> None:
        """Go to X + tD, where D was solved for last, and make a pass there."""
        n, lanes, rank = len(self._W), self._lanes, self._rank
        move(lanes, self._W, self._at, self._V, t, self._D)
        self.value = 0.5 * pair_rows(*self._linearize)[0]
        self._count(1)
        self.mean = prepare(lanes, self._W, where_squared(len(lanes)), self._R, self._L) / (rank * n)
        self.slope = HOST.norm(self.gradient)

    def take(self, value: float, G: Array, B: Array, mean: float) -> None:
        """Take what a pass at X has given before, in place of making it."""
        self.value, self.slope, self.mean = value, HOST.norm(G), mean
        places, there = unpacking(self._rank, len(self._lanes))
        np.negative(G, out=self._R[:, : self._rank])
        np.multiply(np.take(B, places, axis=1), there, out=self._L)

    def solve(
        self, damping: float, earlier: float, best: Callable[[float, float, float, float], float], power: float = 1.0
    ) -> tuple[float, float, bool]:
        """Solve for D; return the ``best`` t of the quartic on X + tD, actual to predicted decrease, if it is solved.

        How far it is solved follows from the slope and the ``earlier`` one.
        """
        shift, tolerance = float(damping * self.mean), residual(self._forcing, self.slope, earlier, power)
        invert(self._lanes, self._rank, self._L, shift)
        steps, reached, length = solve_rows(
            *self._product, shift, float(tolerance), self._max_cg, self._D, self._R, self._room
        )
        c = pair_rows(*self._quartic)
        self._count(steps + 1)
        predicted = 0.5 * (shift * length - c[0])
        return best(*c), -sum(c) / predicted if predicted > 0 else 0.0, reached

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
        found: Array = np.take(self._W, places_of_blocks(len(self._lanes), self._rank), axis=1)
        return found


@cache
def unpacking(rank: int, width: int) -> tuple[Any, Any]:
    """Return where in packed r × r blocks the entries of whole ones, with longer rows, are, and which there are."""
    k, l = np.indices((width, width)).reshape(2, -1)
    high, low = np.maximum(k, l), np.minimum(k, l)
    return np.where(high < rank, high * (high + 1) // 2 + low, 0), (high < rank).astype(np.float64)


@njit(**FLAGS)
def move(lanes: Any, W: Any, at: int, V: Any, t: float, D: Any) -> None:
    """Move X by tD, in the records of both kinds, and set the sums to zero."""
    width, none = np.int64(len(lanes)), np.int64(0)
    for i in range(np.int64(len(D))):
        for k in range(none, at, width):
            store(W, i, k, nothing(lanes))
        x = load(lanes, W, i, at) + t * load(lanes, D, i, none)
        store(W, i, at, x)
        store(V, i, width, x)


@njit(**FLAGS)
def prepare(lanes: Any, W: Any, where: Any, R: Any, L: Any) -> Any:
    """Set R = −G and L to the row blocks; return tr JᵀJ."""
    width, none, trace = np.int64(len(lanes)), np.int64(0), 0.0
    for i in range(np.int64(len(R))):
        store(R, i, none, -1.0 * load(lanes, W, i, none))
        for k in range(width):
            trace += W[i, width + k]
            for l in range(width):
                L[i, k * width + l] = W[i, width + where[k, l]]
    return trace


@njit(**FLAGS)
def solve_rows(
    product: Any, kind: Any, lanes: Any, V: Any, start: Any, cols: Any, target: Any, upper: Any, weight: Any,
    L: Any, shift: float, tolerance: float, most: int, D: Any, R: Any, Z: Any,
) -> Any:  # fmt: skip
    """Solve (JᵀJ + shift·I) D = R by conjugate gradients; return the steps, if they are enough, and ‖D‖².

    L has the inverses of the row blocks, the preconditioner. D ends as the direction in the records, too.
    """
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
        pair_rows(product, kind, lanes, None, none, V, width, False, none, n, start, cols, target, upper, weight)
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


def first_minimum(c1: float, c2: float, c3: float, c4: float) -> float:
    """Return the t > 0 at which c₁t + c₂t² + c₃t³ + c₄t⁴ stops falling; 0 where it does not fall, or never stops."""
    return next((t for t in real_roots_of_cubic(4 * c4, 3 * c3, 2 * c2, c1) if t > 0), 0.0) if c1 < 0 else 0.0


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
