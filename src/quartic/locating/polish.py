"""One run more over all points at once, with the anchors where they are."""

from __future__ import annotations

import time

import numpy as np

from quartic.arrays import Array
from quartic.core.loop import minimize
from quartic.core.problem import Problem
from quartic.core.result import Result
from quartic.locating.input import Measurements
from quartic.locating.part import Effort
from quartic.losses import Anchored, BoundedDistances, Distances, Loss, RawStress


def polished(loss: Distances | BoundedDistances, X: Array, data: Measurements, effort: Effort) -> tuple[Array, Result]:
    """Return X minimised once more, with the anchors held, and the run."""
    anchored = len(data.anchors) > 0
    center = data.places.mean(axis=0) if anchored else np.zeros(X.shape[1])
    held = Anchored(loss, data.anchors, data.places - center) if anchored else None
    start = X - center if held is None else (X - center)[held.free]
    left = None if np.isinf(effort.deadline) else max(effort.deadline - time.perf_counter(), 1e-3)
    result = minimize(
        Problem(loss if held is None else held), start if start.any() else start + 1e-3,
        solver="auto" if isinstance(loss, RawStress) else effort.solver, tol=effort.tol,
        reference=reference_of(loss, X.shape[1]), max_iter=effort.most(effort.max_iter), max_time=left,
        verbose=effort.verbose,
    )  # fmt: skip
    effort.note(result)
    X = result.X if held is None else held.fill(result.X) + center
    X[data.anchors] = data.places
    return X, result


def reference_of(loss: Loss, rank: int) -> float:
    """Return the gradient at a random start, to which the tolerance refers."""
    X = loss.random_start(rank, False, np.random.default_rng(0))
    return float(np.linalg.norm(loss.at(X).gradient))
