"""Is a misfit what noise leaves, or a local minimum? Small cliques, which are easily solved, show the noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import Array
from quartic.distance.growth import find_clique
from quartic.distance.pair_graph import PairGraph

# Cliques looked for, and the degrees of freedom that their residuals must have together to say something.
_CLIQUES, _ENOUGH = 300, 60
# Residuals of the whole fit may exceed what the cliques show by this factor, in squares.
_FACTOR = 1.5
_STEPS = 12


def noise_explains(
    pairs: NDArray[np.int64], distances: Array, weights: Array | None, X: Array, rng: np.random.Generator
) -> bool | None:
    r"""Tell whether points fit their distances as well as noise allows; None where the data cannot tell.

    A clique of d + 3 points has more distances than coordinates and, all its distances being known, no local minima to
    speak of: what a fit of it alone leaves is noise, and shows its size, :math:`\sum_i s_i^2 (1 - h_i)` being expected
    with leverages h. Over the same pairs the fit of all points cannot leave more than :math:`\sum_i s_i^2`, unless it
    is a local minimum. The law of the noise is unknown; of the same on all distances and in proportion to them the one
    is taken that allows for more. Residuals are those of the loss, :math:`\sqrt w (\|x_i - x_j\|^2 - d^2)`.
    """
    n, d = X.shape
    graph = PairGraph.from_pairs(pairs, n)
    everyone = np.ones(n, dtype=bool)
    k = d + 3
    found = {}
    for v in rng.permutation(np.flatnonzero(graph.core(k - 1)))[:_CLIQUES]:
        clique = find_clique(graph, int(v), k, everyone, rng)
        if clique is not None:
            found[clique.tobytes()] = clique
    first, second = np.triu_indices(k, 1)
    freedom = len(first) - (k * d - d * (d + 1) // 2)
    if len(found) * freedom < _ENOUGH:
        return None
    cliques = np.array(list(found.values()))
    keys = pairs[:, 0] * n + pairs[:, 1]
    order = np.argsort(keys)
    at = order[np.searchsorted(keys[order], cliques[:, first] * n + cliques[:, second])]
    delta = distances[at] ** 2
    root = np.ones_like(delta) if weights is None else np.sqrt(weights[at])
    alone, leverage = _fit_cliques(delta, root, d)
    U = X[cliques[:, first]] - X[cliques[:, second]]
    together = root * (np.sum(U**2, axis=2) - delta)
    allowed = 0.0
    for power in (1, 2):  # noise on d, of squares: 2 d σ, or 2 d² τ
        law = root**2 * delta**power
        allowed = max(allowed, float(np.sum(law) / np.sum(law * (1 - leverage))))
    return bool(np.sum(together**2) <= _FACTOR * allowed * np.sum(alone**2))


def _fit_cliques(delta: Array, root: Array, d: int) -> tuple[Array, Array]:
    """Return residuals √w (q − δ) and leverages of cliques fitted one by one: classical scaling, Gauss–Newton steps."""
    count, m = delta.shape
    k = round((1 + float(np.sqrt(1 + 8 * m))) / 2)
    first, second = np.triu_indices(k, 1)
    B = np.zeros((count, k, k))
    B[:, first, second] = B[:, second, first] = -0.5 * delta
    B -= B.mean(axis=1, keepdims=True)
    B -= B.mean(axis=2, keepdims=True)
    values, vectors = np.linalg.eigh(B)
    X = vectors[:, :, -d:] * np.sqrt(np.maximum(values[:, None, -d:], 0.0))

    def residuals(X: Array) -> tuple[Array, Array]:
        U = X[:, first] - X[:, second]
        return U, root * (np.sum(U**2, axis=2) - delta)

    U, e = residuals(X)
    value, damping = np.sum(e**2, axis=1), np.full(count, 1e-6)

    def jacobian() -> Array:
        J = np.zeros((count, m, k, d))
        J[:, np.arange(m), first] = 2 * root[:, :, None] * U
        J[:, np.arange(m), second] = -2 * root[:, :, None] * U
        return J.reshape(count, m, k * d)

    for _ in range(_STEPS):
        J = jacobian()
        H = np.swapaxes(J, 1, 2) @ J
        trace = np.trace(H, axis1=1, axis2=2) + 1e-300
        H += (damping * trace)[:, None, None] * np.eye(k * d)
        step = -np.linalg.solve(H, (np.swapaxes(J, 1, 2) @ e[:, :, None]))[:, :, 0]
        Y = X + step.reshape(X.shape)
        V, f = residuals(Y)
        new = np.sum(f**2, axis=1)
        better = new < value
        X[better], U[better], e[better], value[better] = Y[better], V[better], f[better], new[better]
        damping = np.clip(np.where(better, damping / 10, damping * 10), 1e-12, 1e6)
    span = np.linalg.svd(jacobian(), full_matrices=False)[0][:, :, : k * d - d * (d + 1) // 2]
    return e, np.sum(span**2, axis=2)
