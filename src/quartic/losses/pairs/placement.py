"""A large problem by way of a small one: pairs among some points, and the others' places by least squares."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import Array
from quartic.compiled.flags import FLAGS, njit
from quartic.compiled.vectors import lanes_for, load, store
from quartic.losses.pairs.descent import factor_blocks, solve_blocks, unpacking
from quartic.losses.pairs.pairs import Pairs

# Where tr A · tr A⁻¹ is above this, neighbours are too near a plane for inverses.
_PLANE = 1e5


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
    W, x, (k, l) = room[: n * span].reshape(n, span), X[placed], np.tril_indices(rank)
    own = np.zeros((len(x), span))
    own[:, 0], own[:, 1 : rank + 1], own[:, rank + 1 : rank + 1 + len(k)] = 1.0, x, x[:, k] * x[:, l]
    if pairs.difference:
        own[:, corner : corner + rank + 1] = np.einsum("ik,ik->i", x, x)[:, None] * own[:, : rank + 1]
    W[:], W[placed] = 0.0, own
    sign = -1.0 if pairs.difference else 1.0
    gather(lanes, front, W, corner, sign, placed, pairs.start, pairs.cols, pairs.target, pairs.weight, counts)
    enough = (W[:, 0] if counts is None else counts) >= 2 * (rank + 1)
    new = np.flatnonzero(~placed & enough & (W[:, 0] > 0))
    A, b = equations(W[new], rank, corner, pairs.difference)
    x, inverse = np.empty((len(new), rank)), factor_blocks(A, 0.0, rank)
    solve_blocks(inverse, b, x)
    left = ~(A[:, k == l].sum(axis=1) * inverse[:, :: rank + 1].sum(axis=1) < _PLANE)
    if left.any():
        x[left] = _by_eigenvalues(A[left][:, unpacking(rank, rank)[0]].reshape(-1, rank, rank), b[left])
    X[new] = x
    pairs.chunks.leave_room(room)
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
        for o in range(none, span, width):
            mine = load(lanes, W, i, o)
            for q in range(m):
                p = across[q]
                w = 1.0 if weight is None else np.float64(weight[p])
                j = np.int64(cols[p])
                if here:
                    store(W, j, o, load(lanes, W, j, o) + w * mine)
                else:
                    mine = mine + w * load(lanes, W, j, o)
            if not here:
                store(W, i, o, mine)
        own, mine = load(front, W, i, none), load(front, W, i, corner)
        for q in range(m):
            p = across[q]
            w = sign * np.float64(target[p]) * (1.0 if weight is None else np.float64(weight[p]))
            j = np.int64(cols[p])
            if here:
                store(W, j, corner, load(front, W, j, corner) + w * own)
            else:
                mine = mine + w * load(front, W, j, none)
            if weight is not None:
                counts[np.uint64(j if here else i)] += 1
        if not here:
            store(W, i, corner, mine)


@njit(**FLAGS)
def equations(W: Any, rank: int, corner: int, centred: bool) -> Any:
    """Return A, packed, and b of the equations Ax = b in the records, less the mean equation where ``centred``."""
    A, b = np.empty((len(W), rank * (rank + 1) // 2)), np.empty((len(W), rank))
    for i in range(len(W)):
        at = 0
        for k in range(rank):
            mean = W[i, 1 + k] / W[i, 0] if centred else 0.0
            b[i, k] = (0.5 if centred else 1.0) * (W[i, corner + 1 + k] - mean * W[i, corner])
            for l in range(k + 1):
                A[i, at] = W[i, rank + 1 + at] - mean * W[i, 1 + l]
                at += 1
    return A, b


def _by_eigenvalues(A: Array, b: Array) -> Array:
    """Return the x with Ax = b where neighbours may lie in a plane, which leaves a direction open."""
    values, vectors = np.linalg.eigh(A)
    # in an open direction x stays at 0, the middle of what is placed
    inverse = np.where(values > 1e-10 * values[:, -1:], 1 / np.where(values > 0, values, 1.0), 0.0)
    x: Array = np.einsum("nkl,nl,nml,nm->nk", vectors, inverse, vectors, b, optimize=True)
    return x
