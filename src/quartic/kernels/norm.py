"""The quartic norm kernel h_N, and beside it the Euclidean one: the geometry of ordinary gradient methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from quartic.arrays import Array, as_floats, check_number, inner, squared_norm
from quartic.arrays.space import norm_length
from quartic.kernels.base import Kernel, sigma_for
from quartic.penalties.base import Penalty

if TYPE_CHECKING:
    from quartic.losses.base import Loss, Point
    from quartic.losses.steps import Move


@dataclass(frozen=True)
class NormKernel(Kernel):
    r"""The norm kernel :math:`h_N(X) = \frac{\alpha}{4}\|X\|^4 + \frac{\sigma}{2}\|X\|^2`.

    Parameters
    ----------
    alpha, sigma : float
        Positive.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.kernels import NormKernel
    >>> h = NormKernel(alpha=6.0, sigma=1.0)
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> bool(np.allclose(h.mirror(h.gradient(X)), X))
    True
    """

    degrees = (("alpha", 4), ("sigma", 2))

    alpha: float
    sigma: float

    def __post_init__(self) -> None:
        check_number(self.alpha, "NormKernel: alpha")
        check_number(self.sigma, "NormKernel: sigma")

    @classmethod
    def for_loss(cls, loss: Loss, tight: bool = True) -> Self:
        """Return the constants for which the loss is 1-smooth (Proposition 1): α = 6 L_F, σ = 2‖∇F(0)‖.

        With ``tight`` σ is 2·max(0, λ_max(∇F(0))) instead. The proof of Proposition 1 uses ‖∇F(0)‖ only to bound
        ⟨∇F(0), UUᵀ⟩ ≤ ‖∇F(0)‖‖U‖²; since UUᵀ is positive semidefinite of trace ‖U‖², its largest eigenvalue does.
        """
        return cls(alpha=6 * loss.smoothness, sigma=sigma_for(loss, tight))

    def value(self, X: Array) -> float:
        square = squared_norm(as_floats(X))
        return float((0.25 * self.alpha * square + 0.5 * self.sigma) * square)

    def gradient(self, X: Array) -> Array:
        """Return (α‖X‖² + σ) X."""
        X = as_floats(X)
        return float(self.alpha * squared_norm(X) + self.sigma) * X

    def divergence(self, X: Array, Y: Array) -> float:
        """Return D_h(X, Y), from D = X − Y, so that close neighbours keep their digits.

        With a = ‖Y‖², b = 2⟨Y, D⟩, c = ‖D‖²: D_h = α/4·(b² + 2ac + 2bc + c²) + σ/2·c, where the bracket is
        ‖X‖⁴ − ‖Y‖⁴ less its first-order term 2ab, all of second order in D: (b + c)² + 2ac.
        """
        X, Y = as_floats(X), as_floats(Y)
        D = X - Y
        return float(self._divergence(squared_norm(Y), 2 * inner(Y, D), squared_norm(D)))

    def divergence_of(self, move: Move) -> float:
        return self._divergence(*move.sizes)

    def _divergence(self, a: float, b: float, c: float) -> float:
        return 0.25 * self.alpha * ((b + c) ** 2 + 2 * a * c) + 0.5 * self.sigma * c

    def iterate(self, point: Point, penalty: Penalty, step: float) -> Array:
        """Return T_λ(X); in one pass for the penalties that clip or shift."""
        cut = penalty.cut(step)
        if cut is None:
            return super().iterate(point, penalty, step)
        clip, shift, ridge = cut
        W, square = point.combine(self.alpha, self.sigma, -step, shift, clip)
        point.space.shrink(W, square, self.alpha, self.sigma + ridge)
        return W

    def mirror(self, V: Array, penalty: Penalty | None = None, t: float = 1.0) -> Array:
        """Return argmin_U  h_N(U) + t g(U) − ⟨V, U⟩ (Proposition 2, and section 4.1 with a penalty)."""
        check_number(t, "t", zero=True)
        V = as_floats(V)
        if penalty is None:
            return norm_length(V, self.alpha, self.sigma)
        return penalty.norm_mirror(V, t, self.alpha, self.sigma)

    @classmethod
    def why_not(cls, penalty: Penalty) -> str | None:
        """Return None for convex penalties, and for others that have a ``norm_mirror`` of their own."""
        if penalty.convex or type(penalty).norm_mirror is not Penalty.norm_mirror:
            return None
        return (
            f"no mirror map for {cls.__name__} with {type(penalty).__name__}, which is not convex and has no method "
            "norm_mirror(V, t, alpha, sigma): give it one, or take EuclideanKernel"
        )


@dataclass(frozen=True)
class EuclideanKernel(Kernel):
    """h(X) = ½‖X‖². No quartic loss is smooth relative to it: it serves with a dynamic step, and to compare with.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.kernels import EuclideanKernel
    >>> EuclideanKernel().value(np.ones((2, 2)))
    2.0
    """

    step_unit = (2, 1)
    degrees = ()  # the step takes up the units

    def value(self, X: Array) -> float:
        return 0.5 * squared_norm(as_floats(X))

    def gradient(self, X: Array) -> Array:
        return as_floats(X)

    def divergence(self, X: Array, Y: Array) -> float:
        return 0.5 * squared_norm(as_floats(X) - as_floats(Y))

    def mirror(self, V: Array, penalty: Penalty | None = None, t: float = 1.0) -> Array:
        """Return prox_{t g}(V)."""
        check_number(t, "t", zero=True)
        return as_floats(V) if penalty is None else penalty.prox(as_floats(V), t)
