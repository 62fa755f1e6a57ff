"""What a loss must offer to be solved by Gauss–Newton: f(X) = ½‖e(X)‖² with a residual e that can be linearised.

Here are the rules of Levenberg and Marquardt that are numbers only, too: for the solver, and for `descent`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

from quartic.arrays import Array, total
from quartic.arrays.space import HostSpace, Space
from quartic.losses.base import Loss
from quartic.losses.point import Point

# Damping is relative to the mean diagonal of JᵀJ. The gauge makes JᵀJ singular, so it never goes down to nothing.
_LEAST, _MOST = 1e-13, 1e8
# The equations are never solved to a smaller residual, relative to where they start.
_LEAST_RESIDUAL = 1e-3


def row_blocks_in(space: Space) -> Any:
    """Return the module with the passes over r × r blocks, one a row of X, for the arrays of a space.

    `quartic.losses.pairs.descent` and `quartic.losses.pairs.torch` both have ``factor_blocks``, ``solve_blocks``,
    ``first_direction`` and ``advance``.
    """
    if isinstance(space, HostSpace):
        from quartic.losses.pairs import descent

        return descent
    from quartic.losses.pairs import torch

    return torch


def diagonal_mean(B: Array, rank: int) -> float:
    """Return the mean diagonal entry of packed blocks: the scale that damping is measured on."""
    at = [k * (k + 3) // 2 for k in range(rank)]
    return total(B.sum(axis=0)[at]) / (rank * max(len(B), 1))


def next_damping(damping: float, gain: float) -> float:
    """Return the damping after a step, by the ratio of the actual to the predicted decrease."""
    factor = 0.2 if gain > 0.75 else 3.0 if gain < 0.25 else 1.0
    return min(max(damping * factor, _LEAST), _MOST)


def residual(forcing: float, slope: float, earlier: float) -> float:
    """Return how far to solve the equations: as far as the last step lowered the gradient, at first not so far."""
    return forcing if math.isinf(earlier) else max(_LEAST_RESIDUAL, min(forcing, slope / earlier))


class SumOfSquares(Loss):
    """A loss f(X) = ½‖e(X)‖², with J the derivative of e (weights are part of e).

    Each pass over the data is counted, the products with JᵀJ like any other. Further methods a loss may have, and
    solvers ask for: ``quartic``, the quartic of f on a line without gradients, where F is quadratic;
    ``gauss_newton_matrix``, JᵀJ as a sparse matrix; and those of `quartic.losses.pairs.loss.PairSquares` that solve a
    problem by way of a part of its points.
    """

    infimum = 0.0

    @abstractmethod
    def linearize(self, X: Array) -> tuple[Point, Array]:
        """Return the point at X and the row blocks of JᵀJ there: one pass.

        The blocks are symmetric r × r, one a row of X; each is packed as the rows of its lower triangle, so that the
        array has the shape (n, r(r+1)/2). They are in float64.
        """

    @abstractmethod
    def gauss_newton_product(self, p: Point, V: Array, out: Array) -> None:
        """Write JᵀJ V into ``out``, with J at p: one pass."""
