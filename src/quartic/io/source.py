"""Where data come from: a file, or standard input; and what kind of file it is."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from quartic.io.errors import FileFormatError

_BY_NAME = {
    ".csv": "table",
    ".tsv": "table",
    ".txt": "table",
    ".edges": "table",
    ".edgelist": "table",
    ".dat": "table",
    ".npy": "npy",
    ".npz": "npz",
    ".mat": "mat",
    ".mtx": "mtx",
    ".graphml": "graphml",
    ".nmr": "mdjeep",
}


@dataclass(frozen=True)
class Source:
    """A file to read.

    Attributes
    ----------
    path : Path
        Where its bytes are.
    name : str
        What messages call it.
    kind : str
        One of table, npy, npz, mat, mtx, graphml, mdjeep.
    """

    path: Path
    name: str
    kind: str


def open_source(path: str | os.PathLike[str]) -> Source:
    """Return the source of that name; raise where there is none, or nothing in it."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file; check the name and the folder")
    if path.is_dir():
        raise FileFormatError(f"{path}: this is a folder; name a file in it")
    if not os.access(path, os.R_OK):
        raise PermissionError(f"{path}: the file may not be read; check its permissions")
    if path.is_file() and path.stat().st_size == 0:
        raise FileFormatError(f"{path}: the file is empty")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    last = suffixes[-1] if suffixes else ""
    return Source(path, str(path), _BY_NAME.get(last) or _kind_of_content(path))


@contextmanager
def source_of(path: str | os.PathLike[str], stdin: BinaryIO | None = None) -> Iterator[Source]:
    """Open a file, or standard input where the path is ``-``; its kind is then told by its first bytes."""
    if str(path) != "-":
        yield open_source(path)
        return
    with tempfile.TemporaryDirectory(prefix="quartic-") as folder:
        spooled = Path(folder) / "stdin"
        with spooled.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer if stdin is None else stdin, file)
        if spooled.stat().st_size == 0:
            raise FileFormatError("stdin: nothing came in; pipe a file into it, or name one")
        yield Source(spooled, "stdin", _kind_of_content(spooled))


def _kind_of_content(path: Path) -> str:
    with path.open("rb") as file:
        start = file.read(512)
    if start.startswith(b"\x93NUMPY"):
        return "npy"
    if start.startswith(b"PK\x03\x04"):
        return "npz"
    if start.startswith(b"MATLAB 5.0"):
        return "mat"
    if start.lower().startswith(b"%%matrixmarket"):
        return "mtx"
    if b"<graphml" in start:
        return "graphml"
    return "table"
