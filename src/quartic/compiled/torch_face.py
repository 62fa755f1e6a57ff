"""The passes of `quartic.compiled.face` for torch tensors: whole arrays, zero off the face."""

from __future__ import annotations

from typing import Any

import torch

from quartic.arrays.elementwise import quotient_of_norms
from quartic.arrays.tall import inner, norm
from quartic.compiled.torch_memory import clipped_direction, free_entries, longest_step, two_loop

Pairs = tuple[Any, ...]


def kept(where: Pairs, steps: Pairs, changes: Pairs, X: Any, G: Any, most: int) -> tuple[Pairs, Pairs, Pairs]:
    """Return the pairs on the face of X: what left it is forgotten, in place."""
    free = free_entries(X, G)
    for A in (*steps, *changes):
        A.mul_(free)
    return where, steps, changes


def direction(where: Pairs, steps: Pairs, changes: Pairs, X: Any, G: Any, D: Any) -> tuple[Any, Any]:
    """Fill D = max(X − q, 0) − X with q = HG on the face; return ⟨G, D⟩ and the largest t with X + tD ≥ 0."""
    q = two_loop(G * free_entries(X, G), steps, changes, None, lambda q, scale: q * _scale(X, q, scale))
    slope = clipped_direction(X, q, G, D)
    return slope, longest_step(X, D)


def _scale(X: Any, q: Any, scale: Any) -> Any:
    first: Any = quotient_of_norms(X, q)
    return (first if scale is None else torch.where(scale > 0, scale, first)).to(q.dtype)


def pair(where: Pairs, X: Any, G: Any, after: Any, D: Any, t: float) -> tuple[Any, Any, Any, Any]:
    """Return the pair s = D and y = (∇⁺ − G)/t on the face, with ⟨s, y⟩ and ‖s‖·‖y‖."""
    y = (after - G).mul_(1 / t).mul_(free_entries(X, G))
    return D, y, inner(D, y), norm(D) * norm(y)
