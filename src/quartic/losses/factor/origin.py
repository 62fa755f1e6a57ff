"""Where a step of a symmetric factorisation is taken from, and what one pass finds out about the step."""

from __future__ import annotations

from typing import NamedTuple

from quartic.arrays import Array


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

    Attributes
    ----------
    gram : array (r, r)
        XᵀX.
    curved : array (r, r) or None
        DᵀD, where it was asked for.
    ahead : array (r, r) or None
        The Gram matrix of the origin of the next step, where it was asked for.
    bend, along, length, fit, pull : float
        ⟨MD, D⟩, ⟨Y, D⟩, ‖D‖², ⟨MX, X⟩ and ⟨MY, X⟩.
    feasible : bool
        Whether X ≥ 0.
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
