"""The distance loss over pairs in chunks, on a Dask cluster or on disk."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import Array, check_count
from quartic.arrays.checks import count
from quartic.arrays.space import HOST, Space
from quartic.core.units import exponent
from quartic.distributed.blocks import Blocks, Keep, blocks_of
from quartic.distributed.inputs import is_dask_array, is_dask_frame, is_dask_series, row_recipes
from quartic.losses.pairs.distances import Distances
from quartic.losses.pairs.input import take_pairs
from quartic.losses.pairs.pairs import SQUARES, Pairs, bound_by_degrees

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
        recipes = pair_recipes(pairs, values, weights, ends, name)
        options["source"] = (pairs, values, weights)
        if n_points is None:
            once = options | {"keep": False}
            n_points = 1 + max(blocks_of(recipes, as_they_are, largest_index, **once).facts)
        check_count(n_points, "n_points")
        self.n_points = int(n_points)
        prepare = partial(prepared, n_points=self.n_points, name=name, power=power)
        self.blocks: Blocks = blocks_of(recipes, prepare, inspected, **options)
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
        found = self.blocks.sum(make_pass, mode, tuple((A.shape, A.dtype.str) for A in filled), X, Y)
        numbers = len(found) - len(filled)
        for A, total in zip(filled, found[numbers:], strict=True):
            A[:] = total
        return tuple(map(float, found[:numbers]))

    def _sum(self, method: str, *arrays: Array) -> Any:
        return self.blocks.sum(call, method, *arrays)[0]

    def gauss_newton_matrix(self, X: Array) -> Any:
        """Return JᵀWJ, the sum of the chunks'."""
        return self._sum("gauss_newton_matrix", X)

    def is_local(self) -> bool:
        """Return True: what is in chunks is not asked."""
        return True

    def degrees(self) -> tuple[Array, float, float]:
        """Return Σ w·b over each point's pairs, Σ (w·b)² and Σ w·b² over all pairs."""
        if self._sums is None:
            diagonal, squares, loss = self.blocks.sum(call, "degrees")
            self._sums = diagonal, float(squares), float(loss)
        return self._sums

    def largest_eigenvalue(self, rounds: int) -> float:
        """Return an upper bound of λ_max of the weighted degrees plus the weighted adjacency matrix."""
        degree = self._sum("sum_of_neighbours", np.ones(self.n_points))
        return bound_by_degrees(degree, lambda x: self._sum("sum_of_neighbours", x), rounds)

    def centred(self) -> None:
        """Return None: chunks have no start of their own from eigenvectors; see `quartic.init.relaxed`."""

    # -- what is known of the pairs ----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return int(sum(fact["n_pairs"] for fact in self.blocks.facts))

    def size(self) -> tuple[str, float]:
        """Return the number of pairs in words; here they take nothing, they are in their chunks."""
        pairs = f"{count(len(self), 'pair')} in {count(len(self.blocks), 'chunk')}"
        return f"{count(self.n_points, 'point')} with {pairs}", 0.0

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
        pieces = list(self.blocks.map(sampled, share))
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
        self.count_products()
        each = self.blocks.sum(pairs_of_points)[0]
        found: tuple[NDArray[np.int64], Array, Array | None] = self.pairs.sample(degree / np.maximum(each, 1.0))
        return found

    def misfit(self, X: Array) -> float:
        """Return the root mean square of ‖x_i − x_j‖ − d over all pairs: one pass."""
        self.count_products()
        return math.sqrt(float(self.blocks.sum(squared_errors, X)[0]) / self.n_pairs)


def pair_recipes(pairs: Any, values: Any, weights: Any, ends: tuple[str, str] | None, name: str) -> list[Any]:
    """Return for each chunk a delayed tuple of pairs, values and weights (or None)."""
    from dask import delayed

    bundle = delayed(_bundle, pure=False)
    if is_dask_frame(pairs):
        named = list(pairs.columns)
        columns = [*(named[:2] if ends is None else ends)]
        if not isinstance(values, str) and not is_dask_series(values):
            raise TypeError(f"of a Dask dataframe, {name} must be one of its columns or a name of one, got {values!r}")
        for given in (*columns, *(v for v in (values, weights) if isinstance(v, str))):
            if given not in named:
                raise ValueError(f"the dataframe has no column {given!r}; it has {', '.join(map(str, named))}")
        parts = [pairs[columns].to_delayed()]
        parts += [_partitions(pairs[v] if isinstance(v, str) else v) for v in (values, weights) if v is not None]
        if len({len(part) for part in parts}) > 1:
            raise ValueError(f"pairs, {name} and weights must have the same partitions; take columns of one dataframe")
        return [bundle(*row) for row in zip(*parts, strict=True)]
    if not is_dask_array(pairs) or pairs.ndim != 2 or pairs.shape[1] != 2:
        shape = getattr(pairs, "shape", None)
        raise ValueError(f"pairs must be a Dask array of shape (m, 2), one pair (i, j) a row, got {shape}")
    recipes, rows = row_recipes(pairs, "pairs")
    parts = [recipes]
    for label, column in ((name, values), ("weights", weights)):
        if column is not None:
            parts.append(_column_recipes(column, rows, label))
    return [bundle(*row) for row in zip(*parts, strict=True)]


def _partitions(series: Any) -> list[Any]:
    if not is_dask_series(series):
        raise TypeError(f"weights must be a column of the dataframe or a name of one, got {type(series).__name__}")
    return list(series.to_delayed())


def _column_recipes(column: Any, rows: list[int], name: str) -> list[Any]:
    import dask.array as da

    if not is_dask_array(column):
        column = da.from_array(np.asarray(column), chunks=-1)
    if column.shape != (sum(rows),):
        raise ValueError(f"{name} must have shape ({sum(rows)},), one number for each pair, got {column.shape}")
    return row_recipes(column.rechunk((tuple(rows),)), name)[0]


# -- what is done with a chunk, on a worker -------------------------------------------------------------------------


def _bundle(pairs: Any, values: Any, weights: Any = None) -> tuple[Any, Any, Any]:
    return np.asarray(pairs), np.asarray(values), None if weights is None else np.asarray(weights)


def as_they_are(bundle: Any, k: int) -> Any:
    """Return the pairs of a chunk."""
    return bundle[0]


def largest_index(pairs: Any) -> int:
    """Return the largest index of a point, −1 where there is no pair."""
    return int(pairs.max(initial=-1))


def prepared(bundle: Any, k: int, *, n_points: int, name: str, power: int) -> Pairs | str:
    """Return the pairs of the chunk, or what is wrong with them: told on the worker, raised here."""
    pairs, values, weights = bundle
    if len(pairs) == 0:
        return Pairs(SQUARES, np.zeros(n_points + 1, np.int64), np.empty(0, np.int32), np.empty(0))
    try:
        if power == 1 and values.dtype.kind in "fiub" and not (values < 0).any():
            values = np.square(np.asarray(values, dtype=np.result_type(values, np.float32)))
        return take_pairs(SQUARES, pairs, values, n_points, weights, name)
    except (ValueError, TypeError) as fault:
        return f"chunk {k}: {fault}"


def inspected(part: Pairs | str) -> dict[str, Any]:
    """Return what the client must know of a chunk: its fault, or its size, type and sums."""
    if isinstance(part, str):
        return {"fault": part}
    place, weight = 1.0 + np.arange(len(part)) % 1009, part.weight
    return {
        "fault": None,
        "n_pairs": len(part),
        "weighted": weight is not None,
        "largest_weight": 1.0 if weight is None else float(weight.max(initial=0.0)),
        "dtype": np.dtype(part.dtype).str,
        "checksum": float(np.dot(part.target, place) + np.dot(part.cols.astype(np.float64), place)),
        "weight": float(len(part) if weight is None else weight.sum(dtype=np.float64)),
    }


def make_pass(part: Pairs, mode: int, shapes: tuple[Any, ...], X: Array, Y: Array | None) -> tuple[Any, ...]:
    """Return the numbers that a pass over the chunk gives, and the arrays of these shapes and types that it fills."""
    out = [np.zeros(shape, dtype) for shape, dtype in shapes]
    return *part.run(mode, X, Y, *out), *out


def call(part: Pairs, method: str, *arrays: Array) -> tuple[Any, ...]:
    """Return what a method of the chunk's pairs returns, as a tuple."""
    found = getattr(part, method)(*arrays)
    return found if isinstance(found, tuple) else (found,)


def pairs_of_points(part: Pairs) -> tuple[Any, ...]:
    """Return how many pairs each point is in."""
    return (part.sum_by_point(np.ones(len(part))),)


def sampled(part: Pairs, share: Array) -> tuple[Any, ...]:
    """Return about this share of the pairs of each point, the same ones whenever it is asked."""
    pairs = np.column_stack([part.rows, part.cols]).astype(np.int64)
    # a multiplicative hash of the two ends: its upper bits are as good as random
    mixed = pairs[:, 0].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + pairs[:, 1].astype(np.uint64)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    chosen = (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53 < np.maximum(share[pairs[:, 0]], share[pairs[:, 1]])
    weights = np.ones(len(pairs)) if part.weight is None else part.weight
    return pairs[chosen], part.target[chosen], weights[chosen]


def squared_errors(part: Pairs, X: Array) -> tuple[Any, ...]:
    """Return the sum of the squared errors of the distances."""
    d = np.linalg.norm(X[part.rows] - X[part.cols], axis=1)
    return (float(np.sum((d - np.sqrt(part.target, dtype=np.float64)) ** 2)),)
