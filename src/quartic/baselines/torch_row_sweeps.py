"""The sweep of `quartic.baselines.row_sweeps` for torch tensors: column by column, all rows at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from quartic.arrays.elementwise import small_for


def sweep_rows(X: Any, G: Any, C: Any) -> None:
    """Minimise ½xᵀGx − cᵀx over each entry x_k ≥ 0 in turn, for every row x of X (in place) and c of C."""
    G = np.asarray(G)
    T = C - X @ small_for(X, G)  # the residual t = c − Gx of every row
    weights = small_for(X, G)
    for k in range(X.shape[1]):
        if G[k, k] > 0:
            change = (X[:, k] + T[:, k] / float(G[k, k])).clamp_(min=0).sub_(X[:, k])
            X[:, k] += change
            T.addr_(change, weights[k], alpha=-1.0)
