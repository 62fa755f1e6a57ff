"""How many clusters? What two models of a graph say, beside its spectrum."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from quartic.arrays import RandomState, random_generator
from quartic.arrays.checks import check_integer
from quartic.arrays.threads import one_blas_thread
from quartic.clustering.refinement import BlockModel
from quartic.core.loop import minimize
from quartic.core.problem import Problem
from quartic.graphs import as_adjacency, normalize_graph
from quartic.init import random_start, spectral_start
from quartic.losses import LeastSquares
from quartic.penalties import Nonnegative
from quartic.solvers import Solver

Floats: TypeAlias = NDArray[np.float64]

# Up to this size all eigenvalues are cheaper, and safer, than Lanczos.
_DENSE = 300
# Random graphs whose spectrum is chance.
_RANDOM_GRAPHS = 3


@dataclass(frozen=True)
class RankSelection:
    """What `select_rank` found: one entry of each array for each of ``ranks``.

    Attributes
    ----------
    ranks : array of int
        Ranks tried, rising.
    best : int
        The rank chosen: that of two votes that agree, else the larger of ``"blocks"`` and ``"communities"``.
    votes : dict
        The rank each criterion prefers: ``"eigengap"``, ``"blocks"``, ``"communities"``. Where weights are negative,
        the first is all there is.
    eigenvalues : array (max(ranks) + 1,)
        Leading eigenvalues of the regularised graph, falling.
    chance : float
        The second largest eigenvalue of random graphs with the same degrees: what is above is structure.
    eigengap : array
        λ_r − λ_{r+1}.
    blocks, communities : array
        The two likelihoods less what their parameters are worth, for each edge; NaN where weights are negative.

    Examples
    --------
    >>> from quartic import select_rank
    >>> from quartic.datasets import planted_graph
    >>> M, _ = planted_graph(200, 3, random_state=0)
    >>> found = select_rank(M, range(2, 5), random_state=0)
    >>> found.best, found.votes
    (3, {'eigengap': 3, 'blocks': 3, 'communities': 3})
    >>> print(found.table())  # doctest: +SKIP
    """

    ranks: NDArray[np.int64]
    best: int
    votes: dict[str, int]
    eigenvalues: Floats = field(repr=False)
    chance: float
    eigengap: Floats = field(repr=False)
    blocks: Floats = field(repr=False)
    communities: Floats = field(repr=False)

    def table(self) -> str:
        """Return the figures as text, a line for each rank, the best one marked."""
        lines = ["  rank   eigengap     blocks  communities"]
        for rank, *figures in zip(self.ranks, self.eigengap, self.blocks, self.communities, strict=True):
            mark = "*" if rank == self.best else " "
            lines.append(f"{mark} {rank:4d} {figures[0]:10.4g} {figures[1]:10.4f} {figures[2]:12.4f}")
        return "\n".join(lines)

    def plot(self) -> Any:
        """Draw eigenvalues and likelihoods against the rank, and return the figure.

        It is pyplot's current one: ``plt.show()`` shows it, ``plt.savefig(…)`` writes it.
        """
        from quartic.plots import new_figure

        figure = new_figure(size=(11, 3.2))
        panels = figure.subplots(1, 3)
        panels[0].plot(np.arange(1, len(self.eigenvalues) + 1), self.eigenvalues, "o-", color="C0")
        panels[0].axhline(self.chance, color="0.7", linestyle="--", zorder=0)
        panels[0].set(title="Eigenvalues", ylabel="λ")
        for axes, name in zip(panels[1:], ("blocks", "communities"), strict=True):
            axes.plot(self.ranks, getattr(self, name), "o-", color="C0")
            axes.set(title=f"Likelihood of {name}", ylabel="for each edge")
        for axes, name in zip(panels, ("eigengap", "blocks", "communities"), strict=True):
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

    Three criteria, each of which prefers a rank r among ``ranks``:

    - **eigengap**: how many eigenvalues are larger than the second largest of a random graph with the same degrees and
      weights (the largest of three such graphs);
    - **blocks**: M is factorised at the largest rank, its labels are refined, and clusters are joined two by two, those
      first that cost least in the likelihood L of a degree-corrected block model (`quartic.clustering.refinement`),
      with labels refined again each time. With m edges, the largest :math:`L - \tfrac12 r (r + 1) \log m` is
      preferred (Schwarz's criterion for the rates between blocks);
    - **communities**: for the same labels, the likelihood of a model with two rates only, within communities and
      between them (the planted partition, whose likelihood is a modularity), with half of the labels' own, less
      :math:`r \log n`.

    The first misses communities that the spectrum does not show. The second has too many rates for many small
    communities, the third too few for unequal ones: both say too few rather than too many, and ``best`` is the larger
    of the two; but 1 where the first and the second agree on that, since the third finds something in any noise. Where
    ``votes`` differ, look at the figures: clusters much smaller than the rest are easily missed, and nested ones have
    several right answers. A graph of neighbours of points has parts of clusters that no likelihood tells from clusters.

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
        matrix, unless weights are negative, and likelihoods those of M itself.
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
    even: Literal["regularized"] | None = None if given.data.min() < 0 else "regularized"
    whole = normalize_graph(given, normalize)
    figures = np.full((2, len(tried)), np.nan)
    for seed in generator.integers(2**63, size=n_runs if even else 0):
        X = minimize(
            Problem(LeastSquares(whole), Nonnegative()), spectral_start, rank=int(tried[-1]), reference=random_start,
            solver=solver, tol=tol, max_iter=max_iter, random_state=int(seed),
        ).X  # fmt: skip
        figures = np.fmax(figures, _join_down(BlockModel(given, X.argmax(axis=1), int(tried[-1])), tried))
    if given.nnz * 2 <= given.shape[0] ** 2 and even:
        given.data[:] = 1.0  # the weights of a normalised graph follow its degrees, and those are kept anyway
    eigenvalues = _leading_eigenvalues(normalize_graph(given, even), int(tried[-1]) + 1, generator)
    chance = max(
        float(_leading_eigenvalues(normalize_graph(_rewired(given, generator), even), 2, generator)[-1])
        for _ in range(_RANDOM_GRAPHS)
    )
    padded = np.append(eigenvalues, np.nan)  # r = n has no next eigenvalue
    votes = {"eigengap": int(tried[np.abs(tried - max(1, (eigenvalues > chance).sum())).argmin()])}
    best = votes["eigengap"]
    if even:
        votes |= {name: int(tried[row.argmax()]) for name, row in zip(("blocks", "communities"), figures, strict=True)}
        likelihoods = votes["blocks"], votes["communities"]
        best = (best if best in likelihoods else max(likelihoods)) if max(best, votes["blocks"]) > 1 else 1
    return RankSelection(
        ranks=tried, best=best, votes=votes, eigenvalues=eigenvalues, chance=chance,
        eigengap=padded[tried - 1] - padded[tried], blocks=figures[0], communities=figures[1],
    )  # fmt: skip


# -- what they rest on ------------------------------------------------------------------------------------------------


def _join_down(model: BlockModel, ranks: NDArray[np.int64]) -> Floats:
    """Return both likelihoods less their penalties at each of the ranks, for each edge, joining from the largest."""
    n, volume = len(model.labels), float(model.degree.sum())
    figures = np.empty((2, len(ranks)))
    model.refine()
    for k in range(int(ranks[-1]), int(ranks[0]) - 1, -1):
        if k < len(model.size):
            gains = model.join_gains()
            r, s = np.unravel_index(gains.argmax(), gains.shape)
            model = model.joined(int(r), int(s)).refine()
        if k in ranks:
            labels = model.label_likelihood()
            blocks = model.likelihood() - 0.5 * k * (k + 1) * np.log(volume / 2)
            communities = model.community_likelihood() + labels / 2 - k * np.log(n)
            figures[:, np.searchsorted(ranks, k)] = blocks / volume, communities / volume
    return figures


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
