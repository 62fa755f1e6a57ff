"""The two-loop recursion of L-BFGS over steps s and changes y of the gradient, whole arrays.

Sums are kept for each piece of the entries, in float64, and added in order: the same bits on any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from quartic.arrays.checks import Array
from quartic.arrays.space import HOST
from quartic.arrays.threads import spread
from quartic.compiled.flags import FLAGS, njit

Pairs = tuple[Array, ...]

# So many entries are worked on at once, and stay in the cache; arrays of more than the second are cut into pieces.
_BLOCK, _SMALL, _PIECES = 512, 1 << 18, 16


def scaled(q: Array, scale: float | None, X: Array) -> Array:
    """Return q times the scale; where there is none, as long as X."""
    return np.multiply(q, scale or HOST.quotient_of_norms(X, q), out=q)


def two_loop(G: Array, steps: Pairs, changes: Pairs, first_metric: Callable[[Any, Any], Any]) -> Any:
    """Return H G, with H from the pairs (s, y) and H₀ q = ``first_metric(q, sᵀy/yᵀy)``.

    Pairs without positive curvature are left out; None for that number where none is left.
    """
    q = G.copy()
    used: list[tuple[int, float, float]] = []
    coefficient, last, scale = 0.0, q, 0.0
    for i in reversed(range(len(steps))):
        sq, sy, yy = _subtract_and_dot(q, coefficient, last, steps[i], changes[i])
        coefficient, last = 0.0, q
        if sy > 1e-10 * yy * scale and sy > 0 and yy > 0:
            scale = scale or sy / yy
            coefficient, last = sq / sy, changes[i]
            used.append((i, coefficient, sy))
    q -= q.dtype.type(coefficient) * last
    q = first_metric(q, scale or None)
    coefficient, last = 0.0, q
    for i, a, sy in reversed(used):
        yq = _subtract_and_dot(q, -coefficient, last, changes[i], changes[i])[0]
        coefficient, last = a - yq / sy, steps[i]
    q += q.dtype.type(coefficient) * last
    return q


def _subtract_and_dot(q: Array, c: float, y: Array, s: Array, z: Array) -> Any:
    """Set q to q − c·y, and return ⟨s, q⟩, ⟨s, z⟩ and ⟨z, z⟩; of large arrays piece by piece."""
    if q.size <= _SMALL:
        return subtract_and_dot(q, c, y, s, z)
    rows = -(-len(q) // _PIECES)
    sums = np.zeros((_PIECES, 3))

    def work(first: int, last: int) -> None:
        for piece in range(first, last):
            here = slice(piece * rows, (piece + 1) * rows)
            sums[piece] = subtract_and_dot(q[here], c, y[here], s[here], z[here])

    spread(work, _PIECES, 4.0 * q.size)
    return sums.sum(axis=0).tolist()


@njit(**FLAGS)
def subtract_and_dot(q: Any, c: float, y: Any, s: Any, z: Any) -> Any:
    """Q −= c·y; returns ⟨s, q⟩, ⟨s, z⟩ and ⟨z, z⟩."""
    q_, y_, s_, z_ = q.ravel(), y.ravel(), s.ravel(), z.ravel()
    c = q_.dtype.type(c)
    sq, sz, zz = 0.0, 0.0, 0.0
    for i in range(0, q_.size, _BLOCK):
        # the compiler makes vectors of loops from 0 on
        here = slice(i, min(i + _BLOCK, q_.size))
        q_here, y_here, s_here, z_here = q_[here], y_[here], s_[here], z_[here]
        if c != 0:
            for k in range(q_here.size):
                q_here[k] -= c * y_here[k]
        for k in range(q_here.size):
            sq += np.float64(s_here[k]) * np.float64(q_here[k])
            sz += np.float64(s_here[k]) * np.float64(z_here[k])
            zz += np.float64(z_here[k]) * np.float64(z_here[k])
    return sq, sz, zz
