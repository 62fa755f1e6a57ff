"""The passes of a symmetric factorisation for torch tensors: Triton kernels on a GPU, a few torch calls elsewhere."""

from __future__ import annotations

import math
from typing import Any

import torch

from quartic.arrays.space import Fresh, eps
from quartic.arrays.space_torch import DOUBLE, DeviceSpace, cross, dot, small_for, triton_serves
from quartic.arrays.waiting import Waiting, delayed, entries
from quartic.losses.factor.passes import Origin, StepSums

# The kernels keep a row of X, and r × r sums, in registers up to this rank.
WIDEST = 64


def _kernels(X: Any) -> Any:
    if not triton_serves(X, WIDEST):
        return None
    from quartic.losses.factor import triton

    return triton


def extrapolated(origin: Origin, arrays: Fresh) -> tuple[Origin, Any]:
    """Return Y = X + t(X − Z) and MY formed, as an origin of their own, and YᵀY.

    One pass, after which the others have less to read.
    """
    X, MX, Z, MZ, t = origin
    Y, MY, kernels = arrays.like(X), arrays.like(X), _kernels(X)
    if kernels is not None:
        return Origin.at(Y, MY), Waiting(kernels.extrapolated(X, Z, MX, MZ, t, Y, MY))
    torch.lerp(Z, X, 1 + t, out=Y)
    torch.lerp(MZ, MX, 1 + t, out=MY)
    return Origin.at(Y, MY), Waiting(gram_tensor(Y))


def formed(origin: Origin, arrays: Fresh) -> tuple[Any, Any]:
    """Return Y and MY."""
    X, MX, Z, MZ, t = origin
    return torch.lerp(Z, X, 1 + t), torch.lerp(MZ, MX, 1 + t)


def gram_at(origin: Origin) -> Any:
    """Return XᵀX in float64."""
    return Waiting(gram_tensor(origin.X))


def gram_tensor(X: Any) -> Any:
    """Return XᵀX as a tensor."""
    kernels = _kernels(X)
    return cross(X, X) if kernels is None else kernels.gram_of(X)


def tensors_of_step(X: Any, Y: Any, MX: Any, MY: Any) -> tuple[Any, Any, Any]:
    """Return XᵀX, DᵀD of D = X − Y, and ⟨MD, D⟩, ⟨Y, D⟩, ‖D‖², ⟨MX, X⟩ with the number of entries not X ≥ 0."""
    kernels = _kernels(X)
    if kernels is not None:
        return kernels.step_sums(X, Y, MX, MY)
    D = X - Y
    C = cross(D, D)
    outside = X.numel() - (X >= 0).sum(dtype=DOUBLE)
    return cross(X, X), C, torch.stack([dot(MX - MY, D), dot(Y, D), C.trace(), dot(MX, X), outside])


def stepped(origin: Origin, S: Any, alpha: float, sigma: float, b: float, shift: float, clip: bool, W: Any) -> Any:
    """Fill W = (α·tr S + σ)X + bG − shift, cut off below zero if ``clip``; return ‖W‖²."""
    X, MX, s = origin.X, origin.MX, -2 * b
    space, kernels = DeviceSpace(X.device), _kernels(X)
    A = 2 * b * space.bare(S)
    A.diagonal().add_(space.front(S, alpha, sigma))
    A = small_for(X, A)
    if kernels is not None:
        return Waiting(kernels.stepped(X, A, s, MX, shift, clip, W))
    torch.mm(X, A, out=W)
    W.add_(MX, alpha=s)
    if shift:
        W.sub_(shift)
    if clip:
        W.clamp_(min=0)
    return Waiting(dot(W, W))


def step_sums(X: Any, MX: Any, origin: Origin, ahead: float | None, curved: bool) -> StepSums:
    """Return the sums of the step from the origin to X, always with DᵀD: a GPU waits for memory anyway.

    Nothing is prepared for the next step: `extrapolated` has its Gram matrix at once.
    """
    S, C, sums = tensors_of_step(X, origin.X, MX, origin.MX)
    bend, along, length, fit, outside = entries(sums)
    feasible = delayed(lambda count: count == 0, outside)
    return StepSums(Waiting(S), Waiting(C), None, bend, along, length, fit, math.nan, feasible)  # type: ignore[arg-type]


def projected_norm(X: Any, S: Any, MX: Any) -> Any:
    """Return ‖∇ᴾ‖² of the gradient G = 2XS − 2MX: G where X > 0, min(G, 0) where X = 0."""
    S, kernels = small_for(X, 2 * DeviceSpace(X.device).bare(S)), _kernels(X)
    if kernels is not None:
        return Waiting(kernels.projected_norm(X, S, MX))
    G = torch.addmm(MX, X, S, beta=-2)
    torch.where(X > 0, G, G.clamp(max=0), out=G)
    return Waiting(dot(G, G))


def line_sums(X: Any, D: Any, S: Any, G: Any, MD: Any) -> tuple[Any, Any, Any, Any]:
    """Return XᵀD + DᵀX, DᵀD, ⟨G, D⟩ and ⟨MD, D⟩."""
    T = cross(X, D)
    return Waiting(T + T.T), Waiting(cross(D, D)), Waiting(dot(G, D)), Waiting(dot(MD, D))


def line_point(
    X: Any, D: Any, MX: Any, MD: Any, t: float, clip: bool, S: Any, new: Any, Mnew: Any, G: Any
) -> tuple[Any, Any, Any]:
    """Fill X + tD, MX + tMD, and G = 2(X + tD)S − 2(MX + tMD); return ⟨MX, X⟩ and ‖∇ᴾ‖² there, and whether X ≥ 0."""
    torch.add(X, D, alpha=t, out=new)
    if clip:
        new.masked_fill_(new <= 4 * eps(X) * X, 0)
    torch.add(MX, MD, alpha=t, out=Mnew)
    space = DeviceSpace(X.device)
    torch.addmm(Mnew, new, small_for(X, 2 * space.bare(S)), beta=-2, out=G)
    projected = space.projected_norm(new, G)
    return Waiting(dot(Mnew, new)), projected, Waiting((new >= 0).all().double())
