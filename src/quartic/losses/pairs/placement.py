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
    while True:
        rows, pairs = pairs_within(start, cols, chosen)
        few = chosen & (np.bincount(rows, minlength=n) + np.bincount(cols[pairs], minlength=n) < least)
        if not few.any():
            return chosen, rows, pairs
        chosen &= ~few


@njit(**FLAGS)
def pairs_within(start: Any, cols: Any, chosen: Any) -> Any:
    """Return rows and numbers of the pairs both of whose points are chosen."""
    most, m = 0, 0
    for i in range(len(chosen)):
        most += chosen[i] * (start[i + 1] - start[i])
    rows, pairs = np.empty(most + 1, np.int64), np.empty(most + 1, np.int64)
    for i in range(len(chosen)):
        for p in range(start[i], start[i + 1] if chosen[i] else start[i]):
            rows[m], pairs[m] = i, p  # kept if the next one does not take its place: no branch
            m += chosen[np.uint64(cols[p])]
    return rows[:m], pairs[:m]


def place(pairs: Pairs, X: Array, placed: NDArray[np.bool_]) -> tuple[Array, NDArray[np.bool_]]:
    """Return X with more points placed, and which are: those with 2(r + 1) placed neighbours or more.

    ‖x‖² − 2⟨x, x_j⟩ + ‖x_j‖² = d_j is linear in x and ‖x‖²; x is the least-squares solution over the neighbours j, from
    which ‖x‖² is eliminated by subtracting the mean equation. ⟨x, x_j⟩ = b_j is linear as it is.
    """
    n, rank = X.shape
    X = X.astype(np.float64)
    if pairs.difference:
        X -= X[placed].mean(axis=0)
    front = lanes_for(rank + 1)
    corner = -(-(1 + rank + rank * (rank + 1) // 2) // len(front)) * len(front)
    lanes = lanes_for(corner + len(front))
    span = -(-(corner + len(front)) // len(lanes)) * len(lanes)
    # the record of a placed point holds 1, x and xxᵀ, and from the corner on ‖x‖² times (1, x); that of another one the
    # sums of them over its placed neighbours, with ‖x‖² − b (distances) or b (entries) in place of ‖x‖²
    room, counts = pairs.chunks.take_room(n * span), None if pairs.weight is None else np.zeros(n, np.int64)
    W = room[: n * span].reshape(n, span)
    record(W, X, placed, corner, pairs.difference)
    sign = -1.0 if pairs.difference else 1.0
    gather(lanes, front, W, corner, sign, placed, pairs.start, pairs.cols, pairs.target, pairs.weight, counts)
    enough = (W[:, 0] if counts is None else counts) >= 2 * (rank + 1)
    new = np.flatnonzero(~placed & enough & (W[:, 0] > 0))
    A, b, left = np.empty((len(new), rank, rank)), np.empty((len(new), rank)), np.empty(len(new), bool)
    solve(W, new, corner, pairs.difference, A, b, left, X)
    if left.any():
        X[new[left]] = _by_eigenvalues(A[left], b[left])
    pairs.chunks.leave_room(room)
    placed = placed.copy()
    placed[new] = True
    return X, placed


@njit(**FLAGS)
def record(W: Any, X: Any, placed: Any, corner: int, difference: bool) -> None:
    """Fill the records: those of points that are placed, the others with zeros."""
    rank = X.shape[1]
    for i in range(len(X)):
        for k in range(W.shape[1]):
            W[i, k] = 0.0
        if placed[i]:
            W[i, 0], at, size = 1.0, rank + 1, 0.0
            for k in range(rank):
                W[i, 1 + k] = X[i, k]
                size += X[i, k] * X[i, k]
                for l in range(k + 1):
                    W[i, at + l] = X[i, k] * X[i, l]
                at += k + 1
            for k in range(rank + 1 if difference else 0):
                W[i, corner + k] = size * W[i, k]


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


@njit(**FLAGS)
def solve(W: Any, new: Any, corner: int, difference: bool, A: Any, b: Any, left: Any, X: Any) -> None:
    """Fill the equations Ax = b of new points, and X with their solutions by Cholesky's factors.

    ``left`` says which points have neighbours too near a plane for that.
    """
    rank = X.shape[1]
    C, y = np.empty((rank, rank)), np.empty(rank)
    for q in range(len(new)):
        w, at, trace = W[new[q]], rank + 1, 0.0
        for k in range(rank):
            mean = w[1 + k] / w[0] if difference else 0.0
            for l in range(k + 1):
                A[q, k, l] = A[q, l, k] = w[at + l] - mean * w[1 + l]
            b[q, k] = 0.5 * (w[corner + 1 + k] - w[corner] * mean) if difference else w[corner + 1 + k]
            at += k + 1
            trace += A[q, k, k]
        left[q] = False
        for k in range(rank):
            for l in range(k + 1):
                C[k, l] = A[q, k, l]
                for p in range(l):
                    C[k, l] -= C[k, p] * C[l, p]
                if l < k:
                    C[k, l] *= C[l, l]
            poor = not C[k, k] > 1e-4 * trace
            left[q] |= poor
            C[k, k] = 1.0 if poor else 1.0 / np.sqrt(C[k, k])  # of the diagonal the inverses are kept
            y[k] = b[q, k]
            for p in range(k):
                y[k] -= C[k, p] * y[p]
            y[k] *= C[k, k]
        for k in range(rank - 1, -1, -1):
            for p in range(k + 1, rank):
                y[k] -= C[p, k] * y[p]
            y[k] *= C[k, k]
            X[new[q], k] = y[k]


def _by_eigenvalues(A: Array, b: Array) -> Array:
    """Return the x with Ax = b where neighbours may lie in a plane, which leaves a direction open."""
    values, vectors = np.linalg.eigh(A)
    # in an open direction x stays at 0, the middle of what is placed
    inverse = np.where(values > 1e-10 * values[:, -1:], 1 / np.where(values > 0, values, 1.0), 0.0)
    x: Array = np.einsum("nkl,nl,nml,nm->nk", vectors, inverse, vectors, b, optimize=True)
    return x
