"""How well a factor predicts similarities that it has not seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from quartic.arrays import Array
from quartic.baselines.nnls import solve_nnls


def held_out_fit(S: Any, X: Array) -> float:
    r"""Return the share of the similarities S (m, n) of new nodes that the factor X (n, r) predicts: at most 1.

    The n known nodes are cut in two halves at random. A new node's row y of the factor follows from its similarities to
    one half, and is judged by those to the other:

    .. math:: 1 - \frac{\sum \|s_B - y X_B^\top\|^2}{\sum \|s_B\|^2}, \qquad
              y = \operatorname{argmin}_{y \ge 0} \|s_A - y X_A^\top\|,

    both ways round (bi-cross-validation, Owen and Perry 2009). Unlike the error of the fit, it gets worse again when r
    is too large. No m × n matrix is made.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.clustering.scoring import held_out_fit
    >>> X = np.kron(np.eye(2), np.ones((6, 1)))
    >>> round(held_out_fit(X @ X.T, X), 12)
    1.0
    """
    n, rank = X.shape
    X = X.astype(np.float64, copy=False)
    order = np.random.default_rng(0).permutation(n)
    S = sp.csc_array(S) if sp.issparse(S) else np.asarray(S)
    error = size = 0.0
    for A, B in ((order[: n // 2], order[n // 2 :]), (order[n // 2 :], order[: n // 2])):
        Y = solve_nnls(X[A].T @ X[A], np.asarray(S[:, A] @ X[A]), np.zeros((S.shape[0], rank)))
        seen = S[:, B]
        square = float(np.square(seen.data if sp.issparse(seen) else seen, dtype=np.float64).sum())
        fit = float((np.asarray(seen @ X[B]) * Y).sum())
        error += square - 2 * fit + float(((Y.T @ Y) * (X[B].T @ X[B])).sum())
        size += square
    return 1 - error / size if size > 0 else 0.0
