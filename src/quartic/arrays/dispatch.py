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
    "pairs": ("quartic.losses.pairs.numba", "quartic.losses.pairs.torch"),
    "gauss_newton": ("quartic.losses.pairs.gauss_newton", "quartic.losses.pairs.torch_gauss_newton"),
    "pair_descent": ("quartic.losses.pairs.pair_descent", ""),
    "placement": ("quartic.losses.pairs.placement", ""),
}
_module = cache(import_module)  # a run asks several times in each iteration
