"""L_F of measurements: the largest eigenvalue of the Gram matrix K_kl = ⟨A_k, A_l⟩, that is of 𝒜𝒜*."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from quartic.arrays import Array
from quartic.losses.factor.spectrum import upper_bound_of_spectrum
from quartic.losses.other.measurements import WORK, Measurements

# Power iterations for the bound of Collatz and Wielandt, within a few per cent after six; one where each is dear.
_ROUNDS, _QUICK = 6, 2e8
# Gram matrices up to this size are made.
_SMALL = 20


def largest_gram_eigenvalue(measurements: Measurements, count: Callable[[int], None]) -> float:
    """Return an upper bound of λ_max(𝒜𝒜*) = ‖𝒜‖².

    Proven where the A_k are semidefinite and the work is not too much, else but for a probability of about 1e-6.
    """
    if measurements.work > WORK:
        return measurements.cheap_bound(count)

    def product(y: Array) -> Array:
        count(1)
        return measurements.gram_product(y.astype(measurements.dtype, copy=False)).astype(np.float64)

    rounds = _ROUNDS if measurements.work <= _QUICK else 1
    eps = float(np.finfo(measurements.dtype).eps)
    if measurements.semidefinite:
        bound = _collatz_wielandt(product, measurements.m, rounds) * (1 + 8 * eps)  # sums of m terms
    else:
        bound = upper_bound_of_spectrum(_by_columns(product), measurements.m, eps, _SMALL)
    return bound if bound > 0 else 1.0


def _by_columns(product: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda Y: np.column_stack([product(y) for y in Y.T])


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
