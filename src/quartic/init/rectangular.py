"""A start for rectangular factorisation from the leading singular vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quartic.arrays import Array, inner
from quartic.core.problem import Problem
from quartic.losses.other.rectangular import balanced_factors


def rectangular_start(
    problem: Problem, rank: int, generator: np.random.Generator, *, n_rounds: int = 4, n_extra: int = 8
) -> Array:
    r"""Return a start [U; V] for :math:`A \approx UV^\top` from the leading singular triplets of A.

    With :math:`A \approx \sum_k \sigma_k u_k v_k^\top` the columns are :math:`\sqrt{\sigma_k}u_k` and
    :math:`\sqrt{\sigma_k}v_k`, balanced. Where X ≥ 0 is asked for, each pair is replaced by its positive or its
    negative parts, whichever carry more of it (Boutsidis and Gallopoulos 2008), and zeros are lifted to a random
    fraction of the mean, since some methods cannot leave them. Unknown entries count as zeros, and the result is scaled
    to fit the known ones best.

    The triplets come from subspace iteration from a random subspace: 2 ``n_rounds`` products with zeros in one half,
    and two more for the scale; seeds differ.

    Parameters
    ----------
    problem : Problem
        Its loss must be `quartic.losses.Rectangular`, with or without weights.
    rank : int
        r.
    generator : numpy.random.Generator
        For the first subspace, and for the small numbers in place of zeros.
    n_rounds : int
        Rounds of subspace iteration.
    n_extra : int
        Dimensions of the subspace beyond r.

    Returns
    -------
    array (m + n, rank)

    Examples
    --------
    >>> import numpy as np
    >>> from quartic import Problem, minimize
    >>> from quartic.init import rectangular_start
    >>> from quartic.losses import Rectangular
    >>> from quartic.penalties import Nonnegative
    >>> A = np.kron(np.eye(2), np.ones((3, 2)))
    >>> minimize(Problem(Rectangular(A), Nonnegative()), rectangular_start, rank=2, random_state=0).success
    True
    """
    loss: Any = problem.loss
    if not hasattr(loss, "factors"):
        raise TypeError(f"rectangular_start needs a Rectangular loss, but the loss is {type(loss).__name__}")
    m, n = loss.shape
    at_zero = loss.gradient_operator(loss.at(np.zeros((m + n, 1))))
    X = balanced_factors(lambda Z: -2 * at_zero(Z), (m, n), rank, generator, n_rounds, n_extra)
    known = X.shape[1]
    if problem.penalty.nonnegative:
        X = _nonnegative(X, m)
        small = float(X.mean()) * 0.5
        X = np.where(X > 0, X, small * generator.random(X.shape))
    if rank > known:  # more columns than A has singular values: the others are small noise
        noise = generator.random if problem.penalty.nonnegative else generator.standard_normal
        X = np.hstack([X, 0.1 * float(np.abs(X).mean()) * noise((m + n, rank - known))])
    return _best_scale(loss, X)


def _nonnegative(X: Array, m: int) -> Array:
    """Return X with each pair of columns (u, v) replaced by its positive or its negative parts, of equal norms."""
    Y = np.zeros_like(X)
    for k in range(X.shape[1]):
        u, v = X[:m, k], X[m:, k]
        parts = [(np.maximum(s * u, 0), np.maximum(s * v, 0)) for s in (1, -1)]
        sizes = [float(np.linalg.norm(a) * np.linalg.norm(b)) for a, b in parts]
        a, b = parts[int(np.argmax(sizes))]
        length = math.sqrt(max(sizes))
        if length > 0:
            Y[:m, k] = length * a / np.linalg.norm(a)
            Y[m:, k] = length * b / np.linalg.norm(b)
    return Y


def _best_scale(loss: Any, X: Array) -> Array:
    """Return the tX with the least f(tX), a quartic in t with no odd terms: one product."""
    p = loss.at(X)
    at_zero = loss.gradient_operator(loss.at(np.zeros_like(X[:, :1])))
    # f(tX) = f(0) − a t² + b t⁴ with a = −⟨∇F(0)X, X⟩; the slope at 1 is 4b − 2a
    a = -inner(at_zero(X), X)
    b = (inner(p.gradient, X) + 2 * a) / 4
    return X * math.sqrt(a / (2 * b)) if a > 0 and b > 0 else X
