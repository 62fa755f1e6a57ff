"""Raw stress: residuals of distances, not of their squares."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quartic.losses.pairs.bounds import BoundedDistances


class RawStress(BoundedDistances):
    r"""Raw stress :math:`f(X) = \frac12\sum w_{ij}(\|x_i - x_j\| - d_{ij})^2`, the refinement for noisy distances.

    Noise is as a rule on distances, not on their squares: squares let the long ones rule. This loss has no smooth F
    (it bends sharply where points meet) and more local minima, so it is for the end, from a good point, with ``lm``.

    Parameters
    ----------
    pairs : int array (m, 2)
        The pairs (i, j), i ≠ j.
    distances : array (m,)
        The known distances; lower bounds of them where ``upper`` is given.
    upper : array (m,), optional
        Upper bounds; ``distances`` when left out.
    n_points : int, optional
        The number of points; the largest index + 1 when left out.
    weights : array (m,), optional
        Nonnegative weights; 1 when left out.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.losses import RawStress
    >>> RawStress([[0, 1]], [2.0]).value(np.array([[0.0], [3.0]]))
    0.5
    """

    root = True
    degree = 2

    def __init__(
        self, pairs: Any, distances: Any, upper: Any = None, n_points: int | None = None, weights: Any = None
    ) -> None:
        super().__init__(pairs, distances, distances if upper is None else upper, n_points, weights)

    @property
    def smoothness(self) -> float:
        """Infinity: the second derivative grows without bound where two points meet."""
        return math.inf

    @property
    def gradient_scale(self) -> float:
        """What multiplies eps·‖X‖ in the gradient's round-off: the largest sum of weights at a point."""
        w = np.ones(self.n_pairs) if self.weight is None else self.weight
        total = np.bincount(self.rows, w, self.n_points) + np.bincount(self.cols, w, self.n_points)
        return 4 * float(total.max(initial=0.0))
