"""The quartic norm kernel h_N."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, cast, overload

from quartic.arrays import Array, as_floats, check_number, inner, namespace, norm, squared_norm
from quartic.core.units import Units
from quartic.kernels.base import Kernel
from quartic.kernels.constants import scaled_constants, sigma_for
from quartic.penalties import Nonnegative, NonnegativeL1, NonnegativeRidge, Penalty, Ridge, Zero

if TYPE_CHECKING:
    from quartic.losses.base import Loss
    from quartic.losses.move import Move
    from quartic.losses.point import Point


@overload
def unit_cubic_root(w: float) -> float: ...
@overload
def unit_cubic_root(w: Array) -> Array: ...
def unit_cubic_root(w: float | Array) -> float | Array:
    """Return the root y ≥ 0 of y³ + y = w for w ≥ 0, elementwise, to machine precision.

    The closed form y = (2/√3) sinh(⅓ asinh(½·3√3·w)) neither cancels nor overflows, unlike Cardano's; it loses a few
    digits to the logarithm when w is huge, which two Newton steps bring back.

    Examples
    --------
    >>> from quartic.kernels.norm import unit_cubic_root
    >>> unit_cubic_root(10.0)
    2.0
    """
    if isinstance(w, float):
        y = (2 / math.sqrt(3)) * math.sinh(math.asinh(min(w, 1e300) * (1.5 * math.sqrt(3))) / 3)
        for _ in range(2):
            y -= (y * (y * y + 1) - w) / (3 * y * y + 1)
        return y
    xp = namespace(w)
    root: Array = (2 / math.sqrt(3)) * xp.sinh(xp.arcsinh(xp.clip(w, None, 1e300) * (1.5 * math.sqrt(3))) / 3)
    for _ in range(2):
        root -= (root * (root * root + 1) - w) / (3 * root * root + 1)
    return root


def norm_scale(size: float, alpha: float, sigma: float) -> float:
    """Return the z with z²(z − σ) = α·size², the cubic of Proposition 2.

    z = σ(1 + y²) with y³ + y = size·√(α/σ)/σ: free of units, so that it neither cancels nor overflows.
    """
    y = unit_cubic_root(size * (math.sqrt(alpha / sigma) / sigma))
    return sigma * (1 + y * y)


def norm_length(W: Array, alpha: float, sigma: float) -> Array:
    """Return the U parallel to W with (α‖U‖² + σ) U = W."""
    return W / norm_scale(float(norm(W)), alpha, sigma)


def clipping(penalty: Penalty, t: float) -> tuple[bool, float, float] | None:
    """Return (clip, shift, ridge) where the map of the norm kernel is max(V − shift, 0) or V − shift with σ + ridge."""
    return {
        Zero: lambda: (False, 0.0, 0.0),
        Nonnegative: lambda: (True, 0.0, 0.0),
        NonnegativeL1: lambda: (True, t * cast(NonnegativeL1, penalty).weight, 0.0),
        Ridge: lambda: (False, 0.0, t * cast(Ridge, penalty).weight),
        NonnegativeRidge: lambda: (True, 0.0, t * cast(NonnegativeRidge, penalty).weight),
    }.get(type(penalty), lambda: None)()


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

    def in_units(self, units: Units) -> Self | None:
        """Return the same with its constants scaled."""
        return scaled_constants(self, units)

    def value(self, X: Array) -> float:
        """Return h_N(X)."""
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
        """Return D_h(X + D, X) of a step."""
        return self._divergence(*move.sizes)

    def _divergence(self, a: float, b: float, c: float) -> float:
        return 0.25 * self.alpha * ((b + c) ** 2 + 2 * a * c) + 0.5 * self.sigma * c

    def iterate(self, point: Point, penalty: Penalty, step: float) -> Array:
        """Return T_λ(X); in one pass for the penalties that clip or shift."""
        cut = clipping(penalty, step)
        if cut is None:
            return super().iterate(point, penalty, step)
        clip, shift, ridge = cut
        W, square = point.combine(self.alpha, self.sigma, -step, shift, clip)
        point.space.shrink(W, square, self.alpha, self.sigma + ridge, norm_scale)
        return W

    def mirror(self, V: Array, penalty: Penalty | None = None, t: float = 1.0) -> Array:
        """Return argmin_U  h_N(U) + t g(U) − ⟨V, U⟩ (Proposition 2, and section 4.1 with a penalty)."""
        from quartic.kernels.mirror_maps import mirror_map  # the table of all kernels, this one among them

        return mirror_map(self, V, penalty, t)
