"""Points of the least-squares loss: X with its product M X, and points ahead of one that are never formed."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from quartic.arrays import HOST, Array, Space, delayed, eps, trace_inner
from quartic.losses.factor.passes import Origin
from quartic.losses.point import Point, is_nonnegative, projected_gradient

if TYPE_CHECKING:
    from quartic.losses.factor.loss import LeastSquares

# A step is short where ‖D‖² is below so many units of round-off of ‖X‖²: see `LeastSquaresMove.estimate`.
_SHORT = 2.0**14


def is_short(square: float, size: float, X: Array) -> bool:
    """Tell whether a step D is too short beside X, given ‖D‖² and ‖X‖², for a difference of values to mean much."""
    return not square > _SHORT * eps(X) * size


class LeastSquaresPoint(Point):
    """A point of `LeastSquares`: X and the product MX; the rest follows.

    Parameters
    ----------
    loss, X, MX
        The loss, X and MX.
    gram, fit, feasible, gradient, projected_norm : optional
        What a pass over X has found out already: XᵀX, ⟨MX, X⟩, whether X ≥ 0, ∇f(X) and ‖∇ᴾf(X)‖.
    stride : float
        ‖D‖² of the step D that came here, as far as is known: the next will be about as long.
    """

    def __init__(
        self,
        loss: LeastSquares,
        X: Array,
        MX: Array,
        gram: Array | None = None,
        fit: float | None = None,
        feasible: bool | None = None,
        gradient: Array | None = None,
        projected_norm: float | None = None,
        stride: float = math.inf,
    ) -> None:
        self.loss, self.X, self.MX, self.stride = loss, X, MX, stride
        self._gram, self._fit, self._feasible = gram, fit, feasible
        self._gradient, self._projected_norm = gradient, projected_norm

    @property
    def space(self) -> Space:
        """Where the arrays of the loss live."""
        return self.loss.space

    @property
    def origin(self) -> Origin:
        """Where a step from here starts."""
        return Origin.at(self.X, self.MX)

    @property
    def gram(self) -> Array:
        """XᵀX, in float64."""
        if self._gram is None:
            self._gram = self.loss.passes.gram_at(self.origin)
        return self._gram

    @property
    def fit(self) -> float:
        """⟨MX, X⟩."""
        if self._fit is None:
            self._fit = self.space.inner(self.MX, self.X)
        return self._fit

    @property
    def feasible(self) -> bool:
        """Whether X ≥ 0, without a NaN."""
        if self._feasible is None:
            self._feasible = is_nonnegative(self.X)
        return self._feasible

    @cached_property
    def value(self) -> float:
        """½‖M − XXᵀ‖²."""
        constant = 0.5 * self.loss.matrix.squared_norm

        def finish(S: Array, fit: float) -> float:
            value = constant + 0.5 * trace_inner(S, S) - fit
            return max(value, 0.0) if math.isfinite(value) else value

        value: float = delayed(finish, self.gram, self.fit)
        return value

    @property
    def gradient(self) -> Array:
        """2X(XᵀX) − 2MX."""
        if self._gradient is None:
            G = self.loss.arrays.like(self.origin.X)
            self.loss.passes.stepped(self.origin, self.space.shifted(self.gram, 0.0, 2.0), -2.0, 0.0, False, G)
            self._gradient = G
        return self._gradient

    def combine(self, a: float, b: float, shift: float, clip: bool) -> tuple[Array, float]:
        """Return aX + b∇f(X) − shift = X(aI + 2bS) − 2b·MX − shift, clipped, without forming the gradient."""
        W = self.loss.arrays.like(self.origin.X)
        return W, self.loss.passes.stepped(self.origin, self.space.shifted(self.gram, a, 2 * b), -2 * b, shift, clip, W)

    @property
    def projected_norm(self) -> float:
        """‖∇ᴾf(X)‖, without forming the gradient."""
        if self._projected_norm is None:
            squared = self.loss.passes.projected_norm(self.X, self.space.shifted(self.gram, 0.0, 2.0), self.MX)
            self._projected_norm = self.space.root(squared, lambda: projected_gradient(self.X, self.gradient))
        return self._projected_norm

    @cached_property
    def rounding(self) -> float:
        """eps·(‖X(XᵀX)‖ + ‖MX‖), twice; near a solution the two are equal."""
        relative = 4 * eps(self.origin.X)

        def finish(S: Array) -> float:
            size = 1.0
            if not 1e-90 < trace_inner(S, S) < 1e90:  # cubes over- and underflow long before S does
                size = HOST.norm(S)
                if size == 0.0:
                    return 0.0
                S = S / size
            return relative * size * math.sqrt(size) * math.sqrt(max(trace_inner(S @ S, S), 0.0))

        rounding: float = delayed(finish, self.gram)
        return rounding

    @property
    def takes_short_steps(self) -> bool:
        """Whether steps have become so short that a difference of values would not tell a good one from a bad one."""
        if self.stride == math.inf:
            return False
        return is_short(float(self.stride), float(self.gram.trace()), self.origin.X)

    def arrays(self) -> dict[str, Array]:
        """X, MX, XᵀX and ⟨MX, X⟩, and the gradient if it is at hand: made anew they might differ in the last bits."""
        kept = {"X": self.X, "MX": self.MX, "gram": self.gram, "fit": np.array(float(self.fit))}
        return kept if self._gradient is None else kept | {"gradient": self._gradient}


class ExtrapolatedPoint(LeastSquaresPoint):
    """A point p + t(p − q) ahead of p, known by its origin: its arrays are formed only if somebody asks for them."""

    def __init__(self, loss: LeastSquares, origin: Origin, gram: Array | None, stride: float) -> None:
        self.loss, self._origin, self.stride = loss, origin, stride
        self._gram, self._fit, self._feasible, self._gradient, self._projected_norm = gram, None, None, None, None
        self._arrays: tuple[Array, Array] | None = None

    @property
    def origin(self) -> Origin:
        """Where a step from here starts."""
        return self._origin

    @property
    def formed(self) -> bool:
        """Whether X and MX exist."""
        return self._arrays is not None

    def _form(self) -> tuple[Array, Array]:
        if self._arrays is None:
            self._arrays = self.loss.passes.formed(self._origin, self.loss.arrays)
        return self._arrays

    @property
    def X(self) -> Array:  # type: ignore[override]
        """The point itself."""
        return self._form()[0]

    @property
    def MX(self) -> Array:  # type: ignore[override]
        """Its product."""
        return self._form()[1]
