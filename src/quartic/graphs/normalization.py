"""Which matrix of a graph symmetric NMF should factorise: regularised, normalised, short walks, or the graph itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh_tridiagonal
from scipy.sparse.csgraph import connected_components

from quartic.arrays import Array, is_torch
from quartic.arrays.space import eps, space_of
from quartic.arrays.threads import spread
from quartic.distributed.inputs import concatenate_rows, in_blocks, is_dask_array, row_recipes
from quartic.graphs.inputs import as_adjacency
from quartic.graphs.neighbors import Floats, inverse_roots
from quartic.graphs.similarity import scale_both_sides, unite

Kind = Literal["regularized", "symmetric", "walks"]
KINDS: tuple[Kind, ...] = ("regularized", "symmetric", "walks")
# Entries that a row of the walk matrix keeps, and nodes at which a walk is followed: what is further is taken as mixed.
_CAP = 100
_FRONT = 400
# Walks pay on graphs of so many nodes: smaller ones they mix, and larger ones take minutes.
_FEWEST, MOST = 100, 200_000
# The largest eigenvalue of a normalised matrix is 1, to this, and so many products tell.
_ONE, _PRODUCTS = 1e-3, 100
_ROWS = 256  # rows of a piece of work


def normalize_graph(A: Any, kind: Literal["auto"] | Kind | None = "regularized") -> Any:
    r"""Return the matrix of a graph that symmetric NMF should factorise to find its communities.

    With D the degrees, :math:`\bar d` their mean, n nodes, and ``vol`` the sum of all weights:

    - ``"regularized"``: :math:`D_\tau^{-1/2} A D_\tau^{-1/2}`, :math:`D_\tau = D + \bar d I`. Neither hubs nor dangling
      nodes rule it (Amini, Chen, Bickel and Levina 2013; Qin and Rohe 2013).
    - ``"symmetric"``: :math:`D^{-1/2} A D^{-1/2}`, the paper's, for similarity graphs. In a graph with dangling nodes
      and small components those take the columns.
    - ``"walks"``: :math:`\log \max\bigl(1, \frac{\mathrm{vol}}{T} \sum_{t=1}^T (D^{-1}A)^t D^{-1}\bigr)`: by how much
      two nodes meet more often on walks of at most T steps than by chance (Qiu et al. 2018, NetMF). T is four times
      :math:`\log n / \log \bar d`, about the distance of two nodes, but 10 at least and 20 at most.
    - ``"auto"`` chooses, as `choose_normalization` says; ``None`` only reads the graph.

    Nothing is made dense. A walk is followed at the 400 likeliest nodes of each step, and the chance elsewhere is taken
    as spread over the component like the degrees; a row keeps its 100 largest entries, and an entry stays if either end
    kept it. Nodes without edges stay zero rows.

    Parameters
    ----------
    A : array, sparse matrix, frame, networkx graph, tensor or Dask array (n, n)
        Symmetric, no negative weights.
    kind : {"regularized", "symmetric", "walks", "auto"} or None
        Which.

    Returns
    -------
    csr_array, Dask array of row blocks, or tensor (n, n)
        As A is; of a Dask array or tensor, walks are made in the memory of this process.

    Examples
    --------
    >>> from quartic.graphs import normalize_graph
    >>> normalize_graph([[0, 1, 1], [1, 0, 0], [1, 0, 0]]).toarray().round(3)
    array([[0.   , 0.359, 0.359],
           [0.359, 0.   , 0.   ],
           [0.359, 0.   , 0.   ]])
    """
    if kind not in (None, "auto", *KINDS):
        raise ValueError(f"kind must be one of {', '.join(map(repr, KINDS))}, 'auto' or None, got {kind!r}")
    if is_torch(A):
        from quartic.graphs.torch_similarity import choose_for_tensor, normalize_tensor
        from quartic.losses.factor.matrix import as_matrix

        matrix = as_matrix(A, name="A")
        return normalize_tensor(matrix, choose_for_tensor(matrix) if kind == "auto" else kind)
    if is_dask_array(A):
        return _normalize_blocks(A, kind)
    A = as_adjacency(A)
    if kind == "auto":
        kind = choose_normalization(A)
    if kind is None:
        return A
    refuse_negative(A)
    if kind == "walks":
        return walk_matrix(A)
    factors = degree_factors(A.sum(axis=1), kind)
    scale_both_sides(A, factors, factors)
    return A


def choose_normalization(A: sp.csr_array) -> Kind | None:
    """Return how a graph should be normalised, from the graph alone.

    - None: a matrix that is normalised already (its largest eigenvalue is 1, as `similarity` makes it), one with
      negative weights, and one with more entries than zeros: a matrix of similarities, which is meant as it is.
    - ``"symmetric"``: similarities, each node being similar to itself; also a part of a matrix that was normalised.
    - ``"regularized"``: up to 100 nodes, where walks reach everything; above 200,000, where they take long; and where a
      node has more than 100 neighbours on average, which are more than walks would keep.
    - ``"walks"``: all else.
    """
    n, diagonal = A.shape[0], A.diagonal()
    # what `similarity` makes has 1 / d_i on the diagonal, so that the first product tells: √d is the eigenvector
    start = 1 / np.sqrt(diagonal) if (diagonal > 0).all() else np.ones(n)
    return choose(
        n,
        A.nnz,
        float(A.data.min(initial=0.0)),
        lambda: is_normalized(lambda X: A @ X, start[:, None]),
        lambda: bool(diagonal[np.diff(A.indptr) > 0].all()),
    )


def choose(
    n: int, entries: int, least: float, normalized: Callable[[], bool], similar_to_itself: Callable[[], bool]
) -> Kind | None:
    """Return what `choose_normalization` says of a graph of which this is known, or can be asked."""
    if entries == 0 or 2 * entries > n * n or least < 0 or normalized():
        return None
    if similar_to_itself():
        return "symmetric"
    return "walks" if _FEWEST < n <= MOST and entries <= _CAP * n else "regularized"


def refuse_negative(A: sp.csr_array) -> None:
    """Raise where a weight is negative: a walk cannot take it."""
    if A.nnz and A.data.min() < 0:
        at = int(A.data.argmin())
        row = int(np.searchsorted(A.indptr, at, side="right")) - 1
        raise ValueError(
            f"a graph is normalised by its degrees, but the weight of ({row}, {A.indices[at]}) is {A.data[at]:g}; "
            "pass normalize=None, or 0 there"
        )


def is_normalized(product: Callable[[Array], Array], start: Array) -> bool:
    """Tell whether the largest eigenvalue of a nonnegative matrix is 1: Lanczos' method from a positive vector (n, 1).

    A positive vector is never orthogonal to the eigenvector, which has no negative entry. Old vectors are not kept:
    what Lanczos' method finds twice for want of them is no larger. It ends where ten products gained next to nothing.
    """
    diagonal: list[float] = []
    beside: list[float] = []
    space, found = space_of(start), [0.0] * 10
    q, before = start / float(space.norm(start)), 0 * start
    while len(diagonal) < _PRODUCTS:
        w = product(q) - (beside[-1] if beside else 0.0) * before
        diagonal.append(float(space.inner(q, w)))
        w -= diagonal[-1] * q
        found.append(float(eigh_tridiagonal(diagonal, beside, eigvals_only=True)[-1]))
        beside.append(float(space.norm(w)))
        if found[-1] > 1 + _ONE or found[-1] - found[-11] < 0.01 * _ONE or beside[-1] <= 16 * eps(q) * found[-1]:
            break
        before, q = q, w / beside[-1]
    return abs(found[-1] - 1) <= _ONE


def degree_factors(degree: Any, kind: Kind) -> Any:
    """Return what both ends of an edge are multiplied by."""
    return inverse_roots(degree + degree.mean() if kind == "regularized" else degree)


# -- in blocks --------------------------------------------------------------------------------------------------------


def choose_for_blocks(A: Any) -> Kind | None:
    """Return how a graph in Dask's blocks should be normalised: as in memory, where walks could be made there."""
    from dask import compute, delayed

    n, recipes = int(A.shape[0]), row_recipes(A, "A")[0]
    if n <= MOST and sum(compute(*(delayed(_count_entries, pure=False)(block) for block in recipes))) <= _CAP * n:
        return choose_normalization(_gather(recipes))
    from quartic.losses.blocks.dask_matrix import DaskMatrix

    return None if is_normalized(DaskMatrix(A).product, np.ones((n, 1))) else "regularized"


def _gather(recipes: list[Any]) -> sp.csr_array:
    from dask import compute

    return as_adjacency(sp.vstack([sp.csr_array(block) for block in compute(*recipes)], format="csr"))


def _normalize_blocks(A: Any, kind: Literal["auto"] | Kind | None) -> Any:
    recipes, rows = row_recipes(A, "A")
    if kind == "auto":
        kind = choose_for_blocks(A)
    if kind is None:
        return A
    if kind == "walks":
        return in_blocks(normalize_graph(_gather(recipes), kind), len(rows))
    blocks = scale_blocks(recipes, rows, kind)
    return concatenate_rows(blocks, rows, int(A.shape[1]), sp.csr_array((0, 0), dtype=np.float64))


def scale_blocks(blocks: list[Any], rows: Any, kind: Kind) -> list[Any]:
    """Return tasks that scale blocks of so many rows, themselves tasks, by the degrees of both ends."""
    from dask import compute, delayed

    degree = np.concatenate(compute(*(delayed(_sum_rows, pure=False)(block) for block in blocks)))
    factors, scale = delayed(degree_factors(degree, kind), pure=False), delayed(_scaled_block, pure=False)
    first = np.concatenate([[0], np.cumsum(rows)])
    return [scale(block, factors, int(at)) for block, at in zip(blocks, first, strict=False)]


def _count_entries(block: Any) -> int:
    return int(block.nnz if sp.issparse(block) else np.count_nonzero(block))


def _sum_rows(block: Any) -> Floats:
    W = sp.csr_array(block, dtype=np.float64)
    refuse_negative(W)
    degree: Floats = W.sum(axis=1)
    return degree


def _scaled_block(block: Any, factors: Floats, first: int) -> sp.csr_array:
    """Return a block, whose rows begin with ``first``, multiplied by the factors of both ends."""
    W = sp.csr_array(block, dtype=np.float64, copy=True)
    scale_both_sides(W, factors[first : first + W.shape[0]], factors)
    return W


# -- walks ------------------------------------------------------------------------------------------------------------


def walk_matrix(A: sp.csr_array) -> sp.csr_array:
    """Return the symmetric matrix of ``"walks"``."""
    from quartic.compiled.graphs import follow_walks

    n = A.shape[0]
    degree = np.asarray(A.sum(axis=1), dtype=np.float64)
    volume = float(degree.sum())
    mean = max(A.nnz / n, 1.1)  # a walk at random sees nobody new on a path
    n_steps = int(np.clip(round(4 * math.log(n) / math.log(mean)), 10, 20))
    _, component = connected_components(A, directed=False)
    share = np.bincount(component, degree) / volume  # of the volume, that a component has
    with np.errstate(divide="ignore"):
        scale = np.where(degree > 0, volume / (n_steps * degree), 0.0)
        mixed = np.where(degree > 0, 1 / (n_steps * share[component]), 0.0)
    counts, columns, values = np.zeros(n, np.int64), np.empty((n, _CAP), np.int64), np.empty((n, _CAP))
    chances = A.indptr, A.indices, A.data / np.repeat(degree, np.diff(A.indptr))

    def work(first: int, last: int) -> None:
        rows = first * _ROWS, min(last * _ROWS, n)
        follow_walks(*rows, *chances, scale, mixed, n_steps, _FRONT, counts, columns, values)

    spread(work, -(-n // _ROWS), float(n) * n_steps * min(_FRONT, n) * (A.nnz / n))
    some = np.arange(_CAP) < counts[:, None]
    kept = sp.csr_array((values[some], columns[some], np.concatenate([[0], np.cumsum(counts)])), shape=(n, n))
    kept.sort_indices()
    return unite(kept, kept.T.tocsr())
