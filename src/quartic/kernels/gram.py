"""The Gram kernel h_G."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from quartic.arrays import Array, as_floats, check_number, gram, on_host, squared_norm, times, trace_inner
from quartic.core.units import Units
from quartic.kernels.base import Kernel
from quartic.kernels.constants import scaled_constants, sigma_for
from quartic.kernels.mirror_maps import mirror_map

if TYPE_CHECKING:
    from quartic.losses.base import Loss
    from quartic.losses.move import Move
    from quartic.losses.point import Point
    from quartic.penalties.base import Penalty


@dataclass(frozen=True)
class GramKernel(Kernel):
    r"""The Gram kernel :math:`h_G(X) = \frac{\alpha}{4}\|X\|^4 + \frac{\beta}{4}\|X^TX\|^2 + \frac{\sigma}{2}\|X\|^2`.

    Parameters
    ----------
    alpha, beta : float
        Nonnegative.
    sigma : float
        Positive.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.kernels import GramKernel
    >>> h = GramKernel(alpha=1.0, beta=2.0, sigma=0.1)
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> bool(np.allclose(h.mirror(h.gradient(X)), X))
    True
    """

    alpha: float
    beta: float
    sigma: float

    def __post_init__(self) -> None:
        check_number(self.alpha, "GramKernel: alpha", zero=True)
        check_number(self.beta, "GramKernel: beta", zero=True)
        check_number(self.sigma, "GramKernel: sigma")

    @classmethod
    def for_loss(cls, loss: Loss, tight: bool = True) -> Self:
        """Return the constants for which the loss is 1-smooth (Proposition 3).

        α = 2(L_F − μ_F), β = 2 L_F, σ = 2‖∇F(0)‖; with ``tight``, σ as for the norm kernel.
        """
        L, mu = loss.smoothness, loss.strong_convexity
        return cls(alpha=2 * (L - mu), beta=2 * L, sigma=sigma_for(loss, tight))

    def in_units(self, units: Units) -> Self | None:
        """Return the same with its constants scaled."""
        return scaled_constants(self, units)

    def value(self, X: Array) -> float:
        """Return h_G(X)."""
        S = on_host(gram(as_floats(X)))
        trace = float(np.trace(S))
        return 0.25 * self.alpha * trace**2 + 0.25 * self.beta * trace_inner(S, S) + 0.5 * self.sigma * trace

    def gradient(self, X: Array) -> Array:
        """Return X (α‖X‖² I + β XᵀX + σ I)."""
        X = as_floats(X)
        return times(X, self.metric(gram(X)))

    def metric(self, S: Array) -> Array:
        """Return the r × r matrix α·tr(S)·I + β·S + σ·I, by which ∇h multiplies from the right where S = XᵀX."""
        S = on_host(S)
        return self.beta * S + (self.alpha * float(np.trace(S)) + self.sigma) * np.eye(len(S))

    def iterate(self, point: Point, penalty: Penalty, step: float) -> Array:
        """Return T_λ(X), with the XᵀX that the point has at hand."""
        V = times(point.X, self.metric(point.gram))
        V -= step * point.gradient
        return self.mirror(V, penalty, step)

    def divergence(self, X: Array, Y: Array) -> float:
        """Return D_h(X, Y), from D = X − Y, so that close neighbours keep their digits.

        With A = YᵀY, B = YᵀD + DᵀY, C = DᵀD the Gram term is β/4·(‖B + C‖² + 2⟨A, C⟩); the norm term is that of
        the norm kernel, with a, b, c the traces of A, B, C.
        """
        X, Y = as_floats(X), as_floats(Y)
        D = X - Y
        return self._divergence(*(on_host(S) for S in (gram(Y), gram(Y, D), gram(D))))

    def divergence_of(self, move: Move) -> float:
        """Return D_h(X + D, X) of a step."""
        return self._divergence(on_host(move.S), on_host(move.T), on_host(move.C))

    def _divergence(self, A: Array, T: Array, C: Array) -> float:
        BC = T + T.T + C
        a, bc, c = float(np.trace(A)), float(np.trace(BC)), float(np.trace(C))
        return (
            0.25 * self.alpha * (bc**2 + 2 * a * c)
            + 0.25 * self.beta * (squared_norm(BC) + 2 * trace_inner(A, C))
            + 0.5 * self.sigma * c
        )

    def mirror(self, V: Array, penalty: Penalty | None = None, t: float = 1.0) -> Array:
        """Return argmin_U  h_G(U) + t g(U) − ⟨V, U⟩ (Proposition 4)."""
        return mirror_map(self, V, penalty, t)
