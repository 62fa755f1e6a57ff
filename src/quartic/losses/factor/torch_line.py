"""The passes of `quartic.losses.factor.line` for torch tensors."""

from __future__ import annotations

from typing import Any

import torch

from quartic.arrays.elementwise import eps, small_for
from quartic.arrays.torch_tall import cross, inner
from quartic.arrays.waiting import Waiting
from quartic.compiled.torch_fused import projected_norm


def line_sums(X: Any, S: Any, D: Any, MD: Any, G: Any) -> tuple[Any, Any, Any, Any]:
    """Return U = XᵀD + DᵀX, C = DᵀD, ⟨MD, D⟩ and ⟨G, D⟩."""
    T = cross(X, D)
    return Waiting(T + T.T), Waiting(cross(D, D)), inner(MD, D), inner(G, D)


def gram_on_line(S: Any, U: Any, C: Any, t: float) -> Any:
    """Return (X + tD)ᵀ(X + tD) = S + tU + t²C."""
    return Waiting(S.tensor + t * (U.tensor + t * C.tensor))


def line_point(
    X: Any, D: Any, MX: Any, MD: Any, t: float, clip: bool, A: Any, new: Any, Mnew: Any, G: Any
) -> tuple[Any, Any, Any]:
    """Fill X + tD, MX + tMD, and G = (X + tD)A − 2(MX + tMD); with ``clip`` what is zero but for round-off is zero.

    Returns ⟨MX, X⟩ and ‖∇ᴾ‖² there (G where X > 0, min(G, 0) elsewhere), and whether X ≥ 0.
    """
    torch.add(X, D, alpha=t, out=new)
    if clip:
        new.masked_fill_(new <= 4 * eps(X) * X, 0)
    torch.add(MX, MD, alpha=t, out=Mnew)
    torch.addmm(Mnew, new, small_for(X, A), beta=-2, out=G)
    return inner(Mnew, new), projected_norm(new, G), Waiting((new >= 0).all().double())
