"""A point X with what its one product gave: the loss and its gradient there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

from quartic.arrays import Array, Space, namespace, space_of


def projected_gradient(X: Array, gradient: Array) -> Array:
    """Return the paper's ∇ᴾf(X): the gradient where X > 0, its negative part where X = 0."""
    xp = namespace(X)
    projected: Array = xp.where(X > 0, gradient, xp.clip(gradient, None, 0))
    return projected


def is_nonnegative(X: Array) -> bool:
    """Tell whether X ≥ 0, without a NaN."""
    space = space_of(X)
    return space.later(lambda low: low >= 0, space.least(X))  # type: ignore[no-any-return]


class Point(ABC):
    """X, f(X) and ∇f(X); all come from one product, made when the point was.

    Attributes
    ----------
    X : array (n, r)
    value : float
        f(X).
    gradient : array (n, r)
        ∇f(X).
    rounding : float
        About the norm of the round-off in ``gradient``: below it a gradient, or a decrease predicted by it, means
        nothing.
    """

    X: Array

    @property
    @abstractmethod
    def value(self) -> float:
        """f(X)."""

    @property
    @abstractmethod
    def gradient(self) -> Array:
        """∇f(X)."""

    @property
    @abstractmethod
    def rounding(self) -> float:
        """The size of the round-off in the gradient."""

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
        return self.space.root(squared, lambda: projected_gradient(self.X, self.gradient))

    def combine(self, alpha: float, sigma: float, b: float, shift: float, clip: bool) -> tuple[Array, float]:
        """Return W = (α‖X‖² + σ)X + b∇f(X) − shift, cut off below zero if ``clip``, and ‖W‖²."""
        W = self.space.front(self.gram, alpha, sigma) * self.X + b * self.gradient
        W -= shift
        if clip:
            self.space.clip_in_place(W)
        return W, self.space.inner(W, W)

    @abstractmethod
    def arrays(self) -> dict[str, Array]:
        """Return what a checkpoint must keep to rebuild this very point, bit for bit."""
