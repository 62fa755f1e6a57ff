"""A large problem by way of a small one: pairs among some points, and the others' places by least squares."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import Array
from quartic.compiled.flags import FLAGS, njit
from quartic.compiled.vectors import lanes_for, load, store
from quartic.losses.pairs.pairs import Pairs


def choose_core(start: Any, cols: Any, share: float, least: int) -> tuple[NDArray[np.bool_], Any, Any]:
    """Return a mask of about this share of the points, each with ``least`` pairs or more with the others; those pairs.

    The pairs are given by their rows and their numbers.

    The draw is a hash of the point's number, hence always the same. Points with too few pairs are dropped until none
    is left that has; the mask may end up empty.
    """
    n = len(start) - 1
    z = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)  # the finalizer of SplitMix64
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    chosen = ((z ^ (z >> np.uint64(31))) >> np.uint64(11)) / 9007199254740992.0 < share
    rows = np.flatnonzero(chosen)
    counts = start[rows + 1] - start[rows]
    i = np.repeat(rows, counts)
    pairs = np.arange(len(i)) + np.repeat(start[rows] - (np.cumsum(counts) - counts), counts)
    j = cols[pairs]
    kept = np.flatnonzero(chosen[j])
    while True:
        i, j, pairs = i[kept], j[kept], pairs[kept]
        few = chosen & (np.bincount(i, minlength=n) + np.bincount(j, minlength=n) < least)
        if not few.any():
            return chosen, i, pairs
        chosen &= ~few
        kept = np.flatnonzero(chosen[i] & chosen[j])


def place(pairs: Pairs, X: Array, placed: NDArray[np.bool_]) -> tuple[Array, NDArray[np.bool_]]:
    """Return X with more points placed, and which are: those with 2(r + 1) placed neighbours or more.

    ‖x‖² − 2⟨x, x_j⟩ + ‖x_j‖² = d_j is linear in x and ‖x‖²; x is the least-squares solution over the neighbours j, from
    which ‖x‖² is eliminated by subtracting the mean equation. ⟨x, x_j⟩ = b_j is linear as it is.
    """
    n, rank = X.shape
    X = X.astype(np.float64)
    if pairs.difference:
        X -= X[placed].mean(axis=0)
    rows, columns = np.tril_indices(rank)
    front = lanes_for(rank + 1)
    corner = -(-(1 + rank + len(rows)) // len(front)) * len(front)
    lanes = lanes_for(corner + len(front))
    span = -(-(corner + len(front)) // len(lanes)) * len(lanes)
    # the record of a placed point holds 1, x and xxᵀ, and from the corner on ‖x‖² times (1, x); that of another one the
    # sums of them over its placed neighbours, with ‖x‖² − b (distances) or b (entries) in place of ‖x‖²
    W, counts, x = np.zeros((n, span)), None if pairs.weight is None else np.zeros(n, np.int64), X[placed]
    own = np.zeros((len(x), span))
    own[:, 0], own[:, 1 : rank + 1], own[:, rank + 1 : rank + 1 + len(rows)] = 1.0, x, x[:, rows] * x[:, columns]
    if pairs.difference:
        own[:, corner : corner + rank + 1] = np.einsum("ik,ik->i", x, x)[:, None] * own[:, : rank + 1]
    W[placed] = own
    sign = -1.0 if pairs.difference else 1.0
    gather(lanes, front, W, corner, sign, placed, pairs.start, pairs.cols, pairs.target, pairs.weight, counts)
    enough = (W[:, 0] if counts is None else counts) >= 2 * (rank + 1)
    new = np.flatnonzero(~placed & enough & (W[:, 0] > 0))
    sums = np.ascontiguousarray(W[new].T)
    A = np.empty((rank, rank, len(new)))
    A[rows, columns] = A[columns, rows] = sums[rank + 1 : rank + 1 + len(rows)]
    right, total = sums[corner : corner + rank + 1], sums[: rank + 1]
    b = right[1:]
    if pairs.difference:
        mean = total[1:] / total[0]
        A, b = A - mean[:, None] * total[1:], 0.5 * (b - right[0] * mean)
    X[new] = _solutions(A, b).T
    placed = placed.copy()
    placed[new] = True
    return X, placed


@njit(**FLAGS)
def gather(
    lanes: Any, front: Any, W: Any, corner: int, sign: float, placed: Any, start: Any, cols: Any, target: Any,
    weight: Any, counts: Any,
) -> None:  # fmt: skip
    """Sum up what places the points that are not yet, and where weights do not do so count their placed neighbours."""
    n, none, width, span = np.int64(len(placed)), np.int64(0), np.int64(len(lanes)), np.int64(W.shape[1])
    longest = np.int64(0)
    for i in range(n):
        longest = max(longest, start[i + 1] - start[i])
    across = np.empty(longest + 1, np.int64)
    for i in range(n):
        # the pairs of which one point is placed, listed first: within the sums a branch could not be foreseen
        here, m = placed[i], 0
        for p in range(start[i], start[i + 1]):
            across[m] = p
            m += here != placed[np.uint64(cols[p])]
        for q in range(m):
            p = across[q]
            j = np.int64(cols[p])
            known, other = (i, j) if here else (j, i)
            w = 1.0 if weight is None else np.float64(weight[p])
            for o in range(none, span, width):
                store(W, other, o, load(lanes, W, other, o) + w * load(lanes, W, known, o))
            wb = sign * w * np.float64(target[p])
            store(W, other, corner, load(front, W, other, corner) + wb * load(front, W, known, none))
            if weight is not None:
                counts[np.uint64(other)] += 1


def _solutions(A: Array, b: Array) -> Array:
    """Return the x with Ax = b, A positive semidefinite, for many at a time: the last axis says which."""
    x, left = _by_factors(A, b)
    if left.any():
        x[:, left] = _by_eigenvalues(A[:, :, left], b[:, left])
    return x


def _by_factors(A: Array, b: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Return the solutions by Cholesky's factors, and which points have neighbours too near a plane for them."""
    rank, trace = len(b), np.einsum("kkn->n", A)
    C, y, left = np.zeros_like(A), np.empty_like(b), np.zeros(len(trace), bool)
    for k in range(rank):
        pivot = A[k, k] - (C[k, :k] ** 2).sum(axis=0)
        poor = ~(pivot > 1e-4 * trace)
        left |= poor
        C[k, k] = np.sqrt(np.where(poor, 1.0, pivot))
        y[k] = (b[k] - (C[k, :k] * y[:k]).sum(axis=0)) / C[k, k]
        for l in range(k + 1, rank):
            C[l, k] = (A[l, k] - (C[l, :k] * C[k, :k]).sum(axis=0)) / C[k, k]
    for k in range(rank - 1, -1, -1):
        y[k] = (y[k] - (C[k + 1 :, k] * y[k + 1 :]).sum(axis=0)) / C[k, k]
    return y, left


def _by_eigenvalues(A: Array, b: Array) -> Array:
    """Return the same where neighbours may lie in a plane, which leaves a direction open."""
    values, vectors = np.linalg.eigh(A.transpose(2, 0, 1))
    # in an open direction x stays at 0, the middle of what is placed
    inverse = np.where(values > 1e-10 * values[:, -1:], 1 / np.where(values > 0, values, 1.0), 0.0)
    x: Array = np.einsum("nkl,nl,nml,mn->kn", vectors, inverse, vectors, b, optimize=True)
    return x
