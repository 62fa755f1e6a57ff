"""Compiled passes of Gauss–Newton over pairs: linearise, multiply by JᵀWJ, the quartic on a line.

For a pair p = (i, j) the residual q − b has the gradient 2(x_i − x_j) in row i and its negative in row j (distances),
or x_j in row i and x_i in row j (entries). Nothing is stored a pair: the products recompute the differences, since X
stays in the cache where m stored vectors would not.

Ranks up to 4 have passes of their own (`gauss_newton_lanes.py`; ``rank`` is 0 for the others), and so have ranks above
32 (`gauss_newton_any.py`). The passes here read rows into vector registers (`row_lanes.py`), filled up with zeros to a
power of two, which add nothing anywhere. They also do for small ranks where all is one compiled call (`solve` below,
`pair_descent.py`).

Row blocks, the preconditioner (`row_blocks.py`), are symmetric r × r and packed by rows of their lower triangle. While
they are summed up they lie turned, as `row_lanes.py` has them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from quartic.arrays import Array
from quartic.compiled.flags import FLAGS
from quartic.compiled.row_chunks import over_rows
from quartic.losses.pairs import gauss_newton_any, gauss_newton_lanes
from quartic.losses.pairs.row_blocks import (
    advance,
    advance_all,
    diagonal_mean,
    factor_blocks,
    first_direction,
    row_model,
    solve_all,
    solve_blocks,
)
from quartic.losses.pairs.row_lanes import (
    dot,
    load,
    load_block,
    minus,
    no_block,
    nothing,
    plus,
    plus_block,
    plus_square,
    store,
    store_block,
)

__all__ = [
    "advance",
    "diagonal_mean",
    "factor_blocks",
    "first_direction",
    "linearize",
    "product",
    "quartic",
    "solve",
    "solve_blocks",
]

_MOST_LANES = 32


def lanes_for(rank: int) -> tuple[float, ...]:
    """Return a row of zeros, as long as the registers that a row is read into: the next power of two."""
    return (0.0,) * (1 << (rank - 1).bit_length())


def filled(X: Array, width: int) -> Array:
    """Return X as C-ordered float64 with zeros for further columns; itself where it is that already."""
    if _fits(X, width):
        return X
    Y = np.empty((len(X), width))
    copy_columns(X, Y)
    return Y


def _fits(X: Array, width: int) -> bool:
    """Tell whether rows of X can be read into registers, or written from them, as they are."""
    return X.shape[1] == width and X.dtype == np.float64 and X.flags.c_contiguous


@njit(**FLAGS)
def copy_columns(X: Any, Y: Any) -> None:
    """Fill Y with as many columns of X as it has, and with zeros beyond those."""
    both = min(X.shape[1], Y.shape[1])
    for i in range(X.shape[0]):
        for k in range(both):
            Y[i, k] = X[i, k]
        for k in range(both, Y.shape[1]):
            Y[i, k] = 0.0


# -- the passes ------------------------------------------------------------------------------------------------------
#
# ``kind`` is (0,) for distances, () for entries: of what length a tuple is the compiler knows, as it knows whether
# ``weight`` is None, and leaves out the other branch.


def kind_of(difference: bool) -> tuple[int, ...]:
    """Return the tuple that stands for the kind of pair."""
    return (0,) if difference else ()


@cache
def linearize(rank: int, difference: bool, weighted: bool) -> Callable[..., float]:
    """Return the pass ``(X, chunks, cols, target, weight, G, B) -> f(X)``, which fills G with ∇f and B with row blocks.

    B_i = Σ_p w_p g gᵀ with g the gradient in row i of the residual of the pair p.
    """
    if rank:
        return gauss_newton_lanes.linearize(rank, difference, weighted)
    kind = kind_of(difference)

    def run(X: Any, chunks: Any, cols: Any, target: Any, weight: Any, G: Any, B: Any) -> Any:
        if X.shape[1] > _MOST_LANES:
            return gauss_newton_any.linearize(difference, weighted)(X, chunks, cols, target, weight, G, B)
        zeros, weight = lanes_for(X.shape[1]), weight if weighted else None
        Y = filled(X, len(zeros))
        H = G if _fits(G, len(zeros)) else np.empty_like(Y)
        T = np.empty((len(Y), len(zeros) // 2 + 1, len(zeros)))
        value = over_rows(
            lambda first, last, H, T: linearize_rows(
                zeros, kind, Y, chunks.start, cols, target, weight, H, T, first, last
            ),
            chunks, H, T,
        )  # fmt: skip
        if H is not G:
            copy_columns(H, G)
        pack(T, X.shape[1], B)
        return value

    return run


@njit(**FLAGS)
def linearize_rows(
    zeros: Any,
    kind: Any,
    X: Any,
    start: Any,
    cols: Any,
    target: Any,
    weight: Any,
    G: Any,
    T: Any,
    first: int,
    last: int,
) -> Any:
    """Fill G and the turned blocks T with the sums over the pairs of some rows; return their share of f."""
    G[:] = 0.0
    T[:] = 0.0
    value = 0.0
    for i in range(first, last):
        x, s, S = load(zeros, X, i), nothing(zeros), no_block(zeros)
        for p in range(start[i], start[i + 1]):
            j = np.int64(cols[p])
            w = 1.0 if weight is None else np.float64(weight[p])
            y = load(zeros, X, j)
            if len(kind) > 0:
                u = minus(x, y)
                e = dot(u, u) - target[p]
                we, ww = 2 * w * e, 4 * w
                store(G, j, plus(load(zeros, G, j), -we, u))
                s, S = plus(s, we, u), plus_square(S, ww, u)
                store_block(T, j, plus_square(load_block(zeros, T, j), ww, u))
            else:
                e = dot(x, y) - target[p]
                # the two halves of a diagonal entry's gradient fall into the same block
                we, ww = w * e, 2 * w if i == j else w
                store(G, j, plus(load(zeros, G, j), we, x))
                s, S = plus(s, we, y), plus_square(S, ww, y)
                store_block(T, j, plus_square(load_block(zeros, T, j), ww, x))
            value += w * e * e
        store(G, i, plus(load(zeros, G, i), 1.0, s))
        store_block(T, i, plus_block(load_block(zeros, T, i), S))
    return 0.5 * value


@njit(**FLAGS)
def pack(T: Any, rank: int, B: Any) -> None:
    """Fill B with the lower triangles, row by row, of the turned blocks T."""
    width = T.shape[2]
    for i in range(T.shape[0]):
        for k in range(rank):
            for l in range(k + 1):
                d = k - l
                B[i, k * (k + 1) // 2 + l] = T[i, d, l] if d <= width // 2 else T[i, width - d, k]


@cache
def product(rank: int, difference: bool, weighted: bool) -> Callable[..., None]:
    """Return the pass ``(X, V, chunks, cols, weight, H)``, which fills H with JᵀWJ V."""
    if rank:
        return gauss_newton_lanes.product(rank, difference, weighted)
    kind = kind_of(difference)

    def run(X: Any, V: Any, chunks: Any, cols: Any, weight: Any, H: Any) -> None:
        if X.shape[1] > _MOST_LANES:
            gauss_newton_any.product(difference, weighted)(X, V, chunks, cols, weight, H)
            return
        zeros, weight = lanes_for(X.shape[1]), weight if weighted else None
        Y, Z = filled(X, len(zeros)), filled(V, len(zeros))
        F = H if _fits(H, len(zeros)) else np.empty_like(Y)
        over_rows(
            lambda first, last, F: product_rows(zeros, kind, Y, Z, chunks.start, cols, weight, F, first, last),
            chunks,
            F,
        )
        if F is not H:
            copy_columns(F, H)

    return run


@njit(**FLAGS)
def product_rows(
    zeros: Any, kind: Any, X: Any, V: Any, start: Any, cols: Any, weight: Any, H: Any, first: int, last: int
) -> None:
    """Fill H with the sums over the pairs of some rows."""
    H[:] = 0.0
    for i in range(first, last):
        x, v, s = load(zeros, X, i), load(zeros, V, i), nothing(zeros)
        for p in range(start[i], start[i + 1]):
            j = np.int64(cols[p])
            w = 1.0 if weight is None else np.float64(weight[p])
            y, z = load(zeros, X, j), load(zeros, V, j)
            if len(kind) > 0:
                u = minus(x, y)
                b = 4 * w * dot(u, minus(v, z))
                s = plus(s, b, u)
                store(H, j, plus(load(zeros, H, j), -b, u))
            else:
                b = w * (dot(y, v) + dot(x, z))
                s = plus(s, b, y)
                store(H, j, plus(load(zeros, H, j), b, x))
        store(H, i, plus(load(zeros, H, i), 1.0, s))


@cache
def quartic(rank: int, difference: bool, weighted: bool) -> Callable[..., tuple[float, float, float, float]]:
    """Return the pass ``(X, D, chunks, cols, target, weight) -> c1, c2, c3, c4``: the quartic of f on X + tD alone."""
    if rank:
        return gauss_newton_lanes.quartic(rank, difference, weighted)
    kind = kind_of(difference)

    def run(X: Any, D: Any, chunks: Any, cols: Any, target: Any, weight: Any) -> Any:
        if X.shape[1] > _MOST_LANES:
            return gauss_newton_any.quartic(difference, weighted)(X, D, chunks, cols, target, weight)
        zeros, weight = lanes_for(X.shape[1]), weight if weighted else None
        Y, E = filled(X, len(zeros)), filled(D, len(zeros))
        return over_rows(
            lambda first, last: quartic_rows(zeros, kind, Y, E, chunks.start, cols, target, weight, first, last), chunks
        )

    return run


@njit(**FLAGS)
def quartic_rows(
    zeros: Any, kind: Any, X: Any, D: Any, start: Any, cols: Any, target: Any, weight: Any, first: int, last: int
) -> Any:
    """Return c1 … c4 summed over the pairs of some rows."""
    c1, c2, c3, c4 = 0.0, 0.0, 0.0, 0.0
    for i in range(first, last):
        x, d = load(zeros, X, i), load(zeros, D, i)
        for p in range(start[i], start[i + 1]):
            j = np.int64(cols[p])
            w = 1.0 if weight is None else np.float64(weight[p])
            y, z = load(zeros, X, j), load(zeros, D, j)
            if len(kind) > 0:
                u, v = minus(x, y), minus(d, z)
                e, b, c = dot(u, u) - target[p], 2 * dot(u, v), dot(v, v)
            else:
                e, b, c = dot(x, y) - target[p], dot(x, z) + dot(d, y), dot(d, z)
            c1 += w * e * b
            c2 += w * (0.5 * b * b + e * c)
            c3 += w * b * c
            c4 += w * c * c
    return c1, c2, c3, 0.5 * c4


# -- the equations ---------------------------------------------------------------------------------------------------


@cache
def solve(rank: int, difference: bool, weighted: bool) -> Callable[..., tuple[Array, int, bool]]:
    """Return ``(X, start, cols, weight, G, B, shift, tolerance, most) -> D, steps, reached``: conjugate gradients.

    What `quartic.solvers.normal_equations.conjugate_gradients` does, for up to 32 columns, in one call: on a few
    thousand pairs its calls would take as long as its passes.
    """
    kind = kind_of(difference)

    def run(
        X: Any, start: Any, cols: Any, weight: Any, G: Any, B: Any, shift: float, tolerance: float, most: int
    ) -> tuple[Array, int, bool]:
        rank, zeros = X.shape[1], lanes_for(X.shape[1])
        Y, F = filled(X, len(zeros)), filled(G, len(zeros))
        D = np.zeros_like(Y)
        N = factor_blocks(B, shift, rank)
        weight = weight if weighted else None
        steps, reached = solve_rows(
            zeros, row_model(rank), kind, Y, start, cols, weight, F, N, shift, tolerance, most, rank, D
        )
        return D[:, :rank], steps, reached

    return run


@njit(**FLAGS)
def solve_rows(
    zeros: Any, model: Any, kind: Any, X: Any, start: Any, cols: Any, weight: Any, G: Any, N: Any, shift: float,
    tolerance: float, most: int, rank: int, D: Any,
) -> Any:  # fmt: skip
    """Fill the first ``rank`` columns of D with the solution; return the steps it took, and whether they were enough.

    G and D have further columns, of zeros.
    """
    n, width = X.shape
    Z, P, H, R = np.zeros((n, width)), np.empty((n, width)), np.empty((n, width)), np.empty((n, width))
    for i in range(n):
        for k in range(width):
            R[i, k] = -G[i, k]
            D[i, k] = 0.0
    first = rz = solve_all(model, N, R, Z, rank)
    P[:] = Z
    for step in range(most):
        product_rows(zeros, kind, X, P, start, cols, weight, H, 0, n)
        curvature, rz = advance_all(model, rz, shift, P, H, N, D, R, Z, rank)
        if not curvature > 0:
            if step == 0:
                D[:] = Z
            return step + 1, True
        if not rz > tolerance**2 * first:
            return step + 1, True
    return most, False
