"""How far each point may be off, from the noise on its distances."""

from __future__ import annotations

import numpy as np

from quartic.arrays import Array
from quartic.distance.uncertainty import standard_errors
from quartic.locating.input import Measurements


def errors_of_points(data: Measurements, X: Array, noise: float | None, stress: bool) -> Array:
    """Return the standard error of each point; ``stress`` where the distances themselves were fitted.

    With ``noise`` every distance has noise of that standard deviation. Without, its scale is estimated from the
    residuals, and its law is: the same for all pairs; in proportion to the distance with ``weights="noise"``; with
    weights w of the user's own, w^-1/2 on the squared distances, which is what such weights are for.
    """
    used = data.exact & (data.guess > 0)
    if data.weights is not None:
        used &= data.weights > 0
    pairs, d = data.pairs[used], data.guess[used]
    w = np.ones(len(pairs)) if data.weights is None else data.weights[used]
    of_fit = np.ones(len(pairs)) if stress and data.weights is None else 4 * d**2 * w
    left: Array | None = None
    law: Array = np.ones(len(pairs))
    if noise is not None:
        law *= noise
    else:
        left = np.linalg.norm(X[pairs[:, 0]] - X[pairs[:, 1]], axis=1) - d
        if data.proportional:
            law = d
        elif data.weights is not None:
            law = 1 / (2 * d * np.sqrt(w))
    return standard_errors(pairs, X, law, anchors=data.anchors, weights=of_fit, residuals=left, random_state=0)
