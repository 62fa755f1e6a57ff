"""Pairs in chunks: how they are told to Dask, and what a worker does with one."""

from __future__ import annotations

from typing import Any

import numpy as np

from quartic.arrays import Array
from quartic.distributed.inputs import is_dask_array, is_dask_frame, is_dask_series, row_recipes
from quartic.losses.pairs.distances import Distances
from quartic.losses.pairs.pairs import SQUARES, Pairs


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
        return [bundle(*row, name=name, chunk=k) for k, row in enumerate(zip(*parts, strict=True))]
    if not is_dask_array(pairs) or pairs.ndim != 2 or pairs.shape[1] != 2:
        shape = getattr(pairs, "shape", None)
        raise ValueError(f"pairs must be a Dask array of shape (m, 2), one pair (i, j) a row, got {shape}")
    recipes, rows = row_recipes(pairs, "pairs")
    parts = [recipes]
    for label, column in ((name, values), ("weights", weights)):
        if column is not None:
            parts.append(_column_recipes(column, rows, label))
    return [bundle(*row, name=name, chunk=k) for k, row in enumerate(zip(*parts, strict=True))]


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


class Faulty:
    """Stands for a chunk that cannot be used, and says why: told on the worker, raised here."""

    def __init__(self, fault: str) -> None:
        self.fault = fault


def _bundle(pairs: Any, values: Any, weights: Any = None, *, name: str, chunk: int) -> tuple[Any, Any, Any]:
    return np.asarray(pairs), np.asarray(values), None if weights is None else np.asarray(weights)


def as_they_are(bundle: Any, k: int) -> Any:
    """Return the pairs of a chunk."""
    return bundle[0]


def largest_index(pairs: Any) -> int:
    """Return the largest index of a point, −1 where there is no pair."""
    return int(pairs.max(initial=-1))


def prepared(bundle: Any, k: int, *, n_points: int, name: str, power: int) -> Distances | Faulty:
    """Return the chunk as a loss of its own over all points."""
    pairs, values, weights = bundle
    if len(pairs) == 0:
        none = np.empty(0)
        return Distances(Pairs(SQUARES, np.zeros(n_points + 1, np.int64), np.empty(0, np.int32), none), None)
    try:
        if power == 1 and np.asarray(values).dtype.kind in "fiub" and not (np.asarray(values) < 0).any():
            values = np.square(np.asarray(values, dtype=np.result_type(values, np.float32)))
        return Distances(pairs, values, n_points, weights)
    except (ValueError, TypeError) as fault:
        return Faulty(f"chunk {k}: {str(fault).replace('squared', name)}")


def inspected(part: Distances | Faulty) -> dict[str, Any]:
    """Return what the client must know of a chunk: its fault, or its size, type and sums."""
    if isinstance(part, Faulty):
        return {"fault": part.fault}
    place = 1.0 + np.arange(part.n_pairs) % 1009
    weight = part.weight
    return {
        "fault": None,
        "n_pairs": part.n_pairs,
        "weighted": weight is not None,
        "largest_weight": 1.0 if weight is None else float(weight.max(initial=0.0)),
        "dtype": np.dtype(part.dtype).str,
        "checksum": float(np.dot(part.target, place) + np.dot(part.cols.astype(np.float64), place)),
        "weight": float(part.n_pairs if weight is None else weight.sum(dtype=np.float64)),
    }


def make_pass(part: Distances, mode: int, shapes: tuple[Any, ...], X: Array, Y: Array | None) -> tuple[Any, ...]:
    """Return the numbers that a pass over the chunk gives, and the arrays of these shapes and types that it fills."""
    out = [np.zeros(shape, dtype) for shape, dtype in shapes]
    return *part.pairs.run(mode, X, Y, *out), *out


def call(part: Distances, method: str, *arrays: Array) -> tuple[Any, ...]:
    """Return what a method of the chunk's pairs returns."""
    return (getattr(part.pairs, method)(*arrays),)


def degrees(part: Distances) -> tuple[Any, ...]:
    """Return the chunk's sums at X = 0."""
    return part.pairs.degrees()


def pairs_of_points(part: Distances) -> tuple[Any, ...]:
    """Return how many pairs each point is in."""
    return (part.pairs.sum_by_point(np.ones(part.n_pairs)),)


def sampled(part: Distances, share: Array) -> tuple[Any, ...]:
    """Return about this share of the pairs of each point, the same ones whenever it is asked."""
    pairs = np.column_stack([part.rows, part.cols]).astype(np.int64)
    # a multiplicative hash of the two ends: its upper bits are as good as random
    mixed = pairs[:, 0].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + pairs[:, 1].astype(np.uint64)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    chosen = (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53 < np.maximum(share[pairs[:, 0]], share[pairs[:, 1]])
    weights = np.ones(len(pairs)) if part.weight is None else part.weight
    return pairs[chosen], part.target[chosen], weights[chosen]


def misfit(part: Distances, X: Array) -> tuple[Any, ...]:
    """Return the sum of the squared errors of the distances."""
    d = np.linalg.norm(X[part.rows] - X[part.cols], axis=1)
    return (float(np.sum((d - np.sqrt(part.target, dtype=np.float64)) ** 2)),)
