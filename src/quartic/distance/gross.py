"""Gross errors: distances that contradict the others, found where points have many distances among themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from quartic.arrays import Array
from quartic.core.problem import Problem
from quartic.distance.component import Component, add_anchor_pairs
from quartic.distance.graph import Indices, Mask, is_local, mask_of
from quartic.distance.moves import fit_places
from quartic.distance.patches import are_astray, divide
from quartic.init.distances import shortest_path_start
from quartic.init.relaxed import robust_start

# Points of a patch, as a rule; how often all are covered by patches; links that a point has in a patch beside those
# that hold it.
_SIZE, _LOOKS, _SPARE = 40, 3, 2
# Points are placed from anchors on if that places so many of them.
_ENOUGH = 0.9
# A fit with more outliers than this has not understood the data, and says nothing.
_MOST = 0.4
# Starts where the graph is looked at as a whole, and rounds in which points are placed anew.
_STARTS, _ROUNDS = 4, 3
# Places tried for a point, each from so many distances more than it has coordinates.
_PLACES, _MORE = 64, 1
# Errors above this share of a typical distance count alike where answers are compared.
_CUT = 0.05


def find_gross_errors(component: Component, rank: int, generator: np.random.Generator) -> Mask:
    """Return the mask of the pairs whose distances contradict the others.

    Where near points are linked, small patches of the graph are fitted one by one with falling weights
    (`quartic.init.robust_start`), and a distance is wrong that most of the patches that hold it leave out: a patch has
    few local minima. Other graphs have no patches, and are fitted as a whole; or points are placed one by one, from
    anchors on, where there are enough of these. Pairs with room between their bounds, and the places of anchors, are
    taken for correct.
    """
    n, wrong = component.n_points, np.zeros(len(component.pairs), dtype=bool)
    among = mask_of(component.anchors, n)[component.pairs].all(axis=1)
    exact = np.flatnonzero(component.fixing & ~among)
    if len(exact) == 0:
        return wrong
    known = component.with_pairs(exact, np.arange(n), n)
    X, placed = _place_from_anchors(known, component.anchors, component.places, rank, generator)
    if placed.mean() > _ENOUGH:
        wrong[exact] = known.outliers(np.where(placed[known.pairs].all(axis=1), known.errors(X), 0.0))
        return wrong
    if is_local(known.adjacency, generator):
        wrong[exact] = _judge_in_patches(known, rank, generator)
        return wrong
    if len(component.anchors) > 1:
        known = add_anchor_pairs(replace(known, anchors=component.anchors, places=component.places))
    outlying = known.outliers(known.errors(_fit_whole(known, rank, generator)))[: len(exact)]
    if outlying.mean() <= _MOST:
        wrong[exact] = outlying
    return wrong


def _place_from_anchors(
    component: Component, anchors: Indices, places: Array, rank: int, generator: np.random.Generator
) -> tuple[Array, Mask]:
    """Return points placed from their distances to anchors and to points placed before, and the mask of them."""
    X, placed = np.zeros((component.n_points, rank)), mask_of(anchors, component.n_points)
    if len(anchors) > rank:
        X[anchors] = places
        while (more := place_by_most(component, X, ~placed, generator)).any():
            placed |= more
    return X, placed


def _judge_in_patches(component: Component, rank: int, generator: np.random.Generator) -> Mask:
    """Tell which distances most of the patches leave out."""
    heard, against = np.zeros((2, len(component.pairs)))
    for _ in range(_LOOKS):
        for points in divide(component.graph, _SIZE, rank + _SPARE, generator):
            mine, patch = component.among(points), component.restricted_to(points)
            start = shortest_path_start(patch.pairs, patch.guess, patch.n_points, rank, generator, n_landmarks=None)
            X = robust_start(Problem(patch.loss), rank, generator, start)
            outlying = patch.outliers(patch.errors(X))
            if outlying.mean() <= _MOST:
                heard[mine] += 1
                against[mine] += outlying
    wrong: Mask = 2 * against > heard
    return wrong


def _fit_whole(component: Component, rank: int, generator: np.random.Generator) -> Array:
    """Return the points that fit most distances, of several starts."""
    problem, least = Problem(component.loss), np.inf
    best: Array = np.empty((0, rank))
    for _ in range(_STARTS):
        X = robust_start(problem, rank, generator)
        for _ in range(_ROUNDS):
            if not place_by_most(component, X, are_astray(component, X), generator).any():
                break
            X = robust_start(problem, rank, generator, X)
        errors = component.errors(X)
        cut = float(np.minimum(np.abs(errors), _CUT * component.size).sum())
        if cut < least:
            best, least = X, cut
        # a fit that half of the distances miss by far is none, whatever the others do
        understood = np.median(np.abs(errors)) <= _CUT * component.size
        if understood and component.outliers(errors).mean() <= _MOST and not are_astray(component, X).any():
            break
    return best


def place_by_most(component: Component, X: Array, which: Mask, generator: np.random.Generator) -> Mask:
    """Place points in X where they fit most of their distances to the others; return the mask of those that do.

    Each is tried where a few of its distances, drawn at random, put it: among many draws some are without gross errors.
    """
    A, cut, rank = component.adjacency, _CUT * component.size, X.shape[1]
    placed: Mask = np.zeros(len(X), dtype=bool)
    for i in np.flatnonzero(which):
        row = slice(A.indptr[i], A.indptr[i + 1])
        near = A.indices[row]
        held = ~which[near] | placed[near]
        Y, d = X[near[held]], component.guess[A.data[row][held].astype(np.int64) - 1]
        if len(d) <= rank + _MORE:
            continue
        few = generator.random((_PLACES, len(d))).argsort(axis=1)[:, : rank + _MORE]
        begin = Y.mean(axis=0) + d.mean() * generator.standard_normal((_PLACES, rank))
        tried, _ = fit_places(begin, Y[few], d[few], d[few])
        missed = np.abs(np.linalg.norm(tried[:, None] - Y, axis=2) - d)
        best = int(np.minimum(missed, cut).sum(axis=1).argmin())
        placed[i] = np.count_nonzero(missed[best] < cut) > max(rank + _MORE, len(d) / 2)
        if placed[i]:
            fits = missed[best] < cut
            X[i] = fit_places(tried[best], Y[fits], d[fits], d[fits])[0]
    return placed
