"""Robust fit of M by XXᵀ: entries far off pull with a bounded force."""

from __future__ import annotations

import copy
import math
from typing import Any, Self

import numpy as np

from quartic.arrays import Array, as_floats, check_number, norm, trace_inner
from quartic.core.units import Units, exponent, shifted
from quartic.losses.base import Loss
from quartic.losses.factor.matrix import as_matrix
from quartic.losses.factor.spectrum import negative_part_of_spectrum
from quartic.losses.gradient_point import GradientPoint
from quartic.losses.move import Move
from quartic.losses.other.robust_entries import AllEntries, Entries, KnownEntries
from quartic.losses.point import Point

# the names that quartic.losses.other.robust_passes has functions for; that module is not imported before it is used
KINDS = ("huber", "pseudo-huber", "logcosh")


class Robust(Loss):
    r"""Robust fit :math:`f(X) = \sum_{ij} w_{ij}\,\rho\big((XX^T)_{ij} - M_{ij}\big)`, so that gross errors do
    not rule.

    ρ is ½e² for small e and grows like δ|e| for large e:

    - ``"huber"``: ½e² for \|e\| ≤ δ, then δ\|e\| − ½δ²;
    - ``"pseudo-huber"``: δ²(√(1 + e²/δ²) − 1);
    - ``"logcosh"``: δ² log cosh(e/δ).

    Parameters
    ----------
    M : array or sparse (n, n)
        Symmetric. Without weights every entry counts, also those a sparse M does not store, which are zeros.
    loss : {"huber", "pseudo-huber", "logcosh"}, default="huber"
        ρ.
    delta : float, default=1.0
        δ: about the size of the errors that are not gross, in the units of M.
    weights : array or sparse (n, n), optional
        Symmetric, nonnegative weights; entries outside their pattern are unknown, and M may hold anything there.
    mask : array or sparse (n, n) of bool, optional
        Which entries are known; the same as weights of 0 and 1.

    Notes
    -----
    Constants. ρ'' lies in [0, 1] for each of the three: it is 1 or 0 for Huber, (1 + e²/δ²)^(−3/2), and
    1/cosh²(e/δ). The Hessian of F(Y) = Σ w ρ(Y − M) is therefore the diagonal map with entries in [0, max w], so
    L_F = max w, and μ_F = 0 since ρ'' comes as near to 0 as one likes. ψ = ρ' is odd, so ∇F(0) = −w ∘ ψ(M), whose
    largest eigenvalue is −λ_min(w ∘ ψ(M)).

    Whether a step is accepted hangs on f(X + D) − f(X) − ⟨∇f(X), D⟩. With B = XDᵀ + DXᵀ + DDᵀ it is the sum of
    ρ(E + B) − ρ(E) − ψ(E)B, for which `robust_passes` has formulas of second order in B, and ψ(E)(DDᵀ)_ij.

    XXᵀ is made block by block and never kept: memory is that of M. F is not quadratic, so f is no quartic on lines.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic import Problem, minimize
    >>> from quartic.losses import Robust
    >>> x = np.array([1.0, 2.0, 3.0, 4.0])
    >>> M = np.outer(x, x)
    >>> M[0, 3] = M[3, 0] = 100.0                       # a gross error
    >>> X = minimize(Problem(Robust(M, "huber", 0.01)), rank=1, tol=1e-8, random_state=0).X
    >>> bool(np.allclose(np.abs(X[:, 0]), x, atol=0.02))
    True
    """

    infimum = 0.0

    def __init__(
        self, M: Any, loss: str = "huber", delta: float = 1.0, *, weights: Any = None, mask: Any = None
    ) -> None:
        super().__init__()
        if loss not in KINDS:
            raise ValueError(f"loss must be one of {', '.join(map(repr, KINDS))}, got {loss!r}")
        check_number(delta, "delta")
        if weights is not None and mask is not None:
            raise ValueError("give weights or mask, not both: an entry of weight 0 is masked")
        self.kind, self.delta = loss, float(delta)
        known = weights if mask is None else mask
        self.entries: Entries = AllEntries(as_matrix(M, 0.0)) if known is None else KnownEntries(M, known)
        self.n_points = self.entries.n

    # -- the point --------------------------------------------------------------------------------------------------

    def at(self, X: Array) -> GradientPoint:
        """Return the point at X: one pass over the entries."""
        X = as_floats(X)
        self._count()
        return self._point(X, *self.entries.tangent(X, self.kind, self.delta))

    def restore(self, arrays: dict[str, Array]) -> GradientPoint:
        """Return the point kept in a checkpoint."""
        return self._point(arrays["X"], float(arrays["value"]), arrays["gradient"])

    def move(self, p: Point, X: Array) -> Move:
        """Return the step from p to X, its remainder summed entry by entry from X − p: one pass."""
        X = as_floats(X)
        self._count()
        value, remainder, G = self.entries.gap(p.X, X, self.kind, self.delta)
        return Move(p, self._point(X, value, G), remainder, X - p.X)

    def _point(self, X: Array, value: float, gradient: Array) -> GradientPoint:
        return GradientPoint(X, float(value), gradient, self._rounding)

    def _rounding(self, p: Point) -> float:
        """Return about eps·max w·(‖X(XᵀX)‖ + δ‖X‖), four times: entries of XXᵀ are known to eps of their size."""
        size = norm(p.gram)
        if size == 0.0 or not math.isfinite(size):
            return 0.0
        S = p.gram / size  # cubes over- and underflow long before S does
        cubed = size * math.sqrt(size) * math.sqrt(max(trace_inner(S @ S, S), 0.0))
        eps = float(np.finfo(p.X.dtype).eps)
        return 4 * eps * self.smoothness * (cubed + self.delta * math.sqrt(float(np.trace(p.gram))))

    # -- scale ------------------------------------------------------------------------------------------------------

    def exponents(self) -> tuple[int | None, int | None]:
        """Return log₂ of the root of the size of M, and of the largest weight."""
        power = self.entries.exponent()
        return None if power is None else power // 2, exponent(self.entries.largest_weight)

    def in_units(self, units: Units) -> Self:
        """Return the loss of 4^length · M and 4^length · δ, with the weights scaled too: ρ is of degree 2 in both."""
        twin = copy.copy(self)
        twin.entries = self.entries.scaled(2 * units.length, units.value - self.degree * units.length)
        twin.delta = shifted(self.delta, 2 * units.length)
        twin._constants = {}
        return twin

    # -- constants --------------------------------------------------------------------------------------------------

    @property
    def smoothness(self) -> float:
        """L_F = max w."""
        return self.entries.largest_weight

    @property
    def gradient_norm_at_zero(self) -> float:
        """‖w ∘ ψ(M)‖."""
        if "norm" not in self._constants:
            self._constants["norm"] = math.sqrt(self.entries.slopes(self.kind, self.delta).squared_norm)
        return self._constants["norm"]

    @property
    def curvature_at_zero(self) -> float:
        """max(0, −λ_min(w ∘ ψ(M)))."""
        if "curvature" not in self._constants:
            bound = negative_part_of_spectrum(self.entries.slopes(self.kind, self.delta), self._count)
            self._constants["curvature"] = min(bound, self.gradient_norm_at_zero)
        return self._constants["curvature"]

    # -- bookkeeping ------------------------------------------------------------------------------------------------

    @property
    def dtype(self) -> type[np.floating[Any]]:
        """The type of M."""
        return self.entries.dtype

    def fingerprint(self) -> str:
        """Return kind, δ, sizes and sums of the data."""
        return f"Robust {self.kind} delta={self.delta!r} {self.entries.fingerprint()}"

    def random_start(self, rank: int, nonnegative: bool, generator: np.random.Generator) -> Array:
        """Return the start of `LeastSquares`, its scale from entries cut off at three times their median size."""
        from quartic.losses.factor.loss import nonnegative_start

        size = self.entries.size_of_most()
        if nonnegative:
            return nonnegative_start(self.n_points, rank, self.entries.mean(3 * size), size, generator)
        # entries of XXᵀ for Gaussian X with entries of variance s have a variance of about r·s²
        return generator.standard_normal((self.n_points, rank)) * math.sqrt(size / math.sqrt(rank))
