"""Distances far from one: fitted in units in which they are of size one, and told in the user's."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np

from quartic.core.result import Result
from quartic.core.units import Units, shifted
from quartic.locating.input import Measurements
from quartic.locating.settings import Located, Settings


def in_other_units(data: Measurements, settings: Settings) -> tuple[Measurements, Settings]:
    """Return the measurements, which are 2^−power times the user's, and settings that go with them."""
    power = data.power
    init = settings.init if isinstance(settings.init, str) else _scaled(settings.init, -power)
    noise = None if settings.noise is None else shifted(float(settings.noise), -power)
    return replace(data, power=0), replace(
        settings, init=init, align_to=_scaled(settings.align_to, -power), noise=noise
    )


def in_the_users_units(found: Located, power: int, refine: str | None) -> Located:
    """Return an answer to measurements that are 2^−power times the user's in the user's units."""
    units = Units(-power, -(2 if refine == "stress" else 4) * power)
    data = replace(
        found.data,
        lower=shifted(found.data.lower, power),
        upper=shifted(found.data.upper, power),
        guess=shifted(found.data.guess, power),
        places=shifted(found.data.places, power),
    )
    account = replace(found.account, result=_result(found.account.result, units))
    return replace(
        found, data=data, X=units.X(found.X), rmse=units.X(found.rmse), account=account, found_as=(found, power)
    )


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
