"""Reading and writing text files, plain or gzip."""

from __future__ import annotations

import gzip
import math
import os
import secrets
import zlib
from collections.abc import Iterable
from pathlib import Path

from quartic.archives import check_fits
from quartic.io.errors import FileFormatError


def read_lines(path: str | Path, name: str | None = None) -> list[str]:
    """Return the lines of a text file; a gzip file is known by its first two bytes, whatever its name.

    ``name`` is what messages call the file. UTF-8, or UTF-16 with its mark, which is what spreadsheets write.
    """
    called = name or path
    content = read_bytes(path, name)
    coding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return content.decode(coding).splitlines()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FileFormatError.at(called, line, "not a text file in UTF-8; save it as UTF-8") from None


def read_bytes(path: str | Path, name: str | None = None) -> bytes:
    """Return a file's content, unpacked where it is gzip; what would not fit the memory is refused."""
    called = name or str(path)
    check_size(os.path.getsize(path), called)
    content = Path(path).read_bytes()
    if content[:2] != b"\x1f\x8b":
        return content
    parts, total = [], 0
    try:
        with gzip.open(path) as file:
            while part := file.read(1 << 24):
                parts.append(part)
                total += len(part)
                check_size(total, called)
    except (OSError, EOFError, zlib.error) as error:
        raise FileFormatError(f"{called}: damaged gzip file ({error})") from None
    return b"".join(parts)


def check_size(n_bytes: int, name: str) -> None:
    """Raise where a file says, or turns out, to need more than half of this machine's memory."""
    try:
        check_fits(n_bytes)
    except ValueError as error:
        raise FileFormatError(f"{name}: {error}") from None


def write_lines(path: str | Path, lines: Iterable[str]) -> None:
    """Write lines to a text file (gzip if the name ends in .gz), whole or not at all."""
    path = Path(path)
    content = "".join(f"{line}\n" for line in lines).encode()
    if path.suffix == ".gz":
        content = gzip.compress(content, mtime=0)  # no time stamp: the same data give the same bytes
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no folder {path.parent}; make it first")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")  # not mkstemp, whose files are private
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def number(text: str, what: str, path: str | Path, line: int) -> float:
    """Return ``text`` as a finite float, or say in which line it is not one."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise FileFormatError.at(path, line, f"{what} must be a finite number, got {text.strip()!r}")
    return value
