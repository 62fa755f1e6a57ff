"""Matrix Market files.

Read here, line by line, because the compiled reader at hand goes beyond its arrays in files that are damaged.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from quartic.archives import check_claim
from quartic.io.errors import FileFormatError

_FIELDS = ("real", "double", "integer", "unsigned-integer", "pattern")
_SYMMETRIES = ("general", "symmetric", "skew-symmetric")


def read_matrix_market(content: bytes, name: str) -> Any:
    """Return the matrix, as CSR where it is sparse.

    Raises
    ------
    FileFormatError
        With the line at fault, where there is one.
    """
    words, size, header_lines, body = _header(content, name)
    layout, field, symmetry = words
    rows, columns = size[0], size[1]
    if symmetry != "general" and rows != columns:
        raise FileFormatError(f"{name}: {symmetry}, but {rows} × {columns}; such a matrix is square")
    if layout == "array":
        return _dense(body, rows, columns, symmetry, name, header_lines)
    wanted = 2 if field == "pattern" else 3
    if size[2] > len(body):
        raise FileFormatError(f"{name}: cut short: {size[2]} entries said, {len(body)} bytes there")
    try:
        check_claim(8 * (rows + columns + 2), len(content), f"{rows} × {columns}")
    except ValueError as error:
        raise FileFormatError(f"{name}: {error}") from None
    table = _table(body, wanted, name, header_lines)
    if len(table) != size[2]:
        raise FileFormatError(f"{name}: {size[2]} entries said, {len(table)} there")
    index = table[:, :2]
    wrong = (index != np.rint(index)) | (index < 1) | (index > [rows, columns])
    if wrong.any():
        k = int(np.argmax(wrong.any(axis=1)))
        i, j = index[k]
        raise FileFormatError(f"{name}: entry {k + 1} is at ({i:g}, {j:g}), outside the {rows} × {columns} matrix")
    i, j = index.T.astype(np.int64) - 1
    values = np.ones(len(table)) if field == "pattern" else table[:, 2]
    if symmetry != "general":
        off = i != j
        sign = -1.0 if symmetry == "skew-symmetric" else 1.0
        i, j = np.concatenate([i, j[off]]), np.concatenate([j, i[off]])
        values = np.concatenate([values, sign * values[off]])
    return sp.csr_array(sp.coo_array((values, (i, j)), shape=(rows, columns)))


def _header(content: bytes, name: str) -> tuple[list[str], list[int], int, bytes]:
    """Return the words of the first line, the numbers of the size line, the lines before the entries, and these."""
    at, line, words = 0, 0, None
    while at < len(content):
        end = content.find(b"\n", at)
        end = len(content) if end < 0 else end
        text, at, line = content[at:end].strip(), end + 1, line + 1
        if words is None:
            words = _words(text, name)
        elif text and not text.startswith(b"%"):
            return words, _sizes(text, words[0], name, line), line, content[at:]
    raise FileFormatError.at(name, max(line, 1), "not a Matrix Market file: no line with the size of the matrix")


def _words(text: bytes, name: str) -> list[str]:
    words = text[:200].decode("ascii", "replace").lower().split()
    if len(words) != 5 or words[:2] != ["%%matrixmarket", "matrix"]:
        raise FileFormatError.at(name, 1, "not a Matrix Market file: the first line is %%MatrixMarket matrix …")
    layout, field, symmetry = words[2:]
    if layout not in ("coordinate", "array") or field not in _FIELDS or symmetry not in _SYMMETRIES:
        raise FileFormatError.at(
            name, 1, f"a matrix that is {layout} {field} {symmetry} is not read; save real numbers"
        )
    if layout == "array" and field == "pattern":
        raise FileFormatError.at(name, 1, "an array cannot be a pattern")
    return [layout, field, symmetry]


def _sizes(text: bytes, layout: str, name: str, line: int) -> list[int]:
    parts = text.split()
    wanted = 3 if layout == "coordinate" else 2
    if len(parts) != wanted or not all(part.isdigit() and len(part) < 19 for part in parts):
        raise FileFormatError.at(name, line, f"the size must be {wanted} whole numbers, got {text[:80]!r}")
    return [int(part) for part in parts]


def _table(body: bytes, columns: int, name: str, before: int) -> Any:
    """Return the numbers of the lines that are not comments."""
    from io import BytesIO

    if not body.strip():
        return np.empty((0, columns))
    try:
        with np.errstate(all="ignore"):
            table = np.loadtxt(BytesIO(body), dtype=np.float64, comments="%", ndmin=2, encoding="utf-8")
    except (ValueError, UnicodeError) as error:
        raise FileFormatError(f"{name}: after line {before}: {str(error)[:300]}") from None
    if table.shape[1] != columns:
        raise FileFormatError.at(name, before + 1, f"{table.shape[1]} numbers in a line, expected {columns}")
    return table


def _dense(body: bytes, rows: int, columns: int, symmetry: str, name: str, before: int) -> Any:
    """Return an array, kept column by column; of a symmetric one the lower triangle."""
    count = rows * columns
    if symmetry == "symmetric":
        count = rows * (rows + 1) // 2
    elif symmetry == "skew-symmetric":
        count = rows * (rows - 1) // 2
    if count > len(body):  # a digit each at least
        raise FileFormatError(f"{name}: cut short: {rows} × {columns} said, {len(body)} bytes there")
    values = _table(body, 1, name, before)[:, 0]
    if len(values) != count:
        raise FileFormatError(f"{name}: {count} numbers said, {len(values)} there")
    if symmetry == "general":
        return values.reshape((rows, columns), order="F")
    lower = np.zeros((rows, rows))
    # np.tril_indices goes by rows, the file by columns: the upper triangle of the transpose
    lower.T[np.triu_indices(rows, 0 if symmetry == "symmetric" else 1)] = values
    below = np.tril(lower, -1)
    return lower + below.T if symmetry == "symmetric" else lower - below.T
