"""The pass of `quartic.compiled.fused` that torch tensors need too."""

from __future__ import annotations

from typing import Any

import torch

from quartic.arrays.torch_tall import dot
from quartic.arrays.waiting import Waiting


def projected_norm(X: Any, G: Any) -> Any:
    """‖∇ᴾ‖² of the projected gradient: G where X > 0, min(G, 0) where X = 0."""
    V = torch.where(X > 0, G, G.clamp(max=0))
    return Waiting(dot(V, V))
