"""Noise on the distances: whether it explains a misfit, and how far it lets each point be off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from quartic.arrays import Array, RandomState, finite_matrix, random_generator
from quartic.datasets.points import lengths_between
from quartic.distance.bodies import find_generic_bodies
from quartic.distance.data import Measurements
from quartic.distance.determination import check_anchor_indices, spanning_anchors
from quartic.distance.framework import (
    FEASIBLE,
    Solve,
    Undecided,
    factorised,
    gram_inverse,
    moving_as_one,
    null_samples,
    orthonormal_columns,
    rigid_motions,
    rigidity_matrix,
)
from quartic.distance.graph import Indices, Mask, PairGraph, check_indices, find_clique, mask_of, skeleton

# Cliques looked for; and how many degrees of freedom their residuals, and how many pairs, they must have to say
# something.
_CLIQUES, _ENOUGH = 300, 60
# Residuals of the whole fit may exceed what the cliques show by this factor, in squares.
_FACTOR = 1.5


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
    seeds = np.flatnonzero(graph.core(k - 1))
    for v in rng.choice(seeds, _CLIQUES if len(seeds) else 0):
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
    if len(np.unique(at)) < _ENOUGH:  # cliques that overlap say less than their number
        return None
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
    """Return residuals √w (q − δ) and leverages of cliques fitted one by one: classical scaling, and one step."""
    count, m = delta.shape
    k = round((1 + float(np.sqrt(1 + 8 * m))) / 2)
    first, second = np.triu_indices(k, 1)
    B = np.zeros((count, k, k))
    B[:, first, second] = B[:, second, first] = -0.5 * delta
    B -= B.mean(axis=1, keepdims=True)
    B -= B.mean(axis=2, keepdims=True)
    values, vectors = np.linalg.eigh(B)
    X = vectors[:, :, -d:] * np.sqrt(np.maximum(values[:, None, -d:], 0.0))

    U = 2 * root[:, :, None] * (X[:, first] - X[:, second])
    J = np.zeros((count, m, k, d))
    J[:, np.arange(m), first], J[:, np.arange(m), second] = U, -U
    span = np.linalg.svd(J.reshape(count, m, k * d), full_matrices=False)[0][:, :, : k * d - d * (d + 1) // 2]
    e = root * (np.sum((X[:, first] - X[:, second]) ** 2, axis=2) - delta)
    return e - (span @ (np.swapaxes(span, 1, 2) @ e[..., None]))[..., 0], np.sum(span**2, axis=2)


EXACT_LIMIT = 3000
# Points lie nearly in a hyperplane where they extend across it by no more than this share; noise may hide so many times
# what it takes to reflect one.
FLAT_WHOLE, _UNSEEN = 1e-2, 10.0
# Random signs for the trace that residuals are compared with; its spread is that of some thousand degrees of freedom.
_PROBES = 16


def standard_errors(
    pairs: Indices,
    X: Array,
    sigma: float | Array,
    *,
    anchors: Sequence[int] | Indices | None = None,
    weights: Array | None = None,
    residuals: Array | None = None,
    n_samples: int = 100,
    random_state: RandomState = 0,
) -> Array:
    r"""Return the standard error of each point, from the Gauss–Newton Hessian of the distance residuals.

    With ``J`` the Jacobian of the distances (unit rows of the rigidity matrix), noise of standard deviation ``sigma``
    on them, ``S = diag(sigma^2)``, and the weights ``W`` of the fit, the covariance of the estimate is to first order

    .. math:: C = H^+ J^\top W S W J H^+, \qquad H = J^\top W J,

    which is ``sigma^2 (J^T J)^+`` for equal ``sigma`` and weights. The rigid motions that no anchor prevents are
    projected out: errors are those that remain after the best alignment. A point's standard error is the square root of
    the trace of its d × d block.

    Parameters
    ----------
    pairs : (m, 2) array of int
        The measured pairs; a repeated pair counts as two measurements.
    X : (n, d) array
        The estimate.
    sigma : float or (m,) array
        Standard deviation of the noise on the *distances* (not their squares): known, or estimated from residuals.
    anchors : sequence of int, optional
        Points whose coordinates are known; their error is 0.
    weights : (m,) array, optional
        Weights of the squared distance residuals in the fit. Default: ``1 / sigma^2``, the best ones.
    residuals : (m,) array, optional
        What the fit leaves of each distance. Then ``sigma`` says how the noise of the pairs compares, and its scale
        :math:`\tau` is estimated from the pairs among points that are held:
        :math:`\tau^2 = r^\top W r / \mathrm{E}(r^\top W r)`, the expectation being
        :math:`\mathrm{tr}(WS) - \mathrm{tr}(H^+ J^\top W S W J)` for :math:`\tau = 1`. Points that hang loose, whose
        distances can always be met, take no part in it. Where there are no more pairs than it takes to hold the points,
        all can be met whatever their noise: it cannot be estimated, and the errors are infinite.
    n_samples : int
        For more than 3000 free coordinates the diagonal blocks are estimated by ``n_samples`` random signs on the
        residuals (unbiased for the variances; relative spread of the standard error about ``1 / sqrt(2 d n_samples)``).
        Below, the answer is exact and this is not used.
    random_state : int, Generator or None

    Returns
    -------
    errors : (n,) array
        Infinite where the distances leave a point free to move at X, to first order: not locally rigid against the
        largest rigid part, or in special position (as when all points lie in a plane of the space); and where
        ``residuals`` cannot show the noise.

    Examples
    --------
    Two anchors on a line, a point between them measured from both, and one whose distance to it is known:

    >>> import numpy as np
    >>> from quartic.rigidity import standard_errors
    >>> X = np.array([[0.0], [4.0], [1.0], [2.0]])
    >>> standard_errors(np.array([[0, 2], [1, 2], [2, 3]]), X, 0.1, anchors=[0, 1]).round(4).tolist()
    [0.0, 0.0, 0.0707, 0.1225]
    """
    X = finite_matrix(X, "X").astype(np.float64, copy=False)
    n, d = X.shape
    pairs = check_indices(pairs, n)
    known = check_anchor_indices(anchors, n)
    rng = random_generator(random_state)
    noise = _positive(sigma, "sigma", len(pairs))
    weight = 1 / noise**2 if weights is None else _positive(weights, "weights", len(pairs))
    weight = weight / weight.max(initial=1e-300)
    left = None if residuals is None else np.asarray(residuals, dtype=np.float64)
    if left is not None and left.shape != (len(pairs),):
        raise ValueError(f"residuals must be one number per pair ({len(pairs)}), got shape {left.shape}")
    if n_samples < 1:
        raise ValueError(f"n_samples must be at least 1, got {n_samples}")

    anchor = mask_of(known, n)
    ties = spanning_anchors(X, known)
    spanning = len(ties) == d + 1
    links = skeleton(known if spanning else ties, d)
    graph = PairGraph.from_pairs(np.concatenate([pairs, links]), n)
    bodies, rigid, _ = find_generic_bodies(graph, d, rng, given=known if spanning else None)
    rigid |= anchor
    errors = np.full(n, np.inf)
    while (rigid & ~anchor).any():
        inside = rigid[pairs[:, 0]] & rigid[pairs[:, 1]] & ~(anchor[pairs[:, 0]] & anchor[pairs[:, 1]])
        problem = _Linearised(pairs[inside], X, rigid, anchor, weight[inside], noise[inside])
        try:
            loose = problem.loose_points(rng)
            if not loose.any():
                scale = 1.0 if left is None else problem.noise_scale(left[inside], np.sqrt(weight[inside]), rng)
                if scale < np.inf:
                    errors[rigid & ~anchor] = scale * problem.errors(n_samples, rng)
                    seen = [scale * noise[inside], np.zeros(1) if left is None else left]
                    body = next((body & rigid for body in bodies if (body & rigid).any()), rigid)
                    hidden = _hidden_across(X[body], max(float(np.sqrt(np.mean(part**2))) for part in seen))
                    errors = np.hypot(errors, hidden)
                break
        except Undecided as cause:
            raise RuntimeError(
                f"standard errors of {np.count_nonzero(rigid)} points need a factorisation that does not fit in memory "
                "and the iteration in its place did not converge; ask for a part of the points"
            ) from cause
        rigid &= ~loose
    errors[anchor] = 0.0
    return errors


def _hidden_across(X: Array, sigma: float) -> float:
    """Return by how much noise lets points nearly in a hyperplane lie on its wrong side, which is no small step.

    A point at h from it, reflected, changes distances L to points at δ by 2hδ/L; and h is hardly more than δ.
    """
    extent = np.linalg.svd(X - X.mean(axis=0), compute_uv=False) / np.sqrt(len(X))
    across = extent[(extent <= FLAT_WHOLE * extent[0]) & (extent > 0)]
    return float(np.linalg.norm(np.minimum(across, _UNSEEN * sigma * extent[0] / across)))


def _positive(values: Any, name: str, m: int) -> Array:
    numbers: Array = np.asarray(values, dtype=np.float64)
    if numbers.ndim == 0:
        numbers = np.full(m, float(numbers))
    if numbers.shape != (m,):
        raise ValueError(f"{name} must be a number or one number per pair ({m}), got shape {numbers.shape}")
    bad = ~(np.isfinite(numbers) & (numbers > 0))
    if bad.any():
        k = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"{name} must be positive and finite, but it is {numbers[k]} for pair {k}; leave such pairs out"
        )
    return numbers


class _Linearised:
    """The linear least-squares problem at X for the points in ``rigid`` that are not anchors."""

    def __init__(self, pairs: Indices, X: Array, rigid: Mask, anchor: Mask, weight: Array, noise: Array) -> None:
        self.n, self.d = X.shape
        self.points = np.flatnonzero(rigid & ~anchor)
        self.rigid, self.anchor, self.X = rigid, anchor, X
        self.graph = PairGraph.from_pairs(pairs, self.n)
        self.columns = (self.points[:, None] * self.d + np.arange(self.d)).ravel()
        J = rigidity_matrix(pairs, X, unit=True)
        root = np.sqrt(weight)
        scaled = J.copy()
        scaled.data *= np.repeat(root, 2 * self.d)
        self.J = scaled.tocsc()[:, self.columns].tocsr()
        self.noise = noise * root  # the noise of the weighted residuals
        self.motions = self._free_motions(anchor)
        adjacency = self.graph.matrix[self.points][:, self.points]
        self.solve: Solve
        self.exact = len(self.columns) <= EXACT_LIMIT
        if self.exact:
            H = self.J.T @ self.J
            shift = 1e-13 * max(float(H.diagonal().max(initial=0.0)), 1e-300)
            self.solve = factorised(H + shift * sp.eye_array(H.shape[0]), dense=True)
        else:  # many right-hand sides repay costly factors, and an estimate from samples needs few digits
            self.solve = gram_inverse(self.J, self.d, adjacency, budget=FEASIBLE, tol=1e-4)

    def _free_motions(self, anchor: Mask) -> Array:
        """Return the rigid motions that leave every anchor in place, orthonormal, on the free points."""
        motions = rigid_motions(self.X - self.X[self.points].mean(axis=0) if len(self.points) else self.X)
        if anchor.any():
            fixed = motions.reshape(self.n, self.d, -1)[anchor].reshape(-1, motions.shape[1])
            _, s, rotation = np.linalg.svd(fixed, full_matrices=True)
            rank = int(np.count_nonzero(s > 1e-9 * s.max(initial=0.0)))
            motions = motions @ rotation[rank:].T
        return orthonormal_columns(motions[self.columns]) if motions.shape[1] else motions[self.columns]

    def loose_points(self, rng: np.random.Generator) -> Mask:
        """Return the points that move to first order against the largest set that does not."""
        loose = np.zeros(self.n, dtype=bool)
        if len(self.points) == 0:
            return loose
        scale = float(np.sqrt((self.J * self.J).sum(axis=0).max(initial=0.0)))
        if scale == 0.0:
            loose[self.points] = True
            return loose
        found = null_samples(lambda Z: self.J @ Z, self.solve, self.motions, 4, rng, scale=scale, tol=1e-6)
        if found.shape[1] == 0:
            return loose
        motions = np.zeros((self.n, self.d, found.shape[1]))
        motions[self.points] = found.reshape(len(self.points), self.d, -1)
        loose[self.points] = True
        held = np.flatnonzero(self.rigid & self.anchor)
        return loose & ~moving_as_one(self.X, motions, self.graph, held, rng)

    def noise_scale(self, residuals: Array, root: Array, rng: np.random.Generator) -> float:
        """Return how many times the noise is what was said of it; infinite where no pair is redundant and shows it."""
        if len(self.noise) <= len(self.columns) - self.motions.shape[1]:
            return np.inf
        total = float(self.noise @ self.noise)
        signs = rng.integers(0, 2, size=(len(self.noise), _PROBES)) * 2.0 - 1.0
        pulls = self.J.T @ (signs * self.noise[:, None])
        taken = float(np.sum(pulls * self._respond(pulls))) / _PROBES
        expected = max(total - taken, total / max(len(self.noise), 1))  # one degree of freedom, at the least
        return float(np.linalg.norm(root * residuals)) / expected**0.5 or 1e-77

    def errors(self, n_samples: int, rng: np.random.Generator) -> Array:
        """Return the standard errors of ``points``."""
        if len(self.points) == 0:
            return np.empty(0)
        J = self.J
        variance = np.zeros(len(self.columns))
        if self.exact:
            pseudo_inverse = self._respond(np.eye(len(self.columns)))
            noisy = J.copy()
            noisy.data *= np.repeat(self.noise, np.diff(J.indptr))
            variance = np.sum(pseudo_inverse * ((noisy.T @ noisy) @ pseudo_inverse), axis=0)
        else:
            for start in range(0, n_samples, 16):
                signs = rng.integers(0, 2, size=(J.shape[0], min(16, n_samples - start))) * 2.0 - 1.0
                spread = self._respond(J.T @ (signs * self.noise[:, None]))
                variance += np.sum(spread**2, axis=1) / n_samples
        errors: Array = np.sqrt(np.maximum(variance.reshape(-1, self.d).sum(axis=1), 0.0))  # round-off may be below 0
        return errors

    def _respond(self, pulls: Array) -> Array:
        """Return H⁺ times the pulls, without the rigid motions, which the nearly singular solve lets grow."""
        inside: Array = self.solve(pulls - self.motions @ (self.motions.T @ pulls))
        return inside - self.motions @ (self.motions.T @ inside)


def find_standard_errors(data: Measurements, X: Array, noise: float | None, stress: bool) -> Array:
    """Return the standard error of each point; ``stress`` where the distances themselves were fitted.

    With ``noise`` every distance has noise of that standard deviation. Without, its scale is estimated from the
    residuals, and its law is: the same for all pairs; in proportion to the distance with ``weights="noise"``; with
    weights w of the user's own, w^-1/2 on the squared distances, which is what such weights are for.
    """
    used = data.fixing & (data.guess > 0)
    pairs, d = data.pairs[used], data.guess[used]
    w = np.ones(len(pairs)) if data.weights is None else data.weights[used]
    of_fit = np.ones(len(pairs)) if stress and data.weights is None else 4 * d**2 * w
    left: Array | None = None
    law: Array = np.ones(len(pairs))
    if noise is not None:
        law *= noise
    else:
        left = lengths_between(X, pairs) - d
        if data.proportional:
            law = d
        elif data.weights is not None:
            law = 1 / (2 * d * np.sqrt(w))
    return standard_errors(pairs, X, law, anchors=data.anchors, weights=of_fit, residuals=left, random_state=0)
