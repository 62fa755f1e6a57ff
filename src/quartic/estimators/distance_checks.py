"""What is looked for in the data and in the answer, so that it can be said."""

from __future__ import annotations

import warnings

import numpy as np

from quartic.arrays import Array
from quartic.estimators.distance_input import Measurements
from quartic.estimators.distance_part import Part
from quartic.estimators.distance_warnings import (
    DuplicateWarning,
    FlatWarning,
    InconsistentWarning,
    MisfitWarning,
    UndeterminedWarning,
)
from quartic.rigidity import Determination

# A triangle is broken when a side is longer than the other two by this share: noise as people have it stays below.
_SLACK = 1e-6
# Triangles looked at.
_TRIANGLES = 200_000
# Points are flat where their extent in a direction is below this share of their greatest.
_FLAT = 1e-5


def warn_of_repeats(data: Measurements, level: int) -> None:
    """Warn of pairs that were given more than once."""
    if data.n_repeated:
        warnings.warn(
            f"{data.n_repeated} pairs are given more than once and agree; each counts once",
            DuplicateWarning,
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


def warn_of_triangles(part: Part, generator: np.random.Generator, level: int) -> None:
    """Warn of distances that break the triangle inequality."""
    count, total, worst = broken_triangles(part, generator)
    if count:
        warnings.warn(
            f"{count:,} of {total:,} triangles looked at break the triangle inequality, {worst} the most: no points have "
            "these distances, and the answer is the nearest in least squares. Noise does this; so does a wrong unit or a "
            'wrong pair. weights="noise" or refine="stress" serve noisy data better',
            InconsistentWarning,
            stacklevel=level,
        )


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
        warnings.warn(
            f"{int(wrong.sum())} distances between anchors differ from those of their places, the first between {i} and "
            f"{j}; the places are kept",
            InconsistentWarning,
            stacklevel=level,
        )


def warn_of_the_answer(found: Determination, part: Part, X: Array, n_bounds: int, level: int) -> None:
    """Warn of points that are not determined, of flat points, and of a misfit that does not look like noise."""
    if not found.determined.all():
        note = (
            f" Only exact distances count here, not the {n_bounds:,} pairs with room between their bounds."
            if n_bounds
            else ""
        )
        warnings.warn(found.summary() + note, UndeterminedWarning, stacklevel=level)
    dimension = occupied_dimension(X[found.component == 0])
    if dimension < X.shape[1] and np.count_nonzero(found.component == 0) > dimension + 1:
        space = {0: "in one place", 1: "on a line", 2: "in a plane"}.get(
            dimension, f"in a space of {dimension} dimensions"
        )
        warnings.warn(
            f"the points lie {space}, although n_components = {X.shape[1]}: n_components = {max(dimension, 1)} would do, "
            "and what is determined may be more than is said",
            FlatWarning,
            stacklevel=level,
        )
    outliers = part.outliers(X)
    if outliers.mean() > 1e-3 and not part.is_met(X):
        errors = np.abs(part.errors(X))
        worst = part.pairs[int(np.argmax(errors))].tolist()
        warnings.warn(
            f"{int(outliers.sum()):,} of {len(outliers):,} distances are missed by far more than the others, {worst} the "
            f"most (by {float(errors.max()):.3g}): wrong distances, or a local minimum; try n_init, another init, or "
            "another random_state",
            MisfitWarning,
            stacklevel=level,
        )


def occupied_dimension(X: Array) -> int:
    """Return in how many directions the points extend."""
    if len(X) < 2:
        return 0
    extent = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)
    return int(np.count_nonzero(extent > _FLAT * extent[0])) if extent[0] > 0 else 0
