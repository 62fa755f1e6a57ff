"""Matrices too large for memory: a folder of row blocks, read through the page cache rather than into memory.

A block is what `scipy.sparse.save_npz` writes (not compressed), or a ``.npy`` of dense rows. An ``.npz`` is a zip whose
members are ``.npy`` files, stored as they are: each can be memory-mapped where it lies. `write_blocks` pads them so
that they begin at multiples of 64 bytes, which mapped arrays need; of other writers' files a member that does not is
read instead.
"""

from __future__ import annotations

import os
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from quartic.archives import DAMAGE, in_short, map_member, map_npy, members_of, npy_header, read_member
from quartic.distributed.inputs import is_dask_array
from quartic.io.arrays import check_compressed
from quartic.io.errors import FileFormatError

_ALIGNMENT = 64


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
    """Return one block, its arrays mapped into memory where they can be.

    What says where numbers are, headers and indices, is checked; the numbers themselves are not looked at.
    """
    with _named(path):
        if path.endswith(".npy"):
            return _in_native_order(map_npy(path))
        with zipfile.ZipFile(path) as archive:
            members = members_of(archive, os.path.getsize(path))
            shape, _ = _sparse_shape(archive, members, path)
            data, indices, indptr = (
                _in_native_order(map_member(archive, members[name], path)) for name in ("data", "indices", "indptr")
            )
        check_compressed(data, indices, indptr, shape[1])
        return sp.csr_array((data, indices, indptr), shape=shape)


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Say of what is wrong with a file which one it is."""
    try:
        yield
    except (OSError, *DAMAGE) as error:
        if isinstance(error, FileFormatError) or (isinstance(error, OSError) and error.filename is not None):
            raise
        raise FileFormatError(f"{path}: not a block of rows ({in_short(error)})") from None


def _in_native_order(array: Any) -> Any:
    """Return real numbers as this machine computes with them: itself, but for those of other machines and widths."""
    kind, size = array.dtype.kind, array.dtype.itemsize
    if kind not in "fiub":
        raise ValueError(f"a block must be real numbers, got dtype {array.dtype}")
    if kind == "f" and size not in (4, 8):
        return array.astype(np.float32 if size < 4 else np.float64)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


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
    with _named(str(path)):
        if path.suffix == ".npy":
            whole = map_npy(path)
            shape, dtype = whole.shape, whole.dtype
        else:
            with zipfile.ZipFile(path) as archive:
                members = members_of(archive, path.stat().st_size)
                shape, dtype = _sparse_shape(archive, members, path)
        dtype = _in_native_order(np.empty(0, dtype)).dtype
    if len(shape) != 2:
        raise FileFormatError(f"{path}: a block has rows and columns, this array has the shape {shape}")
    return (int(shape[0]), int(shape[1])), dtype


def _sparse_shape(
    archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], path: str | Path
) -> tuple[tuple[int, int], np.dtype[Any]]:
    """Return the shape that a file of sparse rows says it has, and the type of its numbers."""
    kind = read_member(archive, members["format"]).item()
    if kind not in (b"csr", "csr"):
        raise ValueError(f"a block must be saved as csr, this one is {kind!r}")
    shape = read_member(archive, members["shape"])
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or (shape < 0).any():
        raise ValueError(f"the shape must be two whole numbers, got {shape.tolist()!r}")
    with archive.open(members["data"]) as file:
        dtype = npy_header(file, members["data"].file_size)[2]
    return (int(shape[0]), int(shape[1])), dtype
