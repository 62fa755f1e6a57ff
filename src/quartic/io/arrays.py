"""Arrays and matrices in binary files and in Matrix Market: never unpickled, sizes checked before they are believed."""

from __future__ import annotations

import os
import zipfile
import zlib
from typing import Any

import numpy as np
import scipy.sparse as sp

from quartic.io.errors import FileFormatError
from quartic.io.source import Source
from quartic.io.text import check_size


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
    if sp.issparse(matrix):
        entries = matrix.tocoo()
        bad = np.flatnonzero(~np.isfinite(entries.data))
        if len(bad):
            row, column, value = entries.row[bad[0]], entries.col[bad[0]], entries.data[bad[0]]
            raise FileFormatError(_fault(name, int(row), int(column), value))
        return
    entries_at = np.argwhere(~np.isfinite(matrix))
    if len(entries_at):
        row, column = entries_at[0]
        raise FileFormatError(_fault(name, int(row), int(column), matrix[row, column]))


def _fault(name: str, row: int, column: int, value: Any) -> str:
    return (
        f"{name}: the entry in row {row}, column {column} (counted from 0) is {value}; "
        "every entry must be finite, correct it or take it out"
    )


def _npy(source: Source) -> dict[str, Any]:
    with source.path.open("rb") as file:
        _check_header(file, os.path.getsize(source.path), source.name)
        file.seek(0)
        return {"array": np.load(file, allow_pickle=False)}


def _npz(source: Source) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(source.path) as archive:
            check_size(sum(entry.file_size for entry in archive.infolist()), source.name)
            for entry in archive.infolist():
                with archive.open(entry) as file:
                    _check_header(file, entry.file_size, f"{source.name} ({entry.filename})")
        with np.load(source.path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise FileFormatError(f"{source.name}: damaged .npz file ({error})") from None
    if {"format", "shape", "data"} <= set(arrays):
        return {"": _sparse(arrays, source.name)}
    return arrays


def _sparse(arrays: dict[str, Any], name: str) -> Any:
    """Return the matrix that `scipy.sparse.save_npz` wrote, with its indices checked."""
    try:
        kind = arrays["format"].item()
        kind = kind.decode("ascii") if isinstance(kind, bytes) else str(kind)
        rows, columns = (int(k) for k in arrays["shape"])
        check_size(8 * (rows + 1), name)
        data = arrays["data"]
        if kind == "coo":
            matrix = sp.coo_array((data, (arrays["row"], arrays["col"])), shape=(rows, columns))
        elif kind in ("csr", "csc"):
            make = sp.csr_array if kind == "csr" else sp.csc_array
            matrix = make((data, arrays["indices"], arrays["indptr"]), shape=(rows, columns))
            matrix.check_format(full_check=True)
        else:
            raise FileFormatError(f"{name}: the sparse format {kind!r} is not known; save it as CSR")
    except (KeyError, TypeError, ValueError, IndexError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{name}: damaged sparse matrix ({error})") from None
    return sp.csr_array(matrix)


def _check_header(file: Any, n_bytes: int, name: str) -> None:
    """Raise where an array's header says more than its file holds, or that it holds Python objects."""
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
    except ValueError as error:
        raise FileFormatError(f"{name}: not a NumPy array ({error})") from None
    if dtype.hasobject:
        raise FileFormatError(f"{name}: holds Python objects, which are not read; save numbers")
    size = dtype.itemsize
    for k in shape:
        size *= int(k)
    if size > n_bytes:
        raise FileFormatError(f"{name}: cut short: {shape} of {dtype} said, {n_bytes} bytes there")
    check_size(size, name)


def _mat(source: Source) -> dict[str, Any]:
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError, whosmat

    check_size(os.path.getsize(source.path), source.name)
    try:
        # compressed variables say how large they are before they are unpacked
        check_size(
            sum(8 * int(np.prod(shape, dtype=object)) for _, shape, kind in whosmat(source.path) if kind != "sparse"),
            source.name,
        )
        stored = loadmat(source.path)
    except NotImplementedError:
        raise FileFormatError(f"{source.name}: MATLAB's 7.3 format is not read; save it with -v7") from None
    except (MatReadError, ValueError, TypeError, zlib.error, EOFError, KeyError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{source.name}: not a MATLAB file ({error})") from None
    return {
        name: sp.csr_array(array) if sp.issparse(array) else array
        for name, array in stored.items()
        if not name.startswith("__")
    }


def _mtx(source: Source) -> dict[str, Any]:
    from scipy.io import mminfo, mmread

    try:
        rows, columns, entries, layout, *_ = mminfo(str(source.path))
        room = os.path.getsize(source.path) * (200 if source.path.suffix == ".gz" else 1)
        if int(entries) > room:
            raise FileFormatError(f"{source.name}: cut short: {entries} entries said, {room} bytes there")
        check_size(8 * (int(rows) + 1) if layout == "coordinate" else 8 * int(rows) * int(columns), source.name)
        matrix = mmread(str(source.path))
    except (ValueError, OverflowError, TypeError, OSError, EOFError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{source.name}: not a Matrix Market file ({error})") from None
    return {"": sp.csr_array(matrix) if sp.issparse(matrix) else np.asarray(matrix)}
