"""The passes over pairs by name, until that family chooses them itself, as `quartic.losses.factor` does."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from quartic.arrays.checks import is_torch


def passes(name: str, A: Any) -> Any:
    """Return the passes of that name for arrays like A, compiled or of torch; both modules have the same functions.

    Those of torch return numbers that may still be under way (`Waiting`).
    """
    return _module(_PASSES[name][is_torch(A)])


_PASSES = {
    "gauss_newton": ("quartic.losses.pairs.row_blocks", "quartic.losses.pairs.torch"),
}
_module = cache(import_module)  # a run asks several times in each iteration
