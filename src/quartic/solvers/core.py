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
from typing import Any

import numpy as np

from quartic.arrays import Array, norm
from quartic.losses.pairs.loss import PairSquares
from quartic.losses.pairs.pairs import QUARTIC

# The core is left when the gradient has shrunk by this, or after so many steps.
_TOLERANCE, _MOST_STEPS = 1e-9, 60


def by_way_of_core(
    loss: PairSquares, X: Array, degree: float, settings: tuple[float, int, float]
) -> tuple[Array, float, float] | None:
    """Return where solving for part of the points, and placing the others, leads; damping, and share of the loss, left.

    ``settings`` are forcing, max_cg and damping of `quartic.solvers.LevenbergMarquardt`. Passes over the pairs of the
    core count by their share. None where no part of the points will do.
    """
    rank = X.shape[1]
    found = loss.core(degree, rank)
    if found is None:
        return None
    part, placed = found
    start = part.at(X[placed])
    target = _TOLERANCE * float(norm(start.gradient))

    def descend(Y: Array, damping: float, axes: int) -> Any:
        run = part.descent(Y, *settings[:2], damping)
        run.look()
        run.go(_MOST_STEPS, target, axes)
        return run

    Y, damping, wide = start.X, settings[2], widened(part, start.X)
    if wide is not None:
        run = descend(wide, damping, rank)
        Y, damping = _principal(run.X, rank), run.damping
    run = descend(Y, damping, 0)
    share = part.mean_degree() * part.n_points / (loss.mean_degree() * loss.n_points)
    loss.count_products(math.ceil(part.n_products * share))
    whole = X.copy()
    whole[placed] = run.X
    reached = 0
    while not placed.all() and placed.sum() > reached:  # a few rounds, where the graph is not evenly dense
        reached = int(placed.sum())
        whole, placed = loss.place(whole, placed)
    return whole, run.damping, run.value / float(start.value)


def widened(loss: PairSquares, X: Array) -> Array | None:
    """Return [X, tz] with z fixed noise and the best t ≥ 0, or None where that is 0: one pass.

    With ζ = (z_i − z_j)² the loss is f(X) + t² Σ w(q − d)ζ + ½t⁴ Σ wζ². Where X fits, the first sum is next to nothing,
    and so is t.
    """
    if not loss.pairs.difference:  # inner products do not gain by a column more
        return None
    n, rank = X.shape
    wide, D = np.zeros((n, rank + 1), X.dtype), np.zeros((n, rank + 1), X.dtype)
    wide[:, :rank] = X
    D[:, rank] = np.random.default_rng(0).standard_normal(n)
    loss.count_products()
    _, c2, _, c4 = loss.pairs.run(QUARTIC, wide, D)
    if not (c2 < 0 < c4):
        return None
    wide[:, rank] = math.sqrt(-c2 / (2 * c4)) * D[:, rank]
    return wide


def _principal(X: Array, rank: int) -> Array:
    """Return the points in the coordinates of the axes along which they vary most."""
    X = X - X.mean(axis=0)
    axes = np.linalg.eigh(X.T.astype(np.float64) @ X)[1][:, -rank:]
    return np.ascontiguousarray(X @ axes.astype(X.dtype))
