"""The smooth penalties on a line: what solvers that search it exactly share."""

from __future__ import annotations

from quartic.arrays import Array
from quartic.ops import inner, squared_norm
from quartic.penalties import Penalty, Ridge, Zero


def ridge_weight(penalty: Penalty) -> float:
    """Return ρ where the penalty is ½ρ‖X‖²: 0 for none.

    Raises
    ------
    TypeError
        For any other penalty: on a line it is no polynomial that is known here.
    """
    if isinstance(penalty, Ridge):
        return penalty.weight
    if isinstance(penalty, Zero):
        return 0.0
    raise TypeError(f"this solver searches lines exactly, which it can do for Zero and Ridge, not {penalty!r}")


def on_line(weight: float, X: Array, D: Array) -> tuple[float, float]:
    """Return a and b of ½ρ‖X + tD‖² = ½ρ‖X‖² + at + bt²."""
    return (weight * inner(X, D), 0.5 * weight * squared_norm(D)) if weight else (0.0, 0.0)
