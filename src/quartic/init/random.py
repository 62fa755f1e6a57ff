"""The random start of the paper's experiments."""

from __future__ import annotations

import numpy as np

from quartic.arrays import Array
from quartic.core.problem import Problem


def random_start(problem: Problem, rank: int, generator: np.random.Generator) -> Array:
    r"""Return the loss's own random start.

    For symmetric NMF it is the paper's, :math:`X_{ij} = 2\,\mathrm{uniform}(10^{-5}, \sqrt{\mathrm{mean}(M) / r})`.

    Parameters
    ----------
    problem : Problem
        The loss gives the scale, the penalty the signs.
    rank : int
        Columns of the start.
    generator : numpy.random.Generator
        Where the numbers come from.

    Returns
    -------
    array (n, rank)

    Examples
    --------
    >>> import numpy as np
    >>> from quartic import Problem
    >>> from quartic.init import random_start
    >>> from quartic.losses import LeastSquares
    >>> from quartic.penalties import Nonnegative
    >>> X = random_start(Problem(LeastSquares(np.ones((4, 4))), Nonnegative()), 2, np.random.default_rng(0))
    >>> X.shape, bool(X.min() > 0)
    ((4, 2), True)
    """
    return problem.loss.random_start(rank, problem.penalty.nonnegative, generator)
