"""Whether Triton's kernels serve a tensor: on CUDA where Triton is installed, and anywhere under its interpreter."""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec
from typing import Any

# The kernels keep a row of X in registers up to this rank.
_WIDEST = 8


@cache
def _module() -> Any:
    if find_spec("triton") is None:
        return None
    from quartic.ops import triton_pairs

    return triton_pairs


def kernels_for(X: Any, *, rank_limit: bool = False) -> Any:
    """Return the module of kernels, or None where the plain version must do.

    The environment variable ``QUARTIC_TRITON=0`` turns them off; ``TRITON_INTERPRET=1`` runs them without a GPU.
    """
    if rank_limit and X.shape[1] > _WIDEST:
        return None
    if os.environ.get("QUARTIC_TRITON") == "0":
        return None
    if not X.is_cuda and os.environ.get("TRITON_INTERPRET") != "1":
        return None
    return _module()
