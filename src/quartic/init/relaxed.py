"""Start from a solution in more dimensions, where distances have fewer local minima."""

from __future__ import annotations

import numpy as np

from quartic.arrays import Array
from quartic.core.problem import Problem
from quartic.losses import Distances

# With more known distances a point than this a random start leads to the answer as well, and sooner.
_SCARCE = 36.0
# Dimensions more, and how well the problem is solved in them.
_EXTRA, _TOL, _STEPS = 2, 1e-3, 300


def relaxed_start(problem: Problem, rank: int, generator: np.random.Generator) -> Array:
    """Return the principal axes of a solution in two dimensions more, from a random start.

    With 20 known distances a point, of pairs at random among 2000 points in space, a run from a random start ends in a
    local minimum two times out of three. In five dimensions next to none do, and the three principal axes of what was
    found lead to the answer.

    Parameters
    ----------
    problem : Problem
        A loss over distances, signs free.
    rank : int
        r.
    generator : Generator
        For the random start.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic import Problem, minimize
    >>> from quartic.datasets import pair_distances, random_pairs
    >>> from quartic.init import relaxed_start
    >>> from quartic.losses import Distances
    >>> truth = np.random.default_rng(0).standard_normal((400, 3))
    >>> pairs = random_pairs(400, 0.05, random_state=1)
    >>> loss = Distances(pairs, pair_distances(truth, pairs) ** 2)
    >>> minimize(Problem(loss), relaxed_start, rank=3, tol=1e-8, random_state=2).objective < 1e-9
    True
    """
    from quartic.core.loop import minimize

    loss = problem.loss
    columns = min(rank + _EXTRA, loss.n_points)
    X0 = loss.random_start(columns, problem.penalty.nonnegative, generator)
    result = minimize(Problem(loss, problem.penalty), X0, tol=_TOL, max_iter=_STEPS)
    loss._count(result.n_products)
    X = result.X - result.X.mean(axis=0)
    _, axes = np.linalg.eigh(X.T @ X)
    found: Array = X @ axes[:, ::-1][:, :rank]
    return found


def relaxing_helps(problem: Problem) -> bool:
    """Tell whether distances are so few that a random start would often end in a local minimum."""
    loss = problem.loss
    if type(loss) is not Distances or not loss.pairs.listed or problem.penalty.ridge != 0.0:
        return False
    return loss.n_points > 2 * _SCARCE and loss.mean_degree() <= _SCARCE
