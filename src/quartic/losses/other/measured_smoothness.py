"""L_F of measurements: the largest eigenvalue of the Gram matrix K_kl = ⟨A_k, A_l⟩, that is of 𝒜𝒜*."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from quartic.arrays import Array
from quartic.losses.other.measurements import WORK, Measurements

# Power iterations for the bound of Collatz and Wielandt, within a few per cent after six; one where each is dear.
_ROUNDS, _QUICK = 6, 2e8
# Gram matrices up to this size are made.
_SMALL = 20
_MARGIN = 1.01


def largest_gram_eigenvalue(measurements: Measurements, count: Callable[[int], None]) -> float:
    """Return an upper bound of λ_max(𝒜𝒜*) = ‖𝒜‖²: proven where the A_k are semidefinite, else with a margin."""
    if measurements.work > WORK:
        count(64)
        return measurements.cheap_bound()

    def product(y: Array) -> Array:
        count(1)
        return measurements.gram_product(y.astype(measurements.dtype, copy=False)).astype(np.float64)

    rounds = _ROUNDS if measurements.work <= _QUICK else 1
    bound = (
        _collatz_wielandt(product, measurements.m, rounds)
        if measurements.semidefinite
        else _lanczos(product, measurements.m)
    )
    # sums of m terms in the data's own precision
    return bound * (1 + 8 * float(np.finfo(measurements.dtype).eps)) if bound > 0 else 1.0


def _collatz_wielandt(product: Callable[[Array], Array], m: int, rounds: int) -> float:
    x, bound = np.ones(m), np.inf
    for _ in range(rounds):
        Kx = product(x)
        bound = min(bound, float((Kx / x).max()))
        if not bound > 0:
            return 0.0
        # half of the old x keeps the new one positive
        x = 0.5 * (x / np.linalg.norm(x) + Kx / np.linalg.norm(Kx))
    return bound


def _lanczos(product: Callable[[Array], Array], m: int) -> float:
    if m <= _SMALL:
        K = np.column_stack([product(e) for e in np.eye(m)])
        return _MARGIN * float(np.linalg.eigvalsh((K + K.T) / 2)[-1])
    operator = LinearOperator((m, m), matvec=lambda v: product(v.ravel()), dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(m)
    try:
        values, vectors = eigsh(operator, k=1, which="LA", v0=start, tol=1e-3, ncv=20, maxiter=20)
    except ArpackNoConvergence as stopped:
        if not len(stopped.eigenvalues):
            return _power(product, start)
        values, vectors = stopped.eigenvalues, stopped.eigenvectors
    v = vectors[:, 0]
    return _MARGIN * (float(values[0]) + float(np.linalg.norm(product(v) - values[0] * v)))


def _power(product: Callable[[Array], Array], x: Array) -> float:
    value = residual = 0.0
    for _ in range(100):
        x = x / np.linalg.norm(x)
        Kx = product(x)
        value = float(x @ Kx)
        residual = float(np.linalg.norm(Kx - value * x))
        x = Kx
    return _MARGIN * (value + residual)
