"""How many clusters? How likely a graph of communities is, and the spectrum of one of neighbours."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from quartic.arrays import RandomState, random_generator
from quartic.arrays.checks import check_integer
from quartic.arrays.threads import one_blas_thread
from quartic.clustering.refinement import BlockModel, without_pieces
from quartic.core.loop import minimize
from quartic.core.problem import Problem
from quartic.graphs import as_adjacency, normalize_graph
from quartic.graphs.neighbors import inverse_roots
from quartic.init import random_start, spectral_start
from quartic.losses import LeastSquares
from quartic.penalties import Nonnegative
from quartic.solvers import Solver

Floats: TypeAlias = NDArray[np.float64]

# Up to this size all eigenvalues are cheaper, and safer, than Lanczos.
_DENSE = 300
# Random graphs whose spectrum is chance.
_RANDOM_GRAPHS = 3
# Triangles are counted at so many nodes; a graph of neighbours has this many times more than blocks would make.
_NODES, _MORE = 2000, 1.25


@dataclass(frozen=True)
class RankSelection:
    """What `select_rank` found: one entry of each array for each of ``ranks``.

    Attributes
    ----------
    ranks : array of int
        Ranks tried, rising.
    best : int
        The rank chosen: the vote of ``"communities"``, or ``"eigengap"`` for a graph of neighbours and where weights
        are negative. But at least the number of components, small ones aside.
    votes : dict
        The rank each criterion prefers: ``"eigengap"`` and, unless weights are negative, ``"communities"``.
    eigenvalues : array (max(ranks) + 1,)
        Leading eigenvalues of the regularised graph, falling.
    chance : float
        The second largest eigenvalue of random graphs with the same degrees: what is above is structure.
    eigengap : array
        λ_r − λ_{r+1}.
    communities : array
        Logarithm of the chance that the model has for graph and labels, for each edge, up to a constant; NaN where
        weights are negative.
    neighbors : bool
        Whether M is like a graph of neighbours among points: more triangles than blocks would make, or hardly a zero.

    Examples
    --------
    >>> from quartic import select_rank
    >>> from quartic.datasets import planted_graph
    >>> M, _ = planted_graph(200, 3, random_state=0)
    >>> found = select_rank(M, range(2, 5), random_state=0)
    >>> found.best, found.votes
    (3, {'eigengap': 3, 'communities': 3})
    >>> print(found.table())  # doctest: +SKIP
    """

    ranks: NDArray[np.int64]
    best: int
    votes: dict[str, int]
    eigenvalues: Floats = field(repr=False)
    chance: float
    eigengap: Floats = field(repr=False)
    communities: Floats = field(repr=False)
    neighbors: bool = False

    def table(self) -> str:
        """Return the figures as text, a line for each rank, the best one marked."""
        lines = ["  rank   eigengap  communities"]
        for rank, gap, likelihood in zip(self.ranks, self.eigengap, self.communities, strict=True):
            lines.append(f"{'*' if rank == self.best else ' '} {rank:4d} {gap:10.4g} {likelihood:12.4f}")
        return "\n".join(lines)

    def plot(self) -> Any:
        """Draw eigenvalues and likelihood against the rank, and return the figure, pyplot's current one."""
        from quartic.plots import new_figure

        figure = new_figure(size=(7.5, 3.2))
        panels = figure.subplots(1, 2)
        panels[0].plot(np.arange(1, len(self.eigenvalues) + 1), self.eigenvalues, "o-", color="C0")
        panels[0].axhline(self.chance, color="0.7", linestyle="--", zorder=0)
        panels[0].set(title="Eigenvalues", ylabel="λ")
        panels[1].plot(self.ranks, self.communities, "o-", color="C0")
        panels[1].set(title="Likelihood of communities", ylabel="for each edge")
        for axes, name in zip(panels, ("eigengap", "communities"), strict=True):
            axes.axvline(self.votes.get(name, self.best), color="0.7", linestyle=":", zorder=0)
            axes.axvline(self.best, color="C3", alpha=0.4, zorder=0)
            axes.set_xlabel("rank")
            axes.xaxis.get_major_locator().set_params(integer=True)
        return figure


@one_blas_thread()
def select_rank(
    M: Any,
    ranks: Iterable[int],
    *,
    n_runs: int = 1,
    normalize: Literal["auto", "regularized", "symmetric", "walks"] | None = "auto",
    solver: str | Solver = "auto",
    tol: float = 1e-2,
    max_iter: int = 1000,
    random_state: RandomState = None,
) -> RankSelection:
    r"""Look for the number of clusters of a similarity matrix or graph.

    M is factorised at the largest of ``ranks`` and at the vote of the spectrum, labels are refined, and clusters are
    joined two by two, those first that cost least in the likelihood of a block model
    (`quartic.clustering.refinement`), with labels refined again each time. Weights are those of the graph without
    factors of the nodes, :math:`w_{ij} / (s_i s_j)`, which a normalised graph has more; those that differ are levels,
    observations of their own: they may be noise. With m edges, of which
    :math:`e_{rs}` run between clusters r and s and :math:`i_r` inside r, :math:`\kappa_r` the sum of the degrees and
    :math:`n_r` the number of nodes, the labels z at each number k of clusters are judged by how likely graph and labels
    are together (Peixoto 2017), all parameters drawn uniformly:

    .. math:: \log P(A, z) = \log P(e) + \sum_{r<s} \log e_{rs}! + \sum_r \log 2^{i_r} i_r!
              + \sum_r \log \frac{(n_r - 1)!}{(n_r + \kappa_r - 1)!} + \log P(z),

    as **communities**: :math:`\kappa_r` are any numbers with sum 2m, one and the same share of a node's edges stays in
    its community, and the others' ends are paired by chance. Nothing is left to choose: a cluster more must be worth
    the description of its numbers. ``best`` is the rank of the likeliest clusters: the eigenvalues of
    :math:`e_{rs} / \sqrt{\kappa_r\kappa_s}` above those of chance, :math:`2\sqrt{k/2m}`. What two overlapping
    communities share is a cluster, but no column more of X. Where communities are small and mixed it is too few rather
    than too many. Components of at most :math:`\log_2 n` nodes, which chance leaves beside a sparse graph, are not
    looked at.

    In a **graph of neighbours** of points any part of a cluster is a community, and the model finds no end. It is known
    by its triangles, a quarter more than a block model makes, or has more entries than zeros. There ``best`` is

    - **eigengap**: the r with the largest gap :math:`\lambda_r - \lambda_{r+1}`, r ≥ 2. Of other graphs it is
      the number of eigenvalues above the second largest of a random graph with the same degrees (the largest of three).

    Where ``votes`` differ, look at the figures: clusters much smaller than the rest are easily missed, and nested ones
    have several right answers.

    Parameters
    ----------
    M : array, sparse matrix, frame or networkx graph (n, n)
        Symmetric. Memory is of the order of its nonzeros and n · max(ranks).
    ranks : iterable of int
        Ranks to try.
    n_runs : int, default=1
        Factorisations at the largest rank, from different seeds; at each rank the likeliest labels count.
    normalize : {"auto", "regularized", "symmetric", "walks"} or None
        What is factorised, as in `quartic.graphs.normalize_graph`. Eigenvalues are always those of the regularised
        matrix, unless weights are negative, and the likelihood that of M itself.
    solver, tol, max_iter
        As in `quartic.minimize`. Labels settle long before the gradient does: a rough tol is enough.
    random_state : int, Generator, RandomState or None
        Seed.

    Returns
    -------
    RankSelection

    Examples
    --------
    >>> from quartic import select_rank
    >>> from quartic.datasets import karate
    >>> select_rank(karate().adjacency, range(2, 6), random_state=0).best
    2
    """
    given = as_adjacency(M)
    tried = _checked_ranks(ranks, given.shape[0])
    check_integer(n_runs, "n_runs", 1)
    if given.nnz == np.count_nonzero(given.diagonal()):
        raise ValueError("M is zero off its diagonal: no node has to do with another, and there are no clusters")
    generator = random_generator(random_state)
    large = without_pieces(connected_components(given, directed=False)[1])
    if int(tried[-1]) <= len(large) < given.shape[0]:
        given = sp.csr_array(given[large][:, large])
    even: Literal["regularized"] | None = None if given.data.min() < 0 else "regularized"
    similar = bool(given.diagonal()[np.diff(given.indptr) > 0].all())  # each node to itself: a matrix of similarities
    flat = given if similar or not even else _without_node_factors(given)
    whole = normalize_graph(flat if normalize == "auto" else given, normalize)
    figures, neighbors = np.full((2, len(tried)), np.nan), False
    seeds = generator.integers(2**63, size=n_runs if even else 0).tolist()

    def judge(rank: int, seed: int) -> BlockModel:
        """Factorise, refine, join down from this rank, and keep what is likelier than before at each."""
        run = minimize(
            Problem(LeastSquares(whole), Nonnegative()), spectral_start, rank=rank, reference=random_start,
            solver=solver, tol=tol, max_iter=max_iter, random_state=seed,
        )  # fmt: skip
        model = BlockModel(flat, run.unless_interrupted().X.argmax(axis=1), rank, levels=True).refine()
        found = _join_down(model, tried)
        better = np.isnan(figures[0]) | (found[0] > figures[0])
        figures[:, better] = found[:, better]
        return model

    for seed in seeds:
        neighbors = has_neighbors(judge(int(tried[-1]), seed))
    flat = sp.csr_array((given if neighbors else flat) - sp.diags_array(flat.diagonal()))
    eigenvalues = _leading_eigenvalues(normalize_graph(flat, even), int(tried[-1]) + 1, generator)
    chance = max(
        float(_leading_eigenvalues(normalize_graph(_rewired(flat, generator), even), 2, generator)[-1])
        for _ in range(_RANDOM_GRAPHS)
    )
    above = int(tried[np.abs(tried - max(1, (eigenvalues > chance).sum())).argmin()])
    for seed in seeds if not neighbors and above < tried[-1] else ():
        judge(above, seed)
    padded = np.append(eigenvalues, np.nan)  # r = n has no next eigenvalue
    gaps = padded[tried - 1] - padded[tried]
    gap = tried[np.where((tried > 1) & ~np.isnan(gaps), gaps, -1.0).argmax()]
    votes = {"eigengap": int(gap) if neighbors else above}
    if even:
        votes["communities"] = int(tried[np.abs(tried - figures[1, np.nanargmax(figures[0])]).argmin()])
    best = votes["eigengap" if neighbors or not even else "communities"]
    # none shares a cluster with another, as `BlockModel.with_components_apart` has it
    size = np.bincount(connected_components(given, directed=False)[1])
    best = max([best, *(int(k) for k in tried if np.count_nonzero(size >= given.shape[0] / (4 * k)) >= k)])
    return RankSelection(
        ranks=tried, best=best, votes=votes, eigenvalues=eigenvalues, chance=chance, eigengap=gaps,
        communities=figures[0], neighbors=neighbors,
    )  # fmt: skip


# -- what they rest on ------------------------------------------------------------------------------------------------


def _join_down(model: BlockModel, ranks: NDArray[np.int64]) -> Floats:
    """Return for each of the ranks the evidence for each edge, joining from the largest, and the rank of the blocks.

    That is their matrix's: its eigenvalues above those that chance alone makes of so many edges.
    """
    figures = np.full((2, len(ranks)), np.nan)
    for k in range(len(model.size), int(ranks[0]) - 1, -1):
        if k < len(model.size):
            model = model.join_best()[-1].refine()
        if k in ranks:
            both, volume = inverse_roots(model.volume), model.degree.sum()
            spectrum = np.linalg.eigvalsh(model.edges * np.outer(both, both))
            rank = (spectrum > 2 * np.sqrt(k / volume)).sum()
            figures[:, np.searchsorted(ranks, k)] = model.evidence() / volume, rank
    return figures


def has_neighbors(model: BlockModel) -> bool:
    """Tell whether a graph has triangles that its block model does not explain, as graphs of neighbours have.

    A path of two edges from i is closed by a third with the chance that the model has for it. Paths are counted at
    random nodes, those that come back along the same edge left out, and three standard deviations allowed for.
    """
    A, k = model.graph, model.n_clusters
    n = A.shape[0]
    if 2 * A.nnz > n * n:
        return True
    B = sp.csr_array(A - sp.diags_array(A.diagonal()))
    at = np.sort(np.random.default_rng(0).permutation(n)[:_NODES])
    seen = float(((B[at] @ B) * B[at]).sum())
    paths = np.asarray(B.sum(axis=1)) ** 2 - np.asarray((B * B).sum(axis=1))
    every, mine = (np.bincount(model.labels[some], paths[some], k) for some in (slice(None), at))
    e = model.edges - np.diag(np.bincount(model.labels, A.diagonal(), k))
    volume = np.maximum(e.sum(axis=1), np.finfo(float).tiny)
    rate = e / volume / volume[:, None]
    chance = float((mine[:, None] * rate * ((rate * every) @ (rate * every)).T).sum())
    return bool(seen > _MORE * chance + 3 * np.sqrt(6 * chance))


def _leading_eigenvalues(A: sp.csr_array, count: int, generator: np.random.Generator) -> Floats:
    n = A.shape[0]
    count = min(count, n)
    if n <= _DENSE or count > n // 2:
        values = np.linalg.eigvalsh(A.toarray())
    else:
        from scipy.sparse.linalg import eigsh

        start = generator.standard_normal(n)
        values = np.sort(eigsh(A, k=count, which="LA", v0=start, tol=1e-6, return_eigenvectors=False))
    falling: Floats = values[::-1][:count]
    return falling


def _without_node_factors(A: sp.csr_array) -> sp.csr_array:
    """Return weights w_ij / (s_i s_j), with the factors of the nodes fitted to log w: a normalised graph loses them."""
    from scipy.sparse.linalg import cg

    logs, rows = np.log(A.data), np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    if np.ptp(logs) == 0:
        return A
    ones = sp.csr_array((np.ones(A.nnz), A.indices, A.indptr), shape=A.shape)
    count = np.maximum(np.diff(A.indptr), 1.0)
    fit, _ = cg(
        ones + sp.diags_array(count), np.bincount(rows, logs, len(count)), rtol=1e-6, maxiter=500,
        M=sp.diags_array(1 / count),
    )  # fmt: skip
    ones.data = np.exp(logs - fit[rows] - fit[A.indices])
    return ones


def _rewired(A: sp.csr_array, generator: np.random.Generator) -> sp.csr_array:
    """Return a random graph with the same numbers of neighbours and the same weights; loops stay, a few edges merge."""
    upper = sp.triu(A, 1, format="coo")
    ends = generator.permutation(np.concatenate([upper.coords[0], upper.coords[1]]))
    half = len(ends) // 2
    B = sp.csr_array((generator.permutation(upper.data), (ends[:half], ends[half:])), shape=A.shape)
    return sp.csr_array(B + B.T + sp.diags_array(A.diagonal()))


def _checked_ranks(ranks: Iterable[int], n: int) -> NDArray[np.int64]:
    if not isinstance(ranks, Iterable):
        raise TypeError(f"ranks must be several integers, for example range(2, 11), got {ranks!r}")
    given = list(ranks)
    if not given:
        raise ValueError("ranks is empty; name at least one, for example range(2, 11)")
    for rank in given:
        if isinstance(rank, bool) or not isinstance(rank, int | np.integer):
            raise TypeError(f"ranks must be integers, got {rank!r}")
        if not 1 <= rank <= n:
            raise ValueError(f"each of ranks must lie between 1 and the number of nodes, {n}, got {rank}")
    return np.unique(np.array(given, dtype=np.int64))
