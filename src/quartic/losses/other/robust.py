"""Robust fit of M by XXᵀ: entries far off pull with a bounded force."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from quartic.arrays import (
    HOST,
    Array,
    Space,
    as_floats,
    check_number,
    copy,
    eps,
    inner,
    namespace,
    norm,
    to_host,
    total,
)
from quartic.core.units import Units, shifted
from quartic.losses.base import Loss, Point, constant, cube_norm
from quartic.losses.factor.loss import FullLeastSquares, nonnegative_start
from quartic.losses.factor.matrix import Matrix, SparseMatrix, as_matrix
from quartic.losses.factor.spectrum import negative_part_of_spectrum
from quartic.losses.factor.weighted import WeightedLeastSquares

# ρ by name, in the order by which the compiled passes know them
KINDS = ("huber", "pseudo-huber", "logcosh")
# Blocks of XXᵀ are made and used while they are in cache; no more of it ever exists. A device likes them larger.
_BLOCK, _DEVICE_BLOCK = 512, 4096
# Beyond so many times the largest entry δ is as good as none: ρ and a parabola differ by 1e-13 of their size.
_PARABOLA = 2.0**20


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
        # the least-squares loss of the same entries, which has checked them
        self.data: Any = FullLeastSquares(as_matrix(M, 1.0)) if known is None else WeightedLeastSquares(M, known)
        self.n_points, self.space, self.dtype = self.data.n_points, self.data.space, self.data.dtype
        if self.matrix is not None and not self.matrix.shows_entries:
            raise TypeError("Robust needs the entries of M; pass an array, a dense tensor or a SciPy sparse matrix")
        if self.matrix is not None and self.space is not HOST and self.matrix.places() is not None:
            raise TypeError("Robust takes tensors that are dense, or weights; pass M.to_dense(), or a SciPy matrix")
        if self.delta < np.finfo(self.dtype).eps * self._largest:
            raise ValueError(
                f"delta = {delta!r} is below the round-off of the entries of M, the largest of which is "
                f"{self._largest:.3g}; delta is an error in the units of M"
            )

    @property
    def matrix(self) -> Any:
        """M, where every entry counts; None with weights."""
        return self.data.matrix if isinstance(self.data, FullLeastSquares) else None

    @property
    def _known(self) -> Array:
        """The known entries of M, or all that are not zero."""
        entries: Array = self.data.target if self.matrix is None else self.matrix.entries()
        return entries

    @constant
    def _largest(self) -> float:
        """The largest |M_ij|."""
        return self.space.largest(self._known)

    # -- the point --------------------------------------------------------------------------------------------------

    def at(self, X: Array) -> Point:
        """Return the point at X; XXᵀ is made block by block, on and above the diagonal, unless entries are listed."""
        X = as_floats(X)
        self.count_products()
        # far beyond all residuals ρ is a parabola: that of Huber is exact, and its squares stay in floating point
        limit = _PARABOLA * self._largest or 1.0
        kind, delta = (self.kind, self.delta) if self.delta < limit else ("huber", limit)
        passes, G, value = passes_in(self.space), namespace(X).zeros_like(X), 0.0
        if self.matrix is None:
            known = self.data.pairs
            value = passes.pairs(kind)(X, known.start, known.cols, known.target, known.weight, delta, G)
            return self._point(X, value, G)
        run, size = passes.blocks(kind), _BLOCK if self.space is HOST else _DEVICE_BLOCK
        parts = [slice(k, min(k + size, self.n_points)) for k in range(0, self.n_points, size)]
        for a, I in enumerate(parts):
            for J in parts[a:]:
                E = self._residual(X, I, J)
                value += run(E, delta) * (1 if I is J else 2)
                G[I] += E @ X[J]
                if I is not J:
                    G[J] += E.T @ X[I]
        G *= 2
        return self._point(X, value, G)

    def _rounding(self, p: Point) -> float:
        """Return about eps·max w·(‖X(XᵀX)‖ + ψ‖X‖), four times: entries of XXᵀ are known to eps of their size.

        ψ is the largest slope that entries of M and XXᵀ, beside which it is small where X is large, can leave.
        """
        slopes = min(self.delta, self._largest) * norm(p.X)
        return 4 * eps(p.X) * self.smoothness * (cube_norm(to_host(p.gram)) + slopes)

    def _residual(self, X: Array, I: slice, J: slice) -> Array:
        E: Array = X[I] @ X[J].T
        M: Any = self.matrix.M
        E -= M[I, J].toarray() if sp.issparse(M) else M[I, J]
        return E

    # -- scale ------------------------------------------------------------------------------------------------------

    def exponents(self) -> tuple[int | None, int | None] | None:
        return self.data.exponents()

    def in_units(self, units: Units) -> Self:
        """Return the loss of 4^length · M and 4^length · δ, with the weights scaled too: ρ is of degree 2 in both."""
        return self._with(data=self.data.in_units(units), delta=shifted(self.delta, 2 * units.length))

    # -- constants --------------------------------------------------------------------------------------------------

    @property
    def smoothness(self) -> float:
        return float(self.data.smoothness)

    @constant
    def gradient_norm_at_zero(self) -> float:
        return math.sqrt(self._slopes().squared_norm)

    @constant
    def curvature_at_zero(self) -> float:
        return min(negative_part_of_spectrum(self._slopes(), self.count_products), self.gradient_norm_at_zero)

    def _slopes(self) -> Matrix:
        """Return w ∘ ψ(M), which is −∇F(0), sparse where M is: ψ(0) = 0."""
        if self.matrix is not None:
            psi = copy(self.matrix.entries())
            passes_in(self.space).blocks(self.kind)(psi, self.delta)
            return as_matrix(psi if self.matrix.places() is None else self.matrix.with_entries(psi))
        psi = self.data.pairs.on_host().target.astype(np.float64)
        passes_in(HOST).blocks(self.kind)(psi, self.delta)
        return SparseMatrix(self.data.weigh(psi))

    # -- bookkeeping ------------------------------------------------------------------------------------------------

    def fingerprint(self) -> str:
        return f"Robust {self.kind} delta={self.delta!r} {self.data.fingerprint()}"

    def random_start(self, rank: int, nonnegative: bool, generator: np.random.Generator) -> Array:
        """Return the start of `LeastSquares`, its scale from entries cut off at three times their median size."""
        entries = self._known
        size = _median_size(entries.reshape(-1))
        if not nonnegative:
            # entries of XXᵀ for Gaussian X with entries of variance s have a variance of about r·s²
            return self.space.normal(generator, (self.n_points, rank)) * math.sqrt(size / math.sqrt(rank))
        clipped = namespace(entries).clip(entries, -3 * size, 3 * size)
        if self.matrix is None:
            mean = float(inner(clipped, self.data.weight)) / float(total(self.data.weight))
        else:
            mean = float(total(clipped)) / float(self.n_points) ** 2
        return nonnegative_start(self.n_points, rank, mean, size, generator, self.space)


def passes_in(space: Space) -> Any:
    """Return the passes for where the entries are: compiled ones, which take a while to import, or torch's."""
    if space is HOST:
        from quartic.losses.other import robust_passes

        return robust_passes
    from quartic.losses.other import robust_torch

    return robust_torch


def _median_size(entries: Array) -> float:
    """Return the median of the |entries| that are not zero, of every k-th of them where there are many."""
    sample = abs(to_host(entries[:: max(1, len(entries) // 100_000)]))
    sample = sample[sample > 0]
    return float(np.median(sample)) if len(sample) else float(abs(to_host(entries)).max(initial=0.0))
