"""Random problems for property tests."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st

from quartic.losses import Distances, LeastSquares

seeds = st.integers(0, 2**31 - 1)


def symmetric(seed: int, n: int = 12, density: float = 0.5) -> np.ndarray:
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, n)) * (rng.random((n, n)) < density)
    return A + A.T


def some_pairs(seed: int, n: int = 12, share: float = 0.5) -> np.ndarray:
    rng = np.random.default_rng(seed)
    pairs = np.array(np.triu_indices(n, 1)).T
    kept = pairs[rng.random(len(pairs)) < share]
    return kept if len(kept) else pairs[:1]


def make_loss(kind: str, seed: int, n: int = 12):
    rng = np.random.default_rng(seed + 1)
    if kind == "dense":
        return LeastSquares(symmetric(seed, n) * 10 ** rng.uniform(-2, 2))
    if kind == "sparse":
        return LeastSquares(sp.csr_array(symmetric(seed, n, 0.2)))
    if kind == "known entries":
        W = np.where(symmetric(seed + 2, n, 0.3) != 0, rng.uniform(0.5, 1.5), 0)
        np.fill_diagonal(W, 1.0)  # all known, so that the loss is coercive
        return LeastSquares(np.where(W > 0, symmetric(seed, n), np.nan), weights=W)
    pairs = some_pairs(seed, n)
    squared = rng.random(len(pairs)) * 10 ** rng.uniform(-2, 2)
    weights = rng.random(len(pairs)) if kind == "weighted distances" else None
    return Distances(pairs, squared, n, weights)


LOSSES = ("dense", "sparse", "known entries", "distances", "weighted distances")
losses = st.builds(make_loss, st.sampled_from(LOSSES), seeds)
