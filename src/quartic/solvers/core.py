"""By way of a core: solve for part of the points, place the others by least squares.

Where a point has many more pairs than it needs, part of the points have enough pairs among themselves. The pairs among
a share s of the points are a share s² of all, so this part, the *core*, costs next to nothing; each other point then
has its place by linear least squares from its pairs with those placed.

A random start of so few pairs often ends in a local minimum, some points on the wrong side of the others. With one
column more than wanted they can go around. So the core is first solved one column *wider*: the added column begins as
noise, as much of it as makes the loss least, which is none where the start fits already. It is taken out again, by
turning X to its principal axes, when the variance along the last axis is a small part of that along the one before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from quartic.arrays import Array
from quartic.losses.point import Point
from quartic.losses.sum_of_squares import SumOfSquares
from quartic.ops import norm
from quartic.solvers.base import NoProgress, State

# The added column goes when the variance along it is this share of the variance along the last axis that stays. Of 240
# random starts of 24 pairs a point, on twelve shapes, 236 are solved with 0.03 or 0.01, 230 with 0.1, and with no
# column added 206 even of 48 pairs a point.
_FLAT = 0.03
# The core is left when the gradient has shrunk by this, or a step makes the loss smaller by less than this share.
_TOLERANCE, _GAIN, _STEPS = 1e-9, 1e-2, 60


def by_way_of_core(
    begin: Callable[[Point, float], Any],
    move: Callable[[SumOfSquares, Any], Any],
    loss: SumOfSquares,
    X: Array,
    degree: float,
    damping: float,
) -> Any | None:
    """Return the state where solving for part of the points, and placing the others, leads; None where no part will do.

    ``begin(point, damping)`` makes a state, ``move(loss, state)`` the one after it. Passes over the pairs of the core
    count by their share.
    """
    rank = X.shape[1]
    found = loss.core(degree, rank)
    if found is None:
        return None
    part, placed = found
    state = begin(part.at(X[placed]), damping)
    target = _TOLERANCE * float(norm(state.point.gradient))
    wide = part.widened(state.point)
    if wide is not None:
        state = _descend(move, part, begin(part.at(wide), damping), target, lambda Y: _is_flat(Y, rank))
        state = begin(part.at(_principal(state.point.X, rank)), state.damping)
    state = _descend(move, part, state, target)
    share = part.mean_degree() * part.n_points / (loss.mean_degree() * loss.n_points)
    loss._count(math.ceil(part.n_products * share))
    Y = X.copy()
    Y[placed] = state.point.X
    reached = 0
    while not placed.all() and placed.sum() > reached:  # a few rounds, where the graph is not evenly dense
        reached = int(placed.sum())
        Y, placed = loss.place(Y, placed)
    return begin(loss.at(Y.astype(X.dtype, copy=False)), state.damping)


def _descend(
    move: Callable[[SumOfSquares, Any], Any],
    loss: SumOfSquares,
    state: Any,
    target: float,
    enough: Callable[[Array], bool] = lambda X: False,
) -> Any:
    """Return the state at which the gradient is down to the target, the loss falls no further, or X is enough."""
    for _ in range(_STEPS):
        if norm(state.point.gradient) <= target or enough(state.point.X):
            break
        before: State = state
        try:
            state = move(loss, state)
        except NoProgress:
            break
        if state.point.value > (1 - _GAIN) * before.point.value:
            break
    return state


def _is_flat(X: Array, rank: int) -> bool:
    """Tell whether X has so little variance beyond ``rank`` axes that they will do."""
    from quartic.ops.placement import variances

    found = variances(X)
    return bool(found[-rank - 1] <= _FLAT * found[-rank])


def _principal(X: Array, rank: int) -> Array:
    """Return the points in the coordinates of the axes along which they vary most."""
    X = X - X.mean(axis=0)
    axes = np.linalg.eigh(X.T.astype(np.float64) @ X)[1][:, -rank:]
    return np.ascontiguousarray(X @ axes.astype(X.dtype))
