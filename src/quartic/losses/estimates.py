"""Numbers that know how far they may be off: they decide where that is enough, and leave the rest to exact ones."""

from __future__ import annotations

from typing import NamedTuple

# Sums over tall arrays are made in blocks; their round-off is within so many units of the size of their terms.
ROUND_OFF = 32.0


class Estimate(NamedTuple):
    """A number that may be wrong by ``error``."""

    value: float
    error: float
