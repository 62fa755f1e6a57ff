"""Whether Triton's kernels serve a tensor: on CUDA where Triton is installed, and anywhere under its interpreter."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

# The kernels over pairs keep a row of X in registers up to this rank, those of a factorisation up to the other.
_WIDEST = {"triton_blocks": 8, "triton_pairs": 8, "triton_factor": 64}
_MODULES = {
    "triton_blocks": "quartic.losses.pairs.triton",
    "triton_pairs": "quartic.losses.pairs.triton",
    "triton_factor": "quartic.losses.factor.triton",
}


@cache
def _module(name: str) -> Any:
    return import_module(_MODULES[name]) if find_spec("triton") is not None else None


def kernels_for(name: str, X: Any) -> Any:
    """Return the module of kernels of that name, or None where the plain version must do.

    The environment variable ``QUARTIC_TRITON=0`` turns them off; ``TRITON_INTERPRET=1`` runs them without a GPU.
    """
    if X.shape[1] > _WIDEST[name] or os.environ.get("QUARTIC_TRITON") == "0":
        return None
    if not X.is_cuda and os.environ.get("TRITON_INTERPRET") != "1":
        return None
    return _module(name)
