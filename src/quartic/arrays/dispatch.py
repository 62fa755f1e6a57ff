"""Which code works on an array: NumPy's and numba's, or torch's. The one place that asks."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from typing import Any

from quartic.arrays.checks import is_torch


def namespace(A: Any) -> Any:
    """Return the module, numpy or torch, whose ``where``, ``abs``, ``sign`` … work on A."""
    return sys.modules["torch" if is_torch(A) else "numpy"]


def passes(name: str, A: Any) -> Any:
    """Return the passes of that name for arrays like A, compiled or of torch; both modules have the same functions.

    Those of torch return numbers that may still be under way (`Waiting`).
    """
    return _module(_PASSES[name][is_torch(A)])


_PASSES = {
    "factor": ("quartic.losses.factor.numba", "quartic.losses.factor.torch"),
    "line": ("quartic.losses.factor.line", "quartic.losses.factor.torch_line"),
    "pairs": ("quartic.losses.pairs.numba", "quartic.losses.pairs.torch"),
    "gauss_newton": ("quartic.losses.pairs.gauss_newton", "quartic.losses.pairs.torch_gauss_newton"),
    "pair_descent": ("quartic.losses.pairs.pair_descent", "quartic.losses.pairs.pair_descent"),
    "placement": ("quartic.losses.pairs.placement", "quartic.losses.pairs.torch_placement"),
    "face": ("quartic.compiled.face", "quartic.compiled.torch_face"),
    "memory": ("quartic.compiled.memory", "quartic.compiled.torch_memory"),
    "fused": ("quartic.compiled.fused", "quartic.compiled.torch_fused"),
    "turning": ("quartic.compiled.turning", "quartic.compiled.torch_turning"),
    "row_sweeps": ("quartic.baselines.row_sweeps", "quartic.baselines.torch_row_sweeps"),
}
_module = cache(import_module)  # a run asks several times in each iteration
