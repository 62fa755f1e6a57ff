"""Files as bytes and text: where they come from, what kind they are, how they are unpacked and decoded."""

from __future__ import annotations

import gzip
import math
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from unicodedata import normalize

from quartic.archives import check_fits, in_short, write_whole
from quartic.arrays.checks import count as count

_LONGEST = 2000  # letters of a message: a damaged file may have names of any length


class FileFormatError(ValueError):
    """A file does not follow its format; the message starts with ``file:line``.

    Examples
    --------
    >>> from quartic.io import FileFormatError
    >>> issubclass(FileFormatError, ValueError)
    True
    """

    def __init__(self, message: str) -> None:
        super().__init__(message if len(message) <= _LONGEST else f"{message[:_LONGEST]}…")

    @classmethod
    def at(cls, path: str | os.PathLike[str], line: int, fault: str) -> FileFormatError:
        """Return the error for a fault in one line, counted from 1."""
        return cls(f"{path}:{line}: {fault}")


@contextmanager
def damage_named(name: str, what: str) -> Iterator[None]:
    """Turn whatever a library says of a damaged file into an error that names the file."""
    try:
        yield
    except FileFormatError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise
        raise FileFormatError(f"{name}: {what} ({in_short(error)})") from None


# -- kinds of files ---------------------------------------------------------------------------------------------------

_BY_NAME = {
    **dict.fromkeys((".csv", ".tsv", ".txt", ".tab", ".edges", ".edgelist", ".dat"), "table"),
    **{f".{kind}": kind for kind in ("parquet", "npy", "npz", "mat", "mtx", "graphml", "gexf", "gml")},
    **{".pq": "parquet", ".net": "pajek", ".paj": "pajek", ".nmr": "mdjeep", ".xlsx": "excel", ".xlsm": "excel"},
    **dict.fromkeys((".pdb", ".ent", ".cif", ".mmcif", ".xyz"), "atoms"),
}
_BY_START = (
    (b"\x93NUMPY", "npy"), (b"PAR1", "parquet"), (b"MATLAB 5.0", "mat"),
    (b"graph [", "gml"), (b"*Vertices", "pajek"), (b"*vertices", "pajek"),
)  # fmt: skip
GRAPHS = ("graphml", "gexf", "gml", "pajek", "json graph")
TABLES = ("table", "parquet", "excel", "json")
_JSON_GRAPH = re.compile(
    rb'\s*\{\s*("(nodes|links|edges|elements|adjacency|directed|multigraph)"|"data"\s*:\s*\[\s*\])'
)


@dataclass(frozen=True)
class Source:
    """A file to read: where its bytes are, what messages call it, and its kind, such as table, npz or graphml."""

    path: Path
    name: str
    kind: str


def open_source(path: str | os.PathLike[str]) -> Source:
    """Return the source of that name; raise where there is none, or nothing in it that can be read."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file; check the name and the folder")
    if path.is_dir():
        raise FileFormatError(f"{path}: this is a folder; name a file in it")
    if not os.access(path, os.R_OK):
        raise PermissionError(f"{path}: the file may not be read; check its permissions")
    if path.is_file() and path.stat().st_size == 0:
        raise FileFormatError(f"{path}: the file is empty")
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    kind = _BY_NAME.get(suffixes[-1] if suffixes else "") or _kind_of_content(path, str(path))
    return Source(path, str(path), kind)


@contextmanager
def source_of(path: str | os.PathLike[str]) -> Iterator[Source]:
    """Open a file, or standard input where the path is ``-``; what is read only once, as a pipe is, is kept first.

    The kind of what comes through a pipe is told by its first bytes.
    """
    given = Path(path)
    if str(path) != "-" and (given.is_file() or given.is_dir() or not given.exists()):
        yield open_source(path)
        return
    name = "stdin" if str(path) == "-" else str(path)
    with tempfile.TemporaryDirectory(prefix="quartic-") as folder:
        spooled = Path(folder) / "stdin"
        with spooled.open("wb") as file, nullcontext(sys.stdin.buffer) if name == "stdin" else given.open("rb") as came:
            shutil.copyfileobj(came, file)
        if spooled.stat().st_size == 0:
            raise FileFormatError(f"{name}: no input; pipe a file into the command, or name a file")
        yield Source(spooled, name, _kind_of_content(spooled, name))


def _kind_of_content(path: Path, name: str) -> str:
    """Tell the kind of a file whose name does not: by its first bytes, those of the content where it is gzip."""
    with damage_named(name, "damaged gzip file"):
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        with gzip.open(path) if packed else path.open("rb") as file:
            start = file.read(2048)
    if start.startswith(b"PK\x03\x04"):
        if name.lower().endswith(".zip"):
            raise FileFormatError(f"{name}: an archive; unpack it, and read the file in it")
        return "npz" if re.search(rb"\.npyPK|\.npy\x01|\.npy", start) else "excel"
    if start.startswith(b"\xd0\xcf\x11\xe0"):
        raise FileFormatError(f"{name}: a spreadsheet of another kind than .xlsx; save the sheet as .xlsx or CSV")
    for beginning, kind in _BY_START:
        if start.startswith(beginning):
            return kind
    if start.lower().startswith(b"%%matrixmarket"):
        return "mtx"
    if start.lstrip().startswith((b"{", b"[")):
        return "json graph" if _JSON_GRAPH.match(start) else "json"
    return next((kind for kind in ("graphml", "gexf") if f"<{kind}".encode() in start), "table")


# -- bytes and text ---------------------------------------------------------------------------------------------------


def read_bytes(path: str | os.PathLike[str], name: str | None = None) -> bytes:
    """Return a file's content, unpacked where it is gzip; what would not fit the memory is refused."""
    called = name or str(path)
    _check_size(os.path.getsize(path), called)
    content = Path(path).read_bytes()
    if content[:2] != b"\x1f\x8b":
        return content
    parts, total = [], 0
    with damage_named(called, "damaged gzip file"), gzip.open(path) as file:
        while part := file.read(1 << 24):
            parts.append(part)
            total += len(part)
            _check_size(total, called)
    return b"".join(parts)


def read_text(path: str | os.PathLike[str], name: str | None = None) -> tuple[bytes, str]:
    """Return a text file's content in UTF-8, its lines ended by ``\\n``, and how it was decoded if that was a guess.

    UTF-8, or UTF-16 with a byte order mark, as spreadsheets write it; anything else is read as Windows-1252, the usual
    encoding of programs in western Europe and America that do not write Unicode.
    """
    content, called, guessed, line = read_bytes(path, name), name or path, "", 0
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        coding = "utf-16"
    else:
        content = content.removeprefix(b"\xef\xbb\xbf")
        coding = "utf-8"
    try:
        if coding != "utf-8" or not content.isascii():  # é is one letter, or e and an accent: the same name
            content = normalize("NFC", content.decode(coding)).encode()
    except UnicodeError:
        try:
            content = content.decode("cp1252").encode()
            guessed = "decoded as Windows-1252"
        except UnicodeError as error:
            line = content.count(b"\n", 0, getattr(error, "start", 0)) + 1
    if not line and b"\x00" in content:
        line = content.count(b"\n", 0, content.index(b"\x00")) + 1
    if line:
        fault = "not a text file, nor of another kind that is read (quartic cluster --help)"
        raise FileFormatError.at(called, line, f"{fault}; save a table as CSV, in UTF-8")
    if b"\r" in content:
        content = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return content, guessed


def read_lines(path: str | Path, name: str | None = None) -> list[str]:
    """Return the lines of a text file, plain or gzip."""
    return read_text(path, name)[0].decode().removesuffix("\n").split("\n")


def write_lines(path: str | Path, lines: Iterable[str]) -> None:
    """Write lines to a text file (gzip if the name ends in .gz), whole or not at all."""
    content = "".join(f"{line}\n" for line in lines).encode()
    if Path(path).suffix == ".gz":
        content = gzip.compress(content, mtime=0)  # no time stamp: the same data give the same bytes
    write_whole(path, lambda file: file.write(content))


def read_number(text: str, what: str, path: str | Path, line: int) -> float:
    """Return ``text`` as a finite float, or say in which line it is not one."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise FileFormatError.at(path, line, f"{what} must be a finite number, got {text.strip()!r}")
    return value


def _check_size(n_bytes: int, name: str) -> None:
    try:
        check_fits(n_bytes)
    except ValueError as error:
        raise FileFormatError(f"{name}: {error}") from None
