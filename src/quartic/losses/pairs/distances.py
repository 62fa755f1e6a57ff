"""The distance loss ½ Σ w (‖x_i − x_j‖² − d)² of Euclidean distance matrix completion."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from quartic.arrays import Array, float_type, inner, is_torch, passes, total
from quartic.arrays.space import space_of
from quartic.distributed.inputs import is_dask_array, is_dask_frame
from quartic.losses.pairs.input import check_pairs, merge_duplicates
from quartic.losses.pairs.pair_squares import PairPoint, PairSquares
from quartic.losses.point import Point

# From so many pairs on the scale of a random start is the expected one.
_MANY_PAIRS = 20_000


class Distances(PairSquares):
    r"""Distance completion :math:`f(X) = \frac12 \sum_{(i,j)\in\Omega} w_{ij}(\|x_i - x_j\|^2 - d_{ij})^2`.

    Each unordered pair counts once; the rows of X are the points.

    Parameters
    ----------
    pairs : int array (m, 2)
        The pairs (i, j) with known distance; i ≠ j. A pair given twice with the same value counts once. A Dask array or
        dataframe makes it a `quartic.losses.DaskDistances`.
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

    difference = True
    relocates = True
    widens = True

    def __new__(cls, pairs: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Return a `DaskDistances` where the pairs are Dask's."""
        if cls is Distances and (is_dask_array(pairs) or is_dask_frame(pairs)):
            from quartic.losses.blocks.dask_distances import DaskDistances

            return super().__new__(DaskDistances)
        return super().__new__(cls)

    def __init__(self, pairs: Any, squared: Any, n_points: int | None = None, weights: Any = None) -> None:
        super().__init__()
        if any(is_torch(A) for A in (pairs, squared, weights)):
            self._take_tensors(pairs, squared, n_points, weights)
            return
        pairs, squared, weights, self.n_points = check_pairs(pairs, squared, n_points, weights, "squared")
        self.start, self.cols, self.target, self.weight = merge_duplicates(pairs, squared, weights, self.n_points)

    def _take_tensors(self, pairs: Any, squared: Any, n_points: int | None, weights: Any) -> None:
        from quartic.losses.pairs.torch_input import check_pairs, in_both_rows

        pairs, squared, weights, self.n_points = check_pairs(pairs, squared, n_points, weights, "squared")
        with space_of(pairs).errors(f"{self.n_points} points with {len(pairs)} pairs", 120.0 * len(pairs)):
            self.start, self.cols, self.target, self.weight = in_both_rows(pairs, squared, weights, self.n_points)

    @property
    def dtype(self) -> type[np.floating[Any]]:
        """The type of the distances."""
        return float_type(self.target)

    @property
    def smoothness(self) -> float:
        """L_F ≤ 2 max w + λ_max(Deg_w + Adj_w)."""
        if "smoothness" not in self._constants:
            self._constants["smoothness"] = self._smoothness()
        return self._constants["smoothness"]

    def _smoothness(self) -> float:
        if is_torch(self.cols):
            from quartic.losses.pairs.torch_smoothness import distance_smoothness

            return distance_smoothness(self.start, self.cols, self.weight, self._count)
        w = np.ones(self.n_pairs) if self.weight is None else self.weight.astype(np.float64)
        shape = (self.n_points, self.n_points)
        upper = sp.csr_array((w, self.cols, self.start), shape=shape)
        degree = upper.sum(axis=1) + upper.sum(axis=0)
        x = np.sqrt(degree) + 1e-3 * math.sqrt(float(degree.max(initial=1.0)))
        bound = 2 * float(degree.max(initial=0.0))
        for _ in range(10):
            Qx = degree * x + upper @ x + upper.T @ x
            self._count(1)
            bound = min(bound, float((Qx / x).max()))
            # Half a step towards the old x damps the slow oscillation of bipartite graphs, and keeps x positive.
            x = 0.5 * (x / np.linalg.norm(x) + Qx / np.linalg.norm(Qx))
        return bound + 2 * float(w.max(initial=0.0))

    @cached_property
    def _sums(self) -> tuple[Array, float, float]:
        """The diagonal of the Laplacian with weights w·d, Σ (w·d)² and Σ w·d²."""
        self._count()
        diagonal = self.space.zeros((self.n_points,), np.float64)
        degrees = passes("pairs", diagonal).weighted_degrees
        squares, loss = degrees(*self._data, self.weight is not None, diagonal)
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

    @cached_property
    def _largest_degree(self) -> float:
        return float(self._sums[0].max())

    @property
    def gradient_scale(self) -> float:
        """What multiplies eps·‖X‖ in the gradient's round-off: the largest row of the Laplacian, thrice."""
        return 4 * self._largest_degree

    @property
    def value_at_zero(self) -> float:
        """f(0) = ½ Σ w d²."""
        return 0.5 * self._sums[2]

    def widened(self, p: Point) -> Array | None:
        """Return [X, tz] with z fixed noise and the best t ≥ 0, or None where that is 0: one pass.

        With ζ = (z_i − z_j)² the loss is f(X) + t² Σ w(q − d)ζ + ½t⁴ Σ wζ². Where X fits, the first sum is next to
        nothing, and so is t.
        """
        n, rank = p.X.shape
        X, D = np.zeros((n, rank + 1), p.X.dtype), np.zeros((n, rank + 1), p.X.dtype)
        X[:, :rank] = p.X
        D[:, rank] = np.random.default_rng(0).standard_normal(n)
        _, c2, _, c4 = self.quartic(PairPoint(self, X, p.value, D), D)
        if not (c2 < 0 < c4):
            return None
        X[:, rank] = math.sqrt(-c2 / (2 * c4)) * D[:, rank]
        return X

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
        mean = 0.5 * float(self._sums[0].sum()) / (self._total_weight or 1.0)
        return X * math.sqrt(mean / (2 * (rank + 2))) if 0 < mean < math.inf else self.best_scale(X)

    @property
    def _total_weight(self) -> float:
        """Σ w."""
        if self.weight is None:
            return float(self.n_pairs)
        return float(total(self.weight)) * self.n_pairs / len(self.weight)  # tensors hold each pair twice
