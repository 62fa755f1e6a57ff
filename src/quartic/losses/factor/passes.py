"""What the passes over X of a symmetric factorisation take and return, and where they are.

Their numbers are float64 whatever the type of X. On a torch device they may still be under way.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from quartic.arrays import Array
from quartic.arrays.space import HOST, Space


class Origin(NamedTuple):
    """The point Y = X + t(X − Z) and its product MY = MX + t(MX − MZ), formed row by row when a pass needs them.

    To keep Y and MY would cost writing two tall arrays and reading them twice, which takes longer than the work on
    them. A point that is not extrapolated is its own origin, with t = 0.
    """

    X: Array
    MX: Array
    Z: Array
    MZ: Array
    t: float

    @classmethod
    def at(cls, X: Array, MX: Array) -> Origin:
        """Return the origin that is X itself."""
        return cls(X, MX, X, MX, 0.0)


class StepSums(NamedTuple):
    """What a pass adds up of the step D = X − Y from an origin Y, with MD = MX − MY.

    ``gram`` is XᵀX; ``curved`` DᵀD, where it was asked for or comes for nothing; ``ahead`` the Gram matrix of the
    origin of the next step, where it was asked for and costs less here than there. ``bend``, ``along``, ``length``,
    ``fit`` and, where ``curved`` is None, ``pull`` are ⟨MD, D⟩, ⟨Y, D⟩, ‖D‖², ⟨MX, X⟩ and ⟨MY, X⟩; ``feasible`` is
    whether X ≥ 0.
    """

    gram: Array
    curved: Array | None
    ahead: Array | None
    bend: float
    along: float
    length: float
    fit: float
    pull: float
    feasible: bool


@cache
def passes_in(space: Space) -> Any:
    """Return the module with the passes where the arrays are: `numba` or `torch` beside this, the same functions."""
    if space is HOST:
        from quartic.losses.factor import numba

        return numba
    from quartic.losses.factor import torch

    return torch
