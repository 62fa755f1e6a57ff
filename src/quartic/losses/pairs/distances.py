"""The distance loss ½ Σ w (‖x_i − x_j‖² − d)², of some distances or of all."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, Self

import numpy as np

from quartic.arrays import Array, finite_matrix, inner
from quartic.core.units import Units
from quartic.losses.base import constant
from quartic.losses.devices import refuse_tensors
from quartic.losses.pairs.input import take_pairs
from quartic.losses.pairs.loss import PairLoss, PairSquares, QuarticPairs
from quartic.losses.pairs.pairs import COMPLETE, SQUARES, Pairs
from quartic.losses.point import Point

# From so many pairs on the scale of a random start is the expected one.
_MANY_PAIRS = 20_000
# From so many points on a few are expected to end up in the wrong place.
_MANY = 30_000
# Power iterations that bound L_F.
_ROUNDS = 10


class DistanceConstants(PairLoss):
    """The constants of F that losses over distances share, whatever their residuals: see `Distances`."""

    @constant
    def smoothness(self) -> float:
        """L_F ≤ 2 max w + λ_max(Deg_w + Adj_w)."""
        self._count(_ROUNDS)
        return self.pairs.largest_eigenvalue(_ROUNDS) + 2 * self.pairs.heaviest()

    @cached_property
    def _sums(self) -> tuple[Array, float, float]:
        """The diagonal of the Laplacian with weights w·d, Σ (w·d)² and Σ w·d²."""
        self._count()
        diagonal, squares, loss = self.pairs.degrees()
        return diagonal, float(squares), float(loss)

    @property
    def gradient_norm_at_zero(self) -> float:
        """‖∇F(0)‖, the norm of the graph Laplacian with weights w·d."""
        diagonal, squares, _ = self._sums
        return math.sqrt(float(inner(diagonal, diagonal)) + 2 * squares)

    @property
    def curvature_at_zero(self) -> float:
        """0: ∇F(0) is negative semidefinite."""
        return 0.0

    @property
    def gradient_scale(self) -> float:
        """What multiplies eps·‖X‖ in the gradient's round-off: the largest row of the Laplacian, thrice."""
        return 4 * self._largest_degree

    @cached_property
    def _largest_degree(self) -> float:
        return float(self._sums[0].max())


class Distances(DistanceConstants, PairSquares):
    r"""Distance completion :math:`f(X) = \frac12 \sum_{(i,j)\in\Omega} w_{ij}(\|x_i - x_j\|^2 - d_{ij})^2`.

    Each unordered pair counts once; the rows of X are the points.

    Parameters
    ----------
    pairs : int array (m, 2)
        The pairs (i, j) with known distance; i ≠ j. A pair given twice with the same value counts once. A Dask array or
        dataframe is kept in its chunks (`quartic.losses.DaskDistances` has options for that).
    squared : array (m,)
        The known *squared* distances.
    n_points : int, optional
        The number of points; the largest index + 1 when left out.
    weights : array (m,), optional
        Nonnegative weights; 1 when left out.

    Notes
    -----
    Constants. With A_ij = (e_i − e_j)(e_i − e_j)ᵀ, F(Y) = ½ Σ w (⟨A_ij, Y⟩ − d)², whose Hessian has the nonzero
    spectrum of W^½ K W^½ with K the Gram matrix of the A_ij: 4 on the diagonal, 1 for pairs that share a point, 0
    otherwise. Hence K = 2I + BᵀB with B the unsigned incidence matrix, and

        L_F ≤ 2 max w + λ_max(B W Bᵀ) = 2 max w + λ_max(Deg_w + Adj_w),

    with equality where all weights are 1; never above 2(max degree + 1), where the paper has 9·max degree.
    λ_max of that nonnegative matrix Q is bounded from above by max_i (Qx)_i / x_i for any x > 0 (Collatz and
    Wielandt), made tight by a few power iterations on x.
    μ_F = 0. ∇F(0) = −Σ w d A_ij is negative semidefinite, so ``curvature_at_zero`` is 0 and any σ > 0 is valid.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.losses import Distances
    >>> loss = Distances([[0, 1], [1, 2], [0, 2]], [1.0, 1.0, 2.0])
    >>> loss.value(np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]))
    0.0
    """

    def __init__(self, pairs: Any, squared: Any, n_points: int | None = None, weights: Any = None) -> None:
        ready = hasattr(pairs, "run")  # checked and sorted already
        super().__init__(pairs if ready else take_pairs(SQUARES, pairs, squared, n_points, weights, "squared"))

    @property
    def value_at_zero(self) -> float:
        """f(0) = ½ Σ w d²."""
        return 0.5 * self._sums[2]

    def random_start(self, rank: int, nonnegative: bool, generator: np.random.Generator) -> Array:
        """Return a centred Gaussian cloud tX, scaled so that f(tX) is least: one pass, or, with many pairs, none.

        For points of a standard normal cloud q = ‖x_i − x_j‖² is twice a χ² of r degrees: E q = 2r, E q² = 4r(r + 2).
        E f(tX) = ½ Σ w (t⁴E q² − 2t²d·E q + d²) is least at t² = (Σ wd / Σ w) / (2(r + 2)), of which the t of a cloud
        of n points is off by O(1/√n).
        """
        X: Array = self.space.normal(generator, (self.n_points, rank))
        if nonnegative:
            return self.best_scale(abs(X))
        X -= X.mean(axis=0)
        if self.n_pairs < _MANY_PAIRS:
            return self.best_scale(X)
        mean = 0.5 * float(self._sums[0].sum()) / (self.pairs.total_weight() or 1.0)
        return X * math.sqrt(mean / (2 * (rank + 2))) if 0 < mean < math.inf else self.best_scale(X)

    def replaced(self, p: Point) -> Array | None:
        """Return X with points that fit far worse than all others placed anew by their neighbours: one pass.

        For tensors and many points only: of a million a few end up in a local minimum of their own. For NumPy data the
        search behind `quartic.DistanceCompletion` sees to it.
        """
        if self.pairs.copies == 1 or self.n_points <= _MANY:
            return None
        from quartic.losses.pairs.torch import replace_outliers

        self._count()
        X: Array | None = replace_outliers(p.X, self.pairs)
        return X


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
