"""Robust fit of M by XXᵀ: entries far off pull with a bounded force."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from quartic.arrays import Array, as_floats, check_number, norm, trace_inner, working_dtype
from quartic.core.units import Units, exponent, shifted
from quartic.losses.base import Loss
from quartic.losses.factor.loss import nonnegative_start
from quartic.losses.factor.matrix import DenseMatrix, Matrix, SparseMatrix, as_matrix
from quartic.losses.factor.spectrum import negative_part_of_spectrum
from quartic.losses.factor.weighted import WeightedLeastSquares
from quartic.losses.gradient_point import GradientPoint
from quartic.losses.move import Move
from quartic.losses.point import Point

# ρ by name, in the order by which the compiled passes know them
KINDS = ("huber", "pseudo-huber", "logcosh")
# Blocks of XXᵀ are made and used while they are in cache; no more of it ever exists.
_BLOCK = 512


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
        entries = self.entries.scaled(2 * units.length, units.value - self.degree * units.length)
        return self._with(entries=entries, delta=shifted(self.delta, 2 * units.length))

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
        size = self.entries.size_of_most()
        if nonnegative:
            return nonnegative_start(self.n_points, rank, self.entries.mean(3 * size), size, generator)
        # entries of XXᵀ for Gaussian X with entries of variance s have a variance of about r·s²
        return generator.standard_normal((self.n_points, rank)) * math.sqrt(size / math.sqrt(rank))


def _passes() -> Any:
    """Return the compiled passes, which take a while to import."""
    from quartic.losses.other import robust_passes

    return robust_passes


class Entries(ABC):
    """The entries of M that count, with what passes over them give for ρ of this kind and δ."""

    n: int
    dtype: type[np.floating[Any]]
    largest_weight: float
    #: Σ w over all entries that count
    total_weight: float

    @abstractmethod
    def tangent(self, X: Array, kind: str, delta: float) -> tuple[float, Array]:
        """Return Σ w ρ(XXᵀ − M) and its gradient."""

    @abstractmethod
    def gap(self, X: Array, Y: Array, kind: str, delta: float) -> tuple[float, float, Array]:
        """Return f(Y), f(Y) − f(X) − ⟨∇f(X), Y − X⟩ and ∇f(Y)."""

    @abstractmethod
    def slopes(self, kind: str, delta: float) -> Matrix:
        """Return w ∘ ψ(M), which is −∇F(0)."""

    @abstractmethod
    def size_of_most(self) -> float:
        """Return a size that most |M_ij| do not exceed, whatever a few of them are."""

    @abstractmethod
    def mean(self, limit: float) -> float:
        """Return the mean of the entries, cut off at ±limit."""

    @abstractmethod
    def exponent(self) -> int | None:
        """Return log₂ of the size of M; None for M = 0."""

    @abstractmethod
    def scaled(self, power: int, weight_power: int) -> Entries:
        """Return the entries of 2^power · M, with weights 2^weight_power times as large."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a few words that tell these entries from others."""


class AllEntries(Entries):
    """Every entry of a dense or sparse symmetric matrix."""

    largest_weight = 1.0

    def __init__(self, matrix: Matrix) -> None:
        if not isinstance(matrix, DenseMatrix | SparseMatrix):
            raise TypeError(
                "Robust needs the entries of M, but M is a LinearOperator; pass an array or a sparse matrix"
            )
        self.matrix = matrix
        self.n, self.dtype = matrix.n, matrix.dtype
        self.total_weight = float(self.n) ** 2

    def tangent(self, X: Array, kind: str, delta: float) -> tuple[float, Array]:
        """Go over the blocks on and above the diagonal; those above count twice."""
        run, G, value = _passes().block_tangents(kind), np.zeros_like(X), 0.0
        for I, J in self._blocks():
            E = self._residual(X, I, J)
            value += (1 if I is J else 2) * run(E, delta)
            _add_products(G, E, X, I, J)
        G *= 2
        return value, G

    def gap(self, X: Array, Y: Array, kind: str, delta: float) -> tuple[float, float, Array]:
        """Go over the blocks, YYᵀ − XXᵀ = D(X + D/2)ᵀ + (X + D/2)Dᵀ with D = Y − X."""
        run, G, value, remainder = _passes().block_gaps(kind), np.zeros_like(Y), 0.0, 0.0
        D = Y - X
        middle = X + D / 2
        left, right = np.hstack([D, middle]), np.hstack([middle, D])
        for I, J in self._blocks():
            E, times = self._residual(X, I, J), 1 if I is J else 2
            there, missed = run(E, left[I] @ right[J].T, D[I] @ D[J].T, delta)
            value += times * there
            remainder += times * missed
            _add_products(G, E, Y, I, J)
        G *= 2
        return value, remainder, G

    def slopes(self, kind: str, delta: float) -> Matrix:
        """Return ψ(M), sparse where M is: ψ(0) = 0."""
        M: Any = self.matrix.M.copy()
        _passes().block_tangents(kind)(M.data if sp.issparse(M) else M, delta)
        return SparseMatrix(M) if sp.issparse(M) else DenseMatrix(M)

    def size_of_most(self) -> float:
        """Return the median |M_ij| of (a sample of) the stored entries."""
        return _median_size(self._stored())

    def mean(self, limit: float) -> float:
        """Return the mean over all n² entries."""
        return float(np.clip(self._stored(), -limit, limit).sum(dtype=np.float64)) / self.total_weight

    def exponent(self) -> int | None:
        """Return that of M."""
        return self.matrix.exponent()

    def scaled(self, power: int, weight_power: int) -> AllEntries:
        """Return the entries of 2^power · M, all of weight 1 as here."""
        assert weight_power == 0
        return AllEntries(self.matrix.scaled(power))

    def fingerprint(self) -> str:
        """Return the norm and a checksum of M."""
        return f"n={self.n} squared_norm={self.matrix.squared_norm!r} checksum={self.matrix.checksum():.6e}"

    def _stored(self) -> Array:
        M: Any = self.matrix.M
        stored: Array = M.data if sp.issparse(M) else M.ravel()
        return stored

    def _blocks(self) -> Iterator[tuple[slice, slice]]:
        parts = [slice(k, min(k + _BLOCK, self.n)) for k in range(0, self.n, _BLOCK)]
        return ((I, J) for a, I in enumerate(parts) for J in parts[a:])

    def _residual(self, X: Array, I: slice, J: slice) -> Array:
        E: Array = X[I] @ X[J].T
        M: Any = self.matrix.M
        E -= M[I, J].toarray() if sp.issparse(M) else M[I, J]
        return E


class KnownEntries(Entries):
    """The entries in the pattern of the weights."""

    def __init__(self, M: Any, weights: Any) -> None:
        known = WeightedLeastSquares(M, weights)  # it checks what comes in, and sorts the pairs
        assert known.weight is not None
        self.n, self.dtype = known.n_points, working_dtype(known.target.dtype)
        self.start, self.cols, self.target, self.weight = known.start, known.cols, known.target, known.weight
        self.largest_weight = known.smoothness
        self.total_weight = float(self.weight.sum(dtype=np.float64))
        self._words = known.fingerprint()

    def tangent(self, X: Array, kind: str, delta: float) -> tuple[float, Array]:
        """Go over the pairs."""
        G = np.empty_like(X)
        value = _passes().pair_tangents(kind)(X, self.start, self.cols, self.target, self.weight, delta, G)
        return value, G

    def gap(self, X: Array, Y: Array, kind: str, delta: float) -> tuple[float, float, Array]:
        """Go over the pairs."""
        G = np.empty_like(Y)
        data = self.start, self.cols, self.target, self.weight
        value, remainder = _passes().pair_gaps(kind)(X, Y, *data, delta, G)
        return value, remainder, G

    def slopes(self, kind: str, delta: float) -> Matrix:
        """Return w ∘ ψ(M) as a sparse matrix."""
        psi = self.target.astype(np.float64)
        _passes().block_tangents(kind)(psi, delta)
        upper = sp.csr_array((psi * self.weight, self.cols, self.start), shape=(self.n, self.n))
        return SparseMatrix((upper + upper.T) * 0.5)

    def size_of_most(self) -> float:
        """Return the median |M_ij| of (a sample of) the known entries."""
        return _median_size(self.target)

    def mean(self, limit: float) -> float:
        """Return the weighted mean of the known entries."""
        return float(np.dot(np.clip(self.target, -limit, limit), self.weight)) / self.total_weight

    def exponent(self) -> int | None:
        """Return that of the largest known entry."""
        return exponent(self.target)

    def scaled(self, power: int, weight_power: int) -> KnownEntries:
        """Return the entries of 2^power · M, with weights 2^weight_power times as large."""
        twin = copy.copy(self)
        twin.target, twin.weight = shifted(self.target, power), shifted(self.weight, weight_power)
        twin.largest_weight = shifted(self.largest_weight, weight_power)
        twin.total_weight = shifted(self.total_weight, weight_power)
        twin._words = f"{self._words} times 2^{power}, weights times 2^{weight_power}"
        return twin

    def fingerprint(self) -> str:
        """Return sizes and sums of the data."""
        return self._words


def _add_products(G: Array, E: Array, X: Array, I: slice, J: slice) -> None:
    G[I] += E @ X[J]
    if I is not J:
        G[J] += E.T @ X[I]


def _median_size(entries: Array) -> float:
    """Return the median of the |entries| that are not zero, of every k-th of them where there are many."""
    sample = np.abs(entries[:: max(1, len(entries) // 100_000)])
    sample = sample[sample > 0]
    return float(np.median(sample)) if len(sample) else float(np.abs(entries).max(initial=0.0))
