"""Compiled passes that solve a large problem by way of a small one: pairs among some points, and the others' places."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import Array
from quartic.compiled.flags import FLAGS, njit
from quartic.losses.pairs.pairs import Pairs


@njit(**FLAGS)
def choose_core(start: Any, cols: Any, share: float, least: int) -> Any:
    """Return a mask of about this share of the points, of which each has ``least`` pairs or more with the others.

    The draw is a hash of the point's number, hence always the same. Points with too few pairs are dropped until none
    is left that has; the mask may end up empty.
    """
    n = len(start) - 1
    chosen = np.zeros(n, np.bool_)
    for i in range(n):
        # the finalizer of SplitMix64
        z = np.uint64(i + 1) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        chosen[i] = np.float64((z ^ (z >> np.uint64(31))) >> np.uint64(11)) / 9007199254740992.0 < share
    count = np.empty(n, np.int64)
    dropped = True
    while dropped:
        dropped = False
        count[:] = 0
        for i in range(n):
            if chosen[i]:
                mine = np.int64(0)
                for p in range(start[i], start[i + 1]):
                    j = np.uint64(cols[p])
                    both = np.int64(chosen[j])  # added as a number: a branch could not be foreseen
                    mine += both
                    count[j] += both
                count[i] += mine
        for i in range(n):
            if chosen[i] and count[i] < least:
                chosen[i] = False
                dropped = True
    return chosen


@njit(**FLAGS)
def pairs_among(start: Any, cols: Any, chosen: Any) -> Any:
    """Return which pairs have both points chosen, and start and cols of those pairs, the points numbered anew."""
    n = len(start) - 1
    number = np.empty(n, np.int32)
    size, m = 0, 0
    for i in range(n):
        number[i] = size
        size += chosen[i]
    for i in range(n):
        if chosen[i]:
            for p in range(start[i], start[i + 1]):
                m += chosen[np.uint64(cols[p])]
    # each pair is written where the next one kept belongs, and overwritten if it is not kept: hence one place more
    kept, new_cols, new_start = np.empty(m + 1, np.int64), np.empty(m + 1, np.int32), np.zeros(size + 1, np.int64)
    m = 0
    for i in range(n):
        if chosen[i]:
            for p in range(start[i], start[i + 1]):
                j = np.uint64(cols[p])
                kept[m] = p
                new_cols[m] = number[j]
                m += chosen[j]
            new_start[number[i] + 1] = m
    return kept[:m], new_start, new_cols[:m]


@njit(**FLAGS)
def gather(difference: bool, X: Any, placed: Any, start: Any, cols: Any, target: Any, weight: Any, S: Any) -> None:
    """Sum up what places the points that are not yet.

    For a point i and its placed neighbours j, S_i holds the lower triangle of Σ w a aᵀ with a = (1, x_j, g), where g is
    ‖x_j‖² − b (distances) or b (entries); the last corner holds the number of those neighbours instead of g².
    """
    n, rank = X.shape
    longest = 0
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
            known, other = (np.uint64(i), np.uint64(j)) if here else (np.uint64(j), np.uint64(i))
            w = 1.0 if weight is None else np.float64(weight[p])
            g = np.float64(target[p])
            if difference:
                g = -g
                for k in range(rank):
                    g += X[known, k] * X[known, k]
            S[other, 0] += w
            at = 1
            for k in range(rank):
                wx = w * X[known, k]
                S[other, at] += wx
                for l in range(k + 1):
                    S[other, at + l + 1] += wx * X[known, l]
                at += k + 2
            S[other, at] += w * g
            for k in range(rank):
                S[other, at + k + 1] += w * g * X[known, k]
            S[other, at + rank + 1] += 1.0


def place(pairs: Pairs, X: Array, placed: NDArray[np.bool_]) -> tuple[Array, NDArray[np.bool_]]:
    """Return X with more points placed, and which are: those with 2(r + 1) placed neighbours or more.

    ‖x‖² − 2⟨x, x_j⟩ + ‖x_j‖² = d_j is linear in x and ‖x‖²; x is the least-squares solution over the neighbours j, from
    which ‖x‖² is eliminated by subtracting the mean equation. ⟨x, x_j⟩ = b_j is linear as it is.
    """
    rank, difference = X.shape[1], pairs.difference
    X = X.astype(np.float64)
    if difference:
        X -= X[placed].mean(axis=0)
    S = np.zeros((len(X), (rank + 2) * (rank + 3) // 2))
    gather(difference, X, placed, pairs.start, pairs.cols, pairs.target, pairs.weight, S)
    new = ~placed & (S[:, -1] >= 2 * (rank + 1)) & (S[:, 0] > 0)
    X[new] = least_squares_places(S[new], rank, difference)
    return X, placed | new


def least_squares_places(S: Array, rank: int, difference: bool) -> Array:
    """Return the places that fit the sums of `gather` best, one row a point."""
    places = np.empty((len(S), rank))
    left = _by_factors(S, rank, difference, places)
    if left.any():
        places[left] = _by_eigenvalues(S[left], rank, difference)
    return places


@njit(**FLAGS)
def _by_factors(S: Any, rank: int, difference: bool, places: Any) -> Any:
    """Fill in the places by Cholesky factors, and return which points have neighbours too near a plane for them."""
    left = np.zeros(S.shape[0], np.bool_)
    A, b = np.empty((rank, rank)), np.empty(rank)
    corner = (rank + 1) * (rank + 2) // 2
    for i in range(S.shape[0]):
        trace = 0.0
        for k in range(rank):
            row = (k + 1) * (k + 2) // 2
            mean = S[i, row] / S[i, 0]
            b[k] = S[i, corner + 1 + k]
            if difference:
                b[k] = 0.5 * (b[k] - S[i, corner] * mean)
            for l in range(k + 1):
                A[k, l] = S[i, row + l + 1]
                if difference:
                    A[k, l] -= mean * S[i, (l + 1) * (l + 2) // 2]
            trace += A[k, k]
        for k in range(rank):  # A = CCᵀ in place, b = C⁻¹b along with it
            for l in range(k + 1):
                value = A[k, l]
                for h in range(l):
                    value -= A[k, h] * A[l, h]
                if l < k:
                    A[k, l] = value / A[l, l]
                elif value > 1e-4 * trace:
                    A[k, k] = np.sqrt(value)
                else:
                    left[i] = True
            if left[i]:
                break
            value = b[k]
            for h in range(k):
                value -= A[k, h] * b[h]
            b[k] = value / A[k, k]
        if left[i]:
            continue
        for k in range(rank - 1, -1, -1):
            value = b[k]
            for h in range(k + 1, rank):
                value -= A[h, k] * places[i, h]
            places[i, k] = value / A[k, k]
    return left


def _by_eigenvalues(S: Array, rank: int, difference: bool) -> Array:
    """Return the same where neighbours may lie in a plane, which leaves a direction open."""
    k = np.arange(rank)
    firsts = (k + 1) * (k + 2) // 2  # where Σ w x_j stands, and before the products of its coordinates
    rows, columns = np.tril_indices(rank)
    A = np.zeros((len(S), rank, rank))
    A[:, rows, columns] = A[:, columns, rows] = S[:, firsts[rows] + columns + 1]
    corner = (rank + 1) * (rank + 2) // 2
    right = S[:, corner + 1 : corner + 1 + rank]
    if difference:
        mean = S[:, firsts] / S[:, :1]
        A -= S[:, :1, None] * mean[:, :, None] * mean[:, None, :]
        right = 0.5 * (right - S[:, corner, None] * mean)
    # in an open direction x stays at 0, the middle of what is placed
    values, vectors = np.linalg.eigh(A)
    inverse = np.where(values > 1e-10 * values[:, -1:], 1 / np.where(values > 0, values, 1.0), 0.0)
    coordinates = inverse[:, :, None] * (vectors.transpose(0, 2, 1) @ right[:, :, None])
    places: Array = (vectors @ coordinates)[:, :, 0]
    return places
