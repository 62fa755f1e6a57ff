"""Matrices too large for memory: a folder of row blocks, read through the page cache rather than into memory.

A block of sparse rows is four plain files, ``block-000000.data.npy``, ``.indices.npy``, ``.indptr.npy`` and
``.shape.npy``; one of dense rows is ``block-000000.npy``. Both are memory-mapped. What `scipy.sparse.save_npz` writes
is a block too, which is read instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from quartic.archives import map_npy, read_npz, write_whole
from quartic.distributed.inputs import is_dask_array
from quartic.io.arrays import make_compressed
from quartic.io.files import FileFormatError, damage_named

_PARTS = ("data", "indices", "indptr", "shape")  # of a block of sparse rows; the last is written last


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
    >>> sorted(file.name for file in folder.glob("block-000000.*"))
    ['block-000000.data.npy', 'block-000000.indices.npy', 'block-000000.indptr.npy', 'block-000000.shape.npy']
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
        As `write_blocks` writes it; or with ``.npz`` files by `scipy.sparse.save_npz`, or ``.npy`` files of dense rows.
        Their order is that of their names. Workers must see it under the same name.

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
    folder = Path(folder).absolute()
    if not folder.is_dir():
        raise FileFormatError(f"{folder}: there is no such folder of blocks")
    files = _files(folder)
    if not files:
        raise FileFormatError(f"{folder}: a folder without blocks of a matrix; name a file instead")
    try:
        import dask.array as da
        from dask import delayed
    except ImportError as missing:
        raise ImportError('blocks on disk need Dask: pip install "quartic[distributed]"') from missing
    claims = [_claim(file) for file in files]
    if len({(file.suffix, sparse) for file, (_, _, sparse) in zip(files, claims, strict=True)}) > 1:
        raise FileFormatError(f"{folder}: blocks of several kinds, sparse and dense; keep one kind")
    width = claims[0][0][1]
    for file, (shape, _, _) in zip(files, claims, strict=True):
        if shape[1] != width:
            fault = f"{shape[1]} columns, but {files[0].name} has {width}; all blocks must be equally wide"
            raise FileFormatError(f"{file}: {fault}")
    dtype = np.result_type(*(dtype for _, dtype, _ in claims))
    meta = sp.csr_array((0, 0), dtype=dtype) if claims[0][2] else np.empty((0, 0), dtype=dtype)
    read = delayed(read_block, pure=True)
    return da.concatenate(
        [
            da.from_delayed(read(str(file)), shape=shape, dtype=dtype, meta=meta)
            for file, (shape, _, _) in zip(files, claims, strict=True)
        ]
    )


def read_block(path: str) -> Any:
    """Return one block, its arrays mapped into memory where they can be; of sparse rows, by the file of their shape.

    What says where numbers are, headers and indices, is checked; the numbers themselves are not looked at.
    """
    with damage_named(path, "not a block of rows"):
        parts = _parts(Path(path))
        data = parts["data"].astype(_native(parts["data"].dtype), copy=False)
        if "indices" not in parts:
            return data
        shape = _shape(parts)
        indices, indptr = (parts[name].astype(_native(parts[name].dtype), copy=False) for name in ("indices", "indptr"))
        return make_compressed("csr", data, indices, indptr, shape)


def _files(folder: Path) -> list[Path]:
    """Return the file that stands for each block: of sparse rows, that of their shape."""
    files = sorted(
        file for file in folder.iterdir() if file.suffix in (".npz", ".npy") and not file.name.startswith(".")
    )
    return [file for file in files if not file.name.endswith(tuple(f".{part}.npy" for part in _PARTS[:3]))]


def _parts(path: Path) -> dict[str, Any]:
    """Return the arrays of a block, only ``data`` where its rows are dense."""
    if path.suffix == ".npz":
        arrays = read_npz(path)
        if (kind := arrays["format"].item()) not in (b"csr", "csr"):
            raise ValueError(f"a block must be saved as csr, this one is {kind!r}")
        return arrays
    if not path.name.endswith(".shape.npy"):
        return {"data": map_npy(path)}
    return {part: map_npy(path.with_name(path.name.replace(".shape.npy", f".{part}.npy"))) for part in _PARTS}


def _native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type in which this machine computes with real numbers: the same but for other machines' and widths."""
    if dtype.kind not in "fiub":
        raise ValueError(f"a block must be real numbers, got dtype {dtype}")
    if dtype.kind == "f" and dtype.itemsize not in (4, 8):
        return np.dtype(np.float32 if dtype.itemsize < 4 else np.float64)
    return dtype.newbyteorder("=")


def _shape(parts: dict[str, Any]) -> tuple[int, int]:
    """Return the shape that a block says it has."""
    shape = np.asarray(parts["shape"] if "indices" in parts else parts["data"].shape)
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or (shape < 0).any():
        raise ValueError(f"a block has rows and columns, this one the shape {shape.tolist()!r}")
    return int(shape[0]), int(shape[1])


def _claim(path: Path) -> tuple[tuple[int, int], np.dtype[Any], bool]:
    """Return shape and type of a block, from its headers where it is mapped, and whether it is sparse."""
    with damage_named(str(path), "not a block of rows"):
        parts = _parts(path)
        return _shape(parts), _native(parts["data"].dtype), "indices" in parts


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
    """Write the files of a block, each whole or not at all."""
    name = f"block-{k:06d}"
    if not sp.issparse(block):
        _save(folder / f"{name}.npy", block)
        return
    A = sp.csr_array(block)
    narrow = np.int32 if max(*A.shape, A.nnz) < 2**31 else np.int64  # what SciPy would make of them anyway
    arrays = (A.data, A.indices.astype(narrow, copy=False), A.indptr.astype(narrow, copy=False), np.array(A.shape))
    for part, array in zip(_PARTS, arrays, strict=True):
        _save(folder / f"{name}.{part}.npy", array)


def _save(path: Path, array: Any) -> None:
    write_whole(path, partial(np.save, arr=np.ascontiguousarray(array), allow_pickle=False))
