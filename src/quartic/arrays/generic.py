"""The same for arrays of which only they themselves are at hand: asks where they live, and forwards."""

from __future__ import annotations

from typing import Any

import numpy as np

from quartic.arrays.checks import Array
from quartic.arrays.space import space_of
from quartic.arrays.waiting import on_host


def namespace(A: Any) -> Any:
    """Return the module, numpy or torch, whose ``where``, ``abs``, ``sign`` … work on A."""
    return space_of(A).xp


def inner(A: Array, B: Array) -> float:
    """Return ⟨A, B⟩ = Σ A_ij B_ij."""
    return space_of(A).inner(A, B)


def squared_norm(A: Array) -> float:
    """Return ‖A‖²."""
    return space_of(A).inner(A, A)


def norm(A: Array) -> float:
    """Return ‖A‖, also where the squares under- or overflow."""
    return space_of(A).norm(A)


def gram(A: Array, B: Array | None = None) -> Array:
    """Return AᵀB (AᵀA when B is left out), an r × r matrix in float64."""
    return space_of(A).gram(A, B)


def total(A: Array) -> float:
    """Return the sum of all entries, in float64."""
    return space_of(A).total(A)


def is_zero(A: Array) -> bool:
    """Tell whether all entries are zero."""
    return space_of(A).is_zero(A)


def first_entry(wanted: Any) -> tuple[int, ...] | None:
    """Return the indices of the first true entry, None where there is none."""
    return space_of(wanted).first_entry(wanted)


def astype(A: Any, dtype: type[np.floating[Any]]) -> Array:
    """Return A in another type; A itself where it has that already."""
    return space_of(A).astype(A, dtype)


def float_type(A: Any) -> type[np.floating[Any]]:
    """Return np.float32 or np.float64, the type of A's entries."""
    return space_of(A).float_type(A)


def copy(A: Any) -> Array:
    """Return a copy."""
    return space_of(A).copy(A)


def to_host(A: Any) -> Any:
    """Return a NumPy array, or a float, for what may live on a device."""
    return space_of(A).to_host(on_host(A))


def positive_part(A: Any) -> Array:
    """Return max(A, 0), entry by entry."""
    return space_of(A).positive_part(A)


def times(A: Any, S: Any) -> Array:
    """Return A S for a small matrix S, in A's type."""
    return space_of(A).times(A, S)


def bare(S: Any) -> Any:
    """Return a small matrix as the array it is, on the device a tensor, for arithmetic there without a read."""
    return space_of(S).bare(S)
