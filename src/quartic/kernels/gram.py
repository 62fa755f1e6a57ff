"""The Gram kernel h_G, and its mirror map: one eigendecomposition and one scalar equation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from scipy.optimize import brentq

from quartic.arrays import (
    Array,
    as_floats,
    astype,
    check_number,
    float_type,
    gram,
    namespace,
    space_of,
    squared_norm,
    times,
    to_host,
    trace_inner,
)
from quartic.arrays.space import norm_scale, unit_cubic_root
from quartic.kernels.base import Kernel, sigma_for

if TYPE_CHECKING:
    from quartic.losses.base import Loss, Point
    from quartic.losses.steps import Move
    from quartic.penalties.base import Penalty


# Below this ratio of squared singular values VᵀV has lost too many digits of the small ones: take the SVD of V.
_WELL_CONDITIONED = 1e-8


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

    degrees = (("alpha", 4), ("beta", 4), ("sigma", 2))

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

    def value(self, X: Array) -> float:
        (S,) = space_of(X).read(gram(as_floats(X)))
        trace = float(np.trace(S))
        return 0.25 * self.alpha * trace**2 + 0.25 * self.beta * trace_inner(S, S) + 0.5 * self.sigma * trace

    def gradient(self, X: Array) -> Array:
        """Return X (α‖X‖² I + β XᵀX + σ I)."""
        X = as_floats(X)
        return times(X, self.metric(gram(X)))

    def metric(self, S: Array) -> Array:
        """Return the r × r matrix α·tr(S)·I + β·S + σ·I, by which ∇h multiplies from the right where S = XᵀX."""
        (S,) = space_of(S).read(S)
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
        return self._divergence(*space_of(X).read(gram(Y), gram(Y, D), gram(D)))

    def divergence_of(self, move: Move) -> float:
        return self._divergence(*move.start.space.read(move.S, move.T, move.C))

    def _divergence(self, A: Array, T: Array, C: Array) -> float:
        BC = T + T.T + C
        a, bc, c = float(np.trace(A)), float(np.trace(BC)), float(np.trace(C))
        return (
            0.25 * self.alpha * (bc**2 + 2 * a * c)
            + 0.25 * self.beta * (squared_norm(BC) + 2 * trace_inner(A, C))
            + 0.5 * self.sigma * c
        )

    def mirror(self, V: Array, penalty: Penalty | None = None, t: float = 1.0) -> Array:
        """Return argmin_U  h_G(U) + t g(U) − ⟨V, U⟩ (Proposition 4); a ridge adds to σ."""
        check_number(t, "t", zero=True)
        reason = None if penalty is None else self.why_not(penalty)
        if reason is not None:
            raise ValueError(reason)
        ridge = 0.0 if penalty is None else penalty.ridge or 0.0
        return gram_mirror(as_floats(V), self.alpha, self.beta, self.sigma + t * ridge)

    @classmethod
    def why_not(cls, penalty: Penalty) -> str | None:
        """Return None for g = ½ρ‖X‖², which is invariant under rotations like h_G."""
        if penalty.only_ridge is not None:
            return None
        return (
            f"no closed-form mirror map for {cls.__name__} with {type(penalty).__name__}, which is no multiple of "
            "½‖X‖² (Zero, Ridge, or a smooth penalty with an attribute ridge): take NormKernel or EuclideanKernel"
        )


def gram_mirror(V: Array, alpha: float, beta: float, sigma: float) -> Array:
    """Return the U with U (α‖U‖² I + β UᵀU + σ I) = V.

    U has the singular vectors of V, and singular values μ. Where V is well conditioned they come from the
    eigendecomposition of the r × r matrix VᵀV; otherwise from the SVD of V, whose left vectors keep round-off in the
    small directions from being divided by a small σ. NaN where the squares of V overflow: a run that got there ends.
    """
    S = gram(V)
    if not math.isfinite(float(S.sum())):
        return V * math.nan
    squares, P = np.linalg.eigh(S)
    largest = float(squares[-1])
    if largest > 1e-250 and float(squares[0]) > _WELL_CONDITIONED * largest:
        mu = solve_subproblem(np.sqrt(squares), alpha, beta, sigma)
        scale = 1 / (alpha * float(mu @ mu) + beta * mu**2 + sigma)
        return times(V, (P * scale) @ P.T)
    W, eta, Pt = namespace(V).linalg.svd(astype(V, np.float64), full_matrices=False)
    U = times(W, solve_subproblem(to_host(eta), alpha, beta, sigma)[:, None] * to_host(Pt))
    return astype(U, float_type(V))


def solve_subproblem(eta: Array, alpha: float, beta: float, sigma: float) -> Array:
    """Return the μ ≥ 0 with (α‖μ‖² + σ) μ_i + β μ_i³ = η_i, to machine precision.

    For a given s = ‖μ‖² each μ_i(s) is the root of a monotone cubic. What is left is log Σμ_i(s)² = log s, an
    equation in log s whose slope always lies between −3 and −1.
    """
    eta = np.asarray(eta, dtype=np.float64)
    if alpha == 0.0:
        return _cubic(eta, beta, sigma)
    size = float(np.linalg.norm(eta))
    if size == 0.0:
        return np.zeros_like(eta)
    # ‖μ‖ lies between the answers of the norm kernels with α + β and with α in front.
    low = 2 * math.log(size / norm_scale(size, alpha + beta, sigma))
    high = 2 * math.log(size / norm_scale(size, alpha, sigma))
    low, high = low - 1e-12 * (1 + abs(low)), high + 1e-12 * (1 + abs(high))

    def gap(log_s: float) -> float:
        return math.log(float(np.square(_cubic(eta, beta, alpha * math.exp(log_s) + sigma)).sum())) - log_s

    log_s = brentq(gap, low, high, xtol=1e-16 * (1 + abs(low)))
    return _cubic(eta, beta, alpha * math.exp(log_s) + sigma)


def _cubic(eta: Array, beta: float, linear: float) -> Array:
    """Return the roots of β μ³ + linear·μ = η: μ = η / (linear·(1 + y²)) with y³ + y = η√(β/linear)/linear."""
    y = unit_cubic_root(eta * (math.sqrt(beta / linear) / linear))
    return eta / (linear * (1 + y * y))
