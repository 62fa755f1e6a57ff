"""A symmetric matrix M as the losses see it: dense, sparse or an operator, known by its products."""

from __future__ import annotations

import copy
import math
import sys
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from quartic.arrays import (
    Array,
    astype,
    check_finite,
    check_number,
    check_real,
    finite_csr,
    finite_matrix,
    float_type,
    is_torch,
    norm,
    working_dtype,
)
from quartic.arrays.space import HOST, Space, space_of
from quartic.arrays.threads import spread
from quartic.core.units import exponent, shifted
from quartic.distributed.inputs import is_dask_array

# |M − Mᵀ| may be this much of max|M|: what round-off leaves of a matrix that was meant to be symmetric
ASYMMETRY = {np.float64: 1e-10, np.float32: 1e-5}
# A dense product is shared out in at most so many pieces, of whole blocks of rows.
_ROWS, _PIECES = 64, 16
# Rows compared with their columns at a time.
_STRIP = 512
# The rows that so many entries gather do not fit into a cache.
_MANY = 2_000_000
# Below so many multiplications SciPy's product does: ours is compiled for each rank.
_SMALL = 50_000
# So well an operator is expected to keep what it promises; it may be an iterative method, or of single precision.
_TRUSTED = 1e-3


class Matrix(ABC):
    """A symmetric n × n matrix: its size, its squared norm, its products."""

    n: int
    dtype: type[np.floating[Any]]
    squared_norm: float
    #: where its products live
    space: Space = HOST
    #: whether single entries can be looked at, not only products
    shows_entries: bool = True
    #: the largest |M_ij|, where it is known and the entries are not at hand
    largest: float | None = None

    @abstractmethod
    def product(self, X: Array, out: Array | None = None) -> Array:
        """Return M X, a C-ordered array of X's type where M has it too; in ``out`` where that will do."""

    def replays(self, X: Array, method: str) -> bool:
        """Tell whether iterations of a method with such an X are best recorded and replayed on the device."""
        return False

    def exponent(self) -> int | None:
        """Return log₂ of ‖M‖, or of the largest entry where the squares under- or overflow; None for M = 0."""
        if 1e-280 < self.squared_norm < math.inf:
            return exponent(math.sqrt(self.squared_norm))
        return exponent(self.entries() if self.largest is None else self.largest)

    def entries(self) -> Array:
        """Return an array of the entries that are not zero, or 0 where they are not at hand."""
        return np.zeros(1)

    def places(self) -> tuple[Any, Any] | None:
        """Return the rows and columns of ``entries``, None where those are the whole matrix."""
        return None

    def scaled(self, power: int) -> Matrix:
        """Return 2^power · M."""
        return ScaledMatrix(self, power)

    def rough(self) -> Matrix:
        """Return M in single precision where that is much quicker."""
        return self

    @abstractmethod
    def total(self) -> tuple[float, int]:
        """Return the sum of all entries, and the products it took."""

    def entries_per_row(self) -> float:
        """Return about how many entries of a row a product touches."""
        return float(self.n)

    def dense(self) -> Array | None:
        """Return M as an array on the host, for small n; None where its entries are not at hand."""
        return None

    def checksum(self) -> float:
        """Return ⟨w, Mw⟩ for a fixed vector w, which tells M from matrices of the same norm; it is not counted."""
        w = self.space.adopt(np.cos(np.arange(self.n, dtype=np.float64))[:, None] + 0.5)
        return float(self.space.inner(w, self.product(w)))


class ScaledMatrix(Matrix):
    """2^power times another matrix, whose products are scaled: for those whose entries are best left where they are."""

    def __init__(self, matrix: Matrix, power: int) -> None:
        self.matrix, self.power = matrix, power
        self.n, self.dtype, self.space = matrix.n, matrix.dtype, matrix.space
        self.shows_entries = matrix.shows_entries
        self.squared_norm = shifted(matrix.squared_norm, 2 * power)

    def product(self, X: Array, out: Array | None = None) -> Array:
        return shifted(self.matrix.product(X, out), self.power)

    def total(self) -> tuple[float, int]:
        total, products = self.matrix.total()
        return shifted(total, self.power), products

    def entries_per_row(self) -> float:
        return self.matrix.entries_per_row()


class ProjectedMatrix(Matrix):
    """QΛQᵀ with few columns in Q, which lie where another matrix is."""

    shows_entries = False

    def __init__(self, matrix: Matrix, Q: Array, values: Array) -> None:
        self.matrix, self.Q, self.values = matrix, Q, values
        self.n, self.dtype, self.space = matrix.n, matrix.dtype, matrix.space
        self.squared_norm = float(np.square(values, dtype=np.float64).sum())
        self._factors = self.space.adopt(np.asarray(values, np.float64)[:, None])

    def product(self, X: Array, out: Array | None = None) -> Array:
        space, Q = self.space, astype(self.Q, float_type(X))
        return space.times(Q, self._factors * space.bare(space.gram(Q, X)))

    def replays(self, X: Array, method: str) -> bool:
        return self.matrix.replays(X, method)

    def scaled(self, power: int) -> ProjectedMatrix:
        return ProjectedMatrix(self.matrix, self.Q, shifted(self.values, power))

    def total(self) -> tuple[float, int]:
        ones = self.space.zeros((self.n, 1), self.dtype) + 1
        return float(self.space.inner(self.product(ones), ones)), 0

    def entries_per_row(self) -> float:
        return 2.0 * self.Q.shape[1]


class StoredMatrix(Matrix):
    """A matrix of which all entries are at hand, in ``M``."""

    M: Any

    def entries(self) -> Array:
        return self.M

    def with_entries(self, entries: Array) -> Any:
        """Return M with other entries in the same places."""
        return entries

    @np.errstate(over="ignore", under="ignore")
    def _sum_of_squares(self, entries: Array) -> float:
        return float(np.square(entries, dtype=np.float64).sum())

    def scaled(self, power: int) -> Self:
        twin, entries = copy.copy(self), shifted(self.entries(), power)
        twin.M, twin.squared_norm = self.with_entries(entries), self._sum_of_squares(entries)
        return twin

    def total(self) -> tuple[float, int]:
        return float(self.space.total(self.entries())), 0

    def entries_per_row(self) -> float:
        return math.prod(self.entries().shape) / self.n

    def dense(self) -> Array:
        return self.space.to_host(self.M @ self.space.adopt(np.eye(self.n, dtype=self.dtype)))


class DenseMatrix(StoredMatrix):
    """A NumPy array."""

    def __init__(self, M: Any, name: str = "M") -> None:
        self.M = finite_matrix(M, name)
        check_square(self.M.shape, name)
        self.n = self.M.shape[0]
        self.dtype = working_dtype(self.M.dtype)
        largest = _largest(self.M)
        for first in range(0, self.n, _STRIP):  # M − Mᵀ at once would be a second matrix of that size
            gap = np.abs(self.M[first : first + _STRIP] - self.M[:, first : first + _STRIP].T)
            i, j = np.unravel_index(int(gap.argmax()), gap.shape)
            _raise_if_asymmetric(gap[i, j][None], [first + i], [j], largest, self.dtype, self.M, name)
        self.squared_norm = self._sum_of_squares(self.M)

    def product(self, X: Array, out: Array | None = None) -> Array:
        if X.dtype != self.M.dtype:
            return np.ascontiguousarray(self.M @ X)
        Y = np.empty_like(X) if out is None else out
        rows = _ROWS * max(1, -(-self.n // (_ROWS * _PIECES)))

        def work(first: int, last: int) -> None:
            for k in range(first, last):
                np.matmul(self.M[k * rows : (k + 1) * rows], X, out=Y[k * rows : (k + 1) * rows])

        spread(work, -(-self.n // rows), float(self.n) * self.n * X.shape[1])
        return Y


class SparseMatrix(StoredMatrix):
    """Any SciPy sparse format, kept as CSR."""

    def __init__(self, M: Any, name: str = "M") -> None:
        check_square(M.shape, name)
        self.M = A = finite_csr(M, name)
        self.dtype = A.dtype.type
        self.n = A.shape[0]
        transpose = A.T.tocsr()
        same_pattern = np.array_equal(A.indptr, transpose.indptr) and np.array_equal(A.indices, transpose.indices)
        if not (same_pattern and np.array_equal(A.data, transpose.data)):
            difference = (A - transpose).tocoo()
            _raise_if_asymmetric(
                np.abs(difference.data), difference.row, difference.col, _largest(A.data), self.dtype, A, name
            )
        self.squared_norm = self._sum_of_squares(A.data)

    @cached_property
    def _pieces(self) -> NDArray[np.int64]:
        from quartic.losses.factor.numba import row_pieces

        return row_pieces(self.M.indptr)

    def product(self, X: Array, out: Array | None = None) -> Array:
        """Return M X, in ranges of rows that several threads share."""
        from quartic.losses.factor.numba import WIDEST_RANK, sparse_product

        M, rank = self.M, X.shape[1]
        small = M.nnz * rank < _SMALL
        if small or X.dtype != M.dtype or rank > WIDEST_RANK or not X.flags.c_contiguous:
            return np.ascontiguousarray(M @ X)
        Y = np.empty_like(X) if out is None else out
        sparse_product(M.indptr, M.indices, M.data, self._pieces, X, Y)
        return Y

    def rough(self) -> Matrix:
        if self.M.nnz < _MANY or not 1e-20 < self.squared_norm < 1e20:
            return self
        twin = copy.copy(self)
        twin.dtype, twin.M = np.float32, self.with_entries(self.M.data.astype(np.float32))
        return twin

    def entries(self) -> Array:
        return self.M.data

    def places(self) -> tuple[Any, Any]:
        return np.repeat(np.arange(self.n), np.diff(self.M.indptr)), self.M.indices

    def with_entries(self, entries: Array) -> sp.csr_array:
        return sp.csr_array((entries, self.M.indices, self.M.indptr), shape=self.M.shape)


class OperatorMatrix(Matrix):
    """A SciPy LinearOperator. Its first product shows if it is not symmetric, or its squared norm too small."""

    shows_entries = False

    def __init__(self, M: LinearOperator, squared_norm: float | None) -> None:
        check_square(M.shape)
        if squared_norm is None:
            raise ValueError(
                "a LinearOperator shows no entries: give squared_norm=, the squared Frobenius norm of M "
                "(the objective and the kernels' constants need it)"
            )
        check_number(squared_norm, "squared_norm", zero=True)
        self.M = M
        self.n = M.shape[0]
        check_real(np.zeros(0, M.dtype), "M")
        self.dtype = working_dtype(np.dtype(M.dtype))
        self.squared_norm = float(squared_norm)
        self._looked_over = False
        if squared_norm == 0:
            self.product(np.cos(np.arange(self.n, dtype=self.dtype))[:, None])

    def _look_over(self, X: Array, Y: Array) -> None:
        """Raise where Y = MX shows that squared_norm is too small, or (from two columns on) that M is not symmetric."""
        if norm(Y) > (1 + _TRUSTED) * math.sqrt(self.squared_norm) * norm(X):
            raise ValueError(f"squared_norm = {self.squared_norm:g} is too small for ‖M‖², as a product with M shows")
        K = X.T @ Y
        if norm(K - K.T) > _TRUSTED * norm(X) * norm(Y):
            raise ValueError(
                "M must be symmetric, but ⟨v, Mw⟩ and ⟨Mv, w⟩ differ; if that is not a mistake, pass (M + M.T) / 2"
            )
        self._looked_over = X.shape[1] > 1

    def product(self, X: Array, out: Array | None = None) -> Array:
        Y = self.M.matvec(X[:, 0])[:, None] if X.shape[1] == 1 else self.M.matmat(X)
        Y = np.ascontiguousarray(Y, dtype=X.dtype)
        if not self._looked_over:
            self._look_over(X, Y)
        return Y

    def total(self) -> tuple[float, int]:
        product = self.product(np.ones((self.n, 1), dtype=self.dtype))
        check_finite(product, "the product of M with ones")
        return float(np.sum(product, dtype=np.float64)), 1


def as_matrix(M: Any, squared_norm: float | None = None, name: str = "M") -> Matrix:
    """Return M as a `Matrix`, or raise an error that says what is wrong with it."""
    if isinstance(M, Matrix):
        return M
    if isinstance(M, LinearOperator):
        return OperatorMatrix(M, squared_norm)
    if is_torch(M):
        from quartic.losses.factor.torch_matrix import as_torch_matrix

        entries = M.numel() if M.layout == sys.modules["torch"].strided else M._nnz()
        with space_of(M).errors(f"{name} with {M.shape[0]} rows and {entries} entries", 12.0 * entries):
            return as_torch_matrix(M, name)
    if is_dask_array(M):
        from quartic.losses.blocks.dask_matrix import DaskMatrix

        return DaskMatrix(M)
    return SparseMatrix(M, name) if sp.issparse(M) else DenseMatrix(M, name)


def check_square(shape: tuple[int, ...], name: str = "M") -> None:
    """Raise unless this is the shape of a square matrix with a row."""
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ValueError(
            f"{name} must be a square symmetric matrix, got shape {shape}; "
            "for features (rows are samples) build a graph first: quartic.graphs.similarity(X)"
        )
    if shape[0] == 0:
        raise ValueError(f"{name} is empty (0 × 0); it needs at least one row")


def _largest(values: Array) -> float:
    return float(np.abs(values).max(initial=0.0))


def _raise_if_asymmetric(gap: Array, rows: Any, cols: Any, largest: float, dtype: Any, M: Any, name: str = "M") -> None:
    worst = int(gap.argmax()) if len(gap) else 0
    if len(gap) and gap[worst] > ASYMMETRY[dtype] * largest:
        i, j = int(rows[worst]), int(cols[worst])
        refuse(i, j, M[i, j], M[j, i], name)


def refuse(i: int, j: int, there: Any, back: Any, name: str, where: str = "") -> None:
    """Raise the error of two entries that should be equal."""
    raise ValueError(
        f"{name} must be symmetric{where}, but {name}[{i}, {j}] = {there} and {name}[{j}, {i}] = {back}; "
        f"if that is not a mistake, pass ({name} + {name}.T) / 2"
    )
