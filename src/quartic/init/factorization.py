"""Starts for factorisation: the paper's random one, and those from leading eigenvectors or singular vectors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from quartic.arrays import (
    HOST,
    Array,
    astype,
    copy,
    float_type,
    gram,
    inner,
    most_different_rows,
    namespace,
    on_host,
    orthonormal,
    positive_part,
    space_of,
    spread_rows,
    squared_norm,
    times,
)
from quartic.core.loop import minimize
from quartic.core.problem import Problem
from quartic.core.units import exponent
from quartic.losses.factor.loss import FullLeastSquares
from quartic.losses.factor.matrix import Matrix, ProjectedMatrix
from quartic.losses.other.rectangular import balanced_factors
from quartic.penalties import Nonnegative

# A range that is so much narrower than the spectrum makes the filter, to round-off, a power of M.
_RESOLVED = 1e-6
# Log₂ of the norm that a filtered subspace may have: squares, and the next term's, are then far from overflow.
_RANGE = 20
# No entry is smaller than this share of a typical one: multiplicative methods cannot leave an exact zero.
_LEAST = 0.01
# Products and highest degree of the filters, dimensions of the subspace beyond r, turns of Q.
_PRODUCTS, _DEGREE, _EXTRA, _TURNS = 16, 8, 10, 10
# Numbers in single precision that the machine works on together.
_VECTOR = 8
# Eigenvectors that are off by so much, as a mean angle, are as good a start as better ones where X ≥ 0 changes them;
# those on which M is projected are to be better.
_ANGLES = 0.1, 0.02
# The projected M is worth a descent of its own where a row of M has so many times its columns, and a product with M
# takes so many multiplications, on the host and on a device: below that passes over X and launches take the time.
_TIMES, _MULTIPLICATIONS = 8, (2e7, 1e9)
# It ends where the gradient is so much of what the projection leaves out of it, or after so many iterations.
_SHARE, _MOST = 0.2, 500


def random_start(problem: Problem, rank: int, generator: np.random.Generator) -> Array:
    r"""Return the random start that the loss defines.

    For symmetric NMF it is the paper's, :math:`X_{ij} = 2\,\mathrm{uniform}(10^{-5}, \sqrt{\mathrm{mean}(M) / r})`.

    Parameters
    ----------
    problem : Problem
        The loss gives the scale, the penalty the signs.
    rank : int
        Columns of the start.
    generator : numpy.random.Generator
        Source of random numbers.

    Returns
    -------
    array (n, rank)

    Examples
    --------
    >>> import numpy as np
    >>> from quartic import Problem, init, losses, penalties
    >>> problem = Problem(losses.LeastSquares(np.ones((4, 4))), penalties.Nonnegative())
    >>> X = init.random_start(problem, rank=2, generator=np.random.default_rng(0))
    >>> X.shape, bool(X.min() > 0)
    ((4, 2), True)
    """
    return problem.loss.random_start(rank, problem.penalty.nonnegative, generator)


def spectral_start(problem: Problem, rank: int, generator: np.random.Generator) -> Array:
    r"""Return a start for :math:`M \approx XX^\top` made of the leading eigenpairs of M.

    With :math:`Z = U_r \Lambda_r^{1/2}` every :math:`ZQ`, Q orthogonal, is a best approximation of rank r. Where X ≥ 0
    is asked for, Q brings it as close to that as a few turns can,

    .. math:: \min_{Q^\top Q = I,\; Y \ge 0} \|ZQ - Y\|, \qquad Y \leftarrow \max(ZQ, 0), \quad Q \leftarrow
              \operatorname{polar}(Z^\top Y),

    beginning with the r rows of U that a pivoted QR decomposition finds the most different. Zeros of Y are lifted to a
    hundredth of a typical entry (so that no method is locked there), and Y is scaled by the best factor t for f(tX).
    Only rows where M itself is zero stay zero.

    The eigenpairs need not be exact, and come from subspace iteration with Chebyshev filters: 19 products with M at
    most, 11 where a gap follows the r-th eigenvalue. The subspace begins at random, so that seeds differ and ``n_init``
    makes sense. Where M has far more entries than the subspace (dense M), the start goes on to descend on
    :math:`\tfrac12\|QQ^\top MQQ^\top - XX^\top\|^2`, M projected on the subspace, whose products cost next to
    nothing, until what the projection leaves out counts. Its zeros stay zeros.

    Parameters
    ----------
    problem, rank, generator
        As in `random_start`; the loss must be `quartic.losses.LeastSquares` without weights.

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
    >>> from quartic import Problem, init, losses, minimize, penalties
    >>> M = np.kron(np.eye(3), np.ones((4, 4)))      # three groups of four
    >>> problem = Problem(losses.LeastSquares(M), penalties.Nonnegative())
    >>> result = minimize(problem, init.spectral_start, rank=3, random_state=0)
    >>> sorted(np.bincount(result.X.argmax(axis=1)).tolist())
    [4, 4, 4]
    """
    loss = problem.loss
    if not loss.offers("point_from"):
        raise TypeError(
            f"the spectral start needs the eigenvectors of M in LeastSquares(M), but the loss is "
            f"{loss.name}; use a random start"
        )
    nonnegative = problem.penalty.nonnegative
    product: Callable[[Array], Array] = cast(Any, loss).product
    columns = min(rank + _EXTRA, loss.n_points)
    projects = nonnegative and _projecting_helps(cast(Any, loss).matrix, columns, rank)
    rough: Any = cast(Any, loss).rough() if nonnegative and not projects else loss
    if rough.dtype != loss.dtype:  # whole vectors take no longer
        columns = min(-(-columns // _VECTOR) * _VECTOR, loss.n_points)
    Q = loss.space.normal(generator, (loss.n_points, columns), rough.dtype)
    angle = _ANGLES[projects] if nonnegative else 0.0
    values, Q = filtered_eigenpairs(rough.product, Q, rank, _PRODUCTS, _DEGREE, angle)
    projected = FullLeastSquares(ProjectedMatrix(cast(Any, loss).matrix, Q, values)) if projects else None
    roots = np.eye(Q.shape[1], rank) * np.sqrt(np.maximum(values[:rank], 0))  # Z is Q times this
    if not nonnegative:
        return times(Q, roots) if roots.any() else loss.random_start(rank, False, generator)
    X: Array = times(Q, roots @ _turn(copy(spread_rows(Q)[:, :rank]), roots[:rank]))
    del Q  # memory is short where arrays are large
    loss.space.clip_in_place(X, _LEAST * math.sqrt(squared_norm(roots) / (loss.n_points * rank)))
    X = astype(X, loss.dtype)
    # f(tX) − f(0) = ½t⁴‖XᵀX‖² − t²⟨MX, X⟩ is least at t² = ⟨MX, X⟩ / ‖XᵀX‖².
    MX = product(X)
    X[~MX.any(axis=1)] = 0  # a node without edges: M ≥ 0 and X > 0 leave no other reason, and zero is its best row
    fit, size_of_gram = inner(MX, X), on_host(gram(X))
    if not fit > 0:  # M is negative on what is left of its eigenvectors: they say nothing about X ≥ 0
        return loss.random_start(rank, True, generator)
    scale = math.sqrt(fit / squared_norm(size_of_gram))
    X *= scale
    if projected is None:
        return X
    left_out = 2 * math.sqrt(squared_norm(scale * MX - projected.matrix.product(X)))
    solver = "face-cg" if loss.space is HOST else "lbfgs"  # which a device replays
    found = minimize(
        Problem(projected, Nonnegative()), X, solver=solver, tol=_SHARE, reference=left_out, max_iter=_MOST
    )
    return found.unless_interrupted().X


def _projecting_helps(matrix: Matrix, columns: int, rank: int) -> bool:
    """Tell whether to descend on M projected on so many columns saves time beside products with M."""
    entries = matrix.entries_per_row()
    return entries >= _TIMES * columns and matrix.n * entries * rank >= _MULTIPLICATIONS[matrix.space is not HOST]


def filtered_eigenpairs(
    product: Callable[[Array], Array], Q: Array, rank: int, n_products: int, highest: int, angle: float = 0.0
) -> tuple[Array, Array]:
    """Return approximations of the algebraically largest eigenvalues of M, falling, and their eigenvectors.

    As many as Q has columns; the first ``rank`` of them are to be good. Each round applies to the subspace the
    Chebyshev polynomial of M that is small between the least Ritz value and the last one, and steep above, of at most
    the degree given: 2 + ``n_products`` products, fewer once the mean angle is good enough. Where the largest
    eigenvalue is far above the last one wanted (of dense M ≥ 0 it is), a high degree would leave only its eigenvector
    of the subspace: the degree is such that round-off does not.
    """
    Q = orthonormal(product(Q))
    MQ = product(Q)
    values, V, squares = _find_ritz(Q, MQ)
    most = 1 / math.sqrt(np.finfo(float_type(Q)).eps)
    left = n_products if Q.shape[1] < len(Q) else 0
    while left > 0 and _mean_angle(values, squares, rank) > angle:
        Q, MQ = times(Q, V, True), times(MQ, V, True)
        # Ritz values close in from inside, and the least ‖Mq‖ tells how much further M reaches, unless negative
        # eigenvalues are seen to be among it. The mirror image of the upper end stands for a lower end not yet seen.
        reach = math.sqrt(squares.min()) * (1.0 if values[-1] > 0 else _RESOLVED)
        upper = max(values[-1], reach, np.finfo(float_type(Q)).tiny)
        lower = min(-upper, 1.05 * values[-1])
        centre, half = float((lower + upper) / 2), float((upper - lower) / 2)
        # log of what a degree multiplies the first eigenvector by, beyond the last one wanted
        first, last = (math.acosh(max((values[k] - centre) / half, 1.0)) for k in (0, rank - 1))
        rounds = math.ceil(left / min(max(math.log(most) / max(first - last, 1e-300), 2), highest))
        degree = math.ceil(left / rounds)
        left -= degree
        space = space_of(Q)
        space.mix(MQ, 1 / half, (-centre / half, Q))
        before, T, scale = Q, MQ, 1.0
        del Q, MQ  # of a large graph four such arrays are as many as there is room for
        for _ in range(degree - 1):
            # Outside the interval a term grows by 2|λ − centre| / half, a thousandfold for a first subspace of 10⁶
            # rows, or more where an eigenvalue is not seen yet: after eight the squares overflow in single precision.
            # The recursion is linear: a common factor changes nothing, and a power of two rounds nothing.
            power = exponent(2 * math.cosh(first) * math.sqrt(squared_norm(T))) or 0
            factor = 2.0**-power if abs(power) > _RANGE else 1.0
            space.mix(before, -scale * factor, (2 * factor / half, product(T)), (-2 * centre * factor / half, T))
            before, T, scale = T, before, factor
        del before
        Q = orthonormal(T)
        del T
        MQ = product(Q)
        values, V, squares = _find_ritz(Q, MQ)
    return values, times(Q, V, True)


def _mean_angle(values: Array, squares: Array, rank: int) -> float:
    """Return the root mean square of residual over gap, which bounds the angles of Ritz vectors and eigenvectors."""
    wanted = values[:rank].astype(np.float64)
    residuals = np.maximum(squares[:rank] - wanted**2, 0)  # ‖Mq − λq‖² = ‖Mq‖² − λ², as ⟨q, Mq⟩ = λ
    return math.sqrt(np.mean(residuals / np.maximum(wanted - values[-1], 1e-30) ** 2))


def _find_ritz(Q: Array, MQ: Array) -> tuple[Array, Array, Array]:
    """Return the Ritz values of the subspace, falling, with the V of the Ritz vectors QV, and ‖Mq‖² of these."""
    B, C = space_of(Q).read(gram(Q, MQ), gram(MQ))
    values, V = np.linalg.eigh((B + B.T) / 2)
    V = np.ascontiguousarray(V[:, ::-1])
    return values[::-1].astype(float_type(Q)), V, np.maximum((V * (C @ V)).sum(axis=0), 0)


def _turn(U: Array, roots: Array) -> Array:
    """Return Q orthogonal with ZQ as nonnegative as the turns make it, Z = U·roots, from rows that stand for all."""
    Z = times(U, roots)
    Y = times(Z, _polar(most_different_rows(U).T))
    Y *= namespace(Y).sign(cubes := (Y * Y * Y).sum(axis=0)) + (cubes == 0)
    turn = _polar(on_host(gram(Z, positive_part(Y))))
    for _ in range(_TURNS - 1):
        turn = _polar(on_host(gram(Z, positive_part(times(Z, turn)))))
    return turn


def _polar(A: Array) -> Array:
    left, _, right = np.linalg.svd(A.astype(np.float64))
    Q: Array = left @ right
    return Q


def rectangular_start(problem: Problem, rank: int, generator: np.random.Generator) -> Array:
    r"""Return a start [U; V] for :math:`A \approx UV^\top` from the leading singular triplets of A.

    With :math:`A \approx \sum_k \sigma_k u_k v_k^\top` the columns are :math:`\sqrt{\sigma_k}u_k` and
    :math:`\sqrt{\sigma_k}v_k`, balanced. Where X ≥ 0 is asked for, each pair is replaced by its positive or its
    negative parts, whichever carry more of it (Boutsidis and Gallopoulos 2008), and zeros are lifted to a random
    fraction of the mean, since some methods cannot leave them. Unknown entries count as zeros, and the result is scaled
    to fit the known ones best.

    The triplets come from Lanczos' method from a random vector, good to a few digits; seeds differ.

    Parameters
    ----------
    problem, rank, generator
        As in `random_start`; the loss must be `quartic.losses.Rectangular`, with or without weights.

    Returns
    -------
    array (m + n, rank)

    Examples
    --------
    >>> import numpy as np
    >>> from quartic import Problem, init, losses, minimize, penalties
    >>> problem = Problem(losses.Rectangular(np.kron(np.eye(2), np.ones((3, 2)))), penalties.Nonnegative())
    >>> minimize(problem, init.rectangular_start, rank=2, random_state=0).success
    True
    """
    loss: Any = problem.loss
    if not loss.offers("factors"):
        raise TypeError(f"rectangular_start needs a Rectangular loss, but the loss is {loss.name}")
    m, n = loss.shape
    at_zero = loss.gradient_operator(loss.at(np.zeros((m + n, 1))))
    X = balanced_factors(lambda Z: -2 * at_zero(Z), (m, n), rank, generator)
    known = X.shape[1]
    if problem.penalty.nonnegative:
        X = _take_positive_parts(X, m)
        small = float(X.mean()) * 0.5
        X = np.where(X > 0, X, small * generator.random(X.shape))
    if rank > known:  # more columns than A has singular values: the others are small noise
        noise = generator.random if problem.penalty.nonnegative else generator.standard_normal
        X = np.hstack([X, 0.1 * float(np.abs(X).mean()) * noise((m + n, rank - known))])
    return cast(Array, loss.best_scale(X))


def _take_positive_parts(X: Array, m: int) -> Array:
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
