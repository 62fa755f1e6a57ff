"""Compiled passes of the limited-memory two-loop recursion, restricted to the free entries."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from quartic.compiled.flags import FLAGS


def two_loop(
    G: Any, steps: tuple[Any, ...], changes: tuple[Any, ...], free: Any, first_metric: Callable[[Any, Any], Any]
) -> Any:
    """Return H G over the free entries, with H from the pairs (s, y) and H₀ q = ``first_metric(q, sᵀy/yᵀy)``.

    Pairs without positive curvature there are left out; None for that number where none is left.
    """
    if free is None:
        free = np.ones(G.shape, dtype=np.bool_)
    q = np.where(free, G, 0)
    used: list[tuple[int, float, float]] = []
    coefficient, last, scale = 0.0, q, 0.0
    for i in reversed(range(len(steps))):
        sq, sy, yy = subtract_and_dot(q, coefficient, last, steps[i], changes[i], free)
        coefficient, last = 0.0, q
        if sy > 1e-10 * yy * scale and sy > 0 and yy > 0:
            scale = scale or sy / yy
            coefficient, last = sq / sy, changes[i]
            used.append((i, coefficient, sy))
    if coefficient:
        subtract_and_dot(q, coefficient, last, last, last, free)
    q = first_metric(q, scale or None)
    coefficient, last = 0.0, q
    for i, a, sy in reversed(used):
        yq = add_and_dot(q, coefficient, last, changes[i], free)
        coefficient, last = a - yq / sy, steps[i]
    if coefficient:
        add_and_dot(q, coefficient, last, last, free)
    return q


def free_entries(X: Any, G: Any) -> Any:
    """Return where entries may move: those off the bound, and those the gradient pushes off it."""
    free = np.empty(X.shape, dtype=np.bool_)
    mark_free(X, G, free)
    return free


@njit(**FLAGS)
def mark_free(X: Any, G: Any, free: Any) -> None:
    """Mark the entries that may move."""
    x, g, f = X.ravel(), G.ravel(), free.ravel()
    for k in range(x.size):
        f[k] = x[k] > 0 or g[k] < 0


@njit(**FLAGS)
def subtract_and_dot(q: Any, c: float, y: Any, s: Any, z: Any, free: Any) -> Any:
    """Q −= c·y on the free entries; returns ⟨s, q⟩, ⟨s, z⟩ and ⟨z, z⟩ over them."""
    q_, y_, s_, z_, f_ = q.ravel(), y.ravel(), s.ravel(), z.ravel(), free.ravel()
    c = q_.dtype.type(c)
    sq, sz, zz = 0.0, 0.0, 0.0
    for k in range(q_.size):
        if f_[k]:
            v = q_[k] - c * y_[k]
            q_[k] = v
            sq += np.float64(s_[k]) * np.float64(v)
            sz += np.float64(s_[k]) * np.float64(z_[k])
            zz += np.float64(z_[k]) * np.float64(z_[k])
    return sq, sz, zz


@njit(**FLAGS)
def add_and_dot(q: Any, c: float, s: Any, y: Any, free: Any) -> float:
    """Q += c·s on the free entries; returns ⟨y, q⟩ over them."""
    q_, s_, y_, f_ = q.ravel(), s.ravel(), y.ravel(), free.ravel()
    c = q_.dtype.type(c)
    yq = 0.0
    for k in range(q_.size):
        if f_[k]:
            v = q_[k] + c * s_[k]
            q_[k] = v
            yq += np.float64(y_[k]) * np.float64(v)
    return yq


@njit(**FLAGS)
def clipped_direction(X: Any, q: Any, G: Any, D: Any) -> float:
    """D = max(X − q, 0) − X; returns ⟨G, D⟩."""
    x, q_, g, d = X.ravel(), q.ravel(), G.ravel(), D.ravel()
    zero = x.dtype.type(0)
    slope = 0.0
    for k in range(x.size):
        v = max(x[k] - q_[k], zero) - x[k]
        d[k] = v
        slope += np.float64(g[k]) * np.float64(v)
    return slope


@njit(**FLAGS)
def longest_step(X: Any, D: Any) -> float:
    """The largest t with X + tD ≥ 0."""
    x, d = X.ravel(), D.ravel()
    t = math.inf
    for k in range(x.size):
        if d[k] < 0:
            t = min(t, -np.float64(x[k]) / np.float64(d[k]))
    return t
