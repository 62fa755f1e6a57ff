"""Reads .mat and .mtx files by SciPy, in a process of its own: a damaged file can crash compiled readers.

Run as a script, which imports nothing of quartic. It takes lines of JSON, ``{"kind", "path", "folder"}``, writes the
matrices of real numbers into the folder as ``.npy`` files, and answers each line by one of JSON: the matrices by name,
or the error.
"""

import json
import sys
from pathlib import Path

import numpy as np


def read(kind, path):
    """Return the matrices of real numbers in a file by name."""
    import scipy.io

    if kind == "mat":
        found = scipy.io.loadmat(path, mat_dtype=False, chars_as_strings=False)
        found = {name: value for name, value in found.items() if not name.startswith("__")}
    else:
        rows, columns, _, _, _, symmetry = scipy.io.mminfo(path)
        if symmetry != "general" and rows != columns:
            raise ValueError(f"{symmetry}, but {rows} × {columns}; such a matrix is square")
        found = {"": scipy.io.mmread(path)}
    return {name: matrix for name, matrix in found.items() if matrix.ndim == 2 and matrix.dtype.kind in "fiubc"}


def write(matrices, folder):
    """Write the parts of each matrix, and return what there is: shape and names of the parts."""
    facts = []
    for k, (name, matrix) in enumerate(matrices.items()):
        parts = {"": matrix}
        if hasattr(matrix, "tocoo"):
            matrix = matrix.tocoo()
            parts = {"row": matrix.row, "col": matrix.col, "data": matrix.data}
        for part, array in parts.items():
            np.save(folder / f"{k}{part}.npy", np.asarray(array), allow_pickle=False)
        facts.append({"name": name, "shape": [int(n) for n in matrix.shape], "parts": list(parts)})
    return facts


def limit_memory(n_bytes):
    """Have memory refused that the machine has not got, where the system can."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (n_bytes, n_bytes))
    except (ImportError, ValueError, OSError):
        pass


def main():
    """Answer one request after the other, until there are none."""
    import warnings

    warnings.simplefilter("ignore")
    if len(sys.argv) > 1:
        limit_memory(int(sys.argv[1]))
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"matrices": write(read(request["kind"], request["path"]), Path(request["folder"]))}
        except BaseException as error:
            answer = {"error": type(error).__name__, "message": str(error)[:500]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
