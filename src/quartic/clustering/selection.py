"""How many clusters? Three answers from the data, and one rule that makes them one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Literal, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from quartic.arrays import Array, RandomState, random_generator
from quartic.arrays.threads import limited_to, one_blas_thread, share_of
from quartic.core.loop import minimize
from quartic.core.problem import Problem
from quartic.core.start import StartStrategy
from quartic.graphs import as_adjacency, normalize_graph
from quartic.graphs.normalization import choose_normalization
from quartic.init import random_start, spectral_start
from quartic.losses import LeastSquares
from quartic.metrics import ari
from quartic.penalties import Nonnegative
from quartic.solvers import Solver

Floats: TypeAlias = NDArray[np.float64]
Labels: TypeAlias = NDArray[np.intp]

# Up to this size all eigenvalues are cheaper, and safer, than Lanczos.
_DENSE = 300
# Nodes whose consensus matrix is looked at as a whole.
_SAMPLE = 300
# Up to this size a graph is taken as it is: what regularisation adds is as much as what there is to see.
_SMALL = 100
# Random graphs whose spectrum is chance.
_RANDOM_GRAPHS = 3
# Stabilities this close are taken as equal.
_TIE = 0.01


@dataclass(frozen=True)
class RankSelection:
    """What `select_rank` found: one entry of each array for each of ``ranks``.

    Attributes
    ----------
    ranks : array of int
        Ranks tried, rising.
    best : int
        The rank chosen: the median of ``votes``.
    votes : dict
        The rank each criterion prefers: ``"eigengap"``, ``"stability"``, ``"held_out"``.
    eigenvalues : array (max(ranks) + 1,)
        Leading eigenvalues of the regularised graph, falling.
    chance : float
        The second largest eigenvalue of random graphs with the same degrees: what is above is structure.
    eigengap : array
        λ_r − λ_{r+1}.
    stability : array
        Mean adjusted Rand index between the clusterings of any two runs; NaN for r = 1.
    cophenetic : array
        Cophenetic correlation of the runs' consensus matrix; NaN for r = 1.
    held_out, held_out_se : array
        Mean and standard error of the held-out error over the runs.
    held_out_errors : array (n_ranks, n_runs)
        The error of each run; a column shares its held-out entries.

    Examples
    --------
    >>> from quartic import select_rank
    >>> from quartic.datasets import planted_graph
    >>> M, _ = planted_graph(200, 3, random_state=0)
    >>> found = select_rank(M, range(2, 5), n_runs=3, random_state=0)
    >>> found.best, found.votes
    (3, {'eigengap': 3, 'stability': 3, 'held_out': 3})
    >>> print(found.table())  # doctest: +SKIP
    """

    ranks: NDArray[np.int64]
    best: int
    votes: dict[str, int]
    eigenvalues: Floats = field(repr=False)
    chance: float
    eigengap: Floats = field(repr=False)
    stability: Floats = field(repr=False)
    cophenetic: Floats = field(repr=False)
    held_out: Floats = field(repr=False)
    held_out_se: Floats = field(repr=False)
    held_out_errors: Floats = field(repr=False)

    def table(self) -> str:
        """Return the figures as text, a line for each rank, the best one marked."""
        lines = ["  rank   eigengap  stability  cophenetic  held-out error"]
        for at, rank in enumerate(self.ranks):
            mark = "*" if rank == self.best else " "
            lines.append(
                f"{mark} {rank:4d} {self.eigengap[at]:10.4g} {self.stability[at]:10.3f} {self.cophenetic[at]:11.3f}"
                f" {self.held_out[at]:10.4f} ± {self.held_out_se[at]:.4f}"
            )
        return "\n".join(lines)

    def plot(self) -> Any:
        """Draw eigenvalues, stability and held-out error against the rank, and return the figure.

        It is pyplot's current one: ``plt.show()`` shows it, ``plt.savefig(…)`` writes it.
        """
        from quartic.plots import new_figure

        figure = new_figure(size=(11, 3.2))
        spectrum, stability, held_out = figure.subplots(1, 3)
        spectrum.plot(np.arange(1, len(self.eigenvalues) + 1), self.eigenvalues, "o-", color="C0")
        spectrum.axhline(self.chance, color="0.7", linestyle="--", zorder=0)
        spectrum.set(title="Eigenvalues", ylabel="λ")
        stability.plot(self.ranks, self.stability, "o-", color="C0", label="adjusted Rand index")
        stability.plot(self.ranks, self.cophenetic, "s--", color="C1", label="cophenetic correlation")
        stability.set(title="Stability over seeds", ylim=(min(0.0, np.nanmin(self.stability, initial=0.0)), 1.05))
        stability.legend(fontsize="small")
        held_out.errorbar(self.ranks, self.held_out, self.held_out_se, fmt="o-", color="C0", capsize=3)
        held_out.set(title="Held-out error", ylabel="share of ‖M‖²")
        for axes, vote in zip((spectrum, stability, held_out), self.votes.values(), strict=True):
            axes.axvline(vote, color="0.7", linestyle=":", zorder=0)
            axes.axvline(self.best, color="C3", alpha=0.4, zorder=0)
            axes.set_xlabel("rank")
            axes.xaxis.get_major_locator().set_params(integer=True)
        return figure


@one_blas_thread()
def select_rank(
    M: Any,
    ranks: Iterable[int],
    *,
    n_runs: int = 10,
    held_out: float = 0.1,
    normalize: Literal["auto", "regularized", "symmetric", "walks"] | None = "auto",
    solver: str | Solver = "auto",
    tol: float = 1e-2,
    max_iter: int = 1000,
    n_jobs: int | None = None,
    random_state: RandomState = None,
) -> RankSelection:
    r"""Look for the number of clusters of a similarity matrix or graph.

    Three criteria, each of which prefers a rank r among ``ranks``:

    - **eigengap**: how many eigenvalues are larger than the second largest of a random graph with the same degrees and
      weights (the largest of three such graphs);
    - **stability**: ``n_runs`` symmetric NMFs of M from random starts. A wrong number of clusters can be had in several
      ways, which different starts find. Measured by the mean adjusted Rand index between two runs; the largest rank
      within 0.01 of the best is preferred. The cophenetic correlation of the consensus matrix (the share of runs that
      put i and j together; Brunet et al. 2004) of at most 300 nodes drawn at random is reported beside it.
    - **held-out error**: ``n_runs`` times, a share p of the pairs i < j is held out and M without them is factorised;
      the smallest rank is preferred whose error is within one standard error of the least (of their differences, run
      by run: all ranks see the same pairs).

    ``best`` is the median of the three: what two of them agree on, else the one between the others. Where ``votes``
    differ, look at the figures: clusters much smaller than the rest are easily missed, and nested ones have several
    right answers. Graphs of more than 100 nodes are normalised first, as `quartic.SymNMF` does; where it would take
    walks, the held-out error is that of the regularised matrix, whose entries say nothing about each other. Eigenvalues
    are always those of the regularised matrix, unless weights are negative.

    Parameters
    ----------
    M : array, sparse matrix, frame or networkx graph (n, n)
        Symmetric. Memory is of the order of its nonzeros and n · max(ranks).
    ranks : iterable of int
        Ranks to try.
    n_runs : int, default=10
        Runs for stability, and as many for the held-out error; at least 2.
    held_out : float, default=0.1
        p.
    normalize : {"auto", "regularized", "symmetric", "walks"} or None
        As in `quartic.graphs.normalize_graph`.
    solver, tol, max_iter
        As in `quartic.minimize`. Labels settle long before the gradient does: a rough tol is enough.
    n_jobs : int or None
        Runs done at the same time, in threads. The answer does not depend on it.
    random_state : int, Generator, RandomState or None
        Seed.

    Returns
    -------
    RankSelection

    Notes
    -----
    Zeros are data too, and there are too many to list those held out. Held-out pairs are therefore set to zero and the
    others divided by 1 − p (the diagonal stays), after Li, Levina and Zhu (2020), "Network cross-validation by edge
    sampling": what is factorised has M as its mean and does not depend on *which* zeros were held out. Given X, the
    mean error over the held-out zeros is then p times that over all zeros, which needs no list either. With H the held
    out pairs i < j whose M_ij is stored, S all those stored, and Y = XXᵀ,

    .. math:: e = \frac{\sum_H (M_{ij} - Y_{ij})^2 + p \bigl(\sum_{i<j} Y_{ij}^2 - \sum_S Y_{ij}^2\bigr)}
                       {p \sum_S M_{ij}^2}, \qquad
              2 \sum_{i<j} Y_{ij}^2 = \|X^\top X\|_F^2 - \sum_i \|x_i\|^4.

    Examples
    --------
    >>> from quartic import select_rank
    >>> from quartic.datasets import karate
    >>> select_rank(karate().adjacency, range(2, 6), random_state=0).best
    2
    """
    from joblib import Parallel, delayed

    given = as_adjacency(M)
    kind = choose_normalization(given) if normalize == "auto" else normalize
    if normalize == "auto" and given.shape[0] <= _SMALL:
        kind = None
    whole = normalize_graph(given, kind)  # a copy: what clusters are looked for in
    A = normalize_graph(given, "regularized") if kind == "walks" else whole
    tried = _checked_ranks(ranks, A.shape[0])
    if isinstance(n_runs, bool) or not isinstance(n_runs, int | np.integer) or n_runs < 2:
        raise ValueError(f"n_runs must be an integer of at least 2, got {n_runs!r}")
    if not 0 < held_out < 1:
        raise ValueError(f"held_out must lie strictly between 0 and 1, got {held_out!r}")
    pairs = _Pairs(A)
    generator = random_generator(random_state)
    seeds = [int(seed) for seed in generator.integers(2**63, size=2 * n_runs)]
    even: Literal["regularized"] | None = None if given.nnz and given.data.min() < 0 else "regularized"
    if kind is None and even and 2 * given.nnz <= given.shape[0] ** 2:
        given.data[:] = 1.0  # the weights of a normalised graph follow its degrees, and those are kept anyway
    eigenvalues = _leading_eigenvalues(normalize_graph(given, even), int(tried[-1]) + 1, generator)
    chance = max(
        float(_leading_eigenvalues(normalize_graph(_rewired(given, generator), even), 2, generator)[-1])
        for _ in range(_RANDOM_GRAPHS)
    )

    def factor(matrix: sp.csr_array, rank: int, start: StartStrategy, seed: int) -> Array:
        with limited_to(share_of(n_jobs, 2 * n_runs)):
            return minimize(
                Problem(LeastSquares(matrix), Nonnegative()), start, rank=rank, reference=random_start, solver=solver,
                tol=tol, max_iter=max_iter, random_state=seed,
            ).X  # fmt: skip

    def cluster(seed: int) -> list[Labels]:
        return [factor(whole, int(rank), random_start, seed).argmax(axis=1) for rank in tried]

    def predict(seed: int) -> list[float]:
        held = pairs.draw(held_out, np.random.default_rng(seed))
        rest = pairs.without(held, held_out)
        return [pairs.error(factor(rest, int(rank), spectral_start, seed), held, held_out) for rank in tried]

    # n_runs clusterings, then n_runs predictions, each of all ranks; the seeds are drawn, so order is of no account.
    jobs = [delayed(cluster)(seed) for seed in seeds[:n_runs]] + [delayed(predict)(seed) for seed in seeds[n_runs:]]
    answers = Parallel(n_jobs=n_jobs, require="sharedmem")(jobs)
    errors = np.array(answers[n_runs:]).T
    runs = [np.array(labels) for labels in zip(*answers[:n_runs], strict=True)]
    sample = generator.permutation(A.shape[0])[:_SAMPLE]
    stability = np.array([_agreement(labels) for labels in runs])
    cophenetic = np.array([_cophenetic(labels[:, sample]) for labels in runs])
    stability[tried == 1] = cophenetic[tried == 1] = np.nan  # one cluster is always the same
    padded = np.append(eigenvalues, np.nan)  # r = n has no next eigenvalue
    eigengap = padded[tried - 1] - padded[tried]
    votes = {
        "eigengap": int(tried[np.abs(tried - max(1, (eigenvalues > chance).sum())).argmin()]),
        "stability": _most_stable(tried, stability),
        "held_out": _best_prediction(tried, errors),
    }
    return RankSelection(
        ranks=tried, best=int(np.median(list(votes.values()))), votes=votes, eigenvalues=eigenvalues,
        chance=chance, eigengap=eigengap, stability=stability, cophenetic=cophenetic, held_out=errors.mean(axis=1),
        held_out_se=errors.std(axis=1, ddof=1) / np.sqrt(n_runs), held_out_errors=errors,
    )  # fmt: skip


# -- the three votes --------------------------------------------------------------------------------------------------


def _most_stable(ranks: NDArray[np.int64], stability: Floats) -> int:
    if np.isnan(stability).all():  # only r = 1 was tried
        return int(ranks[-1])
    return int(ranks[np.flatnonzero(stability >= np.nanmax(stability) - _TIE)[-1]])


def _best_prediction(ranks: NDArray[np.int64], errors: Floats) -> int:
    excess = errors - errors[errors.mean(axis=1).argmin()]
    doubt = excess.std(axis=1, ddof=1) / np.sqrt(errors.shape[1])
    return int(ranks[np.flatnonzero(excess.mean(axis=1) <= doubt)[0]])


# -- what they rest on ------------------------------------------------------------------------------------------------


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


def _agreement(labels: NDArray[np.intp]) -> float:
    """Return the mean adjusted Rand index of any two rows: exact, in memory r²."""
    return float(np.mean([ari(one, other) for one, other in combinations(labels, 2)]))


def _cophenetic(labels: NDArray[np.intp]) -> float:
    """Return how well average linkage fits the consensus of the rows."""
    from scipy.cluster.hierarchy import cophenet, linkage

    i, j = np.triu_indices(labels.shape[1], 1)
    apart = 1 - (labels[:, i] == labels[:, j]).mean(axis=0)
    if len(apart) < 2 or np.ptp(apart) == 0:  # one cluster for all, or none: nothing left open
        return 1.0
    return float(cophenet(linkage(apart, method="average"), apart)[0])


class _Pairs:
    """The stored entries of M above the diagonal, and what is held out of them."""

    def __init__(self, A: sp.csr_array) -> None:
        upper = sp.coo_array(sp.triu(A, k=1))
        self.i, self.j, self.value = upper.row, upper.col, upper.data
        self.diagonal = sp.diags_array(A.diagonal(), format="csr")
        self.shape = A.shape
        if len(self.value) == 0:
            raise ValueError("M is zero off its diagonal: no node has to do with another, and there are no clusters")

    def draw(self, share: float, generator: np.random.Generator) -> NDArray[np.bool_]:
        """Return which stored pairs are held out."""
        held = generator.random(len(self.value)) < share
        if not held.any():  # a tiny graph
            held[generator.integers(len(held))] = True
        return held

    def without(self, held: NDArray[np.bool_], share: float) -> sp.csr_array:
        """Return M without the pairs held out, the others scaled so that its mean is M."""
        kept = ~held
        upper = sp.csr_array((self.value[kept] / (1 - share), (self.i[kept], self.j[kept])), shape=self.shape)
        return sp.csr_array(upper + upper.T + self.diagonal)

    def error(self, X: Array, held: NDArray[np.bool_], share: float) -> float:
        """Return the held-out error of XXᵀ, relative to the size of M."""
        product = np.empty(len(self.value))
        for first in range(0, len(product), 1 << 16):  # blocks: rows of X gathered for all pairs would outweigh M
            part = slice(first, first + (1 << 16))
            product[part] = np.einsum("ik,ik->i", X[self.i[part]], X[self.j[part]])
        squares = (np.linalg.norm(X.T @ X) ** 2 - (np.einsum("ik,ik->i", X, X) ** 2).sum()) / 2
        zeros = max(squares - (product**2).sum(), 0.0)
        seen = ((self.value[held] - product[held]) ** 2).sum()
        return float((seen + share * zeros) / (share * (self.value**2).sum()))


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
