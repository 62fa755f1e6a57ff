"""Which map it is that the user gave, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from quartic.arrays import Array, working_dtype
from quartic.losses.other.measurements.base import Measurements
from quartic.losses.other.measurements.matrices import Matrices
from quartic.losses.other.measurements.operator import Operator, Own
from quartic.losses.other.measurements.vectors import Vectors


def as_measurements(A: Any, m: int) -> Measurements:
    """Return the map that A describes (see `quartic.losses.Sensing`), or raise an error that says what is wrong."""
    if isinstance(A, Measurements):
        return A
    if isinstance(A, LinearOperator):
        _refuse_complex(np.dtype(A.dtype))
        return Vectors(A)
    if sp.issparse(A):
        return _from_stack(A)
    if isinstance(A, list | tuple) and len(A) and all(sp.issparse(a) for a in A):
        shapes = {a.shape for a in A}
        if len(shapes) > 1 or A[0].shape[0] != A[0].shape[1]:
            raise ValueError(f"the matrices of A must be square and of one size, got shapes {sorted(shapes)}")
        return _from_stack(sp.vstack([sp.coo_array(a).reshape((1, -1)) for a in A], format="csr"))
    if isinstance(A, Operator):
        return Own(A, int(A.n_points), m)
    array = np.asarray(A)
    _refuse_complex(array.dtype)
    if array.dtype.kind not in "fiub" or array.ndim not in (2, 3):
        raise TypeError(
            "A must be an (m, n) array of vectors, an (m, n, n) array, a list of sparse matrices or a sparse (m, n²) "
            f"stack of them, or an object with forward, adjoint and n_points; got {type(A).__name__}"
            + (f" of shape {array.shape}, dtype {array.dtype}" if array.ndim else "")
        )
    clean = np.ascontiguousarray(array, dtype=working_dtype(array.dtype))
    if not np.isfinite(clean).all():
        place = tuple(int(k) for k in np.argwhere(~np.isfinite(clean))[0])
        raise ValueError(f"A must be finite, but A{list(place)} is {clean[place]}")
    if clean.ndim == 2:
        return Vectors(clean)
    if clean.shape[1] != clean.shape[2]:
        raise ValueError(f"A of shape (m, n, n) holds m square matrices, got shape {clean.shape}")
    _check_symmetric(clean)
    return Matrices(clean.reshape(len(clean), -1), clean.shape[1])


def _from_stack(stack: Any) -> Matrices:
    n = round(stack.shape[1] ** 0.5)
    if n * n != stack.shape[1]:
        raise ValueError(
            f"a sparse A holds one matrix a row, (m, n²), but {stack.shape[1]} columns are no square; "
            "for sparse vectors pass scipy.sparse.linalg.aslinearoperator(A)"
        )
    _refuse_complex(stack.dtype)
    S = sp.coo_array(stack)
    if not np.isfinite(S.data).all():
        raise ValueError("A must be finite, but a stored entry is not")
    i, j = np.divmod(S.coords[1].astype(np.int64), n)
    gap = abs(sp.csr_array(S) - sp.csr_array((S.data, (S.coords[0], j * n + i)), shape=S.shape))
    if gap.nnz and gap.max() > 1e-6 * np.abs(S.data).max():
        k, place = divmod(int(sp.coo_array(gap).argmax()), n * n)
        raise ValueError(_asymmetric(k, *divmod(place, n)))
    return Matrices(S, n)


def _check_symmetric(A: Array) -> None:
    for k, a in enumerate(A):
        gap = np.abs(a - a.T)
        if gap.max() > 1e-6 * np.abs(a).max(initial=0.0):
            i, j = np.unravel_index(int(gap.argmax()), gap.shape)
            raise ValueError(_asymmetric(k, int(i), int(j)))


def _asymmetric(k: int, i: int, j: int) -> str:
    return (
        f"A[{k}] must be symmetric, but its entries ({i}, {j}) and ({j}, {i}) differ; only the symmetric part "
        "meets XXᵀ: pass (A + Aᵀ)/2"
    )


def _refuse_complex(dtype: np.dtype[Any]) -> None:
    if dtype.kind == "c":
        raise TypeError("A is complex, which makes this phase retrieval; use PhaseRetrieval(A, b)")
