"""The distance loss over pairs in chunks, on a Dask cluster or on disk."""

from __future__ import annotations

import math
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import Array, as_floats, check_count
from quartic.arrays.space import HostSpace
from quartic.distributed.blocks import Blocks, Keep, blocks_of
from quartic.losses.blocks import pair_chunks as chunks
from quartic.losses.line import Line
from quartic.losses.move import Move
from quartic.losses.pairs.distances import Distances
from quartic.losses.pairs.pair_squares import PairPoint
from quartic.losses.point import Point

# So many pairs are looked at for one that stands in two chunks: where all do, or one in a hundred, it is seen.
_LOOKED_AT = 1_000_000


class DaskDistances(Distances):
    r"""`Distances` of pairs in chunks: :math:`f = \sum_k f_k`, each pass a sum over the chunks' own.

    Every pass sends X to each worker once; the chunks' values and gradients are added there, in a tree whose shape
    depends on the number of chunks alone, and one n × r matrix comes back.

    Parameters
    ----------
    pairs : Dask array (m, 2), or Dask dataframe
        The pairs (i, j); of a dataframe the columns named in ``ends``.
    squared : Dask array (m,), Dask series, or name of a column
        The known squared distances.
    n_points : int, optional
        The number of points; when left out, the largest index + 1, which takes one more reading of the pairs.
    weights : Dask array (m,), Dask series, or name of a column, optional
        Nonnegative weights.
    ends : (str, str), optional
        Of a dataframe: the columns of the two ends; the first two when left out.
    client, keep, memory_limit
        As in `quartic.losses.DaskMatrix`.
    power : int, default=2
        1 where ``squared`` holds distances, which are then squared where they are.

    Notes
    -----
    A pair given twice within a chunk counts once, as in `Distances`. Chunks do not know of each other: a pair that
    stands in two of them would count twice. A million pairs, chosen by a hash of their ends, are compared across
    chunks, and one that comes twice among them is an error; single ones among many more are not seen.

    Examples
    --------
    >>> import numpy as np
    >>> import dask.array as da
    >>> from quartic.losses import Distances
    >>> pairs = da.from_array(np.array([[0, 1], [1, 2], [0, 2]]), chunks=(2, 2))
    >>> loss = Distances(pairs, da.from_array(np.array([1.0, 1.0, 2.0]), chunks=2))
    >>> float(loss.value(np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])))
    0.0
    """

    def __init__(
        self,
        pairs: Any,
        squared: Any,
        n_points: int | None = None,
        weights: Any = None,
        *,
        ends: tuple[str, str] | None = None,
        client: Any = None,
        keep: Keep = "auto",
        memory_limit: float | str | None = None,
        power: int = 2,
    ) -> None:
        super(Distances, self).__init__()
        name = "squared" if power == 2 else "distances"
        recipes = chunks.pair_recipes(pairs, squared, weights, ends, name)
        options = {"source": (pairs, squared, weights), "client": client, "memory_limit": memory_limit}
        if n_points is None:
            n_points = 1 + max(
                blocks_of(recipes, chunks.as_they_are, chunks.largest_index, keep=False, **options).facts
            )
        check_count(n_points, "n_points")
        self.n_points = int(n_points)
        prepare = partial(chunks.prepared, n_points=self.n_points, name=name, power=power)
        self.blocks: Blocks = blocks_of(recipes, prepare, chunks.inspected, keep=keep, **options)
        facts = self.blocks.facts
        for fact in facts:
            if fact["fault"] is not None:
                raise ValueError(fact["fault"])
        if sum(fact["n_pairs"] for fact in facts) == 0:
            raise ValueError("there are no pairs; at least one known value is needed")
        kinds = [fact["dtype"] for fact in facts if fact["n_pairs"]]
        self._dtype = np.result_type(*map(np.dtype, kinds)).type
        self._weighted = any(fact["weighted"] for fact in facts)
        self._refuse_repeats()

    # -- the point ---------------------------------------------------------------------------------------------------

    def at(self, X: Array) -> PairPoint:
        """Return the point at X: one pass."""
        X = as_floats(X)
        value, G = self._sum(chunks.at, X)
        return PairPoint(self, X, float(value), G)

    def move(self, p: Point, X: Array) -> Move:
        """Return the step from p to X, its remainder summed pair by pair: one pass."""
        X = as_floats(X)
        value, remainder, G = self._sum(chunks.move, p.X, X)
        return Move(p, PairPoint(self, X, float(value), G), float(remainder))

    def along(self, p: Point, D: Array) -> Line:
        """Return the exact quartic of f on p + tD, and its gradient there, a cubic: one pass."""
        D = as_floats(D)
        *coefficients, G1, G2, G3 = self._sum(chunks.along, p.X, D)

        def move(t: float) -> PairPoint:
            G = p.gradient + t * (G1 + t * (G2 + t * G3))
            return PairPoint(self, p.X + t * D, max(line(t), 0.0), G)

        c1, c2, c3, c4 = map(float, coefficients)
        line = Line(p, (c1, c2, c3, c4), move)
        return line

    def hessian_product(self, p: Point, D: Array) -> Array:
        """Return ∇²f(p)[D]: one pass."""
        H: Array = self._sum(chunks.hessian_product, p.X, D)[0]
        return H

    def linearize(self, X: Array) -> tuple[PairPoint, Array]:
        """Return the point at X and the packed row blocks of JᵀWJ: one pass."""
        value, G, B = self._sum(chunks.linearize, X)
        return PairPoint(self, X, float(value), G), B

    def gauss_newton_product(self, p: Point, V: Array, out: Array) -> None:
        """Write JᵀWJ V into ``out``: one pass."""
        out[:] = self._sum(chunks.gauss_newton_product, p.X, V)[0]

    def gauss_newton_matrix(self, p: Point) -> Any:
        """Return JᵀWJ, the sum of the chunks'."""
        return self._sum(chunks.gauss_newton_matrix, p.X)[0]

    def quartic(self, p: Point, D: Array) -> tuple[float, float, float, float]:
        """Return the quartic of f on p + tD: one pass."""
        c1, c2, c3, c4 = map(float, self._sum(chunks.quartic, p.X, D))
        return c1, c2, c3, c4

    def core(self, degree: float, rank: int) -> None:
        """Return None: to find a part of the points takes all pairs in one place."""

    def place(self, X: Array, placed: NDArray[np.bool_]) -> tuple[Array, NDArray[np.bool_]]:
        """Return X as it is: there is no core to go on from."""
        return X, placed

    def _sum(self, function: Any, *shared: Any) -> tuple[Any, ...]:
        self._count()
        return self.blocks.sum(function, *shared)

    # -- the pairs, and constants ------------------------------------------------------------------------------------

    @property
    def n_pairs(self) -> int:
        """How many pairs there are."""
        return int(sum(fact["n_pairs"] for fact in self.blocks.facts))

    @property
    def rows(self) -> NDArray[np.int32]:
        """The pairs are not in one place."""
        raise TypeError("the pairs of a DaskDistances are in chunks, not in one place")

    def size(self) -> tuple[str, float]:
        """Return the number of pairs in words; here they take nothing, they are in their chunks."""
        return f"{self.n_points} points with {self.n_pairs} pairs in {len(self.blocks)} chunks", 0.0

    @property
    def space(self) -> HostSpace:
        """X is here, whatever the workers have."""
        return HostSpace()

    @property
    def dtype(self) -> type[np.floating[Any]]:
        """The type of the distances."""
        dtype: type[np.floating[Any]] = self._dtype
        return dtype

    def _smoothness(self) -> float:
        degree = self._sum(chunks.degree)[0]
        x = np.sqrt(degree) + 1e-3 * math.sqrt(float(degree.max(initial=1.0)))
        bound = 2 * float(degree.max(initial=0.0))
        for _ in range(10):
            Qx = degree * x + self._sum(chunks.adjacency_product, x)[0]
            bound = min(bound, float((Qx / x).max()))
            x = 0.5 * (x / np.linalg.norm(x) + Qx / np.linalg.norm(Qx))
        return bound + 2 * float(max(fact["largest_weight"] for fact in self.blocks.facts))

    @cached_property
    def _sums(self) -> tuple[Array, float, float]:
        diagonal, squares, loss = self._sum(chunks.zero_sums)
        return diagonal, float(squares), float(loss)

    @property
    def _total_weight(self) -> float:
        return math.fsum(fact["weight"] for fact in self.blocks.facts)

    @property
    def _largest_target(self) -> float:
        """Σ w·d² / Σ w·d: between the mean of the d and the largest, without another pass over the chunks."""
        diagonal, _, squares = self._sums
        total = 0.5 * float(diagonal.sum())
        return squares / total if total > 0 else 0.0

    def exponents(self) -> None:  # type: ignore[override]
        """Return None: the chunks are in the user's units, and stay in them."""

    def sample(self, size: int) -> tuple[NDArray[np.int64], Array, Array | None]:
        """Return about ``size`` of the pairs, chosen by a hash of their ends, with squared distances and weights.

        A pair is chosen or not whatever chunk it is in, so that a repeated one shows.
        """
        return self._chosen(np.full(self.n_points, size / self.n_pairs))

    def thinned(self, degree: float) -> tuple[NDArray[np.int64], Array, Array | None]:
        """Return about ``degree`` pairs a point, all of a point that has fewer: enough to begin with."""
        return self._chosen(degree / np.maximum(self._sum(chunks.pairs_of_points)[0], 1.0))

    def _chosen(self, share: Array) -> tuple[NDArray[np.int64], Array, Array | None]:
        pieces = list(self.blocks.map(chunks.sampled, share))
        weights = np.concatenate([piece[2] for piece in pieces]) if self._weighted else None
        return np.concatenate([piece[0] for piece in pieces]), np.concatenate([piece[1] for piece in pieces]), weights

    def misfit(self, X: Array) -> float:
        """Return the root mean square of ‖x_i − x_j‖ − d over all pairs: one pass."""
        return math.sqrt(float(self._sum(chunks.misfit, X)[0]) / self.n_pairs)

    def _refuse_repeats(self) -> None:
        pairs, _, _ = self.sample(_LOOKED_AT)
        keys = np.sort(pairs[:, 0] * self.n_points + pairs[:, 1])
        again = np.flatnonzero(keys[1:] == keys[:-1])
        if len(again):
            i, j = divmod(int(keys[again[0]]), self.n_points)
            raise ValueError(
                f"the pair ({i}, {j}) stands in more than one chunk, and would count more than once; order the ends "
                "(i < j) and drop duplicates first (drop_duplicates of a Dask dataframe)"
            )

    def fingerprint(self) -> str:
        """Return kind, sizes and sums of the data."""
        checksum = math.fsum(fact["checksum"] for fact in self.blocks.facts)
        weight = self._total_weight
        return f"DaskDistances n={self.n_points} pairs={self.n_pairs} target={checksum!r} weight={weight!r}"
