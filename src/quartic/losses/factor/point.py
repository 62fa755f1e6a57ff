"""Points of the least-squares loss: X with its product M X, and points ahead of one that are never formed."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from quartic.arrays import Array, delayed, eps, inner, norm, passes, root, shifted, trace_inner
from quartic.losses.factor.origin import Origin, StepSums
from quartic.losses.point import Point, projected_gradient

if TYPE_CHECKING:
    from quartic.losses.factor.loss import LeastSquares

# A step is short where ‖D‖² is below so many units of round-off of ‖X‖²: see `LeastSquaresMove.estimate`.
_SHORT = 2.0**14


def is_short(square: float, size: float, X: Array) -> bool:
    """Tell whether a step D is too short beside X, given ‖D‖² and ‖X‖², for a difference of values to mean much."""
    return not square > _SHORT * eps(X) * size


class LeastSquaresPoint(Point):
    """A point of `LeastSquares`: X and the product MX; the rest follows.

    What a pass over X has found out already may be given: XᵀX, ``fit`` = ⟨MX, X⟩, and whether X ≥ 0.

    Attributes
    ----------
    stride : float
        ‖D‖² / ‖X‖² of the step D that came here, as far as is known: the next will be about as long.
    """

    stride: float = math.inf
    _prepared: tuple[Callable[[], Point | None], float, Array | None] = (lambda: None), 0.0, None

    def __init__(
        self,
        loss: LeastSquares,
        X: Array,
        MX: Array,
        gram: Array | None = None,
        fit: float | None = None,
        feasible: bool | None = None,
    ) -> None:
        self.loss = loss
        self.X = X
        self.MX = MX
        known = {"gram": gram, "fit": fit, "feasible": feasible}
        self.__dict__.update({name: value for name, value in known.items() if value is not None})

    @property
    def origin(self) -> Origin:
        """Where a step from here starts."""
        return Origin.at(self.X, self.MX)

    @cached_property
    def gram(self) -> Array:
        """XᵀX, in float64."""
        S: Array = passes("factor", self.origin.X).gram_at(self.origin)
        return S

    @cached_property
    def fit(self) -> float:
        """⟨MX, X⟩."""
        return inner(self.MX, self.X)

    @cached_property
    def value(self) -> float:
        """½‖M − XXᵀ‖²."""
        constant = 0.5 * self.loss.matrix.squared_norm

        def finish(S: Array, fit: float) -> float:
            value = constant + 0.5 * trace_inner(S, S) - fit
            return max(value, 0.0) if math.isfinite(value) else value

        value: float = delayed(finish, self.gram, self.fit)
        return value

    @cached_property
    def gradient(self) -> Array:
        """2X(XᵀX) − 2MX."""
        G = self.loss.arrays.like(self.origin.X)
        passes("factor", G).stepped(self.origin, shifted(self.gram, 0.0, 2.0), -2.0, 0.0, False, G)
        return G

    def combine(self, a: float, b: float, shift: float, clip: bool) -> tuple[Array, float]:
        """Return aX + b∇f(X) − shift = X(aI + 2bS) − 2b·MX − shift, clipped, without forming the gradient."""
        W = self.loss.arrays.like(self.origin.X)
        return W, passes("factor", W).stepped(self.origin, shifted(self.gram, a, 2 * b), -2 * b, shift, clip, W)

    @cached_property
    def projected_norm(self) -> float:
        """‖∇ᴾf(X)‖, without forming the gradient."""
        squared = passes("factor", self.X).projected_norm(self.X, shifted(self.gram, 0.0, 2.0), self.MX)
        size: float = root(squared, lambda: projected_gradient(self.X, self.gradient))
        return size

    @cached_property
    def rounding(self) -> float:
        """eps·(‖X(XᵀX)‖ + ‖MX‖), twice; near a solution the two are equal."""
        relative = 4 * eps(self.origin.X)

        def finish(S: Array) -> float:
            size = 1.0
            if not 1e-90 < trace_inner(S, S) < 1e90:  # cubes over- and underflow long before S does
                size = norm(S)
                if size == 0.0:
                    return 0.0
                S = S / size
            return relative * size * math.sqrt(size) * math.sqrt(max(trace_inner(S @ S, S), 0.0))

        rounding: float = delayed(finish, self.gram)
        return rounding

    @property
    def takes_short_steps(self) -> bool:
        """Whether steps have become so short that a difference of values would not tell a good one from a bad one."""
        return is_short(self.stride, 1.0, self.origin.X)

    @property
    def last(self) -> LeastSquaresPoint:
        """The iterate that a step from here leaves behind."""
        return self

    def remember(self, start: LeastSquaresPoint, sums: StepSums, ahead: float | None) -> None:
        """Keep what the step to here has found out for the next one."""
        if not passes("factor", self.X).CURVATURE_IS_FREE:  # there nobody asks, and it would have to be waited for
            size = float(sums.gram.trace())
            self.stride = sums.length / size if size > 0 else math.inf
        if ahead is not None and sums.ahead is not None:
            # a weak reference, or each point would keep all those before it
            self._prepared = weakref.ref(start.last), ahead, sums.ahead

    def prepared_for(self, q: LeastSquaresPoint, t: float) -> Array | None:
        """Return the Gram matrix of p + t(p − q), where the step to p has made it."""
        last, ahead, S = self._prepared
        return S if last() is q and ahead == t else None

    def arrays(self) -> dict[str, Array]:
        """X, MX, XᵀX and ⟨MX, X⟩, and the gradient if it is at hand: made anew they might differ in the last bits."""
        kept = {"X": self.X, "MX": self.MX, "gram": self.gram, "fit": np.array(float(self.fit))}
        return kept | {"gradient": self.__dict__["gradient"]} if "gradient" in self.__dict__ else kept


class ExtrapolatedPoint(LeastSquaresPoint):
    """A point p + t(p − q) ahead of p, known by its origin: its arrays are formed only if somebody asks for them."""

    def __init__(self, loss: LeastSquares, p: LeastSquaresPoint, origin: Origin, gram: Array | None) -> None:
        self.loss = loss
        self._last, self._origin, self.stride = p, origin, p.stride
        if gram is not None:
            self.__dict__["gram"] = gram

    @property
    def origin(self) -> Origin:
        """Where a step from here starts."""
        return self._origin

    @property
    def last(self) -> LeastSquaresPoint:
        """The iterate p."""
        return self._last

    @cached_property
    def _formed(self) -> tuple[Array, Array]:
        arrays: tuple[Array, Array] = passes("factor", self._origin.X).formed(self._origin, self.loss.arrays)
        return arrays

    @cached_property
    def X(self) -> Array:  # type: ignore[override]
        """The point itself."""
        return self._formed[0]

    @cached_property
    def MX(self) -> Array:  # type: ignore[override]
        """Its product."""
        return self._formed[1]
