"""The distance loss where every distance is known: read from the matrix in place."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, Self

import numpy as np

from quartic.arrays import Array, finite_matrix
from quartic.core.units import Units
from quartic.losses.devices import refuse_tensors
from quartic.losses.pairs.loss import QuarticPairs
from quartic.losses.pairs.pairs import COMPLETE, Pairs


class CompleteDistances(QuarticPairs):
    r"""All distances known: :math:`f(X) = \frac12\sum_{i<j}(\|x_i - x_j\|^2 - d_{ij}^2)^2`.

    What `Distances` is for a list of pairs, without the list: nothing of size n × n is made besides D.

    Parameters
    ----------
    D : array (n, n)
        Distances, not squares; symmetric. It is kept, not copied.

    Notes
    -----
    Constants: those of `Distances` with every degree n − 1, so L_F = 2n.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.losses import CompleteDistances
    >>> CompleteDistances(np.array([[0.0, 2.0], [2.0, 0.0]])).value(np.array([[0.0], [1.0]]))
    4.5
    """

    def __init__(self, D: Any) -> None:
        refuse_tensors("CompleteDistances", D=D)
        D = finite_matrix(D, "D")
        if D.shape[0] != D.shape[1]:
            raise ValueError(f"D must be square, one row and one column for each point, got shape {D.shape}")
        start = np.concatenate([[0], np.cumsum(np.arange(len(D) - 1, -1, -1))])
        super().__init__(Pairs(COMPLETE, start, None, D))

    @property
    def D(self) -> Any:
        """The distances."""
        return self.pairs.target

    @property
    def dtype(self) -> type[np.floating[Any]]:
        """Points are in float64, whatever the distances are in."""
        return np.float64

    def size(self) -> tuple[str, float]:
        """Return the number of points in words; the distances are the user's own."""
        return f"{self.n_points} points", 0.0

    def exponents(self) -> tuple[int | None, int | None] | None:
        """Return log₂ of about the largest distance."""
        return self.pairs.exponents()

    def in_units(self, units: Units) -> Self:
        """Return the loss of 2^length · D."""
        return self.with_pairs(self.pairs.scaled(units.length, 0))

    @property
    def smoothness(self) -> float:
        """2n."""
        return 2.0 * self.n_points

    @cached_property
    def _sums(self) -> tuple[Array, float]:
        """The sums of d² in each row, and of d⁴ over the pairs."""
        self._count()
        rows, fourth = np.empty(self.n_points), 0.0
        step = max(1, 2**19 // self.n_points)
        for first in range(0, self.n_points, step):
            squares = self.D[first : first + step].astype(np.float64) ** 2
            rows[first : first + step] = squares.sum(axis=1)
            fourth += float(np.einsum("ij,ij->", squares, squares))
        return rows, 0.5 * fourth

    @property
    def gradient_norm_at_zero(self) -> float:
        """‖∇F(0)‖, the norm of the graph Laplacian with weights d²."""
        rows, fourth = self._sums
        return math.sqrt(float(rows @ rows) + 2 * fourth)

    @property
    def curvature_at_zero(self) -> float:
        """0: ∇F(0) is negative semidefinite."""
        return 0.0

    @property
    def gradient_scale(self) -> float:
        """What multiplies eps·‖X‖ in the gradient's round-off: the largest row of the Laplacian, thrice."""
        return 4 * float(self._sums[0].max(initial=0.0))

    @property
    def value_at_zero(self) -> float:
        """f(0) = ½ Σ d⁴."""
        return 0.5 * self._sums[1]

    def random_start(self, rank: int, nonnegative: bool, generator: np.random.Generator) -> Array:
        """Return a centred Gaussian cloud, scaled so that f(tX) is least: one pass."""
        X: Array = generator.standard_normal((self.n_points, rank))
        return self.best_scale(np.abs(X) if nonnegative else X - X.mean(axis=0))

    def fingerprint(self) -> str:
        """Return kind, size and sums of the data."""
        rows, fourth = self._sums
        return f"CompleteDistances n={self.n_points} rows={float(rows @ np.arange(len(rows)))!r} fourth={fourth!r}"
