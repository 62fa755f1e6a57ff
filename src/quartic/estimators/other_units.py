"""Distances far from one: fitted in units in which they are of size one, and told in the user's."""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from quartic.arrays import Array
from quartic.locating.input import Measurements
from quartic.result import Result
from quartic.units import Units, shifted

if TYPE_CHECKING:
    from quartic.estimators.distance_completion import DistanceCompletion


def fit_in_other_units(model: DistanceCompletion, data: Measurements) -> None:
    """Fit the measurements, which are 2^−power times the user's, and set the answer in the user's units."""
    power = data.power
    twin = copy.copy(model)
    twin.init = model.init if isinstance(model.init, str) else _scaled(model.init, -power)
    twin.align_to = _scaled(model.align_to, -power)
    twin.noise = None if model.noise is None else shifted(float(model.noise), -power)
    twin._fit(replace(data, power=0), power=power)
    units = Units(-power, -(2 if model.refine == "stress" else 4) * power)
    model._data = replace(
        data,
        power=0,
        lower=shifted(data.lower, power),
        upper=shifted(data.upper, power),
        guess=shifted(data.guess, power),
        places=shifted(data.places, power),
    )
    for name in ("determination_", "determined_", "component_", "chirality_", "start_", "n_iter_", "_n_features_out"):
        setattr(model, name, getattr(twin, name))
    model.embedding_, model.rmse_ = units.X(twin.embedding_), units.X(twin.rmse_)
    model.result_ = _result(twin.result_, units)
    model._standard_errors = None
    model._uncertainty = partial(_errors, twin, power)  # type: ignore[method-assign]


def _errors(twin: DistanceCompletion, power: int) -> Array:
    return shifted(twin._uncertainty(), power)


def _scaled(given: Any, power: int) -> Any:
    """Return coordinates, as an array or by index, in other units."""
    if given is None:
        return None
    if isinstance(given, dict):
        return {index: _scaled(place, power) for index, place in given.items()}
    return shifted(np.asarray(given, dtype=np.float64), power)


def _result(found: Result, units: Units) -> Result:
    history = replace(
        found.history,
        objective=units.objective(found.history.objective),
        stationarity=units.gradient(found.history.stationarity),
    )
    return replace(
        found,
        X=units.X(found.X),
        objective=units.objective(found.objective),
        stationarity=units.gradient(found.stationarity),
        message=_GRADIENT.sub(lambda number: _told(number[0], units), found.message),
        history=history,
    )


# In a run's message the norms of gradients have three decimals; all other numbers there are bare.
_GRADIENT = re.compile(r"\d\.\d{3}e[+-]\d+")


def _told(number: str, units: Units) -> str:
    """Return the norm of a gradient in the user's units, where it may be beyond the range of floats."""
    return f"{Decimal(number) * Decimal(2) ** (units.length - units.value):.3e}"
