"""The similarity matrix of what `SymNMF.fit` is given: a matrix, graph or frame, features, a tensor, Dask's blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse import issparse
from scipy.sparse.linalg import LinearOperator
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from quartic import graphs
from quartic.arrays import is_torch
from quartic.distributed.inputs import is_dask_array
from quartic.graphs.inputs import is_graph, matrix_of, refuse_not_finite, refuse_words
from quartic.graphs.normalization import choose_normalization
from quartic.losses.blocks.dask_matrix import DaskMatrix
from quartic.losses.devices import moved, to_scipy

if TYPE_CHECKING:
    from quartic.clustering.symnmf import SymNMF

_CURES = {
    "precomputed": "put 0 where there is no similarity; where one is unknown, pass weights= that are 0 there",
    "features": "fill it in (sklearn.impute), or leave row {row} out",
}


def similarity_of(model: SymNMF, X: Any, known: bool, device: Any) -> Any:
    """Return M, the similarity matrix of what the model's ``fit`` was given; where not all is known it may hold NaN.

    The model learns the number and the names of the columns, as scikit-learn has it.
    """
    if isinstance(X, LinearOperator):
        raise TypeError("SymNMF needs the entries of M; for a LinearOperator use quartic.minimize")
    precomputed = model.affinity == "precomputed"
    if not (precomputed and known) and model.normalize not in (None, "auto"):
        why = f"affinity={model.affinity!r} makes a normalised one" if known else "with weights= all of it is not known"
        raise ValueError(f'normalize={model.normalize!r} is for a graph handed in, but {why}; leave it at "auto"')
    model.normalize_, model._graph = None, None
    if is_dask_array(X) or isinstance(X, DaskMatrix):
        return _in_blocks(model, X, precomputed, known)
    if is_graph(X) and not precomputed:
        raise ValueError(f'a networkx graph has no features for affinity={model.affinity!r}; use "precomputed"')
    if is_torch(X):
        return _of_tensor(model, X)
    if not precomputed:
        refuse_words(X)
    given = matrix_of(X) if precomputed else X
    data = validate_data(
        model,
        given,
        accept_sparse="csr",
        dtype=(np.float64, np.float32),
        ensure_min_samples=2,
        ensure_all_finite=False,
        order="C",
    )
    if known or not precomputed:
        refuse_not_finite(given, data, "X", _CURES["precomputed" if precomputed else "features"])
    if precomputed:
        if data.shape[0] != data.shape[1]:
            raise ValueError(
                f"a similarity matrix must be square, but X has the shape {data.shape}; for features choose "
                'affinity="self_tuning", or affinity="cosine" for documents'
            )
        if known:
            _refuse_negative(data)
        return _normalized(model, data, known)
    if callable(model.affinity):
        return model.affinity(data)
    if device is not None and not issparse(data):
        data = moved(data, device)
    return graphs.similarity(data, kind=model.affinity, n_neighbors=model.n_neighbors)  # type: ignore[arg-type]


def similarity_to_fitted(model: SymNMF, X: Any) -> Any:
    """Return the similarities (m, n) of what is new to the n nodes the model was fitted to."""
    if is_dask_array(X) or is_dask_array(model._features) or isinstance(X, DaskMatrix):
        raise TypeError("score is for data in memory, but these are in Dask's blocks; pass rows of NumPy or SciPy")
    old, new = (to_scipy(part) if is_torch(part) else part for part in (model._features, X))
    new = validate_data(model, new, accept_sparse="csr", dtype=(np.float64, np.float32), reset=False)
    if model.affinity == "precomputed":
        return new
    old = check_array(old, accept_sparse="csr", dtype=(np.float64, np.float32))
    both = sp.vstack([old, new], format="csr") if issparse(new) or issparse(old) else np.vstack([old, new])
    if callable(model.affinity):
        M = model.affinity(both)
    else:
        M = graphs.similarity(both, kind=model.affinity, n_neighbors=model.n_neighbors)  # type: ignore[arg-type]
    n = old.shape[0]
    return (sp.csr_array(M) if issparse(M) else np.asarray(M))[n:, :n]


def _in_blocks(model: SymNMF, X: Any, precomputed: bool, known: bool) -> Any:
    """Return M of a Dask array, which no check of scikit-learn may bring here."""
    if not known:
        raise TypeError("weights are for matrices in memory, but X is in Dask's blocks; leave weights out")
    model.n_features_in_ = X.n if isinstance(X, DaskMatrix) else int(X.shape[1])
    if precomputed:
        blocks = X.M if isinstance(X, DaskMatrix) else X
        M = graphs.normalize_graph(blocks, model.normalize)
        if M is blocks:
            return X if isinstance(X, DaskMatrix) else DaskMatrix(X)
        model.normalize_ = "regularized" if model.normalize == "auto" else model.normalize
        return DaskMatrix(M)
    if callable(model.affinity):
        return model.affinity(X)
    return DaskMatrix(graphs.similarity(X, kind=model.affinity, n_neighbors=model.n_neighbors))  # type: ignore[arg-type]


def _of_tensor(model: SymNMF, X: Any) -> Any:
    """Return M of a tensor, on its device; what is wrong with it the loss and the graph say."""
    if X.ndim != 2 or X.shape[0] < 2:
        raise ValueError(f"X must have two dimensions and two rows at least, got shape {tuple(X.shape)}")
    model.n_features_in_ = X.shape[1]
    if model.affinity == "precomputed":
        data = to_scipy(X)
        M = _normalized(model, data, True)
        return X if M is data else moved(M, X.device)
    if callable(model.affinity):
        return model.affinity(X)
    return graphs.similarity(X, kind=model.affinity, n_neighbors=model.n_neighbors)  # type: ignore[arg-type]


def _normalized(model: SymNMF, data: Any, known: bool) -> Any:
    """Return the matrix to factorise of the graph handed in, of its type, and remember the graph for what comes later."""
    if model.normalize is None or not known:
        return data
    try:
        A = graphs.as_adjacency(data)
    except ValueError:
        if model.normalize != "auto":
            raise
        return data  # what is wrong with a matrix that is no graph, the loss says
    kind = choose_normalization(A) if model.normalize == "auto" else model.normalize
    if kind is None:
        return data
    model.normalize_, model._graph = kind, A
    M = graphs.normalize_graph(A, kind).astype(data.dtype)
    return M if issparse(data) or kind == "walks" else M.toarray()


def _refuse_negative(M: Any) -> None:
    """Raise where no similarity is positive but some are negative: then X = 0 is the best of all X ≥ 0."""
    if M.size and M.max() <= 0 and M.min() < 0:
        raise ValueError(
            f"X has no positive entry, and its least is {M.min():g}: no two nodes are similar, and nothing can be "
            "clustered. Distances d become similarities by exp(-d**2 / s**2); for features choose another affinity"
        )
