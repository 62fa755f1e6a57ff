"""What is looked for in the data and in the answer, so that it can be said."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import Array
from quartic.core.units import shifted
from quartic.distance.determination import Determination
from quartic.locating.input import Measurements
from quartic.locating.part import Part
from quartic.locating.warnings import (
    DuplicateWarning,
    FlatWarning,
    InconsistentWarning,
    MisfitWarning,
    UndeterminedWarning,
    mark,
)

# A triangle is broken when a side is longer than the other two by this share: noise as people have it stays below.
_SLACK = 1e-6
# Triangles looked at.
_TRIANGLES = 200_000
# Points are flat where the distances are met to this share of their size without a direction.
_FLAT = 1e-6
# A direction in which points extend by this share of the distances is needed, unless the misfit is of its square.
_THICK = 0.1


def warn_of_repeats(data: Measurements, level: int) -> None:
    """Warn of pairs that were given more than once."""
    if data.n_repeated:
        warnings.warn(
            DuplicateWarning(f"{data.n_repeated} pairs are given more than once and agree; each counts once"),
            stacklevel=level,
        )


def broken_triangles(part: Part, generator: np.random.Generator) -> tuple[int, int, tuple[int, int, int] | None]:
    """Return how many of the triangles looked at break the triangle inequality, how many were, and the worst of them.

    Two neighbours of a point are drawn again and again; where they are linked themselves there is a triangle.
    """
    A = part.adjacency
    degree = np.diff(A.indptr)
    middle = np.flatnonzero(degree > 1)
    if len(middle) == 0:
        return 0, 0, None
    draws = min(_TRIANGLES, 20 * part.n + 1000)
    k = middle[generator.integers(len(middle), size=draws)]
    first = (generator.random(draws) * degree[k]).astype(np.int64)
    second = (first + 1 + (generator.random(draws) * (degree[k] - 1)).astype(np.int64)) % degree[k]
    a, b = A.indptr[k] + first, A.indptr[k] + second
    i, j = A.indices[a], A.indices[b]
    third = np.asarray(A[i, j]).ravel()
    closed = third > 0
    sides = [A.data[a][closed], A.data[b][closed], third[closed]]
    if not closed.any():
        return 0, 0, None
    numbers = [side.astype(np.int64) - 1 for side in sides]
    low = [part.lower[number] for number in numbers]
    high = [part.upper[number] for number in numbers]
    excess = np.max([low[c] - high[c - 1] - high[c - 2] for c in range(3)], axis=0)
    worst = int(np.argmax(excess))
    corners = np.sort(np.column_stack([k[closed], i[closed], j[closed]]), axis=1)
    broken = excess > _SLACK * np.maximum.reduce(low)
    count = len(np.unique(corners[broken], axis=0)) if broken.any() else 0
    total = len(np.unique(corners, axis=0))
    return count, total, tuple(corners[worst].tolist()) if count else None


def warn_of_triangles(part: Part, generator: np.random.Generator, level: int, advise: bool = True) -> None:
    """Warn of distances that break the triangle inequality, and advise on noise unless that is taken account of."""
    count, total, worst = broken_triangles(part, generator)
    if count:
        advice = '. weights="noise" or refine="stress" serve noisy data better' if advise else ""
        said = InconsistentWarning(
            f"{count:,} of {total:,} triangles looked at break the triangle inequality, ({_marks(worst or ())}) the "
            "most: no points have these distances, and the answer is the nearest in least squares. Noise does this; so "
            f"does a wrong unit or a wrong pair{advice}"
        )
        warnings.warn(said, stacklevel=level)


def warn_of_anchors(data: Measurements, level: int) -> None:
    """Warn where distances between anchors contradict their places."""
    if len(data.anchors) < 2:
        return
    place = np.full(data.n_points, -1)
    place[data.anchors] = np.arange(len(data.anchors))
    both = (place[data.pairs] >= 0).all(axis=1)
    at = place[data.pairs[both]]
    found = np.linalg.norm(data.places[at[:, 0]] - data.places[at[:, 1]], axis=1)
    slack = 1e-6 * np.maximum(found, data.guess[both])
    wrong = (found < data.lower[both] - slack) | (found > data.upper[both] + slack)
    if wrong.any():
        i, j = data.pairs[both][int(np.argmax(wrong))].tolist()
        n_wrong = int(wrong.sum())
        differ = "1 distance between anchors differs" if n_wrong == 1 else f"{n_wrong} distances between anchors differ"
        said = InconsistentWarning(
            f"{differ} from those of their places, the first between {mark(i)} and {mark(j)}; the places are kept"
        )
        warnings.warn(said, stacklevel=level)


def warn_of_the_answer(
    found: Determination, unexplained: bool, part: Part, X: Array, n_bounds: int, level: int, power: int = 0
) -> None:  # fmt: skip
    """Warn of points that are not determined, of flat points, and of a misfit that does not look like noise.

    Lengths are told times 2^power, which are the user's.
    """
    if not found.determined.all():
        note = (
            f" Only exact distances count here, not the {n_bounds:,} pairs with room between their bounds."
            if n_bounds
            else ""
        )
        warnings.warn(UndeterminedWarning(found.in_words(mark) + note), stacklevel=level)
    dimension = needed_dimension(part, X, found.component)
    if dimension < X.shape[1]:
        space = {0: "in one place", 1: "on a line", 2: "in a plane"}.get(dimension, f"in {dimension} dimensions")
        said = FlatWarning(
            f"the points lie {space}, although n_components = {X.shape[1]}: n_components = {max(dimension, 1)} would "
            "do, and more may be determined than is said"
        )
        warnings.warn(said, stacklevel=level)
    if part.is_met(X):
        return
    outliers = part.outliers(X)
    if outliers.mean() > 1e-3:
        errors = np.abs(part.errors(X))
        worst = part.pairs[int(np.argmax(errors))].tolist()
        missed = MisfitWarning(
            f"{int(outliers.sum()):,} of {len(outliers):,} distances are missed by far more than the others, "
            f"[{_marks(worst)}] the most (by {shifted(float(errors.max()), power):.3g}): wrong distances, or a local "
            "minimum; try n_init, another init or another random_state"
        )
        warnings.warn(missed, stacklevel=level)
    elif unexplained:
        typical = shifted(float(np.sqrt(np.mean(part.errors(X) ** 2))), power)
        missed = MisfitWarning(
            f"the distances are missed by {typical:.3g} on average, which is more than round-off and not known to be "
            "noise: perhaps a local minimum, so that no point is called determined; try n_init, another init or "
            "another random_state, or give noise"
        )
        warnings.warn(missed, stacklevel=level)


def _marks(points: Sequence[int]) -> str:
    return ", ".join(map(mark, points))


def needed_dimension(part: Part, X: Array, component: NDArray[np.int64]) -> int:
    """Return in how few dimensions the points of the largest component meet the distances as well.

    The fit decides, not how thin the points are: a dimension that is not needed shrinks only as the root of the misfit.
    Few points never need more dimensions than they have neighbours, which is no news.
    """
    rank = int(X.shape[1])
    largest = component == 0
    if np.count_nonzero(largest) <= rank + 1:
        return rank
    Y = X.copy()
    center = X[largest].mean(axis=0)
    _, axes = np.linalg.eigh((X[largest] - center).T @ (X[largest] - center))
    Y[largest] = (X[largest] - center) @ axes[:, ::-1]
    thinnest = float(np.sqrt(np.mean(Y[largest, -1] ** 2)))
    if thinnest > _THICK * part.size and thinnest**2 > _THICK * part.size * float(np.abs(part.errors(X)).max()):
        return rank
    inside = largest[part.pairs].all(axis=1)

    def misfit(Y: Array) -> float:
        return float(np.sqrt(np.mean(part.errors(Y.copy())[inside] ** 2)))

    before, loss = misfit(Y), part.loss.value(Y)
    for k in range(rank, 0, -1):
        Y[largest, k - 1] = 0.0
        after = misfit(Y)
        # under noise a dimension that is needed may still matter little: then the loss alone tells
        as_good = after <= 1.001 * before and part.loss.value(Y) <= (1 + 1e-6) * loss
        if after > _FLAT * part.size and not as_good:
            return k
    return 0


def occupied_dimension(X: Array) -> int:
    """Return in how many directions the points extend."""
    if len(X) < 2:
        return 0
    extent = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)
    return int(np.count_nonzero(extent > 1e-9 * extent[0])) if extent[0] > 0 else 0
