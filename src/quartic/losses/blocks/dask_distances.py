"""The distance loss over pairs in chunks, on a Dask cluster or on disk."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import Array, check_count
from quartic.arrays.space import HOST, Space
from quartic.core.units import exponent
from quartic.distributed.blocks import Blocks, Keep, blocks_of
from quartic.losses.blocks import pair_chunks as chunks
from quartic.losses.pairs.distances import Distances
from quartic.losses.pairs.pairs import SQUARES, collatz_wielandt

# So many pairs are looked at for one that stands in two chunks: where all do, or one in a hundred, it is seen.
_LOOKED_AT = 1_000_000


class DaskPairs:
    """Pairs in chunks: what `quartic.losses.pairs.pairs.Pairs` is for pairs in one place.

    Every pass sends X to each worker once; the chunks' values and gradients are added there, in a tree whose shape
    depends on the number of chunks alone, and one n × r matrix comes back.
    """

    kind, copies, listed, weight, difference = SQUARES, 1, False, None, True

    def __init__(
        self, pairs: Any, values: Any, n_points: int | None, weights: Any, *, ends: Any = None, power: int = 2,
        **options: Any,
    ) -> None:  # fmt: skip
        name = "squared" if power == 2 else "distances"
        recipes = chunks.pair_recipes(pairs, values, weights, ends, name)
        options["source"] = (pairs, values, weights)
        if n_points is None:
            once = options | {"keep": False}
            n_points = 1 + max(blocks_of(recipes, chunks.as_they_are, chunks.largest_index, **once).facts)
        check_count(n_points, "n_points")
        self.n_points = int(n_points)
        prepare = partial(chunks.prepared, n_points=self.n_points, name=name, power=power)
        self.blocks: Blocks = blocks_of(recipes, prepare, chunks.inspected, **options)
        facts = self.blocks.facts
        for fact in facts:
            if fact["fault"] is not None:
                raise ValueError(fact["fault"])
        if sum(fact["n_pairs"] for fact in facts) == 0:
            raise ValueError("there are no pairs; at least one known value is needed")
        kinds = [fact["dtype"] for fact in facts if fact["n_pairs"]]
        self.dtype = np.result_type(*map(np.dtype, kinds)).type
        self.weighted = any(fact["weighted"] for fact in facts)
        self._sums: tuple[Array, float, float] | None = None
        self._refuse_repeats()

    # -- sums over the chunks ----------------------------------------------------------------------------------------

    def run(
        self, mode: int, X: Array, Y: Array | None = None, out: Array | None = None, blocks: Array | None = None
    ) -> tuple[float, ...]:
        """Make a pass in each chunk; return its numbers and fill the arrays, both summed over the chunks."""
        filled = [A for A in (out, blocks) if A is not None]
        found = self.blocks.sum(chunks.make_pass, mode, tuple((A.shape, A.dtype.str) for A in filled), X, Y)
        numbers = len(found) - len(filled)
        for A, total in zip(filled, found[numbers:], strict=True):
            A[:] = total
        return tuple(map(float, found[:numbers]))

    def _sum(self, method: str, *arrays: Array) -> Any:
        return self.blocks.sum(chunks.call, method, *arrays)[0]

    def gauss_newton_matrix(self, X: Array) -> Any:
        """Return JᵀWJ, the sum of the chunks'."""
        return self._sum("gauss_newton_matrix", X)

    def is_local(self) -> bool:
        """Return True: what is in chunks is not asked."""
        return True

    def degrees(self) -> tuple[Array, float, float]:
        """Return Σ w·b over each point's pairs, Σ (w·b)² and Σ w·b² over all pairs."""
        if self._sums is None:
            diagonal, squares, loss = self.blocks.sum(chunks.degrees)
            self._sums = diagonal, float(squares), float(loss)
        return self._sums

    def largest_eigenvalue(self, rounds: int) -> float:
        """Return an upper bound of λ_max of the weighted degrees plus the weighted adjacency matrix."""
        degree = self._sum("sum_of_neighbours", np.ones(self.n_points))
        return collatz_wielandt(degree, lambda x: self._sum("sum_of_neighbours", x), rounds)

    def centred(self) -> None:
        """Return None: chunks have no start of their own from eigenvectors; see `quartic.init.relaxed`."""

    # -- what is known of the pairs ----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return int(sum(fact["n_pairs"] for fact in self.blocks.facts))

    def size(self) -> tuple[str, float]:
        """Return the number of pairs in words; here they take nothing, they are in their chunks."""
        return f"{self.n_points} points with {len(self)} pairs in {len(self.blocks)} chunks", 0.0

    @property
    def space(self) -> Space:
        """X is here, whatever the workers have."""
        return HOST

    def exponents(self) -> None:
        """Return None: the chunks are in the user's units, and stay in them."""

    def exponent_of_points(self) -> int | None:
        """Return ½ log₂ of Σ w·d² / Σ w·d, which is between the mean of the d and the largest."""
        diagonal, _, squares = self.degrees()
        total = 0.5 * float(diagonal.sum())
        power = exponent(squares / total) if total > 0 else None
        return None if power is None else power // 2

    def heaviest(self) -> float:
        """Return the largest weight."""
        return float(max(fact["largest_weight"] for fact in self.blocks.facts))

    def total_weight(self) -> float:
        """Return Σ w."""
        return math.fsum(fact["weight"] for fact in self.blocks.facts)

    def checksum(self) -> str:
        """Return sums that tell these pairs from others."""
        checksum = math.fsum(fact["checksum"] for fact in self.blocks.facts)
        return f"target={checksum!r} weight={self.total_weight()!r}"

    def sample(self, share: Array) -> tuple[NDArray[np.int64], Array, Array | None]:
        """Return about this share of the pairs of each point, chosen by a hash of their ends, with values and weights.

        A pair is chosen or not whatever chunk it is in, so that a repeated one shows.
        """
        pieces = list(self.blocks.map(chunks.sampled, share))
        weights = np.concatenate([piece[2] for piece in pieces]) if self.weighted else None
        return np.concatenate([piece[0] for piece in pieces]), np.concatenate([piece[1] for piece in pieces]), weights

    def _refuse_repeats(self) -> None:
        pairs, _, _ = self.sample(np.full(self.n_points, _LOOKED_AT / len(self)))
        keys = np.sort(pairs[:, 0] * self.n_points + pairs[:, 1])
        again = np.flatnonzero(keys[1:] == keys[:-1])
        if len(again):
            i, j = divmod(int(keys[again[0]]), self.n_points)
            raise ValueError(
                f"the pair ({i}, {j}) stands in more than one chunk, and would count more than once; order the ends "
                "(i < j) and drop duplicates first (drop_duplicates of a Dask dataframe)"
            )


class DaskDistances(Distances):
    r"""`Distances` of pairs in chunks: :math:`f = \sum_k f_k`, each pass a sum over the chunks' own.

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
    >>> from quartic.losses import DaskDistances
    >>> pairs = da.from_array(np.array([[0, 1], [1, 2], [0, 2]]), chunks=(2, 2))
    >>> loss = DaskDistances(pairs, da.from_array(np.array([1.0, 1.0, 2.0]), chunks=2))
    >>> float(loss.value(np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])))
    0.0
    """

    pairs: Any

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
        options = {"client": client, "keep": keep, "memory_limit": memory_limit}
        super().__init__(DaskPairs(pairs, squared, n_points, weights, ends=ends, power=power, **options), None)

    @property
    def blocks(self) -> Blocks:
        """The chunks, and where they are."""
        blocks: Blocks = self.pairs.blocks
        return blocks

    def thinned(self, degree: float) -> tuple[NDArray[np.int64], Array, Array | None]:
        """Return about ``degree`` pairs a point, all of a point that has fewer, with values and weights."""
        self._count()
        each = self.blocks.sum(chunks.pairs_of_points)[0]
        found: tuple[NDArray[np.int64], Array, Array | None] = self.pairs.sample(degree / np.maximum(each, 1.0))
        return found

    def misfit(self, X: Array) -> float:
        """Return the root mean square of ‖x_i − x_j‖ − d over all pairs: one pass."""
        self._count()
        return math.sqrt(float(self.blocks.sum(chunks.misfit, X)[0]) / self.n_pairs)
