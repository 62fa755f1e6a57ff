"""The steps of a fit: look at the data, search, hold the anchors, refine, say what the answer is worth, place it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import Array, random_generator
from quartic.core.loop import minimize
from quartic.core.problem import Problem
from quartic.core.result import Result, Status
from quartic.core.units import Units, shifted
from quartic.datasets import random_pairs
from quartic.distance.bodies import is_well_linked
from quartic.distance.component import Component, Step, find_components, move_onto
from quartic.distance.data import Measurements
from quartic.distance.determination import Determination, assess
from quartic.distance.findings import DistanceWarning, look_at_answer, look_at_data, look_at_triangles
from quartic.distance.frame import check_signs, check_targets, place_answer
from quartic.distance.noise import find_standard_errors
from quartic.distance.search import Settings, search_all
from quartic.init import classical_mds
from quartic.losses import BoundedDistances, CompleteDistances, Distances, Loss, RawStress
from quartic.losses.blocks.dask_distances import DaskDistances

# Another answer differs from this one where a point is elsewhere by this share of the distances.
_MOVED = 1e-3
# So many pairs a point of a complete matrix are looked at for warnings.
_SAMPLED = 60
# Components whose search is told of.
_TOLD = 5


@dataclass(frozen=True, eq=False)
class Located:
    """Points, and what is known of them: the attributes of a fitted `DistanceCompletion`.

    Attributes
    ----------
    data : Measurements
        What they were found from.
    X : array (n, r)
        The points.
    rmse, determination, component, chirality, result, n_iter
        What the attributes of these names say.
    story : list of lists of Step
        What was tried, for each component.
    findings : list of DistanceWarning
        What one ought to know of the data and of the answer.
    found_as : (Located, int) or None
        Where the data are far from one: the same in units 2^power times the user's, and the power.
    """

    data: Measurements
    X: Array
    rmse: float
    determination: Determination
    component: NDArray[np.int64]
    chirality: str
    result: Result
    n_iter: int
    story: list[list[Step]]
    findings: list[DistanceWarning]
    found_as: tuple[Located, int] | None = None

    @property
    def start(self) -> str:
        """What was tried, in words."""
        power = 0 if self.found_as is None else self.found_as[1]
        told = ["; ".join(step.tell(power) for step in steps) for steps in self.story]
        return ". ".join(told[:_TOLD] + ([f"and {len(told) - _TOLD} more"] if len(told) > _TOLD else []))

    def standard_errors(self, noise: float | None, stress: bool) -> Array:
        """Return the standard error of each point, found in the units in which the points were."""
        if self.found_as is None:
            return find_standard_errors(self.data, self.X, noise, stress)
        inner, power = self.found_as
        scaled = None if noise is None else shifted(float(noise), -power)
        return shifted(inner.standard_errors(scaled, stress), power)


def locate(data: Measurements, settings: Settings, everything: DaskDistances | None = None) -> Located:
    """Return the points of the measurements, in the user's units whatever those of the measurements are.

    ``everything`` is all pairs, in chunks, where the measurements are only some of them.
    """
    if not data.power:
        return _locate(data, settings, everything)
    if everything is not None:
        raise ValueError(f"distances in Dask's chunks must be nearer to one: multiply them by 2**{-data.power}")
    found = _locate(replace(data, power=0), _scale_settings(settings, -data.power))
    return _scale_answer(found, data.power, 2 if settings.refine == "stress" else 4)


def _locate(data: Measurements, settings: Settings, everything: DaskDistances | None = None) -> Located:
    n, rank = data.n_points, settings.n_components
    targets = None if settings.align_to is None else check_targets(settings.align_to, n, rank)
    simplices = None if settings.signs is None else check_signs(settings.signs, n, rank)
    findings = look_at_data(data)
    if not data.lower.any() and not len(data.anchors) and not data.exact.all():
        raise ValueError("every lower bound is 0: all points in one place keep every bound; give some distances")
    fixing = data.pairs if data.all_fix else data.pairs[data.fixing]
    well_linked = is_well_linked(fixing, n, rank, np.random.default_rng(0))
    component = np.zeros(n, dtype=np.int64) if well_linked else find_components(data)
    whole = Component.of_all(data, settings.noise, well_linked)
    effort = settings.effort()
    X, account = search_all(whole, data, component, settings, effort, random_generator(settings.random_state))

    anchors = (data.anchors, data.places) if len(data.anchors) else None

    def minimise(loss: Distances | BoundedDistances, X: Array, text: str) -> Array:
        solver = "auto" if isinstance(loss, RawStress) else None
        account.result = effort.minimise(loss, X, anchors, _reference(loss, rank), solver=solver)
        account.n_iter += account.result.n_iter
        account.story[-1].append(Step(text))
        return account.result.X

    if len(data.anchors):
        points = np.flatnonzero(component == component[data.anchors[0]])
        X[points] = move_onto(X[points], np.searchsorted(points, data.anchors), data.places)
        X = minimise(whole.loss, X, "minimised with the anchors held")
    if settings.refine == "stress":
        X = minimise(whole.stress, X, "refined by raw stress")
    if everything is not None:
        X = minimise(everything, X, f"minimised over all {everything.n_pairs:,} pairs")
    if effort.stopped():
        message = "interrupted; the best points so far are returned"
        account.result = replace(account.result, status=Status.INTERRUPTED, message=message)
    if not whole.is_met(X):  # else no triangle can be broken
        findings += look_at_triangles(whole, advise=data.weights is None and settings.refine is None)
    rmse = float(np.sqrt(np.mean(whole.errors(X) ** 2))) if everything is None else everything.misfit(X)
    room = data.pairs[~data.exact & data.linked] if whole.bounded else None
    possible = assess(fixing, X, anchors=data.anchors, bounded=room, well_linked=well_linked, random_state=0)
    sure, least = possible.determined, _MOVED * whole.size
    sides = [(side.here, side.there) for side in account.sides if side.differs(X, sure, least)]
    possible = possible.without(sides, anchors=data.anchors)
    determination = possible.without([], account.unexplained)
    unexplained = determination.unexplained and account.result.success
    findings += look_at_answer(possible, unexplained, whole, X, int(np.count_nonzero(~data.exact)))
    X, chirality, unmet = place_answer(X, data, component, targets, simplices, whole.size)
    return Located(
        data, X, rmse, determination, component, chirality, account.result, account.n_iter, account.story,
        findings + unmet,
    )  # fmt: skip


def _reference(loss: Loss, rank: int) -> float:
    """Return the gradient at a random start, to which the tolerance refers."""
    X = loss.random_start(rank, False, np.random.default_rng(0))
    return float(np.linalg.norm(loss.at(X).gradient))


# -- a complete matrix, which is read in place and never made a list of pairs -----------------------------------------


def locate_complete(D: Array, settings: Settings) -> Located:
    """Return the points of a complete matrix: classical scaling, then a run over all pairs."""
    n, rank = len(D), settings.n_components
    targets = None if settings.align_to is None else check_targets(settings.align_to, n, rank)
    simplices = None if settings.signs is None else check_signs(settings.signs, n, rank)
    data = _sample(D, rank)
    some = Component.of_all(data, settings.noise, well_linked=True)
    loss = CompleteDistances(D)
    start = classical_mds(D, rank, random_state=0)
    result = minimize(
        Problem(loss), start if start.any() else None, rank=rank, solver=settings.solver, tol=settings.tol,
        reference=_reference(loss, rank), max_iter=settings.max_iter, max_time=settings.max_time,
        random_state=settings.random_state, verbose=bool(settings.verbose),
    )  # fmt: skip
    X: Array = result.X.astype(np.float64)
    component = np.zeros(n, dtype=np.int64)
    everyone, no_one = np.ones(n, dtype=bool), np.empty(0, dtype=np.int64)
    all_fixed = Determination(
        everyone, component, component, everyone, ~everyone, no_one, no_one, rank, 0, anchors_span=False, complete=True
    )
    findings = look_at_triangles(some) + look_at_answer(all_fixed, False, some, X, 0)
    X, chirality, unmet = place_answer(X, data, component, targets, simplices, some.size)
    story = [[Step("classical scaling of the complete matrix")]]
    return Located(
        data, X, _complete_rmse(D, X), all_fixed, component, chirality, result, max(1, result.n_iter), story,
        findings + unmet,
    )  # fmt: skip


def _sample(D: Array, rank: int) -> Measurements:
    """Return some pairs of a complete matrix, drawn at random."""
    pairs = random_pairs(len(D), min(1.0, _SAMPLED / (len(D) - 1)), random_state=0)
    d = np.asarray(D[pairs[:, 0], pairs[:, 1]], dtype=np.float64)
    return Measurements(len(D), pairs, d, d, d, None, np.empty(0, dtype=np.int64), np.empty((0, rank)))


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
    columns = {name: shifted(getattr(found.data, name), power) for name in ("lower", "upper", "guess", "places")}
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
    return replace(
        found,
        data=replace(found.data, **columns),
        X=units.X(found.X),
        rmse=units.X(found.rmse),
        result=result,
        findings=[finding.in_units(power) for finding in found.findings],
        found_as=(found, power),
    )
