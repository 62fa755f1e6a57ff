"""Reading and writing text files, plain or gzip."""

from __future__ import annotations

import gzip
import math
import os
import secrets
import zlib
from collections.abc import Iterable
from pathlib import Path

from quartic.io.errors import FileFormatError


def read_lines(path: str | Path) -> list[str]:
    """Return the lines of a text file; a gzip file is known by its first two bytes, whatever its name."""
    content = Path(path).read_bytes()
    try:
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
        return content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise FileFormatError.at(path, content.count(b"\n", 0, error.start) + 1, "not a text file") from None
    except (OSError, EOFError, zlib.error) as error:
        raise FileFormatError(f"{path}: damaged gzip file ({error})") from None


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
