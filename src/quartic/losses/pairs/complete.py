"""The distance loss where every distance is known: read from the matrix in place."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from quartic.arrays import Array, finite_matrix
from quartic.core.units import Units
from quartic.losses.devices import refuse_tensors
from quartic.losses.pairs.distances import DistanceConstants
from quartic.losses.pairs.loss import QuarticPairs
from quartic.losses.pairs.pairs import COMPLETE, Pairs


class CompleteDistances(DistanceConstants, QuarticPairs):
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
        self.dtype = np.float64  # of points, whatever the distances are in

    @property
    def D(self) -> Any:
        """The distances."""
        return self.pairs.target

    def size(self) -> tuple[str, float]:
        """Return the number of points in words; the distances are the user's own."""
        return f"{self.n_points} points", 0.0

    def in_units(self, units: Units) -> Self:
        """Return the loss of 2^length · D."""
        return self.with_pairs(self.pairs.scaled(units.length, 0))

    @property
    def smoothness(self) -> float:
        """2n."""
        return 2.0 * self.n_points

    @property
    def value_at_zero(self) -> float:
        """f(0) = ½ Σ d⁴."""
        return 0.5 * self._sums[2]

    def random_start(self, rank: int, nonnegative: bool, generator: np.random.Generator) -> Array:
        """Return a centred Gaussian cloud, scaled so that f(tX) is least: one pass."""
        X: Array = generator.standard_normal((self.n_points, rank))
        return self.best_scale(np.abs(X) if nonnegative else X - X.mean(axis=0))
