"""A semidefinite programme: optimise ⟨C, Y⟩ over Y ⪰ 0 with ⟨A_k, Y⟩ = b_k, as sums over the entries that matter."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator

from quartic.arrays import Array
from quartic.arrays.checks import count

# An operator of at most this size is multiplied out where its entries are needed.
_LARGEST_OPERATOR = 3000
_SENSES = ("=", "<=", ">=")


class LowRank:
    r"""A symmetric matrix :math:`\sum_t w_t u_t u_t^\top` that is never formed.

    Parameters
    ----------
    U : array or sparse matrix (n, k), or (n,)
        Its columns are the u_t.
    weights : array (k,), optional
        The w_t; ones when left out.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.sdp import LowRank
    >>> LowRank(np.ones(3)).U.shape       # the matrix of all ones
    (3, 1)
    """

    def __init__(self, U: Any, weights: Any = None) -> None:
        U = U if sparse.issparse(U) else np.asarray(U, np.float64)
        self.U = sparse.csc_array(U[:, None] if U.ndim == 1 else U, dtype=np.float64)
        self.weights = np.ones(self.U.shape[1]) if weights is None else np.asarray(weights, np.float64)
        if self.weights.shape != (self.U.shape[1],):
            raise ValueError(f"LowRank has {self.U.shape[1]} vectors and weights of shape {self.weights.shape}")
        if not (np.isfinite(self.U.data).all() and np.isfinite(self.weights).all()):
            raise ValueError("LowRank: vectors and weights must be finite")


class _Entries:
    """The terms of all matrices: entries (matrix, row, column, value), vectors and operators; matrix 0 is C."""

    def __init__(self) -> None:
        self.entries: list[tuple[Any, Any, Any, Any]] = []
        self.vectors: list[tuple[int, int, Any, float]] = []
        self.operators: list[tuple[int, int, Any]] = []

    def add(self, matrix: Any, row: Any, column: Any, value: Any) -> None:
        """Add entries of one matrix, or of the matrix of each."""
        self.entries.append((np.broadcast_to(matrix, np.shape(row)), row, column, value))


class SDP:
    r"""Minimise (or maximise) ⟨C, Y⟩ over symmetric Y ⪰ 0 with ⟨A_k, Y⟩ = b_k.

    Y may consist of several semidefinite blocks and of diagonal ones (linear programming). Only the entries of Y that
    some matrix has are ever looked at.

    Parameters
    ----------
    C : matrix, or a list with one for each block
        A symmetric NumPy or SciPy sparse matrix; a list of ``(i, j, value)``, each entry on or above (or below) the
        diagonal once, standing for both; a `LowRank`; a ``scipy.sparse.linalg.LinearOperator``; None or 0 where the
        matrix is zero. For a diagonal block a vector will do.
    A : list of m such matrices (or lists of blocks)
        The constraints.
    b : array (m,)
        Their right-hand sides.
    blocks : list of int, optional
        The sizes of the blocks, −n for a diagonal block of n nonnegative numbers, as in SDPA files. A single block of
        C's size when left out; C and each A_k are then matrices, not lists of blocks.
    maximize : bool, default=False
        Whether ⟨C, Y⟩ is to be as large as can be.
    senses : list of {"=", "<=", ">="}, optional
        What stands between ⟨A_k, Y⟩ and b_k. Inequalities get slack variables, in a diagonal block added at the end.
    trace_bound : float, optional
        A number that tr Y (slacks left out) is known not to exceed. It is used for the bound of the result where none
        follows from the constraints.

    Examples
    --------
    The MaxCut relaxation of a triangle is 9/4:

    >>> import numpy as np
    >>> from quartic.sdp import SDP, solve_sdp
    >>> L = 3 * np.eye(3) - np.ones((3, 3))
    >>> result = solve_sdp(SDP(L / 4, [[(i, i, 1.0)] for i in range(3)], np.ones(3), maximize=True))
    >>> round(result.primal, 5)
    2.25
    """

    def __init__(
        self,
        C: Any,
        A: Sequence[Any],
        b: Any,
        *,
        blocks: Sequence[int] | None = None,
        maximize: bool = False,
        senses: Sequence[str] | None = None,
        trace_bound: float | None = None,
    ) -> None:
        b = np.asarray(b, np.float64)
        if b.ndim != 1 or not np.isfinite(b).all():
            raise ValueError(f"b must be a vector of finite numbers, got shape {b.shape}")
        if len(A) != len(b):
            raise ValueError(f"there are {len(A)} matrices A and {len(b)} right-hand sides b")
        single = blocks is None
        sizes = [_size(C, A)] if blocks is None else [int(size) for size in blocks]
        if not sizes or 0 in sizes:
            raise ValueError(f"blocks must be sizes other than 0, negative for a diagonal block, got {blocks!r}")
        found = _Entries()
        for k, item in enumerate([C, *A]):
            name = "C" if k == 0 else f"A[{k - 1}]"
            parts = [item] if single else _parts(item, len(sizes), name)
            for block, part in enumerate(parts):
                start = int(_offsets(sizes)[block])
                _gather(found, k, start, part, sizes[block], name if single else f"{name}[{block}]")
        if senses is not None:
            _add_slacks(found, sizes, senses, len(b))
        self._assemble(found, sizes, b, maximize, trace_bound)

    @classmethod
    def from_entries(
        cls, sizes: Sequence[int], b: Array, matrix: Any, block: Any, row: Any, column: Any, value: Any, maximize: bool
    ) -> SDP:
        """Return the programme of entries counted from 0, each on or above the diagonal and once; matrix 0 is C.

        A dense matrix of rank one, such as all ones, is found out and kept as a vector.
        """
        found = _Entries()
        key = np.asarray(matrix) * len(sizes) + block
        order = np.argsort(key, kind="stable")
        starts = np.flatnonzero(np.r_[True, np.diff(key[order]) != 0])
        keep = np.ones(len(key), bool)
        for first, last in zip(starts, np.r_[starts[1:], len(key)], strict=True) if len(key) else ():
            n = int(sizes[block[order[first]]])
            if n < 20 or last - first != n * (n + 1) // 2:
                continue
            which = order[first:last]
            u = _rank_one(n, row[which], column[which], value[which])
            if u is not None:
                keep[which] = False
                k, start = int(matrix[which[0]]), int(_offsets(sizes)[block[which[0]]])
                _gather(found, k, start, LowRank(u[0], [u[1]]), n, "")
        start = _offsets(sizes)[block[keep]]
        found.add(matrix[keep], start + row[keep], start + column[keep], value[keep])
        problem = cls.__new__(cls)
        problem._assemble(found, list(sizes), np.asarray(b, np.float64), maximize, None)
        return problem

    def _assemble(self, found: _Entries, sizes: list[int], b: Array, maximize: bool, trace_bound: float | None) -> None:
        self.blocks, self.b, self.maximize = tuple(sizes), b, bool(maximize)
        self.trace_bound = None if trace_bound is None else float(trace_bound)
        self.offsets = _offsets(sizes)
        self.n_rows, self.m = int(self.offsets[-1]), len(b)
        nothing = np.zeros(0, np.int64)
        k, i, j, value = (
            np.concatenate(part) for part in zip((nothing, nothing, nothing, np.zeros(0)), *found.entries, strict=True)
        )
        keys, place = np.unique(np.minimum(i, j) * self.n_rows + np.maximum(i, j), return_inverse=True)
        self.i, self.j = keys // self.n_rows, keys % self.n_rows
        value = np.where(i == j, value, 2 * value)  # an entry off the diagonal stands for two
        columns = [_padded(u, first, self.n_rows) for _, first, u, _ in found.vectors]
        self.B = sparse.csc_array(sparse.hstack(columns) if columns else sparse.csc_array((self.n_rows, 0)))
        self.operators = [(first, first + operator.shape[0], operator) for _, first, operator in found.operators]
        others = [(matrix, weight) for matrix, _, _, weight in found.vectors] + [
            (k, 1.0) for k, _, _ in found.operators
        ]
        terms = len(keys) + len(others)
        k = np.r_[k, np.array([matrix for matrix, _ in others], np.int64)]
        value = np.r_[value, np.array([weight for _, weight in others], np.float64)]
        full = sparse.csr_array((value, (k, np.r_[place, len(keys) : terms])), shape=(self.m + 1, terms))
        full.sum_duplicates()
        full.eliminate_zeros()
        self.c = full[[0]].toarray()[0] * (-1.0 if maximize else 1.0)
        self.S = sparse.csr_array(full[1:])

    @property
    def sign(self) -> float:
        """What the objective is multiplied by to be minimised."""
        return -1.0 if self.maximize else 1.0

    @property
    def n_pairs(self) -> int:
        """How many entries of Y are looked at."""
        return len(self.i)

    @cached_property
    def components(self) -> Array:
        """Which rows of Y belong together: Y may be taken as zero between rows that no matrix connects."""
        i, j = [self.i], [self.j]
        for t in range(self.B.shape[1]):
            rows = self.B.indices[self.B.indptr[t] : self.B.indptr[t + 1]]
            i.append(rows[:-1])
            j.append(rows[1:])
        for first, last, _ in self.operators:
            i.append(np.arange(first, last - 1))
            j.append(np.arange(first + 1, last))
        a, b = np.concatenate(i), np.concatenate(j)
        graph = sparse.coo_array((np.ones(len(a)), (a, b)), shape=(self.n_rows, self.n_rows))
        return connected_components(graph, directed=False)[1]

    @cached_property
    def rows_of_components(self) -> list[Array]:
        """The rows of each component."""
        order = np.argsort(self.components, kind="stable")
        return np.split(order, np.cumsum(np.bincount(self.components))[:-1])

    @cached_property
    def facing(self) -> Array:
        """Constraints ⟨A_k, Y⟩ = 0 on entries with A_k positive semidefinite: they say no less than A_k Y = 0."""
        diagonal, single = self.i == self.j, np.bincount(self.components) == 1
        found, S = [], self.S[:, : self.n_pairs]
        of_entries = np.diff(S.indptr) == np.diff(self.S.indptr)
        for k in np.flatnonzero((self.b == 0) & of_entries & (abs(S) @ diagonal > 0)):
            p, a = S.indices[S.indptr[k] : S.indptr[k + 1]], S.data[S.indptr[k] : S.indptr[k + 1]]
            rows, place = np.unique(np.r_[self.i[p], self.j[p]], return_inverse=True)
            n, full = len(rows), len(rows) == np.count_nonzero(diagonal[p])  # else indefinite
            if full and n <= _LARGEST_OPERATOR and not single[self.components[rows]].any():
                values = np.linalg.eigvalsh(symmetric(n, place[: len(p)], place[len(p) :], a))
                found += [k] if values[0] >= -1e-12 * values[-1] else []
        return np.array(found, np.int64)

    @cached_property
    def faces(self) -> dict[int, Array]:
        """Orthonormal columns U with UᵀY = 0 for every feasible Y, of the components that have such.

        The dual of such a programme has no solution, its multipliers go to infinity; on the face UᵀY = 0 it has.
        """
        S = abs(self.S[self.facing]).max(axis=1).toarray().ravel() ** -1.0 @ self.S[self.facing]
        owner, faces = self.components[self.i], dict[int, Array]()
        entries = np.flatnonzero(S[: self.n_pairs])
        for component in np.unique(owner[entries]):
            rows, here = self.rows_of_components[component], entries[owner[entries] == component]
            touched, place = np.unique(np.r_[self.i[here], self.j[here]], return_inverse=True)
            values, vectors = np.linalg.eigh(symmetric(len(touched), place[: len(here)], place[len(here) :], S[here]))
            positive = vectors[:, values > 1e-10 * values[-1]]
            U = faces[int(component)] = np.zeros((len(rows), positive.shape[1]))
            U[np.searchsorted(rows, touched)] = positive
        return faces

    def explicit(self) -> SDP:
        """Return the same programme with every vector and operator multiplied out."""
        if not self.B.shape[1] and not self.operators:
            return self
        P = self.n_pairs
        found = _Entries()
        full = sparse.coo_array(sparse.vstack([sparse.csr_array(self.c[None] * self.sign), self.S])[:, :P])
        k, p = full.coords
        found.add(k, self.i[p], self.j[p], np.where(self.i[p] == self.j[p], full.data, full.data / 2))
        extra = sparse.csc_array(sparse.vstack([sparse.csr_array(self.c[None] * self.sign), self.S])[:, P:])
        for t in range(extra.shape[1]):
            if t < self.B.shape[1]:
                rows = self.B.indices[self.B.indptr[t] : self.B.indptr[t + 1]]
                u = self.B.data[self.B.indptr[t] : self.B.indptr[t + 1]]
                first, M = 0, np.outer(u, u)
            else:
                first, last, operator = self.operators[t - self.B.shape[1]]
                rows, M = np.arange(first, last), _formed(operator)
            a, b = np.triu_indices(len(rows))
            for q in range(extra.indptr[t], extra.indptr[t + 1]):
                found.add(extra.indices[q], rows[a], rows[b], extra.data[q] * M[a, b])
        problem = SDP.__new__(SDP)
        problem._assemble(found, list(self.blocks), self.b, self.maximize, self.trace_bound)
        return problem

    def split(self, X: Array) -> list[Array]:
        """Return the rows of X by blocks; of a diagonal block the squared lengths, its numbers."""
        parts = [X[first:last] for first, last in zip(self.offsets[:-1], self.offsets[1:], strict=True)]
        return [
            part if size > 0 else np.einsum("ij,ij->i", part, part)
            for part, size in zip(parts, self.blocks, strict=True)
        ]

    def __repr__(self) -> str:
        verb = "maximise" if self.maximize else "minimise"
        blocks = list(self.blocks)
        return f"SDP({verb}, {count(self.m, 'constraint')}, blocks {blocks}, {self.n_pairs} entries)"


def _offsets(sizes: Sequence[int]) -> Array:
    return np.r_[0, np.cumsum(np.abs(np.asarray(sizes, np.int64)))]


def _size(C: Any, A: Sequence[Any]) -> int:
    """Return the size of the only block, which any of the matrices tells."""
    listed = 0
    for item in (C, *A):
        shape = item.U.shape if isinstance(item, LowRank) else getattr(item, "shape", None)
        if shape:
            return int(shape[0])
        if isinstance(item, list | tuple) and len(item) and np.ndim(item[0]) == 1:
            listed = max(listed, 1 + int(max(max(entry[:2]) for entry in item if len(entry))))
    if not listed:
        raise ValueError("C and A do not tell the size of Y; give blocks=[n]")
    return listed


def _parts(item: Any, n_blocks: int, name: str) -> Sequence[Any]:
    if item is None or (np.isscalar(item) and item == 0):
        return [None] * n_blocks
    if not isinstance(item, list | tuple) or len(item) != n_blocks:
        raise ValueError(f"{name} must be a list with one matrix for each of the {n_blocks} blocks")
    return item


def _gather(found: _Entries, k: int, start: int, part: Any, size: int, name: str) -> None:
    """Add the matrix of one block, whose rows begin at ``start``, to the entries."""
    n = abs(size)
    if part is None or (np.isscalar(part) and part == 0):
        return
    if isinstance(part, LowRank):
        _check_shape(part.U.shape[0], n, name)
        if size < 0:
            raise ValueError(f"{name} is LowRank, its block is diagonal; give a vector")
        for t, weight in enumerate(part.weights):
            found.vectors.append((k, start, part.U[:, [t]], float(weight)))
        return
    if isinstance(part, LinearOperator):
        _check_shape(part.shape[0], n, name)
        found.operators.append((k, start, part))
        return
    if isinstance(part, list | tuple) and (not part or np.ndim(part[0]) == 1):
        row, column, value = _listed(part, n, name)
    else:
        row, column, value = _stored(part, size, name)
    if size < 0 and (row != column).any():
        raise ValueError(f"{name} has an entry off the diagonal, its block is diagonal")
    found.add(k, start + row, start + column, value)


def _listed(part: Sequence[Any], n: int, name: str) -> tuple[Any, Any, Array]:
    """Return a list of (i, j, value) as arrays."""
    table = np.array([entry if len(entry) == 3 else [-1.5] * 3 for entry in part], np.float64).reshape(-1, 3)
    row, column = table[:, 0].astype(np.int64), table[:, 1].astype(np.int64)
    if not np.isfinite(table).all() or (row != table[:, 0]).any() or (column != table[:, 1]).any():
        raise ValueError(f"{name} must list (i, j, value), i and j whole, value finite; give a matrix as a NumPy array")
    if len(row) and not 0 <= min(row.min(), column.min()) <= max(row.max(), column.max()) < n:
        raise ValueError(f"{name} has an index outside 0 … {n - 1}")
    keys = np.minimum(row, column) * n + np.maximum(row, column)
    if len(np.unique(keys)) < len(keys):
        raise ValueError(f"{name} lists an entry twice; (i, j, value) stands for (j, i) too")
    return row, column, table[:, 2]


def _stored(part: Any, size: int, name: str) -> tuple[Any, Any, Array]:
    """Return the upper triangle of a symmetric matrix as arrays."""
    n = abs(size)
    if not sparse.issparse(part):
        part = np.asarray(part, np.float64)
        if size < 0 and part.ndim == 1:
            _check_shape(len(part), n, name)
            part = sparse.diags_array(part)
        elif part.ndim != 2:
            raise ValueError(f"{name} must be a matrix of shape {(n, n)}, got shape {part.shape}")
    if part.shape != (n, n):
        raise ValueError(f"{name} must have the shape {(n, n)}, got {part.shape}")
    M = sparse.csr_array(part, dtype=np.float64)
    if not np.isfinite(M.data).all():
        raise ValueError(f"{name} must have finite entries")
    skew = abs(M - M.T)
    if skew.nnz and skew.max() > 1e-10 * abs(M).max():
        raise ValueError(f"{name} must be symmetric; (M + M.T) / 2 has the same ⟨M, Y⟩")
    upper = sparse.coo_array(sparse.triu((M + M.T) / 2))
    return upper.coords[0].astype(np.int64), upper.coords[1].astype(np.int64), upper.data


def _check_shape(given: int, n: int, name: str) -> None:
    if given != n:
        raise ValueError(f"{name} has {given} rows, its block {n}")


def _add_slacks(found: _Entries, sizes: list[int], senses: Sequence[str], m: int) -> None:
    """Turn inequalities into equations, with a slack each in a diagonal block at the end."""
    if len(senses) != m or any(sense not in _SENSES for sense in senses):
        raise ValueError(f"senses must be {m} of '=', '<=' and '>=', got {list(senses)!r}")
    which = np.flatnonzero([sense != "=" for sense in senses])
    if len(which):
        rows = _offsets(sizes)[-1] + np.arange(len(which))
        sizes.append(-len(which))
        found.add(1 + which, rows, rows, np.array([1.0 if senses[k] == "<=" else -1.0 for k in which.tolist()]))


def _rank_one(n: int, row: Array, column: Array, value: Array) -> tuple[Array, float] | None:
    """Return u and ±1 where these entries, a whole upper triangle, are those of ±uuᵀ."""
    row, column = np.minimum(row, column), np.maximum(row, column)
    diagonal = np.zeros(n)
    diagonal[row[row == column]] = value[row == column]
    pivot = int(np.argmax(np.abs(diagonal)))
    if diagonal[pivot] == 0:
        return None
    u = np.zeros(n)
    u[np.where(row == pivot, column, row)[(row == pivot) | (column == pivot)]] = value[
        (row == pivot) | (column == pivot)
    ]
    sign = float(np.sign(diagonal[pivot]))
    u /= sign * np.sqrt(abs(diagonal[pivot]))
    same = np.abs(sign * u[row] * u[column] - value).max() <= 1e-14 * np.abs(value).max()
    return (u, sign) if same else None


def _padded(u: Any, first: int, n_rows: int) -> Any:
    """Return a sparse column with zeros above and below."""
    u = sparse.coo_array(u)
    rows = first + u.coords[0]
    return sparse.coo_array((u.data, (rows, np.zeros(len(rows), np.int64))), shape=(n_rows, 1))


def _formed(operator: Any) -> Array:
    n = operator.shape[0]
    if n > _LARGEST_OPERATOR:
        raise ValueError(f"an operator with {n} rows is not multiplied out; choose method='low-rank'")
    M = np.asarray(operator @ np.eye(n))
    return (M + M.T) / 2


def symmetric(n: int, i: Any, j: Any, v: Array) -> Array:
    """Return the symmetric matrix M with ⟨M, Y⟩ = Σ v_p Y_ij of entries on one side of its diagonal."""
    M: Array = np.zeros((n, n))
    M[i, j] = v / 2
    return M + M.T
