"""Distances known to lie between bounds: the penalty is zero inside, and grows smoothly outside. Raw stress."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

from quartic.arrays import Array
from quartic.losses.devices import refuse_tensors
from quartic.losses.pairs.distances import DistanceConstants
from quartic.losses.pairs.input import take_intervals
from quartic.losses.pairs.pairs import BOUNDS, ROOTS
from quartic.losses.point import Point


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
    n_points : int, optional
        The number of points; the largest index + 1 when left out.
    weights : array (m,), optional
        Nonnegative weights; 1 when left out.

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

    def gauss_newton_matrix(self, p: Point) -> Any:
        """Return JᵀWJ as a sparse matrix; pairs within their bounds have no part in it: one pass."""
        self._count()
        return self.pairs.gauss_newton_matrix(p.X)

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

    def random_start(self, rank: int, nonnegative: bool, generator: np.random.Generator) -> Array:
        """Return a centred Gaussian cloud, scaled so that f(tX) is least: passes."""
        X: Array = generator.standard_normal((self.n_points, rank))
        return self.best_scale(np.abs(X) if nonnegative else X - X.mean(axis=0))


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
    n_points : int, optional
        The number of points; the largest index + 1 when left out.
    weights : array (m,), optional
        Nonnegative weights; 1 when left out.

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
