"""A point X with what its one product gave: the loss and its gradient there."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from quartic.arrays import Array, Space, eps, norm, space_of

# The round-off of a gradient that nothing more is known of, in units of eps of its size.
_ROUND_OFF = 8.0


def is_nonnegative(X: Array) -> bool:
    """Tell whether X ≥ 0, without a NaN."""
    space = space_of(X)
    return space.later(lambda low: low >= 0, space.least(X))  # type: ignore[no-any-return]


class Point:
    """X, f(X) and ∇f(X); all come from one product, made when the point was. Losses that know more derive from it.

    Parameters
    ----------
    X : array (n, r)
    value : float
        f(X).
    gradient : array (n, r)
        ∇f(X).
    rounding : callable, optional
        Called with the point when first asked, it returns about the norm of the round-off in ``gradient``: below it a
        gradient, or a decrease predicted by it, means nothing. When left out, that is a few units of round-off of
        ‖∇f(X)‖ + |f(X)|/‖X‖, which is the size of what adds up to a gradient unless f is a difference of larger terms.
    """

    X: Array

    def __init__(
        self, X: Array, value: float, gradient: Array, rounding: Callable[[Point], float] | None = None
    ) -> None:
        self.X, self._known_value, self._known_gradient = X, value, gradient
        self._estimate = _round_off if rounding is None else rounding

    @property
    def value(self) -> float:
        """f(X)."""
        return self._known_value

    @property
    def gradient(self) -> Array:
        """∇f(X)."""
        return self._known_gradient

    @cached_property
    def rounding(self) -> float:
        """About the norm of the round-off in the gradient."""
        return self._estimate(self)

    @property
    def space(self) -> Space:
        """Where X lives."""
        return space_of(self.X)

    @cached_property
    def gram(self) -> Array:
        """XᵀX, in float64."""
        return self.space.gram(self.X)

    @cached_property
    def feasible(self) -> bool:
        """Whether X ≥ 0, without a NaN."""
        return is_nonnegative(self.X)

    @cached_property
    def projected_norm(self) -> float:
        """‖∇ᴾf(X)‖: of the gradient where X > 0, of its negative part where X = 0."""
        squared = self.space.projected_norm(self.X, self.gradient)
        return self.space.root(squared, lambda: self.space.projected(self.X, self.gradient))

    def combine(self, alpha: float, sigma: float, b: float, shift: float, clip: bool) -> tuple[Array, float]:
        """Return W = (α‖X‖² + σ)X + b∇f(X) − shift, cut off below zero if ``clip``, and ‖W‖²."""
        W = self.space.front(self.gram, alpha, sigma) * self.X + b * self.gradient
        W -= shift
        if clip:
            self.space.clip_in_place(W)
        return W, self.space.inner(W, W)

    def arrays(self) -> dict[str, Array]:
        """Return what a checkpoint must keep for `Loss.restore` to rebuild this very point, bit for bit."""
        return {"X": self.X, "value": np.asarray(float(self.value)), "gradient": self.gradient}


def _round_off(p: Point) -> float:
    size = float(norm(p.X))
    return _ROUND_OFF * eps(p.X) * (float(norm(p.gradient)) + (abs(float(p.value)) / size if size > 0 else 0.0))
