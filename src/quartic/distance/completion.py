"""From a few distances to coordinates, as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from quartic.arrays import Array, RandomState, check_number
from quartic.arrays.checks import check_choice
from quartic.arrays.threads import one_blas_thread
from quartic.core.loop import Progress
from quartic.core.result import Result
from quartic.core.stopping import check_estimator
from quartic.core.units import shifted
from quartic.datasets import pair_distances
from quartic.distance.component import Settings, spans_space
from quartic.distance.data import (
    find_points,
    is_complete,
    is_symmetric,
    known_entries,
    number_points,
    power_of_distances,
    read_array,
    read_chunks,
    read_matrix,
    read_pairs,
    without_round_off,
)
from quartic.distance.determination import Determination
from quartic.distance.fit import Located, locate, locate_complete
from quartic.distance.moves import mirror_images, place_new_points
from quartic.distributed.inputs import is_dask_array, is_dask_frame
from quartic.graphs.inputs import refuse_not_finite
from quartic.losses.devices import device_for
from quartic.solvers import Solver

_STARTS = ("auto", "random", "mds", "landmark", "eigenmap", "patches", "relaxed")
# From so many points on a complete matrix is read in place.
_MATRIX_FROM = 400


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
    init : {"auto", "random", "mds", "landmark", "eigenmap", "patches", "relaxed"} or array (n, r), default="auto"
        The start: random; scaling of shortest paths, between all points or from 50 landmarks; Laplacian eigenmap;
        overlapping patches of some hundred points, solved one by one and registered; random in two dimensions more; or
        the points given. ``"auto"`` tries cheap ones first, looks at the fit, and goes on where it is bad (see Notes);
        ``start_`` says what it did.
    n_init : int, default=1
        Searches with different seeds; the lowest is kept. They end with the first that meets all distances.
    tol : float, default=1e-8
        A run has converged when the norm of the gradient is at most ``tol`` times that at a random start.
    max_iter, max_time : int, float or None
        Limits: iterations of a run, and seconds of the whole search, one limit for all starts and components; what the
        data determine is found out after it.
    n_jobs : int or None, default=None
        Threads to use: searches are done at the same time, and threads left over shared among them; patches of 200,000
        points and more are solved in so many processes. None: one search at a time, on as many threads as the
        environment allows. The answer does not depend on it.
    device : None, "cpu", "cuda" or another device of torch
        Where the runs over all points are made. The distances (NumPy, SciPy, or tensors of any device) are moved there
        once, and points come back as NumPy. Runs with bounds or anchors, patches, complete matrices, and what decides
        which points are determined, stay on the CPU.
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
        Standard deviation of the noise on the distances, for ``standard_errors_`` and to tell a local minimum from
        noise (χ²); estimated from the residuals, and from small cliques, when left out.
    robust : bool, default=False
        Leave out distances that contradict the others, such as wrong pairs, misprints or echoes: they are looked for by
        falling weights (`quartic.init.robust_start`), in small patches where only near points are linked, and
        ``outliers_`` says which they are. With twenty distances a point or more a tenth of all may be wrong, often a
        fifth.
    callback : callable or None, default=None
        Called with a `quartic.core.loop.Progress` after each iteration of every run of the search, but for those in
        other processes; StopIteration ends the search with the best points so far.

    Attributes
    ----------
    embedding_ : ndarray (n, r)
        The points. Anchors are exactly where they were said to be. Without anchors and ``align_to``: centred, along
        principal axes, in each the largest coordinate positive; components that no distance links lie side by side.
    rmse_ : float
        Root mean square of :math:`\|x_i - x_j\| - d_{ij}` over the known pairs, in the data's units; for a pair with
        bounds, of by how much it leaves them. Pairs of weight 0 do not count.
    determined_ : ndarray of bool (n,)
        False where the data cannot fix a point, where a piece fits on the other side of a flat cut as well, or where
        the misfit is neither round-off nor noise. See `quartic.rigidity.assess`.
    determination_ : Determination
        The whole account: components, rigid parts, flips; ``summary()`` in words.
    component_ : ndarray of int (n,)
        The component of each point, 0 for the largest; different ones are not linked by distances.
    chirality_ : str
        What decides between the two mirror images.
    outliers_ : ndarray of int (k, 2)
        The pairs whose distances were left out; empty unless ``robust``. They do not count in ``rmse_``.
    start_ : str
        What was tried, in words.
    n_iter_ : int
        Iterations, those of starts included.
    result_ : Result
        The last run.
    n_features_in_ : int
        Columns seen in `fit`.
    point_names_ : ndarray of str (n,) or None
        The names of the points, where `fit_pairs` was given pairs of names, or `fit` a frame.

    Notes
    -----
    ``"auto"`` begins with eigenvectors, or at random, where any two points may be linked, and else with shortest paths
    from landmarks, or above 3000 points with patches (above 500 these come second). A fit that leaves residuals is
    shaken into one or two dimensions more and brought back: pieces that lie on their wrong side turn over there. It
    goes on to other starts while some distances are missed by far more than the others, which noise does not do.
    Measured by ``benchmarks/distance_acceptance.py``.

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

    Points by name:

    >>> pairs = [("desk", "lamp"), ("door", "lamp"), ("wall", "lamp")]
    >>> corners = {"door": [0, 0], "desk": [3, 0], "wall": [0, 4]}
    >>> room = DistanceCompletion(2, random_state=0).fit_pairs(pairs, [4.0, 5.0, 3.0], anchors=corners)
    >>> dict(zip(room.point_names_, room.embedding_.round(6).tolist()))["lamp"]
    [3.0, 4.0]
    """

    _located: Located
    _features: Array
    _standard_errors: Array | None
    embedding_: Array
    rmse_: float
    determined_: NDArray[np.bool_]
    determination_: Determination
    component_: NDArray[np.int64]
    chirality_: str
    outliers_: NDArray[np.int64]
    start_: str
    n_iter_: int
    result_: Result
    point_names_: NDArray[Any] | None

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
        robust: bool = False,
        callback: Callable[[Progress], object] | None = None,
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
        self.robust = robust
        self.callback = callback

    # -- fitting ----------------------------------------------------------------------------------------------------

    def fit(
        self, X: Any, y: Any = None, *, anchors: Any = None, weights: Any = None, lower: Any = None, upper: Any = None
    ) -> Self:
        """Find the points.

        Parameters
        ----------
        X : array or sparse matrix (n, n); or features (n, n_features)
            Distances D (not squares): symmetric, NaN or masked where unknown; of a sparse matrix stored entries are
            known. One side of the diagonal is enough. Features if ``metric="euclidean"``.
        y : ignored
        anchors : dict, optional
            ``{index or name: coordinates}`` of points whose coordinates are known.
        weights : matrix (n, n) or "noise", optional
            Weights of the pairs; ``"noise"`` is w = 1/(δ + 0.01·mean δ), δ = d², for noise that goes with the distance.
        lower, upper : matrix (n, n), optional
            Bounds on the distances, NaN (or not stored) where there is none. For a pair that has bounds these are kept,
            and its entry of D is only where the search begins.

        Returns
        -------
        self
        """
        self._check_settings()
        weights, lower, upper = map(read_array, (weights, lower, upper))
        D = self._validated(read_array(X), reset=True)
        self.point_names_ = getattr(self, "feature_names_in_", None) if self.metric == "precomputed" else None
        settings, anchors = self._settings(), find_points(anchors, self.point_names_, "anchors")
        nothing_else = all(
            given is None for given in (anchors, weights, lower, upper, self.refine, self.robust or None)
        )
        large = D.shape[0] >= _MATRIX_FROM and isinstance(self.init, str) and self.init in ("auto", "mds")
        with one_blas_thread():
            if nothing_else and large and is_complete(D) and not power_of_distances(D[0], D[0]):
                found = locate_complete(D, settings)
            else:
                found = locate(read_matrix(D, weights, lower, upper, anchors, self.n_components), settings)
        return self._keep(found)

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
        pairs : array (m, 2) of int or str
            The pairs (i, j), counted from 0, in any order; or their names, such as ``[("desk", "door"), ...]``, which
            ``point_names_`` then lists in the order of the rows of ``embedding_``. A Dask array, or a Dask dataframe
            whose first two columns are the ends, stays in its chunks: points are found from some 60 pairs each, brought
            here, and then fitted to all; what those few determine, all do. Each pair may stand there once, and bounds
            are not taken.
        distances : array (m,), optional
            Their distances (not squares); NaN where only bounds are known. Of a dataframe: a column, or its name.
        n_points : int, optional
            The number of points; the largest index + 1 when left out.
        weights : array (m,) or "noise", optional
            Weights of the pairs, as in `fit`.
        lower, upper : array (m,), optional
            Bounds on the distances, NaN where there is none.
        anchors : dict, optional
            ``{index or name: coordinates}`` of points whose coordinates are known.

        Returns
        -------
        self
        """
        self._check_settings()
        everything, rank = None, self.n_components
        pairs, distances, weights, lower, upper = map(read_array, (pairs, distances, weights, lower, upper))
        in_chunks = is_dask_array(pairs) or is_dask_frame(pairs)
        pairs, self.point_names_ = (pairs, None) if in_chunks else number_points(pairs)
        settings, anchors = self._settings(), find_points(anchors, self.point_names_, "anchors")
        if in_chunks:
            if lower is not None or upper is not None or self.refine is not None or self.robust:
                raise TypeError("bounds, refine and robust are for pairs in memory, but the pairs are in Dask's chunks")
            data, everything = read_chunks(pairs, distances, n_points, weights, anchors, rank)
        else:
            data = read_pairs(pairs, distances, n_points, weights, lower, upper, anchors, rank, self.point_names_)
        self.n_features_in_ = data.n_points
        with one_blas_thread():
            found = locate(data, settings, everything)
        return self._keep(found)

    def fit_transform(self, X: Any, y: Any = None, **known: Any) -> Any:
        """Find the points, and return ``embedding_``; parameters as in `fit`."""
        return self.fit(X, **known).embedding_

    def transform(self, X: Any, *, lower: Any = None, upper: Any = None) -> Any:
        """Place new points from their distances to the fitted ones, which stay where they are.

        Parameters
        ----------
        X : array or sparse matrix (m, n); or features (m, n_features)
            Distances of each new point to the n fitted ones: NaN where unknown, or not stored. Features if
            ``metric="euclidean"``.
        lower, upper : array or sparse matrix (m, n), optional
            Bounds on these distances, NaN (or not stored) where there is none.

        Returns
        -------
        ndarray (m, r)

        Examples
        --------
        >>> import numpy as np
        >>> from scipy.spatial.distance import cdist
        >>> from quartic import DistanceCompletion
        >>> points = np.random.default_rng(0).random((30, 2))
        >>> model = DistanceCompletion(2, align_to=points[:20], random_state=0).fit(cdist(points[:20], points[:20]))
        >>> found = model.transform(cdist(points[20:], points[:20]))
        >>> bool(np.abs(found - points[20:]).max() < 1e-9)
        True
        """
        check_is_fitted(self)
        found, findings = place_new_points(self.embedding_, self._validated_new(X), lower, upper)
        for finding in findings:
            warnings.warn(finding, stacklevel=2)
        return found

    # -- what the answer says ---------------------------------------------------------------------------------------

    def distances(self, pairs: Any = None) -> Array:
        """Return the completed distances.

        Parameters
        ----------
        pairs : array (m, 2) of int or str, optional
            Which; all, as a matrix (n, n), when left out.

        Returns
        -------
        ndarray (m,) or (n, n)
        """
        check_is_fitted(self)
        if pairs is None:
            from scipy.spatial.distance import cdist

            return np.asarray(cdist(self.embedding_, self.embedding_))
        return pair_distances(self.embedding_, find_points(read_array(pairs), self.point_names_, "pairs"))

    def score(self, X: Any, y: Any = None) -> float:
        """Return −rmse over the known distances of X.

        X is a matrix (n, n) for the fitted points, or (m, n) for new ones, which are placed first as `transform` does:
        so cross-validation over points, which hands over the rows left out, works. Over pairs: `score_pairs`.
        """
        check_is_fitted(self)
        D = self._validated_new(X)
        if D.shape[0] == D.shape[1] and is_symmetric(D):
            pairs, known = known_entries(D, "D")
            if len(pairs) == 0:
                raise ValueError("D holds no known distance to compare with")
            return self.score_pairs(pairs, known)
        from scipy.spatial.distance import cdist

        given = D.toarray() if sp.issparse(D) else np.asarray(D, dtype=np.float64)
        stored = given > 0 if sp.issparse(D) else ~np.isnan(given)
        places, _ = place_new_points(self.embedding_, D)
        return -float(np.sqrt(np.mean((cdist(places, self.embedding_) - given)[stored] ** 2)))

    def score_pairs(self, pairs: Any, distances: Any) -> float:
        """Return −rmse over pairs of fitted points: of those left out of `fit_pairs`, how well they are foretold.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.model_selection import KFold
        >>> from quartic import DistanceCompletion
        >>> from quartic.datasets import helix, pair_distances, random_pairs
        >>> pairs = random_pairs(100, 0.4, random_state=0)
        >>> d = pair_distances(helix(100, random_state=0), pairs)
        >>> model, scores = DistanceCompletion(random_state=0), []
        >>> for fitted, left_out in KFold(3, shuffle=True, random_state=0).split(pairs):
        ...     _ = model.fit_pairs(pairs[fitted], d[fitted], n_points=100)
        ...     scores.append(model.score_pairs(pairs[left_out], d[left_out]))
        >>> bool(min(scores) > -1e-9)
        True
        """
        check_is_fitted(self)
        known = np.asarray(read_array(distances), dtype=np.float64)
        found = self.distances(pairs)
        if known.shape != found.shape:
            raise ValueError(f"distances must be one number for each of the {len(found)} pairs, got {known.shape}")
        return -float(np.sqrt(np.mean((found - known) ** 2)))

    @property
    def mirror_image_(self) -> Array:
        """The other answer that fits as well; points on whose side anchors decide stay where they are.

        Fewer anchors than decide are held: their component is reflected in a hyperplane through them.
        """
        check_is_fitted(self)
        data = self._located.data
        mirrored = self.embedding_.copy()
        held = np.zeros(len(mirrored), dtype=bool)
        if len(data.anchors):
            held = self.component_ == self.component_[data.anchors[0]]
            places = mirrored[data.anchors]
            mirrored[held] = mirrored[held] if spans_space(places) else mirror_images(mirrored[held], places)[0]
        mirrored[~held, -1] *= -1.0
        return mirrored

    @property
    def standard_errors_(self) -> Array:
        """Standard error of each point, infinite where it is not held, from `quartic.rigidity.standard_errors`.

        To first order in the noise, whose law is: of standard deviation ``noise`` on every distance where that was
        given; else of a scale estimated from the residuals, the same on all distances, or in proportion to them with
        ``weights="noise"``, or w^-1/2 on their squares with weights w of one's own. Where no distance is redundant, all
        are met whatever their noise: infinite too, unless ``noise`` is given.
        """
        check_is_fitted(self)
        if self._standard_errors is None:
            self._standard_errors = self._located.standard_errors(self.noise, self.refine == "stress")
        return self._standard_errors

    def plot_points(self, ax: Any = None) -> Any:
        """Draw the points, some known distances, anchors and what is not determined (matplotlib). Returns the axes."""
        from quartic import plots

        check_is_fitted(self)
        data = self._located.data
        return plots.points(self.embedding_, data.pairs, self.determined_, data.anchors.tolist(), ax)

    def plot_errors(self, ax: Any = None) -> Any:
        """Draw how far the known distances are missed, as a histogram (matplotlib). Returns the axes."""
        from quartic import plots

        check_is_fitted(self)
        data = self._located.data
        found, low, high = self.distances(data.pairs), shifted(data.lower, data.power), shifted(data.upper, data.power)
        return plots.errors(found - np.clip(found, low, high), ax)

    # -- what a fit is given, and what it leaves --------------------------------------------------------------------

    def _check_settings(self) -> None:
        """Raise an error that names the first setting that makes no sense."""
        check_estimator(self)
        check_choice(self.metric, "metric", ("precomputed", "euclidean"))
        check_choice(self.init, "init", _STARTS, hasattr(self.init, "__len__") and not isinstance(self.init, str))
        if self.robust not in (False, True):
            raise ValueError(f"robust must be True or False, got {self.robust!r}")
        check_choice(self.refine, "refine", ("stress",), self.refine is None)
        if self.noise is not None:
            check_number(self.noise, "noise", cure="; None has it estimated")

    def _settings(self) -> Settings:
        given = self.get_params(deep=False)
        given["approximate"] = given.pop("metric") == "euclidean"
        if isinstance(self.align_to, dict):
            given["align_to"] = find_points(self.align_to, self.point_names_, "align_to")
        return Settings(**given | {"device": None if self.device is None else device_for(self.device)})

    def _validated(self, D: Any, *, reset: bool) -> Any:
        if self.metric == "euclidean":
            from scipy.spatial.distance import pdist, squareform

            features = validate_data(
                self, D, dtype=np.float64, ensure_all_finite=False, ensure_min_samples=2, reset=reset
            )
            refuse_not_finite(D, features, "X", "fill it in (sklearn.impute), or leave row {row} out")
            self._features = features
            return squareform(pdist(features))
        given, names = D, [repr(name) for name in getattr(D, "columns", ())]
        if len(names) == 3 and any(getattr(kind, "kind", "f") == "O" for kind in D.dtypes):
            pairs = f"fit_pairs(D[[{names[0]}, {names[1]}]], D[{names[2]}])"
            raise ValueError(f"D has text in it, it seems to be a list of pairs, not a matrix; use {pairs}")
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
        return D if sp.issparse(D) else without_round_off(D)

    def _validated_new(self, X: Any) -> Any:
        """Return distances to the fitted points, from distances or from features."""
        X = read_array(X)
        if self.metric == "euclidean":
            from scipy.spatial.distance import cdist

            features = validate_data(self, X, dtype=np.float64, reset=False)
            return cdist(features, self._features)
        D = validate_data(
            self, X, accept_sparse=True, dtype=(np.float64, np.float32), ensure_all_finite=False, reset=False
        )
        refuse_not_finite(X, D, "X", "put NaN where a distance is unknown", nan=True)
        return D

    def _keep(self, found: Located) -> Self:
        self._located, self._standard_errors = found, None
        self.embedding_, self.rmse_, self.chirality_ = found.X, found.rmse, found.chirality
        self.determination_, self.determined_ = found.determination, found.determination.determined
        self.component_, self._n_features_out = found.component, self.n_components
        self.result_, self.n_iter_, self.start_ = found.result, found.n_iter, found.start
        self.outliers_ = found.left_out
        for finding in found.findings:
            named = finding if self.point_names_ is None else finding.with_names(self.point_names_.tolist())
            warnings.warn(named, stacklevel=3)
        if not self.result_.success:
            said = f"DistanceCompletion did not converge: {self.result_.message}"
            warnings.warn(said, ConvergenceWarning, stacklevel=3)
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        precomputed = self.metric == "precomputed"
        tags.input_tags.sparse = precomputed
        tags.input_tags.pairwise = precomputed
        tags.input_tags.allow_nan = precomputed
        tags.input_tags.positive_only = precomputed
        return tags
