"""How far each point may be off, from the noise on its distances."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import Array
from quartic.locating.input import Measurements
from quartic.rigidity import standard_errors


def errors_of_points(data: Measurements, X: Array, noise: float | None, stress: bool) -> Array:
    """Return the standard error of each point; ``stress`` where the distances themselves were fitted.

    Without ``noise`` its size is estimated from the residuals and the degrees of freedom they have.
    """
    exact = data.exact & (data.guess > 0)
    pairs, d = data.pairs[exact], data.guess[exact]
    w = np.ones(len(pairs)) if data.weights is None else data.weights[exact]
    used = w > 0
    pairs, d, w = pairs[used], d[used], w[used]
    weights = 4 * d**2 * w
    if stress and data.weights is None:
        weights = np.ones(len(pairs))
    # with weights w the noise on a residual is taken to go as w^-1/2, which is what they are for
    shape = np.ones(len(pairs)) if data.weights is None else 1 / np.sqrt(weights)
    spread = np.full(len(pairs), noise) if noise is not None else shape * _estimated(data, X, pairs, d, shape)
    return standard_errors(pairs, X, spread, anchors=data.anchors, weights=weights, random_state=0)


def _estimated(data: Measurements, X: Array, pairs: NDArray[np.int64], d: Array, shape: Array) -> float:
    """Return the size of the noise that the residuals show."""
    rank = X.shape[1]
    unknowns = rank * (len(X) - len(data.anchors)) - (0 if len(data.anchors) else rank * (rank + 1) // 2)
    freedom = max(len(pairs) - unknowns, 1)
    errors = (np.linalg.norm(X[pairs[:, 0]] - X[pairs[:, 1]], axis=1) - d) / shape
    sigma = float(np.sqrt(np.sum(errors**2) / freedom))
    return sigma if sigma > 0 else float(np.finfo(np.float64).tiny) ** 0.25
