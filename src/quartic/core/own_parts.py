"""Losses and penalties of a user's own: what they answer is looked at, and a fault is told by class and method.

Ours are tested instead. A run asks for the constants and for the penalty at zero before it begins, which costs next to
nothing; for the loss at zero, a product, only where it has failed.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

from quartic.arrays import Array
from quartic.losses import Loss, Point
from quartic.penalties import Penalty

_CURES = {
    "smoothness": "return a bound on how fast ∇F changes: math.inf where there is none, any positive number for a "
    "linear F",
    "gradient_norm_at_zero": "return ‖∇F(0)‖; F must be differentiable where XXᵀ is zero",
}


def check_constants(loss: Loss) -> None:
    """Raise unless the constants of a loss of one's own are numbers that can be such."""
    for name, cure in _CURES.items():
        if _is_own(loss, name):
            value: Any = getattr(loss, name)
            what = f"{loss.name}.{name} must be a {'positive' if name == 'smoothness' else 'nonnegative'} number"
            if not _is_number(value):
                raise TypeError(f"{what}, got {_described(value)}; {cure}")
            if not (value > 0 or (value == 0 and name != "smoothness")):
                raise ValueError(f"{what}, got {value!r}; {cure}")


def check_penalty(penalty: Penalty, zero: Callable[[], Array]) -> None:
    """Raise unless a penalty of one's own answers at X = 0 with a number, and with arrays of its shape."""
    if not any(_is_own(penalty, name) for name in ("prox", "stationarity", "value")):
        return
    kind, X = type(penalty).__name__, zero()
    for name, arguments in (("prox", (X, 1.0)), ("stationarity", (X, X))):
        if _is_own(penalty, name):
            found = getattr(penalty, name)(*arguments)
            if getattr(found, "shape", None) != X.shape:
                raise TypeError(
                    f"{kind}.{name} must return an array of the shape of X, {tuple(X.shape)}, got {_described(found)}"
                    + ("; its norm is taken by the run" if name == "stationarity" else "")
                )
    if _is_own(penalty, "value") and not _is_number(found := penalty.value(X)):
        raise TypeError(f"{kind}.value must return one number, g(X), got {_described(found)}")


def explain_failure(loss: Loss, zero: Callable[[], Array]) -> None:
    """Raise an error that names what a loss of one's own returns at X = 0 that is no point, if that is so."""
    if not _is_own(loss, "at"):
        return
    try:
        point: Any = loss.at(zero())
    except Exception:
        return  # its own words say more
    if not isinstance(point, Point):
        raise TypeError(
            f"{loss.name}.at must return a point, quartic.losses.Point(X, value, gradient), got {_described(point)}"
        )
    if not _is_number(point.value):
        raise TypeError(
            f"{loss.name}.at must make its Point with one number for f(X), got {_described(point.value)}; sum it up"
        )


def _is_own(part: object, name: str) -> bool:
    """Tell whether the class that says what ``name`` is of a part is not one of ours."""
    owner = next(kind for kind in type(part).__mro__ if name in vars(kind))
    return not owner.__module__.startswith("quartic.")


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) or getattr(value, "shape", None) == ()


def _described(value: Any) -> str:
    if getattr(value, "shape", ()) != ():
        return f"an array of shape {tuple(value.shape)}"
    return repr(value) if value is None or isinstance(value, Real | str) else f"a {type(value).__name__}"
