"""Dask collections: recognising them, and their row blocks."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from quartic.arrays import check_real, working_dtype


def is_instance_if_loaded(thing: Any, module: str, name: str) -> bool:
    """Tell whether something is of a class of a module, which is not imported for that: without it, nothing is."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(thing, getattr(loaded, name))


def is_dask_array(A: Any) -> bool:
    """Tell whether A is a Dask array."""
    return is_instance_if_loaded(A, "dask.array", "Array")


def is_dask_frame(A: Any) -> bool:
    """Tell whether A is a Dask dataframe."""
    return is_instance_if_loaded(A, "dask.dataframe", "DataFrame")


def is_dask_series(A: Any) -> bool:
    """Tell whether A is a column of a Dask dataframe."""
    return is_instance_if_loaded(A, "dask.dataframe", "Series")


def is_persisted(source: Any) -> bool:
    """Tell whether a collection, or one of several, is made of what workers have in memory: then that is its recipe."""
    distributed = sys.modules.get("distributed")
    given = list(source) if isinstance(source, tuple) else [source]
    return distributed is not None and bool(distributed.futures_of([one for one in given if one is not None]))


def row_recipes(A: Any, name: str) -> tuple[list[Any], list[int]]:
    """Return the row blocks of a Dask array as delayed objects, and how many rows each is said to have.

    Where a row block is cut into columns as well, its pieces are joined: the products need whole rows.
    """
    from dask import delayed

    if any(math.isnan(size) for sizes in A.chunks for size in sizes):
        raise ValueError(f"the blocks of {name} are of unknown size; call {name}.compute_chunk_sizes() first")
    pieces = A.to_delayed()
    if pieces.ndim == 1:
        return list(pieces), [int(rows) for rows in A.chunks[0]]
    joined = [row[0] if len(row) == 1 else delayed(_side_by_side, pure=False)(list(row)) for row in pieces]
    return joined, [int(rows) for rows in A.chunks[0]]


def _side_by_side(pieces: list[Any]) -> Any:
    return sp.hstack(pieces, format="csr") if any(map(sp.issparse, pieces)) else np.hstack(pieces)


def checked_dtype(A: Any, name: str) -> type[np.floating[Any]]:
    """Return the type we compute in, or raise where the numbers are not real."""
    check_real(A, name)
    return working_dtype(np.dtype(A.dtype))


def in_blocks(A: Any, n_blocks: int) -> Any:
    """Return a matrix in memory, dense or sparse, as a Dask array of row blocks.

    Parameters
    ----------
    A : array or sparse matrix (n, p)
        The matrix.
    n_blocks : int
        Number of blocks, at most one per row.

    Returns
    -------
    dask.array.Array

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from quartic.distributed import in_blocks
    >>> in_blocks(sp.eye_array(4, format="csr"), 2).chunks
    ((2, 2), (4,))
    """
    try:
        from dask import delayed
    except ImportError as missing:
        raise ImportError('row blocks need Dask: pip install "quartic[distributed]"') from missing

    A = sp.csr_array(A) if sp.issparse(A) else np.asarray(A)
    ends = np.linspace(0, A.shape[0], max(1, min(n_blocks, A.shape[0])) + 1).astype(int)
    blocks = [delayed(A[a:b], pure=False) for a, b in pairwise(ends)]
    meta = sp.csr_array((0, 0), dtype=A.dtype) if sp.issparse(A) else np.empty((0, 0), dtype=A.dtype)
    return concatenate_rows(blocks, np.diff(ends).tolist(), A.shape[1], meta)


def concatenate_rows(blocks: Sequence[Any], rows: Sequence[int], width: int, meta: Any) -> Any:
    """Return a Dask array of delayed row blocks: how many rows each has, and an empty array of their kind."""
    import dask.array as da

    shapes = [(int(size), width) for size in rows]
    pieces = zip(blocks, shapes, strict=True)
    return da.concatenate([da.from_delayed(piece, shape, dtype=meta.dtype, meta=meta) for piece, shape in pieces])
