"""Arrays and matrices in binary files and in Matrix Market: nothing is unpickled, sizes are checked before reading."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import scipy.sparse as sp

from quartic.archives import check_claim, machine_memory, read_npy, read_npz
from quartic.arrays import first_not_finite
from quartic.io.files import FileFormatError, Source, damage_named, read_bytes


def read_arrays(source: Source) -> dict[str, Any]:
    """Return the arrays of a .npy, .npz, .mat or .mtx file by their names; a sparse matrix has the name ``""``."""
    if source.kind == "npy":
        with damage_named(source.name, "not a NumPy array"):
            return {"array": read_npy(source.path)}
    if source.kind == "npz":
        with damage_named(source.name, "damaged .npz file"):
            arrays = read_npz(source.path)
        return {"": _make_sparse(arrays, source)} if {"format", "shape", "data"} <= set(arrays) else arrays
    if source.kind in ("mat", "mtx"):
        return _read_by_scipy(source)
    raise FileFormatError(f"{source.name}: this kind of file holds no matrix of numbers")


def one_matrix(arrays: dict[str, Any], file: str, names: tuple[str, ...], cure: str = "") -> Any:
    """Return the one matrix of a file: the only one there, or the only one with one of these names."""
    arrays = {
        name: array
        for name, array in arrays.items()
        if getattr(array, "ndim", 0) == 2 and array.dtype.kind in "fiub" and min(array.shape) > 0
    }
    if not arrays:
        raise FileFormatError(f"{file}: no matrix of real numbers in the file{cure}")
    if len(arrays) > 1:
        wanted = {name: array for name, array in arrays.items() if name in names}
        if len(wanted) != 1:
            # labels and the like are columns; they are not what is meant
            wanted = {name: array for name, array in arrays.items() if min(array.shape) > 1}
        if len(wanted) != 1:
            several = f"{file}: several matrices ({', '.join(sorted(arrays))})"
            raise FileFormatError(f"{several}; keep one, or call it {names[0]}{cure}")
        arrays = wanted
    return next(iter(arrays.values()))


def check_finite(matrix: Any, name: str) -> None:
    """Raise an error that names the first entry that is not finite."""
    fault = first_not_finite(matrix)
    if fault is not None:
        row, column, value = fault
        where = f"the entry in row {row}, column {column} (counted from 0)"
        raise FileFormatError(f"{name}: {where} is {value}; every entry must be finite, correct it or take it out")


# -- sparse matrices --------------------------------------------------------------------------------------------------


def _make_sparse(arrays: dict[str, Any], source: Source) -> Any:
    """Return the matrix that `scipy.sparse.save_npz` wrote, with its indices checked."""
    with damage_named(source.name, "damaged sparse matrix"):
        kind = arrays["format"].item()
        kind = kind.decode("ascii") if isinstance(kind, bytes) else str(kind)
        shape = rows, columns = tuple(int(k) for k in arrays["shape"])
        check_claim(8 * (max(shape) + 1), os.path.getsize(source.path), f"{rows} × {columns}")
        if kind == "coo":
            return sp.csr_array(sp.coo_array((arrays["data"], (arrays["row"], arrays["col"])), shape=shape))
        if kind not in ("csr", "csc"):
            raise FileFormatError(f"{source.name}: the sparse format {kind!r} is not known; save it as CSR")
        return sp.csr_array(make_compressed(kind, arrays["data"], arrays["indices"], arrays["indptr"], shape))


def make_compressed(kind: str, data: Any, indices: Any, indptr: Any, shape: tuple[int, ...]) -> Any:
    """Return a matrix in the format csr or csc, or raise: compiled code follows its indices without a look."""
    if indices.dtype.kind not in "iu" or indptr.dtype.kind not in "iu":
        raise ValueError(f"indices must be whole numbers, got {indices.dtype} and {indptr.dtype}")
    M = (sp.csr_array if kind == "csr" else sp.csc_array)((data, indices, indptr), shape=shape)
    M.check_format(full_check=True)
    if M.nnz != len(data):
        raise ValueError(f"{len(data)} numbers, of which the pointers name {M.nnz}")
    return M


# -- MATLAB and Matrix Market, in another process ---------------------------------------------------------------------


_PATIENCE = 30.0  # seconds for a small file, SciPy's loading included; damaged ones can keep it busy for hours


def ask_child(seconds: float, **request: str) -> dict[str, Any]:
    """Return the answer of a process that reads a file by SciPy, or a message if it crashed or took too long."""
    command = [sys.executable, "-P", str(Path(__file__).with_name("scipy_child.py")), str(child_memory())]
    try:
        done = subprocess.run(command, input=json.dumps(request), capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return {"message": "SciPy took too long to read it"}
    answer = done.stdout.strip().rpartition("\n")[2]
    return dict(json.loads(answer)) if answer.startswith("{") else {"message": "SciPy crashed while reading it"}


def child_memory() -> int:
    """Return how many bytes such a process may have."""
    return machine_memory() // 2 + 2**31


def _read_by_scipy(source: Source) -> dict[str, Any]:
    what = "not a MATLAB file" if source.kind == "mat" else "not a Matrix Market file"
    with tempfile.TemporaryDirectory(prefix="quartic-") as folder:
        with source.path.open("rb") as file:
            start = file.read(10)
        path = source.path.absolute()
        if start[:2] == b"\x1f\x8b":
            path = Path(folder) / "unpacked"
            path.write_bytes(read_bytes(source.path, source.name))
        if start.startswith((b"\x89HDF", b"MATLAB 7.3")):
            raise FileFormatError(f"{source.name}: MATLAB's 7.3 format is not read; save it with -v7")
        seconds = _PATIENCE + path.stat().st_size / 2**20
        answer = ask_child(seconds, kind=source.kind, path=str(path), folder=folder)
        if "matrices" not in answer:
            raise FileFormatError(f"{source.name}: {what} ({answer['message']})")
        with damage_named(source.name, what):
            return {
                name: next(iter(read_arrays(Source(Path(folder, file), source.name, file[-3:])).values()))
                for name, file in answer["matrices"]
            }
