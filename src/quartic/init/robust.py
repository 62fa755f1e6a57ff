"""Start where some distances are grossly wrong: weights that fall with the misfit, by graduated non-convexity."""

from __future__ import annotations

import numpy as np

from quartic.arrays import Array
from quartic.core.problem import Problem
from quartic.init.relaxed import relaxed_start
from quartic.losses import Distances

# The control parameter is divided by this from round to round; at most so many rounds; each is solved so well.
_COOLING, _ROUNDS, _TOL = 1.6, 40, 1e-3
# A misfit counts as gross from so many times the median of all of them, as a standard deviation, and from this share of
# a typical distance at least.
_GROSS, _LEAST = 4.0 * 1.4826, 1e-4


def robust_start(problem: Problem, rank: int, generator: np.random.Generator) -> Array:
    """Return points that fit most of the distances, however wrong the others are.

    With e the misfit of a distance and c what is still no gross error, Geman and McClure's weights
    w = (μc²/(e² + μc²))² go from those of least squares, μ = ∞, to those that leave gross errors out, μ = 1; each
    problem starts where the last one ended (Yang, Antonante, Tzoumas and Carlone 2020). c follows the median misfit.
    It takes some twenty solves. Least squares from there would follow the errors again: keep the weights, or take a
    robust loss.

    Parameters
    ----------
    problem : Problem
        `Distances` in NumPy arrays, signs free.
    rank : int
        r.
    generator : Generator
        For the first start.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic import Problem
    >>> from quartic.init.robust import robust_start
    >>> from quartic.losses import Distances
    >>> truth = np.random.default_rng(0).standard_normal((40, 2))
    >>> pairs = np.array(np.triu_indices(40, 1)).T
    >>> squared = ((truth[pairs[:, 0]] - truth[pairs[:, 1]]) ** 2).sum(axis=1)
    >>> squared[::15] *= 9.0  # one distance in fifteen is three times too long
    >>> X = robust_start(Problem(Distances(pairs, squared)), 2, np.random.default_rng(1))
    >>> found = ((X[pairs[:, 0]] - X[pairs[:, 1]]) ** 2).sum(axis=1)
    >>> bool(abs(found - squared)[1::15].max() < 1e-2)
    True
    """
    from quartic.core.loop import minimize

    loss = problem.loss
    if type(loss) is not Distances or not loss.pairs.listed:
        raise TypeError(f"robust_start is for Distances of NumPy arrays, got {loss.name}")
    i, j, d = loss.rows, loss.cols, np.sqrt(np.maximum(loss.target, 0.0))
    # a misfit of squares is about 2d times that of distances: with these weights long ones do not rule
    given = (1.0 if loss.weight is None else np.asarray(loss.weight)) / (d**2 + np.mean(d**2))
    X, mu = relaxed_start(problem, rank, generator), np.inf
    for _ in range(_ROUNDS):
        misfit = np.abs(np.linalg.norm(X[i] - X[j], axis=1) - d)
        c = max(_GROSS * float(np.median(misfit)), _LEAST * float(np.median(d)))
        mu = min(mu / _COOLING, 2 * float(misfit.max() / c) ** 2)
        weights = given * (mu * c**2 / (misfit**2 + mu * c**2)) ** 2
        part = Distances(np.column_stack([i, j]), loss.target, loss.n_points, weights=weights)
        result = minimize(Problem(part), X, tol=_TOL, max_iter=100)
        loss._count(result.n_products)
        X = result.X
        if mu <= 1:
            break
    return X
