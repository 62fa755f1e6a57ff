"""Matrices too large for memory: a folder of row blocks, read through the page cache rather than into memory.

A block is what `scipy.sparse.save_npz` writes (not compressed), or a ``.npy`` of dense rows. An ``.npz`` is a zip whose
members are ``.npy`` files, stored as they are: each can be memory-mapped where it lies. `write_blocks` pads them so
that they begin at multiples of 64 bytes, which mapped arrays need; of other writers' files a member that does not is
read instead.
"""

from __future__ import annotations

import io
import os
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from quartic.distributed.inputs import is_dask_array
from quartic.io.errors import FileFormatError

_ALIGNMENT = 64
_LOCAL_HEADER = struct.Struct("<4s22xHH")  # a zip member's signature, the lengths of its name and of its extra field


def write_blocks(folder: str | os.PathLike[str], M: Any, *, rows: int | None = None) -> Path:
    """Write a matrix as row blocks that `read_blocks` reads without holding them in memory.

    Parameters
    ----------
    folder : str or Path
        Made where it does not exist; it must hold no blocks yet.
    M : sparse matrix, array, Dask array, or an iterable of row blocks
        The matrix; of a Dask array each row block becomes a file, written where the block is, so that workers need the
        folder too. An iterable need not know how many blocks there will be.
    rows : int, optional
        Rows of a block, for a matrix in memory; about 64 MB when left out.

    Returns
    -------
    Path
        The folder.

    Examples
    --------
    >>> import tempfile
    >>> import scipy.sparse as sp
    >>> from quartic.io import read_blocks, write_blocks
    >>> folder = write_blocks(tempfile.mkdtemp(), sp.eye_array(5, format="csr"), rows=2)
    >>> sorted(file.name for file in folder.iterdir())
    ['block-000000.npz', 'block-000001.npz', 'block-000002.npz']
    >>> read_blocks(folder).chunks
    ((2, 2, 1), (5,))
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if _files(folder):
        raise ValueError(f"{folder} holds blocks already; choose an empty folder, or remove them")
    if is_dask_array(M):
        import dask

        from quartic.distributed.inputs import row_recipes

        write = dask.delayed(_write, pure=False)
        dask.compute(*(write(folder, k, block) for k, block in enumerate(row_recipes(M, "M")[0])))
        return folder
    for k, block in enumerate(_row_blocks(M, rows)):
        _write(folder, k, block)
    return folder


def read_blocks(folder: str | os.PathLike[str]) -> Any:
    """Return the matrix in a folder of row blocks as a Dask array, of which nothing is read yet.

    Parameters
    ----------
    folder : str or Path
        With ``.npz`` files as `scipy.sparse.save_npz` writes them, or ``.npy`` files of dense rows; their order is that
        of their names. Workers must see it under the same name.

    Returns
    -------
    dask.array.Array (n, n)
        A block for each file, for `quartic.losses.LeastSquares` or `quartic.SymNMF`.

    Raises
    ------
    FileFormatError
        Where there are no blocks, or they do not make up a matrix.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from quartic.io import read_blocks, write_blocks
    >>> M = np.arange(9.0).reshape(3, 3)
    >>> bool((read_blocks(write_blocks(tempfile.mkdtemp(), M, rows=2)).compute() == M).all())
    True
    """
    try:
        import dask.array as da
        from dask import delayed
    except ImportError as missing:
        raise ImportError('blocks on disk need Dask: pip install "quartic[distributed]"') from missing

    folder = Path(folder).absolute()
    if not folder.is_dir():
        raise FileFormatError(f"{folder}: there is no such folder of blocks")
    files = _files(folder)
    if not files:
        raise FileFormatError(f"{folder}: no blocks there (.npz of sparse rows, or .npy of dense ones)")
    if len({file.suffix for file in files}) > 1:
        raise FileFormatError(f"{folder}: some blocks are .npz, some .npy; keep one kind")
    shapes = [_shape(file) for file in files]
    widths = {shape[1] for shape, _ in shapes}
    if len(widths) > 1:
        k = next(k for k, (shape, _) in enumerate(shapes) if shape[1] != shapes[0][0][1])
        raise FileFormatError(
            f"{files[k]}: {shapes[k][0][1]} columns, but {files[0].name} has {shapes[0][0][1]}; all blocks must be "
            "equally wide"
        )
    dtype = np.result_type(*(dtype for _, dtype in shapes))
    meta = sp.csr_array((0, 0), dtype=dtype) if files[0].suffix == ".npz" else np.empty((0, 0), dtype=dtype)
    read = delayed(read_block, pure=True)
    return da.concatenate(
        [
            da.from_delayed(read(str(file)), shape=shape, dtype=dtype, meta=meta)
            for file, (shape, _) in zip(files, shapes, strict=True)
        ]
    )


def read_block(path: str) -> Any:
    """Return one block, its arrays mapped into memory where they can be."""
    if path.endswith(".npy"):
        return np.load(path, mmap_mode="r", allow_pickle=False)
    try:
        with zipfile.ZipFile(path) as archive:
            arrays = {name: _member(archive, path, f"{name}.npy") for name in ("indices", "indptr", "data")}
            shape = tuple(int(k) for k in _member(archive, path, "shape.npy"))
        block = sp.csr_array((arrays["data"], arrays["indices"], arrays["indptr"]), shape=shape)
    except (KeyError, ValueError, zipfile.BadZipFile, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise FileFormatError(f"{path}: not a block of sparse rows ({error})") from None
    return block


def _files(folder: Path) -> list[Path]:
    return sorted(
        file for file in folder.iterdir() if file.suffix in (".npz", ".npy") and not file.name.startswith(".")
    )


def _row_blocks(M: Any, rows: int | None) -> Iterator[Any]:
    if not (sp.issparse(M) or isinstance(M, np.ndarray)):
        yield from M
        return
    M = sp.csr_array(M) if sp.issparse(M) else M
    if rows is None:
        size = M.data.nbytes + M.indices.nbytes if sp.issparse(M) else M.nbytes
        rows = max(1, int(M.shape[0] * 2**26 / max(size, 1)))
    for first in range(0, M.shape[0], rows):
        yield M[first : first + rows]


def _write(folder: Path, k: int, block: Any) -> None:
    """Write a block beside its place, and move it there when it is whole."""
    sparse = sp.issparse(block)
    path = folder / f"block-{k:06d}{'.npz' if sparse else '.npy'}"
    temporary = folder / f".{path.name}.tmp"
    with temporary.open("wb") as file:
        if sparse:
            _write_sparse(file, sp.csr_array(block))
        else:
            np.save(file, np.ascontiguousarray(block), allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def _write_sparse(file: Any, A: sp.csr_array) -> None:
    narrow = np.int32 if max(*A.shape, A.nnz) < 2**31 else np.int64  # what SciPy would make of them anyway
    arrays = {
        "indices": A.indices.astype(narrow, copy=False),
        "indptr": A.indptr.astype(narrow, copy=False),
        "format": np.array(b"csr"),
        "shape": np.array(A.shape),
        "data": A.data,
        "_is_array": np.array(True),
    }
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, array in arrays.items():
            member = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            # header, name, the field of long sizes, then ours: an identifier, a length, and what fills up to 64 bytes
            begin = file.tell() + 30 + len(member.filename) + 20 + 4
            fill = -begin % _ALIGNMENT
            member.extra = struct.pack("<HH", 0xD935, fill) + bytes(fill)
            with archive.open(member, "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.ascontiguousarray(array), allow_pickle=False)


def _shape(path: Path) -> tuple[tuple[int, int], np.dtype[Any]]:
    """Return shape and type of a block from its headers."""
    try:
        if path.suffix == ".npy":
            whole = np.load(path, mmap_mode="r", allow_pickle=False)
            shape, dtype = whole.shape, whole.dtype
        else:
            with zipfile.ZipFile(path) as archive:
                shape = tuple(int(k) for k in _member(archive, str(path), "shape.npy"))
                kind = _member(archive, str(path), "format.npy").item()
                if kind not in (b"csr", "csr"):
                    raise ValueError(f"a block must be saved as csr, this one is {kind}")
                with archive.open("data.npy") as file:
                    dtype = _header(file)[1]
    except (KeyError, ValueError, zipfile.BadZipFile, EOFError, OSError) as error:
        raise FileFormatError(f"{path}: not a block of rows ({error})") from None
    if len(shape) != 2:
        raise FileFormatError(f"{path}: a block has rows and columns, this array has the shape {shape}")
    return (int(shape[0]), int(shape[1])), np.dtype(dtype)


def _header(file: Any) -> tuple[tuple[int, ...], np.dtype[Any], bool]:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("holds Python objects, which are not read; save numbers")
    return shape, dtype, fortran


def _member(archive: zipfile.ZipFile, path: str, name: str) -> Any:
    """Return an array of an .npz: mapped where it lies uncompressed and aligned, else read."""
    member = archive.getinfo(name)
    if member.compress_type == zipfile.ZIP_STORED:
        with open(path, "rb") as file:
            file.seek(member.header_offset)
            signature, name_length, extra_length = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
            file.seek(member.header_offset + _LOCAL_HEADER.size + name_length + extra_length)
            begin = file.tell()
            shape, dtype, _ = _header(file)
            offset = file.tell()
        if signature != b"PK\x03\x04" or offset - begin + dtype.itemsize * int(np.prod(shape)) > member.file_size:
            raise ValueError(f"{name} is cut short")
        if offset % dtype.itemsize == 0 and len(shape) == 1 and shape[0] > 0:
            return np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape)
    with archive.open(member) as entry:
        return np.load(io.BytesIO(entry.read()), allow_pickle=False)
