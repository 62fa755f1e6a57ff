"""All distances known: a matrix that is read in place, and never made a list of pairs."""

from __future__ import annotations

import numpy as np

from quartic.arrays import Array
from quartic.core.loop import minimize
from quartic.core.problem import Problem
from quartic.core.result import Result
from quartic.datasets import random_pairs
from quartic.distance.determination import Determination
from quartic.init import classical_mds
from quartic.locating import checks as checks
from quartic.locating.input import Measurements
from quartic.locating.part import Part
from quartic.locating.placing import placed
from quartic.locating.polish import reference_of
from quartic.locating.settings import Account, Located, Settings
from quartic.losses import CompleteDistances

# So many pairs a point are looked at for warnings.
_SAMPLED = 60


def sample_of(D: Array, rank: int) -> Measurements:
    """Return some pairs of a complete matrix, drawn at random."""
    pairs = random_pairs(len(D), min(1.0, _SAMPLED / (len(D) - 1)), random_state=0)
    d = np.asarray(D[pairs[:, 0], pairs[:, 1]], dtype=np.float64)
    return Measurements(len(D), pairs, d, d, d, None, np.empty(0, dtype=np.int64), np.empty((0, rank)))


def located_complete(D: Array, settings: Settings, level: int) -> Located:
    """Return the points of a complete matrix: classical scaling, then a run over all pairs.

    ``level`` is the ``stacklevel`` at which this function would warn the user.
    """
    n, rank = len(D), settings.n_components
    targets, simplices = settings.frame(n)
    data = sample_of(D, rank)
    sample = Part(n, data.pairs, data.lower, data.upper, data.guess, None)
    checks.warn_of_triangles(sample, np.random.default_rng(0), level + 1)
    result = scaled_and_fitted(D, settings)
    account = Account(
        result, max(1, result.n_iter), "classical scaling of the complete matrix", np.zeros(n, dtype=bool), []
    )
    component = np.zeros(n, dtype=np.int64)
    X, chirality = placed(result.X.astype(np.float64), data, component, 1, targets, simplices, sample.size, level)
    determination, rmse = all_determined(n, rank), complete_rmse(D, X)
    checks.warn_of_the_answer(determination, False, sample, X, 0, level + 1)
    return Located(data, X, rmse, determination, component, chirality, account)


def scaled_and_fitted(D: Array, settings: Settings) -> Result:
    """Return a run over all pairs, from classical scaling."""
    loss, rank = CompleteDistances(D), settings.n_components
    start = classical_mds(D, rank, random_state=0)
    return minimize(
        Problem(loss), start if start.any() else None, rank=rank, solver=settings.solver, tol=settings.tol,
        reference=reference_of(loss, rank), max_iter=settings.max_iter, max_time=settings.max_time,
        random_state=settings.random_state, verbose=bool(settings.verbose),
    )  # fmt: skip


def all_determined(n: int, rank: int) -> Determination:
    """Return what all distances determine: everything."""
    everything, one, no_one = np.ones(n, dtype=bool), np.zeros(n, dtype=np.int64), np.empty(0, dtype=np.int64)
    return Determination(everything, one, one, everything, ~everything, no_one, no_one, rank, 0, False, True)


def complete_rmse(D: Array, X: Array) -> float:
    """Return the root mean square error over all pairs, a block of rows at a time."""
    from scipy.spatial.distance import cdist

    n, total = len(D), 0.0
    rows = max(1, 2**20 // n)
    for first in range(0, n, rows):
        total += float(np.sum((cdist(X[first : first + rows], X) - D[first : first + rows]) ** 2))
    return float(np.sqrt(total / (n * (n - 1))))
