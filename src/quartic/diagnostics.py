"""Checks for people who write their own loss, kernel or penalty: is the mathematics what you think it is?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from quartic.arrays import Array, RandomState, inner, norm, random_generator

if TYPE_CHECKING:
    from quartic.kernels import Kernel
    from quartic.losses import Loss
    from quartic.penalties import Penalty


class CheckFailed(AssertionError, ValueError):
    """A check found a fault; the message says which and how large."""


def check_gradient(
    loss: Loss, X: Array | None = None, *, rank: int = 3, n_directions: int = 5, tol: float = 1e-6,
    random_state: RandomState = 0,
) -> float:  # fmt: skip
    """Compare ∇f with central differences of f along random directions.

    Parameters
    ----------
    loss : Loss
        Anything with ``value(X)`` and ``gradient(X)``.
    X : array (n, r), optional
        Where to check; a random point of the given rank when left out.
    rank, n_directions, tol, random_state
        Rank of the random point; directions tried; largest relative error allowed; seed.

    Returns
    -------
    float
        The largest relative error seen.

    Raises
    ------
    CheckFailed
        If it is above ``tol``.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.losses import LeastSquares
    >>> from quartic.diagnostics import check_gradient
    >>> bool(check_gradient(LeastSquares(np.eye(5)), rank=2) < 1e-6)
    True
    """
    generator = random_generator(random_state)
    X = generator.standard_normal((loss.n_points, rank)) if X is None else np.asarray(X, dtype=np.float64)
    G = loss.gradient(X)
    if np.shape(G) != X.shape:
        raise CheckFailed(f"the gradient has shape {np.shape(G)}, X has {X.shape}")
    worst = 0.0
    for _ in range(n_directions):
        D = generator.standard_normal(X.shape)
        D *= max(norm(X), 1e-8) / norm(D)
        exact = inner(G, D)
        error = min(
            abs((loss.value(X + t * D) - loss.value(X - t * D)) / (2 * t) - exact) for t in (1e-3, 1e-4, 1e-5, 1e-6)
        )
        # the central difference of a function of size |f| is only good to eps·|f|/t, whatever the gradient
        floor = np.finfo(float).eps * abs(loss.value(X)) / 1e-4
        worst = max(worst, error / max(abs(exact), norm(G) * norm(D) * 1e-3, floor, 1e-300))
    if not worst <= tol:
        raise CheckFailed(
            f"gradient and value disagree: relative error {worst:.1e} along a random direction (allowed {tol:.0e}); "
            "the gradient of F(XXᵀ) is (∇F + ∇Fᵀ)X, that is 2∇F·X for symmetric ∇F"
        )
    return worst


def check_relative_smoothness(
    loss: Loss, kernel: Kernel, *, L: float = 1.0, rank: int = 3, n_samples: int = 50, random_state: RandomState = 0
) -> float:
    """Check f(X) ≤ f(Y) + ⟨∇f(Y), X − Y⟩ + L·D_h(X, Y) on random X, Y, near and far, small and large.

    Parameters
    ----------
    loss, kernel
        f and h.
    L : float, default=1.0
        The constant claimed.
    rank, n_samples, random_state
        Rank of the random points; how many pairs are tried; seed.

    Returns
    -------
    float
        The smallest L that would have passed on these samples.

    Raises
    ------
    CheckFailed
        If it is above L.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.losses import LeastSquares
    >>> from quartic.kernels import NormKernel
    >>> from quartic.diagnostics import check_relative_smoothness
    >>> loss = LeastSquares(np.eye(5))
    >>> bool(check_relative_smoothness(loss, NormKernel.for_loss(loss)) <= 1)
    True
    """
    generator = random_generator(random_state)
    shape = (loss.n_points, rank)
    natural = (loss.gradient_norm_at_zero / max(loss.smoothness, 1e-300)) ** 0.5 or 1.0
    largest = 0.0
    for _ in range(n_samples):
        Y = generator.standard_normal(shape)
        Y *= natural * 10 ** generator.uniform(-2, 2) / norm(Y)
        D = generator.standard_normal(shape)
        D *= max(norm(Y), natural) * 10 ** generator.uniform(-4, 1) / norm(D)
        p = loss.at(Y)
        move = loss.move(p, Y + D)
        divergence = kernel.divergence(move.point.X, Y)
        if not divergence > 0:
            raise CheckFailed(f"D_h(X, Y) = {divergence:.3e} for X ≠ Y: the kernel is not strictly convex")
        largest = max(largest, (move.remainder - move.allowance) / divergence)
    if largest > L * (1 + 1e-9):
        raise CheckFailed(
            f"the loss is not {L:g}-smooth relative to {kernel!r}: a sample needs L = {largest:.3g}; "
            "enlarge the kernel's constants, or use a solver with a dynamic step"
        )
    return largest


def check_mirror(
    kernel: Kernel,
    penalty: Penalty | None = None,
    *,
    shape: tuple[int, int] = (20, 3),
    t: float = 0.5,
    tol: float = 1e-8,
    n_samples: int = 20,
    random_state: RandomState = 0,
) -> float:
    """Check that ``kernel.mirror(V, penalty, t)`` minimises h(U) + t g(U) − ⟨V, U⟩.

    First order: the gradient of h(U) − ⟨V, U⟩ must be balanced by t ∂g(U). And no random neighbour may be lower.

    Parameters
    ----------
    kernel, penalty
        h and g.
    shape, t, n_samples, random_state
        Shape of V, the factor of g, how many V of different scale are tried, seed.
    tol : float, default=1e-8
        The largest imbalance allowed, relative to ‖V‖.

    Returns
    -------
    float
        The largest imbalance seen.

    Raises
    ------
    CheckFailed
        If the map fails either test.

    Examples
    --------
    >>> from quartic.kernels import NormKernel
    >>> from quartic.penalties import L1
    >>> from quartic.diagnostics import check_mirror
    >>> bool(check_mirror(NormKernel(6.0, 1.0), L1(0.1)) < 1e-12)
    True
    """
    from quartic.penalties import Zero

    generator = random_generator(random_state)
    g = Zero() if penalty is None else penalty
    worst = 0.0
    for _ in range(n_samples):
        V = generator.standard_normal(shape) * 10 ** generator.uniform(-3, 3)
        U = kernel.mirror(V, penalty, t)
        # t·stationarity(U, (∇h(U) − V)/t) is the least element of ∇h(U) − V + t∂g(U)
        imbalance = t * norm(g.stationarity(U, (kernel.gradient(U) - V) / t)) / norm(V)
        worst = max(worst, imbalance)
        if not imbalance <= tol:
            raise CheckFailed(f"∇h(U) + t∂g(U) misses V by {imbalance:.1e} of ‖V‖ (allowed {tol:.0e})")
        here = kernel.value(U) + t * g.value(U) - inner(V, U)
        for _ in range(10):
            W = U + generator.standard_normal(shape) * (norm(U) + norm(V) * 1e-3) * 10 ** generator.uniform(-6, 0)
            W = np.maximum(W, 0) if g.nonnegative else W
            there = kernel.value(W) + t * g.value(W) - inner(V, W)
            size = kernel.value(U) + kernel.value(W) + abs(inner(V, W)) + abs(inner(V, U)) + t * abs(g.value(W))
            if there < here - 1e-12 * size:
                raise CheckFailed(f"a neighbour of mirror(V) is lower by {here - there:.1e}")
    return worst
