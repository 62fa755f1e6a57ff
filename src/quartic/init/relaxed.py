"""Starts by solving: distances of pairs drawn at random, in more dimensions first; gross errors, by falling weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from quartic.arrays import Array, astype, times
from quartic.core.problem import Problem
from quartic.init.factorization import filtered_eigenpairs

# With more known distances a point than this a random start leads to the answer as well, and sooner.
_SCARCE = 36.0
# Dimensions more, and how well the problem is solved in them.
_EXTRA, _TOL, _STEPS = 2, 1e-3, 300
# The sampled start wants so many known distances a point: with fewer nothing is seen, and with more a core
# (`quartic.solvers.core`) is sooner there, which tensors do not have.
_FEWEST, _MOST = 12, 48
# Of fewer points other starts are as quick.
_MANY = 1000
# Columns more than wanted, rounds and degree of the filter.
_BESIDE, _PRODUCTS, _DEGREE = 3, 16, 8
# It is a start where the last eigenvalue stands so far above those of noise, and the loss so far below that of a random
# start. Of seven shapes with 16 to 40 distances a point all that pass lead to the answer.
_ABOVE, _BELOW = 1.4, 0.7
# The control parameter is divided by this from round to round; at most so many rounds. They end where two of them bring
# the limit of gross errors down to no less than this share.
_COOLING, _COLD, _STILL = 1.6, 40, 0.9
# A misfit counts as gross from so many times the median of all of them, as a standard deviation, and from this share of
# a typical distance at least.
_GROSS, _LEAST = 4.0 * 1.4826, 1e-4


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
    result = minimize(Problem(loss, problem.penalty), X0, tol=_TOL, max_iter=_STEPS).unless_interrupted()
    loss.count_products(result.n_products)
    X = result.X - result.X.mean(axis=0)
    _, axes = np.linalg.eigh(X.T @ X)
    found: Array = X @ axes[:, ::-1][:, :rank]
    return found


def relaxing_helps(problem: Problem) -> bool:
    """Tell whether distances are so few that a random start would often end in a local minimum."""
    loss: Any = problem.loss
    if not _lists_distances(loss) or problem.penalty.only_ridge != 0.0:
        return False
    return bool(loss.n_points > 2 * _SCARCE and loss.mean_degree() <= _SCARCE)


def _lists_distances(loss: Any) -> bool:
    """Tell whether the loss is one of squared distances that are listed on the host."""
    return bool(loss.offers("centred") and loss.pairs.listed)


def sampled_start(problem: Problem, rank: int, generator: np.random.Generator) -> Array | None:
    r"""Return the leading eigenvectors of the known distances, centred, with zeros for the unknown ones; or None.

    With :math:`m_i` the mean of the known squared distances of point i, and m that of all,
    :math:`-\tfrac12 (d_{ij} - m_i - m_j + m) \approx \langle x_i, x_j \rangle` for centred points, if the pairs are
    drawn at random. With the share p of all pairs known, a matrix of these numbers and zeros is p·XXᵀ plus noise, whose
    eigenvalues fill :math:`\pm 2\sqrt{s}`, s the mean sum of squares in a row (Wigner). None where the eigenvectors
    drown in it, as those of a sensor field do, whose pairs are the near ones.

    """
    loss: Any = problem.loss
    if not loss.offers("centred") or problem.penalty.only_ridge != 0.0:
        return None
    n, most = loss.n_points, _MOST if loss.pairs.listed else np.inf
    if not (n >= _MANY and _FEWEST <= loss.mean_degree() < most and rank + _BESIDE < n):
        return None
    found = loss.centred()
    if found is None:
        return None
    product: Callable[[Array], Array] = found[0]

    def counted(V: Array) -> Array:
        loss.count_products()
        return product(V)

    Q = astype(loss.space.normal(generator, (n, rank + _BESIDE)), loss.dtype)
    values, Q = filtered_eigenpairs(counted, Q, rank, _PRODUCTS, _DEGREE)
    if not values[rank - 1] > _ABOVE * found[1]:
        return None
    X: Array = loss.best_scale(times(Q[:, :rank], np.diag(np.sqrt(values[:rank]))))
    random = loss.random_start(rank, False, generator)
    return X if loss.at(X).value <= _BELOW * loss.at(random).value else None


def robust_start(problem: Problem, rank: int, generator: np.random.Generator, start: Array | None = None) -> Array:
    """Return points that fit most of the distances, however wrong the others are.

    With e the misfit of a distance and c what is still no gross error, Geman and McClure's weights
    w = (μc²/(e² + μc²))² go from those of least squares, μ = ∞, to those that leave gross errors out, μ = 1; each
    problem starts where the last one ended (Yang, Antonante, Tzoumas and Carlone 2020). c follows the median misfit,
    and it ends where c falls no more. It takes some ten solves. Least squares from there would follow the errors
    again: keep the weights, take a robust loss, or leave the errors out (`DistanceCompletion(robust=True)`).

    Parameters
    ----------
    problem : Problem
        `Distances` in NumPy arrays, signs free.
    rank : int
        r.
    generator : Generator
        For the first start.
    start : array (n, r), optional
        Where to begin; when left out, a start in two dimensions more.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic import Problem
    >>> from quartic.init import robust_start
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

    loss: Any = problem.loss
    if not _lists_distances(loss):
        raise TypeError(f"robust_start is for Distances of NumPy arrays, got {loss.name}")
    i, j, d = loss.rows, loss.cols, np.sqrt(np.maximum(loss.target, 0.0))
    # a misfit of squares is about 2d times that of distances: with these weights long ones do not rule
    given = (1.0 if loss.weight is None else np.asarray(loss.weight)) / (d**2 + np.mean(d**2))
    X = relaxed_start(problem, rank, generator) if start is None else start
    mu, scales = np.inf, list[float]()
    for _ in range(_COLD):
        misfit = np.abs(np.linalg.norm(X[i] - X[j], axis=1) - d)
        scales.append(max(_GROSS * float(np.median(misfit)), _LEAST * float(np.median(d))))
        if mu == 1 and scales[-1] > _STILL * scales[-3:][0]:
            break
        mu = max(1.0, min(mu / _COOLING, 2 * float(misfit.max() / scales[-1]) ** 2))
        limit = mu * scales[-1] ** 2
        weights = given * (limit / (misfit**2 + limit)) ** 2
        part = loss.with_pairs(replace(loss.pairs, weight=weights.astype(loss.target.dtype)))
        result = minimize(Problem(part), X, tol=_TOL, max_iter=100).unless_interrupted()
        loss.count_products(result.n_products)
        X = result.X
    return X
