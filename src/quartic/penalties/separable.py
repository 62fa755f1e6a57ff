"""Penalties entry by entry in closed form: a constraint X ≥ 0, an ℓ1 norm and a ridge, alone or together; ℓ0."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from quartic.arrays import Array, astype, inner, namespace, positive_part, space_of, squared_norm, total
from quartic.arrays.space import norm_length, unit_cubic_root
from quartic.core.units import Degrees, Units
from quartic.penalties.base import Penalty, check_weight


class Family(Penalty):
    r"""The penalty :math:`g(X) = \lambda\sum|X_{ij}| + \frac{\rho}{2}\|X\|^2`, on X ≥ 0 where ``nonnegative``.

    All that solvers and kernels ask for follows in closed form. `Separable` has any constraint and weights; `Zero`,
    `Nonnegative`, `L1`, `NonnegativeL1`, `Ridge` and `NonnegativeRidge` are the usual ones.
    """

    #: the fields that are weights, of ℓ1 (of degree 1 in X) or of the ridge (of degree 2)
    _weights: ClassVar[Degrees] = ()

    def __post_init__(self) -> None:
        for name, _ in self._weights:
            check_weight(getattr(self, name), f"{type(self).__name__}: {name}", zero=len(self._weights) > 1)

    @cached_property
    def _lambda(self) -> float:
        return sum((getattr(self, name) for name, degree in self._weights if degree == 1), 0.0)

    @cached_property
    def _rho(self) -> float:
        return sum((getattr(self, name) for name, degree in self._weights if degree == 2), 0.0)

    def in_units(self, units: Units) -> Self | None:
        return units.weigh(self, self._weights)

    @property
    def ridge(self) -> float | None:  # type: ignore[override]
        """ρ, the weight of ½‖X‖²."""
        return self._rho

    @property
    def smooth(self) -> bool:  # type: ignore[override]
        """Whether g is differentiable: without constraint and ℓ1 norm."""
        return not (self.nonnegative or self._lambda)

    @property
    def has_lines(self) -> bool:
        """Whether g is a quadratic on lines inside its domain; ℓ1 is one where signs do not change."""
        return self.nonnegative or not self._lambda

    @property
    def _only_constraint(self) -> bool:
        return self.nonnegative and not (self._lambda or self._rho)

    def value(self, X: Array) -> float:
        """Return λΣ|X| + ½ρ‖X‖²; infinity where X must not be negative and is, or is NaN."""
        value: float = 0.0
        if self._lambda:
            value = self._lambda * total(X if self.nonnegative else abs(X))
        if self._rho:
            value = value + 0.5 * self._rho * squared_norm(X)
        return self._where_feasible(value, X)

    def prox(self, V: Array, t: float) -> Array:
        """Return V − tλ cut off below zero, or V soft-thresholded at tλ, over 1 + tρ."""
        U = self._threshold(V, t * self._lambda)
        return U / (1 + t * self._rho) if self._rho else U

    def stationarity(self, X: Array, gradient: Array) -> Array:
        """Return ∇f + λ + ρX projected where X ≥ 0; without a constraint the least element of ∇f + λ∂|X| + ρX."""
        G = self._gradient_inside(X, gradient)
        if self.nonnegative:
            return space_of(X).projected(X, G)
        if not self._lambda:
            return G
        xp = namespace(X)
        return xp.where(X != 0, G + self._lambda * xp.sign(X), soft_threshold(G, self._lambda))

    def smooth_gradient(self, X: Array, gradient: Array) -> Array:
        """Return ∇f + λ + ρX; without λ where signs are free, since ℓ1 has a kink there."""
        return self._gradient_inside(X, gradient)

    def _gradient_inside(self, X: Array, gradient: Array) -> Array:
        G = gradient + self._lambda if self.nonnegative and self._lambda else gradient
        return G + self._rho * X if self._rho else G

    def value_at(self, point: Any) -> float:
        """Return g at a point, which knows whether it is feasible."""
        if not self._only_constraint:
            return super().value_at(point)
        return point.space.later(lambda ok: 0.0 if ok else math.inf, point.feasible)

    def stationarity_at(self, point: Any) -> float:
        """Return the norm of ``stationarity``; points of some losses have ‖∇ᴾf(X)‖ without their gradient."""
        return point.projected_norm if self._only_constraint else super().stationarity_at(point)

    def on_line(self, X: Array, D: Array) -> tuple[float, float]:
        """Return λΣD + ρ⟨X, D⟩ and ½ρ‖D‖²."""
        if not self.has_lines:
            return super().on_line(X, D)
        linear: float = self._lambda * total(D) if self._lambda else 0.0
        if not self._rho:
            return linear, 0.0
        return linear + self._rho * inner(X, D), 0.5 * self._rho * squared_norm(D)

    def change(self, X: Array, Y: Array) -> float:
        """Return λΣ(|Y| − |X|) + ½ρ⟨Y − X, Y + X⟩."""
        change: float = 0.0
        if self._lambda:
            change = self._lambda * total(Y - X if self.nonnegative else abs(Y) - abs(X))
        if self._rho:
            change = change + 0.5 * self._rho * inner(Y - X, Y + X)
        return self._where_feasible(change, Y)

    def cut(self, t: float) -> tuple[bool, float, float] | None:
        """Return whether to clip, tλ and tρ; None for soft thresholds."""
        return (self.nonnegative, t * self._lambda, t * self._rho) if self.has_lines else None

    def norm_mirror(self, V: Array, t: float, alpha: float, sigma: float) -> Array:
        """Return W/z, with W the thresholded V and z from the cubic of Proposition 2 with σ + tρ."""
        return norm_length(self._threshold(V, t * self._lambda), alpha, sigma + t * self._rho)

    def pull_at(self, point: Any) -> float:
        """Return λΣ|X| + ρ‖X‖² at a point."""
        pull: float = 0.0
        if self._lambda:
            pull = self._lambda * total(abs(point.X))
        return pull + self._rho * squared_norm(point.X) if self._rho else pull

    def _threshold(self, V: Array, level: float) -> Array:
        if self.nonnegative:
            return positive_part(V - level if level else V)
        return soft_threshold(V, level) if level else V

    def _where_feasible(self, value: float, X: Array) -> float:
        """Return the value, infinity where X ≥ 0 does not hold."""
        if not self.nonnegative:
            return value
        space = space_of(X)
        return space.later(lambda value, low: float(value) if low >= 0 else math.inf, value, space.least(X))


def soft_threshold(V: Array, level: float) -> Array:
    """Return sign(V) · max(|V| − level, 0)."""
    return namespace(V).sign(V) * positive_part(abs(V) - level)


@dataclass(frozen=True)
class Separable(Family):
    """Any of the family: g(X) = l1·Σ|X_ij| + ½·ridge·‖X‖², with X ≥ 0 where ``nonnegative``.

    Parameters
    ----------
    nonnegative : bool, default=False
        Whether X must be nonnegative.
    l1, ridge : float, default=0.0
        The weights, nonnegative.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.penalties import Separable
    >>> Separable(l1=1.0, ridge=1.0).prox(np.array([[3.0, -0.5]]), 1.0)
    array([[ 1., -0.]])
    """

    _weights = (("l1", 1), ("ridge", 2))

    nonnegative: bool = False
    l1: float = 0.0
    ridge: float = 0.0


@dataclass(frozen=True)
class Zero(Family):
    """No penalty: g(X) = 0.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.penalties import Zero
    >>> Zero().value(np.ones((3, 2)))
    0.0
    """


@dataclass(frozen=True)
class Nonnegative(Family):
    """The constraint X ≥ 0: g(X) = 0 there and +∞ elsewhere.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.penalties import Nonnegative
    >>> Nonnegative().prox(np.array([[1.0, -2.0]]), 1.0)
    array([[1., 0.]])
    """

    nonnegative = True


@dataclass(frozen=True)
class L1(Family):
    """Lasso penalty: g(X) = weight · Σ |X_ij|, with a positive weight.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.penalties import L1
    >>> L1(1.0).prox(np.array([[3.0, -0.5]]), 1.0)
    array([[ 2., -0.]])
    """

    _weights = (("weight", 1),)

    weight: float


@dataclass(frozen=True)
class NonnegativeL1(Family):
    """ℓ1 norm on X ≥ 0: g(X) = weight · Σ X_ij there and +∞ elsewhere, with a positive weight.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.penalties import NonnegativeL1
    >>> NonnegativeL1(0.5).prox(np.array([[2.0, 0.3, -1.0]]), 1.0)
    array([[1.5, 0. , 0. ]])
    """

    nonnegative = True
    _weights = (("weight", 1),)

    weight: float


@dataclass(frozen=True)
class Ridge(Family):
    """Ridge: g(X) = ½ · weight · ‖X‖², with a positive weight.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.penalties import Ridge
    >>> Ridge(1.0).prox(np.array([[2.0, -1.0]]), 1.0)
    array([[ 1. , -0.5]])
    """

    _weights = (("weight", 2),)

    weight: float


@dataclass(frozen=True)
class NonnegativeRidge(Family):
    """Ridge on X ≥ 0: g(X) = ½ · weight · ‖X‖² there and +∞ elsewhere, with a positive weight.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.penalties import NonnegativeRidge
    >>> NonnegativeRidge(1.0).prox(np.array([[2.0, -1.0]]), 1.0)
    array([[1., 0.]])
    """

    nonnegative = True
    _weights = (("weight", 2),)

    weight: float


@dataclass(frozen=True)
class L0(Penalty):
    """Number of nonzero entries: g(X) = weight · #{X_ij ≠ 0}. Not convex; runs are monotone all the same.

    Parameters
    ----------
    weight : float
        The price of an entry, positive.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.penalties import L0
    >>> L0(1.0).prox(np.array([[3.0, -0.5]]), 1.0)
    array([[3., 0.]])
    """

    convex = False
    degrees = (("weight", 0),)

    weight: float

    def __post_init__(self) -> None:
        check_weight(self.weight, "L0: weight")

    def value(self, X: Array) -> float:
        return self.weight * total(X != 0)

    def prox(self, V: Array, t: float) -> Array:
        """Return V with the entries below √(2·t·weight) set to zero."""
        return namespace(V).where(abs(V) > math.sqrt(2 * t * self.weight), V, 0)

    def stationarity(self, X: Array, gradient: Array) -> Array:
        """Return the gradient on the nonzeros: where X = 0 the limiting subdifferential of g is the whole line."""
        return namespace(X).where(X != 0, gradient, 0)

    def norm_mirror(self, V: Array, t: float, alpha: float, sigma: float) -> Array:
        """Keep the k largest |V|, where k minimises k·t·weight − h*(‖V_top-k‖), convex in k.

        With p = ‖U‖² the conjugate is h* = ¾αp² + ½σp, and ‖V‖² = p(αp + σ)². Taking one more entry v adds v² to ‖V‖²;
        what it adds to p and to h* follows from divided differences, without cancellation.
        """
        xp, flat = namespace(V), V.reshape(-1)
        order = space_of(V).falling_order(abs(flat))
        squares = astype(flat[order], np.float64) ** 2
        length = math.sqrt(sigma / alpha)
        y = unit_cubic_root(xp.sqrt(xp.cumsum(squares, 0)) / (length * sigma))
        p = (length * y) ** 2
        before = xp.zeros_like(p)
        before[1:] = p[:-1]
        slope = alpha**2 * (p * p + p * before + before * before) + 2 * alpha * sigma * (p + before) + sigma**2
        gain = squares / slope * (0.75 * alpha * (p + before) + 0.5 * sigma)
        kept = order[: int((gain > t * self.weight).sum())]
        W = xp.zeros_like(flat)
        W[kept] = flat[kept]
        return norm_length(W.reshape(V.shape), alpha, sigma)
