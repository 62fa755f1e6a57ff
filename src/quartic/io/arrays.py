"""Arrays and matrices in binary files and in Matrix Market: never unpickled, sizes checked before they are believed."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import scipy.sparse as sp

from quartic.archives import DAMAGE, check_claim, in_short, read_npy, read_npz
from quartic.arrays import first_not_finite
from quartic.io.errors import FileFormatError
from quartic.io.matlab import matlab_arrays
from quartic.io.matrix_market import read_matrix_market
from quartic.io.source import Source
from quartic.io.text import read_bytes


def read_arrays(source: Source) -> dict[str, Any]:
    """Return the arrays of a .npy, .npz, .mat or .mtx file by their names; a sparse matrix has the name ``""``."""
    readers = {"npy": _npy, "npz": _npz, "mat": _mat, "mtx": _mtx}
    return readers[source.kind](source)


def one_matrix(source: Source, names: tuple[str, ...]) -> Any:
    """Return the one matrix of a file: the only one there, or the only one with one of these names."""
    arrays = {
        name: array
        for name, array in read_arrays(source).items()
        if getattr(array, "ndim", 0) == 2 and array.dtype.kind in "fiub" and min(array.shape) > 0
    }
    if not arrays:
        raise FileFormatError(f"{source.name}: no matrix of real numbers in the file")
    if len(arrays) > 1:
        wanted = {name: array for name, array in arrays.items() if name in names}
        if len(wanted) != 1:
            # labels and the like are columns; they are not what is meant
            wanted = {name: array for name, array in arrays.items() if min(array.shape) > 1}
        if len(wanted) != 1:
            raise FileFormatError(
                f"{source.name}: several matrices ({', '.join(sorted(arrays))}); keep one, or call it {names[0]}"
            )
        arrays = wanted
    return next(iter(arrays.values()))


def check_finite(matrix: Any, name: str) -> None:
    """Raise an error that names the first entry that is not finite."""
    fault = first_not_finite(matrix)
    if fault is not None:
        row, column, value = fault
        raise FileFormatError(
            f"{name}: the entry in row {row}, column {column} (counted from 0) is {value}; "
            "every entry must be finite, correct it or take it out"
        )


def _npy(source: Source) -> dict[str, Any]:
    with source.path.open("rb") as file:
        try:
            return {"array": read_npy(file, os.path.getsize(source.path))}
        except DAMAGE as error:
            raise FileFormatError(f"{source.name}: not a NumPy array ({in_short(error)})") from None


def _npz(source: Source) -> dict[str, Any]:
    try:
        arrays = read_npz(source.path)
    except (OSError, *DAMAGE) as error:
        raise FileFormatError(f"{source.name}: damaged .npz file ({in_short(error)})") from None
    if {"format", "shape", "data"} <= set(arrays):
        return {"": _sparse(arrays, source)}
    return arrays


def _sparse(arrays: dict[str, Any], source: Source) -> Any:
    """Return the matrix that `scipy.sparse.save_npz` wrote, with its indices checked."""
    name = source.name
    try:
        kind = arrays["format"].item()
        kind = kind.decode("ascii") if isinstance(kind, bytes) else str(kind)
        rows, columns = (int(k) for k in arrays["shape"])
        check_claim(8 * (max(rows, columns) + 1), os.path.getsize(source.path), f"{rows} × {columns}")
        data = arrays["data"]
        if kind == "coo":
            _check_numbers(data, "data")
            _check_indices(arrays["row"], rows, "row")
            _check_indices(arrays["col"], columns, "col")
            matrix = sp.coo_array((data, (arrays["row"], arrays["col"])), shape=(rows, columns))
        elif kind in ("csr", "csc"):
            check_compressed(data, arrays["indices"], arrays["indptr"], columns if kind == "csr" else rows)
            make = sp.csr_array if kind == "csr" else sp.csc_array
            matrix = make((data, arrays["indices"], arrays["indptr"]), shape=(rows, columns))
            matrix.check_format(full_check=True)
        else:
            raise FileFormatError(f"{name}: the sparse format {kind!r} is not known; save it as CSR")
    except DAMAGE as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{name}: damaged sparse matrix ({in_short(error)})") from None
    return sp.csr_array(matrix)


def check_compressed(data: Any, indices: Any, indptr: Any, width: int) -> None:
    """Raise unless these are the arrays of a CSR matrix with so many columns, or of a CSC matrix with so many rows."""
    _check_numbers(data, "data")
    _check_indices(indices, width, "indices")
    _check_indices(indptr, len(data) + 1, "indptr")
    if (np.diff(indptr.astype(np.int64)) < 0).any():
        raise ValueError("indptr must not fall")


def _check_numbers(values: Any, what: str) -> None:
    if values.ndim != 1 or values.dtype.kind not in "fiub":
        raise ValueError(f"{what} must be real numbers in a row, got {values.dtype} of shape {values.shape}")


def _check_indices(values: Any, below: int, what: str) -> None:
    """Raise unless these are indices from 0 to below ``below``: compiled code follows them without a look."""
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise ValueError(f"{what} must be whole numbers in a row, got {values.dtype} of shape {values.shape}")
    if len(values) and (int(values.min()) < 0 or int(values.max()) >= below):
        raise ValueError(f"{what} must lie between 0 and {below - 1}")


def _mat(source: Source) -> dict[str, Any]:
    try:
        return matlab_arrays(read_bytes(source.path, source.name))
    except NotImplementedError:
        raise FileFormatError(f"{source.name}: MATLAB's 7.3 format is not read; save it with -v7") from None
    except DAMAGE as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{source.name}: not a MATLAB file ({in_short(error)})") from None


def _mtx(source: Source) -> dict[str, Any]:
    return {"": read_matrix_market(read_bytes(source.path, source.name), source.name)}
