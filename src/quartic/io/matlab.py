"""MATLAB files, versions 4 to 7: the matrices of numbers in them, dense and sparse; all else is passed over.

Read here, in Python, because the compiled reader at hand follows what a damaged file says to wherever it leads.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from quartic.archives import check_claim, check_fits

_MATRIX, _COMPRESSED = 14, 15
# how numbers may be stored, and what arrays of them are
_STORED = {
    1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8",
}  # fmt: skip
_CLASSES = {
    6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8",
}  # fmt: skip
_SPARSE = 5
_MOST_ELEMENTS = 10_000
_COMPLEX, _LOGICAL = 0x0800, 0x0200
_KINDS_4 = ("f8", "f4", "i4", "i2", "u2", "u1")


def matlab_arrays(content: bytes) -> dict[str, Any]:
    """Return the matrices of real numbers in a file, by their names.

    Raises
    ------
    ValueError
        Where it is no MATLAB file, or a damaged one.
    NotImplementedError
        For version 7.3, which is another format altogether.
    """
    if content.startswith((b"MATLAB 7.3", b"\x89HDF")):
        raise NotImplementedError
    order = {b"IM": "<", b"MI": ">"}.get(content[126:128])
    if order is None or len(content) < 128:
        return dict(_version_4(content))
    return {
        name: array
        for kind, data in _elements(memoryview(content)[128:], order)
        for name, array in _matrix(kind, data, order, len(content))
    }


# -- version 5 and later: elements of a tag, which says kind and length, and data -----------------------------------


def _elements(data: memoryview, order: str, inside: bool = False) -> Iterator[tuple[int, memoryview]]:
    """Yield kind and data of one element after the other; packed ones are unpacked."""
    byte_order: Any = "little" if order == "<" else "big"
    at = count = 0
    while at + 8 <= len(data):
        count += 1
        if count > _MOST_ELEMENTS:  # a few bytes of DEFLATE unfold to millions of empty ones
            raise ValueError(f"more than {_MOST_ELEMENTS} elements")
        first = int.from_bytes(data[at : at + 4], byte_order)
        if first >> 16:  # four bytes or less stand within the tag
            kind, length, begin, end = first & 0xFFFF, first >> 16, at + 4, at + 8
            if length > 4:
                raise ValueError(f"a short element of {length} bytes; it has room for 4")
        else:
            kind, length = first, int.from_bytes(data[at + 4 : at + 8], byte_order)
            begin = at + 8
            end = begin + length + (0 if kind == _COMPRESSED else -length % 8)
        if begin + length > len(data):
            raise ValueError(f"cut short: an element of {length} bytes said, {len(data) - begin} there")
        part = data[begin : begin + length]
        if kind == _COMPRESSED:
            if inside:
                raise ValueError("a packed element within another")
            yield from _elements(memoryview(_unpacked(part)), order, inside=True)
        else:
            yield kind, part
        at = end


def _unpacked(part: memoryview) -> bytes:
    machine = zlib.decompressobj()
    limit = 1100 * len(part) + 1000  # DEFLATE packs a thousandfold at most
    check_fits(len(part))
    content = machine.decompress(part, limit)
    if not machine.eof:
        raise ValueError("a packed element is cut short, or larger than it can be")
    check_fits(len(content))
    return content


def _matrix(kind: int, data: memoryview, order: str, file_bytes: int) -> Iterator[tuple[str, Any]]:
    """Yield name and matrix where the element is one of real numbers."""
    if kind != _MATRIX:
        return
    parts = _elements(data, order, inside=True)
    flags = _numbers(*_next(parts), order)
    if len(flags) < 2:
        raise ValueError("a matrix without a kind")
    word = int(flags[0])
    shape = tuple(int(k) for k in _numbers(*_next(parts), order))
    name = bytes(_next(parts)[1]).decode("utf-8", "replace").rstrip("\x00")
    if word & _COMPLEX or not name or len(shape) != 2:
        return
    if min(shape) < 0:
        raise ValueError(f"the shape {shape} of {name} cannot be")
    if word & 0xFF == _SPARSE:
        check_claim(8 * (sum(shape) + 2), file_bytes, " × ".join(map(str, shape)))
        rows, starts, values = (_numbers(*_next(parts), order) for _ in range(3))
        yield name, _sparse(rows, starts, values, shape, name)
    elif word & 0xFF in _CLASSES:
        values = _numbers(*_next(parts), order)
        if len(values) != shape[0] * shape[1]:
            raise ValueError(f"{name}: {shape[0]} × {shape[1]} said, {len(values)} numbers there")
        wanted = np.dtype(bool if word & _LOGICAL else _CLASSES[word & 0xFF])
        yield name, _as_type(values, wanted).reshape(shape, order="F")


def _next(parts: Iterator[tuple[int, memoryview]]) -> tuple[int, memoryview]:
    try:
        return next(parts)
    except StopIteration:
        raise ValueError("cut short: a matrix lacks a part") from None


def _numbers(kind: int, data: memoryview, order: str) -> Any:
    if kind not in _STORED:
        raise ValueError(f"numbers of a kind that is not known, {kind}")
    dtype = np.dtype(order + _STORED[kind])
    if len(data) % dtype.itemsize:
        raise ValueError(f"{len(data)} bytes are no whole number of {dtype}")
    return np.frombuffer(data, dtype=dtype)


def _as_type(values: Any, dtype: np.dtype[Any]) -> Any:
    """Return numbers as what they are meant to be: they may have been stored in fewer bytes."""
    with np.errstate(all="ignore"):  # a damaged file may say that NaN is an integer
        return values.astype(dtype)


def _sparse(rows: Any, starts: Any, values: Any, shape: tuple[int, ...], name: str) -> Any:
    """Return a matrix kept by columns; room beyond the last entry is not used."""
    starts, rows = starts.astype(np.int64), rows.astype(np.int64)
    if len(starts) != shape[1] + 1 or starts[0] != 0 or (np.diff(starts) < 0).any():
        raise ValueError(f"{name}: where the columns begin must rise from 0, a number for each column and one more")
    count = int(starts[-1])
    if count > len(rows) or count > len(values):
        raise ValueError(f"{name}: cut short: {count} entries said, {min(len(rows), len(values))} there")
    rows, values = rows[:count], values[:count].astype(np.float64)
    if count and (rows.min() < 0 or rows.max() >= shape[0]):
        raise ValueError(f"{name}: a row beyond the last, {shape[0] - 1}")
    return sp.csr_array(sp.csc_array((values, rows, starts), shape=shape))


# -- version 4: a header of five numbers, a name, and the data ------------------------------------------------------


def _version_4(content: bytes) -> Iterator[tuple[str, Any]]:
    at, known = 0, False
    while at + 20 <= len(content):
        order = next((o for o in "<>" if 0 <= np.frombuffer(content, o + "i4", 1, at)[0] < 5000), None)
        if order is None:
            raise ValueError("neither version 4 nor version 5")
        kind, rows, columns, imaginary, length = np.frombuffer(content, order + "i4", 5, at).tolist()
        layout, number = kind % 10, kind // 10 % 10
        if layout > 2 or number >= len(_KINDS_4) or kind // 100 % 10 or min(rows, columns, length) < 0:
            raise ValueError("neither version 4 nor version 5")
        dtype = np.dtype(order + _KINDS_4[number])
        begin = at + 20 + length
        size = rows * columns * dtype.itemsize * (2 if imaginary else 1)
        if begin + size > len(content):
            raise ValueError(f"cut short: {rows} × {columns} said, {len(content) - begin} bytes there")
        name = content[at + 20 : begin].decode("utf-8", "replace").rstrip("\x00")
        at, known = begin + size, True
        if imaginary or layout == 1 or not name:
            continue
        array = np.frombuffer(content, dtype, rows * columns, begin).astype(np.float64)
        array = array.reshape((rows, columns), order="F")
        yield name, array if layout == 0 else _sparse_4(array, name, len(content))
    if not known:
        raise ValueError("neither version 4 nor version 5")


def _sparse_4(array: Any, name: str, file_bytes: int) -> Any:
    """Return the matrix whose entries are the rows i, j, value, but for the last, which is its shape."""
    if array.shape[1] != 3 or not len(array) or not np.isfinite(array[:, :2]).all():
        raise ValueError(f"{name}: a sparse matrix has three columns")
    (rows, columns), index = array[-1, :2], array[:-1, :2]
    if not (0 <= rows < 2**53 and 0 <= columns < 2**53) or (array[:, :2] != np.rint(array[:, :2])).any():
        raise ValueError(f"{name}: {rows:g} × {columns:g} cannot be")
    check_claim(8 * (int(rows) + int(columns) + 2), file_bytes, f"{rows:g} × {columns:g}")
    if len(index) and (index.min() < 1 or (index.max(axis=0) > [rows, columns]).any()):
        raise ValueError(f"{name}: an entry outside the matrix")
    i, j = index.T.astype(np.int64) - 1
    return sp.csr_array(sp.coo_array((array[:-1, 2], (i, j)), shape=(int(rows), int(columns))))
