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


def least(A: Array) -> float:
    """Return the least entry, or 0 if that is positive; NaN where there is one."""
    return space_of(A).least(A)


def is_zero(A: Array) -> bool:
    """Tell whether all entries are zero."""
    return space_of(A).is_zero(A)


def equal(A: Array, B: Array) -> bool:
    """Tell whether all entries are the same."""
    return space_of(A).equal(A, B)


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


def clip_in_place(A: Any) -> None:
    """Set A to max(A, 0)."""
    space_of(A).clip_in_place(A)


def falling_order(x: Any) -> Any:
    """Return the order that sorts a vector, largest first, equals as they come."""
    return space_of(x).falling_order(x)


def times(A: Any, S: Any) -> Array:
    """Return A S for a small matrix S, in A's type."""
    return space_of(A).times(A, S)


def small_like(A: Any, S: Any) -> Array:
    """Return a small float64 matrix as `gram` of A would: on A's device, where it has one."""
    return space_of(A).small(S)


def bare(S: Any) -> Any:
    """Return a small matrix as the array it is, on the device a tensor, for arithmetic there without a read."""
    return space_of(S).bare(S)


def regular_inverse(S: Any, shift: float) -> Array:
    """Return (S + shift·tr(S)/r·I)⁻¹ of a small matrix, on the device where S is."""
    return space_of(S).regular_inverse(S, shift)


def quotient(a: Any, b: Any) -> float:
    """Return a / b, on the device where they are: for use as a factor of tall arrays."""
    return space_of(a).quotient(a, b)
