"""Types and checks of arrays that every part shares."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.floating[Any]]
RandomState: TypeAlias = "int | np.random.Generator | np.random.RandomState | np.random.SeedSequence | None"

# Rows of a dense matrix looked at together.
_ROWS = 1024


def is_torch(A: Any) -> bool:
    """Tell whether A is a torch tensor; torch is not imported to find out."""
    torch = sys.modules.get("torch")  # a tensor cannot exist before its module does
    return torch is not None and isinstance(A, torch.Tensor)


def as_array(A: Any, name: str) -> Any:
    """Return what a user gave as an array: a tensor, without what it remembers, or all else as one of NumPy's."""
    if is_torch(A):
        return A.detach()
    if hasattr(A, "tocoo"):
        raise TypeError(f"{name} must be a dense array here, got a sparse one; pass {name}.toarray()")
    if np.ma.is_masked(A):
        raise TypeError(
            f"{name} hides entries behind a mask, which would count as known; pass {name}.filled(...) with what they "
            "are, or weights of zero where a loss takes weights"
        )
    return np.asarray(A)


def real_array(A: Any, name: str) -> Any:
    """Return what a user gave as an array or tensor, or raise where it does not hold real numbers."""
    A = as_array(A, name)
    check_real(A, name)
    return A


def check_real(A: Any, name: str) -> None:
    """Raise unless an array, dense or sparse, or a tensor holds real numbers."""
    if kind_of(A) not in "fiub":
        cure = f"; if they are numbers pass {name}.astype(float)" if kind_of(A) in "OUS" else ""
        raise TypeError(f"{name} must be real numbers, got dtype {A.dtype}{cure}")


def kind_of(A: Any) -> str:
    """Return what NumPy calls the kind of an array's entries, of tensors too."""
    if not is_torch(A):
        return str(A.dtype.kind)
    return "c" if A.is_complex() else "f" if A.is_floating_point() else "b" if str(A.dtype) == "torch.bool" else "i"


def random_generator(random_state: RandomState) -> np.random.Generator:
    """Return a generator for anything scikit-learn or NumPy users pass as ``random_state``.

    The global generator is never read or advanced. A legacy ``RandomState`` seeds a new generator with one draw.
    """
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31 - 1))
    if isinstance(random_state, bool) or (
        random_state is not None
        and not isinstance(random_state, int | np.integer | np.random.Generator | np.random.SeedSequence)
    ):
        raise TypeError(
            f"random_state must be None, an int, a numpy Generator or a RandomState, got {type(random_state).__name__}"
        )
    if isinstance(random_state, int | np.integer) and random_state < 0:
        raise ValueError(f"random_state must be a nonnegative int, got {random_state}")
    return np.random.default_rng(random_state)


def finite_matrix(A: Any, name: str) -> Array:
    """Return ``A`` as a C-ordered finite 2-D float array (float32 is kept, all else becomes float64).

    A torch tensor stays one, on its device. The errors say what is wrong, and name the first entry that is not finite.
    """
    if is_torch(A):
        from quartic.arrays import space_torch

        tensor: Array = space_torch.finite_matrix(A, name)
        return tensor
    A = real_array(A, name)
    if A.ndim != 2:
        raise ValueError(f"{name} must be a 2-D array, got {A.ndim} dimension{'s' * (A.ndim != 1)}, shape {A.shape}")
    clean: Array = np.ascontiguousarray(A, dtype=working_dtype(A.dtype))
    check_finite(clean, name)
    return clean


def finite_csr(A: Any, name: str, cure: str = "") -> sp.csr_array:
    """Return a SciPy matrix as a finite csr_array of floats without repeated entries, its own data where it is one."""
    check_real(A, name)
    clean = sp.csr_array(A, dtype=working_dtype(A.dtype))
    if not clean.has_canonical_format:
        clean = clean.copy()  # the caller's arrays may be shared, and the next line sorts in place
        clean.sum_duplicates()
    check_finite(clean, name, cure)
    return clean


def check_finite(A: Any, name: str, cure: str = "") -> None:
    """Raise an error that names the first NaN or infinity of a matrix, dense or sparse, and a cure with its ``row``."""
    fault = first_not_finite(A)
    if fault is not None:
        row, column, value = fault
        words = f"{name} must be finite, but {name}[{row}, {column}] is {value}"
        raise ValueError(words + cure.format(row=row))


def first_not_finite(A: Any, *, nan: bool = False) -> tuple[int, int, float] | None:
    """Return row, column and value of the first NaN or infinity of a matrix, dense or sparse; None where there is none.

    With ``nan`` NaN is allowed, and only infinity is looked for.
    """

    def bad(values: Any) -> Any:
        return np.isinf(values) if nan else ~np.isfinite(values)

    def doubtful(values: Any) -> bool:
        """A sum shows every NaN and infinity, without memory of its own; it may also overflow."""
        with np.errstate(over="ignore", invalid="ignore"):
            return not np.isfinite(values.sum())

    if hasattr(A, "tocoo"):
        if A.format in ("csr", "csc", "coo") and not doubtful(A.data):
            return None  # without the memory of another format
        stored = A.tocoo()
        at = np.flatnonzero(bad(stored.data))
        if not len(at):
            return None
        first = at[np.lexsort((stored.col[at], stored.row[at]))[0]]
        return int(stored.row[first]), int(stored.col[first]), float(stored.data[first])
    A = np.asarray(A)
    for top in range(0, len(A), _ROWS):  # blocks of rows: the answers of a large matrix would fill memory of their own
        block = A[top : top + _ROWS]
        if doubtful(block) and len(faults := np.argwhere(bad(block))):
            row, column = (int(k) for k in faults[0])
            return top + row, column, float(block[row, column])
    return None


def as_floats(A: Any) -> Array:
    """Return ``A`` as a C-ordered array of float32 or float64, itself where it is one: integers would truncate."""
    if is_torch(A):
        from quartic.arrays import space_torch

        tensor: Array = space_torch.as_floats(A)
        return tensor
    A = np.asarray(A)
    return np.ascontiguousarray(A, dtype=working_dtype(A.dtype))


def check_number(value: Any, name: str, *, zero: bool = False, below: float = math.inf, cure: str = "") -> None:
    """Raise unless ``value`` is a number above zero (or zero, where allowed) and below ``below``."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    if not (0 <= float(value) < below and (zero or float(value) > 0)):
        limit = "finite" if below == math.inf else f"below {below:g}"
        raise ValueError(f"{name} must be {'nonnegative' if zero else 'positive'} and {limit}, got {value!r}{cure}")


def count(n: int, what: str) -> str:
    """Return ``1 row``, ``2 rows``."""
    return f"{n} {what}{'' if n == 1 else 's'}"


def check_count(value: Any, name: str, at_least: int = 1) -> int:
    """Return ``value``, or raise unless it is an integer of at least so much."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if value < at_least:
        raise ValueError(f"{name} must be at least {at_least}, got {value!r}")
    return int(value)


def check_integer(value: Any, name: str, least: int, more: str = "") -> None:
    """Raise unless the setting ``value`` is an integer of at least ``least``; ``more`` is what else it may be."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}{more}, got {value!r}")


def check_choice(value: Any, name: str, words: Iterable[str], otherwise: bool = False) -> None:
    """Raise unless the setting ``value`` is one of the words, or is right ``otherwise``."""
    if not otherwise and not (isinstance(value, str) and value in words):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, words))}, got {value!r}")


def working_dtype(dtype: np.dtype[Any]) -> type[np.floating[Any]]:
    """Return the type we compute in: float32 stays, everything else becomes float64."""
    return np.float32 if dtype == np.dtype(np.float32) else np.float64
