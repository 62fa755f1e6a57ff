"""Semidefinite programmes in SDPA's sparse format (.dat-s), as in SDPLIB."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from quartic.arrays import Array
from quartic.io.files import FileFormatError, read_lines, read_number, source_of
from quartic.sdp.problem import SDP

# What SDPA allows between numbers.
_BETWEEN = re.compile(r"[{}()\[\],\s]+")
_MOST_ROWS = 10_000_000


def read_sdpa(path: str | os.PathLike[str]) -> SDP:
    """Read a file in SDPA's sparse format, plain or gzip.

    The file's matrices F give the programme: maximise ⟨F_0, Y⟩ over Y ⪰ 0 with ⟨F_k, Y⟩ = c_k. It is the dual of what
    SDPA calls the primal, and has the same optimum.

    Parameters
    ----------
    path : path
        The file; ``-`` is standard input.

    Returns
    -------
    SDP

    Raises
    ------
    ValueError
        Where the file does not follow the format, with the line.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from quartic.sdp import read_sdpa
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "one.dat-s"
    >>> _ = path.write_text("1\\n1\\n2\\n1.0\\n0 1 1 2 1.0\\n1 1 1 1 1.0\\n1 1 2 2 1.0\\n")
    >>> read_sdpa(path)
    SDP(maximise, 1 constraint, blocks [2], 3 entries)
    """
    with source_of(path) as source:
        path, lines = Path(source.name), read_lines(source.path, source.name)
    at = next((k for k, line in enumerate(lines) if line.strip() and line.lstrip()[0] not in '"*'), len(lines))
    m, at = _count(path, lines, at, "the number of constraints")
    n_blocks, at = _count(path, lines, at, "the number of blocks")
    sizes, at = _numbers(path, lines, at, n_blocks, "block sizes")
    if (sizes != np.round(sizes)).any() or (sizes == 0).any() or np.abs(sizes).sum() > _MOST_ROWS:
        raise FileFormatError.at(path, at, "block sizes must be whole numbers, negative for a diagonal block")
    b, at = _numbers(path, lines, at, m, "right-hand sides")
    blocks = sizes.astype(np.int64)
    matrix, block, row, column, value = _entries(path, lines, at, m, blocks)
    return SDP.from_entries(blocks.tolist(), b, matrix, block, row, column, value, maximize=True)


def _words(line: str) -> list[str]:
    return _BETWEEN.sub(" ", line).upper().replace("D", "E").split()  # Fortran writes 1.0D+00


def _count(path: Path, lines: list[str], at: int, what: str) -> tuple[int, int]:
    """Return the whole number that a line begins with (a remark may follow), and the next line."""
    while at < len(lines) and not lines[at].strip():
        at += 1
    if at == len(lines):
        raise FileFormatError.at(path, at, f"the file ends before {what}")
    words = re.split(r"[^0-9]", lines[at].strip().removeprefix("+"), maxsplit=1)
    if not words[0] or not 0 < int(words[0]) <= _MOST_ROWS:
        raise FileFormatError.at(path, at + 1, f"{what} must be a positive whole number, got {lines[at][:40]!r}")
    return int(words[0]), at + 1


def _numbers(path: Path, lines: list[str], at: int, n: int, what: str) -> tuple[Array, int]:
    """Return the next n numbers, which may go over several lines, and the line after them."""
    found: list[float] = []
    while len(found) < n:
        if at == len(lines):
            raise FileFormatError.at(path, at, f"the file ends after {len(found)} of {n} {what}")
        for word in _words(lines[at])[: n - len(found)]:
            found.append(read_number(word, f"number {len(found) + 1} of the {what}", path, at + 1))
        at += 1
    return np.array(found), at


def _entries(path: Path, lines: list[str], at: int, m: int, blocks: Any) -> tuple[Any, Any, Any, Any, Array]:
    """Return matrix, block, row and column (from 0) and value of every entry; check each of them."""
    kept = [(k, line) for k, line in enumerate(lines[at:], at + 1) if line.strip()]
    numbers = np.array([k for k, _ in kept], np.int64)
    rows = [line.split() for _, line in kept]
    if any(len(words) != 5 or "D" in words[4] or "d" in words[4] for words in rows):
        rows = [_words(line) for _, line in kept]
    for k, words in zip(numbers, rows, strict=True):
        if len(words) != 5:
            raise FileFormatError.at(path, int(k), f"an entry is matrix, block, i, j, value; found {len(words)} words")
    try:
        table = np.array(rows, np.float64).reshape(-1, 5)
    except ValueError:
        for k, words in zip(numbers, rows, strict=True):
            for word in words:
                read_number(word, "each of matrix, block, i, j, value", path, int(k))
        raise
    whole = (
        table[:, :4].astype(np.int64) if np.abs(table[:, :4]).max(initial=0) < 2**53 else np.full((len(table), 4), -1)
    )
    matrix, block, row, column = whole.T
    size = np.abs(blocks)[np.clip(block - 1, 0, len(blocks) - 1)]
    diagonal = blocks[np.clip(block - 1, 0, len(blocks) - 1)] < 0
    faults = (
        (~np.isfinite(table).all(axis=1), "a value that is not finite"),
        ((whole != table[:, :4]).any(axis=1), "matrix, block, i and j must be whole numbers"),
        ((matrix < 0) | (matrix > m), f"the matrix must be 0 … {m}"),
        ((block < 1) | (block > len(blocks)), f"the block must be 1 … {len(blocks)}"),
        ((np.minimum(row, column) < 1) | (np.maximum(row, column) > size), "i or j is outside its block"),
        (diagonal & (row != column), "an entry off the diagonal of a diagonal block"),
    )
    for wrong, fault in faults:
        if wrong.any():
            k = int(np.flatnonzero(wrong)[0])
            raise FileFormatError.at(path, int(numbers[k]), f"{fault}: {' '.join(rows[k])}")
    low, high = np.minimum(row, column), np.maximum(row, column)
    order = np.lexsort((high, low, block, matrix))
    same = np.ones(max(len(order) - 1, 0), bool)
    for part in (matrix, block, low, high):
        same &= np.diff(part[order]) == 0
    if same.any():
        k = int(order[1:][same].min())
        raise FileFormatError.at(path, int(numbers[k]), f"this entry has been given before: {' '.join(rows[k])}")
    return matrix, block - 1, low - 1, high - 1, table[:, 4]
