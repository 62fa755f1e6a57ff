"""The constant L_F of distances, on a torch device: see `quartic.losses.Distances`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch


def distance_smoothness(start: Any, cols: Any, weight: Any, count: Callable[[int], None]) -> float:
    """Return 2 max w + an upper bound of λ_max(Deg_w + Adj_w), by ten power iterations (Collatz and Wielandt)."""
    n, double = len(start) - 1, torch.float64
    rows = torch.repeat_interleave(torch.arange(n, device=start.device), start.diff())
    columns = cols.to(torch.int64)
    w = torch.ones(len(cols), dtype=double, device=cols.device) if weight is None else weight.to(double)
    degree = torch.zeros(n, dtype=double, device=cols.device).index_add_(0, rows, w)
    x = degree.sqrt() + 1e-3 * math.sqrt(float(degree.max()))
    bounds = [2 * degree.max()]
    for _ in range(10):
        Qx = (degree * x).index_add_(0, rows, w * x[columns])
        count(1)
        bounds.append((Qx / x).max())
        # Half a step towards the old x damps the slow oscillation of bipartite graphs, and keeps x positive.
        x = 0.5 * (x / x.norm() + Qx / Qx.norm())
    return float(torch.stack(bounds).min() + 2 * w.max())
