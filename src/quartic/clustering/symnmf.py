"""Clustering by symmetric nonnegative matrix factorisation, as a scikit-learn estimator."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from quartic.arrays import Array, RandomState, check_number, is_torch, namespace, random_generator, to_host
from quartic.arrays.checks import check_choice, check_integer
from quartic.arrays.threads import count_jobs, limited_to, one_blas_thread, share_of
from quartic.clustering.course import Course
from quartic.clustering.known import anchor, link, read_known, spread_labels
from quartic.clustering.many import start_of_many
from quartic.clustering.placing import above_noise, held_out_fit, lifted
from quartic.clustering.refinement import BlockModel, Placement
from quartic.clustering.similarity_input import (
    Similarity,
    add_nodes,
    affinity_of,
    graph_of_labels,
    labels_of,
    rows_of,
    similarity_of,
    similarity_to_fitted,
)
from quartic.core.loop import Progress, minimize
from quartic.core.problem import Problem
from quartic.core.result import Result
from quartic.core.stopping import check_estimator
from quartic.graphs.inputs import names_of
from quartic.graphs.normalization import KINDS
from quartic.init import random_start, spectral_start
from quartic.losses import LeastSquares
from quartic.losses.blocks.dask_matrix import DaskMatrix
from quartic.losses.devices import device_for, moved, to_scipy
from quartic.losses.factor.matrix import StoredMatrix
from quartic.penalties import Nonnegative, NonnegativeL1, NonnegativeRidge, Penalty
from quartic.solvers import Solver

# Of max_time, this share may go into the walks of normalize="auto".
_WALKING = 0.5

_PENALTIES: dict[str, type[NonnegativeL1 | NonnegativeRidge]] = {"l1": NonnegativeL1, "ridge": NonnegativeRidge}


@dataclass(frozen=True)
class _Fit:
    """What a fit to one matrix gives: ``blocks`` where its labels were refined, ``unmet`` where something was known."""

    M: Similarity
    result: Result
    labels: Any
    blocks: BlockModel | None
    unmet: dict[str, NDArray[np.intp]] | None


class SymNMF(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):  # type: ignore[misc]
    r"""Cluster the nodes of a graph, or samples, by symmetric nonnegative matrix factorisation.

    .. math:: \min_{X \ge 0} \; \tfrac12 \|M - XX^\top\|_F^2, \qquad X \in \mathbb{R}^{n \times r},

    with M a similarity matrix. Row i of X says how much node i belongs to each of the r clusters.

    Parameters
    ----------
    n_components : int, default=8
        r, the number of clusters.
    affinity : {"auto", "precomputed", "cosine", "self_tuning"} or callable, default="auto"
        What ``fit`` is given. ``"precomputed"``: M itself, an array, a SciPy sparse matrix, a pandas frame or a
        networkx graph. Otherwise features, of which `quartic.graphs.similarity` makes the graph: ``"cosine"`` for
        documents, ``"self_tuning"`` for images and features in general. A callable is given the features and returns
        M. ``"auto"``: what is square is M, and all else ``"self_tuning"`` features. For cross-validation of M say
        ``"precomputed"``: scikit-learn then cuts rows and columns.
    n_neighbors : int, "auto" or None, default="auto"
        For ``"cosine"`` and ``"self_tuning"``: neighbours kept per sample, including the sample itself.
        ``"auto"`` is :math:`\lfloor\log_2 n\rfloor + 1`; None keeps the full graph.
    normalize : {"auto", "regularized", "symmetric", "walks"} or None, default="auto"
        What is factorised of a graph handed in, as `quartic.graphs.normalize_graph` makes it. ``"auto"`` decides from
        the graph (`quartic.graphs.normalization.choose_normalization`), and leaves a matrix alone that is normalised
        already, has negative entries or more entries than zeros. Where it says walks, the others are tried too, and
        kept where block models find their labels likelier by more than noise, small components aside. None factorises
        what is given, as the paper does. Features, and a matrix with ``weights``, are not concerned.
    solver : str or Solver, default="auto"
        A name from `quartic.solvers.SOLVERS`, or a solver object. ``"auto"`` takes the fastest that fits.
    init : {"auto", "random", "spectral"} or array (n, r), default="auto"
        The start. ``"random"`` is the paper's, ``"spectral"`` is `quartic.init.spectral_start`, an array is a warm
        start. ``"auto"`` is spectral, which needs fewer products and ends lower (from 100 clusters on, what
        `quartic.clustering.many` makes of it), but random with weights.
    n_init : int, default=1
        Runs from different seeds; the one with the lowest objective is kept.
    tol : float, default=1e-3
        A run has converged when the norm of the projected gradient is at most ``tol`` times that at the paper's random
        start for the same seed, whatever the start was.
    max_iter : int, default=10_000
        Limit of each run, in iterations.
    max_time : float or None, default=None
        Limit of the whole fit, in seconds: one for the graph of features, all runs and all that ``normalize="auto"``
        tries. What is not begun by then is left out, and what is begun is finished: the graph, a start, an iteration,
        the labels of the best run. Walks of ``"auto"`` that take half of it are given up for ``"regularized"``.
    n_jobs : int or None, default=None
        Threads to use: runs are done at the same time, and threads left over shared among them. None: one run at a
        time, on as many threads as the environment allows. The answer does not depend on it.
    device : None, "cpu", "cuda" or another device of torch
        Where to compute. NumPy and SciPy data are moved there once, and the answer comes back as NumPy. Tensors are
        computed on where they are, and the answer is a tensor there.
    random_state : int, RandomState, Generator or None
        Seed of the starts.
    verbose : bool, default=False
        Show a progress bar.
    penalty : {"l1", "ridge"}, Penalty or None, default=None
        A penalty on X besides X ≥ 0: ``alpha`` · ΣX or ½ · ``alpha`` · ‖X‖²; or any penalty of `quartic.penalties` that
        keeps X nonnegative.
    alpha : float, default=0.0
        Weight of ``"l1"`` or ``"ridge"``.
    callback : callable or None, default=None
        Called with a `quartic.core.loop.Progress` after each iteration of each run, as in `quartic.minimize`: raising
        StopIteration ends the fit with the best result so far, as Ctrl-C does. With ``n_jobs`` it is called from
        several threads.

    Attributes
    ----------
    embedding_ : ndarray (n, r)
        X.
    labels_ : ndarray of int (n,)
        Cluster of each node: the largest entry of its row of X, the first of equals. Unless ``normalize=None``, those
        of a graph with more zeros than entries, up to 200,000 nodes, are then refined by a block model
        (`quartic.clustering.refinement`): then every node with edges has one to its cluster, unless it is all of that;
        components of at most log₂ n nodes go to the largest cluster; and large ones share no cluster where there are
        enough: then X is that of a run begun from clusters so divided.
    memberships_ : ndarray (n, r)
        Rows of X scaled to sum 1: soft memberships. A zero row (a node in no cluster) becomes uniform.
    communities_ : list of sets
        Nodes of each cluster, by name: overlapping, from what is beyond the noise.
    unmet_ : dict or None
        Of what was known, what the clusters are not: nodes whose label was not kept, under ``"labels"``, and pairs,
        under ``"must_link"`` and ``"cannot_link"``. None where nothing was known.
    affinity_matrix_ : ndarray, csr_array or Dask array (n, n)
        M, the matrix that was factorised.
    normalize_ : str or None
        What it is of the graph handed in: one of the kinds of ``normalize``; None where it is what was given.
    objective_ : float
        ½‖M − XXᵀ‖², plus the penalty.
    n_iter_ : int
        Iterations of the run kept; 1 at least, as scikit-learn has it, where the start was the answer.
    result_ : Result
        That run, with its history.
    node_names_ : ndarray (n,)
        The nodes of a networkx graph, the index of a frame, 0 … n − 1 otherwise.
    n_features_in_ : int
        Columns seen in ``fit``.
    feature_names_in_ : ndarray of str
        Their names, where they are all strings.

    Examples
    --------
    >>> from quartic import SymNMF
    >>> from quartic.datasets import karate
    >>> club = karate()
    >>> model = SymNMF(n_components=2, random_state=0).fit(club.adjacency)
    >>> model.labels_.shape, model.result_.success
    ((34,), True)

    From features, with soft memberships:

    >>> model = SymNMF(2, affinity="self_tuning", random_state=0)
    >>> labels = model.fit_predict([[0.0], [0.1], [0.2], [9.0], [9.1], [9.2]])
    >>> bool((labels[:3] == labels[0]).all() and (labels[3:] == 1 - labels[0]).all())
    True
    >>> model.memberships_.sum(axis=1)
    array([1., 1., 1., 1., 1., 1.])
    """

    embedding_: Array
    labels_: NDArray[np.intp]
    affinity_matrix_: Any
    objective_: float
    n_iter_: int
    result_: Result
    node_names_: NDArray[Any]
    normalize_: str | None
    unmet_: dict[str, NDArray[np.intp]] | None
    _affinity: Any
    _graph: Any
    _placement: Placement | None

    def __init__(
        self,
        n_components: int = 8,
        *,
        affinity: str | Callable[[Any], Any] = "auto",
        n_neighbors: int | str | None = "auto",
        solver: str | Solver = "auto",
        init: Any = "auto",
        n_init: int = 1,
        tol: float = 1e-3,
        max_iter: int = 10_000,
        max_time: float | None = None,
        normalize: str | None = "auto",
        n_jobs: int | None = None,
        device: str | None = None,
        random_state: RandomState = None,
        verbose: bool = False,
        penalty: str | Penalty | None = None,
        alpha: float = 0.0,
        callback: Callable[[Progress], object] | None = None,
    ) -> None:
        self.n_components = n_components
        self.affinity = affinity
        self.n_neighbors = n_neighbors
        self.solver = solver
        self.init = init
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.normalize = normalize
        self.n_jobs = n_jobs
        self.device = device
        self.random_state = random_state
        self.verbose = verbose
        self.penalty = penalty
        self.alpha = alpha
        self.callback = callback

    # -- fitting ----------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        must_link: Any = None,
        cannot_link: Any = None,
        strength: float = 3.0,
        weights: Any = None,
    ) -> Self:
        r"""Factorise.

        Parameters
        ----------
        X : array, sparse matrix, frame (n, n) or networkx graph; or features (n, n_features)
            The similarity matrix if ``affinity="precomputed"``, else features. A negative entry
            only pushes two nodes apart, since XXᵀ cannot be negative; some must be positive. Either may be a Dask
            array of row blocks, which stays where it is; a `quartic.losses.DaskMatrix` says how blocks are kept. Of an
            AnnData object it is ``obsp["connectivities"]``, or ``obsm["X_pca"]`` as features.
        y : array of int (n,), optional
            Known labels, 0 … n_components − 1, and −1 where unknown. Column k of X is then class k. Labels given are
            labels kept where the data allow it; ``unmet_`` tells. Whole floats are labels too, and NaN is unknown. A y
            with nothing unknown is ignored, as pipelines hand it to every step.
        must_link, cannot_link : pairs (p, 2), optional
            Nodes i, j that belong together, or do not: their numbers, or their names where those are words.
        strength : float, default=3
            Weight of what is known, relative to the data: see `quartic.clustering.known`.
        weights : sparse matrix (n, n), optional
            Where only part of M is known: symmetric, positive at the known entries. The loss is then
            :math:`\tfrac12 \sum_{ij} w_{ij} (M_{ij} - (XX^\top)_{ij})^2`; entries outside the pattern are unknown,
            may be NaN in M, and a known zero needs a weight of its own.

        Returns
        -------
        self
        """
        self._check_settings()
        check_number(strength, "strength")
        if self.n_init > 1 and not isinstance(self.init, str):
            warnings.warn(
                f"n_init = {self.n_init} runs from one and the same init array would be equal: one run is made",
                RuntimeWarning,
                stacklevel=2,
            )
        self._affinity = affinity_of(self.affinity, X, weights is None)
        return self._fit_from(self.init, self.normalize, X, weights, (y, must_link, cannot_link), strength)

    def _fit_from(
        self, start: Any, normalize: str | None, X: Any, weights: Any, said: tuple[Any, Any, Any], strength: float
    ) -> Self:
        """Fit to all matrices that are to be tried, and become what the best of them gives."""
        course = Course(self.max_time, self.callback)
        device = device_for(self.device, X)
        if device is not None and weights is not None:
            raise ValueError('weights are for device=None or "cpu" and NumPy data: on a device all of M must be known')

        def similarity(kind: str | None) -> Similarity:
            return similarity_of(self, kind, X, weights is None, device, lambda: course.has_spent(_WALKING))

        def fit_to(M: Similarity, start: Any) -> _Fit:
            return self._fit_to(M, course, device, start, X, weights, said, strength)

        with one_blas_thread():
            best = fit_to(similarity(normalize), start)
            blocks = best.blocks if isinstance(start, str) else None
            if blocks is not None and normalize == "auto" and best.M.kind == "walks":
                worth = blocks.worth() + math.sqrt(blocks.degree.sum())  # less does not tell: it is noise
                for kind in KINDS[:2]:
                    other = course.unless_over(partial(lambda kind: fit_to(similarity(kind), start), kind))
                    if other is not None and other.blocks is not None and other.blocks.worth() > worth:
                        best, blocks, worth = other, other.blocks, other.blocks.worth()
            apart = None if blocks is None or best.unmet is not None else blocks.with_components_apart()
            if apart is not None and apart is not blocks:
                X0 = LeastSquares(to_scipy(best.M.matrix)).best_scale(np.eye(self.n_components)[apart.labels])
                best = course.unless_over(lambda: fit_to(best.M, lifted(X0))) or best
        result = best.result
        if course.ended is not None:
            status, message = course.ended
            result = replace(result, status=status, message=message)
        self.embedding_, self.labels_, self.unmet_ = result.X, best.labels, best.unmet
        self.objective_, self.n_iter_, self.result_ = result.objective, max(result.n_iter, 1), result
        self.affinity_matrix_, self.normalize_, self._graph = best.M
        self.node_names_ = names_of(X, len(result.X))
        self._placement = None if best.blocks is None else Placement(best.blocks, to_scipy(self.affinity_matrix_))
        self._n_features_out = self.n_components
        self._features = None if self._affinity == "precomputed" else X
        if not result.success:
            warnings.warn(f"SymNMF did not converge: {result.message}", ConvergenceWarning, stacklevel=3)
        return self

    def _fit_to(
        self,
        S: Similarity,
        course: Course,
        device: Any,
        start: Any,
        X: Any,
        weights: Any,
        said: tuple[Any, Any, Any],
        strength: float,
    ) -> _Fit:
        """Return the best run on one matrix, and its labels refined."""
        M, penalty = S.matrix, self._penalty()
        loss = LeastSquares(M if device is None or isinstance(M, StoredMatrix) else moved(M, device), weights=weights)
        n = loss.n_points
        if self.n_components > n:
            raise ValueError(f"n_components = {self.n_components} must be at most the number of nodes, n_samples = {n}")
        known = read_known(*said, names_of(X, n), self.n_components)
        if known is not None and (device is not None or weights is not None or isinstance(M, DaskMatrix)):
            raise TypeError("labels and links are for matrices in memory, without weights; leave them out")
        if known is None and not is_torch(X):  # what came as NumPy goes back as such
            M = to_scipy(M)
        S = S._replace(matrix=M.M if isinstance(M, DaskMatrix | StoredMatrix) else M)
        graph = None if weights is not None or self.normalize is None else graph_of_labels(S)

        def refined(labels: Any, fixed: Any = ()) -> BlockModel:
            return BlockModel(graph, labels, self.n_components, levels=S.kind is not None).refine(fixed)

        def problem() -> Problem:
            # A loss of its own for each run: constants that one run works out would otherwise be free for the next.
            return Problem(LeastSquares(loss.matrix) if weights is None else LeastSquares(M, weights=weights), penalty)

        if known is None:
            begin = "random" if weights is not None and isinstance(start, str) and start == "auto" else start
            best = self._best_run(course, problem, begin)
            best = best if is_torch(X) else replace(best, X=to_host(best.X))
        else:
            linked = link(M, known, strength)
            best = self._best_run(course, lambda: Problem(LeastSquares(linked), penalty), start)
            if (known.labels >= 0).any():
                clusters = best.X.argmax(axis=1)
                clusters = clusters if graph is None else refined(clusters).labels
                P = spread_labels(linked, None if S.kind is None else graph, known, clusters, self.n_components)
                more, begin = anchor(linked, P, strength)
                best = self._best_run(course, lambda: Problem(LeastSquares(more), penalty), begin)
                best = replace(best, X=best.X[:n])
        labels, blocks = best.X.argmax(axis=1), None
        if graph is not None:
            blocks = refined(to_host(labels), () if known is None else known.nodes())
            labels = moved(blocks.labels, labels.device) if is_torch(X) else blocks.labels
        return _Fit(S, best, labels, blocks, None if known is None else known.unmet(labels))

    def fit_transform(self, X: Any, y: Any = None, **known: Any) -> Any:
        """Factorise, and return ``embedding_``; parameters as in `fit`."""
        return self.fit(X, y, **known).embedding_

    def transform(self, X: Any) -> Any:
        r"""Place new nodes among the fitted ones, whose rows of the factor stay.

        .. math:: y_i = \operatorname{argmin}_{y \ge 0} \|s_i - y X^\top\|^2

        with s_i the similarities of node i, normalised as those of the fit were; of a node that walks, the mean of its
        neighbours' rows of M. The graph of the fit gives ``embedding_`` itself.

        Parameters
        ----------
        X : array or sparse matrix (m, n); or features (m, n_features)
            Similarities, or weights of edges, of m nodes to the n fitted ones if ``affinity="precomputed"``, else
            features. With m columns more, those to each other, of which `predict` makes use.

        Returns
        -------
        ndarray (m, n_components)
        """
        check_is_fitted(self)
        with one_blas_thread():
            return rows_of(self, X)

    def predict(self, X: Any) -> NDArray[np.intp]:
        """Return the clusters of new nodes; parameters as in `transform`.

        Where ``labels_`` were refined, edges to nodes of these labels decide (`quartic.clustering.refinement`), and
        with the edges among new nodes the labels of the whole graph are refined from there; else the largest entry of
        the row that `transform` finds.
        """
        check_is_fitted(self)
        with one_blas_thread():
            return labels_of(self, X)

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Add nodes to those fitted, and go on from where they are placed; the first call is a `fit`.

        Parameters
        ----------
        X : array or sparse matrix (m, n + m); or features (m, n_features)
            Similarities, or weights of edges, of m new nodes to the n fitted ones and to each other if
            ``affinity="precomputed"``, else features. A graph (n, n) has other edges for the nodes fitted.
        y : ignored
        """
        if not hasattr(self, "embedding_"):
            return self.fit(X)
        whole, rows = add_nodes(self, X)
        self._check_settings()
        start = lifted(np.vstack([to_host(self.embedding_), rows]))
        normalize = self.normalize_ if self._affinity == "precomputed" else self.normalize
        whole = moved(whole, X.device) if is_torch(X) else whole
        return self._fit_from(start, normalize, whole, None, (None, None, None), 1.0)

    def score(self, X: Any, y: Any = None) -> float:
        """Return how well the similarities of new nodes to the fitted ones are predicted: at most 1, higher is better.

        Half of a node's similarities place it, and the other half is predicted (`quartic.clustering.placing`). This is
        what `sklearn.model_selection.GridSearchCV` maximises; `quartic.select_rank` looks at more than one criterion.

        Parameters
        ----------
        X : array or sparse matrix (m, n); or features (m, n_features)
            Similarities of m nodes to the n fitted ones if ``affinity="precomputed"``, else features, of which the
            graph of old and new samples together is made.
        y : ignored
        """
        check_is_fitted(self)
        with one_blas_thread():
            return held_out_fit(similarity_to_fitted(self, X), to_host(self.embedding_))

    @property
    def memberships_(self) -> Array:
        """Rows of ``embedding_`` scaled to sum 1; zero rows are uniform."""
        check_is_fitted(self)
        # The largest entry first: the sum of a row may over- or underflow where the row itself does not.
        xp, X = namespace(self.embedding_), self.embedding_
        largest = xp.amax(X, 1, keepdims=True)
        rows = xp.where(largest > 0, X / xp.where(largest > 0, largest, 1.0), 1.0)
        memberships: Array = rows / rows.sum(axis=1, keepdims=True)
        return memberships

    @property
    def communities_(self) -> list[set[Any]]:
        r"""Nodes of each cluster, by name; a node may be in several, or in none.

        Node i is in cluster k where :math:`X_{ik}` is beyond what noise makes of a zero: row i of X is the
        least-squares fit of row i of M, so that its errors are :math:`\sigma_i \sqrt{(X^\top X)^{-1}_{kk}}`, with
        :math:`\sigma_i^2` the mean square of the row's residual; of n · r such errors the largest is about
        :math:`\sqrt{2 \log nr}` of them. Where an edge or two make a small entry, which is no noise, it must also be
        0.15 of a member's, :math:`\sum_j X_{jk}^3 / \sum_j X_{jk}^2`.
        """
        check_is_fitted(self)
        names = self.node_names_
        inside = above_noise(to_scipy(self.affinity_matrix_), to_host(self.embedding_))
        return [set(names[column].tolist()) for column in inside.T]

    def _best_run(self, course: Course, problem: Callable[[], Problem], start: Any) -> Result:
        n_runs = self.n_init if isinstance(start, str) else 1

        def run(seed: int, callback: Callable[[Progress], object] | None) -> Result:
            left, begin = course.left(), start
            if isinstance(start, str):
                many = partial(start_of_many, tol=self.tol, max_time=left)
                begin = {"random": None, "spectral": spectral_start, "auto": many}[start]
            with limited_to(share_of(self.n_jobs, n_runs)):
                return minimize(
                    problem(),
                    begin,
                    rank=self.n_components,
                    solver=self.solver,
                    tol=self.tol,
                    reference=None if begin is None else random_start,
                    max_iter=self.max_iter if course.ended is None else 0,
                    max_time=left,
                    random_state=seed,
                    verbose=bool(self.verbose),
                    callback=callback,
                )

        # Seeds are drawn before any run, one by one, so that more runs or jobs leave the first ones as they were.
        generator = random_generator(self.random_state)
        seeds = [int(generator.integers(2**63)) for _ in range(n_runs)]
        jobs = 1 if self.n_jobs is None else min(count_jobs(self.n_jobs), n_runs)
        return min(course.make(run, seeds, jobs), key=lambda result: result.objective)

    # -- figures ----------------------------------------------------------------------------------------------------

    def plot_similarity(self, ax: Any = None) -> Any:
        """Draw M with rows and columns ordered by cluster (matplotlib); of many nodes a sample. Returns the axes."""
        from quartic import plots

        check_is_fitted(self)
        return plots.similarity(to_scipy(self.affinity_matrix_), to_host(self.labels_), ax)

    def plot_memberships(self, ax: Any = None) -> Any:
        """Draw how much each node belongs to each cluster (matplotlib). Returns the axes."""
        from quartic import plots

        return plots.memberships(to_host(self.memberships_), ax, to_host(self.labels_))

    def _check_settings(self) -> None:
        """Raise a ValueError that names the first setting that makes no sense."""
        check_estimator(self)
        if self.n_neighbors is not None and not (isinstance(self.n_neighbors, str) and self.n_neighbors == "auto"):
            check_integer(self.n_neighbors, "n_neighbors", 1, ', or "auto", or None for a full graph')
        check_number(self.alpha, "alpha", zero=True)
        check_choice(
            self.affinity, "affinity", ("auto", "precomputed", "cosine", "self_tuning"), callable(self.affinity)
        )
        check_choice(self.normalize, "normalize", ("auto", *KINDS), self.normalize is None)
        check_choice(self.init, "init", ("auto", "random", "spectral"), not isinstance(self.init, str))
        check_choice(self.penalty, "penalty", _PENALTIES, isinstance(self.penalty, Penalty | None))

    def _penalty(self) -> Penalty:
        if isinstance(self.penalty, Penalty) and not self.penalty.nonnegative:
            raise ValueError(
                f"SymNMF keeps X ≥ 0, but the penalty {self.penalty!r} does not; use NonnegativeL1, NonnegativeRidge, "
                'or penalty="l1" or "ridge"'
            )
        if self.penalty is None or isinstance(self.penalty, Penalty):
            if self.alpha > 0:
                raise ValueError(
                    f'alpha = {self.alpha} is the weight of penalty="l1" or "ridge", but penalty is {self.penalty!r}'
                )
            return self.penalty or Nonnegative()
        return _PENALTIES[self.penalty](self.alpha) if self.alpha > 0 else Nonnegative()

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.affinity == "precomputed"
        return tags
