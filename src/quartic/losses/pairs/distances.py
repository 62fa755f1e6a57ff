"""Losses of distances: squares of some or all of them, bounds on them, raw stress."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

from quartic.arrays import Array, finite_matrix, inner
from quartic.arrays.checks import count
from quartic.core.units import Units
from quartic.losses.base import Point, constant
from quartic.losses.devices import refuse_tensors
from quartic.losses.pairs.input import take_intervals, take_pairs
from quartic.losses.pairs.loss import PairLoss, PairSquares
from quartic.losses.pairs.pairs import BOUNDS, COMPLETE, ROOTS, SQUARES, Pairs

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
        self.count_products(_ROUNDS)
        return self.pairs.largest_eigenvalue(_ROUNDS) + 2 * self.pairs.heaviest()

    @cached_property
    def _sums(self) -> tuple[Array, float, float]:
        """The diagonal of the Laplacian with weights w·d, Σ (w·d)² and Σ w·d²."""
        self.count_products()
        diagonal, squares, loss = self.pairs.degrees()
        return diagonal, float(squares), float(loss)

    @property
    def value_at_zero(self) -> float:
        """f(0) = ½ Σ w d², d being what is known of a pair."""
        return 0.5 * self._sums[2]

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
        """What multiplies eps·‖X‖ in the gradient's round-off: the largest degree, four times."""
        return 4 * self._largest_degree

    @cached_property
    def _largest_degree(self) -> float:
        return float(self._sums[0].max())

    def random_start(self, rank: int, nonnegative: bool, generator: np.random.Generator) -> Array:
        """Return a centred Gaussian cloud, scaled so that f(tX) is least."""
        X = self.space.normal(generator, (self.n_points, rank))
        return self.best_scale(abs(X) if nonnegative else X - X.mean(axis=0))


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

    def random_start(self, rank: int, nonnegative: bool, generator: np.random.Generator) -> Array:
        """Return a centred Gaussian cloud tX, scaled so that f(tX) is least: one pass, or, with many pairs, none.

        For points of a standard normal cloud q = ‖x_i − x_j‖² is twice a χ² of r degrees: E q = 2r, E q² = 4r(r + 2).
        E f(tX) = ½ Σ w (t⁴E q² − 2t²d·E q + d²) is least at t² = (Σ wd / Σ w) / (2(r + 2)), of which the t of a cloud
        of n points is off by O(1/√n).
        """
        if nonnegative or self.n_pairs < _MANY_PAIRS:
            return super().random_start(rank, nonnegative, generator)
        X: Array = self.space.normal(generator, (self.n_points, rank))
        X -= X.mean(axis=0)
        mean = 0.5 * float(self._sums[0].sum()) / (self.pairs.total_weight() or 1.0)
        return X * math.sqrt(mean / (2 * (rank + 2))) if 0 < mean < math.inf else self.best_scale(X)

    def centred(self) -> tuple[Callable[[Array], Array], float] | None:
        """Return the product with the known squares, centred, and the size of noise in it (`Pairs.centred`)."""
        return self.pairs.centred()

    def replaced(self, p: Point) -> Array | None:
        """Return X with points that fit far worse than all others placed anew by their neighbours: one pass.

        For tensors and many points only: of a million a few end up in a local minimum of their own. For NumPy data the
        search behind `quartic.DistanceCompletion` sees to it.
        """
        if self.pairs.copies == 1 or self.n_points <= _MANY:
            return None
        from quartic.losses.pairs.torch import replace_outliers

        self.count_products()
        X: Array | None = replace_outliers(p.X, self.pairs)
        return X


class CompleteDistances(DistanceConstants, PairSquares):
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
        return count(self.n_points, "point"), 0.0

    def in_units(self, units: Units) -> Self:
        return self.with_pairs(self.pairs.scaled(units.length, 0))

    @property
    def smoothness(self) -> float:
        """2n."""
        return 2.0 * self.n_points


class BoundedDistances(DistanceConstants):
    r"""Bounds on squared distances :math:`f = \frac12\sum w_{ij}(\max(0, q_{ij}-u_{ij})^2+\max(0, l_{ij}-q_{ij})^2)`.

    Here :math:`q_{ij} = \|x_i - x_j\|^2`. A pair within its bounds costs nothing; where l = u it is the term of
    `Distances`. F is convex and smooth but not quadratic, so solvers that need a quartic on lines do not apply: ``lm``,
    ``gd`` and the Bregman methods do.

    Parameters
    ----------
    pairs : int array (m, 2)
        The pairs (i, j), i ≠ j.
    lower, upper : array (m,)
        Bounds on the *squared* distances; ``upper`` may be infinite.
    n_points, weights : optional
        As in `Distances`.

    Notes
    -----
    Constants. Each term is ½w·dist(⟨A_ij, Y⟩, [l, u])², whose second derivative is that of the term of `Distances`
    outside the interval and 0 inside: L_F of `Distances` is an upper bound. ∇F(0) = −Σ w l A_ij.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.losses import BoundedDistances
    >>> loss = BoundedDistances([[0, 1]], lower=[1.0], upper=[4.0])
    >>> loss.value(np.array([[0.0], [1.5]])), loss.value(np.array([[0.0], [3.0]]))
    (0.0, 12.5)
    """

    kind: ClassVar[int] = BOUNDS

    def __init__(self, pairs: Any, lower: Any, upper: Any, n_points: int | None = None, weights: Any = None) -> None:
        refuse_tensors(type(self).__name__, pairs=pairs, lower=lower, upper=upper, weights=weights)
        super().__init__(take_intervals(type(self).kind, pairs, lower, upper, n_points, weights))

    @property
    def upper(self) -> Any:
        """The upper bound of each pair."""
        return self.pairs.upper

    @cached_property
    def _largest_degree(self) -> float:
        """The largest sum over a point's pairs of w times its finite bounds."""
        bound = np.where(np.isfinite(self.upper), self.upper, self.target)
        return float(self.pairs.sum_by_point(bound if self.weight is None else self.weight * bound).max(initial=0.0))

    def best_scale(self, X: Array) -> Array:
        """Return the tX with the least f(tX), among a hundred t on a logarithmic scale and their neighbours: passes."""
        from scipy.optimize import minimize_scalar

        sizes = np.linalg.norm(X[self.rows] - X[self.cols], axis=1)
        wanted = np.where(np.isfinite(self.upper), 0.5 * (self.target + self.upper), self.target)
        wanted = wanted if self.pairs.kind == ROOTS else np.sqrt(wanted)
        known = (sizes > 0) & (wanted > 0)
        if not known.any():
            return X
        guess = float(np.median(wanted[known] / sizes[known]))
        found = minimize_scalar(lambda t: self.at(X * (guess * np.exp(t))).value, bounds=(-2.0, 2.0), method="bounded")
        scaled: Array = X * (guess * np.exp(float(found.x)))
        return scaled


class RawStress(BoundedDistances):
    r"""Raw stress :math:`f(X) = \frac12\sum w_{ij}(\|x_i - x_j\| - d_{ij})^2`, the refinement for noisy distances.

    Noise is as a rule on distances, not on their squares: squares let the long ones rule. This loss has no smooth F
    (it bends sharply where points meet) and more local minima, so it is for the end, from a good point, with ``lm``.

    Parameters
    ----------
    pairs : int array (m, 2)
        The pairs (i, j), i ≠ j.
    distances : array (m,)
        The known distances; lower bounds of them where ``upper`` is given.
    upper : array (m,), optional
        Upper bounds; ``distances`` when left out.
    n_points, weights : optional
        As in `Distances`.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.losses import RawStress
    >>> RawStress([[0, 1]], [2.0]).value(np.array([[0.0], [3.0]]))
    0.5
    """

    kind = ROOTS
    degree = 2

    def __init__(
        self, pairs: Any, distances: Any, upper: Any = None, n_points: int | None = None, weights: Any = None
    ) -> None:
        super().__init__(pairs, distances, distances if upper is None else upper, n_points, weights)

    @property
    def smoothness(self) -> float:
        """Infinity: the second derivative grows without bound where two points meet."""
        return math.inf

    @cached_property
    def _largest_degree(self) -> float:
        """The largest sum of weights at a point."""
        return float(self.pairs.sum_by_point(self.pairs.weights()).max(initial=0.0))

    def laplacian_solve(self, G: Array) -> Array:
        """Return a Z with VZ = G, V the graph Laplacian of the weights; G sums to 0 over each connected component."""
        free, factor = self._laplacian
        Z: Array = np.zeros_like(G)
        if factor is not None:
            Z[free] = factor.solve(np.asarray(G[free], np.float64))
        Z -= Z.mean(axis=0)
        return Z

    @cached_property
    def _laplacian(self) -> tuple[Any, Any]:
        """All points but one of each component, which stays where it is, and sparse factors of V there."""
        n = self.n_points
        W = sp.coo_array((self.pairs.weights(), (self.rows, self.cols)), (n, n)).tocsr()
        W = W + W.T
        held = np.unique(connected_components(W, directed=False)[1], return_index=True)[1]
        free = np.setdiff1d(np.arange(n), held)
        V = sp.diags_array(np.asarray(W.sum(axis=1)).ravel()) - W
        return free, splu(V.tocsc()[free][:, free].tocsc(), permc_spec="MMD_AT_PLUS_A") if len(free) else None
