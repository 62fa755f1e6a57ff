"""Semidefinite programmes for people who do not think in them: cuts, independent sets, completion, localisation."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from quartic.arrays import Array, RandomState, check_count, random_generator
from quartic.compiled.flags import FLAGS, njit
from quartic.core.units import exponent, shifted
from quartic.graphs import as_adjacency
from quartic.losses.pairs.input import check_pairs, refuse_self_pairs
from quartic.sdp.problem import SDP, LowRank
from quartic.sdp.solve import SDPResult, solve_sdp


@dataclass(frozen=True)
class MaxCut:
    """A large cut of a graph, and a bound on all cuts.

    Attributes
    ----------
    bound : float
        No cut is larger.
    value : float
        The weight of the edges that the cut separates.
    cut : array (n,)
        +1 and −1: the sides of the nodes.
    result : SDPResult
        The semidefinite programme.
    """

    bound: float
    value: float
    cut: Array = field(repr=False)
    result: SDPResult = field(repr=False)


def maxcut(
    graph: Any, *, tol: float = 1e-6, n_roundings: int = 100, random_state: RandomState = 0, **options: Any
) -> MaxCut:
    """Cut a graph in two so that the edges between the sides weigh much, with a bound on what any cut can weigh.

    The relaxation of Goemans and Williamson is solved, its vectors are cut by random hyperplanes, and nodes change
    sides as long as that helps.

    Parameters
    ----------
    graph : networkx graph, pandas frame, array or sparse matrix
        Its weighted adjacency matrix; weights may be negative.
    tol : float, default=1e-6
        The relative gap of the relaxation.
    n_roundings : int, default=100
        Random hyperplanes.
    random_state : int, Generator or RandomState, default=0
        For the hyperplanes.
    **options
        For `solve_sdp`.

    Returns
    -------
    MaxCut

    Examples
    --------
    A cycle of five nodes has cuts of four edges; the relaxation says 4.52 at most.

    >>> import numpy as np
    >>> from quartic.sdp import maxcut
    >>> found = maxcut(np.roll(np.eye(5), 1, axis=0) + np.roll(np.eye(5), -1, axis=0))
    >>> found.value, round(found.bound, 2)
    (4.0, 4.52)
    """
    generator = random_generator(random_state)
    W = as_adjacency(graph)
    W = sparse.csr_array(W - sparse.diags_array(W.diagonal()))
    n = W.shape[0]
    degrees = np.asarray(W.sum(axis=1)).ravel()
    upper = sparse.coo_array(sparse.triu(W, 1))
    i, j, w = upper.coords[0], upper.coords[1], upper.data
    everyone, zeros = np.arange(n), np.zeros(n + len(w) + n, np.int64)
    problem = SDP.from_entries(
        [n], np.ones(n), np.r_[zeros[: n + len(w)], 1 + everyone], zeros, np.r_[everyone, i, everyone],
        np.r_[everyone, j, everyone], np.r_[degrees / 4, -w / 4, np.ones(n)], maximize=True,
    )  # fmt: skip
    result = solve_sdp(problem, tol=tol, random_state=generator, **options)
    X = result.X[0]
    best, cut = -np.inf, np.ones(n)
    for _ in range(max(n_roundings, 1)):
        side = np.where(X @ generator.standard_normal(X.shape[1]) >= 0, 1.0, -1.0)
        _improve_cut(W.indptr, W.indices, W.data, side)
        value = float(w @ (1 - side[i] * side[j])) / 2
        if value > best:
            best, cut = value, side
    return MaxCut(result.dual, best, cut.astype(np.int64), result)


@njit(**FLAGS)
def _improve_cut(start: Any, columns: Any, weights: Any, side: Any) -> None:
    """Let nodes change sides, one after the other, while the cut grows."""
    changed = True
    while changed:
        changed = False
        for i in range(len(side)):
            gain = 0.0
            for q in range(start[i], start[i + 1]):
                gain += weights[q] * side[columns[q]]
            if gain * side[i] > 1e-12 * abs(gain):
                side[i] = -side[i]
                changed = True


@dataclass(frozen=True)
class Theta:
    """Lovász' theta of a graph: between the largest independent set and the number of cliques that cover the graph.

    Attributes
    ----------
    value : float
        ϑ, from a feasible matrix.
    bound : float
        A proven bound: ϑ is no larger, and no independent set has more nodes.
    result : SDPResult
        The semidefinite programme.
    """

    value: float
    bound: float
    result: SDPResult = field(repr=False)


def lovasz_theta(graph: Any, *, tol: float = 1e-6, **options: Any) -> Theta:
    """Compute Lovász' theta: the largest ⟨eeᵀ, Y⟩ over Y ⪰ 0 of trace one with zeros on the edges.

    Parameters
    ----------
    graph : networkx graph, pandas frame, array or sparse matrix
        Its adjacency matrix; weights do not matter.
    tol : float, default=1e-6
        The tolerance of `solve_sdp`.
    **options
        For `solve_sdp`.

    Returns
    -------
    Theta

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.sdp import lovasz_theta
    >>> found = lovasz_theta(np.roll(np.eye(5), 1, axis=0) + np.roll(np.eye(5), -1, axis=0))
    >>> round(found.value, 4)       # √5
    2.2361
    """
    upper = sparse.coo_array(sparse.triu(as_adjacency(graph), 1))
    n = upper.shape[0]
    edges = [[(i, j, 1.0)] for i, j in zip(*(part.tolist() for part in upper.coords), strict=True)]
    problem = SDP(LowRank(np.ones(n)), [sparse.eye_array(n), *edges], np.r_[1.0, np.zeros(len(edges))], maximize=True)
    result = solve_sdp(problem, tol=tol, **options)
    return Theta(result.primal, result.dual, result)


@dataclass(frozen=True)
class CompletedMatrix:
    """A matrix with given entries and the least trace or nuclear norm.

    Attributes
    ----------
    matrix : array
        The completed matrix.
    norm : float
        Its trace or nuclear norm.
    bound : float
        No matrix with these entries has less.
    result : SDPResult
        The semidefinite programme.
    """

    matrix: Array = field(repr=False)
    norm: float
    bound: float
    result: SDPResult = field(repr=False)


def complete_matrix(
    entries: Any, values: Any, shape: tuple[int, int], *, kind: str = "trace", tol: float = 1e-6, **options: Any
) -> CompletedMatrix:
    """Complete a matrix from some of its entries so that its trace or nuclear norm, and with it the rank, is small.

    Parameters
    ----------
    entries : array (k, 2)
        Rows and columns of known entries.
    values : array (k,)
        Their values.
    shape : tuple of int
        The shape of the matrix.
    kind : {"trace", "nuclear"}
        "trace": the matrix is symmetric and positive semidefinite, each entry is given once. "nuclear": any matrix,
        square or not.
    tol : float, default=1e-6
        The tolerance of `solve_sdp`.
    **options
        For `solve_sdp`.

    Returns
    -------
    CompletedMatrix

    Examples
    --------
    >>> from quartic.sdp import complete_matrix
    >>> found = complete_matrix([(0, 0), (0, 1), (1, 0)], [1.0, 1.0, 1.0], (2, 2), kind="nuclear")
    >>> found.matrix.round(2).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    given = np.asarray(entries).reshape(-1, 2)
    places = given.astype(np.int64)
    b = np.asarray(values, np.float64).ravel()
    if (places != given).any() or not np.isfinite(b).all():
        raise ValueError("entries must be whole numbers, rows and columns, and values must be finite")
    rows, columns = int(shape[0]), int(shape[1])
    if len(places) != len(b):
        raise ValueError(f"there are {len(places)} entries and {len(b)} values")
    if len(places) and (places.min() < 0 or places[:, 0].max() >= rows or places[:, 1].max() >= columns):
        raise ValueError(f"an entry is outside the matrix of shape {(rows, columns)}")
    if kind == "nuclear":
        n = rows + columns
        C = sparse.eye_array(n) / 2
        A = [[(i, rows + j, 0.5)] for i, j in places.tolist()]
    elif kind == "trace":
        if rows != columns:
            raise ValueError(f"kind='trace' needs a square matrix, got shape {(rows, columns)}")
        n = rows
        C = sparse.eye_array(n)
        A = [[(i, j, 1.0 if i == j else 0.5)] for i, j in places.tolist()]
    else:
        raise ValueError(f"kind must be 'trace' or 'nuclear', got {kind!r}")
    result = solve_sdp(SDP(C, A, b), tol=tol, **options)
    X = result.X[0]
    matrix = X[:rows] @ X[rows:].T if kind == "nuclear" else X @ X.T
    return CompletedMatrix(matrix, result.primal, result.dual, result)


@dataclass(frozen=True)
class Localisation:
    """Points from distances by semidefinite relaxation, and what no placement in any dimension can beat.

    Attributes
    ----------
    points : array (n, d)
        The leading d coordinates of the relaxation's points; each component that distances link is centred.
    bound : float
        No points, in any dimension, have a smaller Σ w \\|‖x_i − x_j‖² − d²\\|.
    misfit : float
        That sum for the relaxation's points, in as many dimensions as it wants.
    dimension : int
        How many dimensions the relaxation wants: where it is d, ``points`` are optimal.
    result : SDPResult
        The semidefinite programme.
    """

    points: Array = field(repr=False)
    bound: float
    misfit: float
    dimension: int
    result: SDPResult = field(repr=False)


def localise(
    pairs: Any, distances: Any, dimension: int = 2, *, n_points: int | None = None, weights: Any = None,
    tol: float = 1e-6, **options: Any,
) -> Localisation:  # fmt: skip
    r"""Find points from some of their distances by the relaxation of Biswas and Ye, with a bound on every other answer.

    It minimises Σ w \|‖x_i − x_j‖² − d²\| over points in any dimension. `quartic.DistanceCompletion` is faster by far
    and keeps to the dimension, but may end in a local minimum; the bound here tells how far any answer is from the
    best.

    Parameters
    ----------
    pairs : array (m, 2)
        Pairs of points.
    distances : array (m,)
        Their distances.
    dimension : int, default=2
        d, of the points that are returned.
    n_points : int, optional
        How many points there are.
    weights : array (m,), optional
        w; ones when left out.
    tol : float, default=1e-6
        The tolerance of `solve_sdp`.
    **options
        For `solve_sdp`.

    Returns
    -------
    Localisation

    Examples
    --------
    >>> from quartic.sdp import localise
    >>> found = localise([(0, 1), (1, 2), (0, 2)], [3.0, 4.0, 5.0])
    >>> found.misfit < 1e-4
    True
    """
    check_count(dimension, "dimension")
    where, lengths, weights, n = check_pairs(pairs, distances, n_points, weights, "distances")
    refuse_self_pairs(where)
    power = exponent(lengths) or 0  # errors are told from those that do not matter by comparing them with one
    squared, m = np.square(shifted(lengths.astype(np.float64), -power)), len(where)
    w = np.ones(m) if weights is None else weights
    A: list[Any] = []
    for k, (i, j) in enumerate(where.tolist()):
        A.append([[(i, i, 1.0), (j, j, 1.0), (i, j, -1.0)], [(k, k, 1.0), (m + k, m + k, -1.0)]])
    graph = sparse.coo_array((np.ones(m), where.T), shape=(n, n))
    count, component = connected_components(graph, directed=False)
    A += [[LowRank(component == k), None] for k in range(count)]  # centred: nothing else holds them where they are
    problem = SDP([None, np.r_[w, w]], A, np.r_[squared, np.zeros(count)], blocks=[n, -2 * m])
    result = solve_sdp(problem, tol=tol, **options)
    result = replace(
        result, X=[shifted(result.X[0], power), shifted(result.X[1], 2 * power)],
        primal=shifted(result.primal, 2 * power), dual=shifted(result.dual, 2 * power),
    )  # fmt: skip
    U, sizes, _ = np.linalg.svd(result.X[0], full_matrices=False)
    wanted = int(np.count_nonzero(sizes > 1e-3 * sizes[0])) if len(sizes) else 0
    d = min(dimension, len(sizes))
    return Localisation(U[:, :d] * sizes[:d], result.dual, result.primal, wanted, result)
