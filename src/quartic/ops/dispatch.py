"""Which code works on an array: NumPy's and numba's, or torch's. The one place that asks."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from typing import Any

from quartic.arrays import is_torch


def namespace(A: Any) -> Any:
    """Return the module, numpy or torch, whose ``where``, ``abs``, ``sign`` … work on A."""
    return sys.modules["torch" if is_torch(A) else "numpy"]


def passes(name: str, A: Any) -> Any:
    """Return the passes of that name for arrays like A: ``quartic.ops.NAME``, compiled, or ``quartic.ops.torch_NAME``.

    Both modules have the same functions. Those of torch return numbers that may still be under way (`Waiting`).
    """
    return _module(f"quartic.ops.torch_{name}" if is_torch(A) else f"quartic.ops.{name}")


_module = cache(import_module)  # a run asks several times in each iteration
