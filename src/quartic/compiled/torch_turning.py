"""The passes of `quartic.compiled.turning` for torch tensors."""

from __future__ import annotations

from typing import Any

import torch

from quartic.arrays.elementwise import positive_part, times
from quartic.arrays.torch_tall import gram


def turned_gram(Z: Any, Q: Any) -> Any:
    """Return Zᵀ max(ZQ, 0)."""
    return gram(Z, positive_part(times(Z, Q)))


def chebyshev(MT: Any, T: Any, before: Any, centre: float, half: float) -> None:
    """Before = (2/half)(MT − centre·T) − before."""
    torch.sub(MT, T, alpha=centre, out=MT)
    torch.sub(MT.mul_(2 / half), before, out=before)
