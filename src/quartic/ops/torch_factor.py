"""The passes of `quartic.ops.factor` for torch tensors: Triton kernels on a GPU, a few calls of torch elsewhere."""

from __future__ import annotations

from typing import Any

import torch

from quartic.ops.elementwise import small_for
from quartic.ops.torch_kernels import kernels_for
from quartic.ops.torch_tall import DOUBLE, cross, dot
from quartic.ops.waiting import Waiting, delayed, entries


def _kernels(X: Any) -> Any:
    return kernels_for("triton_factor", X)


def gram_of(X: Any) -> Any:
    """Return XᵀX in float64."""
    kernels = _kernels(X)
    if kernels is not None:
        return Waiting(kernels.gram_of(X))
    return Waiting(cross(X, X))


def extrapolated(X: Any, Z: Any, MX: Any, MZ: Any, t: float, Y: Any, MY: Any) -> Any:
    """Fill Y = X + t(X − Z) and MY = MX + t(MX − MZ); return YᵀY."""
    kernels = _kernels(X)
    if kernels is not None:
        return Waiting(kernels.extrapolated(X, Z, MX, MZ, t, Y, MY))
    torch.lerp(Z, X, 1 + t, out=Y)
    torch.lerp(MZ, MX, 1 + t, out=MY)
    return gram_of(Y)


def stepped(X: Any, A: Any, s: float, MX: Any, shift: float, clip: bool, W: Any) -> Any:
    """Fill W = XA + s·MX − shift, cut off below zero if ``clip``; return ‖W‖²."""
    A, kernels = small_for(X, A), _kernels(X)
    if kernels is not None:
        return Waiting(kernels.stepped(X, A, s, MX, shift, clip, W))
    torch.mm(X, A, out=W)
    W.add_(MX, alpha=s)
    if shift:
        W.sub_(shift)
    if clip:
        W.clamp_(min=0)
    return Waiting(dot(W, W))


def step_sums(X: Any, Y: Any, MX: Any, MY: Any) -> tuple[Any, Any, tuple[Any, Any, Any, Any], Any]:
    """Return of the step D = X − Y, MD = MX − MY: XᵀX, DᵀD, the sums ⟨MD, D⟩, ⟨Y, D⟩, ‖D‖², ⟨MX, X⟩; whether X ≥ 0."""
    kernels = _kernels(X)
    if kernels is not None:
        S, C, sums = kernels.step_sums(X, Y, MX, MY)
        bend, along, length, fit, outside = entries(sums)
        return Waiting(S), Waiting(C), (bend, along, length, fit), delayed(lambda count: count == 0, outside)
    D = X - Y
    C = cross(D, D)
    sums = (((MX - MY) * D).sum(dtype=DOUBLE), dot(Y, D), C.trace(), dot(MX, X))
    feasible = (X >= 0).all().double()
    return gram_of(X), Waiting(C), tuple(Waiting(s) for s in sums), Waiting(feasible)  # type: ignore[return-value]


def projected_norm(X: Any, S: Any, MX: Any) -> Any:
    """Return ‖∇ᴾ‖² of the gradient G = XS − 2MX: G where X > 0, min(G, 0) where X = 0."""
    S, kernels = small_for(X, S), _kernels(X)
    if kernels is not None:
        return Waiting(kernels.projected_norm(X, S, MX))
    G = torch.addmm(MX, X, S, beta=-2)
    torch.where(X > 0, G, G.clamp(max=0), out=G)
    return Waiting(dot(G, G))
