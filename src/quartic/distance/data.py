"""Distances as people have them (lists of pairs, matrices, bounds, anchors), checked and made into one form."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from quartic.arrays import Array
from quartic.core.units import exponent, shifted
from quartic.distance.graph import mask_of
from quartic.distributed.inputs import is_dask_frame
from quartic.losses.blocks.dask_distances import DaskDistances
from quartic.losses.devices import to_scipy
from quartic.losses.pairs.input import check_column, check_pairs, each_once, survey

# Points are one where their distance is this share of all (half the root of round-off: squares cannot tell it from 0),
# and distances agree that differ by less; a distance of no more than the second fixes nothing.
_ONE, _SHORT = 7.5e-9, 1e-5
_FAR = 100  # log₂ of distances that are scaled before they are worked with: beyond 1e±30


@dataclass(frozen=True, eq=False)
class Measurements:
    """Pairs i < j, each once and in order, with bounds on their distances (equal where known) and what else is known.

    ``upper`` may be infinite; ``guess`` is within the bounds, for starts; ``weights`` are those of the residuals of
    squares; ``places`` are where the anchors are; ``n_repeated`` pairs were given more than once. Lengths are in a unit
    2^power times the user's, 0 unless those are far from one; ``proportional`` says that noise goes with the distance.
    """

    n_points: int
    pairs: NDArray[np.int64]
    lower: Array
    upper: Array
    guess: Array
    weights: Array | None
    anchors: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    places: Array = field(default_factory=lambda: np.empty((0, 0)))
    n_repeated: int = 0
    power: int = 0
    proportional: bool = False

    def tell(self, length: float, digits: int = 3) -> str:
        """Return a length in words, in the user's unit."""
        return f"{shifted(float(length), self.power):.{digits}g}"

    @property
    def exact(self) -> NDArray[np.bool_]:
        """Where the distance is known exactly."""
        same = np.ones(len(self.pairs), dtype=bool)
        return same if self.lower is self.upper else np.asarray(self.lower == self.upper)

    @cached_property
    def bounded(self) -> bool:
        """Whether some pairs have room between their bounds."""
        return not self.exact.all()

    @cached_property
    def size(self) -> float:
        """The root mean square of the distances."""
        return float(np.sqrt(np.mean(self.guess**2))) if len(self.guess) else 0.0

    def without(self, left_out: NDArray[np.bool_]) -> Measurements:
        """Return the same without some of the pairs."""
        kept = ~left_out
        lower = self.lower[kept]
        upper, weights = lower if self.upper is self.lower else self.upper[kept], self.weights
        weights = None if weights is None else weights[kept]
        return replace(self, pairs=self.pairs[kept], lower=lower, upper=upper, guess=self.guess[kept], weights=weights)

    @property
    def fixing(self) -> NDArray[np.bool_]:
        """Where the distance is known exactly, counts, and is long enough to fix something.

        Squares are flat at 0: between points nearly in one place a distance tells no direction, and a point that hangs
        on it is off by the root of the misfit.
        """
        return self.exact & self.counts & (self.guess >= _SHORT * self.size)

    @property
    def counts(self) -> NDArray[np.bool_]:
        """Where the weight is not 0."""
        return np.ones(len(self.pairs), dtype=bool) if self.weights is None else self.weights > 0

    @cached_property
    def fixing_pairs(self) -> NDArray[np.int64]:
        """The pairs where it is so."""
        fixing = self.fixing
        return self.pairs if fixing.all() else self.pairs[fixing]

    @cached_property
    def linked(self) -> NDArray[np.bool_]:
        """Where the pair holds its points together; a lower bound alone only keeps them apart."""
        return np.isfinite(self.upper)


def read_pairs(
    pairs: Any, distances: Any, n_points: int | None, weights: Any, lower: Any, upper: Any, anchors: Any, rank: int,
    names: NDArray[Any] | None = None,
) -> Measurements:  # fmt: skip
    """Return the measurements of a list of pairs; errors tell points by ``names`` where there are some."""
    given = np.asarray(pairs)
    m = len(given) if given.ndim == 2 else 0
    pairs, _, _, n = check_pairs(pairs, np.zeros(m), _points_with_anchors(given, n_points, anchors), None, "distances")
    itself, in_order = survey(pairs)
    if itself >= 0:
        point = pairs[itself].tolist() if names is None else repr(names[pairs[itself, 0]])
        raise ValueError(f"pairs[{itself}] = {point} joins a point to itself; leave such pairs out")
    low, high, guess = _bounds(m, distances, lower, upper)
    w: Array | None = None
    if isinstance(weights, str):
        if weights != "noise":
            raise ValueError(f'weights must be an array, None or "noise", got {weights!r}')
    elif weights is not None:
        w = check_column(weights, m, "weights", nonnegative=True).astype(np.float64)
    repeated = 0
    if not in_order:
        pairs = np.sort(pairs, axis=1)
        said = {"distance ": low, "upper bound ": None if high is low else high, "weight ": w}
        try:
            order = each_once(pairs[:, 0], pairs[:, 1], n, said)
        except ValueError as error:
            if names is None:
                raise
            ends = np.unique(np.divmod(_repeated_keys(pairs, n), n))[:8]
            raise ValueError(f"{error} ({', '.join(f'{k} is {names[k]}' for k in ends)})") from None
        repeated = 0 if len(order) == m else len(_repeated_keys(pairs, n))
        pairs, guess, w = pairs[order], guess[order], None if w is None else w[order]
        low, high = (guess, guess) if high is low else (low[order], high[order])
    index, places = check_anchors(anchors, n, rank)
    power = power_of_distances(high, low)
    if power:
        low, high, guess, places = (shifted(column, -power) for column in (low, high, guess, places))
    if isinstance(weights, str):
        w = weigh_for_noise(guess)
    return Measurements(n, pairs, low, high, guess, w, index, places, repeated, power, isinstance(weights, str))


@dataclass(frozen=True, eq=False)
class Joined:
    """Measurements in which points at distance 0 are one: what each point is called there, and one point of each."""

    data: Measurements
    label: NDArray[np.int64]
    first: NDArray[np.int64]


def join_doubled(data: Measurements) -> Joined | None:
    """Return the measurements with points at distance 0 joined, where the others agree; None where there are none.

    Those that others contradict (two distances to a third point, two places) stay apart: then 0 is a distance measured
    like others.
    """
    n, counts, tol = data.n_points, data.counts, _ONE * data.size
    zero = data.pairs[counts & data.exact & (data.guess <= tol)]
    low, high = np.where(counts, data.lower, 0.0), np.where(counts, data.upper, np.inf)
    while len(zero):
        k, label = connected_components(sp.coo_array((np.ones(len(zero)), zero.T), shape=(n, n)), directed=False)
        ends = np.sort(label.astype(np.int64)[data.pairs], axis=1)
        order = np.lexsort((~counts, keys_of(ends, k)))
        start = np.flatnonzero(np.diff(keys_of(ends, k)[order], prepend=-1))
        ends = ends[order[start]]
        lower, upper = np.maximum.reduceat(low[order], start), np.minimum.reduceat(high[order], start)
        apart = ends[:, 0] != ends[:, 1]
        broken = mask_of(ends[lower > np.where(apart, upper, 0.0) + tol], k)
        anchors, at, which = np.unique(label[data.anchors], return_index=True, return_inverse=True)
        broken[anchors[which[(np.abs(data.places - data.places[at[which]]) > tol).any(axis=1)]]] = True
        if not broken.any():
            break
        zero = zero[~broken[label[zero[:, 0]]]]
    if len(zero) == 0 or not apart.any() or len(anchors) == k:
        return None
    idle, one = order[start][~counts[order[start]]], upper <= lower
    lower[~counts[order[start]]], upper[~counts[order[start]]] = data.lower[idle], data.upper[idle]
    lower[one] = upper[one] = 0.5 * (lower + upper)[one]
    weights = None if data.weights is None else np.add.reduceat(data.weights[order], start)[apart]
    guess = np.clip(data.guess[order[start]], lower, upper)[apart]
    columns = (guess, guess) if data.lower is data.upper else (lower[apart], upper[apart])
    joined = replace(
        data, n_points=k, pairs=ends[apart], lower=columns[0], upper=columns[1], guess=guess, weights=weights,
        anchors=anchors.astype(np.int64), places=data.places[at],
    )  # fmt: skip
    return Joined(joined, label.astype(np.int64), np.unique(label, return_index=True)[1])


def _repeated_keys(pairs: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    found, counts = np.unique(keys_of(pairs, n), return_counts=True)
    again: NDArray[np.int64] = found[counts > 1]
    return again


def keys_of(pairs: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Return a number for each pair, which sorts them by row."""
    keys: NDArray[np.int64] = pairs[:, 0] * n + pairs[:, 1]
    return keys


def read_array(given: Any) -> Any:
    """Return tensors as NumPy or SciPy arrays, and masked arrays with NaN where an entry is masked."""
    if isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given):
        return np.ma.filled(given.astype(np.float64), np.nan)
    return to_scipy(given)


def number_points(pairs: Any) -> tuple[Any, NDArray[Any] | None]:
    """Return pairs of names as pairs of numbers, and the names in the order in which they come; None for numbers."""
    given = np.asarray(pairs)
    if given.ndim != 2 or not (given.dtype.kind == "U" or all(isinstance(name, str) for name in given.flat[:1])):
        return pairs, None
    odd = [name for name in given.flat if not isinstance(name, str)]
    if odd:
        raise TypeError(f"pairs must be all names or all numbers, but {odd[0]!r} is among the names")
    names, first, number = np.unique(given.astype(str), return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return place[number].reshape(given.shape), names[order].astype(object)


def find_points(given: Any, names: NDArray[Any] | None, what: str) -> Any:
    """Return a dict by name, or pairs of names, with points by number; what has no names is returned as it is."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        named = any(isinstance(name, str) for name in given)
    else:
        try:
            table = np.asarray(given)
        except ValueError:  # rows of different lengths; whoever reads it says what is wrong
            return given
        named = table.dtype.kind == "U" or (table.dtype.kind == "O" and any(isinstance(k, str) for k in table.flat))
    if not named:
        return given
    if names is None:
        raise ValueError(f"{what} has names, but the points have none: they are numbers from 0")
    number = {name: k for k, name in enumerate(names)}

    def find(name: Any) -> int:
        if name not in number:
            some = ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "")
            raise ValueError(f"{what} has {name!r}, but no pair has a point of that name; there are {some}")
        return number[name]

    if isinstance(given, Mapping):
        return {find(name): place for name, place in given.items()}
    return np.array([find(str(name)) for name in table.flat], dtype=np.int64).reshape(table.shape)


def _points_with_anchors(pairs: NDArray[Any], n_points: int | None, anchors: Any) -> int | None:
    """Return the number of points where it is left out: enough for the anchors too."""
    if n_points is not None or not isinstance(anchors, Mapping) or pairs.size == 0 or pairs.dtype.kind not in "iu":
        return n_points
    return max([int(pairs.max()), *(int(k) for k in anchors if isinstance(k, int | np.integer))]) + 1


def _bounds(m: int, distances: Any, lower: Any, upper: Any) -> tuple[Array, Array, Array]:
    """Return lower and upper bounds and a guess between them, or raise an error that names the row."""

    def column(values: Any, name: str) -> Array:
        values = np.asarray(values)
        values = np.full(m, values[()]) if values.ndim == 0 else values
        open_ends = ~np.isfinite(values) if values.dtype.kind == "f" else np.zeros(values.shape, dtype=bool)
        check_column(np.where(open_ends, 0, values), m, name, nonnegative=True)
        clean: Array = values.astype(np.float64)
        return clean

    bounded = lower is not None or upper is not None
    if distances is None and not bounded:
        raise ValueError("give distances, or lower and upper bounds of them")
    d = np.full(m, np.nan) if distances is None else column(distances, "distances")
    bad = np.isinf(d) if bounded else ~np.isfinite(d)
    if bad.any():
        at = int(np.argmax(bad))
        raise ValueError(f"distances[{at}] is {d[at]}; leave unknown pairs out, every listed distance must be finite")
    if not bounded:
        return d, d, d
    low = np.full(m, np.nan) if lower is None else column(lower, "lower")
    high = np.full(m, np.nan) if upper is None else column(upper, "upper")
    if np.isinf(low).any():
        at = int(np.argmax(np.isinf(low)))
        raise ValueError(f"lower[{at}] is infinite; a lower bound must be finite")
    free = np.isnan(low) & np.isnan(high)
    nothing = free & np.isnan(d)
    if nothing.any():
        at = int(np.argmax(nothing))
        raise ValueError(f"pair {at} has neither a distance nor a bound; leave it out")
    low, high = np.where(free, d, np.nan_to_num(low)), np.where(free, d, np.where(np.isnan(high), np.inf, high))
    wrong = low > high
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ValueError(f"lower[{at}] = {low[at]} is above upper[{at}] = {high[at]}; bounds need lower <= upper")
    outside = (d < low * (1 - 1e-9)) | (d > high * (1 + 1e-9))
    if outside.any():
        at = int(np.argmax(outside))
        raise ValueError(
            f"distances[{at}] = {d[at]} is outside its bounds [{low[at]}, {high[at]}]; bounds are what is kept, the "
            "distance of such a pair is only where the search begins"
        )
    middle = np.where(np.isfinite(high), 0.5 * (low + np.where(np.isfinite(high), high, 0.0)), low)
    return low, high, np.where(np.isnan(d), middle, d)


def weigh_for_noise(distances: Array) -> Array:
    """Return w = 1/(δ + 0.01·mean δ), δ = d²: the weights that make up for noise in proportion to the distance."""
    squares = distances**2
    scale = float(squares.mean())
    weights: Array = 1.0 / (squares + 0.01 * scale) if scale > 0 else np.ones_like(squares)
    return weights


def power_of_distances(upper: Array, lower: Array) -> int:
    """Return log₂ of the unit to work in: 0, but where the squares of squares would come near the ends of the range."""
    power = exponent(upper if upper is lower else np.where(np.isfinite(upper), upper, lower))
    return power if power is not None and abs(power) > _FAR else 0


def check_anchors(anchors: Any, n: int, rank: int) -> tuple[NDArray[np.int64], Array]:
    """Return indices and places of the anchors, or raise an error that says what is wrong with them."""
    if anchors is None or (hasattr(anchors, "__len__") and len(anchors) == 0):
        return np.empty(0, dtype=np.int64), np.empty((0, rank))
    if not isinstance(anchors, Mapping):
        raise TypeError(f"anchors must be a dict {{index: coordinates}}, got {type(anchors).__name__}")
    index, places = [], []
    for k, place in anchors.items():
        if isinstance(k, bool) or not isinstance(k, int | np.integer):
            raise TypeError(f"anchors must have integer indices as keys, got {k!r}")
        if not 0 <= k < n:
            raise ValueError(f"anchor {k} is outside the {n} points; indices count from 0")
        row = np.asarray(place, dtype=np.float64)
        if row.shape != (rank,):
            raise ValueError(
                f"anchor {k} has coordinates of shape {row.shape}, but n_components = {rank}: {rank} numbers are needed"
            )
        if not np.isfinite(row).all():
            raise ValueError(f"anchor {k} has coordinates {row.tolist()}; they must be finite")
        index.append(int(k))
        places.append(row)
    order = np.argsort(index)
    found = np.array(places)[order]
    if len(found) > 1 and (found == found[0]).all():
        raise ValueError(f"all {len(found)} anchors are at the same place, {found[0].tolist()}; they must differ")
    if len(index) == n:
        raise ValueError("every point is an anchor; there is nothing to find")
    return np.array(index, dtype=np.int64)[order], found


_BLOCK = 1 << 22  # entries of a matrix looked at together
# Relative: what rounding in somebody's file may leave, and so many eps of D's type.
_ASYMMETRY, _EPS = 1e-8, 8
# The distance of a point to itself may be so many roots of eps, as a share of the largest one: it is then round-off.
_SELF = 8


def read_matrix(D: Any, weights: Any, lower: Any, upper: Any, anchors: Any, rank: int) -> Measurements:
    """Return the measurements of a matrix with NaN where unknown, or a sparse one whose stored entries are known."""
    n = D.shape[0]
    pairs, distances = known_entries(D, "D")
    if lower is not None or upper is not None:
        keys = [keys_of(pairs, n)]
        found: dict[str, tuple[NDArray[np.int64], Array]] = {}
        for name, bound in (("lower", lower), ("upper", upper)):
            if bound is not None:
                at, values = known_entries(_square(bound, n, name), name)
                useful = np.isfinite(values) & ((values > 0) | (name == "upper"))
                found[name] = keys_of(at[useful], n), values[useful]
                keys.append(found[name][0])
        every = np.unique(np.concatenate(keys))
        distances = _spread(every, keys[0], distances)
        bounds = {name: _spread(every, *pair) for name, pair in found.items()}
        lower, upper = bounds.get("lower"), bounds.get("upper")
        pairs = np.column_stack(np.divmod(every, n))
    if weights is not None and not isinstance(weights, str):
        at, values = known_entries(_square(weights, n, "weights"), "weights")
        weights = _spread(keys_of(pairs, n), keys_of(at, n), values, outside=False)
        missing = np.isnan(weights)
        if missing.any():
            i, j = pairs[int(np.argmax(missing))].tolist()
            raise ValueError(f"weights has no entry for the known pair ({i}, {j}); give one, 0 to leave the pair out")
    if len(pairs) == 0:
        raise ValueError(
            "D holds no known distance: every entry off the diagonal is NaN or not stored; at least one is needed"
        )
    return read_pairs(pairs, distances, n, weights, lower, upper, anchors, rank)


def known_entries(D: Any, name: str) -> tuple[NDArray[np.int64], Array]:
    """Return the pairs i < j of a symmetric matrix that are known, and their values, a block of rows at a time.

    An entry may be given on one side of the diagonal only; given on both, the two must agree.
    """
    if sp.issparse(D):
        return _known_sparse(D, name)
    pairs, values = [], []
    for first, one in _upper_blocks(D, name):
        known = ~np.isnan(one) & (np.arange(one.shape[1]) > np.arange(len(one))[:, None])
        pairs.append(np.argwhere(known) + first)
        values.append(one[known])
    return np.concatenate(pairs).astype(np.int64), np.concatenate(values)


def is_symmetric(D: Any) -> bool:
    """Tell whether a square matrix may be one of distances among the same points: nothing contradicts that."""
    if sp.issparse(D):
        D = sp.csr_array(D)
        both = D.multiply((D > 0).T)
        return not D.diagonal().any() and bool(abs(both - both.T).max() <= _asymmetry(D) * max(float(D.max()), 0.0))
    gap = np.abs(D - D.T)
    return (
        not np.nan_to_num(np.diagonal(D)).any() and not (gap > _asymmetry(D) * np.maximum(np.abs(D), np.abs(D.T))).any()
    )


def is_complete(D: Any) -> bool:
    """Tell whether every distance is known, having checked them as `known_entries` does."""
    if sp.issparse(D):
        return False
    for _, one in _upper_blocks(D, "D"):
        missing = np.isnan(one)
        np.fill_diagonal(missing, False)
        if missing.any():
            return False
    return True


def _asymmetry(D: Any) -> float:
    """Return by how much of their size two entries that should be the same may differ."""
    return max(_ASYMMETRY, _EPS * float(np.finfo(D.dtype).eps))


def without_round_off(D: Array) -> Array:
    """Return D with zeros on its diagonal where round-off of ‖x‖² − 2⟨x, y⟩ + ‖y‖² has left something else."""
    most = float(np.nan_to_num(np.diagonal(D)).max())
    if not 0 < most <= _SELF * math.sqrt(np.finfo(D.dtype).eps) * float(np.nanmax(D)):
        return D
    clean = D.copy()
    np.fill_diagonal(clean, 0.0)
    return clean


def _upper_blocks(D: Any, name: str) -> Iterator[tuple[int, Array]]:
    """Yield blocks of rows from the diagonal on, checked; an entry that stands only below it is taken from there."""
    n = D.shape[0]
    rows = max(1, _BLOCK // max(n, 1))
    for first in range(0, n, rows):
        upper = np.asarray(D[first : first + rows, first:], dtype=np.float64)
        mirror = np.asarray(D[first:, first : first + rows], dtype=np.float64).T
        diagonal = np.diagonal(upper)
        if name == "D" and (diagonal > 0).any():
            i = first + int(np.argmax(diagonal > 0))
            raise ValueError(f"{name}[{i}, {i}] = {float(D[i, i])}, but a point has distance 0 to itself")
        _refuse_negative(upper, name, first)
        _refuse_negative(mirror, name, first)
        gap = np.abs(upper - mirror) > _asymmetry(D) * np.maximum(np.abs(upper), np.abs(mirror))
        if gap.any():
            i, j = np.argwhere(gap)[0] + first
            raise ValueError(
                f"{name} is not symmetric: {name}[{i}, {j}] = {float(D[i, j])} but {name}[{j}, {i}] = "
                f"{float(D[j, i])}; give one of them and NaN for the other, or their mean"
            )
        yield first, np.where(np.isnan(upper), mirror, upper)


def _refuse_negative(block: Array, name: str, first: int) -> None:
    if (block < 0).any():
        i, j = np.argwhere(block < 0)[0] + first
        value = float(block[i - first, j - first])
        raise ValueError(f"Negative values in data: {name}[{i}, {j}] = {value}, but a distance cannot be negative")


def _known_sparse(D: Any, name: str) -> tuple[NDArray[np.int64], Array]:
    entries = sp.coo_array(D)
    i, j, values = entries.row.astype(np.int64), entries.col.astype(np.int64), entries.data.astype(np.float64)
    if name == "D" and (values[i == j] > 0).any():
        at = int(i[(i == j) & (values > 0)][0])
        raise ValueError(f"{name}[{at}, {at}] is not 0, but a point has distance 0 to itself")
    if (values < 0).any():
        at = int(np.argmax(values < 0))
        raise ValueError(
            f"Negative values in data: {name}[{i[at]}, {j[at]}] = {values[at]}, but a distance cannot be negative"
        )
    known = (i != j) & ~np.isnan(values)
    i, j, values = i[known], j[known], values[known]
    low, high = np.minimum(i, j), np.maximum(i, j)
    order = each_once(low, high, D.shape[0], {})
    key = low * D.shape[0] + high
    first = values[order][np.searchsorted(key[order], key)]
    gap = np.abs(values - first) > _asymmetry(D) * np.maximum(values, first)
    if gap.any():
        at = int(np.argmax(gap))
        raise ValueError(
            f"{name} is not symmetric: the pair ({low[at]}, {high[at]}) is stored as {first[at]} and as {values[at]}; "
            "store one of them, or their mean"
        )
    return np.column_stack([low, high])[order], values[order]


def _square(M: Any, n: int, name: str) -> Any:
    M = M if sp.issparse(M) else np.asarray(M)
    if M.shape != (n, n):
        raise ValueError(f"{name} must have the shape of D, ({n}, {n}), got {M.shape}")
    return M


def _spread(every: NDArray[np.int64], keys: NDArray[np.int64], values: Array, outside: bool = True) -> Array:
    """Return one number for each of the sorted keys ``every``, NaN where there is none."""
    column = np.full(len(every), np.nan)
    at = np.searchsorted(every, keys)
    if not outside:
        inside = (at < len(every)) & (every[np.minimum(at, len(every) - 1)] == keys)
        at, values = at[inside], values[inside]
    column[at] = values
    return column


# So many pairs a point are brought here.
_PAIRS_EACH = 60.0


def read_chunks(
    pairs: Any, distances: Any, n_points: int | None, weights: Any, anchors: Any, rank: int
) -> tuple[Measurements, DaskDistances | None]:
    """Return measurements to search with, and all pairs, None where the measurements are all."""
    if isinstance(weights, str) and not is_dask_frame(pairs):
        raise TypeError(f"weights = {weights!r} is for pairs in memory; give a Dask array of weights")
    if distances is None:
        raise ValueError("give the distances of the pairs")
    everything = DaskDistances(pairs, distances, n_points, weights, power=1)
    few, squared, w = everything.thinned(_PAIRS_EACH)
    data = read_pairs(few, np.sqrt(squared), everything.n_points, w, None, None, anchors, rank)
    return data, everything if len(few) < everything.n_pairs else None
