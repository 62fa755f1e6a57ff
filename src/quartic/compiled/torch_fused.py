"""The passes of `quartic.compiled.fused` for torch tensors."""

from __future__ import annotations

from typing import Any

import torch

from quartic.arrays.torch_tall import DOUBLE, dot
from quartic.arrays.waiting import Waiting


def extrapolate(X: Any, Z: Any, t: float, out: Any) -> None:
    """Out = X + t(X − Z)."""
    torch.sub(X, Z, out=out)
    torch.add(X, out, alpha=t, out=out)


def add_scaled(A: Any, s: float, B: Any) -> None:
    """A += s B."""
    A.add_(B, alpha=s)


def add_and_clip(V: Any, s: float, P: Any, shift: float, clip: bool) -> Any:
    """V += s P − shift, then cut off below zero if ``clip``; returns ‖V‖²."""
    V.add_(P, alpha=s)
    if shift:
        V.sub_(shift)
    if clip:
        V.clamp_(min=0)
    return Waiting(dot(V, V))


def difference(X: Any, Y: Any, P: Any, Q: Any, D: Any) -> Any:
    """D = X − Y; returns ⟨P − Q, D⟩."""
    torch.sub(X, Y, out=D)
    return Waiting(((P - Q) * D).sum(dtype=DOUBLE))


def projected_norm(X: Any, G: Any) -> Any:
    """‖∇ᴾ‖² of the projected gradient: G where X > 0, min(G, 0) where X = 0."""
    V = torch.where(X > 0, G, G.clamp(max=0))
    return Waiting(dot(V, V))
