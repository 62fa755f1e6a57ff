"""Known entries of a symmetric matrix: ½ Σ w (⟨x_i, x_j⟩ − M_ij)² over pairs, and what is known of that loss."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from quartic.arrays import Array
from quartic.core.units import Units, shifted
from quartic.losses.base import constant
from quartic.losses.factor.loss import nonnegative_start
from quartic.losses.factor.matrix import SparseMatrix
from quartic.losses.factor.spectrum import negative_part_of_spectrum
from quartic.losses.pairs.loss import PairSquares
from quartic.losses.pairs.pairs import Pairs


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
        """Return the loss of 4^length · M, with the weights scaled too."""
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
        return self._weighted_entries()

    def _weighted_entries(self) -> Any:
        """Return W ∘ M as a sparse symmetric matrix."""
        listed, n = self._listed, self.n_points
        upper = sp.csr_array((listed.target * listed.weight, listed.cols, listed.start), shape=(n, n), dtype=np.float64)
        return ((upper + upper.T) * 0.5).tocsr()

    @property
    def gradient_norm_at_zero(self) -> float:
        """‖w ∘ M‖."""
        return float(np.linalg.norm(self._gradient_at_zero.data))

    @constant
    def curvature_at_zero(self) -> float:
        """max(0, −λ_min(w ∘ M))."""
        bound = negative_part_of_spectrum(SparseMatrix(self._gradient_at_zero), self._count)
        return min(bound, self.gradient_norm_at_zero)

    @property
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
