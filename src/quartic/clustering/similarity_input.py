"""The similarity matrix of what `SymNMF.fit` is given: a matrix, graph or frame, features, a tensor, Dask's blocks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse import issparse
from scipy.sparse.linalg import LinearOperator
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from quartic import graphs
from quartic.arrays import Array, is_torch, to_host
from quartic.clustering.placing import place
from quartic.clustering.refinement import BlockModel, Labels
from quartic.distributed.inputs import is_dask_array
from quartic.graphs.inputs import (
    features_of,
    is_annotated,
    is_graph,
    matrix_of,
    refuse_not_finite,
    refuse_path,
    refuse_words,
)
from quartic.graphs.neighbors import inverse_roots
from quartic.graphs.normalization import MOST, choose_for_blocks, choose_normalization, refuse_negative, walk_matrix
from quartic.graphs.similarity import SimilarityGraph, scale_both_sides
from quartic.losses.blocks.dask_matrix import DaskMatrix
from quartic.losses.devices import moved, to_scipy
from quartic.losses.factor.matrix import as_matrix

if TYPE_CHECKING:
    from quartic.clustering.symnmf import SymNMF

_CURES = {
    "precomputed": "put 0 where there is no similarity; where one is unknown, pass weights= that are 0 there",
    "features": "fill it in (sklearn.impute), or leave row {row} out",
}


class Similarity(NamedTuple):
    """A matrix to factorise, the kind that it is of the graph handed in (None: as given), and the graph it is of."""

    matrix: Any
    kind: str | None = None
    graph: Any = None


def affinity_of(affinity: Any, X: Any, known: bool) -> Any:
    """Return what ``affinity="auto"`` is for X: a matrix is square, and all else are features."""
    refuse_path(X)
    if isinstance(X, LinearOperator):
        raise TypeError("SymNMF needs the entries of M; for a LinearOperator use quartic.minimize")
    if affinity != "auto":
        return affinity
    if not known or is_graph(X) or is_annotated(X) or isinstance(X, DaskMatrix):
        return "precomputed"
    given = matrix_of(X)  # an edge list in a frame is refused there
    shape = given.shape if hasattr(given, "shape") else np.asarray(given).shape
    return "self_tuning" if len(shape) == 2 and shape[0] != shape[1] else "precomputed"


def similarity_of(
    model: SymNMF, normalize: str | None, X: Any, known: bool, device: Any, late: Callable[[], bool]
) -> Similarity:
    """Return M, the similarity matrix of what the model's ``fit`` was given; where not all is known it may hold NaN.

    The model learns the number and the names of the columns, as scikit-learn has it. What is only tried is given up
    when it is ``late``.
    """
    precomputed = model._affinity == "precomputed"
    if not (precomputed and known) and normalize not in (None, "auto"):
        why = (
            f"affinity={model._affinity!r} makes a normalised one" if known else "with weights= all of it is not known"
        )
        raise ValueError(f'normalize={normalize!r} is for a graph handed in, but {why}; leave it at "auto"')
    if is_dask_array(X) or isinstance(X, DaskMatrix):
        return _in_blocks(model, normalize, X, precomputed, known)
    if is_graph(X) and not precomputed:
        raise ValueError(f'a networkx graph has no features for affinity={model._affinity!r}; use "precomputed"')
    if is_torch(X):
        return _of_tensor(model, normalize, X)
    given = matrix_of(X) if precomputed else features_of(X)
    refuse_words(given)
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
        return _normalized(normalize, data, known, late)
    if device is None and not callable(model._affinity):
        graph = SimilarityGraph(data, str(model._affinity), model.n_neighbors)
        return Similarity(graphs.normalize(graph.weights), None, graph)
    return Similarity(_of_features(model, data if callable(model._affinity) or issparse(data) else moved(data, device)))


def _of_features(model: SymNMF, X: Any) -> Any:
    if callable(model._affinity):
        return model._affinity(X)
    return graphs.similarity(X, kind=model._affinity, n_neighbors=model.n_neighbors)  # type: ignore[arg-type]


def graph_of_labels(M: Similarity) -> Any:
    """Return the graph in which labels are refined; None where they stay: see ``labels_`` of `SymNMF`."""
    given = M.matrix if M.kind is None else M.graph
    if given is None or is_dask_array(given) or given.shape[0] > MOST:
        return None
    if not (issparse(given) or getattr(given, "is_sparse_csr", False)):  # of a dense matrix some rows tell
        some = given[:: max(1, len(given) // 256)]
        if 2 * int((some != 0).sum()) > math.prod(some.shape):
            return None
    graph = sp.csr_array(to_scipy(given), dtype=np.float64)
    if graph.data.min(initial=0.0) < 0 or 2 * graph.nnz > graph.shape[0] ** 2:
        return None
    return _without_loops(graph)


def _without_loops(A: sp.csr_array) -> sp.csr_array:
    loops = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr)) == A.indices
    return sp.csr_array((np.where(loops, 0.0, A.data), A.indices, A.indptr), shape=A.shape)


def similarity_to_fitted(model: SymNMF, X: Any) -> Any:
    """Return the similarities (m, n) of what is new to the n nodes the model was fitted to, normalised as theirs."""
    return _similarity_of_new(model, _read_new(model, X)[0])


def rows_of(model: SymNMF, X: Any) -> Array:
    """Return the rows of the factor for what is new, and the factor itself where that is what was fitted."""
    new, known = _read_new(model, X)[0], to_host(model.embedding_)
    rows: Array = known.copy() if _is_fitted(model, new) else place(_similarity_of_new(model, new), known)
    return rows


def labels_of(model: SymNMF, X: Any) -> Labels:
    """Return the clusters of what is new: likeliest in the block model where labels were refined, else by its rows."""
    new, among = _read_new(model, X)
    if _is_fitted(model, new):
        return np.array(to_host(model.labels_))
    if model._placement is not None:
        edges = sp.csr_array(new if model._affinity == "precomputed" else _similarity_of_new(model, new))
        refuse_negative(edges)
        placed = model._placement.likeliest(edges)
        if among is None:
            return placed
        fitted = Similarity(model.affinity_matrix_, model.normalize_, model._graph)
        among, known = sp.csr_array(among), np.array(to_host(model.labels_))
        refuse_negative(among)
        whole = sp.block_array([[graph_of_labels(fitted), edges.T], [edges, _without_loops(among)]], format="csr")
        begun = np.append(known, placed)
        blocks = BlockModel(whole, begun, model.n_components, levels=model.normalize_ is not None)
        return blocks.refine().labels[len(known) :]
    labels: Labels = place(_similarity_of_new(model, new), to_host(model.embedding_)).argmax(axis=1)
    return labels


def _is_fitted(model: SymNMF, new: Any) -> bool:
    """Tell whether a graph handed in is the one that was fitted."""
    whole = model._affinity == "precomputed" and new.shape[0] == len(model.embedding_)
    return whole and not (sp.csr_array(new) != sp.csr_array(_old_graph(model))).nnz


def _read_new(model: SymNMF, X: Any) -> tuple[Any, Any]:
    """Return similarities (m, n) or features of what is new, and the similarities (m, m) to each other where given."""
    if any(map(is_dask_array, (X, model._features, model.affinity_matrix_))) or isinstance(X, DaskMatrix):
        raise TypeError("new nodes must be in memory, but these are in Dask's blocks; pass rows of NumPy or SciPy")
    refuse_path(X)
    X = _in_order_of_fit(model, X) if is_graph(X) else X
    new, n, among = to_scipy(X) if is_torch(X) else features_of(X), model.n_features_in_, None
    if model._affinity == "precomputed" and hasattr(new, "shape") and new.shape[1:] == (n + new.shape[0],):
        among, new = check_array(new, accept_sparse="csr")[:, n:], new[:, :n]
    return validate_data(model, new, accept_sparse="csr", dtype=(np.float64, np.float32), reset=False), among


def _in_order_of_fit(model: SymNMF, G: Any) -> sp.csr_array:
    """Return the weights of a networkx graph of the fitted nodes, in their order."""
    names = list(model.node_names_)
    if set(G.nodes) != set(names):
        raise TypeError(
            "a networkx graph must be of the nodes that were fitted; of new nodes pass the weights of their edges to "
            "these, rows (m, n): networkx.to_scipy_sparse_array(G, [*new, *model.node_names_])[:m, m:]"
        )
    import networkx

    return sp.csr_array(networkx.to_scipy_sparse_array(G, names, dtype=np.float64))


def _similarity_of_new(model: SymNMF, new: Any) -> Any:
    if model._affinity == "precomputed":
        return new if model.normalize_ is None else _normalized_rows(model, new)
    if not callable(model._affinity):
        return _similarity_graph(model).rows(new)
    n, M = len(model.embedding_), model._affinity(_old_and_new_features(model, new))
    return (sp.csr_array(M) if issparse(M) else np.asarray(M))[n:, :n]


def add_nodes(model: SymNMF, X: Any) -> tuple[Any, Array]:
    """Return what the model was fitted to with the nodes of its ``partial_fit``, and the rows at which these start."""
    X = to_scipy(X)
    if model._affinity != "precomputed":
        rows = place(similarity_to_fitted(model, X), to_host(model.embedding_))
        return _old_and_new_features(model, X), rows
    n = len(model.embedding_)
    new = check_array(X, accept_sparse="csr", dtype=(np.float64, np.float32))
    if new.shape == (n, n):
        return new, np.empty((0, model.n_components))
    if new.shape[1] != n + new.shape[0]:
        raise ValueError(
            f"X has {new.shape[1]} features, but {type(model).__name__} is expecting {n} features as input, in {n} "
            f"rows, for other edges of the old nodes; or {n + new.shape[0]}, similarities of {new.shape[0]} new nodes "
            "to the old ones and to each other"
        )
    old = _old_graph(model)
    rows = place(_similarity_of_new(model, new[:, :n]), to_host(model.embedding_))
    B = sp.csr_array(new)
    whole = sp.block_array([[sp.csr_array(old), B[:, :n].T], [B[:, :n], B[:, n:]]], format="csr")
    return (whole if issparse(old) or issparse(new) else whole.toarray()), rows


def _old_graph(model: SymNMF) -> Any:
    """Return the graph, or the matrix, that was handed in."""
    old = model.affinity_matrix_ if model._graph is None else model._graph
    return to_scipy(old)


def _normalized_rows(model: SymNMF, new: Any) -> Any:
    """Return rows of edges to the fitted nodes as rows of the matrix that was factorised."""
    B, A = sp.csr_array(new, dtype=np.float64, copy=True), sp.csr_array(_old_graph(model), dtype=np.float64)
    B.eliminate_zeros()
    refuse_negative(B)
    if model.normalize_ == "walks":
        B.data /= np.repeat(B.sum(axis=1), np.diff(B.indptr))
        return B @ sp.csr_array(to_scipy(model.affinity_matrix_))
    degree, mine = np.asarray(A.sum(axis=1)), np.asarray(B.sum(axis=1))
    more = degree.mean() if model.normalize_ == "regularized" else 0.0
    scale_both_sides(B, inverse_roots(mine + more), inverse_roots(degree + more))
    return B


def _old_features(model: SymNMF) -> Any:
    return check_array(features_of(to_scipy(model._features)), accept_sparse="csr", dtype=(np.float64, np.float32))


def _old_and_new_features(model: SymNMF, new: Any) -> Any:
    old = _old_features(model)
    return sp.vstack([old, new], format="csr") if issparse(old) or issparse(new) else np.vstack([old, new])


def _similarity_graph(model: SymNMF) -> SimilarityGraph:
    """Return the graph of the features of the fit; of tensors it is made here when first needed."""
    if model._graph is None:
        model._graph = SimilarityGraph(_old_features(model), str(model._affinity), model.n_neighbors)
    graph: SimilarityGraph = model._graph
    return graph


def _in_blocks(model: SymNMF, kind: Any, X: Any, precomputed: bool, known: bool) -> Similarity:
    """Return M of a Dask array, which no check of scikit-learn may bring here."""
    if not known:
        raise TypeError("weights are for matrices in memory, but X is in Dask's blocks; leave weights out")
    model.n_features_in_ = X.n if isinstance(X, DaskMatrix) else int(X.shape[1])
    if precomputed:
        blocks = X.M if isinstance(X, DaskMatrix) else X
        kind = choose_for_blocks(blocks) if kind == "auto" else kind
        if kind is None:
            return Similarity(X if isinstance(X, DaskMatrix) else DaskMatrix(X))
        return Similarity(DaskMatrix(graphs.normalize_graph(blocks, kind)), kind)
    made = _of_features(model, X)
    return Similarity(made if callable(model._affinity) else DaskMatrix(made))


def _of_tensor(model: SymNMF, kind: Any, X: Any) -> Similarity:
    """Return M of a tensor, on its device; what is wrong with it the loss and the graph say."""
    if X.ndim != 2 or X.shape[0] < 2:
        raise ValueError(f"X must have two dimensions and two rows at least, got shape {tuple(X.shape)}")
    model.n_features_in_ = X.shape[1]
    if model._affinity != "precomputed":
        return Similarity(_of_features(model, X))
    from quartic.graphs.torch_similarity import choose_for_tensor, normalize_tensor

    matrix = as_matrix(X)
    kind = choose_for_tensor(matrix) if kind == "auto" else kind
    return Similarity(matrix) if kind is None else Similarity(normalize_tensor(matrix, kind), kind, X)


def _normalized(normalize: Any, data: Any, known: bool, late: Callable[[], bool]) -> Similarity:
    """Return the matrix to factorise of the graph handed in, of its type, with the graph."""
    if normalize is None or not known:
        return Similarity(data)
    try:
        A = graphs.as_adjacency(data)
    except ValueError:
        if normalize != "auto":
            raise
        return Similarity(data)  # what is wrong with a matrix that is no graph, the loss says
    kind: Any = choose_normalization(A) if normalize == "auto" else normalize
    if kind is None:
        return Similarity(data)
    try:
        M = walk_matrix(A, late) if kind == "walks" and normalize == "auto" else graphs.normalize_graph(A, kind)
    except TimeoutError:
        kind = "regularized"
        M = graphs.normalize_graph(A, kind)
    M = M.astype(data.dtype)
    return Similarity(M if issparse(data) or kind == "walks" else M.toarray(), kind, A)


def _refuse_negative(M: Any) -> None:
    """Raise where no similarity is positive but some are negative: then X = 0 is the best of all X ≥ 0."""
    if M.size and M.max() <= 0 and M.min() < 0:
        raise ValueError(
            f"X has no positive entry, and its least is {M.min():g}: no two nodes are similar, and nothing can be "
            "clustered. Distances d become similarities by exp(-d**2 / s**2); for features choose another affinity"
        )
