"""Known entries of a symmetric matrix, ½ Σ w (⟨x_i, x_j⟩ − M_ij)², and its completion from them."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from quartic.arrays import Array, check_count, check_number, inner, squared_norm
from quartic.core.units import Units, shifted
from quartic.losses.base import Point, constant
from quartic.losses.devices import brought_here
from quartic.losses.factor.loss import nonnegative_start
from quartic.losses.factor.matrix import SparseMatrix
from quartic.losses.factor.spectrum import factor_of_positive_part, negative_part_of_spectrum
from quartic.losses.pairs.input import check_column, each_once, place_pairs
from quartic.losses.pairs.loss import PairSquares
from quartic.losses.pairs.pairs import ENTRIES, LINE, QUARTIC, REMAINDER, Pairs


class KnownEntries(PairSquares):
    """A sum over known entries of a symmetric matrix; of each entry off the diagonal one stands for two.

    Constants. With W the symmetric matrix that has w on the diagonal and ½w off it, the Hessian of F is Y ↦ W ∘ Y: L_F
    is its largest entry, and μ_F its least where every entry is known, else 0. ∇F(0) = −W ∘ M.
    """

    def __init__(self, pairs: Pairs) -> None:
        super().__init__(pairs)
        listed = self._listed
        symmetric = np.where(listed.rows == listed.cols, listed.weight, 0.5 * listed.weight)
        self._largest, self._least = float(symmetric.max()), float(symmetric.min())
        self._full = len(pairs) == self.n_points * (self.n_points + 1) // 2

    @cached_property
    def _listed(self) -> Pairs:
        """The entries on the host, each once: what constants and starts are worked out from."""
        return self.pairs.on_host()

    def in_units(self, units: Units) -> Self:
        twin, power = super().in_units(units), units.value - self.degree * units.length
        twin._largest, twin._least = shifted(self._largest, power), shifted(self._least, power)
        return twin

    @property
    def smoothness(self) -> float:
        """L_F = max w."""
        return self._largest

    @property
    def strong_convexity(self) -> float:
        """μ_F = min w where every entry is known, else 0."""
        return self._least if self._full else 0.0

    @cached_property
    def _gradient_at_zero(self) -> Any:
        """−∇F(0)."""
        return self.weigh(self._listed.target)

    def weigh(self, values: Array) -> Any:
        """Return W ∘ V as a sparse symmetric matrix, with V known where M is, by values in the same order."""
        listed, n = self._listed, self.n_points
        upper = sp.csr_array((values * listed.weight, listed.cols, listed.start), shape=(n, n), dtype=np.float64)
        return ((upper + upper.T) * 0.5).tocsr()

    @property
    def gradient_norm_at_zero(self) -> float:
        """‖w ∘ M‖."""
        return float(np.linalg.norm(self._gradient_at_zero.data))

    @constant
    def curvature_at_zero(self) -> float:
        """max(0, −λ_min(w ∘ M))."""
        bound = negative_part_of_spectrum(SparseMatrix(self._gradient_at_zero), self.count_products)
        return min(bound, self.gradient_norm_at_zero)

    @cached_property
    def gradient_scale(self) -> float:
        """What multiplies eps·‖X‖ in the gradient's round-off: the largest row sum of w|M|, four times."""
        return 4 * float(abs(self._gradient_at_zero).sum(axis=1).max())

    def mean_entry(self) -> float:
        """Return the weighted mean of the known entries."""
        return float(np.dot(self._listed.target, self._listed.weight) / self._listed.weight.sum())

    @property
    def value_at_zero(self) -> float:
        """f(0) = ½ Σ w M²."""
        return 0.5 * float(np.dot(np.square(self._listed.target, dtype=np.float64), self._listed.weight))

    def random_start(self, rank: int, nonnegative: bool, generator: np.random.Generator) -> Array:
        """Return the start of `LeastSquares`, with the mean of the known entries."""
        if nonnegative:
            size = math.sqrt(2 * self.value_at_zero / float(self._listed.weight.sum()))
            return nonnegative_start(self.n_points, rank, self.mean_entry(), size, generator, self.space)
        return self.best_scale(self.space.normal(generator, (self.n_points, rank)))

    def spectral_start(self, rank: int, nonnegative: bool, generator: np.random.Generator) -> Array:
        """Return the leading eigenvectors of M filled with zeros, scaled so that f(tX) is least; random if X ≥ 0."""
        if nonnegative:
            return self.random_start(rank, True, generator)

        def product(V: Array) -> Array:
            self.count_products()
            NV: Array = self._gradient_at_zero @ V
            return NV

        X = factor_of_positive_part(product, self.n_points, rank, generator)
        return self.best_scale(self.space.adopt(X)) if X.any() else self.random_start(rank, False, generator)


class Completion(KnownEntries):
    r"""Completion :math:`f(X) = \frac12\sum_{(i,j)\in\Omega} w_{ij}((XX^T)_{ij} - M_{ij})^2 + \frac\rho2\|X\|^2`.

    The sum runs over the entries as they are listed. M is symmetric, so (i, j) and (j, i) say the same thing: list one
    of them and it counts once, list both and both count, as in ½‖P_Ω(XXᵀ − M)‖² for a symmetric pattern. The same
    (i, j) listed twice counts once. Wherever an entry is given more than once its values must agree.

    A pass costs O(|Ω| r). `minimize` starts from the leading eigenvectors of M with zeros for what is unknown.

    Parameters
    ----------
    rows, cols : int arrays (m,)
        The places of the known entries, counted from 0; i = j is allowed.
    values : array (m,)
        M there. Where these are torch tensors, all is done on their device.
    n : int, optional
        The number of rows of M; the largest index + 1 when left out.
    weights : array (m,), optional
        Nonnegative weights; 1 when left out.
    ridge : float, default=0
        ρ. The penalty `quartic.penalties.Ridge` does the same; here it goes with any penalty.

    Notes
    -----
    Constants. For symmetric Y, F(Y) = ½ Σ W_ij (Y_ij − M_ij)² + ½ρ tr Y with W = (w + wᵀ)/2 over all ordered (i, j),
    since an entry off the diagonal stands for two. The Hessian is Y ↦ W ∘ Y, so L_F = max W (½ where every entry is
    listed once, off the diagonal; 1 with both triangles or the diagonal) and μ_F = min W if nothing is missing, else
    0. ∇F(0) = −W ∘ M + ½ρI, whose norm and largest eigenvalue are the other two constants.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic import Problem, minimize
    >>> from quartic.losses import Completion
    >>> truth = np.arange(1.0, 7.0)[:, None]                     # M = x xᵀ
    >>> rows, cols = np.array([0, 0, 1, 2, 3, 4]), np.array([0, 1, 2, 3, 4, 5])
    >>> loss = Completion(rows, cols, (truth @ truth.T)[rows, cols], n=6)
    >>> X = minimize(Problem(loss), rank=1, tol=1e-10, random_state=0).X
    >>> round(float((X @ X.T)[0, 5]), 6)                         # an entry that was not given
    6.0
    """

    def __init__(
        self, rows: Any, cols: Any, values: Any, n: int | None = None, *, weights: Any = None, ridge: float = 0.0
    ) -> None:
        check_number(ridge, "ridge", zero=True)
        space, (rows, cols, values, weights) = brought_here(rows=rows, cols=cols, values=values, weights=weights)
        i, j, n_points = _check_places(rows, cols, n)
        values = check_column(values, len(i), "values", nonnegative=False)
        weight = np.ones_like(values)
        if weights is not None:
            weight = check_column(weights, len(i), "weights", nonnegative=True).astype(values.dtype, copy=False)
            if not weight.any():
                raise ValueError("weights are all zero: no entry of M is known")
        super().__init__(place_pairs(_known_once(i, j, values, weight, n_points), space))
        self.ridge = float(ridge)

    # The ridge is linear in XXᵀ: F + ½ρ tr stays in the class, and every pass has its part of it added.

    def _run(
        self, mode: int, X: Array, Y: Array | None = None, out: Array | None = None, blocks: Array | None = None
    ) -> tuple[float, ...]:
        """Make a pass, and add what ½ρ‖X‖² adds to it; for Gauss–Newton the residual has √ρ·X besides."""
        numbers, ridge = super()._run(mode, X, Y, out, blocks), self.ridge
        if not ridge:
            return numbers
        there = X if Y is None else Y
        if out is not None:
            out = out[:, 0] if mode == LINE else out
            out += ridge * there
        if blocks is not None:
            blocks[:, [k * (k + 3) // 2 for k in range(X.shape[1])]] += ridge
        half = 0.5 * ridge * squared_norm(there)
        if mode in (LINE, QUARTIC):
            c1, c2, c3, c4 = numbers
            return c1 + ridge * inner(X, there), c2 + half, c3, c4
        if mode == REMAINDER:
            return numbers[0] + half, numbers[1] + 0.5 * ridge * squared_norm(there - X)
        return tuple(number + half for number in numbers)

    def gauss_newton_matrix(self, p: Point) -> Any:
        """Return JᵀWJ + ρI."""
        A = super().gauss_newton_matrix(p)
        return (A + self.ridge * sp.eye_array(A.shape[0])).tocsc() if self.ridge else A

    def in_units(self, units: Units) -> Self:
        """Return the loss in other units; ρ‖X‖² is of degree 2 where the squares are of degree 4."""
        twin = super().in_units(units)
        twin.ridge = shifted(self.ridge, units.value - 2 * units.length)
        return twin

    def fingerprint(self) -> str:
        return super().fingerprint() + (f" ridge={self.ridge!r}" if self.ridge else "")

    @cached_property
    def _gradient_at_zero(self) -> Any:
        """W ∘ M − ½ρI: −∇F(0)."""
        plain = self.weigh(self._listed.target)
        return (plain - 0.5 * self.ridge * sp.eye_array(self.n_points)).tocsr() if self.ridge else plain

    default_start = KnownEntries.spectral_start


def _check_places(rows: Any, cols: Any, n: int | None) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Return rows and columns as int64 arrays and n, or raise an error that names the place."""
    if n is not None:
        check_count(n, "n")
    clean = []
    for name, given in (("rows", rows), ("cols", cols)):
        index = np.asarray(given)
        if index.ndim != 1:
            raise ValueError(f"{name} must be 1-D, one index for each known entry, got shape {index.shape}")
        if not len(index):
            raise ValueError(f"{name} is empty; at least one known entry is needed")
        if index.dtype.kind not in "iu":
            raise TypeError(f"{name} must be integer indices, got dtype {index.dtype}")
        index = index.astype(np.int64)
        bad = (index < 0) | (index >= (np.iinfo(np.int32).max if n is None else n))
        if bad.any():
            k = int(np.argmax(bad))
            limit = "" if n is None else f" and below n = {n}"
            raise ValueError(f"{name}[{k}] = {index[k]}, but indices count from 0{limit}")
        clean.append(index)
    i, j = clean
    if len(i) != len(j):
        raise ValueError(f"rows and cols must be of one length, got {len(i)} and {len(j)}")
    return i, j, int(max(i.max(), j.max())) + 1 if n is None else int(n)


def _known_once(i: NDArray[np.int64], j: NDArray[np.int64], values: Array, weight: Array, n: int) -> Pairs:
    """Return the entries with i ≤ j, sorted, each once; its weight is the sum of those of (i, j) and (j, i)."""
    low, high = np.minimum(i, j), np.maximum(i, j)
    order = each_once(i, j, n, {"": values, "weight ": weight}, "entry")  # (i, j) and (j, i) apart
    low, high, values, weight = low[order], high[order], values[order], weight[order]
    first = each_once(low, high, n, {"": values}, "entry", " of a symmetric matrix")
    total = np.zeros(len(first), weight.dtype)
    key = (low * n + high)[first]
    np.add.at(total, np.searchsorted(key, low * n + high), weight)
    start = np.concatenate([[0], np.cumsum(np.bincount(low[first], minlength=n))])
    return Pairs(ENTRIES, start, high[first].astype(np.int32), np.ascontiguousarray(values[first]), total)
