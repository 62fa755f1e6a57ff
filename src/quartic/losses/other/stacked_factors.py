"""U above V in one tall X: what the losses of rectangular matrices share."""

from __future__ import annotations

import math

import numpy as np

from quartic.arrays import Array


def split_factors(X: Array, shape: tuple[int, int]) -> tuple[Array, Array]:
    """Return the first m and the last n rows of X."""
    if len(X) != sum(shape):
        raise ValueError(f"X must have m + n = {shape[0]} + {shape[1]} rows, U's above V's, got shape {np.shape(X)}")
    return X[: shape[0]], X[shape[0] :]


def rectangular_random(
    n: int, rank: int, nonnegative: bool, mean: float, size: float, generator: np.random.Generator
) -> Array:
    """Return a random start for data with this mean and root mean square, U and V of the same scale."""
    if nonnegative:
        top = math.sqrt(max(abs(mean), 1e-10 * size) / rank)
        return top * np.abs(generator.standard_normal((n, rank)))
    return generator.standard_normal((n, rank)) * math.sqrt(size / math.sqrt(rank))


def in_two(X: Array, m: int, above: Array, below: Array) -> Array:
    """Return an array like X with these rows above and below, no entry far less than the mean."""
    D = np.empty_like(X)
    D[:m], D[m:] = above, below
    return np.maximum(D, 1e-3 * float(D.mean()), out=D)
