"""Sums of squares over pairs (i, j): the machinery that distances and known entries share."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import Array
from quartic.losses.base import Loss
from quartic.losses.line import Line
from quartic.losses.point import Point
from quartic.ops import norm

# Ranks up to this have passes compiled for them; the others share one.
_SPECIAL_RANKS = 4


class PairSquares(Loss):
    """f(X) = ½ Σ_p w_p (q_p(X) − b_p)² over pairs p = (i, j), with q_p = ‖x_i − x_j‖² or ⟨x_i, x_j⟩.

    Each pass over the pairs gives the value and the gradient; pairs are kept sorted by row, each once.
    """

    quadratic = True
    #: q is ‖x_i − x_j‖² where true, ⟨x_i, x_j⟩ where false
    difference: ClassVar[bool]

    start: NDArray[np.int64]
    cols: NDArray[np.int32]
    target: Array
    weight: Array | None

    # -- the point --------------------------------------------------------------------------------------------------

    def at(self, X: Array) -> PairPoint:
        """Return the point at X: one pass."""
        from quartic.ops.pairs import value_and_gradient

        G = np.empty_like(X)
        value = self._run(value_and_gradient, X)(X, *self._data, G)
        return PairPoint(self, X, float(value), G)

    def restore(self, arrays: dict[str, Array]) -> PairPoint:
        """Return the point kept in a checkpoint."""
        return PairPoint(self, arrays["X"], float(arrays["value"]), arrays["gradient"])

    def advance(self, p: Point, X: Array) -> tuple[PairPoint, float]:
        """Return the point at X and f(X) − f(p) − ⟨∇f(p), X − p⟩, summed pair by pair from X − p: one pass."""
        from quartic.ops.pairs import value_gradient_and_remainder

        G = np.empty_like(X)
        value, remainder = self._run(value_gradient_and_remainder, X)(p.X, X, *self._data, G)
        return PairPoint(self, X, float(value), G), float(remainder)

    def along(self, p: Point, D: Array) -> Line:
        """Return the exact quartic of f on p + tD, and its gradient there, a cubic: one pass."""
        from quartic.ops.pairs import line_coefficients

        G1, G2, G3 = np.empty_like(D), np.empty_like(D), np.empty_like(D)
        coefficients = self._run(line_coefficients, D)(p.X, D, *self._data, G1, G2, G3)

        def move(t: float) -> PairPoint:
            G = p.gradient + t * (G1 + t * (G2 + t * G3))
            return PairPoint(self, p.X + t * D, max(line(t), 0.0), G)

        line = Line(p, coefficients, move)
        return line

    def _run(self, make: Any, X: Array) -> Any:
        self._count()
        rank = X.shape[1] if X.shape[1] <= _SPECIAL_RANKS else 0
        return make(rank, self.difference, self.weight is not None)

    @property
    def _data(self) -> tuple[Any, ...]:
        return self.start, self.cols, self.target, self.target if self.weight is None else self.weight

    # -- the pairs --------------------------------------------------------------------------------------------------

    @property
    def rows(self) -> NDArray[np.int32]:
        """The row index of each pair, in the order the pairs are kept."""
        return np.repeat(np.arange(self.n_points, dtype=np.int32), np.diff(self.start))

    @property
    def n_pairs(self) -> int:
        """How many pairs there are."""
        return len(self.target)

    @property
    @abstractmethod
    def gradient_scale(self) -> float:
        """What multiplies eps·‖X‖ in the round-off of the gradient."""

    def fingerprint(self) -> str:
        """Return kind, sizes and sums of the data."""
        checksum = float(np.dot(self.target, 1.0 + np.arange(self.n_pairs) % 1009))
        total = float(self.n_pairs if self.weight is None else self.weight.sum())
        return f"{type(self).__name__} n={self.n_points} pairs={self.n_pairs} target={checksum!r} weight={total!r}"


class PairPoint(Point):
    """A point of a `PairSquares` loss."""

    def __init__(self, loss: PairSquares, X: Array, value: float, gradient: Array) -> None:
        self.loss = loss
        self.X = X
        self._value = value
        self._gradient = gradient

    @property
    def value(self) -> float:
        """½ Σ w (q − b)²."""
        return self._value

    @property
    def gradient(self) -> Array:
        """∇f(X)."""
        return self._gradient

    @cached_property
    def rounding(self) -> float:
        """About eps·Σ w·(|q| + |b|)·|x| in each row, as a norm.

        The residual q − b of a pair cannot be known better than eps·(q + b), however small it is.
        """
        eps = float(np.finfo(self.X.dtype).eps)
        return eps * self.loss.gradient_scale * norm(self.X)

    def arrays(self) -> dict[str, Array]:
        """X, the value and the gradient."""
        return {"X": self.X, "value": np.float64(self._value), "gradient": self._gradient}  # type: ignore[dict-item]
