"""Gradients of functions written with torch or jax, whichever the function turns out to be written with."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias

import numpy as np

from quartic.arrays import Array

#: X ↦ (f(X), ∇f(X)), in NumPy's terms
ValueAndGradient: TypeAlias = Callable[[Array], tuple[float, Array]]


def differentiate(f: Callable[[Any], Any], X: Array, device: Any = None) -> ValueAndGradient:
    """Return X ↦ (f(X), ∇f(X)), or raise a TypeError that says what happened when f was tried on X.

    Neither package is imported here: whoever wrote f with one of them has done so.
    """
    tried = []
    for name, make in (("torch", _with_torch), ("jax", _with_jax)):
        if name not in sys.modules:
            tried.append(f"{name} is not imported")
            continue
        try:
            found = make(f, X, device)
            found(X)
        except Exception as error:  # f is the user's, and may object to a tensor in any way it likes
            tried.append(f"{name}: {type(error).__name__}: {error}")
        else:
            return found
    raise TypeError(
        "gradient was left out, so F must be a function written with torch or jax that returns one number; tried: "
        + "; ".join(tried)
    )


def _with_torch(f: Callable[[Any], Any], X: Array, device: Any) -> ValueAndGradient:
    torch: Any = sys.modules["torch"]

    def run(X: Array, dtype: Any = None) -> tuple[float, Array]:
        x = torch.as_tensor(X, dtype=dtype, device=device).clone().requires_grad_(True)
        value = f(x)
        if not isinstance(value, torch.Tensor) or value.numel() != 1:
            raise TypeError("F did not return a tensor with one number")
        (G,) = torch.autograd.grad(value.reshape(()), x)
        return float(value.detach()), G.detach().cpu().numpy().astype(X.dtype, copy=False)

    try:
        run(X)
    except RuntimeError:  # as a rule the data within f are float32, which torch will not mix with float64
        run(X, torch.float32)
        return lambda X: run(X, torch.float32)
    return run


def _with_jax(f: Callable[[Any], Any], X: Array, device: Any) -> ValueAndGradient:
    jax: Any = sys.modules["jax"]
    both = jax.jit(jax.value_and_grad(f))

    def run(X: Array) -> tuple[float, Array]:
        with _double_precision(jax):
            value, G = both(jax.numpy.asarray(X))
            return float(value), np.array(G, dtype=X.dtype)  # a copy: jax's own arrays are read-only

    return run


def _double_precision(jax: Any) -> AbstractContextManager[Any]:
    """Return a context in which jax keeps float64, which it drops by default."""
    if hasattr(jax, "enable_x64"):
        context: AbstractContextManager[Any] = jax.enable_x64(True)
        return context
    older = getattr(sys.modules.get("jax.experimental"), "enable_x64", nullcontext)
    made: AbstractContextManager[Any] = older()
    return made
