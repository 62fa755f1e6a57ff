"""What is odd in the data or in the answer: looked for here, and told by the estimator as warnings."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from string import Formatter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from quartic.arrays import Array
from quartic.distance.component import OUTLIER, Component
from quartic.distance.data import Measurements, keys_of
from quartic.distance.determination import Determination


class DistanceWarning(UserWarning):
    """Something about the distances, or the answer, that one ought to know.

    Its text is a format: ``{3}`` stands for point 3, which is told by number or by name.

    Examples
    --------
    >>> from quartic.estimators import DistanceWarning
    >>> warning = DistanceWarning("{1} is far from {0}")
    >>> str(warning), warning.told(["ann", "bob"])
    ('1 is far from 0', 'bob is far from ann')
    """

    def __str__(self) -> str:
        return self._fill(range(sys.maxsize))  # point k is called k

    def told(self, names: Sequence[str]) -> str:
        """Return the text with the points by these names."""
        return self._fill(names)

    def with_names(self, names: Sequence[str]) -> DistanceWarning:
        """Return the same with the points by these names."""
        return type(self)(self.told(names).replace("{", "{{").replace("}", "}}"))

    def _fill(self, points: Any) -> str:
        return Formatter().vformat(str(self.args[0]), points, {})


def mark(point: int) -> str:
    """Return what stands for a point in the text of a warning."""
    return f"{{{int(point)}}}"


class UndeterminedWarning(DistanceWarning):
    """The distances do not fix every point."""


class InconsistentWarning(DistanceWarning):
    """The distances contradict each other: no points anywhere have them."""


class DuplicateWarning(DistanceWarning):
    """Pairs were given more than once, and agree."""


class FlatWarning(DistanceWarning):
    """The points fill a space of fewer dimensions than was asked for."""


class MisfitWarning(DistanceWarning):
    """Some distances are missed by far more than the others: the answer is probably a local minimum."""


# A triangle is broken when a side is longer than the other two by this share: noise as people have it stays below.
_SLACK = 1e-6
# Triangles looked at.
_TRIANGLES = 200_000
# Points are flat where the distances are met to this share of their size without a direction.
_FLAT = 1e-6
# A fit is far better where its sum of squares is less by this factor, and hardly by chance.
_WORSE, _BY_CHANCE = 2.0, 1e-6
# A direction in which points extend by this share of the distances is needed, unless the misfit is of its square.
_THICK = 0.1


def look_at_data(data: Measurements, noise: float | None = None) -> list[DistanceWarning]:
    """Return what is odd in the data: pairs given twice, anchors whose distances contradict their places.

    Noise with this standard deviation is not odd.
    """
    found: list[DistanceWarning] = []
    if data.n_repeated:
        text = f"{data.n_repeated} pairs are given more than once and agree; each counts once"
        found.append(DuplicateWarning(text))
    if len(data.anchors) < 2:
        return found
    place = np.full(data.n_points, -1)
    place[data.anchors] = np.arange(len(data.anchors))
    both = (place[data.pairs] >= 0).all(axis=1)
    at = place[data.pairs[both]]
    between = np.linalg.norm(data.places[at[:, 0]] - data.places[at[:, 1]], axis=1)
    slack = _SLACK * np.maximum(between, data.guess[both]) + OUTLIER * (noise or 0.0)
    wrong = (between < data.lower[both] - slack) | (between > data.upper[both] + slack)
    if wrong.any():
        off = np.where(wrong, np.maximum(data.lower[both] - between, between - data.upper[both]), 0.0)
        i, j = data.pairs[both][(most := int(np.argmax(off)))].tolist()
        n_wrong = int(wrong.sum())
        differ = "1 distance between anchors differs" if n_wrong == 1 else f"{n_wrong} distances between anchors differ"
        pair = f"{mark(i)} and {mark(j)}"
        by = data.tell(off[most])
        text = f"{differ} from those of their places, the most between {pair} (by {by}); the places are kept"
        found.append(InconsistentWarning(text))
    return found


def look_at_anchors(component: Component, errors: Array, free: Array, places: Array) -> list[DistanceWarning]:
    """Return a warning where anchors contradict the distances, which without them are met far better, to ``free``."""
    a, d = places.shape
    # an F test, which noise of one size on all distances would pass but once in a million times, however long
    n_pairs = int(np.count_nonzero(component.that_count(np.ones(len(errors)))))
    more, freedom = _freedom(a, d), n_pairs - _freedom(component.n_points, d)
    held, loose = (float(np.sum(component.that_count(each) ** 2)) for each in (errors, free))
    if more < 1 or freedom < 1 or held <= _WORSE * loose:
        return []
    if fdtrc(more, freedom, (held - loose) / more / max(loose / freedom, 1e-300)) > _BY_CHANCE:
        return []
    missed = [component.tell((total / n_pairs) ** 0.5) for total in (held, loose)]
    text = (
        f"the places of the anchors contradict the distances, which are missed by {missed[0]} on average, and without "
        f"the anchors by {missed[1]}: is one of them wrong, or in another unit? The places are kept"
    )
    return [InconsistentWarning(text)]


def _freedom(n: int, d: int) -> int:
    """Return how many numbers the shape of n points takes."""
    return n * (n - 1) // 2 if n <= d else n * d - d * (d + 1) // 2


def look_at_triangles(component: Component, advise: bool = True) -> list[DistanceWarning]:
    """Return a warning of distances that break the triangle inequality, with advice unless noise is accounted for."""
    count, total, worst = count_broken_triangles(component, np.random.default_rng(0))
    if not count:
        return []
    advice = '. weights="noise" or refine="stress" serve noisy data better' if advise else ""
    text = (
        f"{count:,} of {total:,} triangles looked at break the triangle inequality, ({_list(worst or ())}) the most: "
        "no points have these distances, and the answer is the nearest in least squares. Noise does this; so does a "
        f"wrong unit or a wrong pair{advice}"
    )
    return [InconsistentWarning(text)]


def look_at_answer(
    found: Determination,
    converged: bool,
    component: Component,
    X: Array,
    errors: Array,
    n_bounds: int,
    advise_robust: bool = True,
) -> list[DistanceWarning]:
    """Return warnings of points that are not determined, of flat points, and of a misfit that is no noise."""
    odd: list[DistanceWarning] = []
    if not (found.determined | found.in_doubt).all():
        note = f" Only exact distances count here, not the {n_bounds:,} pairs with room between their bounds."
        odd.append(UndeterminedWarning(found.in_words(mark) + (note if n_bounds else "")))
    dimension = find_needed_dimension(component, X, errors, found.component)
    if dimension < X.shape[1]:
        space = {0: "in one place", 1: "on a line", 2: "in a plane"}.get(dimension, f"in {dimension} dimensions")
        text = (
            f"the points lie {space}, although n_components = {X.shape[1]}: n_components = {max(dimension, 1)} would "
            "do, and more may be determined than is said"
        )
        odd.append(FlatWarning(text))
    if component.are_met(errors):
        return odd
    outliers, errors = component.outliers(errors), np.abs(errors)
    n_doubtful = int(np.count_nonzero(found.in_doubt))
    which = "no point is" if not found.determined.any() else f"{n_doubtful:,} points are not"
    doubt = f", so that {which} called determined" if n_doubtful and converged else ""
    advice = "try n_init, another init or another random_state"
    if advise_robust:
        advice += ", or robust=True, which leaves out distances that contradict the others"
    if outliers.mean() > 1e-3:
        worst = component.pairs[int(np.argmax(errors))].tolist()
        text = (
            f"{int(outliers.sum()):,} of {len(outliers):,} distances are missed by far more than the others, "
            f"[{_list(worst)}] the most (by {component.tell(errors.max())}): wrong distances, or a local "
            f"minimum{doubt}; {advice}"
        )
        odd.append(MisfitWarning(text))
    elif doubt:
        more = "more than the noise that was given"
        if component.noise is None:
            more, advice = "more than round-off and not known to be noise", f"{advice}; or give noise"
        text = (
            f"the distances are missed by {component.tell(np.sqrt(np.mean(errors**2)))} on average, which is {more}: "
            f"wrong distances, too few dimensions, or a local minimum{doubt}; {advice}"
        )
        odd.append(MisfitWarning(text))
    return odd


def _list(points: Sequence[int]) -> str:
    return ", ".join(map(mark, points))


def count_broken_triangles(
    component: Component, generator: np.random.Generator
) -> tuple[int, int, tuple[int, int, int] | None]:
    """Return how many of the triangles looked at break the triangle inequality, how many were, and the worst of them.

    Two later neighbours of a point are drawn again and again; where they are linked themselves there is a triangle.
    """
    links, n = np.flatnonzero(component.linked), component.n_points
    pairs = component.pairs[links]  # in order
    start, keys = np.searchsorted(pairs[:, 0], np.arange(n + 1)), keys_of(pairs, n)
    later = np.diff(start)
    ways = np.cumsum(later * (later - 1))
    if ways[-1] == 0:
        return 0, 0, None
    draws = min(_TRIANGLES, 20 * n + 1000)
    i = np.searchsorted(ways, generator.integers(ways[-1], size=draws), side="right")
    a = (generator.random(draws) * later[i]).astype(np.int64)
    b = (a + 1 + (generator.random(draws) * (later[i] - 1)).astype(np.int64)) % later[i]
    a, b = start[i] + np.minimum(a, b), start[i] + np.maximum(a, b)
    across = keys_of(np.column_stack([pairs[a, 1], pairs[b, 1]]), n)
    c = np.searchsorted(keys[:-1], across)
    numbers = np.unique(np.column_stack([a, b, c])[keys[c] == across], axis=0).T
    if numbers.size == 0:
        return 0, 0, None
    low, high = (column[links][numbers] for column in (component.lower, component.upper))
    excess = np.max([low[k] - high[k - 1] - high[k - 2] for k in range(3)], axis=0)
    slack = _SLACK * low.max(axis=0) + OUTLIER * 3**0.5 * (component.noise or 0.0)
    count, worst = int(np.count_nonzero(excess > slack)), int(np.argmax(excess))
    a, b, _ = numbers[:, worst]
    return count, len(excess), (*pairs[a].tolist(), int(pairs[b, 1])) if count else None


def find_needed_dimension(component: Component, X: Array, errors: Array, label: NDArray[np.int64]) -> int:
    """Return in how few dimensions the points of the largest component meet the distances as well.

    The fit decides, not how thin the points are: a dimension that is not needed shrinks only as the root of the misfit.
    Few points never need more dimensions than they have neighbours, which is no news.
    """
    rank = int(X.shape[1])
    largest = label == 0
    if np.count_nonzero(largest) <= rank + 1:
        return rank
    Y = X.copy()
    center = X[largest].mean(axis=0)
    _, axes = np.linalg.eigh((X[largest] - center).T @ (X[largest] - center))
    Y[largest] = (X[largest] - center) @ axes[:, ::-1]
    thinnest = float(np.sqrt(np.mean(Y[largest, -1] ** 2)))
    if thinnest > _THICK * component.size and thinnest**2 > _THICK * component.size * float(np.abs(errors).max()):
        return rank
    inside = largest[component.pairs].all(axis=1)

    def root_mean_square(errors: Array) -> float:
        return float(np.sqrt(np.mean(errors[inside] ** 2)))

    before, loss = root_mean_square(errors), component.loss.value(Y)
    for k in range(rank, 0, -1):
        Y[largest, k - 1] = 0.0
        after = root_mean_square(component.errors(Y))
        # under noise a dimension that is needed may still matter little: then the loss alone tells
        as_good = after <= 1.001 * before and component.loss.value(Y) <= (1 + 1e-6) * loss
        if after > _FLAT * component.size and not as_good:
            return k
    return 0
