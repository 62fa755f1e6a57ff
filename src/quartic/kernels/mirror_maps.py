"""The table of closed-form mirror maps: which kernel goes with which penalty, and how.

A mirror map is ``argmin_U h(U) + t g(U) − ⟨V, U⟩``. For the norm kernel every one of them has the form W / z: a
pointwise map of V gives W, and one scalar z = α‖U‖² + σ, from a cubic equation, gives the length.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from quartic.arrays import Array, as_floats, astype, falling_order, namespace, positive_part
from quartic.kernels.gram_subproblem import gram_mirror
from quartic.kernels.norm import norm_length, unit_cubic_root
from quartic.penalties import L0, L1, Nonnegative, NonnegativeL1, NonnegativeRidge, Penalty, Ridge, Zero

if TYPE_CHECKING:
    from quartic.kernels.base import Kernel

MirrorMap: TypeAlias = Callable[[Any, Array, Any, float], Array]


def _norm_pointwise(kernel: Any, V: Array, penalty: Penalty, t: float) -> Array:
    # The maps of these penalties do not depend on the scale z: W = prox(V, t).
    return norm_length(penalty.prox(V, t), kernel.alpha, kernel.sigma)


def _norm_ridge(kernel: Any, V: Array, penalty: Any, t: float) -> Array:
    W = positive_part(V) if penalty.nonnegative else V
    return norm_length(W, kernel.alpha, kernel.sigma + t * penalty.weight)


def _norm_l0(kernel: Any, V: Array, penalty: Any, t: float) -> Array:
    """Keep the k largest |V|, where k minimises k·t·weight − h*(‖V_top-k‖), convex in k.

    With p = ‖U‖² the conjugate is h* = ¾αp² + ½σp, and ‖V‖² = p(αp + σ)². Taking one more entry v adds v² to ‖V‖²;
    what it adds to p and to h* follows from divided differences, without cancellation.
    """
    alpha, sigma = kernel.alpha, kernel.sigma
    xp, flat = namespace(V), V.reshape(-1)
    order = falling_order(abs(flat))
    squares = astype(flat[order], np.float64) ** 2
    length = math.sqrt(sigma / alpha)
    y = unit_cubic_root(xp.sqrt(xp.cumsum(squares, 0)) / (length * sigma))
    p = (length * y) ** 2
    before = xp.zeros_like(p)
    before[1:] = p[:-1]
    slope = alpha**2 * (p * p + p * before + before * before) + 2 * alpha * sigma * (p + before) + sigma**2
    gain = squares / slope * (0.75 * alpha * (p + before) + 0.5 * sigma)
    kept = order[: int((gain > t * penalty.weight).sum())]
    W = xp.zeros_like(flat)
    W[kept] = flat[kept]
    return norm_length(W.reshape(V.shape), alpha, sigma)


def _gram_plain(kernel: Any, V: Array, penalty: Penalty, t: float) -> Array:
    return gram_mirror(V, kernel.alpha, kernel.beta, kernel.sigma)


def _gram_ridge(kernel: Any, V: Array, penalty: Any, t: float) -> Array:
    return gram_mirror(V, kernel.alpha, kernel.beta, kernel.sigma + t * penalty.weight)


def _euclidean(kernel: Any, V: Array, penalty: Penalty, t: float) -> Array:
    return penalty.prox(V, t)


# The table. A kernel of one's own brings its own `mirror` and needs no row here.
_ANY: Any = Penalty
MIRROR_MAPS: dict[str, dict[type[Penalty], MirrorMap]] = {
    "NormKernel": {
        Zero: _norm_pointwise,
        Nonnegative: _norm_pointwise,
        L1: _norm_pointwise,
        NonnegativeL1: _norm_pointwise,
        L0: _norm_l0,
        Ridge: _norm_ridge,
        NonnegativeRidge: _norm_ridge,
    },
    "GramKernel": {Zero: _gram_plain, Ridge: _gram_ridge},
    "EuclideanKernel": {_ANY: _euclidean},
}

_NO_PENALTY = Zero()


def find_mirror_map(kernel: Kernel, penalty: Penalty) -> MirrorMap:
    """Return the map of this pair, or raise a ValueError that lists the pairs that exist."""
    # by name along the ancestors: a kernel derived from one of the table's has its maps
    row = next((MIRROR_MAPS[cls.__name__] for cls in type(kernel).__mro__ if cls.__name__ in MIRROR_MAPS), {})
    found = row.get(type(penalty)) or row.get(_ANY)
    if found is None:
        pairs = "; ".join(
            f"{name} with {', '.join(cls.__name__ if cls is not _ANY else 'any penalty' for cls in penalties)}"
            for name, penalties in MIRROR_MAPS.items()
        )
        raise ValueError(
            f"no closed-form mirror map for {type(kernel).__name__} with {type(penalty).__name__}; there are: {pairs}"
        )
    return found


def mirror_map(kernel: Kernel, V: Array, penalty: Penalty | None, t: float) -> Array:
    """Return argmin_U  h(U) + t g(U) − ⟨V, U⟩ by the map of the table."""
    if not t >= 0:
        raise ValueError(f"t must be nonnegative, got {t!r}")
    penalty = _NO_PENALTY if penalty is None else penalty
    return find_mirror_map(kernel, penalty)(kernel, as_floats(V), penalty, t)
