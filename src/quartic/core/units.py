"""The units a run works in. Data far from one are scaled once, at the start, and the answer is scaled back.

A loss of data of size s asks for X of size √s; its gradient is of size s^1.5, and solvers square that. Long before s
itself leaves the range of floating point those squares do. All factors here are powers of two, so that scaling rounds
nothing: a run in other units is the same run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar, overload

import numpy as np

from quartic.arrays import Array, space_of

# log₂ of the X that the data ask for may be this much without scaling: their squares are then within 1e±50, or in
# single precision within 1e±9.
COMFORTABLE = {np.float64: 83, np.float32: 15}
_P = TypeVar("_P")
#: fields of a kernel or penalty, and the degree in X of the term that each is the weight of
Degrees: TypeAlias = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Units:
    """X̃ = 2^length · X and Ψ̃ = 2^value · Ψ, where the tilde marks what the run works with."""

    length: int = 0
    value: int = 0

    def __bool__(self) -> bool:
        return (self.length, self.value) != (0, 0)

    def X(self, X: Any) -> Any:
        """Return X in the user's units."""
        return shifted(X, -self.length)

    def objective(self, value: Any) -> Any:
        """Return an objective in the user's units."""
        return shifted(value, -self.value)

    def gradient(self, size: Any) -> Any:
        """Return a gradient, or its norm, in the user's units."""
        return shifted(size, self.length - self.value)

    def step(self, step: Any, unit: tuple[int, int]) -> Any:
        """Return a step in the user's units, where its own are those of X to the first power over Ψ to the second."""
        return shifted(step, unit[1] * self.value - unit[0] * self.length)

    def run_step(self, step: float, unit: tuple[int, int]) -> float:
        """Return a step in the run's units from one in the user's."""
        return shifted(step, unit[0] * self.length - unit[1] * self.value)

    def factor(self, weight: float, degree: int) -> float | None:
        """Return the weight that a term of this degree in X has in these units, None where no number is that large."""
        there = shifted(float(weight), self.value - degree * self.length)
        return there if 1e-290 < abs(there) < 1e290 else None

    def weigh(self, part: _P, degrees: Degrees | None) -> _P | None:
        """Return a dataclass with its weights of terms of these ``degrees`` in these units.

        None without degrees, or where no number is as large or small as a weight would be.
        """
        given = {name: getattr(part, name) for name, _ in degrees or ()}
        there = {name: self.factor(given[name], degree) if given[name] else 0.0 for name, degree in degrees or ()}
        if degrees is None or None in there.values():
            return None
        return replace(part, **there)  # type: ignore[type-var]


@overload
def shifted(x: float, power: int) -> float: ...
@overload
def shifted(x: Array, power: int) -> Array: ...
def shifted(x: Any, power: int) -> Any:
    """Return x · 2^power, of numbers and arrays alike: exact, but for what then under- or overflows."""
    if power == 0:
        return x
    y = space_of(x).ldexp(x, power)
    return float(y) if np.isscalar(x) else y


def exponent(x: Any) -> int | None:
    """Return ⌈log₂ max|x|⌉, or None where there is nothing but zeros."""
    largest = space_of(x).largest(x)
    return math.frexp(largest)[1] if largest > 0 and math.isfinite(largest) else None


def shift_to_one(power: int | None, dtype: type[np.floating[Any]]) -> int:
    """Return by how much to shift what has this exponent: not at all within the comfortable range."""
    return 0 if power is None or abs(power) <= COMFORTABLE[dtype] else -power
