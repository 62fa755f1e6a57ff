"""Reads .mat and .mtx files by SciPy, in a process of its own: a damaged file can crash compiled readers.

Run as a script, which imports nothing of quartic. It takes lines of JSON, ``{"kind", "path", "folder"}``, writes the
matrices of real numbers into the folder, and answers each line by one of JSON: name and file of each, or what is wrong.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp


def read(kind: str, path: str) -> dict[str, Any]:
    """Return the matrices of real numbers in a file by name."""
    if kind == "mat":
        found = scipy.io.loadmat(path, mat_dtype=False, chars_as_strings=False)
        found = {name: value for name, value in found.items() if not name.startswith("__")}
    else:
        rows, columns, _, layout, _, symmetry = scipy.io.mminfo(path)
        if symmetry != "general" and rows != columns:
            raise ValueError(f"{symmetry}, but {rows} × {columns}; such a matrix is square")
        if layout == "array" and symmetry != "general":  # SciPy takes what is missing at the end for zero
            _check_triangle(path, rows, 0 if symmetry == "symmetric" else -1)
        found = {"": scipy.io.mmread(path)}
        if found[""].dtype.kind == "c":
            raise ValueError("a matrix of complex numbers is not read; save real numbers")
    return {name: matrix for name, matrix in found.items() if matrix.ndim == 2 and matrix.dtype.kind in "fiub"}


def _check_triangle(path: str, n: int, diagonal: int) -> None:
    with open(path, "rb") as file:
        n_lines = sum(1 for line in file if line.strip() and not line.lstrip().startswith(b"%")) - 1
    count = n * (n + 1 + 2 * diagonal) // 2
    if n_lines != count:
        raise ValueError(f"{count} numbers said, {n_lines} there")


def write(matrices: dict[str, Any], folder: Path) -> list[tuple[str, str]]:
    """Write each matrix as NumPy or SciPy would, and return names and files."""
    files = []
    for k, (name, matrix) in enumerate(matrices.items()):
        sparse = sp.issparse(matrix)
        if sparse:
            sp.save_npz(folder / f"{k}.npz", sp.coo_array(matrix), compressed=False)
        else:
            np.save(folder / f"{k}.npy", np.asarray(matrix), allow_pickle=False)
        files.append((name, f"{k}.npz" if sparse else f"{k}.npy"))
    return files


def limit_memory(n_bytes: int) -> None:
    """Have memory refused that the machine has not got, where the system can."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (n_bytes, n_bytes))
    except (ImportError, ValueError, OSError):
        pass


def main() -> None:
    """Answer one request after the other, until there are none."""
    import warnings

    warnings.simplefilter("ignore")
    if len(sys.argv) > 1:
        limit_memory(int(sys.argv[1]))
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer: Any = {"matrices": write(read(request["kind"], request["path"]), Path(request["folder"]))}
        except BaseException as error:
            answer = {"message": str(error)[:500] or type(error).__name__}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
