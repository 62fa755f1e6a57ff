"""The quick proof for graphs that are linked well everywhere: some random points are globally rigid, the rest follows.

Global rigidity only grows with more distances, and by trilateration. Random points that are linked to some twenty
others of their kind are an expander where pairs were drawn at random; then conjugate gradients converge in some tens of
steps, and a stress matrix whose kernel is no larger than it must be proves these points determined (Gortler, Healy and
Thurston 2010). Where the iteration does not converge so soon there may be a narrow place, and slower tests decide.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from quartic.arrays import Array
from quartic.distance.framework import orthonormal_columns, rigidity_matrix, stress_matrix
from quartic.distance.null_space import Undecided, diagonal_blocks, preconditioned_cg
from quartic.distance.pair_graph import Indices, Mask
from quartic.distance.parts import shell

# So many points are drawn that each is linked to this many times d + 1 of them; the fewest for which it is worth it.
_EACH, _FEWEST = 6, 100
# Points with fewer than this share of the mean number of pairs follow by trilateration: with them the stress matrix
# would be indefinite.
_CORE = 0.6
# Steps of the two iterations, and their tolerances. A kernel that is too large shows in a random right-hand side with a
# share of n^-1/2, far above the second.
_STEPS, _STRESS, _KERNEL = 120, 1e-10, 1e-8


def is_well_linked(pairs: Indices, n: int, d: int, rng: np.random.Generator) -> bool:
    """Tell whether random points and trilateration prove that all n points are determined in generic position.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.datasets import random_pairs
    >>> from quartic.distance.well_linked import is_well_linked
    >>> is_well_linked(random_pairs(400, 0.1, random_state=0), 400, 3, np.random.default_rng(0))
    True
    >>> ring = np.column_stack([np.arange(400), np.roll(np.arange(400), 1)])
    >>> is_well_linked(ring, 400, 3, np.random.default_rng(0))
    False
    """
    if n < _FEWEST or len(pairs) < (d + 1) * n:
        return False
    share = max(_EACH * (d + 1) * n / (2 * len(pairs)), _FEWEST / n)
    chosen = rng.random(n) < share
    drawn = pairs[chosen[pairs[:, 0]] & chosen[pairs[:, 1]]]
    degree = 2 * len(drawn) / max(int(np.count_nonzero(chosen)), 1)
    inside = _core(drawn, chosen, max(d + 2, int(_CORE * degree)))
    n_inside = int(np.count_nonzero(inside))
    if n_inside <= d + 1 or not _grows_to_all(pairs, inside, d):
        return False
    number = np.cumsum(inside) - 1
    try:
        return _has_small_stress_kernel(number[drawn[inside[drawn].all(axis=1)]], n_inside, d, rng)
    except Undecided:
        return False


def _core(pairs: Indices, inside: Mask, k: int) -> Mask:
    """Return the points inside that are left when those with fewer than k pairs are taken off, repeatedly."""
    n = len(inside)
    while True:
        fewer = inside & (np.bincount(pairs.ravel(), minlength=n) >= k)
        if (fewer == inside).all():
            return inside
        inside = fewer
        pairs = pairs[inside[pairs].all(axis=1)]


def _grows_to_all(pairs: Indices, inside: Mask, d: int) -> bool:
    """Tell whether all points follow by trilateration from those inside."""
    n = len(inside)
    i, j = pairs[:, 0], pairs[:, 1]
    while not inside.all():
        count = np.bincount(i[inside[j]], minlength=n) + np.bincount(j[inside[i]], minlength=n)
        fresh = ~inside & (count > d)
        if not fresh.any():
            return False
        inside = inside | fresh
        left = ~(inside[i] & inside[j])
        i, j = i[left], j[left]
    return True


def _has_small_stress_kernel(pairs: Indices, n: int, d: int, rng: np.random.Generator) -> bool:
    """Tell whether a random stress at random positions has an affine kernel; raise Undecided where it is not seen."""
    P = shell(n, d, rng)
    R = rigidity_matrix(pairs, P)
    transposed = sp.csr_array(R.T)
    inverses = np.linalg.inv(diagonal_blocks(R, d))

    def precondition(Z: Array) -> Array:
        product: Array = np.matmul(inverses, Z.reshape(-1, d, Z.shape[1])).reshape(Z.shape)
        return product

    stress: Array = 1.0 + 0.1 * rng.standard_normal(len(pairs))
    force = transposed @ stress[:, None]
    motion = preconditioned_cg(lambda Z: transposed @ (R @ Z), precondition, force, tol=_STRESS, max_iter=_STEPS)
    stress -= (R @ motion)[:, 0]
    Omega = stress_matrix(pairs, stress, n)
    diagonal = Omega.diagonal()[:, None]
    if diagonal.min() <= 0:
        return False
    affine = orthonormal_columns(np.column_stack([np.ones(n), P]))
    b: Array = rng.standard_normal((n, 1))
    b -= affine @ (affine.T @ b)
    preconditioned_cg(lambda Z: Omega @ Z, lambda Z: Z / diagonal, b, tol=_KERNEL, max_iter=_STEPS)
    return True
