"""NumPy's own files, .npy and .npz, read without unpickling and without believing a header before it is checked."""

from __future__ import annotations

import math
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np

# What a damaged file may raise on its way through zipfile, zlib and NumPy. RuntimeError: a member is encrypted.
DAMAGE = (
    ValueError, TypeError, KeyError, IndexError, OverflowError, EOFError, NotImplementedError, RuntimeError,
    SyntaxError, RecursionError, UnicodeError, zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error,
)  # fmt: skip
# The members of an archive we write are a few dozen; one of a million empty ones would take minutes to list.
_MOST_MEMBERS = 100_000
_LONGEST_HEADER = 10_000
_LOCAL_HEADER = struct.Struct("<4s22xHH")  # a zip member's signature, the lengths of its name and of its extra field
_ENCRYPTED = 1  # a flag of zip members
_HEADER = re.compile(
    r"\{'descr': '([<>|=]?[a-zA-Z]\d{0,9})', 'fortran_order': (True|False), "
    r"'shape': \(((?:\d{1,18}, ?)*\d{0,18})\),? ?\}\s*"
)


def machine_memory() -> int:
    """Return how much memory this machine has, in bytes."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not a POSIX system
        return 16 * 2**30


def in_short(error: BaseException) -> str:
    """Return what an error says, at a length that can be read: some quote half the file."""
    text = str(error)
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


def read_npy(file: IO[bytes], n_bytes: int) -> Any:
    """Return the array in a file of this size; its header is checked against the size before memory is taken.

    Raises
    ------
    ValueError
        Where it is not a whole array of numbers or text.
    """
    shape, fortran, dtype, _ = npy_header(file, n_bytes)
    count = math.prod(shape)
    size = count * dtype.itemsize
    check_fits(size)
    content = np.empty(size, dtype=np.uint8)
    filled = 0
    while filled < size:
        part = file.read(min(size - filled, 1 << 24))
        if not part:
            raise ValueError(f"cut short: {shape} of {dtype} said, {filled} bytes there")
        content[filled : filled + len(part)] = np.frombuffer(part, dtype=np.uint8)
        filled += len(part)
    flat = content.view(dtype) if size else np.empty(count, dtype=dtype)
    return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)


def npy_header(file: IO[bytes], n_bytes: int) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Return shape, order and type of the array in a file of this size, and where its numbers begin.

    Raises
    ------
    ValueError
        Where they are not all there, or are no numbers or text.
    """
    start = file.read(8)
    widths = {b"\x93NUMPY\x01\x00": 2, b"\x93NUMPY\x02\x00": 4}
    if start not in widths:
        raise ValueError(f"it begins with {start!r}")
    length = int.from_bytes(file.read(widths[start]), "little")
    if length > min(_LONGEST_HEADER, n_bytes):  # to ask for it would be to take the memory
        raise ValueError(f"a header of {length} bytes said")
    shape, fortran, dtype = _header(file.read(length))
    if dtype.hasobject:
        raise ValueError("holds Python objects, which are not read; save numbers")
    begin = len(start) + widths[start] + length
    if begin + math.prod(shape) * dtype.itemsize > n_bytes:
        raise ValueError(f"cut short: {shape} of {dtype} said, {n_bytes} bytes there")
    return shape, fortran, dtype, begin


def map_npy(path: str | os.PathLike[str], at: int = 0, n_bytes: int | None = None) -> Any:
    """Return the array that begins at this byte of a file, mapped into memory; read where it cannot be mapped.

    ``n_bytes`` of the file are the array's, all to its end if left out. Its header is checked as `read_npy` does.
    """
    with open(path, "rb") as file:
        there = os.fstat(file.fileno()).st_size - at
        n_bytes = there if n_bytes is None else n_bytes
        if n_bytes > there:
            raise ValueError(f"cut short: {n_bytes} bytes said, {there} there")
        file.seek(at)
        shape, fortran, dtype, begin = npy_header(file, n_bytes)
        if math.prod(shape) * dtype.itemsize == 0 or (at + begin) % dtype.itemsize:  # mapped arrays must be aligned
            file.seek(at)
            return read_npy(file, n_bytes)
    return np.memmap(path, dtype=dtype, mode="r", offset=at + begin, shape=shape, order="F" if fortran else "C")


def _header(text: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, order and type; the text is matched, not evaluated."""
    found = _HEADER.fullmatch(text.decode("latin1"))
    if found is None:
        raise ValueError(f"a header that is not read: {text[:80]!r}")
    kind, fortran, sizes = found.groups()
    shape = tuple(int(k) for k in sizes.replace(",", " ").split())
    return shape, fortran == "True", np.dtype(kind)


def read_npz(path: str | os.PathLike[str], called: Callable[[str], str] = str) -> dict[str, Any]:
    """Return all arrays of an archive by their names.

    Members are read where they lie and never unpacked to disk, so that their names lead nowhere; those that look like
    paths out of the archive are refused all the same.

    Raises
    ------
    ValueError
        Where the archive, or one of its arrays, is damaged, or larger than the memory.
    """
    size = Path(path).stat().st_size
    with zipfile.ZipFile(path) as archive:
        members = members_of(archive, size)
        check_fits(sum(member.file_size for member in members.values()))
        arrays: dict[str, Any] = {}
        for name, member in members.items():
            try:
                arrays[name] = read_member(archive, member)
            except DAMAGE as error:
                raise ValueError(f"{called(name)}: {in_short(error)}") from None
    return arrays


def members_of(archive: zipfile.ZipFile, n_bytes: int) -> dict[str, zipfile.ZipInfo]:
    """Return the members of an archive of this size by the names of their arrays, or raise what is odd."""
    members: dict[str, zipfile.ZipInfo] = {}
    if len(archive.infolist()) > _MOST_MEMBERS:
        raise ValueError(f"{len(archive.infolist())} members in the archive; at most {_MOST_MEMBERS} are read")
    for member in archive.infolist():
        _check_member(member, n_bytes)
        name = member.filename.removesuffix(".npy")
        if name in members:
            raise ValueError(f"two members are called {name}")
        members[name] = member
    return members


def read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Any:
    """Return the array that is a member of an archive, its checksum checked."""
    with archive.open(member) as file:
        array = read_npy(file, member.file_size)
        if file.read(1):  # reading to the end also checks the checksum
            raise ValueError("there is more after the array")
    return array


def map_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: str | os.PathLike[str]) -> Any:
    """Return the array that is a member of an archive, mapped where it lies if it is not packed, else read.

    A member that is mapped is not read, and so its checksum is not either.
    """
    if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & _ENCRYPTED:
        return read_member(archive, member)
    with open(path, "rb") as file:
        file.seek(member.header_offset)
        local = file.read(_LOCAL_HEADER.size)
    if len(local) < _LOCAL_HEADER.size:
        raise ValueError(f"{member.filename} is cut short")
    signature, name_length, extra_length = _LOCAL_HEADER.unpack(local)
    if signature != b"PK\x03\x04":
        raise ValueError(f"{member.filename} does not begin where the archive says")
    begin = member.header_offset + _LOCAL_HEADER.size + name_length + extra_length
    return map_npy(path, begin, member.file_size)


def _check_member(member: zipfile.ZipInfo, size: int) -> None:
    name = member.filename
    if name.startswith(("/", "\\")) or ".." in name.replace("\\", "/").split("/") or ":" in name or "\x00" in name:
        raise ValueError(f"the member {name!r} leads out of the archive")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"the member {name!r} is packed in a way that is not read")
    # DEFLATE packs a thousandfold at most
    if member.compress_size > size or member.file_size > 1100 * member.compress_size + 1000:
        raise ValueError(f"the member {name!r} says it holds {member.file_size} bytes, in {member.compress_size}")
