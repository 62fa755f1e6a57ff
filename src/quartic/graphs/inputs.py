"""Graphs of networkx and frames of pandas: converted to matrices, with errors that name the place and the cure."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from quartic.arrays import check_real, finite_matrix, first_not_finite
from quartic.distributed.inputs import is_instance_if_loaded
from quartic.losses.devices import to_scipy

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
    A = read_weights(obj)
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


def read_weights(obj: Any) -> sp.csr_array:
    """Return the matrix of a graph in any common form, directed or not, as a new float64 csr_array."""
    obj = to_scipy(obj)
    if is_graph(obj):
        import networkx

        if len(obj) == 0:
            raise ValueError("the networkx graph has no nodes")
        return sp.csr_array(networkx.to_scipy_sparse_array(obj, dtype=np.float64, weight="weight"), copy=True)
    if is_frame(obj):
        return _from_frame(obj)
    if sp.issparse(obj):
        check_real(obj, "the adjacency matrix")
        if obj.ndim != 2:
            raise ValueError(f"the adjacency matrix must be 2-D, got shape {obj.shape}")
        return sp.csr_array(obj, dtype=np.float64, copy=True)
    return sp.csr_array(finite_matrix(obj, "the adjacency matrix"), dtype=np.float64)


def _in_index_order(frame: Any) -> Any:
    """Return a pandas frame with its columns in the order of its index, where they are the same names, each once."""
    index, columns = frame.index, frame.columns
    same = len(index) == len(columns) and index.is_unique and columns.is_unique and bool(index.isin(columns).all())
    return frame[list(index)] if same and not columns.equals(index) else frame


def _refuse_edge_list(frame: Any) -> None:
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


def _from_frame(frame: Any) -> sp.csr_array:
    import pandas

    frame = matrix_of(frame)
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


def is_graph(X: Any) -> bool:
    """Tell whether X is a networkx graph."""
    return is_instance_if_loaded(X, "networkx", "Graph")


def is_frame(X: Any) -> bool:
    """Tell whether X is a pandas frame."""
    return is_instance_if_loaded(X, "pandas", "DataFrame")


def is_annotated(X: Any) -> bool:
    """Tell whether X is an AnnData object, or like one: observations with names, features and pairwise matrices."""
    return all(hasattr(X, name) for name in ("obs_names", "obsp", "obsm", "X"))


def features_of(X: Any) -> Any:
    """Return the principal components of an AnnData object, or its data where it has none; all else as it is."""
    if not is_annotated(X):
        return X
    return X.obsm.get("X_pca", X.X)


def matrix_of(X: Any) -> Any:
    """Return the adjacency matrix of a graph; a frame with its columns in the order of its index; all else as it is.

    A frame that is an edge list is refused with the cure. Of an AnnData object it is the graph of neighbours.
    """
    if is_graph(X):
        return as_adjacency(X)
    if is_annotated(X):
        if "connectivities" not in X.obsp:
            raise ValueError(
                "the AnnData object has no graph in obsp['connectivities']; make one with scanpy.pp.neighbors, or "
                'choose affinity="self_tuning" for its features'
            )
        return X.obsp["connectivities"]
    if is_frame(X):
        X = _in_index_order(X)
        _refuse_edge_list(X)
    return X


def refuse_words(X: Any) -> None:
    """Raise where a frame has a column of text, and name it."""
    if is_frame(X):
        from pandas.api.types import infer_dtype

        for k, name in enumerate(X.columns):
            if infer_dtype(X.iloc[:, k], skipna=True) == "string":
                raise ValueError(f"column {name!r} of X holds text; leave it out, or make numbers of it")


def refuse_not_finite(given: Any, clean: Any, name: str, cure: str, *, nan: bool = False) -> None:
    """Raise where the matrix made of what the user gave holds NaN (unless allowed) or infinity.

    scikit-learn's own words for it name no row. Those of a frame are named as the frame names them.
    """
    fault = first_not_finite(clean, nan=nan)
    if fault is None:
        return
    row, column, value = fault
    place = f"{name}[{row}, {column}]"
    if is_frame(given):
        place += f" (row {given.index[row]!r}, column {given.columns[column]!r})"
    # spelled as scikit-learn spells it: its checks of estimators look for the word
    shown = "NaN" if math.isnan(value) else f"{value:g}"
    raise ValueError(f"{name} must be finite, but {place} is {shown}; {cure.format(row=row)}")


def names_of(X: Any, n: int) -> NDArray[Any]:
    """Return the nodes of a graph, the index of a frame, the observations of AnnData, or 0 … n − 1."""
    if is_graph(X):
        return np.fromiter(X.nodes, dtype=object, count=n)  # nodes may be tuples, which are no axis
    if is_annotated(X):
        return np.asarray(X.obs_names)
    return np.asarray(X.index) if is_frame(X) else np.arange(n)
