"""A symmetric matrix in row blocks, on a Dask cluster or on disk."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from quartic.arrays import Array, first_not_finite
from quartic.arrays.space import squares_are_safe
from quartic.distributed.blocks import Blocks, Keep, blocks_of
from quartic.distributed.inputs import checked_dtype, is_dask_array, row_recipes
from quartic.losses.factor.matrix import _SMALL, ASYMMETRY, Matrix, _raise_if_asymmetric, check_square

# A test of symmetry by products with random vectors must allow for their round-off, this many times eps·‖M‖.
_ROUND_OFF = 64.0


class DaskMatrix(Matrix):
    r"""A Dask array of row blocks, sparse (``csr_array``) or dense, known by its products.

    :math:`MX` is made of :math:`M_k X`, one task a block: X goes to each worker once, and the rows come back. X itself
    lives here, so that solvers, loop and checkpoints are what they are on one machine.

    Parameters
    ----------
    M : dask.array.Array (n, n)
        Symmetric. `quartic.io.read_blocks` makes one of a folder of files.
    client : distributed.Client or False, optional
        The cluster; the client made last when left out. Without any, or with False, threads of this process do the
        work.
    keep : {"auto", True, False}
        Whether blocks stay in memory. "auto": where they take at most two fifths of it. Otherwise each product reads
        them anew, which is how a matrix larger than memory is factorised.
    memory_limit : int or str, optional
        Without a cluster: the memory that blocks may take, such as "2 GB".

    Notes
    -----
    All checks are made where the blocks are: shapes, finite numbers, and symmetry. The last is tested by
    :math:`\langle u, Mv\rangle = \langle Mu, v\rangle` for two Gaussian vectors, in float64, at the price of one
    product with two columns; a matrix that fails is looked at row by row, and the error names the entries.

    Examples
    --------
    >>> import numpy as np
    >>> import dask.array as da
    >>> from quartic.losses import DaskMatrix, LeastSquares
    >>> M = da.from_array(np.kron(np.eye(2), np.ones((3, 3))), chunks=(2, 6))
    >>> loss = LeastSquares(DaskMatrix(M, keep=False))
    >>> float(loss.value(np.kron(np.eye(2), np.ones((3, 1)))))
    0.0
    """

    shows_entries = False
    largest: float

    def __init__(
        self, M: Any, *, client: Any = None, keep: Keep = "auto", memory_limit: float | str | None = None
    ) -> None:
        if not is_dask_array(M):
            raise TypeError(f"M must be a Dask array of row blocks, got {type(M).__name__}")
        if M.ndim != 2:
            raise ValueError(f"M must be a 2-D array, got {M.ndim} dimensions")
        check_square(M.shape)
        self.M = M
        self.n = int(M.shape[0])
        self.dtype = checked_dtype(M, "M")
        recipes, rows = row_recipes(M, "M")
        self.first = np.concatenate([[0], np.cumsum(rows)])
        prepare = partial(_prepared, rows=rows, width=self.n, dtype=self.dtype)
        self.blocks: Blocks = blocks_of(
            recipes, prepare, _inspected, source=M, client=client, keep=keep, memory_limit=memory_limit
        )
        for fact in self.blocks.facts:
            if fact["fault"] is not None:
                raise ValueError(fact["fault"])
        self.squared_norm = float(sum(fact["squares"] for fact in self.blocks.facts))
        self.largest = float(max(fact["largest"] for fact in self.blocks.facts))
        self._check_symmetric()

    def product(self, X: Array, out: Array | None = None) -> Array:
        Y = np.empty((self.n, X.shape[1]), dtype=np.result_type(self.dtype, X.dtype))
        for k, rows in enumerate(self.blocks.map(_product, np.ascontiguousarray(X))):
            Y[self.first[k] : self.first[k + 1]] = rows
        return Y

    def entries_per_row(self) -> float:
        return float(sum(fact["entries"] for fact in self.blocks.facts) / self.n)

    def total(self) -> tuple[float, int]:
        return float(sum(fact["total"] for fact in self.blocks.facts)), 0

    # -- checks ------------------------------------------------------------------------------------------------------

    def _check_symmetric(self) -> None:
        if self.largest == 0.0:
            return
        u, v = np.random.default_rng(0).standard_normal((2, self.n))
        P = self.product(np.column_stack([u, v]))
        gap = abs(float(u @ P[:, 1] - v @ P[:, 0]))
        size = self.largest * math.sqrt(self.n * self.entries_per_row())  # ‖M‖ at most, and never out of range
        if squares_are_safe(self.squared_norm):
            size = math.sqrt(self.squared_norm)
        slack = _ROUND_OFF * float(np.finfo(np.float64).eps) * size
        if gap > ASYMMETRY[self.dtype] * self.largest + slack:
            self._find_asymmetry(v, P[:, 1])

    def _find_asymmetry(self, v: Array, Mv: Array) -> None:
        """Raise where entries differ from their mirror images by more than round-off, and name the worst of a row."""
        i = int(np.abs(Mv - self.blocks.sum(_transposed_product, v)[0]).argmax())
        row = next(row for row in self.blocks.map(_row, i) if row is not None)
        column = np.concatenate(list(self.blocks.map(_column, i)))
        gap = np.abs(row - column)
        j = int(gap.argmax())
        entries = {(i, j): row[j], (j, i): column[j]}
        _raise_if_asymmetric(gap[[j]], np.array([i]), np.array([j]), self.largest, self.dtype, entries)


# -- what is done with a block, on a worker -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RowBlock:
    """Some rows of M, sparse or dense, and the number of the first."""

    first: int
    rows: Any
    fault: str | None = None

    @property
    def values(self) -> Array:
        """The stored entries, one after the other."""
        values: Array = self.rows.data if sp.issparse(self.rows) else self.rows.reshape(-1)
        return values


def _prepared(block: Any, k: int, *, rows: list[int], width: int, dtype: Any) -> RowBlock:
    """Return the block as CSR or as a C-ordered array of our type; what is so already is not copied."""
    first, fault = sum(rows[:k]), None
    if block.ndim != 2 or block.shape[1] != width:
        fault = (
            f"all row blocks of M must be {width} wide, as many columns as M has rows, but block {k} has the shape "
            f"{block.shape}; look at how block {k} is made"
        )
    elif block.shape[0] != rows[k]:
        fault = (
            f"block {k} of M is said to have {rows[k]} rows, but has the shape {block.shape}; look at how it is made"
        )
    if fault is not None:  # told there, raised here: what a worker raises it also logs
        return RowBlock(first, np.empty((0, width)), fault)
    if sp.issparse(block):
        return RowBlock(first, sp.csr_array(block, dtype=dtype))
    return RowBlock(first, np.ascontiguousarray(block, dtype=dtype))


@np.errstate(over="ignore", under="ignore")
def _inspected(block: RowBlock) -> dict[str, Any]:
    """Return what must be known of a block, and what is wrong with it."""
    A, fault = block.rows, block.fault
    if sp.issparse(A):
        try:
            A.check_format(full_check=True)
        except ValueError as damage:
            return {"fault": f"the block of M that begins with row {block.first} is damaged: {damage}"}
        if not A.has_canonical_format:
            A = A.copy()  # the block may be shared, and the next line sorts in place
            A.sum_duplicates()
            block = RowBlock(block.first, A)
    values = block.values
    return {
        "fault": fault or _non_finite(block),
        "entries": int(values.size),
        "squares": float(np.square(values, dtype=np.float64).sum()),
        "total": float(values.sum(dtype=np.float64)),
        "largest": float(np.abs(values).max(initial=0.0)),
    }


def _non_finite(block: RowBlock) -> str | None:
    fault = first_not_finite(block.rows)
    if fault is None:
        return None
    row, column, value = fault
    return (
        f"M must be finite, but M[{block.first + row}, {column}] is {value}; put 0 where there is no similarity, and "
        "leave out what is unknown"
    )


def _product(block: RowBlock, X: Array) -> Array:
    from quartic.losses.factor.numba import WIDEST_RANK, row_pieces, sparse_product

    A = block.rows
    if not sp.issparse(A) or X.dtype != A.dtype or X.shape[1] > WIDEST_RANK or A.nnz * X.shape[1] < _SMALL:
        rows: Array = A @ X
        return rows
    rows = np.empty((A.shape[0], X.shape[1]), dtype=X.dtype)
    sparse_product(A.indptr, A.indices, A.data, row_pieces(A.indptr), X, rows)
    return rows


def _transposed_product(block: RowBlock, v: Array) -> tuple[Array]:
    return (block.rows.T @ v[block.first : block.first + block.rows.shape[0]],)


def _row(block: RowBlock, i: int) -> Array | None:
    at = i - block.first
    return _filled(block.rows[[at]]).reshape(-1) if 0 <= at < block.rows.shape[0] else None


def _column(block: RowBlock, j: int) -> Array:
    return _filled(block.rows[:, [j]]).reshape(-1)


def _filled(A: Any) -> Array:
    filled: Array = (A.toarray() if sp.issparse(A) else A).astype(np.float64)
    return filled
