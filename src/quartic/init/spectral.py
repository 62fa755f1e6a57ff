"""A start for symmetric factorisation from the leading eigenvectors of M, turned until they are nearly nonnegative."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from quartic.arrays import (
    Array,
    astype,
    float_type,
    gram,
    inner,
    is_zero,
    most_different_rows,
    namespace,
    on_host,
    orthonormal,
    positive_part,
    space_of,
    squared_norm,
    times,
)
from quartic.core.problem import Problem
from quartic.core.units import exponent
from quartic.losses import LeastSquares

# Ritz values below this share of the largest are not worth telling apart, and would make the filter's range too wide.
_FLOOR = 0.05
# Nor is a range that is so much narrower than the spectrum: to round-off the filter is then a power of M.
_RESOLVED = 1e-6
# Log₂ of the norm that a filtered subspace may have: squares, and the next term's, are then far from overflow.
_RANGE = 20
# No entry is smaller than this share of a typical one: multiplicative methods cannot leave an exact zero.
_LEAST = 0.01


def spectral_start(
    problem: Problem,
    rank: int,
    generator: np.random.Generator,
    *,
    n_filters: int = 2,
    degree: int = 8,
    n_extra: int = 10,
    n_turns: int = 10,
) -> Array:
    r"""Return a start for :math:`M \approx XX^\top` made of the leading eigenpairs of M.

    With :math:`Z = U_r \Lambda_r^{1/2}` every :math:`ZQ`, Q orthogonal, is a best approximation of rank r. Where X ≥ 0
    is asked for, Q brings it as close to that as a few turns can,

    .. math:: \min_{Q^\top Q = I,\; Y \ge 0} \|ZQ - Y\|, \qquad Y \leftarrow \max(ZQ, 0), \quad Q \leftarrow
              \operatorname{polar}(Z^\top Y),

    beginning with the r rows of U that a pivoted QR decomposition finds the most different. The answer is Y, its zeros
    lifted to a hundredth of a typical entry (so that no method is locked there), times the best factor t for f(tX).
    Only rows where M itself is zero stay zero.

    The eigenpairs need not be exact, and come from subspace iteration with Chebyshev filters: 3 + ``n_filters *
    degree`` products with M in all. The subspace begins at random, so that seeds differ and ``n_init`` makes sense.

    Parameters
    ----------
    problem : Problem
        Its loss must be `quartic.losses.LeastSquares` without weights.
    rank : int
        r.
    generator : numpy.random.Generator
        For the first subspace.
    n_filters, degree : int
        Rounds of filtering, and the degree of the polynomial.
    n_extra : int
        Dimensions of the subspace beyond r.
    n_turns : int
        Turns of Q; they cost no products.

    Returns
    -------
    array (n, rank)

    Notes
    -----
    What it is worth beside the paper's random start is measured by ``quartic bench speed``; see
    ``benchmarks/RESULTS.md``.

    The turns are the alternating Procrustes scheme of Huang, Sidiropoulos and Swami (2014), "Non-negative matrix
    factorization revisited: uniqueness and algorithm for symmetric decomposition".

    Examples
    --------
    >>> import numpy as np
    >>> from quartic import Problem, minimize
    >>> from quartic.init import spectral_start
    >>> from quartic.losses import LeastSquares
    >>> from quartic.penalties import Nonnegative
    >>> M = np.kron(np.eye(3), np.ones((4, 4)))      # three groups of four
    >>> result = minimize(Problem(LeastSquares(M), Nonnegative()), spectral_start, rank=3, random_state=0)
    >>> sorted(np.bincount(result.X.argmax(axis=1)).tolist())
    [4, 4, 4]
    """
    loss = problem.loss
    if type(loss) is not LeastSquares:
        raise TypeError(
            f"the spectral start needs the eigenvectors of M in LeastSquares(M), but the loss is "
            f"{type(loss).__name__}; use a random start"
        )
    size = min(rank + n_extra, loss.n_points)
    Q = astype(loss.space.normal(generator, (loss.n_points, size)), loss.dtype)
    values, U = leading_eigenpairs(loss.product, Q, rank, n_filters, degree)
    Z = times(U, np.diag(np.sqrt(np.maximum(values, 0))))
    if not problem.penalty.nonnegative:
        return loss.random_start(rank, False, generator) if is_zero(Z) else Z
    typical = math.sqrt(squared_norm(Z) / (loss.n_points * rank))
    X = _turned(Z, U, n_turns).clip(_LEAST * typical, None)
    # f(tX) − f(0) = ½t⁴‖XᵀX‖² − t²⟨MX, X⟩ is least at t² = ⟨MX, X⟩ / ‖XᵀX‖².
    MX = loss.product(X)
    X[~MX.any(axis=1)] = 0  # a node without edges: M ≥ 0 and X > 0 leave no other reason, and zero is its best row
    fit, size_of_gram = inner(MX, X), on_host(gram(X))
    if not fit > 0:  # M is negative on what is left of its eigenvectors: they say nothing about X ≥ 0
        return loss.random_start(rank, True, generator)
    X *= math.sqrt(fit / squared_norm(size_of_gram))
    return X


def leading_eigenpairs(
    product: Callable[[Array], Array], Q: Array, rank: int, n_filters: int, degree: int
) -> tuple[Array, Array]:
    """Return approximations of the ``rank`` algebraically largest eigenvalues of M, falling, and their eigenvectors.

    Each round applies to the subspace the Chebyshev polynomial of M that is small between the least Ritz value and the
    last one wanted, and steep above: 2 + ``n_filters * degree`` products.
    """
    Q = orthonormal(product(Q))
    MQ = product(Q)
    values, Q, MQ = _ritz(Q, MQ)
    for _ in range(n_filters if Q.shape[1] < len(Q) else 0):
        # Ritz values close in from inside; the mirror image of the upper end stands for a lower end not yet seen.
        # Those of a random subspace are all near zero where M has no diagonal; ‖MQ‖ tells how far M reaches.
        reach = math.sqrt(squared_norm(MQ) / Q.shape[1])
        upper = max(values[-1], _FLOOR * values[0], _RESOLVED * reach, np.finfo(float_type(Q)).tiny)
        lower = min(-upper, 1.05 * values[-1])
        centre, half = (lower + upper) / 2, (upper - lower) / 2
        before, T = _kept_in_range(Q, (MQ - centre * Q) / half)
        for _ in range(degree - 1):
            space_of(T).chebyshev(product(T), T, before, centre, half)
            before, T = _kept_in_range(T, before)
        Q = orthonormal(T)
        values, Q, MQ = _ritz(Q, product(Q))
    return values[:rank], Q[:, :rank]


def _kept_in_range(before: Array, T: Array) -> tuple[Array, Array]:
    """Return two successive terms of Chebyshev's recursion, scaled alike by a power of two where T leaves the range.

    Outside the interval a term grows by 2|λ − centre| / half, which for a first subspace of 10⁶ rows is a thousandfold
    each time: after eight the squares overflow in single precision. The recursion is linear, so that a common factor
    changes nothing, and a power of two rounds nothing.
    """
    power = exponent(math.sqrt(squared_norm(T))) or 0
    if abs(power) > _RANGE:
        T *= 2.0**-power
        before *= 2.0**-power
    return before, T


def _ritz(Q: Array, MQ: Array) -> tuple[Array, Array, Array]:
    """Return the Ritz values of the subspace, falling, with Q and MQ in the basis of the Ritz vectors."""
    B = on_host(gram(Q, MQ))
    values, V = np.linalg.eigh((B + B.T) / 2)
    V = np.ascontiguousarray(V[:, ::-1])
    return values[::-1].astype(float_type(Q)), times(Q, V), times(MQ, V)


def _turned(Z: Array, U: Array, n_turns: int) -> Array:
    """Return ZQ with Q orthogonal and ZQ as nonnegative as the turns make it."""
    Y = times(Z, _polar(most_different_rows(U).T))
    Y *= namespace(Y).sign(cubes := (Y * Y * Y).sum(axis=0)) + (cubes == 0)
    if not n_turns:
        return Y
    turn = _polar(on_host(gram(Z, positive_part(Y))))
    for _ in range(n_turns - 1):
        turn = _polar(on_host(space_of(Z).turned_gram(Z, turn)))
    return times(Z, turn)


def _polar(A: Array) -> Array:
    left, _, right = np.linalg.svd(A.astype(np.float64))
    Q: Array = left @ right
    return Q
