"""The steps of a fit: look at the data, search, hold the anchors, refine, say what the answer is worth, place it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import Array, random_generator
from quartic.core.loop import minimize
from quartic.core.problem import Problem
from quartic.core.result import Result, Status
from quartic.core.units import Units, shifted
from quartic.datasets import random_pairs
from quartic.distance.bodies import find_proving_core
from quartic.distance.component import (
    Component,
    Search,
    Settings,
    find_components,
    gradient_at_random,
    move_onto,
    spans_space,
    turn_to_principal_axes,
)
from quartic.distance.data import Joined, Measurements, join_doubled
from quartic.distance.determination import Determination, assess_at
from quartic.distance.findings import (
    DistanceWarning,
    InconsistentWarning,
    look_at_anchors,
    look_at_answer,
    look_at_data,
    look_at_triangles,
)
from quartic.distance.graph import mask_of
from quartic.distance.gross import find_gross_errors, place_by_most
from quartic.distance.noise import find_standard_errors
from quartic.distance.search import is_loud, search_all
from quartic.init import classical_mds
from quartic.init.distances import place_apart
from quartic.losses import CompleteDistances
from quartic.losses.blocks.dask_distances import DaskDistances

Labels: TypeAlias = NDArray[np.int64]
Known: TypeAlias = tuple[NDArray[np.int64], Array]

# So many pairs a point of a complete matrix are looked at for warnings.
_SAMPLED = 60
# Steps without the anchors, to see whether they contradict the distances.
_FREED = 6
# So often a fit to the distances that agree is made, at the most.
_REFITS = 4
# Components whose search is told of.
_TOLD = 5


@dataclass(frozen=True, eq=False)
class Located:
    """Points, what they were found from, and what is known of them: attributes of a fitted `DistanceCompletion`.

    ``story`` is what was tried, for each component, ``findings`` what one ought to know; ``joined`` the measurements
    that were fitted, where points at distance 0 are one; ``left_out`` the pairs that contradict the others. The data
    are in units of their own, all else is in the user's.
    """

    data: Measurements
    X: Array
    rmse: float
    determination: Determination
    component: NDArray[np.int64]
    chirality: str
    result: Result
    n_iter: int
    story: list[list[str]]
    findings: list[DistanceWarning]
    joined: Joined | None = None
    left_out: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 2), dtype=np.int64))

    @property
    def start(self) -> str:
        """What was tried, in words."""
        told = ["; ".join(steps) for steps in self.story]
        return ". ".join(told[:_TOLD] + ([f"and {len(told) - _TOLD} more"] if len(told) > _TOLD else []))

    def standard_errors(self, noise: float | None, stress: bool) -> Array:
        """Return the standard error of each point, found in the units of the data."""
        power = self.data.power
        X, noise = shifted(self.X, -power), None if noise is None else shifted(float(noise), -power)
        if self.joined is None:
            return shifted(find_standard_errors(self.data, X, noise, stress), power)
        label, (i, j) = self.joined.label, self.data.pairs.T
        # two distances that are one there show the noise by how they differ
        each = replace(self.data, pairs=label[self.data.pairs], anchors=self.joined.data.anchors)
        errors = find_standard_errors(each, X[self.joined.first], noise, stress)
        same = label[i] == label[j]  # points that were joined may be as far apart as was measured
        np.maximum.at(errors, label[i[same]], self.data.guess[same])
        return shifted(errors[label], power)


def locate(data: Measurements, settings: Settings, everything: DaskDistances | None = None) -> Located:
    """Return the points of the measurements, in the user's units whatever those of the measurements are.

    ``everything`` is all pairs, in chunks, where the measurements are only some of them.
    """
    if settings.robust and not settings.cleaned:
        return _locate_robustly(data, settings)
    if data.power:
        if everything is not None:
            raise ValueError(f"distances in Dask's chunks must be nearer to one: multiply them by 2**{-data.power}")
        settings = _scale_settings(settings, -data.power)
    n, rank = data.n_points, settings.n_components
    targets = None if settings.align_to is None else check_targets(settings.align_to, n, rank)
    simplices = None if settings.signs is None else check_signs(settings.signs, n, rank)
    start = settings.init if isinstance(settings.init, str) else _check_start(settings.init, (n, rank))
    findings = look_at_data(data, settings.noise)
    if not data.lower.any() and not len(data.anchors) and data.bounded:
        raise ValueError("every lower bound is 0: all points in one place keep every bound; give some distances")
    if not data.linked.any():
        raise ValueError(
            "only lower bounds are known: nothing holds points together; give some distances or upper bounds"
        )
    if not data.counts.any():
        raise ValueError("every weight is 0, so that no distance counts; give some a positive weight")
    # under noise that is known 0 is a distance like others, and pairs in chunks are not at hand
    joined = join_doubled(data) if settings.noise is None and everything is None else None
    given, data = data, data if joined is None else joined.data
    if joined is not None and not isinstance(start, str):
        start = start[joined.first]

    fixing = data.fixing_pairs
    core = find_proving_core(fixing, data.n_points, rank, np.random.default_rng(0))
    component = find_components(data) if core is None else np.zeros(data.n_points, dtype=np.int64)
    whole = Component.of_all(data, settings.noise, core)
    settings, generator = replace(settings, init=start).begin(), random_generator(settings.random_state)
    X, account = search_all(whole, component, settings, generator)
    held = (data.anchors, data.places) if len(data.anchors) else None
    last = Search(replace(whole, held=held), settings, generator)
    for loss, text in (
        (None if held is None else whole.loss, "minimised with the anchors held"),
        (whole.stress if settings.refine == "stress" else None, "refined by raw stress"),
        (everything, "minimised over all pairs"),
    ):
        if loss is not None:
            if loss is whole.loss:
                points = np.flatnonzero(component == component[data.anchors[0]])
                X[points] = move_onto(X[points], np.searchsorted(points, data.anchors), data.places)
            account.result = last.run(X, loss=loss)
            account.story[-1].append(text)
            X = account.result.X
    errors = whole.errors(X)
    anchors_are_off = any(isinstance(finding, InconsistentWarning) for finding in findings)
    if held is not None and not (anchors_are_off or whole.bounded or whole.are_met(errors)):
        last.component = whole  # the same without anchors, from where they lead
        findings += look_at_anchors(whole, errors, whole.errors(last.run(X, max_iter=_FREED).X), held[1])
    account.n_iter += last.n_iter
    if settings.stopped():
        words = "stopped by the callback" if settings.told[0] is Status.CALLBACK else "interrupted"
        message = f"{words}; the best points so far are returned"
        account.result = replace(account.result, status=settings.told[0], message=message)
    room = data.pairs[data.linked & data.counts & ~data.fixing]
    generator = np.random.default_rng(0)
    # a misfit that counts as met may be that of a piece on its wrong side
    noise = float(np.linalg.norm(errors)) if whole.are_met(errors) and not whole.bounded else 0.0
    possible = assess_at(fixing, X, data.anchors, room, core, generator, in_place=account.in_place, noise=noise)
    sure = possible.determined
    for no_one_stays in (False, False, True):  # who stays must be sure of the others; then answers in which no one does
        for other in account.others:
            here, there = other.sides(possible.determined, data.anchors)
            if len(here) and (len(there) == 0) == no_one_stays:
                possible = possible.without([(here, there)], data.anchors)
        if not no_one_stays:
            possible = possible.proved_by_itself(sure, fixing, data.anchors)
    if joined is not None:
        account.story[0].insert(0, f"{n - data.n_points} points joined to others at distance 0")
        component, X, account.unexplained = find_components(given), X[joined.label], account.unexplained[joined.label]
        possible = possible.spread(joined.label, component)
        whole = Component.of_all(given, None, None)
        errors = whole.errors(X)
    determination = possible.doubting(account.unexplained, given.anchors)
    if not whole.are_met(errors):  # else no triangle can be broken
        advise = given.weights is None and settings.refine is None and settings.noise is None
        findings += look_at_triangles(whole, advise=advise)
    n_bounds = int(np.count_nonzero(~given.exact))
    odd = look_at_answer(
        determination,
        account.result.success,
        whole,
        X,
        errors,
        n_bounds,
        not (settings.robust or settings.approximate or everything is not None),
    )
    findings += odd
    X, chirality, unmet = place_answer(X, given, component, targets, simplices, whole.size)
    rmse = float(np.sqrt(np.mean(errors[given.counts] ** 2))) if everything is None else everything.misfit(X)
    found = Located(
        given, X, rmse, determination, component, chirality, account.result, account.n_iter, account.story,
        findings + unmet, joined,
    )  # fmt: skip
    return _scale_answer(found, data.power, 2 if settings.refine == "stress" else 4) if data.power else found


def _locate_robustly(data: Measurements, settings: Settings) -> Located:
    """Return the points of the distances that agree; those left out are judged again by the answer, until it stays."""
    settings = replace(settings.begin(), cleaned=True)
    whole = Component.of_all(data, _scale_settings(settings, -data.power).noise, None)
    generator = np.random.default_rng(0)
    wrong = find_gross_errors(whole, settings.n_components, generator)
    for _ in range(_REFITS):
        found, left_out = locate(data.without(wrong), settings), wrong
        # where the points are not sure, nothing is known of the distances between them
        X, sure = shifted(found.X.copy(), -data.power), found.determination.determined & (found.component == 0)
        sure = sure | place_by_most(whole, X, ~sure, generator)
        judged = data.fixing & sure[data.pairs].all(axis=1)
        wrong = np.where(judged, whole.outliers(whole.errors(X)), left_out)
        if (wrong == left_out).all() or settings.spent():
            break
    if left_out.any():
        found.story[0].insert(0, f"{int(left_out.sum()):,} distances left out, which contradict the others")
    return replace(found, left_out=data.pairs[left_out])


def _check_start(init: Any, shape: tuple[int, int]) -> Array:
    start = np.asarray(init, dtype=np.float64)
    if start.shape != shape:
        raise ValueError(
            f"init must have one row for each of the {shape[0]} points and n_components = {shape[1]} columns, "
            f"got shape {start.shape}"
        )
    if not np.isfinite(start).all():
        raise ValueError("init must be finite")
    return start


# -- where the answer stands in space: distances fix it only up to motions and a reflection of each component ----------


def arrange(X: Array, component: Labels, fixed: NDArray[np.bool_], gap: float) -> Array:
    """Return X with every component that is not ``fixed`` centred, on its principal axes, and apart from the others."""
    X = X.copy()
    members = np.split(np.argsort(component, kind="stable"), np.cumsum(np.bincount(component))[:-1])
    for points, stays in zip(members, fixed, strict=True):
        if not stays:
            X[points] = turn_to_principal_axes(X[points])
    if len(fixed) == 1:
        return X
    if not fixed.any():
        X = place_apart(X, component, gap=gap)
        centred: Array = X - X.mean(axis=0)
        return centred
    # the fixed ones keep their places; the others go beside their common box
    held = fixed[component]
    loose = np.flatnonzero(~held)
    if len(loose):
        _, numbers = np.unique(component[loose], return_inverse=True)
        beside = place_apart(X[loose], numbers, gap=gap)
        corner = X[held].max(axis=0)
        corner[1:] = X[held].min(axis=0)[1:]
        corner[0] += gap
        X[loose] = beside - beside.min(axis=0) + corner
    return X


def check_targets(align_to: Any, n: int, rank: int) -> tuple[NDArray[np.int64], Array]:
    """Return indices and places of what the answer is to be aligned to."""
    if isinstance(align_to, Mapping):
        table = np.full((n, rank), np.nan)
        for k, place in align_to.items():
            row = np.asarray(place, dtype=np.float64)
            if not (isinstance(k, int | np.integer) and 0 <= k < n) or row.shape != (rank,):
                raise ValueError(
                    f"align_to has the entry {k!r}: {place!r}; it needs an index below {n} and {rank} numbers"
                )
            table[k] = row
    else:
        table = np.asarray(align_to, dtype=np.float64)
        if table.shape != (n, rank):
            raise ValueError(
                f"align_to must be a dict {{index: coordinates}} or an array ({n}, {rank}) with NaN rows where there "
                f"is nothing to align to, got shape {table.shape}"
            )
    known = np.flatnonzero(np.isfinite(table).all(axis=1))
    if len(known) == 0:
        raise ValueError("align_to holds no point to align to: every row is NaN")
    return known, table[known]


def check_signs(signs: Any, n: int, rank: int) -> tuple[NDArray[np.int64], Array]:
    """Return simplices of r + 1 points and their wanted orientations, +1 or −1."""
    table = np.asarray(signs)
    if table.ndim != 2 or table.shape[1] != rank + 2 or table.dtype.kind not in "iuf":
        raise ValueError(
            f"signs must have rows of {rank + 1} indices and a sign (1 or -1), shape (k, {rank + 2}), got {table.shape}"
        )
    simplices, wanted = table[:, :-1].astype(np.int64), np.sign(table[:, -1].astype(np.float64))
    bad = ((simplices < 0) | (simplices >= n)).any(axis=1) | (wanted == 0)
    if bad.any():
        at = int(np.argmax(bad))
        raise ValueError(f"signs[{at}] = {table[at].tolist()} needs indices from 0 to {n - 1} and a sign that is not 0")
    return simplices, wanted


def find_orientations(X: Array, simplices: NDArray[np.int64]) -> Array:
    """Return the sign of det(x₁ − x₀, …, x_r − x₀) of each simplex."""
    edges = X[simplices[:, 1:]] - X[simplices[:, :1]]
    found: Array = np.sign(np.linalg.det(edges))
    return found


def reflect_to_signs(
    X: Array, component: Labels, fixed: NDArray[np.bool_], simplices: NDArray[np.int64], wanted: Array
) -> Array:
    """Return X with each component reflected where more simplices then have the orientation wanted."""
    X = X.copy()
    agree = find_orientations(X, simplices) * wanted
    owner = component[simplices[:, 0]]
    for c in np.unique(owner):
        if not fixed[c] and agree[owner == c].sum() < 0:
            X[component == c, -1] *= -1.0
    return X


def place_answer(
    X: Array, data: Measurements, component: Labels, targets: Known | None, simplices: Known | None, gap: float
) -> tuple[Array, str, list[DistanceWarning]]:
    """Return the points where they are to be, what decided between the two mirror images, and signs that are not met.

    ``X`` has each component in some frame of its own, those with anchors where these say; ``gap`` is between
    components.
    """
    fixed = mask_of(component[data.anchors], int(component.max()) + 1)
    spanning = len(data.anchors) > 0 and spans_space(data.places)
    chirality = "the anchors decide" if spanning else "not determined by distances: both mirror images fit"
    if targets is not None:
        known, places = targets
        X = X.copy()
        for c in np.unique(component[known]):
            if not fixed[c]:
                here = component[known] == c
                points = np.flatnonzero(component == c)
                X[points] = move_onto(X[points], np.searchsorted(points, known[here]), places[here])
                fixed[c] = True
        if not spanning:
            chirality = "chosen to match align_to"
    X = arrange(X, component, fixed, gap)
    if simplices is None:
        return X, chirality, []
    X = reflect_to_signs(X, component, fixed, *simplices)
    total = len(simplices[1])
    wrong = int(np.count_nonzero(find_orientations(X, simplices[0]) != simplices[1]))
    unmet = InconsistentWarning(
        f"{wrong} of {total} signs cannot be met by reflecting whole components: they contradict the others, anchors "
        "or align_to, or pieces of the answer are flipped"
    )
    return X, f"signs decide: {total - wrong} of {total} are as wanted", [unmet] if wrong else []


# -- a complete matrix, which is read in place and never made a list of pairs -----------------------------------------


def locate_complete(D: Array, settings: Settings) -> Located:
    """Return the points of a complete matrix: classical scaling, then a run over all pairs."""
    n, rank = len(D), settings.n_components
    targets = None if settings.align_to is None else check_targets(settings.align_to, n, rank)
    simplices = None if settings.signs is None else check_signs(settings.signs, n, rank)
    pairs = random_pairs(n, min(1.0, _SAMPLED / (n - 1)), random_state=0)
    d = np.asarray(D[pairs[:, 0], pairs[:, 1]], dtype=np.float64)
    data = Measurements(n, pairs, d, d, d, None)
    some = Component.of_all(data, settings.noise, None)
    loss = CompleteDistances(D)
    start = classical_mds(D, rank, random_state=0)
    result = minimize(
        Problem(loss), start if start.any() else None, rank=rank, solver=settings.solver, tol=settings.tol,
        reference=gradient_at_random(loss, rank), max_iter=settings.max_iter, max_time=settings.max_time,
        random_state=settings.random_state, verbose=bool(settings.verbose), callback=settings.callback,
    )  # fmt: skip
    X: Array = result.X.astype(np.float64)
    component, errors = np.zeros(n, dtype=np.int64), some.errors(X)
    doubt = np.full(n, is_loud(some, errors, settings))
    all_fixed = Determination.of_all(np.zeros(n, dtype=bool), rank).doubting(doubt, data.anchors)
    odd = look_at_answer(all_fixed, result.success, some, X, errors, 0, not settings.approximate)
    findings = look_at_triangles(some) + odd
    X, chirality, unmet = place_answer(X, data, component, targets, simplices, some.size)
    story = [["classical scaling of the complete matrix"]]
    return Located(
        data, X, _complete_rmse(D, X), all_fixed, component, chirality, result, max(1, result.n_iter), story,
        findings + unmet,
    )  # fmt: skip


def _complete_rmse(D: Array, X: Array) -> float:
    """Return the root mean square error over all pairs, a block of rows at a time."""
    from scipy.spatial.distance import cdist

    n, total = len(D), 0.0
    rows = max(1, 2**20 // n)
    for first in range(0, n, rows):
        total += float(np.sum((cdist(X[first : first + rows], X) - D[first : first + rows]) ** 2))
    return float(np.sqrt(total / (n * (n - 1))))


# -- distances far from one: fitted in units in which they are of size one ---------------------------------------------


def _scale_settings(settings: Settings, power: int) -> Settings:
    noise = None if settings.noise is None else shifted(float(settings.noise), power)
    init = settings.init if isinstance(settings.init, str) else _scale(settings.init, power)
    return replace(settings, init=init, align_to=_scale(settings.align_to, power), noise=noise)


def _scale(given: Any, power: int) -> Any:
    """Return coordinates, as an array or by index, times 2^power."""
    if given is None:
        return None
    if isinstance(given, dict):
        return {index: _scale(place, power) for index, place in given.items()}
    return shifted(np.asarray(given, dtype=np.float64), power)


def _scale_answer(found: Located, power: int, degree: int) -> Located:
    """Return the answer with lengths times 2^power; the loss is of that degree in them."""
    units = Units(-power, -degree * power)
    run = found.result
    history = replace(
        run.history,
        objective=units.objective(run.history.objective),
        stationarity=units.gradient(run.history.stationarity),
    )
    result = replace(
        run,
        X=units.X(run.X),
        objective=units.objective(run.objective),
        stationarity=units.gradient(run.stationarity),
        message=f"{run.message} (norms for distances times 2**{-power})",
        history=history,
    )
    return replace(found, X=units.X(found.X), rmse=units.X(found.rmse), result=result)
