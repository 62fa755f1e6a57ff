"""Sums of squares over pairs (i, j): the machinery that distances and known entries share."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import Array, as_floats, eps, float_type, inner, is_torch, namespace, norm, passes, to_host, total
from quartic.arrays.space import space_of
from quartic.core.units import Units, exponent, shifted
from quartic.losses.base import ProductCounter
from quartic.losses.gradient_point import GradientPoint
from quartic.losses.line import Line
from quartic.losses.move import Move
from quartic.losses.pairs.sum_of_squares import SumOfSquares
from quartic.losses.point import Point

# Ranks up to this have passes compiled for them; the others share one.
_SPECIAL_RANKS = 4
# Up to so many pairs, and columns, one compiled call makes many passes, on one thread.
_FEW_PAIRS, _FEW_COLUMNS = 60_000, 32
# From so many points on a few are expected to end up in the wrong place.
_MANY = 30_000


class PairSquares(SumOfSquares):
    """f(X) = ½ Σ_p w_p (q_p(X) − b_p)² over pairs p = (i, j), with q_p = ‖x_i − x_j‖² or ⟨x_i, x_j⟩.

    Each pass over the pairs gives the value and the gradient; pairs are kept sorted by row, each once.
    """

    quadratic = True
    #: q is ‖x_i − x_j‖² where true, ⟨x_i, x_j⟩ where false
    difference: ClassVar[bool]
    #: whether the places of its neighbours give the place of a point
    relocates: ClassVar[bool] = False
    #: the names of the arrays, or None, that hold one number a pair
    per_pair: ClassVar[tuple[str, ...]] = ("target", "weight")

    start: NDArray[np.int64]
    cols: NDArray[np.int32]
    target: Array
    weight: Array | None

    def __init__(self) -> None:
        super().__init__()
        self._layout: list[Any] = []  # how passes cut the rows into chunks: worked out once, for all copies

    # -- the point --------------------------------------------------------------------------------------------------

    def at(self, X: Array) -> PairPoint:
        """Return the point at X: one pass."""
        X = as_floats(X)
        G = namespace(X).empty_like(X)
        value = self._pass("pairs", "value_and_gradient", X)(X, *self._passed, G)
        return PairPoint(self, X, value, G)

    def restore(self, arrays: dict[str, Array]) -> PairPoint:
        """Return the point kept in a checkpoint."""
        if arrays["gradient"].shape != arrays["X"].shape or len(arrays["X"]) != self.n_points:
            raise ValueError("the gradient does not go with X")
        X, G = self.space.adopt(arrays["X"]), self.space.adopt(arrays["gradient"])
        return PairPoint(self, X, float(arrays["value"]), G)

    def move(self, p: Point, X: Array) -> Move:
        """Return the step from p to X, its remainder summed pair by pair from X − p: one pass."""
        X = as_floats(X)
        G = namespace(X).empty_like(X)
        value, remainder = self._pass("pairs", "value_gradient_and_remainder", X)(p.X, X, *self._passed, G)
        return Move(p, PairPoint(self, X, value, G), remainder)

    def along(self, p: Point, D: Array) -> Line:
        """Return the exact quartic of f on p + tD, and its gradient there, a cubic: one pass."""
        D = as_floats(D)
        C = self.space.zeros((len(D), 3, D.shape[1]), float_type(D))
        coefficients = self._pass("pairs", "line_coefficients", D)(p.X, D, *self._passed, C)

        def move(t: float) -> PairPoint:
            G = p.gradient + t * (C[:, 0] + t * (C[:, 1] + t * C[:, 2]))
            return PairPoint(self, p.X + t * D, max(line(t), 0.0), G)

        line = Line(p, coefficients, move)
        return line

    def hessian_product(self, p: Point, D: Array) -> Array:
        """Return ∇²f(p)[D]: one pass."""
        H: Array = namespace(D).empty_like(D)
        self._pass("pairs", "hessian_product", D)(p.X, D, *self._passed, H)
        return H

    # -- Gauss–Newton -----------------------------------------------------------------------------------------------

    def linearize(self, X: Array) -> tuple[PairPoint, Array]:
        """Return the point at X and the packed row blocks of JᵀWJ, 4 Σ_j w (x_i − x_j)(x_i − x_j)ᵀ for distances."""
        G, rank = namespace(X).empty_like(X), X.shape[1]
        B = self.space.zeros((len(X), rank * (rank + 1) // 2), np.float64)
        value = self._pass("gauss_newton", "linearize", X)(X, *self._passed, G, B)
        return PairPoint(self, X, value, G), B

    def gauss_newton_product(self, p: Point, V: Array, out: Array) -> None:
        """Write JᵀWJ V into ``out``: one pass, which reads neither targets nor anything stored a pair."""
        rows, cols, _, weight = self._passed
        self._pass("gauss_newton", "product", V)(p.X, V, rows, cols, weight, out)

    def gauss_newton_solve(
        self, p: Point, G: Array, blocks: Array, shift: float, tolerance: float, max_iter: int
    ) -> tuple[Array, int, bool] | None:
        """Return the solution by conjugate gradients in one compiled call, where there are few pairs: a pass a step."""
        if not self._is_small(p.X):
            return None
        start, cols, _, weight = self._data
        solve = self._pass("gauss_newton", "solve", G)
        found: tuple[Array, int, bool] = solve(p.X, start, cols, weight, G, blocks, shift, tolerance, max_iter)
        self._count(found[1] - 1)
        return found

    def gauss_newton_descent(self, X: Array, *settings: float) -> tuple[Array, float] | None:
        """Return where damped steps lead, made in one compiled call, where there are few pairs."""
        if not self._is_small(X):
            return None
        X, damping, passes = self._pass("pair_descent", "descend", X)(X, *self._data, *settings)
        self._count(passes - 1)
        return X, damping

    def _is_small(self, X: Array) -> bool:
        """Tell whether a compiled call is worth it that makes many passes on one thread."""
        own = type(self).gauss_newton_product is PairSquares.gauss_newton_product
        return own and not is_torch(X) and self.n_pairs <= _FEW_PAIRS and X.shape[1] <= _FEW_COLUMNS

    def gauss_newton_matrix(self, p: Point) -> Any:
        """Return JᵀWJ, assembled from J, whose row for the pair (i, j) has 2r entries."""
        import scipy.sparse as sp

        self._count()
        X, rank, m = p.X.astype(np.float64, copy=False), p.X.shape[1], self.n_pairs
        rows, cols = self.rows.astype(np.int64), self.cols.astype(np.int64)
        at_i, at_j = (2 * (X[rows] - X[cols]), 2 * (X[cols] - X[rows])) if self.difference else (X[cols], X[rows])
        values = np.hstack([at_i, at_j])
        if self.weight is not None:
            values *= np.sqrt(self.weight)[:, None]
        columns = np.hstack([rows[:, None] * rank + np.arange(rank), cols[:, None] * rank + np.arange(rank)])
        J = sp.csr_array(
            (values.ravel(), columns.ravel(), np.arange(0, 2 * rank * m + 1, 2 * rank)), shape=(m, len(X) * rank)
        )
        return (J.T @ J).tocsc()

    def quartic(self, p: Point, D: Array) -> tuple[float, float, float, float]:
        """Return the quartic of f on p + tD without the gradients there: one pass."""
        run = self._pass("gauss_newton", "quartic", D)
        coefficients: tuple[float, float, float, float] = run(p.X, D, *self._passed)
        return coefficients

    # -- scale ------------------------------------------------------------------------------------------------------

    def exponents(self) -> tuple[int | None, int | None]:
        """Return log₂ of the root of the largest |b|, and of the largest weight."""
        power = exponent(self.target)
        return None if power is None else power // 2, None if self.weight is None else exponent(self.weight)

    def in_units(self, units: Units) -> Self:
        """Return the loss of 4^length · b, with the weights scaled too."""
        power = units.value - self.degree * units.length
        return self._twin(
            target=shifted(self.target, 2 * units.length),
            weight=None if self.weight is None else shifted(self.weight, power),
        )

    def _twin(self, **changes: Any) -> Self:
        """Return a copy with other data: what was worked out from the old ones is forgotten."""
        twin = copy.copy(self)
        for name in list(twin.__dict__):
            if isinstance(getattr(type(self), name, None), cached_property):
                del twin.__dict__[name]
        twin.__dict__.update(changes, _constants={})
        if "start" in changes:
            twin._layout = []
        return twin

    # -- a part of the points, and the others' places ---------------------------------------------------------------

    def core(self, degree: float, rank: int) -> tuple[Self, NDArray[np.bool_]] | None:
        """Return the loss among part of the points, each with about ``degree`` pairs there, and which points they are.

        None where there is no such part: points with fewer than 2(r + 1) pairs in it are left out, and at least half
        of it must remain.
        """
        if is_torch(self.cols):  # a device has the threads to treat all points at once
            return None
        from quartic.losses.pairs.placement import choose_core, pairs_among

        share = degree * self.n_points / (2 * self.n_pairs)
        self._count(2)
        chosen = choose_core(self.start, self.cols, share, 2 * (rank + 1))
        if chosen.sum() < 0.5 * share * self.n_points or not chosen.any():
            return None
        kept, start, cols = pairs_among(self.start, self.cols, chosen)
        given = {name: getattr(self, name) for name in self.per_pair}
        part = self._twin(
            n_points=len(start) - 1,
            start=start,
            cols=cols,
            _counter=ProductCounter(),
            **{name: None if value is None else value[kept] for name, value in given.items()},
        )
        return part, chosen

    def place(self, X: Array, placed: NDArray[np.bool_]) -> tuple[Array, NDArray[np.bool_]]:
        """Return X with more points placed, and which are: those with 2(r + 1) placed neighbours or more: one pass.

        ‖x‖² − 2⟨x, x_j⟩ + ‖x_j‖² = d_j is linear in x and ‖x‖²; x is the least-squares solution over the neighbours j,
        from which ‖x‖² is eliminated by subtracting the mean equation. ⟨x, x_j⟩ = b_j is linear as it is.
        """
        from quartic.losses.pairs.placement import least_squares_places

        rank = X.shape[1]
        X = X.astype(np.float64)
        if self.difference:
            X -= X[placed].mean(axis=0)
        S = np.zeros((len(X), (rank + 2) * (rank + 3) // 2))
        self._pass("placement", "gather", X)(X, placed, *self._data, S)
        new = ~placed & (S[:, -1] >= 2 * (rank + 1)) & (S[:, 0] > 0)
        X[new] = least_squares_places(S[new], rank, self.difference)
        return X, placed | new

    def replaced(self, p: Point) -> Array | None:
        """Return X with points that fit far worse than all others placed anew by their neighbours: one pass.

        For tensors and many points only: of a million a few end up in a local minimum of their own. For NumPy data the
        search behind `quartic.DistanceCompletion` sees to it.
        """
        if not (is_torch(p.X) and type(self).relocates and self.n_points > _MANY):
            return None
        from quartic.losses.pairs.torch_placement import replaced

        self._count()
        X: Array | None = replaced(p.X, self.start, self.cols, self.target, self.weight)
        return X

    def mean_degree(self) -> float:
        """Return the mean number of pairs a point is in."""
        return 2 * self.n_pairs / self.n_points

    def _pass(self, family: str, name: str, X: Array) -> Any:
        """Return the pass of that name for arrays like X, made for its rank and this kind of pair; it is counted."""
        self._count()
        rank = X.shape[1] if X.shape[1] <= _SPECIAL_RANKS else 0
        return getattr(passes(family, X), name)(rank, self.difference, self.weight is not None)

    @property
    def _data(self) -> tuple[Any, ...]:
        return self.start, self.cols, self.target, self.target if self.weight is None else self.weight

    @property
    def _passed(self) -> tuple[Any, ...]:
        """What a pass is given: the data, and how its rows are cut into chunks in place of where they start."""
        if is_torch(self.cols):
            return self._data
        if not self._layout:
            from quartic.compiled.row_chunks import RowChunks

            self._layout.append(RowChunks(self.start))
        return self._layout[0], *self._data[1:]

    # -- the pairs --------------------------------------------------------------------------------------------------

    @property
    def rows(self) -> NDArray[np.int32]:
        """The row index of each pair, in the order the pairs are kept."""
        return np.repeat(np.arange(self.n_points, dtype=np.int32), np.diff(self.start))

    @property
    def n_pairs(self) -> int:
        """How many pairs there are."""
        return len(self.target) // (2 if is_torch(self.target) else 1)

    def size(self) -> tuple[str, float]:
        """Return the number of pairs in words, and about how many bytes they take, each in two rows."""
        each = np.dtype(self.dtype).itemsize * (1 if self.weight is None else 2) + 4
        return f"{self.n_points} points with {self.n_pairs} pairs", 2.0 * self.n_pairs * each

    @property
    def space(self) -> Any:
        """Where the pairs are."""
        return space_of(self.target)

    @property
    @abstractmethod
    def gradient_scale(self) -> float:
        """What multiplies eps·‖X‖ in the round-off of the gradient."""

    @property
    def value_at_zero(self) -> float:
        """f(0) = ½ Σ w b²."""
        squares = np.square(self.target, dtype=np.float64)
        return 0.5 * float(squares.sum() if self.weight is None else np.dot(squares, self.weight))

    def best_scale(self, X: Array) -> Array:
        """Return the tX with the least f(tX): one pass."""
        X = self._of_the_size_of_the_data(X)
        p = self.at(X)
        # f(tX) = f(0) − a t² + b t⁴; its value and slope at t = 1 give a and b, and it is least at t² = a/(2b).
        slope, drop = float(inner(p.gradient, X)), float(p.value) - self.value_at_zero
        b = 0.5 * slope - drop
        a = b - drop
        return X * math.sqrt(a / (2 * b)) if a > 0 and b > 0 else X

    def _of_the_size_of_the_data(self, X: Array) -> Array:
        """Return 2^k·X, about as large as the data ask for: then f(X), f(0) and their difference are of one size."""
        here, wanted = exponent(X), exponent(self._largest_target)
        return X if here is None or wanted is None else shifted(X, wanted // 2 - here)

    @property
    def _largest_target(self) -> Any:
        """What the largest |b| can be seen from: b itself."""
        return self.target

    def _rounding(self, p: Point) -> float:
        """Return about eps·Σ w·(|q| + |b|)·|x| in each row, as a norm.

        The residual q − b of a pair cannot be known better than eps·(q + b), however small it is.
        """
        return eps(p.X) * self.gradient_scale * norm(p.X)

    def fingerprint(self) -> str:
        """Return kind, sizes and sums of the data."""
        target, cols = to_host(self.target), to_host(self.cols)
        place = 1.0 + np.arange(len(target)) % 1009
        checksum = float(np.dot(target, place) + np.dot(cols.astype(np.float64), place))
        weight = float(self.n_pairs if self.weight is None else total(self.weight))
        return f"{type(self).__name__} n={self.n_points} pairs={self.n_pairs} target={checksum!r} weight={weight!r}"


class PairPoint(GradientPoint):
    """A point of a `PairSquares` loss."""

    def __init__(self, loss: PairSquares, X: Array, value: float, gradient: Array) -> None:
        super().__init__(X, value, gradient, loss._rounding)
