"""From a few distances to coordinates, as a scikit-learn estimator."""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from quartic.arrays import Array, RandomState, random_generator
from quartic.datasets import pair_distances
from quartic.distributed.inputs import is_dask_array, is_dask_frame
from quartic.estimators.devices import device_for
from quartic.estimators.inputs import refuse_not_finite
from quartic.estimators.other_units import fit_in_other_units
from quartic.locating import checks as checks
from quartic.locating.complete import all_determined, complete_rmse, sample_of, scaled_and_fitted
from quartic.locating.frame import checked_signs, checked_targets, moved_onto
from quartic.locating.input import (
    Measurements,
    from_matrix,
    from_pairs,
    is_complete,
    known_entries,
    power_of_distances,
)
from quartic.locating.linked import components_of, with_anchor_pairs
from quartic.locating.part import Effort, Part
from quartic.locating.placing import Known, placed
from quartic.locating.polish import polished
from quartic.locating.search import locate
from quartic.locating.uncertainty import errors_of_points
from quartic.losses import Distances
from quartic.losses.dask_distances import DaskDistances
from quartic.ops.threads import limited_to, share_of
from quartic.result import Result, Status
from quartic.rigidity import Determination, assess
from quartic.solvers import Solver

_STARTS = ("auto", "random", "mds", "landmark", "eigenmap", "relaxed")
# From so many points on a complete matrix is read in place.
_MATRIX_FROM = 400
# Of pairs in chunks so many a point are brought here to begin with.
_PAIRS_EACH = 60.0


class DistanceCompletion(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    r"""Find points from some of the distances between them.

    .. math:: \min_X \; \tfrac12 \sum_{(i,j)\in\Omega} w_{ij} \bigl(\|x_i - x_j\|^2 - d_{ij}^2\bigr)^2,
              \qquad X \in \mathbb{R}^{n \times r},

    and, for a pair of which only bounds :math:`l \le d \le u` are known,
    :math:`\tfrac12 w (\max(0, q - u^2)^2 + \max(0, l^2 - q)^2)` with :math:`q = \|x_i - x_j\|^2`.

    Parameters
    ----------
    n_components : int, default=3
        r, the dimension of the space.
    metric : {"precomputed", "euclidean"}, default="precomputed"
        What `fit` is given: distances, or features, whose Euclidean distances are all known.
    solver : str or Solver, default="auto"
        A name from `quartic.solvers.SOLVERS`, or a solver object. ``"auto"`` is Levenberg–Marquardt.
    init : {"auto", "random", "mds", "landmark", "eigenmap", "relaxed"} or array (n, r), default="auto"
        The start: random; scaling of shortest paths, between all points or from 50 landmarks; Laplacian eigenmap;
        random in two dimensions more; or the points given. ``"auto"`` tries cheap ones first, looks at the fit, and
        goes on where it is bad (see Notes); ``start_`` says what it did.
    n_init : int, default=1
        Searches with different seeds; the lowest is kept. They end with the first that meets all distances.
    tol : float, default=1e-8
        A run has converged when the norm of the gradient is at most ``tol`` times that at a random start.
    max_iter, max_time : int, float or None
        Limits: iterations of a run, seconds of the whole search.
    n_jobs : int or None, default=None
        Threads to use: searches are done at the same time, and threads left over shared among them. None: one search
        at a time, on as many threads as the environment allows. The answer does not depend on it.
    device : None, "cpu", "cuda" or another device of torch
        Where the runs are made. The distances are moved there once, and points come back as NumPy. Runs with bounds or
        anchors, complete matrices, and what decides which points are determined, stay on the CPU.
    random_state : int, RandomState, Generator or None
        Seed.
    verbose : bool, default=False
        Show a progress bar.
    align_to : array (n, r) or dict, default=None
        Points, or some of them (NaN rows, or ``{index: coordinates}``), onto which the answer is moved and reflected.
    signs : array (k, r + 2), default=None
        Which mirror image: rows of r + 1 points and the sign of :math:`\det(x_1 - x_0, \dots, x_r - x_0)`. Distances
        cannot tell left from right; without this, anchors or ``align_to`` both images fit, and ``chirality_`` says so.
    refine : {None, "stress"}, default=None
        ``"stress"``: from the answer minimise :math:`\tfrac12\sum w_{ij}(\|x_i - x_j\| - d_{ij})^2` too, which serves
        noisy distances better.
    noise : float, default=None
        Standard deviation of the noise on the distances, for ``standard_errors_``; estimated from the residuals when
        left out.

    Attributes
    ----------
    embedding_ : ndarray (n, r)
        The points. Anchors are exactly where they were said to be. Without anchors and ``align_to``: centred, along
        principal axes, in each the largest coordinate positive; components that no distance links lie side by side.
    rmse_ : float
        Root mean square of :math:`\|x_i - x_j\| - d_{ij}` over the known pairs, in the data's units; for a pair with
        bounds, of by how much it leaves them.
    determined_ : ndarray of bool (n,)
        False where the data cannot fix a point. See `quartic.rigidity.assess`.
    determination_ : Determination
        The whole account: components, rigid parts, flips; ``summary()`` in words.
    component_ : ndarray of int (n,)
        The component of each point, 0 for the largest; different ones are not linked by distances.
    chirality_ : str
        What decides between the two mirror images.
    start_ : str
        What was tried, in words.
    n_iter_ : int
        Iterations, those of starts included.
    result_ : Result
        The last run.
    n_features_in_ : int
        Columns seen in `fit`.

    Notes
    -----
    ``"auto"`` begins with shortest paths from landmarks where only near points are linked, and at random where pairs
    are. A fit that leaves residuals is shaken into one or two dimensions more and brought back: pieces that lie on
    their wrong side turn over there. Then points that fit badly are placed anew one at a time. It goes on to other
    starts while some distances are missed by far more than the others, which noise does not do; at last small pieces
    are reflected, scattered or lifted again and again. Measured by ``benchmarks/distance_acceptance.py``.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic import DistanceCompletion
    >>> from quartic.datasets import helix, pair_distances, random_pairs
    >>> points = helix(200, random_state=0)
    >>> pairs = random_pairs(200, 0.2, random_state=0)
    >>> model = DistanceCompletion(random_state=0).fit_pairs(pairs, pair_distances(points, pairs))
    >>> model.rmse_ < 1e-8, bool(model.determined_.all())
    (True, True)

    A matrix with NaN where a distance is unknown, and anchors:

    >>> D = np.array([[0, 1, 1, np.nan], [1, 0, np.nan, 1], [1, np.nan, 0, 1], [np.nan, 1, 1, 0]])
    >>> corners = {0: [0.0, 0.0], 1: [1.0, 0.0], 2: [0.0, 1.0]}
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")      # two distances leave point 3 two places
    ...     model = DistanceCompletion(2, random_state=0).fit(D, anchors=corners)
    >>> model.determined_
    array([ True,  True,  True, False])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "metric": [StrOptions({"precomputed", "euclidean"})],
        "solver": [str, Solver],
        "init": [StrOptions(set(_STARTS)), "array-like"],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "n_jobs": [Integral, None],
        "device": [str, None],
        "random_state": ["random_state", np.random.Generator, np.random.SeedSequence],
        "verbose": ["verbose"],
        "align_to": ["array-like", dict, None],
        "signs": ["array-like", None],
        "refine": [StrOptions({"stress"}), None],
        "noise": [Interval(Real, 0, None, closed="neither"), None],
    }

    _standard_errors: Array | None
    embedding_: Array
    rmse_: float
    determined_: NDArray[np.bool_]
    determination_: Determination
    component_: NDArray[np.int64]
    chirality_: str
    start_: str
    n_iter_: int
    result_: Result

    def __init__(
        self,
        n_components: int = 3,
        *,
        metric: str = "precomputed",
        solver: str | Solver = "auto",
        init: Any = "auto",
        n_init: int = 1,
        tol: float = 1e-8,
        max_iter: int = 10_000,
        max_time: float | None = None,
        n_jobs: int | None = None,
        device: str | None = None,
        random_state: RandomState = None,
        verbose: bool = False,
        align_to: Any = None,
        signs: Any = None,
        refine: str | None = None,
        noise: float | None = None,
    ) -> None:
        self.n_components = n_components
        self.metric = metric
        self.solver = solver
        self.init = init
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.n_jobs = n_jobs
        self.device = device
        self.random_state = random_state
        self.verbose = verbose
        self.align_to = align_to
        self.signs = signs
        self.refine = refine
        self.noise = noise

    # -- fitting ----------------------------------------------------------------------------------------------------

    def fit(
        self, D: Any, y: Any = None, *, anchors: Any = None, weights: Any = None, lower: Any = None, upper: Any = None
    ) -> Self:
        """Find the points.

        Parameters
        ----------
        D : array or sparse matrix (n, n); or features (n, n_features)
            Distances (not squares): symmetric, NaN where unknown; of a sparse matrix the stored entries are known. One
            side of the diagonal is enough. Features if ``metric="euclidean"``.
        y : ignored
        anchors : dict, optional
            ``{index: coordinates}`` of points whose coordinates are known.
        weights : matrix (n, n) or "noise", optional
            Weights of the pairs; ``"noise"`` is w = 1/(δ + 0.01·mean δ), δ = d², for noise that goes with the distance.
        lower, upper : matrix (n, n), optional
            Bounds on the distances, NaN (or not stored) where there is none. For a pair that has bounds these are kept,
            and its entry of D is only where the search begins.

        Returns
        -------
        self
        """
        self._prepare()
        D = self._validated(D, reset=True)
        nothing_else = all(given is None for given in (anchors, weights, lower, upper, self.refine))
        large = D.shape[0] >= _MATRIX_FROM and self._may_scale()
        if nothing_else and large and is_complete(D) and not power_of_distances(D[0], D[0]):
            return self._fit_complete(D)
        return self._fit(from_matrix(D, weights, lower, upper, anchors, self.n_components))

    def fit_pairs(
        self,
        pairs: Any,
        distances: Any = None,
        *,
        n_points: int | None = None,
        weights: Any = None,
        lower: Any = None,
        upper: Any = None,
        anchors: Any = None,
    ) -> Self:
        """Find the points from a list of pairs.

        Parameters
        ----------
        pairs : int array (m, 2)
            The pairs (i, j), counted from 0, in any order. A Dask array, or a Dask dataframe whose first two columns
            are the ends, stays in its chunks: points are found from some 60 pairs each, brought here, and then fitted
            to all; what those few determine, all do. Each pair may stand there once, and bounds are not taken.
        distances : array (m,), optional
            Their distances (not squares); NaN where only bounds are known. Of a dataframe: a column, or its name.
        n_points : int, optional
            The number of points; the largest index + 1 when left out.
        weights : array (m,) or "noise", optional
            Weights of the pairs, as in `fit`.
        lower, upper : array (m,), optional
            Bounds on the distances, NaN where there is none.
        anchors : dict, optional
            ``{index: coordinates}`` of points whose coordinates are known.

        Returns
        -------
        self
        """
        self._prepare()
        if is_dask_array(pairs) or is_dask_frame(pairs):
            return self._fit_chunks(pairs, distances, n_points, weights, lower, upper, anchors)
        data = from_pairs(pairs, distances, n_points, weights, lower, upper, anchors, self.n_components)
        self.n_features_in_ = data.n_points
        return self._fit(data)

    def fit_transform(self, D: Any, y: Any = None, **known: Any) -> Any:
        """Find the points, and return ``embedding_``; parameters as in `fit`."""
        return self.fit(D, **known).embedding_

    # -- what the answer says ---------------------------------------------------------------------------------------

    def distances(self, pairs: Any = None) -> Array:
        """Return the completed distances.

        Parameters
        ----------
        pairs : int array (m, 2), optional
            Which; all, as a matrix (n, n), when left out.

        Returns
        -------
        ndarray (m,) or (n, n)
        """
        check_is_fitted(self)
        if pairs is None:
            from scipy.spatial.distance import cdist

            return np.asarray(cdist(self.embedding_, self.embedding_))
        return pair_distances(self.embedding_, pairs)

    def score(self, D: Any, y: Any = None) -> float:
        """Return −rmse over the known distances of D, for the same points as in `fit`."""
        check_is_fitted(self)
        D = self._validated(D, reset=False)
        if D.shape[0] != len(self.embedding_):
            raise ValueError(f"D has {D.shape[0]} points, but the model was fitted to {len(self.embedding_)}")
        pairs, known = known_entries(D, "D")
        if len(pairs) == 0:
            raise ValueError("D holds no known distance to compare with")
        return -float(np.sqrt(np.mean((self.distances(pairs) - known) ** 2)))

    @property
    def mirror_image_(self) -> Array:
        """The other answer that fits as well, where nothing decides between the two."""
        check_is_fitted(self)
        mirrored = self.embedding_.copy()
        mirrored[:, -1] *= -1.0
        return mirrored

    @property
    def standard_errors_(self) -> Array:
        """Standard error of each point, infinite where it is not held, from `quartic.rigidity.standard_errors`.

        The noise is ``noise``, or estimated from the residuals; with ``weights="noise"`` it is in proportion to the
        distances.
        """
        check_is_fitted(self)
        if self._standard_errors is None:
            self._standard_errors = self._uncertainty()
        return self._standard_errors

    def plot_points(self, ax: Any = None) -> Any:
        """Draw the points, some known distances, anchors and what is not determined (matplotlib). Returns the axes."""
        from quartic import plots

        check_is_fitted(self)
        data = self._data
        return plots.points(self.embedding_, data.pairs, self.determined_, data.anchors.tolist(), ax)

    def plot_errors(self, ax: Any = None) -> Any:
        """Draw how far the known distances are missed, as a histogram (matplotlib). Returns the axes."""
        from quartic import plots

        check_is_fitted(self)
        data = self._data
        found = self.distances(data.pairs)
        return plots.errors(found - np.clip(found, data.lower, data.upper), ax)

    def _uncertainty(self) -> Array:
        return errors_of_points(self._data, self.embedding_, self.noise, self.refine == "stress")

    # -- the steps of fitting ---------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        self._validate_params()
        self._device = device_for(self.device)

    def _validated(self, D: Any, *, reset: bool) -> Any:
        if self.metric == "euclidean":
            from scipy.spatial.distance import pdist, squareform

            features = validate_data(
                self, D, dtype=np.float64, ensure_all_finite=False, ensure_min_samples=2, reset=reset
            )
            refuse_not_finite(D, features, "X", "fill it in (sklearn.impute), or leave row {row} out")
            return squareform(pdist(features))
        given = D
        D = validate_data(
            self, D, accept_sparse=True, dtype=(np.float64, np.float32), ensure_all_finite=False,
            ensure_min_samples=2, reset=reset,
        )  # fmt: skip
        refuse_not_finite(
            given, D, "D", "put NaN where a distance is unknown, or leave it out of a sparse matrix", nan=True
        )
        if D.shape[0] != D.shape[1]:
            raise ValueError(
                f'D must be a square matrix of distances, got shape {D.shape}; for features use metric="euclidean", '
                "for a list of pairs fit_pairs"
            )
        return D

    def _fit_chunks(
        self, pairs: Any, distances: Any, n_points: int | None, weights: Any, lower: Any, upper: Any, anchors: Any
    ) -> Self:
        """Fit pairs that stay in Dask's chunks: a search with some pairs of each point, then a run over all."""
        in_frame = is_dask_frame(pairs)
        if lower is not None or upper is not None or self.refine is not None:
            raise TypeError("bounds and refine are for pairs in memory, but the pairs are in Dask's chunks")
        if isinstance(weights, str) and not in_frame:
            raise TypeError(f"weights = {weights!r} is for pairs in memory; give a Dask array of weights")
        if distances is None:
            raise ValueError("give the distances of the pairs")
        everything = DaskDistances(pairs, distances, n_points, weights, power=1)
        few, squared, w = everything.thinned(_PAIRS_EACH)
        data = from_pairs(few, np.sqrt(squared), everything.n_points, w, None, None, anchors, self.n_components)
        self.n_features_in_ = data.n_points
        return self._fit(data, everything if len(few) < everything.n_pairs else None)

    def _fit(self, data: Measurements, everything: DaskDistances | None = None, power: int = 0) -> Self:
        """Fit the measurements; what is told of lengths is told times 2^power, for `fit_in_other_units`."""
        if data.power and everything is not None:
            raise ValueError(f"distances in Dask's chunks must be nearer to one: multiply them by 2**{-data.power}")
        if data.power:
            fit_in_other_units(self, data)
            return self
        self.__dict__.pop("_uncertainty", None)  # of a fit in other units
        rank, n = self.n_components, data.n_points
        targets = None if self.align_to is None else checked_targets(self.align_to, n, rank)
        simplices = None if self.signs is None else checked_signs(self.signs, n, rank)
        level = 4 if power == 0 else 6  # from a check up to who called fit
        checks.warn_of_repeats(data, level)
        checks.warn_of_anchors(data, level)
        if not data.lower.any() and not len(data.anchors) and not data.exact.all():
            raise ValueError("every lower bound is 0: all points in one place keep every bound; give some distances")
        generator = random_generator(self.random_state)
        self._data, self._standard_errors = data, None
        component, n_components = components_of(data)
        whole = Part(n, data.pairs, data.lower, data.upper, data.guess, data.weights)
        checks.warn_of_triangles(whole, np.random.default_rng(0), level, data.weights is None and self.refine is None)
        deadline = np.inf if self.max_time is None else time.perf_counter() + self.max_time
        effort = Effort(rank, self.solver, self.tol, self.max_iter, deadline, bool(self.verbose), self._device, power)
        X = self._searched(data, component, n_components, effort, generator)
        if len(data.anchors):
            X = self._held(whole, X, data, effort)
        if self.refine == "stress":
            X = self._refined(whole, X, data, effort)
        if everything is not None:
            X = self._polished(everything, X, data, effort, f"minimised over all {everything.n_pairs:,} pairs")
        if effort.stopped():
            said = "interrupted; the best points so far are returned"
            self.result_ = replace(self.result_, status=Status.INTERRUPTED, message=said)
        self._place(X, data, component, n_components, targets, simplices, whole.size, level)
        missed = np.sqrt(np.mean(whole.errors(self.embedding_) ** 2))
        self.rmse_ = float(missed) if everything is None else everything.misfit(self.embedding_)
        fixing = data.pairs[data.exact if data.weights is None else data.exact & (data.weights > 0)]
        self.determination_ = assess(fixing, self.embedding_, anchors=data.anchors, random_state=0)
        self.determined_, self.component_ = self.determination_.determined, component
        self._n_features_out = rank
        n_bounds = int(np.count_nonzero(~data.exact))
        checks.warn_of_the_answer(self.determination_, whole, self.embedding_, n_bounds, level, power)
        if not self.result_.success:
            said = f"DistanceCompletion did not converge: {self.result_.message}"
            warnings.warn(said, ConvergenceWarning, stacklevel=level - 1)
        return self

    def _may_scale(self) -> bool:
        """Tell whether the start may be classical scaling."""
        return isinstance(self.init, str) and self.init in ("auto", "mds")

    def _fit_complete(self, D: Array) -> Self:
        """Fit a large complete matrix, read in place: classical scaling, then a run over all pairs."""
        rank, n, level = self.n_components, len(D), 4
        targets = None if self.align_to is None else checked_targets(self.align_to, n, rank)
        simplices = None if self.signs is None else checked_signs(self.signs, n, rank)
        self._data, self._standard_errors = sample_of(D, rank), None
        sample = Part(n, self._data.pairs, self._data.lower, self._data.upper, self._data.guess, None)
        checks.warn_of_triangles(sample, np.random.default_rng(0), level)
        effort = Effort(rank, self.solver, self.tol, self.max_iter, verbose=bool(self.verbose))
        self.result_ = result = scaled_and_fitted(D, effort, self.max_time, self.random_state)
        self.n_iter_ = max(1, result.n_iter)
        self.start_ = "classical scaling of the complete matrix"
        self.component_ = np.zeros(n, dtype=np.int64)
        self._place(result.X.astype(np.float64), self._data, self.component_, 1, targets, simplices, sample.size, level)
        self.determination_ = all_determined(n, rank)
        self.determined_ = self.determination_.determined
        self.rmse_ = complete_rmse(D, self.embedding_)
        self._n_features_out = rank
        checks.warn_of_the_answer(self.determination_, sample, self.embedding_, 0, level)
        if not result.success:
            said = f"DistanceCompletion did not converge: {result.message}"
            warnings.warn(said, ConvergenceWarning, stacklevel=3)
        return self

    def _searched(
        self, data: Measurements, component: NDArray[np.int64], n_components: int, effort: Effort,
        generator: np.random.Generator,
    ) -> Array:  # fmt: skip
        """Return points for all components, each searched for on its own."""
        rank = self.n_components
        X = np.zeros((data.n_points, rank))
        given = None if isinstance(self.init, str) else self._given_start(data.n_points)
        pairs, lower, upper, guess, weights = with_anchor_pairs(data)
        order = np.argsort(component, kind="stable")
        members = np.split(order, np.cumsum(np.bincount(component, minlength=n_components))[:-1])
        number = np.empty(data.n_points, dtype=np.int64)
        owner = component[pairs[:, 0]]
        inside_one = owner == component[pairs[:, 1]]  # a lower bound may keep two components apart
        results: list[Result] = []
        words = []
        for c, points in enumerate(members):
            if len(points) == 1:
                continue
            number[points] = np.arange(len(points))
            mine = np.flatnonzero(inside_one & (owner == c)) if n_components > 1 else slice(None)
            w = None if weights is None else weights[mine]
            part = Part(len(points), number[pairs[mine]], lower[mine], upper[mine], guess[mine], w)
            init = self.init if given is None else given[points]
            result, said = self._best_search(part, init, effort, generator)
            X[points] = result.X
            results.append(result)
            words.append(said if n_components == 1 else f"component {c} ({len(points)} points): {said}")
        shown = words[:5] + ([f"and {len(words) - 5} more"] if len(words) > 5 else [])
        self.start_ = ". ".join(shown)
        self.n_iter_ = max(1, sum(result.n_iter for result in results))
        # of several components the run that failed, else the largest's
        self.result_ = min(results, key=lambda result: result.success)
        return X

    def _best_search(self, part: Part, init: Any, effort: Effort, generator: np.random.Generator) -> tuple[Result, str]:
        seeds = [int(generator.integers(2**63)) for _ in range(self.n_init if isinstance(init, str) else 1)]

        def one(seed: int) -> tuple[Result, str]:
            with limited_to(share_of(self.n_jobs, len(seeds))):
                return locate(part, init, effort, np.random.default_rng(seed))

        if self.n_jobs in (None, 1):
            found = []
            for seed in seeds:
                found.append(one(seed))
                if effort.stopped() or part.is_met(found[-1][0].X):
                    break
        else:
            _ = part.loss, part.adjacency  # made once, before the threads share them
            found = Parallel(n_jobs=self.n_jobs, require="sharedmem")(delayed(one)(seed) for seed in seeds)
            met = [k for k, (result, _) in enumerate(found) if part.is_met(result.X)]
            found = found[: met[0] + 1] if met else found
        return min(found, key=lambda pair: pair[0].objective)

    def _given_start(self, n: int) -> Array:
        start = np.asarray(self.init, dtype=np.float64)
        if start.shape != (n, self.n_components):
            raise ValueError(
                f"init must have one row for each of the {n} points and n_components = {self.n_components} columns, "
                f"got shape {start.shape}"
            )
        if not np.isfinite(start).all():
            raise ValueError("init must be finite")
        return start

    def _held(self, whole: Part, X: Array, data: Measurements, effort: Effort) -> Array:
        """Return X moved onto the anchors, and minimised with these where they are."""
        component, _ = components_of(data)
        c = component[data.anchors[0]]
        points = np.flatnonzero(component == c)
        at = np.searchsorted(points, data.anchors)
        X[points] = moved_onto(X[points], at, data.places)
        return self._polished(whole.loss, X, data, effort, "minimised with the anchors held")

    def _refined(self, whole: Part, X: Array, data: Measurements, effort: Effort) -> Array:
        return self._polished(whole.stress, X, data, effort, "refined by raw stress")

    def _polished(self, loss: Distances, X: Array, data: Measurements, effort: Effort, said: str) -> Array:
        X, self.result_ = polished(loss, X, data, effort)
        self.n_iter_ += self.result_.n_iter
        self.start_ += f"; {said}"
        return X

    def _place(
        self, X: Array, data: Measurements, component: NDArray[np.int64], n_components: int, targets: Known | None,
        simplices: Known | None, gap: float, level: int,
    ) -> None:  # fmt: skip
        self.embedding_, self.chirality_ = placed(X, data, component, n_components, targets, simplices, gap, level)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        precomputed = self.metric == "precomputed"
        tags.input_tags.sparse = precomputed
        tags.input_tags.pairwise = precomputed
        tags.input_tags.allow_nan = precomputed
        tags.input_tags.positive_only = precomputed
        return tags
