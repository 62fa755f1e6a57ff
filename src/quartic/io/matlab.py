"""A look through a MATLAB file before SciPy reads it: what it holds, unpacked, must fit the memory."""

from __future__ import annotations

import zlib
from typing import IO

from quartic.archives import check_fits

_COMPRESSED = 15
_BLOCK = 1 << 20


def check_matlab(file: IO[bytes], size: int) -> int:
    """Return how many bytes the elements of a version 5 file are, unpacked; raise where that is too much.

    An element is a tag of 8 bytes, its kind and its length, and the data; those of kind 15 are packed by DEFLATE, a
    thousandfold at most. A file of another version is as large as it is.

    Raises
    ------
    ValueError
        Where an element is longer than the file, or all of them together larger than the memory.
    """
    header = file.read(128)
    order = {b"IM": "little", b"MI": "big"}.get(header[126:128])
    if order is None or not header.startswith(b"MATLAB"):
        return size
    at, total = 128, 0
    while at + 8 <= size:
        tag = file.read(8)
        kind, length = (int.from_bytes(tag[k : k + 4], order) for k in (0, 4))  # type: ignore[arg-type]
        if length > size - at - 8:
            raise ValueError(f"cut short: an element of {length} bytes said, {size - at - 8} there")
        total += _unpacked(file, length, total) if kind == _COMPRESSED else length
        check_fits(total)
        at += 8 + length
        file.seek(at)
    return total


def _unpacked(file: IO[bytes], length: int, before: int) -> int:
    """Return how much ``length`` bytes are when unpacked, without keeping them."""
    machine, total = zlib.decompressobj(), 0
    while length > 0:
        part = file.read(min(length, _BLOCK))
        if not part:
            break
        length -= len(part)
        while part:
            total += len(machine.decompress(part, _BLOCK))
            check_fits(before + total)
            part = machine.unconsumed_tail
    return total
