"""The steps of a fit: look at the data, search, hold the anchors, refine, place the answer, say what is odd in it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from quartic.arrays import Array, random_generator
from quartic.core.result import Status
from quartic.distance.assessment import assess
from quartic.distance.well_linked import is_well_linked
from quartic.locating import checks as checks
from quartic.locating.by_component import searched
from quartic.locating.frame import moved_onto
from quartic.locating.input import Measurements
from quartic.locating.linked import components_of
from quartic.locating.other_units import in_other_units, in_the_users_units
from quartic.locating.part import Part
from quartic.locating.placing import placed
from quartic.locating.polish import polished
from quartic.locating.settings import Located, Settings
from quartic.losses import BoundedDistances, Distances
from quartic.losses.blocks.dask_distances import DaskDistances

# Another answer differs from this one where a point is elsewhere by this share of the distances.
_MOVED = 1e-3


def located(data: Measurements, settings: Settings, level: int, everything: DaskDistances | None = None) -> Located:
    """Return the points of the measurements.

    Parameters
    ----------
    data : Measurements
        What is known; where it is in a unit other than the user's, the answer is told in the user's.
    settings : Settings
        How to look for the points.
    level : int
        The ``stacklevel`` at which this function would warn the user: 2 where the user calls it.
    everything : DaskDistances, optional
        All pairs, in chunks, where the measurements are only some of them.
    """
    if not data.power:
        return _located(data, settings, level + 1, everything)
    if everything is not None:
        raise ValueError(f"distances in Dask's chunks must be nearer to one: multiply them by 2**{-data.power}")
    found = _located(*in_other_units(data, settings), level + 1, power=data.power)
    return in_the_users_units(found, data.power, settings.refine)


def _located(
    data: Measurements, settings: Settings, level: int, everything: DaskDistances | None = None, power: int = 0
) -> Located:
    """Return the points in the unit of the data; what is said of lengths on the way is said times 2^power."""
    targets, simplices = settings.frame(data.n_points)
    checks.warn_of_repeats(data, level + 1)
    checks.warn_of_anchors(data, level + 1)
    if not data.lower.any() and not len(data.anchors) and not data.exact.all():
        raise ValueError("every lower bound is 0: all points in one place keep every bound; give some distances")
    generator = random_generator(settings.random_state)
    fixing = data.pairs[data.exact if data.weights is None else data.exact & (data.weights > 0)]
    well_linked = is_well_linked(fixing, data.n_points, settings.n_components, np.random.default_rng(0))
    component, n_components = np.zeros(data.n_points, dtype=np.int64), 1
    if not well_linked:
        component, n_components = components_of(data)
    whole = Part(data.n_points, data.pairs, data.lower, data.upper, data.guess, data.weights)
    effort = settings.effort(power)
    X, account = searched(data, component, n_components, well_linked, settings, effort, generator)

    def minimised(loss: Distances | BoundedDistances, X: Array, said: str) -> Array:
        X, account.result = polished(loss, X, data, effort)
        account.n_iter += account.result.n_iter
        account.start += f"; {said}"
        return X

    if len(data.anchors):
        points = np.flatnonzero(component == component[data.anchors[0]])
        X[points] = moved_onto(X[points], np.searchsorted(points, data.anchors), data.places)
        X = minimised(whole.loss, X, "minimised with the anchors held")
    if settings.refine == "stress":
        X = minimised(whole.stress, X, "refined by raw stress")
    if everything is not None:
        X = minimised(everything, X, f"minimised over all {everything.n_pairs:,} pairs")
    if effort.stopped():
        said = "interrupted; the best points so far are returned"
        account.result = replace(account.result, status=Status.INTERRUPTED, message=said)
    if not whole.is_met(X):  # else no triangle can be broken
        advise = data.weights is None and settings.refine is None
        checks.warn_of_triangles(whole, np.random.default_rng(0), level + 1, advise)
    X, chirality = placed(X, data, component, n_components, targets, simplices, whole.size, level)
    missed = np.sqrt(np.mean(whole.errors(X) ** 2))
    rmse = float(missed) if everything is None else everything.misfit(X)
    room = data.pairs[~data.exact & data.linked]
    determination = assess(fixing, X, anchors=data.anchors, bounded=room, well_linked=well_linked, random_state=0)
    sure, least = determination.determined, _MOVED * whole.size
    sides = [(side.here, side.there) for side in account.sides if side.differs(X, sure, least)]
    possible = determination.without(sides, anchors=data.anchors)
    determination = possible.without([], account.unexplained)
    n_bounds = int(np.count_nonzero(~data.exact))
    checks.warn_of_the_answer(
        possible, determination.unexplained and account.result.success, whole, X, n_bounds, level + 1, power
    )
    return Located(data, X, rmse, determination, component, chirality, account)
