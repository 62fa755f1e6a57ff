"""The passes of `quartic.compiled.lbfgs` for torch tensors, all on the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from quartic.arrays.space_torch import DOUBLE, DeviceSpace, cross

Pairs = tuple[Any, ...]
# Entries of which inner products are taken at a time.
_ENTRIES = 1 << 24


def scaled(q: Any, scale: Any, X: Any) -> Any:
    """Return q times the scale; where there is none, as long as X."""
    first = DeviceSpace(X.device).quotient_of_norms(X, q)
    return q * (first if scale is None else torch.where(scale > 0, scale, first)).to(q.dtype)


def two_loop(G: Any, steps: Pairs, changes: Pairs, first_metric: Callable[[Any, Any], Any]) -> Any:
    """Return H G, with H from the pairs (s, y) and H₀ q = ``first_metric(q, sᵀy/yᵀy)``.

    Both loops at once, for a few launches a pair: with R the upper triangle of SᵀY, p = R⁻¹SᵀG and z = H₀(G − Yp), it
    is z + S R⁻ᵀ(diag(SᵀY)p − Yᵀz). A pair without positive curvature gets the coefficient 0.
    """
    m = len(steps)
    if not m:
        return first_metric(G.clone(), None)
    products = _inner_products((*steps, *changes, G))
    SY, YY, SG = products[:m, m:-1], products[m:-1, m:-1], products[:m, -1]
    sy, yy = SY.diagonal(), YY.diagonal()
    curved = (sy > 0) & (yy > 0)
    ratio = torch.where(curved, sy / yy, 0.0)
    at = torch.arange(m, device=G.device)
    scale = ratio.gather(0, torch.where(curved, at, 0).amax(0, keepdim=True))[0]  # of the newest
    used = curved & (sy > 1e-10 * yy * scale)
    unit = torch.eye(m, dtype=DOUBLE, device=G.device)
    R = torch.where(used[:, None] & used & (at[:, None] <= at), SY, unit)
    p = _solve_triangle(R, torch.where(used, SG, 0.0), upper=True)
    q = G.clone()
    for y, a in zip(changes, p.to(G.dtype), strict=True):
        q.addcmul_(y, a, value=-1)
    q = first_metric(q, scale)
    right = torch.where(used, sy * p - _inner_products((*changes, q))[:-1, -1], 0.0)
    c = _solve_triangle(R.T, right, upper=False)
    for s, a in zip(steps, c.to(G.dtype), strict=True):
        q.addcmul_(s, a)
    return q


def _solve_triangle(R: Any, right: Any, upper: bool) -> Any:
    if len(R) == 1:  # a division takes a tenth of the host's time
        return right / R[0]
    return torch.linalg.solve_triangular(R, right[:, None], upper=upper)[:, 0]


def _inner_products(arrays: Pairs) -> Any:
    """Return all inner products of some arrays, of so many entries at a time: memory is short where they are large."""
    total = 0.0
    for parts in zip(*(A.reshape(-1).split(_ENTRIES) for A in arrays), strict=True):
        P = torch.stack(parts).T
        total = total + cross(P, P)
    return total
