"""A graph as people have it, as a sparse matrix."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import scipy.sparse as sp

from quartic.arrays import finite_matrix, first_not_finite

_ENDS = (("source", "target"), ("from", "to"), ("src", "dst"), ("i", "j"), ("u", "v"))


def as_adjacency(obj: Any) -> sp.csr_array:
    """Return the symmetric weighted adjacency matrix of a graph in any common form.

    Parameters
    ----------
    obj : networkx graph, pandas frame, array or sparse matrix
        A networkx graph gives its edge attribute ``weight`` (1 where it has none), nodes in the graph's own order. A
        frame whose columns are its index in another order is brought into the order of the index.

    Returns
    -------
    csr_array (n, n)
        A new float64 matrix, exactly symmetric, sorted indices, no stored zeros.

    Raises
    ------
    ValueError
        If the matrix is not square, not finite or not symmetric; the message names the first entry at fault.
    TypeError
        If ``obj`` is none of these.

    Examples
    --------
    >>> from quartic.graphs import as_adjacency
    >>> as_adjacency([[0, 2], [2, 0]]).toarray()
    array([[0., 2.],
           [2., 0.]])
    """
    A = _matrix(obj)
    if A.shape[0] != A.shape[1]:
        raise ValueError(
            f"an adjacency matrix must be square, got shape {A.shape}; for features, use graphs.similarity first"
        )
    A.sum_duplicates()
    A.eliminate_zeros()
    fault = first_not_finite(A)
    if fault is not None:
        row, column, value = fault
        raise ValueError(
            f"the adjacency matrix must be finite, but entry ({row}, {column}) is {value}; put 0 where there is no edge"
        )
    return _symmetric(A)


def _matrix(obj: Any) -> sp.csr_array:
    networkx = sys.modules.get("networkx")  # a graph of networkx cannot exist before its module does
    if networkx is not None and isinstance(obj, networkx.Graph):
        if len(obj) == 0:
            raise ValueError("the networkx graph has no nodes")
        return sp.csr_array(networkx.to_scipy_sparse_array(obj, dtype=np.float64, weight="weight"), copy=True)
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(obj, pandas.DataFrame):
        return _from_frame(obj, pandas)
    if sp.issparse(obj):
        if obj.dtype.kind not in "fiub":
            raise TypeError(f"the adjacency matrix must be real numbers, got dtype {obj.dtype}")
        if obj.ndim != 2:
            raise ValueError(f"the adjacency matrix must be 2-D, got shape {obj.shape}")
        return sp.csr_array(obj, dtype=np.float64, copy=True)
    return sp.csr_array(finite_matrix(obj, "the adjacency matrix"), dtype=np.float64)


def in_index_order(frame: Any) -> Any:
    """Return a pandas frame with its columns in the order of its index, where they are the same names, each once."""
    index, columns = frame.index, frame.columns
    same = len(index) == len(columns) and index.is_unique and columns.is_unique and bool(index.isin(columns).all())
    return frame[list(index)] if same and not columns.equals(index) else frame


def refuse_edge_list(frame: Any) -> None:
    """Raise where a pandas frame seems to be an edge list: two columns of words, or two called so, and few others."""
    from pandas.api.types import infer_dtype

    n, columns = len(frame), list(frame.columns)
    if n == len(columns) or not 2 <= len(columns) <= 10:
        return
    words = [name for k, name in enumerate(columns) if infer_dtype(frame.iloc[:, k], skipna=True) == "string"]
    called = {str(name).lower(): name for name in columns}
    ends = next(([called[a], called[b]] for a, b in _ENDS if {a, b} <= set(called)), words[:2])
    if len(ends) == 2:
        weight = next((name for name in columns if name not in ends and name not in words), None)
        renamed = "X" if weight in (None, "weight") else f"X.rename(columns={{{weight!r}: 'weight'}})"
        arguments = ", ".join([renamed, *map(repr, ends), *([] if weight is None else ["'weight'"])])
        raise ValueError(
            f"a frame of {n} rows with the columns {', '.join(map(repr, columns))} seems to be an edge list, not a "
            f"matrix; pass the graph: networkx.from_pandas_edgelist({arguments})"
        )


def _from_frame(frame: Any, pandas: Any) -> sp.csr_array:
    frame = in_index_order(frame)
    refuse_edge_list(frame)
    if len(frame.columns) and all(isinstance(kind, pandas.SparseDtype) for kind in frame.dtypes):
        return sp.csr_array(frame.sparse.to_coo(), dtype=np.float64)
    return sp.csr_array(finite_matrix(frame.to_numpy(), "the adjacency frame"), dtype=np.float64)


def _symmetric(A: sp.csr_array) -> sp.csr_array:
    """Even out round-off between A and Aᵀ; refuse more than that."""
    gap = sp.coo_array(A - A.T)
    gap.eliminate_zeros()
    if gap.nnz == 0:
        A.sort_indices()
        return A
    if abs(gap.data).max() > 1e-10 * abs(A.data).max():
        at = int(np.argmax(abs(gap.data)))
        row, column = int(gap.row[at]), int(gap.col[at])
        raise ValueError(
            f"the graph must be undirected, but the weight of ({row}, {column}) is {A[row, column]:g} and that of "
            f"({column}, {row}) is {A[column, row]:g}; pass (A + A.T) / 2, or G.to_undirected() of a networkx graph"
        )
    A = sp.csr_array((A + A.T) / 2)
    A.sort_indices()
    return A
