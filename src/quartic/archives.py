"""Atomic writing, and reading of NumPy's files with headers and sizes checked before memory is taken."""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import zipfile
import zlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np

# What the arrays of a damaged file may raise where they are used.
DAMAGE = (
    ValueError, TypeError, KeyError, IndexError, OverflowError, EOFError, NotImplementedError, RuntimeError,
    SyntaxError, RecursionError, UnicodeError, zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error,
)  # fmt: skip
# The members of an archive we write are a few dozen; one of a million empty ones would take minutes to list.
_MOST_MEMBERS = 100_000
_LONGEST_HEADER = 10_000  # NumPy's own limit


def write_whole(path: str | os.PathLike[str], write: Callable[[IO[bytes]], object]) -> None:
    """Let ``write`` fill a file beside ``path``, bring it to disk, and put it there in one step.

    Whenever the process or the machine stops, there is the old file or the new one, whole.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from quartic.archives import write_whole
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.txt"
    >>> write_whole(path, lambda file: file.write(b"all of it"))
    >>> path.read_bytes()
    b'all of it'
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {target}: there is no folder {target.parent}; make it first")
    # The number of the process tells whether it still lives, so that what a killed one left can be swept up. Not
    # mkstemp, whose files no one else may read.
    temporary = target.with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    with contextlib.suppress(OSError):  # the renaming itself, where the system can bring that to disk
        handle = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def machine_memory() -> int:
    """Return how much memory this machine has, in bytes."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not a POSIX system
        return 16 * 2**30


def in_short(error: BaseException) -> str:
    """Return what an error says, at a length that can be read: some quote half the file."""
    text = str(error) or type(error).__name__
    return text if len(text) <= 300 else f"{text[:300]}…"


def check_fits(n_bytes: int) -> None:
    """Raise where data say, or turn out, to need more than half of this machine's memory."""
    if n_bytes > machine_memory() // 2:
        raise ValueError(
            f"{n_bytes / 2**30:.1f} GiB of data would not fit the memory here, {machine_memory() / 2**30:.1f} GiB"
        )


def check_claim(n_bytes: int, file_bytes: int, what: str) -> None:
    """Raise where a few words in a file ask for far more memory than the file's size makes likely."""
    check_fits(n_bytes)
    if n_bytes > max(2**28, 64 * file_bytes):
        raise ValueError(f"{what} said, {n_bytes / 2**30:.1f} GiB, in a file of {file_bytes} bytes; is it damaged?")


def map_npy(path: str | os.PathLike[str]) -> Any:
    """Return the array in a ``.npy`` file, mapped into memory rather than read.

    Raises
    ------
    ValueError
        Where it is not a whole array of numbers or text.
    """
    with open(path, "rb") as file:
        _check_header(file, os.path.getsize(path))
    return np.load(path, mmap_mode="r", allow_pickle=False)


def read_npy(path: str | os.PathLike[str]) -> Any:
    """Return the array in a ``.npy`` file; raises as `map_npy` does."""
    array = map_npy(path)
    check_fits(array.nbytes)
    return np.array(array, order="K")


def read_npz(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return all arrays of an archive by their names, each compared with the room it takes before it is read.

    Raises
    ------
    ValueError
        Where the archive, or one of its arrays, is damaged, or larger than the memory.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) > _MOST_MEMBERS or len({member.filename for member in members}) < len(members):
                raise ValueError(f"{len(members)} members, too many or two of one name")
            check_fits(sum(member.file_size for member in members))
            for member in members:
                _check_member(member, os.path.getsize(path))
                with archive.open(member) as file:
                    size = _check_header(file, member.file_size)
                if size != member.file_size:
                    raise ValueError(f"{member.filename}: there is more after the array")
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except OSError:
        raise
    except Exception as error:  # zipfile, zlib and NumPy have many names for damage
        raise ValueError(in_short(error)) from None


def _check_header(file: IO[bytes], n_bytes: int) -> int:
    """Return how many bytes the array at the start of a file takes, or raise where they are not all there."""
    start = BytesIO(file.read(min(n_bytes, _LONGEST_HEADER + 100)))  # a header may say it is longer than any memory
    try:
        version = np.lib.format.read_magic(start)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"version {version} of the format is not read")
        first = version == (1, 0)
        header = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
        shape, _, dtype = header(start, max_header_size=_LONGEST_HEADER)
    except Exception as error:  # the header is Python, and so is what may be wrong with it
        raise ValueError(f"a header that is not read: {in_short(error)}") from None
    if dtype.hasobject:
        raise ValueError("holds Python objects, which are not read; save numbers")
    size = start.tell() + math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or size > n_bytes:
        raise ValueError(f"cut short: {shape} of {dtype} said, {n_bytes} bytes there")
    return size


def _check_member(member: zipfile.ZipInfo, size: int) -> None:
    name = member.filename
    if name.startswith(("/", "\\")) or ".." in name.replace("\\", "/").split("/") or ":" in name or "\x00" in name:
        raise ValueError(f"the member {name!r} leads out of the archive")
    # DEFLATE packs a thousandfold at most
    if member.compress_size > size or member.file_size > 1100 * member.compress_size + 1000:
        raise ValueError(f"the member {name!r} says it holds {member.file_size} bytes, in {member.compress_size}")
